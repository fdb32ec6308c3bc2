"""Machines written down as facts, for the checks of `doctor`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from cpugpu_tui.doctor.collect import examine
from cpugpu_tui.doctor.facts import AgentFacts, DriverFacts, DriverSetup, Facts, Finding, HistoryFacts, HostSetup
from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.model import Device, EventClock, GpuTelemetry, Reading
from cpugpu_tui.render.capabilities import capabilities

UUID = "GPU-00000000-1111-2222-3333-444444444444"
HELLO: dict[str, Any] = {
    "python": "3.11.7", "interpreter": "/usr/bin/python", "torch": "2.11.0", "torch_cuda": "13.0",
    "torch_import_s": 1.4, "torch_error": None, "inherited": {},
}  # fmt: skip


SOUND = EventClock(pair_ns=1250.0, step_ns=32.0, block_ns=1.000e8, wall_least_ns=0.999e8, wall_most_ns=1.001e8)


def gpu(index: int = 0, uuid: str = UUID, **readings: float | str) -> GpuTelemetry:
    """A healthy H200; a word instead of a number is a reason."""
    healthy: dict[str, float | str] = {
        "kernel_active_pct": 0, "pcie_generation": 5, "pcie_width": 16, "pcie_max_generation": 5, "pcie_max_width": 16,
        "ecc_corrected_count": 0, "ecc_uncorrected_count": 0, **readings,
    }  # fmt: skip
    read = {key: Reading(None, "not-supported") for key in KEYS}
    for key, value in healthy.items():
        read[key] = Reading(None, value) if isinstance(value, str) else Reading(float(value))
    return GpuTelemetry(index, uuid, "NVIDIA H200", None, read, ("idle",), (), persistence=True)


def machine(*gpus: GpuTelemetry, **changes: Any) -> Facts:
    """A machine on which all is well, with one H200 unless others are given."""
    rows = gpus or (gpu(),)
    devices = (Device("cpu", "a CPU"), *(Device(f"cuda:{i}", row.name, row.uuid) for i, row in enumerate(rows)))
    facts = Facts(
        driver=DriverFacts(DriverSetup(None, "580.159", (13, 0)), rows, None, True),
        agent=AgentFacts(HELLO, devices=devices, clocks={device.name: SOUND for device in devices[1:]}),
        host=HostSetup("x86_64", 32, 16, None, 16, True, (0,), "performance", "intel_pstate", 3000.0),
        history=HistoryFacts(Path("/home/me/results.db"), writable=True, free_bytes=10**11),
        terminal=capabilities({"TERM": "xterm-256color"}, "utf-8", True, (120, 40)),
    )
    return replace(facts, **changes)


def no_driver(code: int, problem: str, has_hardware: bool = True) -> Facts:
    nothing = AgentFacts(HELLO, devices=(Device("cpu", "a CPU"),), no_gpu="CUDA finds no usable GPU. See nvidia-smi.")
    return machine(driver=DriverFacts(DriverSetup(code), (), problem, has_hardware), agent=nothing)


def said(facts: Facts, check: str) -> Finding:
    (finding,) = (finding for finding in examine(facts) if finding.check == check)
    return finding
