"""A driver that returns nonsense or raises errors other than NVML's: only the affected reading is lost."""

import ctypes
import json
import time

import pynvml
import pytest
from tests.helpers.machine.fake_nvml_library import FakeLibrary
from tests.helpers.machine.nvml_machine import unknown

from cpugpu_tui.machine import procfs
from cpugpu_tui.machine.limits import LIMITS
from cpugpu_tui.machine.nvml.probe import GpuProbe
from cpugpu_tui.machine.nvml.session import SLOW_S, Nvml
from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.machine.procfs import Rapl
from cpugpu_tui.model import TelemetryRead
from cpugpu_tui.telemetry.nvml_thread import NvmlThread
from cpugpu_tui.telemetry.sampler import Host

NOT_UTF8 = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
EXCEPTIONS = (
    OverflowError("too large"), MemoryError(), ValueError("odd"), NOT_UTF8, ctypes.ArgumentError("wrong type"),
    AttributeError("nvmlDeviceGetClockInfo"), OSError(5, "Input/output error"), ZeroDivisionError(),
)  # fmt: skip


def raising(error):
    def call(*arguments, **named):
        raise error

    return call


def test_every_reading_has_a_limit():
    assert set(KEYS) <= set(LIMITS)


@pytest.mark.parametrize("error", EXCEPTIONS, ids=lambda error: type(error).__name__)
def test_an_exception_is_the_reason_of_one_reading(machine, monkeypatch, error):
    before = unknown(machine.rows()[0])
    monkeypatch.setattr(pynvml, "nvmlDeviceGetClockInfo", raising(error))
    row, _ = machine.rows(1)
    lost = {key: reason for key, reason in unknown(row).items() if key not in before}
    assert lost == {"sm_clock_mhz": "call-failed", "memory_clock_mhz": "call-failed"}
    assert row.problem is None
    assert GpuProbe(row.uuid or "").sm_clock_mhz() is None


@pytest.mark.parametrize("error", EXCEPTIONS, ids=lambda error: type(error).__name__)
def test_an_exception_where_a_gpu_is_opened_hides_no_other_gpu_and_passes(machine, monkeypatch, error):
    usual = pynvml.nvmlDeviceGetHandleByIndex
    monkeypatch.setattr(
        pynvml, "nvmlDeviceGetHandleByIndex", lambda index: raising(error)() if index == 1 else usual(index)
    )
    healthy, broken = machine.rows()
    assert healthy.readings["sm_clock_mhz"].value == 1980
    assert set(unknown(broken).values()) == {"unknown"}
    assert type(error).__name__ in (broken.problem or "")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", usual)
    assert machine.rows(SLOW_S)[1].readings["sm_clock_mhz"].value == 1980


def test_the_thread_outlives_a_sweep_that_raises(library, monkeypatch):
    asker = NvmlThread()
    asker.start()
    with monkeypatch.context() as patch:
        patch.setattr(Nvml, "read", raising(RuntimeError("a fault of ours")))
        asker.ask(set())
        failed = asker.answer(60)
    asker.ask(set())
    answer = asker.answer(60)
    asker.end()
    asker.join(60)
    assert (failed.gpus, "RuntimeError" in (failed.problem or "")) == ((), True)
    assert len(answer.gpus) == 2


ABSURD = {
    "pcie_generation": ("pcie_generation", 4_294_967_294),
    "pcie_max_generation": ("pcie_max_generation", 4_294_967_294), "pcie_width": ("pcie_width", 77_777),
    "fan_pct": ("fan", 1_000_000_000), "temperature_c": ("temperature", 2_000_000_000),
    "power_limit_mw": ("power_limit", 4_000_000_000), "sm_clock_mhz": ("clock:1", 3_999_999_999),
    "kernel_active_pct": ("active", 101), "memory_used_bytes": ("used", -2), "ecc_corrected_count": ("ecc:0", -2),
    "energy_mj": ("field:83", -2), "nvlink_links": ("field:91", 4_000_000_000),
    "memory_temperature_c": ("field:82", 4_000_000_000),
}  # fmt: skip
"""Reading → what the fake calls it, and a value that no GPU has."""


