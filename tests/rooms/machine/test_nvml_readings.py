"""Readings of a GPU that answers, through the real nvidia-ml-py and a library built in C."""

import queue
import time

import pytest
from tests.helpers.command_line import PATIENCE_S
from tests.helpers.machine.nvml_library import NOT_SUPPORTED
from tests.helpers.machine.nvml_machine import NOT_THERE, Machine, unknown

from cpugpu_tui.machine.nvml.probe import GpuProbe
from cpugpu_tui.machine.nvml.session import SLOW_S
from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.model import Reading, TelemetryRead
from cpugpu_tui.telemetry.sampler import Sampler

ALL_ZERO = "0000-4000-8000-000000000000"


# ------------------------------------------------------------------ a healthy machine


def test_a_healthy_gpu_has_a_number_for_everything(fake_nvml, machine):
    machine.rows()
    row, _ = machine.rows(SLOW_S)
    assert tuple(row.readings) == KEYS
    assert unknown(row) == NOT_THERE
    assert {key: row.readings[key].value for key in ("power_mw", "power_average_mw", "memory_temperature_c")} == {
        "power_mw": 84140,
        "power_average_mw": 83920,
        "memory_temperature_c": 36,
    }
    assert row.readings["memory_reserved_bytes"].value == 600_000_000
    assert (row.readings["pcie_generation"].value, row.readings["pcie_max_width"].value) == (5, 16)
    assert row.readings["energy_mj"].value == 3_102_992
    assert row.readings["throttled_power_cap_pct"].value == 0, "15 814 s of throttling are history"
    assert row.persistence is True


def test_what_costs_milliseconds_is_asked_rarely_or_never(fake_nvml, machine):
    machine.rows()
    fake_nvml.forget_calls()
    machine.rows(1)
    fast = fake_nvml.calls()
    assert not {"field:83", "field:270", "field:271", "nvmlDeviceGetMaxClockInfo"} & set(fast)
    assert not [name for name in fast if "Ecc" in name or "Fan" in name or "Processes" in name]
    machine.rows(SLOW_S)
    slow = fake_nvml.calls()
    assert {"field:83", "field:270", "field:271"} <= set(slow)
    assert "nvmlDeviceGetMaxClockInfo" not in slow, "1.6 ms, and they do not change"
    assert not [name for name in slow if "Throughput" in name or "Graphics" in name]


def test_while_a_run_is_live_the_dear_values_only_age(fake_nvml, machine):
    machine.rows()
    fake_nvml.forget_calls()
    fake_nvml.set("power_limit", 400_000)
    row, _ = machine.rows(SLOW_S, quiet=True)
    asked = set(fake_nvml.calls())
    assert not {"field:83", "field:270", "field:271", "nvmlDeviceGetTotalEccErrors"} & asked
    energy = row.readings["energy_mj"]
    assert (energy.value, energy.age_s) == (3_102_992, pytest.approx(SLOW_S, abs=0.1))
    assert row.readings["power_limit_mw"] == Reading(400_000.0), "what is cheap goes on"


@pytest.mark.parametrize("quiet", [False, True])
def test_a_sampler_is_made_quiet_from_outside(fake_nvml, tmp_path, quiet):
    fake_nvml.use()
    events: queue.SimpleQueue[TelemetryRead] = queue.SimpleQueue()
    sampler = Sampler(0.05, events.put, root=str(tmp_path))
    sampler.quiet = quiet
    sampler.start()
    try:
        while not (event := events.get(timeout=PATIENCE_S)).gpus:
            pass
    finally:
        sampler.stop()
    assert sampler.quiet is quiet
    assert event.gpus[0].readings["energy_mj"].value == (None if quiet else 3_102_992)
    assert ("field:83" in fake_nvml.calls()) is not quiet


# ------------------------------------------------------------------ counters


def test_throttling_is_a_share_of_the_time_between_two_sweeps(fake_nvml, machine):
    fake_nvml.set("field:74", 15_814_000_000_000, gpu=0, rate_per_s=4e8)
    fake_nvml.set("field:270", 7, gpu=0, rate_per_s=1e8)
    first, _ = machine.rows()
    assert first.readings["throttled_power_cap_pct"].reason == "not-yet"
    row, other = machine.rows(SLOW_S)
    assert row.readings["throttled_power_cap_pct"].value == pytest.approx(40, abs=1)
    assert row.readings["throttled_hw_thermal_pct"].value == pytest.approx(10, abs=1)
    assert other.readings["throttled_power_cap_pct"].value == 0


def test_a_counter_that_was_reset_says_so_and_goes_on(fake_nvml, machine):
    machine.rows()
    fake_nvml.set("field:74", 0, gpu=0)
    row, other = machine.rows(1)
    assert row.readings["throttled_power_cap_pct"] == Reading(None, "counter-reset")
    assert other.readings["throttled_power_cap_pct"].value == 0
    assert machine.rows(1)[0].readings["throttled_power_cap_pct"].value == 0


