"""Asks the NVIDIA driver in a process of its own: its library may crash, and a call may hang and never be ended.

`python -m cpugpu_tui.doctor.driver_child SECONDS PID…` prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from cpugpu_tui.config.validation import convert
from cpugpu_tui.doctor.driver_setup import DriverSetup, driver_setup
from cpugpu_tui.doctor.facts import DriverFacts
from cpugpu_tui.doctor.host_setup import has_nvidia_gpu
from cpugpu_tui.doctor.one_by_one import one_by_one
from cpugpu_tui.doctor.section import Section
from cpugpu_tui.machine.nvml import Nvml
from cpugpu_tui.machine.nvml.returns import BROKEN, crash_problem
from cpugpu_tui.plain import to_plain

START_S = 30.0
"""For the process to start and to import: 0.3 s where the disk is not busy."""


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


def main() -> None:
    """Print what came of asking."""
    deadline_s, *pids = sys.argv[1:]
    line = json.dumps(to_plain(asked([int(pid) for pid in pids], float(deadline_s))))
    print(line, flush=True)
    os._exit(0)  # threads that hang in the driver would not let the interpreter end in peace


if __name__ == "__main__":
    main()
