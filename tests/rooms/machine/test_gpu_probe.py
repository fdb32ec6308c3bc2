"""The benchmark's view of one GPU, with the real nvidia-ml-py and a fake driver."""

import os

import pytest
from tests.helpers.machine.nvml_library import NOT_SUPPORTED

from cpugpu_tui.machine.device_state import EDGE_KEYS, Edge, company, process_text
from cpugpu_tui.machine.nvml.probe import GpuProbe
from cpugpu_tui.model import Reading
from cpugpu_tui.timing.device_readings import GpuWatcher, passage

UUID = "GPU-{:08x}-0000-4000-8000-000000000000"
GIB = 1 << 30
COSTLY = {"field:83", "field:270", "field:271"}


def probe(number=0, root="/"):
    return GpuProbe(UUID.format(number), root)


def test_a_half_round_costs_one_batch_and_nothing_that_is_slow(fake_nvml):
    fake_nvml.use()
    gpu = probe()
    fake_nvml.forget_calls()
    gpu.edge()
    calls = fake_nvml.calls()
    assert calls.count("nvmlDeviceGetFieldValues") == 1
    assert not COSTLY & set(calls)
    assert "nvmlDeviceGetPcieThroughput" not in calls
    assert len([call for call in calls if call.startswith("nvml")]) == 3  # clock, mask, fields


def test_throttled_time_is_counted_from_the_edge_on(fake_nvml):
    # Its counter of the power cap stands at 15 814 s from the start, as a card in the field had it.
    fake_nvml.use()
    gpu = probe()
    before = gpu.edge()
    assert passage(before, gpu.edge()).throttled_ns == {"power-capped": 0.0, "sync-boost": 0.0, "thermal": 0.0}
    fake_nvml.set("field:74", 15_814_000_000_000 + 40_000_000)
    seen = passage(before, Edge(before.at_ns + 100e6, throttled_ns=gpu.edge().throttled_ns))
    assert (seen.throttled_ns["power-capped"], seen.marks) == (40e6, ("power-capped",))


def test_each_value_of_a_case_has_a_number_or_its_own_reason(fake_nvml):
    fake_nvml.use()
    fake_nvml.fail("field:83", NOT_SUPPORTED)
    fake_nvml.fail("field:270", 4)
    readings = probe().state().readings
    assert tuple(readings) == EDGE_KEYS
    assert readings["energy_mj"] == Reading(None, "not-supported")
    assert readings["throttled_hw_thermal_ns"] == Reading(None, "no-permission")
    assert readings["throttled_power_cap_ns"].value == 15_814e9
    assert readings["throttled_power_cap_ns"].is_stamped
    assert readings["temperature_c"].value == 32


def test_energy_and_power_carry_the_drivers_own_time(fake_nvml):
    fake_nvml.use()
    gpu = probe()
    assert gpu.energy_mj().value == 3_102_992
    assert gpu.energy_mj().is_stamped
    fake_nvml.set("unstamped", 1)
    assert not gpu.power_mw().is_stamped


def test_only_an_average_of_the_power_is_known_as_one(fake_nvml):
    fake_nvml.use()
    fake_nvml.fail("field:186", NOT_SUPPORTED)
    edge = probe().edge()
    assert edge.power_mw.value == 83_920
    assert edge.is_average_power


def test_a_pid_that_nobody_here_knows_is_shown_and_flagged(fake_nvml):
    fake_nvml.use()
    fake_nvml.set("process:99999", GIB, gpu=0)
    gpu = probe()
    fake_nvml.set(f"process:{os.getpid()}", GIB, gpu=0)
    state = gpu.state()
    found = company([(state.processes, state.readings["memory_used_bytes"])])
    assert found.is_shared
    assert [process_text(process) for process in found.others] == ["pid 99999 (outside namespace)"]


def test_in_a_container_our_own_process_is_the_one_that_came_with_us(fake_nvml, tmp_path):
    fake_nvml.use()
    fake_nvml.set("process:99999", GIB, gpu=0)
    gpu = probe(root=str(tmp_path))
    fake_nvml.set("process:88888", GIB, gpu=0)
    assert [(process.pid, process.own) for process in gpu.state().processes or ()] == [(88888, True), (99999, False)]


def test_a_slice_knows_its_board_and_its_own_memory(fake_nvml):
    fake_nvml.use()
    fake_nvml.set("mig", 2, gpu=0)
    gpu = GpuProbe("MIG-00000000-0001-4000-8000-000000000000")
    assert gpu.is_mig()
    assert GpuWatcher(gpu, "NVIDIA H200").scope == "board"
    assert gpu.state().readings["memory_used_bytes"].value is not None


@pytest.mark.parametrize("code", [15, 999])
def test_a_gpu_that_is_lost_says_so_in_every_value(fake_nvml, code):
    fake_nvml.use()
    gpu = probe()
    fake_nvml.fail("*", code, gpu=0)
    assert gpu.edge().throttled_ns == {}
    assert gpu.edge().sm_clock_mhz is None
    assert {r.reason for r in gpu.state().readings.values()} == {"gpu-lost" if code == 15 else "unknown"}
    assert gpu.state().processes is None