def test_pcie_bytes_that_wrap_are_a_rate_all_the_same(fake_nvml, machine):
    now_us = time.time_ns() // 1000
    fake_nvml.set("clock_us", now_us)
    machine.rows()
    fake_nvml.set("field:197", 2**32 - 40_000, gpu=0)

    def a_millisecond_later():
        fake_nvml.set("field:197", 40_000, gpu=0)
        fake_nvml.set("clock_us", now_us + 1000)

    machine.while_paused = a_millisecond_later
    row, other = machine.rows(1)
    assert row.readings["pcie_tx_bytes_per_s"].value == pytest.approx(80_000 / 1e-3)
    assert row.readings["pcie_rx_bytes_per_s"].value == 0
    assert other.readings["pcie_tx_bytes_per_s"].value == 0
    assert machine.pauses == 1, "one pause for all GPUs"


def test_wide_pcie_counters_need_no_pause(fake_nvml, machine):
    for field in (197, 198):
        fake_nvml.set(f"width:{field}", 64)
        fake_nvml.set(f"field:{field}", 2**40, rate_per_s=5e10)
    machine.rows()
    row, _ = machine.rows(1)
    assert row.readings["pcie_rx_bytes_per_s"].value == pytest.approx(5e10, rel=0.01)
    assert machine.pauses == 0


def test_slow_values_are_not_read_between_the_two_looks_at_pcie(fake_nvml, machine):
    machine.rows()
    machine.while_paused = fake_nvml.forget_calls
    machine.rows(SLOW_S)
    after = fake_nvml.calls()
    assert "field:197" in after
    assert not {"field:83", "field:270", "nvmlDeviceGetFanSpeed"} & set(after), "eight GPUs would take 0.1 s for those"


def test_nvlink_is_the_sum_of_all_links(fake_nvml, machine):
    fake_nvml.set("field:91", 18, gpu=0)
    fake_nvml.set("field:138", 10**9, gpu=0, rate_per_s=1e8)
    machine.rows()
    row, other = machine.rows(1)
    assert row.readings["nvlink_links"].value == 18
    assert row.readings["nvlink_tx_bytes_per_s"].value == pytest.approx(1024e8, rel=0.01), "the counter is of KiB"
    assert row.readings["nvlink_rx_bytes_per_s"].value == 0
    assert other.readings["nvlink_tx_bytes_per_s"].reason == "not-supported"


def test_links_that_refuse_are_not_asked_for_ever(fake_nvml, machine):
    fake_nvml.set("field:91", 18)
    for field in (138, 139):
        fake_nvml.fail(f"field:{field}", NOT_SUPPORTED)
    assert machine.rows()[0].readings["nvlink_tx_bytes_per_s"].reason == "not-supported"
    fake_nvml.forget_calls()
    machine.rows(1)
    assert "field:138" not in fake_nvml.calls()


# ------------------------------------------------------------------ GPM, MIG, order


def test_gpm_is_read_when_asked_for_and_its_samples_are_given_back(fake_nvml, tmp_path):
    machine = Machine(fake_nvml, tmp_path, gpm=True)
    assert machine.rows()[0].readings["tensor_active_pct"].reason == "not-yet"
    row, _ = machine.rows(0.5)
    found = [row.readings[key].value for key in ("sm_occupancy_pct", "tensor_active_pct", "dram_active_pct")]
    assert found == [30, 50, 100]
    fake_nvml.forget_calls()
    assert machine.rows(0.05)[0].readings["tensor_active_pct"] == Reading(50.0, None, pytest.approx(0.05))
    assert "nvmlGpmSampleGet" not in fake_nvml.calls(), "samples lie 0.1 s apart"
    machine.rows(0.2)
    machine.nvml.close()
    assert "held:0" in fake_nvml.calls(), "no sample is left when the session ends"


def test_mig_shows_slices_and_says_what_the_whole_gpu_does_not_know(fake_nvml, machine):
    fake_nvml.set("mig", 2, gpu=0)
    fake_nvml.set("process:99999999@1", 1 << 20, gpu=0)
    row, whole = machine.rows()
    assert row.readings["kernel_active_pct"] == Reading(None, "mig")
    assert row.readings["memory_active_pct"] == Reading(None, "mig")
    assert row.readings["power_mw"].value == 84140, "the board's"
    assert [instance.uuid for instance in row.instances] == [
        "MIG-00000000-0000-4000-8000-000000000000",
        "MIG-00000000-0001-4000-8000-000000000000",
    ]
    assert [instance.readings["memory_total_bytes"].value for instance in row.instances] == [18_790_481_920] * 2
    assert [len(instance.processes or ()) for instance in row.instances] == [0, 1]
    assert row.processes == (), "the driver lists it under its GPU too: it is told once, where it runs"
    assert [process.pid for process in row.everyone or ()] == [99999999]
    assert whole.instances == ()
    fake_nvml.set("mig", 0, gpu=0)
    assert machine.rows(SLOW_S)[0].instances == ()


def test_a_gpu_is_who_its_uuid_says_whatever_the_order(fake_nvml, machine):
    fake_nvml.set("clock:1", 1111, gpu=1)
    fake_nvml.set("reversed", 1)
    first, second = machine.rows()
    assert (first.index, first.uuid, first.readings["sm_clock_mhz"].value) == (0, f"GPU-00000001-{ALL_ZERO}", 1111)
    assert (second.index, second.uuid) == (1, f"GPU-00000000-{ALL_ZERO}")
    assert GpuProbe(f"GPU-00000001-{ALL_ZERO}").sm_clock_mhz() == 1111
