"""Rows of GPUs that answer, with the real pynvml and a fake driver."""

import os
import subprocess
import sys
import time

import pynvml
import pytest
from tests.helpers.machine.fake_nvml_library import (
    FUNCTION_MISSING,
    HEALTHY,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN,
    reasons,
    rows_of,
    values,
)

from cpugpu_tui.machine.nvml.probe import GpuProbe
from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import Reading
from cpugpu_tui.model.throttling import THROTTLE_REASONS


def test_a_healthy_gpu_is_all_numbers(library, nvml):
    row, other = rows_of(nvml)
    assert values(row) == HEALTHY
    assert tuple(row.readings) == KEYS
    assert (row.index, row.name, row.pci_bus_id) == (0, "NVIDIA H200", "00000000:04:00.0")
    assert row.uuid == "GPU-00000000-1111-2222-3333-444444444444"
    assert (row.throttle, row.processes, row.problem) == (("idle",), (), None)
    assert other.readings["kernel_active_pct"] == Reading(0.0), "0 % is a number, not a gap"
    assert other.uuid != row.uuid


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, FUNCTION_MISSING, UNKNOWN, 77])
@pytest.mark.parametrize(
    ("functions", "keys"),
    [
        (("nvmlDeviceGetUtilizationRates",), {"kernel_active_pct"}),
        (("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"), {"memory_used_bytes", "memory_total_bytes"}),
        (("nvmlDeviceGetClockInfo",), {"sm_clock_mhz", "memory_clock_mhz"}),
        (("field 186", "nvmlDeviceGetPowerUsage"), {"power_mw"}),
        (("nvmlDeviceGetFieldValues", "nvmlDeviceGetPowerUsage"), {"power_mw"}),
        (("nvmlDeviceGetEnforcedPowerLimit",), {"power_limit_mw"}),
        (("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"), {"temperature_c"}),
        (("nvmlDeviceGetTemperatureThreshold",), {"slowdown_temperature_c"}),
        (("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"), {"throttle_bits"}),
    ],
)
def test_one_missing_value_hides_nothing_else(library, nvml, functions, keys, code):
    library.gpus[0].faults = dict.fromkeys(functions, code)
    row, other = rows_of(nvml)
    expected = {3: "not-supported", 4: "no-permission", 13: "function-missing"}.get(code, "unknown")
    assert reasons(row) == dict.fromkeys(keys, expected)
    assert expected in REASONS
    assert values(row) == {**HEALTHY, **dict.fromkeys(keys)}
    assert row.problem is None
    assert reasons(other) == {}


@pytest.mark.parametrize(
    ("missing", "key", "value"),
    [
        ("nvmlDeviceGetCurrentClocksEventReasons", "throttle_bits", 1),
        ("nvmlDeviceGetMemoryInfo_v2", "memory_used_bytes", 2_600_000_000),  # version 1 counts the reserve as used
        ("nvmlDeviceGetTemperatureV", "temperature_c", 32),
        ("nvmlDeviceGetFieldValues", "power_mw", 77_700),
    ],
)
def test_an_old_driver_is_asked_the_old_way(library, nvml, missing, key, value):
    library.missing = {missing}
    assert values(rows_of(nvml)[0]) == {**HEALTHY, key: value}


def test_unified_memory_is_not_shown_as_anything(library, nvml):
    library.gpus[0].faults = dict.fromkeys(("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"), NOT_SUPPORTED)
    row = rows_of(nvml)[0]
    assert row.readings["memory_total_bytes"] == Reading(None, "not-supported")


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0, ()),
        (0x1, ("idle",)),
        (0x2, ("app-clocks",)),
        (0x4, ("power-capped",)),
        (0x8 | 0x40, ("hw-slowdown", "hw-thermal")),
        (0x10, ("sync-boost",)),
        (0x20, ("thermal",)),
        (0x80, ("power-brake",)),
        (0x100 | 0x400, ("display", "unknown 0x400")),
        (
            0x7FFF_FFFF_FFFF_FFFF,
            (*sorted(THROTTLE_REASONS, key=lambda word: THROTTLE_REASONS[word].bit), "unknown 0x7ffffffffffffe00"),
        ),
        (0x8000_0000_0000_0004, ("power-capped", "unknown 0x8000000000000000")),
    ],
)
def test_throttle_bits_have_words(library, nvml, bits, words):
    library.gpus[0].throttle_bits = bits
    row = rows_of(nvml)[0]
    assert row.throttle == words
    assert row.readings["throttle_bits"] == Reading(bits), "a mask of 0 is known, not missing; no bit is lost"


# ------------------------------------------------------------------ slow values, processes, names


def test_slow_values_age_and_are_read_rarely(library, nvml, clock):
    rows_of(nvml)
    library.gpus[0].power_limit_mw = 400_000
    library.gpus[0].active_pct = 99
    clock.now_s += 3
    row = rows_of(nvml)[0]
    assert row.readings["power_limit_mw"] == Reading(700_000.0, None, 3.0)
    assert row.readings["kernel_active_pct"] == Reading(99.0)
    clock.now_s += 2
    assert rows_of(nvml)[0].readings["power_limit_mw"] == Reading(400_000.0)
    names = library.names()
    assert names.count("nvmlDeviceGetComputeRunningProcesses_v3") < names.count("nvmlDeviceGetUtilizationRates")


