"""Query the NVIDIA driver in a child process, because its library may crash or hang.

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
from cpugpu_tui.machine.limits import LIMITS, MOST_GPUS
from cpugpu_tui.machine.nvml.calls import BROKEN, crash_problem, has_nvidia_gpu, opening_code
from cpugpu_tui.machine.nvml.session import PCIE_WINDOW_S, Gpu, Nvml
from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.model import GpuTelemetry, Reading
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.telemetry.nvml_thread import session_versions

START_S = 30.0
"""For the process to start and import, 0.3 s if the disk is idle."""

_REMEDY = "Look for Xid errors in dmesg; a reboot may help."

Answer = tuple[GpuTelemetry, ClockSetting | None]


@dataclass(frozen=True)
class Asked:
    """The driver's answers, or why there are none."""

    facts: DriverFacts | None
    fault: str = ""
    """Why `facts` is None, one sentence."""
    hangs: bool = False
    """Whether a call did not return; CUDA would hang too."""


def ask_driver(own_pids: Collection[int], deadline_s: float) -> Asked:
    """Query the driver in a child process. That takes its start and three deadlines; a fourth is in reserve."""
    # -P as for agents: a stray pynvml.py in the current folder must not be imported.
    command = [sys.executable, "-P", "-m", __name__, str(deadline_s), *map(str, own_pids)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=START_S + 4 * deadline_s, check=False,
        )  # fmt: skip
        if done.returncode < 0:
            problem = crash_problem(signal.Signals(-done.returncode).name)
            return Asked(DriverFacts(DriverSetup(init_code=BROKEN), (), problem, bool(has_nvidia_gpu())))
        return convert(json.loads(done.stdout), Asked)
    except subprocess.TimeoutExpired:
        return Asked(None, "The NVIDIA driver does not answer and blocks the process that queried it.", hangs=True)
    except Exception as error:  # noqa: BLE001 - whatever failed becomes a line of the report
        return Asked(None, f"The query of the NVIDIA driver raised {type(error).__name__}: {error}")


def driver_facts(own_pids: Collection[int]) -> DriverFacts:
    """Query NVML on the calling thread."""
    setup = driver_setup()
    nvml = Nvml()
    try:
        gpus, problem = nvml.read(own_pids)
    finally:
        nvml.close()
    return DriverFacts(setup, gpus, problem, bool(has_nvidia_gpu()))


def ask_here(own_pids: Collection[int], deadline_s: float) -> Asked:
    """Query the driver in this process; if that hangs, query each GPU on its own."""
    facts, fault = Section("driver", partial(driver_facts, own_pids), deadline_s).result()
    if not fault:
        return Asked(facts)
    facts = one_by_one(set(own_pids), deadline_s)
    return Asked(facts, "" if facts else f"{fault} No single GPU answered either.", hangs=True)


# -------------------------------------------------------------------- one GPU at a time


def one_by_one(own_pids: set[int], deadline_s: float) -> DriverFacts | None:
    """Query each GPU on its own thread; a GPU that does not answer has that as its problem.

    The first attempt still hangs in its session. This session is never closed: `nvmlShutdown` beside a hanging call
    crashes the process. NVML counts its sessions, so the shutdown of the first session does not end this one.

    Return None if no GPU answers, which means that the driver itself hangs. Takes at most two deadlines.
    """
    opened, _ = Section("driver", _open, deadline_s).result()
    if opened is None:
        return None
    setup, count = opened
    if count > MOST_GPUS:
        return None
    sections = [Section(f"GPU {index}", partial(_ask_gpu, index, own_pids), deadline_s) for index in range(count)]
    answers: list[tuple[Answer | None, str]] = [section.result() for section in sections]
    known = [answer for answer, _ in answers if answer is not None]
    if not known:
        return None
    silent = {key: Reading(None, "timeout") for key in KEYS}
    rows = tuple(
        GpuTelemetry(index, None, f"GPU {index}", None, silent, problem=f"{fault} {_REMEDY}")
        if answer is None else answer[0]
        for index, (answer, fault) in enumerate(answers)
    )  # fmt: skip
    clocks = tuple(setting for _, setting in known if setting is not None)
    return DriverFacts(DriverSetup(None, setup.version, setup.cuda, clocks), rows, None, bool(has_nvidia_gpu()))


def _open() -> tuple[DriverSetup, int]:
    import pynvml

    pynvml.nvmlInit()
    return session_setup(pynvml), pynvml.nvmlDeviceGetCount()


def _ask_gpu(index: int, own_pids: set[int]) -> Answer:
    import pynvml

    nvml: Any = pynvml
    gpu = Gpu(index, root="/", gpm=False)
    gpu.refresh(nvml, time.monotonic(), quiet=False)
    if gpu.glance(nvml):  # some counters need a second reading
        time.sleep(PCIE_WINDOW_S)
    row = gpu.read(nvml, time.monotonic(), {os.getpid(), *own_pids})
    return row, clock_setting(nvml, index)


# -------------------------------------------------------------------- versions and clocks


def driver_setup() -> DriverSetup:
    """Query versions and clocks in a session of their own; errors of the driver become values.

    Call it on the thread that makes all other NVML calls of the process.
    """
    try:
        import pynvml
    except ImportError:
        return DriverSetup()
    try:
        pynvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - a broken library raises anything
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
    """Return the result of a call, or None if it raises."""
    with suppress(Exception):
        return call(*arguments)
    return None


def _clock_mhz(call: Callable[..., Any], *arguments: Any) -> int | None:
    """Return the clock from a call, or None if the call raises or the value is implausible."""
    found = _answer(call, *arguments)
    least, most = LIMITS["sm_clock_mhz"]
    return int(found) if found is not None and least <= found <= most else None


def session_setup(nvml: Any) -> DriverSetup:
    """Return the versions from an open session, without touching a GPU."""
    number = _answer(nvml.nvmlSystemGetCudaDriverVersion_v2) or 0
    cuda = (int(number) // 1000, int(number) % 1000 // 10) if 1000 <= number < 100_000 else None
    return DriverSetup(version=session_versions(nvml)[0], cuda=cuda)


def clock_setting(nvml: Any, index: int) -> ClockSetting | None:
    """Return the clock setting of one GPU in an open session, or None if the GPU has no handle."""
    handle = _answer(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return None
    # The SM clock follows the graphics clock, the only one of the two that can be set.
    calls = (nvml.nvmlDeviceGetApplicationsClock, nvml.nvmlDeviceGetDefaultApplicationsClock)
    set_mhz, default_mhz = (_clock_mhz(call, handle, nvml.NVML_CLOCK_GRAPHICS) for call in calls)
    max_mhz = _clock_mhz(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_GRAPHICS)
    return ClockSetting(index, set_mhz, default_mhz, max_mhz)


def main() -> None:
    """Print the result as one line of JSON."""
    deadline_s, *pids = sys.argv[1:]
    line = json.dumps(to_plain(ask_here([int(pid) for pid in pids], float(deadline_s))))
    print(line, flush=True)
    os._exit(0)  # a thread that hangs in the driver would block a normal exit


if __name__ == "__main__":
    main()
