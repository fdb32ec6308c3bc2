"""Going on with a run that did not get to its end: the cases that are missing, in the same environment, same run."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cpugpu_tui.errors import UnfitError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import CaseFailed, CaseFinished, DevicesFound, Event, Hello, Plan, RunFinished, RunStarted
from cpugpu_tui.session.again import again
from cpugpu_tui.session.event_stream import EventStream
from cpugpu_tui.session.saving import Saver
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.folding import Remaining
from cpugpu_tui.transport.agents import Agents

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary, Store
    from cpugpu_tui.store.outbox import Outbox

LOOKED_AT = 50
"""Newest runs among which one with something missing is looked for."""

PASSING = ("argv", "torch_import_s", "worker", "python_option", "case_timeout_s", "face", "fleet")
"""Facts that differ from start to start and change no time."""

SAYS_ALL = 6
"""Differences that are said one by one."""


@dataclass(frozen=True)
class Unfinished:
    """A saved run with cases that are missing."""

    events: tuple[Event, ...]
    """Its stream, less what a new attempt voids: cases that were skipped, and the end."""
    summary: RunSummary

    @property
    def started(self) -> RunStarted:
        """The first event."""
        first = self.events[0]
        assert isinstance(first, RunStarted)
        return first


def unfinished(store: Store, name: str | None) -> Unfinished:
    """Return the run that a person names or, without a name, this machine's newest in which something is missing.

    Raises:
        UsageError: there is no such run, nothing is missing in it, or it is still running.
    """
    if name is not None:
        run = store.summary(store.find(name))
        if run.status == "running":
            raise UsageError(f"Run {run.number} is still running.", "Wait for its end, or stop it.")
        found = _what_is_missing(store, run)
        if found is not None and (host := found.started.environment.get("fleet_host")):
            raise UsageError(
                f"Run {run.number} was measured on {printable(str(host))}, by a fleet.",
                f"Run it there anew: `{again(found.started)}`.",
            )
        if found is None:
            raise UsageError(f"Nothing is missing in run {run.number}.", f"`cpugpu-tui show {run.number}` shows it.")
        return found
    here = socket.gethostname()
    for run in store.runs(LOOKED_AT):
        if run.hostname != here:
            continue  # imported, or merged from another machine
        if (run.status != "running" and run.status != "done") or run.cases_skipped:
            found = _what_is_missing(store, run)
            if found is not None and not found.started.environment.get("fleet_host"):
                return found
    raise UsageError("No run was left unfinished.", "`cpugpu-tui history` lists the runs.")


def _what_is_missing(store: Store, run: RunSummary) -> Unfinished | None:
    events = store.load(run.run_id)
    kept = tuple(event for event in events if not _is_void(event))
    left = Remaining(Plan("", ()))
    for event in kept:
        left.note(event)
    started = kept[0]
    assert isinstance(started, RunStarted)
    # A search that was broken off would have chosen further cases.
    searching = started.plan.search is not None and run.status != "done"
    plan_cases = set(started.plan.cases) | set(left.cases)
    missing = any(case.key not in left.settled for case in plan_cases)
    return Unfinished(kept, run) if missing or searching else None


def _is_void(event: Event) -> bool:
    return isinstance(event, RunFinished) or (isinstance(event, CaseFailed) and event.kind == "skipped")


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what of an environment is not what it was, as `torch 2.6.0, now 2.7.0`; empty when times can be joined.

    A fact that only one of the two versions of this program tells is no difference.
    """
    return [
        f"{name.replace('_', ' ')} {_said(then[name])}, now {_said(now[name])}"
        for name in then
        if name in now and name not in PASSING and then[name] != now[name]
    ]


def device_differences(then: DevicesFound, now: DevicesFound) -> list[str]:
    """Return which devices are others than they were."""
    before, after = ([(d.name, d.label, d.uuid) for d in found.devices] for found in (then, now))
    return [] if before == after else [f"devices {_names(then)}, now {_names(now)}"]


def _names(found: DevicesFound) -> str:
    return " and ".join(f"{d.label} ({d.uuid})" if d.uuid else d.label for d in found.devices) or "none"


def _said(value: Any) -> str:
    return "unknown" if value is None else str(value)


class ResumedSession(Session):
    """Runs what is missing in a saved run; its observers are told the saved part first, as if it had just happened.

    Nothing is written before environment and devices have been found to be the same.
    """

    def __init__(
        self,
        run: Unfinished,
        agents: Agents,
        outbox: Outbox,
        case_timeout_s: float | None = None,
    ) -> None:
        started = run.started
        settled = any(isinstance(event, CaseFinished | CaseFailed) for event in run.events)
        plan = replace(started.plan, calibrate=started.plan.calibrate and not settled)
        timeout_s = case_timeout_s or started.environment.get("case_timeout_s")
        super().__init__(plan, agents, outbox, started.series_id, timeout_s)
        self.run_id = started.run_id
        self._run = run
        self.saver = Saver(outbox, started.run_id)
        self._stream: ResumedStream = ResumedStream(run, plan, self.saver)

    def _begin(self, hello: Hello) -> None:
        """Tell what is known already.

        Raises:
            UnfitError: the environment is another one.
        """
        _require_same(self._run, differences(self._run.started.environment, hello.environment))
        self.on_live(True)
        self._stream.tell_saved()


class ResumedStream(EventStream):
    """Goes on behind the events of a saved run."""

    def __init__(self, run: Unfinished, plan: Plan, saver: Saver) -> None:
        super().__init__(plan, saver)
        self._run = run
        self._reopened = False
        for event in run.events:
            self.left.note(replace(event, plan=plan) if isinstance(event, RunStarted) else event)

    def tell_saved(self) -> None:
        """Deliver the saved events; readings that came meanwhile follow."""
        for event in self._run.events:
            self.deliver(event)
        self._seq = max(event.seq for event in self._run.events)
        self._tell_early()

    def add(self, event: Event) -> None:
        """Number, note and deliver an event, once the devices are found to be the same.

        Raises:
            UnfitError: the devices are others.
            UsageError: another process has resumed the run meanwhile.
        """
        if isinstance(event, DevicesFound) and not self._reopened:
            known = next((found for found in self._run.events if isinstance(found, DevicesFound)), None)
            if known is not None:
                _require_same(self._run, device_differences(known, event))
                self._devices_known = True
            self._reopen()
        super().add(event)

    def _settle(self, event: CaseFinished | CaseFailed) -> None:
        self._reopen()
        super()._settle(event)

    def _reopen(self) -> None:
        """Make the run ours in the store, once."""
        if not self._reopened:
            self._saver.reopen(self._run.summary.number)
            self._reopened = True

    def skip_rest(self, finished: RunFinished) -> None:
        """End the cases that were not reached; of a run that was never taken up, none."""
        if self._reopened:
            super().skip_rest(finished)


def _require_same(run: Unfinished, differing: Sequence[str]) -> None:
    if differing:
        more = f"; and {len(differing) - SAYS_ALL} more" if len(differing) > SAYS_ALL else ""
        raise UnfitError(
            f"Run {run.summary.number} was measured in another environment: {'; '.join(differing[:SAYS_ALL])}{more}.",
            "Times from both must not share a table: run it anew.",
        )
