"""What a person sees when a driver or a GPU misbehaves, through the real nvidia-ml-py and a library built in C."""

import json
import os
import re
import subprocess
import sys
import time
from typing import Any

import pytest
from tests.helpers.command_line import PATIENCE_S
from tests.helpers.machine.nvml_library import LOST, NO_PERMISSION
from tests.helpers.machine.nvml_machine import Machine, unknown

from cpugpu_tui.cli.output.telemetry_table import Table
from cpugpu_tui.machine.nvml.probe import GpuProbe
from cpugpu_tui.machine.nvml.session import SLOW_S
from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import Reading, TelemetryRead

# ------------------------------------------------------------------ values that are refused


@pytest.mark.parametrize(
    ("code", "reason"), [(3, "not-supported"), (4, "no-permission"), (13, "function-missing"), (999, "unknown")]
)
def test_a_driver_that_refuses_everything_leaves_no_zero(fake_nvml, machine, code, reason):
    machine.rows()
    keep = ("Init", "Shutdown", "GetCount", "HandleByIndex")
    older = ("MemoryInfo", "PowerUsage", "Temperature", "CurrentClocksThrottleReasons", "ComputeRunningProcesses_v2")
    called = {name for name in fake_nvml.calls() if not any(word in name for word in keep)}
    for function in called | {f"nvmlDeviceGet{name}" for name in older}:
        fake_nvml.fail(function, code)
    rows = machine.rows(SLOW_S)
    for row in rows:
        fast = {key: reading for key, reading in row.readings.items() if reading.age_s == 0}
        assert {reading.value for reading in fast.values()} == {None}
        assert {reading.reason for reading in fast.values()} <= {reason, "not-asked", "not-yet"}
        assert set(unknown(row).values()) <= set(REASONS)
        assert row.processes is None
        assert row.persistence is None


def test_an_old_driver_gives_what_it_has(old_fake_nvml, tmp_path, words):
    old_fake_nvml.set("process:99999999", 5, gpu=0)
    old_fake_nvml.fail("field:186", 2)
    machine = Machine(old_fake_nvml, tmp_path, gpm=True)
    machine.rows()
    row, _ = machine.rows(SLOW_S)
    known = {
        key: row.readings[key].value for key in ("temperature_c", "throttle_bits", "power_mw", "memory_used_bytes")
    }
    assert known == {
        "temperature_c": 32,
        "throttle_bits": 1,
        "power_mw": 77_700,
        "memory_used_bytes": 2_600_000_000,  # with the driver's reserve, which it cannot tell apart
    }
    assert row.readings["memory_reserved_bytes"].reason == "in-used"
    said = Table(1.0).lines(TelemetryRead(gpus=(row,)))
    words([line for line in said if "reserve" in line])
    missing = ("temperature_margin_c", "sm_occupancy_pct", "tensor_active_pct", "dram_active_pct")
    assert {key: row.readings[key].reason for key in missing} == dict.fromkeys(missing, "function-missing")
    assert [process.pid for process in row.processes or ()] == [99_999_999]


@pytest.mark.parametrize("clock_mhz", [0xFFFF_FFFF, -1])
def test_what_stands_for_no_number_is_never_printed_as_one(fake_nvml, machine, clock_mhz):
    fake_nvml.set("clock:1", clock_mhz, gpu=0)
    fake_nvml.set("field:186", 0xFFFF_FFFF, gpu=0)
    fake_nvml.set("power_usage", 0xFFFF_FFFF, gpu=0)
    fake_nvml.set("field:83", -1, gpu=0)
    fake_nvml.set("active", 0xFFFF_FFFF, gpu=0)
    fake_nvml.set("throttle", -1, gpu=0)
    row, healthy = machine.rows()
    none = ("sm_clock_mhz", "power_mw", "energy_mj", "kernel_active_pct", "throttle_bits")
    assert {key: row.readings[key] for key in none} == dict.fromkeys(none, Reading(None, "no-value"))
    assert row.throttle == ()
    assert "no-value" not in unknown(healthy).values()
    edge = GpuProbe(row.uuid or "").edge()
    assert (edge.sm_clock_mhz, edge.throttle) == (None, ()), "nor does it become part of a result"
    assert edge.is_average_power, "the average takes its place"


