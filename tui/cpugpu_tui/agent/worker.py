"""The work of the torch-worker thread: prepare the process, find the devices, run the plan, report the end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cpugpu_tui.errors import CODE_NOT_TYPED, EXIT_INTERRUPTED, EXIT_OK, CpuGpuError, UsageError
from cpugpu_tui.model import DevicesFound, Plan, RunFinished
from cpugpu_tui.timing.calibrate import calibrate, first_ceilings
from cpugpu_tui.timing.channel import Control, Emit
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.timing.timers import CaseError, Machine, Stopwatch
from cpugpu_tui.workloads.code_workload import register

THREAD_NAME = "torch-worker"
"""Name of the thread that calls every kernel."""


def work(plan: Plan, environment: dict[str, Any], emit: Emit, control: Control, *, allows_code: bool = False) -> bool:
    """Run a plan to its end; return False if this process must not be used again.

    `allows_code`: the person typed the plan's code just now; code in a plan from elsewhere is refused.

    Every outcome is an event. `RunFinished` is the last one, unless the process dies or has to be replaced.
    """
    try:
        with quiet_interpreter():
            if plan.codes and not allows_code:
                raise UsageError(*CODE_NOT_TYPED)
            register(plan.codes)
            machine = _machine(plan, environment, emit, control)
            emit(DevicesFound(devices=machine.devices, no_gpu=machine.no_gpu))
            emit.flush()
            for device in machine.devices if plan.calibrate else ():
                if not control.stopping:  # a gauge of a GPU takes its context
                    calibrate(machine.gauge(device.name), environment, emit, control, gaps=plan.gaps)
            watch = Stopwatch()
            status = "stopped" if control.stopping else Scheduler(plan, machine, emit, control).run()
            machine.release()
            left_s = None if plan.max_seconds is None else plan.max_seconds - watch.elapsed_s()
            remark = first_ceilings(plan, machine, environment, emit, control, left_s) if status == "done" else None
    except CaseError:
        # Its CaseFailed was sent. The controller starts another process for the remaining cases.
        emit.flush()
        return False
    except CpuGpuError as error:
        emit(RunFinished(status="failed", message=error.message, remedy=error.remedy, exit_code=error.exit_code))
    else:
        code = EXIT_OK if status == "done" else EXIT_INTERRUPTED
        message, remedy = (remark.message, remark.remedy) if remark is not None else ("", "")
        emit(RunFinished(status=status, message=message, remedy=remedy, exit_code=code))
    emit.flush()
    return True


def stand_by() -> None:
    """Prepare for a plan while nobody waits: it shortens the time from plan to first event from 240 to 9 ms."""
    import cpugpu_tui.timing.torch_machine  # noqa: F401 - 30 modules, none of them torch

    gc.collect()  # once over all of torch's objects; frozen, they cost nothing in the collection before a plan
    gc.freeze()


def _machine(plan: Plan, environment: dict[str, Any], emit: Emit, control: Control) -> Machine:
    if not plan.times_commands or plan.simulation is not None:
        return make_machine(plan, environment)
    from cpugpu_tui.timing.command_machine import CommandMachine

    return CommandMachine(plan, environment, emit, control)


def make_machine(plan: Plan, environment: dict[str, Any]) -> Machine:
    """Return the devices of this process for a plan, simulated or real.

    Raises:
        UnfitError: a device that was asked for cannot be used.
    """
    if plan.simulation is not None:
        from cpugpu_tui.simulation.simulated_machine import SimulatedMachine

        return SimulatedMachine(plan)
    import torch

    from cpugpu_tui.timing.torch_machine import TorchMachine

    # Before the first parallel operation: new pool threads inherit the flag, existing ones keep theirs
    # (measured: denormals are 16× slower, method.md, "What disturbs a time").
    torch.set_flush_denormal(plan.flush_denormals)
    torch.set_num_threads(int(environment["threads"]))
    torch.manual_seed(plan.seed)
    return TorchMachine(plan, environment)


@contextmanager
def quiet_interpreter() -> Iterator[None]:
    """Keep the garbage collector out of timed blocks: a full collection takes up to 190 ms."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
