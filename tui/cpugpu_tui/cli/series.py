"""Runs a plan several times, or in turn with several interpreters, with progress on stderr and nothing on stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cpugpu_tui.cli.progress import Progress
from cpugpu_tui.cli.run import facts, signals_stop, telemetry
from cpugpu_tui.errors import EXIT_UNFIT, EXIT_USAGE, print_notice
from cpugpu_tui.model import Event, Plan, RunFinished
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.measured import MeasuredRun, measured
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store.outbox import Outbox
from cpugpu_tui.transport.agents import Agents

Also = Callable[[RunState, Event], None]


@dataclass(frozen=True)
class RanOnce:
    """How one run ended."""

    run: MeasuredRun | None
    """None if it never began."""
    finished: RunFinished
    exit_code: int
    """As `run` would exit with."""
    is_over: bool
    """Whether another run would be unwanted (somebody stopped this one) or in vain (it cannot be run here)."""


def run_quietly(
    session: Session, agents: Agents, plan: Plan, label: str, also: Also = lambda _state, _event: None
) -> RanOnce:
    """Run a session with a line of progress below `label`; `also` is called with each event, and the state after it."""
    state, progress = RunState(), Progress()
    kept: list[Event] = []
    if sys.stderr.isatty():
        print_notice(label)

    def deliver(event: Event) -> None:
        nonlocal state
        state = state.apply(event)
        kept.append(event)
        also(state, event)
        progress.show(state, event)

    with signals_stop(session), telemetry(session, agents, plan):
        finished = session.run(deliver)
    progress.clear()
    code = session.signal_exit or finished.exit_code
    is_over = session.stopping or finished.status == "stopped" or code in (EXIT_USAGE, EXIT_UNFIT)
    return RanOnce(measured(kept), finished, code, is_over)


def new_session(
    plan: Plan, agents: Agents, outbox: Outbox | None, series_id: str, case_timeout_s: float | None
) -> Session:
    """Return a run of a series that has not begun."""
    return Session(plan, agents, outbox, series_id, case_timeout_s, facts())


def turns(count: int, rounds: int) -> list[int]:
    """Return whose turn it is: each of `count` once a round, every other round backwards.

    So drift of the machine is in all of them alike: 0 1, 1 0, 0 1, …
    """
    order: Sequence[int] = range(count)
    return [each for index in range(rounds) for each in (order if index % 2 == 0 else reversed(order))]