def test_a_gpu_that_denies_itself_names_its_own_device_file(fake_nvml, machine):
    fake_nvml.set("minor", 3, gpu=1)
    machine.rows()
    fake_nvml.fail("*", NO_PERMISSION, gpu=1)
    assert "/dev/nvidia3." in (machine.rows(SLOW_S)[1].problem or ""), "GPU 1 of this container is not /dev/nvidia1"


def test_a_pid_of_another_namespace_is_shown_without_a_name(fake_nvml, machine):
    fake_nvml.set("process:99999999", 300 << 20, gpu=0)
    fake_nvml.set(f"process:{os.getpid()}", -1, gpu=0)
    busy, free = machine.rows()
    found = {process.pid: process for process in busy.processes or ()}
    stranger, ours = found[99_999_999], found[os.getpid()]
    assert (stranger.user, stranger.command, stranger.memory_bytes, stranger.own) == (None, None, 300 << 20, False)
    assert (ours.own, ours.memory_bytes) == (True, None)
    assert free.processes == ()


# ------------------------------------------------------------------ GPUs that are lost


def test_a_gpu_lost_in_mid_run_comes_back_by_itself(fake_nvml, machine):
    before = machine.rows()[1]
    fake_nvml.fail("*", LOST, gpu=1)
    healthy, lost = machine.rows(1)
    assert healthy.readings["sm_clock_mhz"].value == 1980
    assert (lost.name, lost.uuid, lost.pci_bus_id) == (before.name, before.uuid, before.pci_bus_id)
    assert set(unknown(lost).values()) == {"gpu-lost"}
    fake_nvml.unset("fail:*", gpu=1)
    assert machine.rows(SLOW_S / 2)[1].problem, "tried every five seconds, not at every sweep"
    healthy, back = machine.rows(SLOW_S)
    assert back.problem is None
    assert back.readings["sm_clock_mhz"].value == 1980
    assert back.readings["throttled_power_cap_pct"].reason == "not-yet", "nothing is taken from before the loss"
    assert healthy.readings["throttled_power_cap_pct"].value == 0


def test_a_gpu_lost_between_two_fields_is_lost(fake_nvml, machine):
    machine.rows()
    fake_nvml.fail("field:74", LOST, gpu=1)
    healthy, lost = machine.rows(1)
    assert set(unknown(lost).values()) == {"gpu-lost"}
    assert healthy.problem is None


# ------------------------------------------------------------------ the driver, as events of a process of its own

_WATCH = """
import dataclasses, json, sys
from cpugpu_tui.telemetry.sampler import Sampler
sampler = Sampler(0.1, lambda event: print(json.dumps(dataclasses.asdict(event), allow_nan=False), flush=True))
sampler.start()
sys.stdin.read()
sampler.stop()
print(json.dumps({"stopped": True}), flush=True)
"""


