"""Runs of one plan after each other, each in a fresh agent, collected for a comparison."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cpugpu_tui.cli.running.one_run import controller_facts, say_why, watched
from cpugpu_tui.errors import EXIT_OK, EXIT_UNFIT, EXIT_USAGE, print_notice
from cpugpu_tui.model import Event, Plan
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.folding import MeasuredRun, measured
from cpugpu_tui.store.outbox import Outbox
from cpugpu_tui.transport.agent_pool import Agents


class Turn(NamedTuple):
    """A run to make."""

    plan: Plan
    series_id: str
    outbox: Outbox | None
    """Where it is saved; None for a run that is not."""


def run_turns(
    turns: Sequence[Turn], agents: Agents, case_timeout_s: float | None, take: Callable[[Turn, MeasuredRun], None]
) -> int:
    """Make the runs in order, and pass each that has begun to `take`. Return the exit code of one that ended them."""
    events = list[Event]()
    for number, turn in enumerate(turns, start=1):
        session = Session(turn.plan, agents, turn.outbox, turn.series_id, case_timeout_s, controller_facts())
        if sys.stderr.isatty():
            print_notice(f"{turn.plan.name}: run {number} of {len(turns)}")
        events.clear()
        _, finished = watched(session, agents, turn.plan, lambda _state, event: events.append(event))
        code = session.signal_exit or finished.exit_code
        if session.stopping or finished.status == "stopped" or code in (EXIT_USAGE, EXIT_UNFIT):
            say_why(finished)
            return code or EXIT_UNFIT
        run = measured(events)
        if run is not None:
            take(turn, run)
    return EXIT_OK
