"""Tells a recording as a session tells a run, so that every face shows it as it shows a live one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from cpugpu_tui.demo.recording import Recording
from cpugpu_tui.demo.timeline import between_s, speeds, told
from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.model import Event, Gap, Progressed, RunFinished, TelemetryRead


class Clock:
    """The real clock; a test has one of its own."""

    def now_s(self) -> float:
        """Return the seconds since some moment."""
        return time.monotonic()

    def wait(self, changed: threading.Condition, seconds: float | None) -> None:
        """Wait so long, or until something has changed; `changed` is held."""
        changed.wait(seconds)


class Playing:
    """Plays all runs, one after the other. `run` blocks; the other methods may be called from any thread."""

    notice: str | None = None
    series_id = ""

    def __init__(
        self,
        recording: Recording,
        pace: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`pace` as of `timeline.pace_of`."""
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
                self._until(between_s(self._pace))
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