class Watch:
    """A process that samples at 10 Hz and prints what it emits."""

    def __init__(self, environment):
        command = [sys.executable, "-c", _WATCH]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def until(self, wanted):
        """Return the first event from now on that is as wanted."""
        for line in self._process.stdout:
            event: dict[str, Any] = json.loads(line)
            if wanted(event):
                return event
        raise AssertionError("it ended without that")

    def stop(self):
        """Stop it as the app does; return how long that took."""
        begun_s = time.monotonic()
        self._process.stdin.close()
        assert self.until(lambda event: "stopped" in event)
        assert self._process.wait(timeout=PATIENCE_S) == 0
        return time.monotonic() - begun_s

    def close(self):
        """End it in any case."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            pipe.close()


@pytest.fixture
def watched():
    started: list[Watch] = []

    def start(environment):
        started.append(Watch(environment))
        return started[-1]

    yield start
    for watch in started:
        watch.close()


def test_with_a_library_that_is_none_the_host_is_watched_and_the_cause_said(watched, tmp_path):
    # A file that is no library hides that of a machine that has one.
    (tmp_path / "libnvidia-ml.so.1").write_text("none")
    watch = watched({**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    event = watch.until(lambda event: event["problem"])
    assert f"{tmp_path}/libnvidia-ml.so.1" in event["problem"]
    assert event["gpus"] == []
    assert event["host"]["memory_total_bytes"]["value"] > 0
    assert watch.stop() < 8


def clock_age_s(event, gpu):
    clock = event["gpus"][gpu]["readings"]["sm_clock_mhz"]
    assert clock["value"] == 1980, "the last value stays"
    return float(clock["age_s"])


def test_a_driver_that_hangs_is_said_with_the_call_and_everything_else_goes_on(fake_nvml, watched):
    fake_nvml.set("count", 1)
    watch = watched(fake_nvml.environment)
    watch.until(lambda event: event["gpus"])
    fake_nvml.set("hang:nvmlDeviceGetClockInfo", 1)
    hung = watch.until(lambda event: event["problem"])
    assert re.search(r"[2-9] s \(nvmlDeviceGetClockInfo of GPU 0\)", hung["problem"])
    assert clock_age_s(hung, 0) > 1.5
    later = watch.until(lambda event: event["problem"])
    assert clock_age_s(later, 0) > clock_age_s(hung, 0)
    assert later["mono_ns"] > hung["mono_ns"]
    fake_nvml.unset("hang:nvmlDeviceGetClockInfo")
    assert clock_age_s(watch.until(lambda event: event["problem"] is None), 0) < 1


def test_a_gpu_that_hangs_is_named_and_the_healthy_one_is_read_on(fake_nvml, watched):
    watch = watched(fake_nvml.environment)
    watch.until(lambda event: event["gpus"])
    fake_nvml.set("hang:nvmlDeviceGetUtilizationRates", 1, gpu=0)
    # Until another thread goes on without it, it is the driver that does not answer.
    hung = watch.until(lambda event: (event["problem"] or "").startswith("GPU 0 "))
    assert "(nvmlDeviceGetUtilizationRates)" in hung["problem"]
    fake_nvml.set("power_limit", 400_000)
    fresh = watch.until(lambda event: clock_age_s(event, 1) < 0.5)
    assert clock_age_s(fresh, 0) > 1.5, "what was last known of the one that hangs, as old as it is"
    assert [gpu["uuid"][4:12] for gpu in fresh["gpus"]] == ["00000000", "00000001"]
    fake_nvml.unset("hang:nvmlDeviceGetUtilizationRates", gpu=0)
    back = watch.until(lambda event: event["problem"] is None)
    back = watch.until(lambda event: clock_age_s(event, 0) < 0.5)
    assert clock_age_s(back, 1) < 0.5
    assert watch.stop() < 8
    calls = fake_nvml.calls()
    assert calls.count("nvmlShutdown") == calls.count("nvmlInitWithFlags") == 2, "both sessions are shut"


def test_when_the_last_healthy_gpu_hangs_too_the_whole_driver_does(fake_nvml, watched):
    watch = watched(fake_nvml.environment)
    watch.until(lambda event: event["gpus"])
    fake_nvml.set("hang:nvmlDeviceGetClockInfo", 1)
    hung = watch.until(lambda event: "nvmlDeviceGetClockInfo of GPU 1" in (event["problem"] or ""))
    assert not hung["problem"].startswith("GPU "), "it is the driver that hangs"
    assert clock_age_s(hung, 0) > 3
    assert watch.stop() < 8


def test_stop_returns_while_a_call_hangs(fake_nvml, watched):
    fake_nvml.set("hang:nvmlInitWithFlags", 1)
    watch = watched(fake_nvml.environment)
    assert watch.until(lambda event: event["problem"])["gpus"] == []
    assert watch.stop() < 8, "2 s for the call, and out"
