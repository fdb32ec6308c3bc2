"""A duet of two codes in the app: NEW fills the table as one run, and both are compared after each pair of agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cpugpu_tui import model
from cpugpu_tui.compare.comparison import SeriesComparison
from cpugpu_tui.compare.in_turn import Face, Live, Played, Side, play
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model import Event, Plan
from cpugpu_tui.session.duet import Duet
from cpugpu_tui.session.fleet_running import facts_of
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.request import PlanRequest
from cpugpu_tui.store.outbox import Outbox
from cpugpu_tui.transport.agent_pool import Agents

NEW = 1
"""Index of the side that the table shows."""

WAITING = "Both codes are compared once the first pair of processes has timed them."


class DuetView(Face):
    """Passes on the events of NEW. Later pairs are further starts of the run that the first one began."""

    def __init__(
        self, facts: dict[str, Any], deliver: Callable[[Event], None], say: Callable[[str], None],
        begin: Callable[[int, Duet, Sequence[Agents]], None], there: Callable[[], Agents] | None = None,
    ) -> None:  # fmt: skip
        """`begin` is called with the number of each pair, from 1, before its agents time anything.

        `there` returns agents on another machine.
        """
        self._there = there
        self.facts = facts
        self._deliver, self._say, self._begin = deliver, say, begin
        self._known: set[str] = set()
        """Keys of the cases that a pair has timed."""
        self._pairs = 0
        self.run_id = ""
        """The run that the table shows; empty before it begins."""
        self.found: SeriesComparison | None = None
        """The comparison after the last pair."""
        self.problem = WAITING
        """Why there is none."""

    def run(self, request: PlanRequest, plan: Plan, sides: Sequence[Side], outbox: Outbox | None) -> None:
        """Play the duet to its end."""
        played = play(request, plan, sides, outbox, self)
        if self.run_id:
            status = "stopped" if played.is_over and self.found is not None else "failed" if played.is_over else "done"
            why = " ".join(dict.fromkeys(played.notices))
            self._deliver(model.RunFinished(status=status, message=why, exit_code=played.exit_code))

    def agents(self, python: str | None, own: OwnWorkloads, *, simulated: bool) -> Agents:
        """Return the agents of a side, here or on another machine."""
        if self._there is None:
            return super().agents(python, own, simulated=simulated)
        agents = self._there()
        self.facts = {**self.facts, **facts_of(agents.host)}
        return agents

    @contextmanager
    def pair(self, number: int, plan: Plan, duet: Duet, agents: Sequence[Agents]) -> Iterator[Live]:
        """Pass on what NEW sends."""
        self._pairs += 1
        added = tuple(case for case in plan.cases if case.key not in self._known)
        if self.run_id and added:
            self._deliver(model.CasesChosen(cases=added))
        self._begin(self._pairs, duet, agents)
        yield lambda index, _state, event: self._take(event) if index == NEW else None
        self._known |= {case.key for case in plan.cases}

    def _take(self, event: Event) -> None:
        if isinstance(event, model.RunFinished):
            return
        if self._pairs > 1 and not isinstance(event, (model.Progressed, model.Gap)):
            case = getattr(event, "case", None)
            if case in self._known and isinstance(event, model.DeviceSampled) and event.round_index:
                event = replace(event, start=self._pairs - 1)
            elif case is None or case in self._known:
                return
        if isinstance(event, model.RunStarted):
            self.run_id = event.run_id
        self._deliver(event)

    def look(self, played: Played) -> None:
        """Compare both sides."""
        try:
            self.found = next(iter(played.found()), self.found)
        except CpuGpuError as error:  # no time that both have
            self.problem = " ".join(played.notices) or str(error)

    def say(self, text: str) -> None:
        """Show a notice."""
        self._say(text)
