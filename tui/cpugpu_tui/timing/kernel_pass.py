"""The kernels of one call of each case: the last thing a run does.

Why last: the profiler's first use takes 4 s on an H200, and once its library is loaded every launch of the
process is slower (launch and synchronise of a 16×16 product: 16 µs before, 21 µs after).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cpugpu_tui.model import Case, KernelsProfiled, Progressed
from cpugpu_tui.timing.emitter import Emit
from cpugpu_tui.timing.timers import Machine


def profile_cases(cases: Sequence[Case], machine: Machine, emit: Emit, over: Callable[[], bool]) -> None:
    """Profile one call of each case on each GPU; a case that fails here keeps the times it has."""
    gpus = [device.name for device in machine.devices if not device.is_cpu]
    for case in cases if gpus else ():
        for device in gpus:
            if over():
                return
            emit(Progressed(case=case.key, device=device, phase="kernels"))
            emit.flush()
            try:
                timer = machine.timer(device)
                found = timer.kernels(timer.load(case, machine.make_inputs(case)))
            except Exception:  # noqa: BLE001 - its times are out already; the profile alone is missing
                machine.release()
                continue
            if found is not None:
                emit(KernelsProfiled(case=case.key, device=device, count=found.count, elapsed_ns=found.elapsed_ns))
        emit.flush()
