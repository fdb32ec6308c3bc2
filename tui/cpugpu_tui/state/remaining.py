"""What of a plan is left when an agent has died: the cases that are not settled, and what a search knows by then."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from cpugpu_tui.model import Case, CaseFailed, CaseFinished, CasesChosen, Event, Found, Plan, RunStarted
from cpugpu_tui.state.state import RunState


class Remaining:
    """Follows a run's events; a search's are folded, because the next agent has to know what was found out."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._cases = dict.fromkeys(plan.cases)
        self._state = RunState()
        self.settled: set[str] = set()
        """Keys of the cases that are finished or failed."""

    def note(self, event: Event) -> None:
        """Take an event of the run into account."""
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
    """Return what is known of a settled case, on each GPU that was compared with the CPU."""
    row = state.rows.get(case.key)
    known = row.comparisons if row is not None and row.status == "ok" else {}
    return [Found(case, c.speedup, c.low, c.high, c.rounds, gpu) for gpu, c in known.items()] or [Found(case)]
