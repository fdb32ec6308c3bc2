"""One run of a session as commands run it: sampled, stopped by signals, printed or kept for a comparison."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from cpugpu_tui.cli.output.json_lines import print_answer, print_event
from cpugpu_tui.cli.running.outputs import Outputs
from cpugpu_tui.cli.running.progress import Progress
from cpugpu_tui.cli.running.saving import as_saved
from cpugpu_tui.errors import EXIT_UNFIT, EXIT_USAGE, print_notice
from cpugpu_tui.model import Event, Plan, RunFinished
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.measured import MeasuredRun, measured
from cpugpu_tui.state.state import RunState
from cpugpu_tui.telemetry.sampler import Sampler
from cpugpu_tui.telemetry.simulated import SimulatedSampler
from cpugpu_tui.transport.launch import Agents
from cpugpu_tui.transport.obeying import obeying

TELEMETRY_S = 1.0
"""Between two sweeps over the machine."""

Also = Callable[[RunState, Event], None]


class Stoppable(Protocol):
    """What a signal stops: a session, or a fleet of them."""

    signal_exit: int

    @property
    def stopping(self) -> bool:
        """Whether a stop was asked for."""

    def stop(self) -> None:
        """Stop after the block in flight."""

    def kill(self) -> None:
        """Stop at once."""


def facts() -> dict[str, object]:
    """Return what the controller adds to a run's environment."""
    return {"argv": sys.argv[1:]}


def run_once(
    session: Session, agents: Agents, plan: Plan, remark: str | None, *, as_json: bool, outputs: Outputs
) -> int:
    """Run one session; print its events as they come, or its table at the end, and write what else was asked for.

    `remark` is what opening the history did that a person should know. Returns the exit code of the run itself: files
    that could not be written are told by `outputs`.
    """
    state = RunState()
    progress = Progress()

    def deliver(event: Event) -> None:
        nonlocal state
        state = state.apply(event)
        outputs.see(state, event)
        if as_json:
            if isinstance(event, RunFinished):
                print_answer(state)
            print_event(event)
        progress.show(state, event)

    with signals_stop(session), telemetry(session, agents, plan):
        finished = session.run(deliver)
    progress.clear()
    if finished.status == "failed" and (as_json or state.run is None):
        print_notice(f"cpugpu-tui: {finished.message} {finished.remedy}".strip())
    if as_json:
        if remark:
            print_notice(remark)
    elif state.run is not None:
        from cpugpu_tui.cli.output.tables import print_state

        print_state(*as_saved(state, session.saver.unsaved, remark))
        sys.stdout.flush()
    for line in outputs.write():
        print_notice(line)
    return session.signal_exit or finished.exit_code


@contextmanager
def telemetry(session: Session, agents: Agents, plan: Plan) -> Iterator[None]:
    """Sample the machine while the session runs; its readings become events of the run."""
    if plan.simulation is not None and plan.simulation.pace == 0:
        yield
        return
    sampler = (
        Sampler(TELEMETRY_S, session.add_telemetry, agents.pids)
        if plan.simulation is None
        else SimulatedSampler(TELEMETRY_S, session.add_telemetry, plan.simulation.gpus)
    )

    def hush(live: bool) -> None:
        """Leave readings that cost the driver milliseconds to the seconds before the plan is sent."""
        sampler.quiet = live

    session.on_live = hush
    sampler.start()
    try:
        yield
    finally:
        sampler.stop()


@contextmanager
def signals_stop(session: Stoppable) -> Iterator[None]:
    """ctrl+c stops after the block, twice at once; SIGTERM and SIGHUP stop at once and exit 143 and 129."""

    def obey(number: int) -> None:
        if number != signal.SIGINT:
            session.signal_exit = 128 + number
            session.kill()
        elif session.stopping:
            session.kill()
        else:
            session.stop()
            if sys.stderr.isatty():
                with suppress(OSError):  # the terminal may be gone
                    os.write(2, b"\r\x1b[KStopping after the block in flight; ctrl+c again stops at once.\n")

    with obeying(obey):
        yield


# ------------------------------------------------------------------ runs that are compared


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


def turns(count: int, rounds: int) -> list[int]:
    """Return whose turn it is: each of `count` once a round, every other round backwards.

    So drift of the machine is in all of them alike: 0 1, 1 0, 0 1, …
    """
    order: Sequence[int] = range(count)
    return [each for index in range(rounds) for each in (order if index % 2 == 0 else reversed(order))]
