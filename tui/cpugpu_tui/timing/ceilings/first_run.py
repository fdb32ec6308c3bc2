"""The ceilings that `limited by` needs, measured within seconds after the first run on a machine."""

from __future__ import annotations

from typing import Any

from cpugpu_tui.errors import CpuGpuError, UnfitError
from cpugpu_tui.model import CALIBRATION, CeilingsMeasured, Device, Gap, Plan, Progressed
from cpugpu_tui.timing.ceilings.calibrate import measure, quick
from cpugpu_tui.timing.control import Control
from cpugpu_tui.timing.emitter import Emit
from cpugpu_tui.timing.host_watch import lacks_core
from cpugpu_tui.timing.timers import GAP_MS, Machine, Stopwatch, leave_gap
from cpugpu_tui.timing.torch_devices import first_line

LEAST_SHARE_S = 0.5
"""A device is not measured in less time than this."""

STEPS_SHARE = 0.7
"""Share of a device's time after which no step of its calibration begins: the last one takes the rest."""

TRIES = 2
"""A device whose threads lacked a core is measured again, as long as there is time."""


def first_ceilings(
    plan: Plan, machine: Machine, environment: dict[str, Any], emit: Emit, control: Control, left_s: float | None
) -> CpuGpuError | None:
    """Measure, within `plan.ceilings_s`, the devices of which the plan has no ceilings; return why one is missing.

    The cases are over by now. Whatever goes wrong here, even a GPU that is lost, leaves their results as they are.
    `left_s` is what is left of the run's own time limit, None without one.
    """
    missing = [d for d in machine.devices if not any(known.is_of(d) for known in plan.ceilings)]
    if plan.ceilings_s is None or not missing:
        return None
    watch = Stopwatch()
    limit_s = plan.ceilings_s if left_s is None else min(plan.ceilings_s, left_s)
    for index, device in enumerate(missing):
        share_s = (limit_s - watch.elapsed_s()) / (len(missing) - index)
        if control.stopping or share_s < LEAST_SHARE_S:
            return None  # the next run finds what is still missing
        _announce(device, plan, emit, limit_s)
        try:
            _measure_one(device, plan, machine, environment, emit, control, share_s)
        except CpuGpuError as error:
            return error
        except RuntimeError as error:
            return UnfitError(f"{device.name} failed while it was measured: {first_line(error).rstrip('.')}.")
    return None


def _announce(device: Device, plan: Plan, emit: Emit, limit_s: float) -> None:
    """Say what comes, and leave a user interface the time to show it."""
    note = f"peak rates for 'limited by', once, at most {limit_s:.0f} s"
    emit(Progressed(case="", device=device.name, phase=CALIBRATION, note=note))
    if plan.gaps:
        emit(Gap(duration_ms=GAP_MS))
    emit.flush()
    if plan.gaps:
        leave_gap(GAP_MS)


def _measure_one(
    device: Device, plan: Plan, machine: Machine, environment: dict[str, Any], emit: Emit, control: Control,
    share_s: float,
) -> None:  # fmt: skip
    """Measure one device within `share_s`.

    Raises:
        CpuGpuError: it failed, or other work took the cores: a tenth of the true rate would be kept for good.
    """
    watch = Stopwatch()
    dtypes = tuple(dict.fromkeys(case.dtype for case in plan.cases))
    gauge = machine.gauge(device.name)  # of a GPU it warms up for 0.3 s
    for _ in range(TRIES):
        left_s = share_s - watch.elapsed_s()
        if left_s < LEAST_SHARE_S:
            break
        machine.watch.begin(device)
        found = measure(gauge, environment, emit, control, quick(dtypes, STEPS_SHARE * left_s, is_cpu=device.is_cpu))
        if found is None:
            return
        if not lacks_core(machine.watch.end().waited):
            emit(CeilingsMeasured(ceilings=found))
            return
    raise UnfitError(
        f"Peak rates of {device.name} are not known yet: other work took its cores while they were measured.",
        "They are measured after the next run.",
    )
