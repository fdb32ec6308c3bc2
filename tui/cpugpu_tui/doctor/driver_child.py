"""Asks the NVIDIA driver in a process of its own: its library may crash, and a call may hang and never be ended.

`python -m cpugpu_tui.doctor.driver_child SECONDS PID…` prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cpugpu_tui.config.validation import convert
from cpugpu_tui.doctor.facts import ClockSetting, DriverFacts, DriverSetup, Section
from cpugpu_tui.doctor.host_setup import has_nvidia_gpu
from cpugpu_tui.machine.limits import LIMITS, MOST_GPUS
from cpugpu_tui.machine.nvml import Nvml
from cpugpu_tui.machine.nvml.gpu import Gpu
from cpugpu_tui.machine.nvml.returns import BROKEN, crash_problem, opening_code
from cpugpu_tui.machine.nvml.session import PCIE_WINDOW_S
from cpugpu_tui.machine.nvml.value_names import KEYS
from cpugpu_tui.model import GpuTelemetry, Reading
from cpugpu_tui.model.plain_data import to_plain
from cpugpu_tui.telemetry.driver import session_versions

START_S = 30.0
"""For the process to start and to import: 0.3 s where the disk is not busy."""

_REMEDY = "Look for Xid errors in dmesg; a reboot may bring it back."

Answer = tuple[GpuTelemetry, ClockSetting | None]


@dataclass(frozen=True)
class Asked:
    """What came of asking."""

    facts: DriverFacts | None
    fault: str = ""
    """Why there are no facts, one sentence."""
    hangs: bool = False
    """Whether a call did not return: CUDA would hang in the same driver."""


def ask_driver(own_pids: Collection[int], deadline_s: float) -> Asked:
    """Ask in a child; takes three deadlines at most, and the start of a process."""
    # -P as for agents: a stray pynvml.py in the current folder is not the one to be imported.
    command = [sys.executable, "-P", "-m", __name__, str(deadline_s), *map(str, own_pids)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=START_S + 4 * deadline_s, check=False,
        )  # fmt: skip
        if done.returncode < 0:
            problem = crash_problem(signal.Signals(-done.returncode).name)
            return Asked(DriverFacts(DriverSetup(init_code=BROKEN), (), problem, has_nvidia_gpu()))
        return convert(json.loads(done.stdout), Asked)
    except subprocess.TimeoutExpired:
        return Asked(None, "The NVIDIA driver has not answered, nor let go of the process that asked it.", hangs=True)
    except Exception as error:  # noqa: BLE001 - no process, or an answer that is none: a line of the report
        return Asked(None, f"Asking the NVIDIA driver failed with {type(error).__name__}: {error}")


def driver_facts(own_pids: Collection[int]) -> DriverFacts:
    """Ask NVML, on the thread that this is called on."""
    setup = driver_setup()
    nvml = Nvml()
    try:
        gpus, problem = nvml.read(own_pids)
    finally:
        nvml.close()
    return DriverFacts(setup, gpus, problem, has_nvidia_gpu())


def asked(own_pids: Collection[int], deadline_s: float) -> Asked:
    """Ask here, all at once; where that hangs, each GPU for itself."""
    facts, fault = Section("driver", partial(driver_facts, own_pids), deadline_s).result()
    if not fault:
        return Asked(facts)
    facts = one_by_one(set(own_pids), deadline_s)
    return Asked(facts, "" if facts else f"{fault} Nor has any GPU, asked one by one.", hangs=True)


# -------------------------------------------------------------------- one GPU at a time


def one_by_one(own_pids: set[int], deadline_s: float) -> DriverFacts | None:
    """Ask each GPU on a thread of its own, and return the facts, the silent GPUs with that as their problem.

    The first attempt is stuck in its session. Ours is another and is never closed: `nvmlShutdown` beside a call that
    hangs crashes the process, and NVML counts its sessions, so that the first one's shutdown ends nothing either.

    None where the driver answers nothing, or for no GPU: then it is the driver that hangs. Takes two deadlines at most.
    """
    opened, _ = Section("driver", _open, deadline_s).result()
    if opened is None:
        return None
    setup, count = opened
    if count > MOST_GPUS:
        return None
    asked = [Section(f"GPU {index}", partial(_ask_gpu, index, own_pids), deadline_s) for index in range(count)]
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


def _ask_gpu(index: int, own_pids: set[int]) -> Answer:
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


# -------------------------------------------------------------------- versions and clocks


def driver_setup() -> DriverSetup:
    """Ask the driver, in a session of its own; never raises for what the driver says.

    All NVML calls of a process belong on one thread: call it where the others are made.
    """
    try:
        import pynvml
    except ImportError:
        return DriverSetup()
    try:
        pynvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - a library that is broken raises anything
        return DriverSetup(init_code=opening_code(error))
    try:
        count = _answer(pynvml.nvmlDeviceGetCount)
        if count is None or count > MOST_GPUS:
            return replace(session_setup(pynvml), init_code=BROKEN)
        settings = (clock_setting(pynvml, index) for index in range(count))
        clocks = tuple(setting for setting in settings if setting is not None)
        return replace(session_setup(pynvml), clocks=clocks)
    finally:
        with suppress(Exception):
            pynvml.nvmlShutdown()


def _answer(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a call returns, None for an error."""
    with suppress(Exception):
        return call(*arguments)
    return None


def _clock_mhz(call: Callable[..., Any], *arguments: Any) -> int | None:
    """Return the clock that a call returns, None for an error and for what cannot be one."""
    found = _answer(call, *arguments)
    least, most = LIMITS["sm_clock_mhz"]
    return int(found) if found is not None and least <= found <= most else None


def session_setup(nvml: Any) -> DriverSetup:
    """Return the versions within a session that is open; no GPU is asked."""
    number = _answer(nvml.nvmlSystemGetCudaDriverVersion_v2) or 0
    cuda = (int(number) // 1000, int(number) % 1000 // 10) if 1000 <= number < 100_000 else None
    return DriverSetup(version=session_versions(nvml)[0], cuda=cuda)


def clock_setting(nvml: Any, index: int) -> ClockSetting | None:
    """Return the clock that somebody set for one GPU within a session that is open, None where it has no handle."""
    handle = _answer(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return None
    # The SM clock follows the graphics clock, the only one of the two that can be set.
    asked = (nvml.nvmlDeviceGetApplicationsClock, nvml.nvmlDeviceGetDefaultApplicationsClock)
    set_mhz, default_mhz = (_clock_mhz(call, handle, nvml.NVML_CLOCK_GRAPHICS) for call in asked)
    max_mhz = _clock_mhz(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_GRAPHICS)
    return ClockSetting(index, set_mhz, default_mhz, max_mhz)


def main() -> None:
    """Print what came of asking."""
    deadline_s, *pids = sys.argv[1:]
    line = json.dumps(to_plain(asked([int(pid) for pid in pids], float(deadline_s))))
    print(line, flush=True)
    os._exit(0)  # threads that hang in the driver would not let the interpreter end in peace


if __name__ == "__main__":
    main()