def test_an_impossible_number_is_a_reason_and_the_rest_is_read(fake_nvml, machine):
    for name, value in ABSURD.values():
        fake_nvml.set(name, value, gpu=0)
    machine.rows()
    row, healthy = machine.rows(1)
    assert {key: row.readings[key].value for key in ABSURD} == dict.fromkeys(ABSURD)
    assert {row.readings[key].reason for key in ABSURD} == {"out-of-range"}
    assert row.readings["power_mw"].value == 84_140
    assert "out-of-range" not in unknown(healthy).values()


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), -1e300, 1e308])
def test_a_field_of_any_float_leaves_valid_json(library, monkeypatch, tmp_path, value):
    def fields(_self, _gpu, _count, out):
        for each in out._obj:  # type: ignore[attr-defined]
            each.nvmlReturn, each.valueType, each.value.dVal = 0, pynvml.NVML_VALUE_TYPE_DOUBLE, value

    monkeypatch.setattr(FakeLibrary, "_nvmlDeviceGetFieldValues", fields)
    nvml = Nvml(str(tmp_path))
    for _ in range(2):
        rows, _problem = nvml.read()
        read = TelemetryRead(gpus=rows)
        json.dumps([reading.value for gpu in read.gpus for reading in gpu.readings.values()], allow_nan=False)
    nvml.close()
    assert all(rows[0].readings[key].reason for key in ("energy_mj", "memory_temperature_c", "power_average_mw"))
    assert rows[0].readings["sm_clock_mhz"].value == 1980


@pytest.mark.parametrize("name", [b"\xff\xfe NVIDIA", b"x" * 96, b"\x1b]0;x\x07"])
def test_a_name_without_an_end_or_of_odd_bytes_costs_the_name(library, tmp_path, name):
    library.gpus[0].name = name
    rows, _ = Nvml(str(tmp_path)).read()
    assert rows[0].readings["sm_clock_mhz"].value == 1980
    assert "\x1b" not in rows[0].name


# ------------------------------------------------------------------ the kernel's files

LONG = "9" * 5000
FILES = ("proc/stat", "proc/loadavg", "proc/meminfo", "proc/cpuinfo", "proc/self/status", "proc/self/cgroup",
         "sys/fs/cgroup/cpu.max", "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")  # fmt: skip
GARBAGE = ("", "\0\0", "cpu a b c d e f g h", f"cpu {LONG} 1 1 1 1 1 1 1", "nan nan nan", "inf", f"{LONG} 1", "0 0",
           f"MemTotal: {LONG} kB\nMemAvailable: x kB", "MemTotal: 1 kB\nMemAvailable: 99 kB", "0::/\n4:cpu:/",
           "Cpus_allowed_list:\t0-4000000000", "Cpus_allowed_list:\t3-1,x",
           "flags: aperfmperf\ncpu MHz: fast")  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda text: repr(text[:20]))
def test_no_text_of_the_kernel_raises_or_becomes_an_impossible_number(tmp_path, garbage):
    for name in FILES:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(garbage)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    root, host = str(tmp_path), Host(str(tmp_path))
    for _ in range(2):
        for reading in host.read().values():
            assert (reading.value is None) != (reading.reason is None)
        json.dumps([reading.value for reading in host.read().values()], allow_nan=False)
    assert 0 < len(procfs.affinity_cores(root)) < 10_000
    assert procfs.default_threads(root) >= 1
    procfs.available_memory_bytes(root)
    procfs.last_level_cache_bytes(root)


@pytest.mark.parametrize("told", ["-5", LONG, "9" * 23, "x", "\xff"], ids=lambda text: repr(text[:20]))
def test_an_energy_that_cannot_be_is_a_reason(tmp_path, told):
    package = tmp_path / "sys/class/powercap/intel-rapl:0"
    package.mkdir(parents=True)
    (package / "name").write_text("package-0\n")
    (package / "energy_uj").write_text(told, encoding="latin-1")
    assert Rapl(str(tmp_path)).energy_mj().value is None


def test_devices_does_not_wait_for_a_driver_that_hangs(fake_nvml, monkeypatch):
    from cpugpu_tui.cli import machine

    fake_nvml.use()
    fake_nvml.set("hang:nvmlDeviceGetName", 1)
    monkeypatch.setattr(machine, "PATIENCE_S", 0.2)
    begun_s = time.monotonic()
    assert machine.nvml_indices() == {}
    assert time.monotonic() - begun_s < 60
