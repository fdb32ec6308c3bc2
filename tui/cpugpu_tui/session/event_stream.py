"""The events of a run in order: numbered, saved, and delivered to whoever watches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from cpugpu_tui.model import (
    Calibrated,
    CaseFailed,
    CaseFinished,
    CaseStarted,
    CeilingsMeasured,
    DevicesFound,
    Event,
    HalfRoundTimed,
    Hello,
    Plan,
    Progressed,
    RunFinished,
    RunStarted,
    TelemetryRead,
)
from cpugpu_tui.session.saving import BESIDE, Saver
from cpugpu_tui.state.folding import Remaining
from cpugpu_tui.timing.emitter import stamped
from cpugpu_tui.transport.inbox import Gone

E = TypeVar("E", bound=Event)
Deliver = Callable[[Event], None]


class EventStream:
    """What a run has told so far, and which of its cases are left. One thread only, but for `left.settled`."""

    def __init__(self, plan: Plan, saver: Saver) -> None:
        """Begin an empty stream; nothing is saved before `begin`."""
        self._saver = saver
        self._has_cases = bool(plan.cases)
        self.deliver: Deliver = lambda _event: None
        """Who is told; set before the first event."""
        self.left = Remaining(plan)
        """The cases without a result."""
        self.failed_cases = 0
        """Cases that failed, those left out by request aside."""
        self.blame: Progressed | None = None
        """What the agent said last that it does."""
        self._seq = 0
        self._early: list[TelemetryRead] = []
        self._devices_known = False

    @property
    def has_begun(self) -> bool:
        """Whether `RunStarted` was told."""
        return self._seq > 0

    def begin(self, started: RunStarted) -> None:
        """Tell the first event; readings that came before it follow."""
        event = self.stamp(started)
        if self._has_cases:  # a calibration alone is kept as ceilings; history lists what has rows
            self._saver.begin(event)
        self.left.note(event)
        self.deliver(replace(event, number=self._saver.number))
        self._tell_early()

    def end(self, finished: RunFinished) -> RunFinished:
        """Tell the last event, and return it with its number."""
        finished = self.stamp(finished)
        self._saver.finish(finished)
        self.deliver(finished)
        return finished

    def _tell_early(self) -> None:
        for reading in self._early:
            self.add_telemetry(reading)

    def add_telemetry(self, event: TelemetryRead) -> None:
        """Make a reading an event of this run, in its place among the others."""
        if not self.has_begun:
            self._early.append(event)
            return
        self._seq += 1
        event = replace(event, seq=self._seq)
        self._saver.note_beside(event)
        self.deliver(event)

    def add(self, event: Event) -> None:
        """Number what the agent told, note it and deliver it; a finished case is committed first."""
        known = isinstance(event, DevicesFound) and self._devices_known
        if known or isinstance(event, (TelemetryRead, Hello, RunStarted)):
            return  # told already, or not the agent's to tell
        self._seq += 1
        event = replace(event, seq=self._seq)
        match event:
            case DevicesFound():
                self._devices_known = True
                self._saver.devices(event)
            case Progressed():
                if event.phase != "gap":
                    self.blame = event
            case CaseStarted() | Calibrated() | HalfRoundTimed():
                self._saver.note(event)
            case CeilingsMeasured():
                self._saver.ceilings(event.ceilings)
                if self._has_cases:  # a run's own row of the history; a calibration alone has none
                    self._saver.note_beside(event)
            case _ if isinstance(event, BESIDE):
                self._saver.note_beside(event)
            case CaseFinished() | CaseFailed():
                self._settle(event)
                return
        self.left.note(event)
        self.deliver(event)

    def _settle(self, event: CaseFinished | CaseFailed) -> None:
        """Commit a case, then show it."""
        self.left.note(event)
        if self.blame is not None and self.blame.case == event.case:
            self.blame = None
        if isinstance(event, CaseFailed) and event.kind != "skipped":
            self.failed_cases += 1
        self._saver.settle(event)
        self.deliver(event)

    def settle_crash(self, gone: Gone) -> None:
        """Blame the case that the agent was at when it died, unless its failure is told already."""
        blame = self.blame
        if blame is None or not blame.case or blame.case in self.left.settled:
            return
        self.fail(
            blame.case,
            "crashed",
            f"The agent {gone.manner} during {blame.phase} on {blame.device}. {gone.last_words}".strip(),
            "The rest went on in a fresh agent; this case is not tried again.",
            blame.device,
        )

    def fail(self, case: str, kind: str, message: str, remedy: str, device: str | None) -> None:
        """End a case without a result."""
        self._settle(
            self.stamp(CaseFailed(case=case, kind=kind, message=message, remedy=remedy, device=device or None))
        )

    def skip_rest(self, finished: RunFinished) -> None:
        """End the cases that were not reached, with the reason for which the run ended."""
        if not self.has_begun:
            return
        why = finished.message or "Stopped by request."
        skipped = [
            self.stamp(CaseFailed(case=case.key, kind="skipped", message=why, remedy="Run again to time it."))
            for case in self.left.cases
        ]
        self._saver.settle_all(skipped)
        for event in skipped:
            self.left.note(event)
            self.deliver(event)

    def stamp(self, event: E) -> E:
        """Return an event of our own with its number and time."""
        self._seq += 1
        return stamped(event, self._seq)
