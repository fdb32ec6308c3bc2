"""Tells a recording as a session tells a run, so that every face shows it as it shows a live one.

The history keeps neither what the agent was at between two events nor the gaps in which a screen paints: both are told
anew here, from what comes next. They are no results and change none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cpugpu_tui.demo.recording import Recording
from cpugpu_tui.errors import UsageError
from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.model import (
    Calibrated,
    DeviceSampled,
    EnergyMeasured,
    Event,
    Gap,
    KernelsProfiled,
    Progressed,
    RunFinished,
    TelemetryRead,
)

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


class Clock:
    """The real clock; a test has one of its own."""

    def now_s(self) -> float:
        """Return the seconds since some moment."""
        return time.monotonic()

    def wait(self, changed: threading.Condition, seconds: float | None) -> None:
        """Wait so long, or until something has changed; `changed` is held."""
        changed.wait(seconds)


class Player:
    """Plays all runs, one after the other. `run` blocks; the other methods may be called from any thread."""

    notice: str | None = None
    series_id = ""

    def __init__(
        self,
        recording: Recording,
        pace: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`pace` as of `pace_of`."""
        self._recording, self._pace = recording, pace
        self._clock = clock or Clock()
        self._changed = threading.Condition()
        self._paused = self._skipping = self._killed = False
        self._origin_s = 0.0
        """When the run in play would have begun, had nobody paused."""

    def run(self, deliver: Callable[[Event], None]) -> RunFinished:
        """Deliver the events of all runs when they are due; return the last one's end."""
        runs = self._recording.runs
        for index, (run, speed) in enumerate(zip(runs, speeds(runs, self._pace), strict=True)):
            if index:
                self._begin()
                self._until(BETWEEN_S / (self._pace or 1.0))
            if not self._killed:
                self._play(run, speed, deliver)
        return RunFinished(status="stopped" if self._killed else "done")

    def _play(self, run: ExportedRun, speed: float, deliver: Callable[[Event], None]) -> None:
        self._begin()
        for at_s, event in told(run, speed):
            self._until(at_s)
            if self._killed:
                return
            # What is skipped is told at once, and not painted in between.
            if not (self._skipping and isinstance(event, Gap | Progressed)):
                deliver(event)

    def _begin(self) -> None:
        with self._changed:
            self._skipping = False
            self._origin_s = self._clock.now_s()

    def _until(self, at_s: float) -> None:
        """Wait for a moment of the run; a skip ends that at once, and a pause puts it off."""
        with self._changed:
            while not (self._skipping or self._killed):
                left_s = self._origin_s + at_s - self._clock.now_s()
                if self._paused:
                    self._clock.wait(self._changed, None)
                    self._origin_s = self._clock.now_s() + left_s - at_s
                elif left_s <= 0:
                    return
                else:
                    self._clock.wait(self._changed, left_s)

    # ---------------------------------------------------------------- what others ask for

    def stop(self) -> None:
        """Go to the end of the run, or from between two runs to the next; also out of a pause."""
        with self._changed:
            self._skipping, self._paused = True, False
            self._changed.notify_all()

    def kill(self) -> None:
        """End it, wherever it is; nothing is told afterwards."""
        with self._changed:
            self._killed = True
            self._changed.notify_all()

    def pause(self) -> None:
        """Stand still."""
        with self._changed:
            self._paused = True
            self._changed.notify_all()

    def resume(self) -> None:
        """Go on."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def add_telemetry(self, event: TelemetryRead) -> None:
        """Take nothing: the readings of a recording are in it."""


# ------------------------------------------------------------------ what is due when


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
