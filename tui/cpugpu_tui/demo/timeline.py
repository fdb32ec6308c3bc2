"""When what of a recorded run is told: a pure function of the run and the pace.

The history keeps neither what the agent was at between two events nor the gaps in which a screen paints: both are told
anew here, from what comes next. They are no results and change none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cpugpu_tui.errors import UsageError
from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.model import Calibrated, DeviceSampled, EnergyMeasured, Event, Gap, KernelsProfiled, Progressed

FIRST_S = 20.0
"""The first run at the demo's own pace: slow enough to watch how the search chooses its sizes."""

OTHERS_S = 43.0
"""All other runs together at that pace, each with its share by its own length."""

BETWEEN_S = 3.0
"""Between two runs: time to read the answer."""

GAP_S = 0.5
"""Between two paints."""

MOST_PACE = 1000.0

_GAP_MS = 50.0
"""As an agent's own."""


def pace_of(text: str | None) -> float | None:
    """Return how many times as fast as recorded a person wants it; None for the demo's own pace.

    Raises:
        UsageError: it is neither `original` nor a number that makes sense.
    """
    if text is None or text == "original":
        return None if text is None else 1.0
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1 / MOST_PACE <= factor <= MOST_PACE:  # also false for nan
        raise UsageError(
            f"--pace {text} is no pace.", "Write original, or a number: 2 is twice as fast, 0.5 half as fast."
        )
    return factor


def speeds(runs: Sequence[ExportedRun], pace: float | None) -> list[float]:
    """Return for each run how many times as fast as recorded it is told."""
    if pace is not None:
        return [pace] * len(runs)
    first, others = lasted_s(runs[0]), sum(lasted_s(run) for run in runs[1:])
    return [first / FIRST_S, *([others / OTHERS_S] * (len(runs) - 1))]


def between_s(pace: float | None) -> float:
    """Return how long nothing happens between two runs."""
    return BETWEEN_S / (pace or 1.0)


def lasted_s(run: ExportedRun) -> float:
    """Return how long a run took when it was recorded, from its start to its last event; never 0."""
    *_, (last_s, _) = _recorded(run)
    return max(last_s, 1e-3)


def told(run: ExportedRun, speed: float) -> Iterator[tuple[float, Event]]:
    """Yield the events of a run with the seconds after its start at which they are due, in order.

    In between come, every `GAP_S`, a `Progressed` that says what the recorded agent was at then, and a `Gap`.
    """
    events = [(at_s / speed, event) for at_s, event in _recorded(run)]
    steps = _steps(run.events)
    end_s = events[-1][0]
    before_s = 0.0
    tick = 1
    for (at_s, event), step in zip(events, steps, strict=True):
        while (tick_s := tick * GAP_S) < at_s:
            yield tick_s, Progressed(**step, elapsed_s=tick_s - before_s, seconds_left=end_s - tick_s)
            yield tick_s, Gap(duration_ms=_GAP_MS)
            tick += 1
        yield at_s, event
        before_s = at_s


def _recorded(run: ExportedRun) -> list[tuple[float, Event]]:
    """Return each event with the seconds from the start of the run; never less than that of the event before.

    The readings from before the start belong to it: they are due at once.
    """
    start_ns, at_s = run.started.mono_ns, 0.0
    found: list[tuple[float, Event]] = []
    for event in run.events:
        at_s = max(at_s, (event.mono_ns - start_ns) / 1e9)
        found.append((at_s, event))
    return found


def _steps(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return for each event what the agent was at before it: what the next event that tells of it says."""
    step: dict[str, Any] = {"case": "", "device": "", "phase": ""}
    found = []
    for event in reversed(events):
        match event:
            case DeviceSampled():
                phase = "round" if event.round_index else "as written"
                step = {"case": event.case, "device": event.device, "phase": phase, "round_index": event.round_index}
            case Calibrated():
                step = {"case": event.case, "device": event.device, "phase": "warm-up"}
            case KernelsProfiled():
                step = {"case": event.case, "device": event.device, "phase": "kernels"}
            case EnergyMeasured():
                step = {"case": event.case, "device": event.device, "phase": "energy"}
            case _:
                pass
        found.append(step)
    return found[::-1]
