"""One run of a session as commands run it: sampled, stopped by signals, printed or kept for a comparison."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
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
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.signal_watch import watch_signals

TELEMETRY_S = 1.0
"""Between two samples of the machine."""

See = Callable[[RunState, Event], None]
"""Is told each event, and the state after it."""


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


def watched(session: Session, agents: Agents, plan: Plan, see: See) -> tuple[RunState, RunFinished]:
    """Run a session to its end with a line of progress; signals stop it."""
    state, progress = RunState(), Progress()

    def deliver(event: Event) -> None:
        nonlocal state
        state = state.apply(event)
        see(state, event)
        progress.show(state, event)

    with signals_stop(session), telemetry(session, agents, plan):
        finished = session.run(deliver)
    progress.clear()
    return state, finished


def seen_by(outputs: Outputs, *, as_json: bool) -> See:
    """Return what hands the events to `outputs`, and with --json prints them as they come."""

    def see(state: RunState, event: Event) -> None:
        outputs.see(state, event)
        if as_json:
            if isinstance(event, RunFinished):
                print_answer(state)
            print_event(event)

    return see


def say_why(finished: RunFinished) -> None:
    """Say on stderr why a run ended as it did, if it says that."""
    if finished.message:
        print_notice(f"cpugpu-tui: {finished.message} {finished.remedy}".strip())


def run_once(
    session: Session, agents: Agents, plan: Plan, remark: str | None, *, as_json: bool, outputs: Outputs
) -> int:
    """Run one session; print its events as they come, or its table at the end, and write what else was asked for.

    `remark` is what opening the history did that a person should know. Returns the exit code of the run itself: files
    that could not be written are told by `outputs`.
    """
    state, finished = watched(session, agents, plan, seen_by(outputs, as_json=as_json))
    if finished.status == "failed" and (as_json or state.run is None):
        say_why(finished)
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

    with watch_signals(obey):
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
    session: Session, agents: Agents, plan: Plan, label: str, see: See = lambda _state, _event: None
) -> RanOnce:
    """Run a session with a line of progress below `label`."""
    kept: list[Event] = []

    def keep(state: RunState, event: Event) -> None:
        kept.append(event)
        see(state, event)

    if sys.stderr.isatty():
        print_notice(label)
    _, finished = watched(session, agents, plan, keep)
    code = session.signal_exit or finished.exit_code
    is_over = session.stopping or finished.status == "stopped" or code in (EXIT_USAGE, EXIT_UNFIT)
    return RanOnce(measured(kept), finished, code, is_over)