def write_process(root, pid, command):
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes(command)
    (folder / "status").write_text(f"Name:\tx\nUid:\t{2**31 - 7}\t0\t0\t0\n")


def test_processes_are_shown_with_their_owner_even_if_unknown(library, nvml, tmp_path):
    write_process(tmp_path, 500, b"/usr/bin/python3\0-u\0train.py\0--token\0hunter2\0")
    write_process(tmp_path, 501, b"\x1b]0;pwned\x07vllm\0serve\0")
    library.gpus[0].processes = [(99999, 300 << 20), (501, None), (500, 1 << 30), (os.getpid(), 1)]
    rows, _ = nvml.read({501})
    processes = {process.pid: process for process in rows[0].processes or ()}
    assert sorted(processes) == sorted([500, 501, 99999, os.getpid()])
    assert (processes[99999].user, processes[99999].command, processes[99999].own) == (None, None, False)
    assert processes[99999].memory_bytes == 300 << 20
    assert (processes[500].user, processes[500].command) == (str(2**31 - 7), "python3")
    assert (processes[501].command, processes[501].memory_bytes) == ("vllm serve", None)
    assert [pid for pid in processes if processes[pid].own] == sorted([501, os.getpid()])
    assert rows[1].processes == ()


def cpu_ticks(root, pid, ticks, start=7):
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"{pid} (odd) name) S {'0 ' * 10}{ticks} 0 0 0 0 0 1 0 {start} 0\n")


def shares(row):
    """Return pid → its numbers, or the reasons why there are none."""
    return {
        each.pid: {key: each.readings[key].reason or each.readings[key].value for key in each.readings}
        for each in row.processes
    }


def test_processes_have_their_share_of_gpu_and_cores(library, nvml, clock, tmp_path):
    library.gpus[0].processes = [(42, 10**9), (43, 10**9), (999, None)]
    library.gpus[0].shares = [(42, 3, 11), (42, 1, 62), (43, 90, 80), (7, 1, 50)]
    cpu_ticks(tmp_path, 42, 1000)
    cpu_ticks(tmp_path, 43, 50)
    assert shares(rows_of(nvml)[0])[42] == {"kernel_active_pct": 62.0, "cpu_cores": "not-yet"}
    cpu_ticks(tmp_path, 42, 1000 + 15 * os.sysconf("SC_CLK_TCK"))
    cpu_ticks(tmp_path, 43, 9999, start=8)
    clock.now_s += 5
    assert shares(rows_of(nvml)[0]) == {
        42: {"kernel_active_pct": 62.0, "cpu_cores": 3.0},
        43: {"kernel_active_pct": "no-sample", "cpu_cores": "not-yet"},  # a new process with an old pid
        999: {"kernel_active_pct": "no-sample", "cpu_cores": "unresolved"},
    }
    clock.now_s += 2
    (process, *_), _ = (row.processes or () for row in rows_of(nvml))
    assert {reading.age_s for reading in process.readings.values()} == {2.0}


def test_a_command_has_the_highest_share_of_its_processes(library, monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda _uuid: pynvml.nvmlDeviceGetHandleByIndex(0))
    monkeypatch.setattr(pynvml, "nvmlDeviceIsMigDeviceHandle", lambda _handle: 0)
    library.gpus[0].shares = [(42, 3, 11), (42, 1, 62), (43, 1, 80), (44, 1, 99), (45, 1, 4_000_000)]
    probe, since_us = GpuProbe("GPU-0"), time.time_ns() // 1000 - 60_000_000
    assert probe.utilisation_pct({42, 43, 46}, since_us) == 80.0
    assert probe.utilisation_pct({42, 45}, since_us) == 62.0
    assert probe.utilisation_pct({46}, since_us) is None
    library.gpus[0].faults["nvmlDeviceGetProcessUtilization"] = NO_PERMISSION
    assert probe.utilisation_pct({42}, since_us) is None


def test_an_impossible_gpu_share_is_none(library, nvml):
    """Drivers were seen to report far more than 100 %."""
    library.gpus[0].processes, library.gpus[0].shares = [(999, None)], [(999, 1, 4_000_000)]
    assert shares(rows_of(nvml)[0])[999]["kernel_active_pct"] == "out-of-range"


def test_gpu_shares_are_not_asked_for_during_a_run_nor_without_processes(library, nvml):
    library.gpus[0].processes = [(999, None)]
    (row, _), _ = nvml.read(quiet=True)
    assert shares(row)[999]["kernel_active_pct"] == "not-in-run"
    assert "nvmlDeviceGetProcessUtilization" not in library.names()
    rows_of(nvml)
    assert "nvmlDeviceGetProcessUtilization" not in library.names(), "the list is five seconds old at most"


def test_hostile_or_missing_names(library, nvml):
    library.gpus[0].name = b"\x1b[31mNVIDIA\x1b[0m \xe2\x80\xaeH200\n"
    library.gpus[1].name = b"\xff\xfe"
    library.gpus[1].faults = {"nvmlDeviceGetUUID": NOT_SUPPORTED, "nvmlDeviceGetPciInfo_v3": NOT_SUPPORTED}
    first, second = rows_of(nvml)
    assert first.name == "NVIDIA H200"
    assert (second.name, second.uuid, second.pci_bus_id) == ("GPU 1", None, None)
    assert second.problem is None


def test_pynvml_is_not_imported_before_the_first_read():
    code = "import sys, cpugpu_tui.telemetry.sampler; sys.exit('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
