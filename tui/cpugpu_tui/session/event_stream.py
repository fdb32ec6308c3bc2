"""The events of a run in order: numbered, saved and delivered."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from cpugpu_tui import model
from cpugpu_tui.errors import EXIT_UNFIT, RUN_AGAIN, STOP_REQUESTED
from cpugpu_tui.session.resume import Unfinished, require_devices
from cpugpu_tui.session.saver import Saver
from cpugpu_tui.state.folding import Remaining
from cpugpu_tui.timing.channel import stamped
from cpugpu_tui.transport.agent_output import AgentExited

E = TypeVar("E", bound=model.Event)
Deliver = Callable[[model.Event], None]

OVERRUN_S = 10.0
"""How long a step may continue after the time limit: one call of a Jacobian took over 5 minutes on an H200."""

BESIDE = (
    model.EpochFinished, model.LinesProfiled, model.KernelsProfiled, model.CasesChosen, model.CodeTraced,
    model.CodeCompiled, model.TensorsPlaced, model.MachineRead, model.EnergyMeasured, model.PeerMeasured,
    model.CeilingsMeasured, model.ClockChecked, model.EarlierTimed,
)  # fmt: skip
"""Events that are stored unchanged, without tables of their own."""


def new_id() -> str:
    """Return an id that sorts by time: milliseconds as 11 hex digits, then random digits."""
    return f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(4)}"


class EventStream:
    """The events of a run so far, and the cases that are left. For one thread only, except `left.settled`."""

    def __init__(self, plan: model.Plan, saver: Saver, saved: Unfinished | None) -> None:
        """Begin an empty stream, or continue a saved run; nothing is saved before `begin`."""
        self._saver = saver
        self._saved = saved
        self._is_reopened = False
        self._has_cases = bool(plan.cases) or plan.search is not None  # one that goes on chooses its first case, too
        self.deliver: Deliver = lambda _event: None
        """Called with each event; set before the first one."""
        self.left = Remaining(plan)
        """The cases without a result."""
        self.failed_cases = 0
        """Number of cases that failed; skipped ones do not count."""
        self.timed_cases = 0
        self.blame: model.Progressed | None = None
        """What the agent last reported to be doing."""
        self._seq = 0
        self._started: model.RunStarted | None = None
        """The first event, until the devices are known: a run whose GPU is missing is refused, and not saved."""
        self._early: list[model.TelemetryRead] = []
        self._later: list[model.Event] = []
        self._devices_known = False
        for event in saved.events if saved is not None else ():
            self.left.note(replace(event, plan=plan) if isinstance(event, model.RunStarted) else event)

    @property
    def has_begun(self) -> bool:
        """Whether `begin` was called, or the saved run delivered."""
        return self._seq > 0

    def begin(self, started: model.RunStarted) -> None:
        """Keep the first event until the devices are known. It is delivered then, with readings that came before it."""
        self._started = self.stamp(started)
        self.left.note(self._started)

    def _open(self) -> None:
        """Save and deliver the first event, once."""
        if (event := self._started) is None:
            return
        self._started = None
        if self._has_cases:  # a calibration is saved as peak rates only; the history lists runs with cases
            self._saver.begin(event)
        self.deliver(replace(event, number=self._saver.number))
        self._deliver_early()

    def deliver_saved(self, saved: Unfinished) -> None:
        """Deliver the events of the saved run, then readings that came meanwhile."""
        for event in saved.events:
            self.deliver(event)
        self._seq = max(event.seq for event in saved.events)
        self._deliver_early()

    def _reopen(self) -> None:
        """Reopen a saved run in the store, once. Nothing is written before the machine is known to be the same."""
        if self._saved is not None and not self._is_reopened:
            self._saver.reopen(self._saved.summary.number, self._saved.started.plan.max_seconds)
            self._is_reopened = True

    def end(self, finished: model.RunFinished) -> model.RunFinished:
        """Save and deliver the last event; return it with its number."""
        finished = self.stamp(finished)
        self._saver.finish(finished)
        self.deliver(finished)
        return finished

    def _deliver_early(self) -> None:
        early, self._early = self._early, []
        for reading in early:
            self.add_telemetry(reading)

    def add_telemetry(self, event: model.TelemetryRead) -> None:
        """Add a telemetry reading to the events of this run."""
        if not self.has_begun or self._started is not None:
            self._early.append(event)
            return
        self._seq += 1
        event = replace(event, seq=self._seq)
        self._saver.note_beside(event)
        self.deliver(event)

    def add(self, event: model.Event) -> None:
        """Number, note and deliver an event of the agent; a finished case is committed first.

        Raises:
            UnfitError: a saved run is resumed, and the devices differ.
            UsageError: another process has resumed the saved run meanwhile.
        """
        if isinstance(event, model.DevicesFound) and self._saved is not None and not self._is_reopened:
            self._devices_known |= require_devices(self._saved, event)
            self._reopen()
        known = isinstance(event, model.DevicesFound) and self._devices_known
        if known or isinstance(event, (model.TelemetryRead, model.Hello, model.RunStarted)):
            return  # delivered already, or not an agent's event
        self._open()
        self._seq += 1
        event = replace(event, seq=self._seq)
        match event:
            case model.DevicesFound():
                self._devices_known = True
                self._saver.devices(event)
            case model.Progressed():
                if event.phase != "gap":
                    self.blame = event
            case model.CaseStarted() | model.Calibrated() | model.DeviceSampled():
                self._saver.note(event)
            case model.CeilingsMeasured():
                self._saver.ceilings(event.ceilings)
                if self._has_cases:  # a calibration alone has no run in the history
                    self._saver.note_beside(event)
            case model.ClockChecked():
                self._saver.clock(event.clock)
                if self._has_cases:
                    self._saver.note_beside(event)
            case _ if isinstance(event, BESIDE):
                self._saver.note_beside(event)
            case model.CaseFailed(kind="skipped") if self._tell_cut(event.case):
                return
            case model.CaseFinished() | model.CaseFailed():
                self._settle(event)
                return
        self.left.note(event)
        self.deliver(event)

    def add_later(self, event: model.DeviceSampled) -> None:
        """Number and deliver a half-round of a further start; `end_start` saves them."""
        self._seq += 1
        event = replace(event, seq=self._seq)
        self._later.append(event)
        self.left.note(event)
        self.deliver(event)

    def end_start(self) -> None:
        """Save the half-rounds of a further start."""
        self._saver.later(self._later)
        self._later = []

    def _settle(self, event: model.CaseFinished | model.CaseFailed) -> None:
        self._reopen()
        self.left.note(event)
        if self.blame is not None and self.blame.case == event.case:
            self.blame = None
        if isinstance(event, model.CaseFailed) and event.kind != "skipped":
            self.failed_cases += 1
        self.timed_cases += isinstance(event, model.CaseFinished)
        self._saver.settle(event)
        self.deliver(event)

    def settle_crash(self, gone: AgentExited) -> None:
        """Fail the case that the agent was timing when it died, unless it has a result already."""
        blame = self.blame
        if blame is None or not blame.case or blame.case in self.left.settled:
            return
        self.fail(
            blame.case,
            "crashed",
            f"The agent {gone.manner} during {blame.step}. {gone.last_words}".strip(),
            "Other cases ran in a new agent. This case is not retried.",
            blame.device,
        )

    def fail(self, case: str, kind: str, message: str, remedy: str, device: str | None) -> None:
        """End a case as failed."""
        self._settle(
            self.stamp(model.CaseFailed(case=case, kind=kind, message=message, remedy=remedy, device=device or None))
        )

    def end_late(self, limit_s: float, blame: model.Progressed) -> None:
        """End a step that does not return after the time limit. Cases with a round on each device keep their times."""
        rows, devices = self.left.state.rows, {each.name for each in self.left.state.devices}
        for case in self.left.cases:
            times = rows[case.key].times if case.key in rows else {}
            if times.keys() >= devices and all(each.latency_ns is not None for each in times.values()):
                self._settle(self.stamp(model.CaseFinished(case=case.key)))
        if blame.case not in self.left.settled:
            why = f"The time limit of {limit_s:g} s (--max-seconds) was over, and {blame.step} had not ended."
            self.fail(blame.case, "skipped", why, "Allow several times as long, or leave this size out.", blame.device)

    def _tell_cut(self, case: str) -> bool:
        """Deliver the events of a case that was cut short, which are in the history still; False if it has none."""
        known = [event for event in (self._saved.cut if self._saved else ()) if getattr(event, "case", "") == case]
        for event in known:
            self.left.note(event)
            self.deliver(event)
        return bool(known)

    def skip_rest(self, finished: model.RunFinished) -> None:
        """End the remaining cases as skipped, with the reason why the run ended."""
        if not self.has_begun or (self._started is not None and finished.exit_code == EXIT_UNFIT):
            return
        self._open()
        for case in self.left.cases:
            self._tell_cut(case.key)
        why, remedy = finished.message or STOP_REQUESTED, finished.remedy or RUN_AGAIN
        skipped = [
            self.stamp(model.CaseFailed(case=case.key, kind="skipped", message=why, remedy=remedy))
            for case in self.left.cases
        ]
        if self._saved is None or self._is_reopened:
            self._saver.settle(*skipped)
        for event in skipped:
            self.left.note(event)
            self.deliver(event)

    def stamp(self, event: E) -> E:
        """Return an event of this program with its number and time."""
        self._seq += 1
        return stamped(event, self._seq)
