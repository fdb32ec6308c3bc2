"""Asks each GPU on a thread of its own, once the driver as a whole has not answered: which of them is it?

The first attempt is stuck in its session. Ours is another and is never closed: `nvmlShutdown` beside a call that
hangs crashes the process, and NVML counts its sessions, so that the first one's shutdown ends nothing either.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

from cpugpu_tui.doctor.driver_setup import ClockSetting, DriverSetup, clock_setting, session_setup
from cpugpu_tui.doctor.facts import DriverFacts
from cpugpu_tui.doctor.host_setup import has_nvidia_gpu
from cpugpu_tui.doctor.section import Section
from cpugpu_tui.machine.limits import MOST_GPUS
from cpugpu_tui.machine.nvml.gpu import Gpu
from cpugpu_tui.machine.nvml.session import PCIE_WINDOW_S
from cpugpu_tui.machine.nvml.value_names import KEYS
from cpugpu_tui.model import GpuTelemetry, Reading

_REMEDY = "Look for Xid errors in dmesg; a reboot may bring it back."

Answer = tuple[GpuTelemetry, ClockSetting | None]


def one_by_one(own_pids: set[int], deadline_s: float) -> DriverFacts | None:
    """Return the facts of a driver of whose GPUs some answer, the silent ones with that as their problem.

    None where the driver answers nothing, or for no GPU: then it is the driver that hangs. Takes two deadlines at most.
    """
    opened, _ = Section("driver", _open, deadline_s).result()
    if opened is None:
        return None
    setup, count = opened
    if count > MOST_GPUS:
        return None
    asked = [Section(f"GPU {index}", partial(_ask, index, own_pids), deadline_s) for index in range(count)]
    answers: list[tuple[Answer | None, str]] = [section.result() for section in asked]
    known = [answer for answer, _ in answers if answer is not None]
    if not known:
        return None
    rows = tuple(_silent(i, fault) if answer is None else answer[0] for i, (answer, fault) in enumerate(answers))
    clocks = tuple(setting for _, setting in known if setting is not None)
    return DriverFacts(DriverSetup(None, setup.version, setup.cuda, clocks), rows, None, has_nvidia_gpu())


def _open() -> tuple[DriverSetup, int]:
    import pynvml

    pynvml.nvmlInit()
    return session_setup(pynvml), pynvml.nvmlDeviceGetCount()


def _ask(index: int, own_pids: set[int]) -> Answer:
    import pynvml

    nvml: Any = pynvml
    gpu = Gpu(index, "/", False, lambda: time.time_ns() // 1000)
    gpu.refresh(nvml, time.monotonic(), False)
    if gpu.glance(nvml):
        time.sleep(PCIE_WINDOW_S)
    row = gpu.read(nvml, time.monotonic(), {os.getpid(), *own_pids})
    return row, clock_setting(nvml, index)


def _silent(index: int, fault: str) -> GpuTelemetry:
    readings = {key: Reading(None, "timeout") for key in KEYS}
    return GpuTelemetry(index, None, f"GPU {index}", None, readings, problem=f"{fault} {_REMEDY}")
