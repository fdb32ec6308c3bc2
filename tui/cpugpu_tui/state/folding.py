"""Fold all events of a run into its state in linear time, and find the cases that are left to run.

`RunState.apply` copies the mapping of all rows for each event: 3 s for the 40,000 events of 2,000 cases. Cases are
independent of each other, so here each is folded on its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from cpugpu_tui.decide.interval import NONE
from cpugpu_tui.model import (
    Case,
    CaseFailed,
    CaseFinished,
    CasesChosen,
    Event,
    Found,
    Plan,
    Progressed,
    RunStarted,
    TelemetryRead,
)
from cpugpu_tui.state.state import RunState


def folded(events: Iterable[Event], state: RunState | None = None) -> RunState:
    """Return the same state as `RunState.apply` for each event in turn, starting from `state`. Telemetry is skipped."""
    state, alone = state or RunState(), dict[str, RunState]()
    shared = state.correlation
    for event in events:
        if isinstance(event, TelemetryRead):
            continue
        case = "" if isinstance(event, Progressed) else getattr(event, "case", "")
        if case in state.rows:
            before = alone.get(case) or RunState(rows={case: state.rows[case]})
            if isinstance(event, CaseFinished):
                before = replace(before, correlation=shared)
            alone[case] = before.apply(event)
            if isinstance(event, CaseFinished):
                shared = alone[case].correlation
            continue
        if isinstance(event, RunStarted):
            alone.clear()
            shared = NONE
        state = state.apply(event)
    state = replace(
        state,
        rows={**state.rows, **{case: own.rows[case] for case, own in alone.items()}},
        settled=state.settled + sum(own.settled for own in alone.values()),
        failed=state.failed + sum(own.failed for own in alone.values()),
        correlation=shared,
    )
    return state.with_shared_correlation() if state.finished is not None else state


# ------------------------------------------------------------------ cases left after an agent died


class Remaining:
    """Tracks the cases left to run. Events of a search are folded, because the next agent needs its findings."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._cases = dict.fromkeys(plan.cases)
        self._state = RunState()
        self.settled: set[str] = set()
        """Keys of finished and failed cases."""

    def note(self, event: Event) -> None:
        """Handle the next event of the run."""
        if isinstance(event, RunStarted):
            self._plan = event.plan
        elif isinstance(event, CasesChosen):
            self._cases.update(dict.fromkeys(event.cases))
        elif isinstance(event, (CaseFinished, CaseFailed)):
            self.settled.add(event.case)
        if self._plan.search is not None:
            self._state = self._state.apply(event)

    @property
    def cases(self) -> tuple[Case, ...]:
        """Return the cases that are not settled."""
        return tuple(case for case in self._cases if case.key not in self.settled)

    def plan(self, max_seconds: float | None) -> Plan:
        """Return the plan for the next agent."""
        search = self._plan.search
        if search is not None:
            found = (_found(self._state, case) for case in self._cases if case.key in self.settled)
            search = replace(search, found=tuple(chain.from_iterable(found)))
        return replace(self._plan, cases=self.cases, max_seconds=max_seconds, search=search)


def _found(state: RunState, case: Case) -> list[Found]:
    """Return the findings of a settled case, one for each GPU compared with the CPU."""
    row = state.rows.get(case.key)
    known = row.comparisons if row is not None and row.status == "ok" else {}
    return [Found(case, c.speedup, c.low, c.high, c.rounds, gpu) for gpu, c in known.items()] or [Found(case)]
