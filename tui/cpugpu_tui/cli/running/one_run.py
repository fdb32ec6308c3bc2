"""One run for a command: with telemetry, stopped by signals, printed or collected for a comparison."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from cpugpu_tui.cli.output.printing import print_answer, print_event
from cpugpu_tui.cli.running.saving import Outputs, as_saved
from cpugpu_tui.errors import EXIT_OK, EXIT_UNFIT, EXIT_USAGE, print_notice, shown
from cpugpu_tui.model import CaseFailed, CaseFinished, Event, Plan, Progressed, RunFinished, TelemetryRead, typed_name
from cpugpu_tui.model.quantities import duration, size_text
from cpugpu_tui.render.progress import bar, done_text, left_text
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.folding import MeasuredRun, measured
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store.outbox import Outbox
from cpugpu_tui.telemetry.sampler import sampler_of
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.signal_watch import watch_signals

if TYPE_CHECKING:
    from cpugpu_tui.session.duet import Duet
    from cpugpu_tui.session.fleet_running import Fleet


See = Callable[[RunState, Event], None]
"""Called with each event and the state after it."""


def controller_facts() -> dict[str, object]:
    """Return the facts that this process adds to a run's environment."""
    return {"argv": sys.argv[1:]}


def watched(session: Session, agents: Agents, plan: Plan, see: See) -> tuple[RunState, RunFinished]:
    """Run a session to its end with a line of progress. Signals stop it."""
    state, progress = RunState(), Progress()

    def deliver(event: Event) -> None:
        nonlocal state
        state = state.apply(event)
        see(state, event)
        progress.show(state, event)

    with signals_stop(session), telemetry((session,), plan, agents.pids):
        finished = session.run(deliver)
    progress.clear()
    return state, finished


def seen_by(outputs: Outputs, *, as_json: bool) -> See:
    """Return a function that passes events to `outputs`, and with --json prints them as they come."""

    def see(state: RunState, event: Event) -> None:
        outputs.see(state, event)
        if as_json:
            if isinstance(event, RunFinished):
                print_answer(state)
            print_event(event)

    return see


def say_why(finished: RunFinished) -> None:
    """Print the message and remedy of a finished run on stderr, if it has any."""
    if finished.message:
        print_notice(f"cpugpu-tui: {finished.message} {finished.remedy}".strip())


def run_once(
    session: Session, agents: Agents, plan: Plan, remark: str | None, *, as_json: bool, outputs: Outputs,
    repeat: int = 1,
) -> int:  # fmt: skip
    """Run one session, print its events as they come or its table at the end, and write the outputs.

    `remark`: notice about opening the history. `repeat`: see `print_state`. Returns the exit code of the run. Failed
    exports set that of `outputs`.
    """
    state, finished = watched(session, agents, plan, seen_by(outputs, as_json=as_json))
    notices = outputs.write()  # before the table: a closed terminal takes no text, and leaves 2 s for all of this
    if finished.status == "failed" and (as_json or state.run is None):
        say_why(finished)
    if as_json:
        if remark:
            print_notice(remark)
    elif state.run is not None:
        from cpugpu_tui.cli.output.tables import print_state

        print_state(*as_saved(state, session.saver.unsaved, remark), in_full=outputs.in_full, repeat=repeat)
        sys.stdout.flush()
    for line in notices:
        print_notice(line)
    return session.signal_exit or finished.exit_code


@contextmanager
def telemetry(sessions: Sequence[Session], plan: Plan, pids: Callable[[], set[int]]) -> Iterator[None]:
    """Read telemetry during the sessions, unless they calibrate. The readings become events of each run.

    `pids` are those of the agents.
    """
    if plan.calibrate or (plan.simulation is not None and plan.simulation.pace == 0):
        yield
        return

    def add(read: TelemetryRead) -> None:
        for session in sessions:
            session.add_telemetry(read)

    sampler = sampler_of(plan.simulation, add, pids)

    def hush(live: bool) -> None:
        """Skip readings that take the driver milliseconds while the plan runs."""
        sampler.quiet = live

    for session in sessions:
        session.on_live = hush
    sampler.start()
    try:
        yield
    finally:
        sampler.stop()


@contextmanager
def signals_stop(session: Session | Fleet | Duet) -> Iterator[None]:
    """Stop after the block on ctrl+c, at once on a second one, and at once on SIGTERM and SIGHUP (exit 143, 129)."""

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
                    os.write(2, b"\r\x1b[KStopping after the current block. Press ctrl+c again to stop at once.\n")

    with watch_signals(obey):
        yield


EVERY_S = 0.5
"""Least time between updates: painting takes CPU time from the block that is being timed."""


class ProgressLine:
    """A line that is drawn over itself."""

    def __init__(self) -> None:
        self.stream = sys.stderr
        is_notebook = type(self.stream).__module__.startswith("ipykernel")
        self.is_live = self.stream.isatty() or is_notebook
        self._erase, self._painted_s = "\r" + " " * 80 + "\r" if is_notebook else "\r\x1b[K", 0.0

    @property
    def is_due(self) -> bool:
        """Whether the last paint was `EVERY_S` ago."""
        return time.monotonic() - self._painted_s >= EVERY_S

    def paint(self, text: str) -> None:
        """Draw a text, which must fit the line: a wrapped one cannot be removed."""
        self._painted_s = time.monotonic()
        self.stream.write(f"{self._erase}{text}")
        self.stream.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self.is_live:
            self.stream.write(self._erase)
            self.stream.flush()


class Progress(ProgressLine):
    """Draws `███░░░░░░░ 3 of 8 cases · 0:12 left · matmul 512 · warm-up on cpu` over itself."""

    def __init__(self, part: str = "") -> None:
        """`part` is that of the whole to which these cases belong, such as a pair of agents."""
        super().__init__()
        self._part = part
        self._left_s: float | None = None
        self._heard_s = 0.0

    def show(self, state: RunState, event: Event) -> None:
        """Record an event, and repaint if an update is due."""
        if not self.is_live or isinstance(event, RunFinished):
            return
        if isinstance(event, Progressed) and event.seconds_left is not None:
            self._left_s, self._heard_s = event.seconds_left, time.monotonic()
        settled = isinstance(event, (CaseFinished, CaseFailed))
        if not settled and not self.is_due:
            return
        room = shutil.get_terminal_size().columns - 1
        self.paint(shown(self._text(state)[:room]))

    def _text(self, state: RunState) -> str:
        current = state.current
        if not state.rows and current is not None:
            return f"{current.phase} of {current.device}: {current.note}"
        is_utf8 = "utf" in (self.stream.encoding or "").lower()
        done, rest = bar(state, *("█░" if is_utf8 else "#."))
        parts = [f"{done}{rest} {done_text(state)}", *filter(None, [self._part])]
        left_s = self._left_s - (time.monotonic() - self._heard_s) if self._left_s is not None else None
        parts += [text for text in (left_text(state, left_s),) if text]
        if current is not None and current.case in state.rows:
            case = state.rows[current.case].case
            parts.append(f"{typed_name(case.workload, state.plan.codes)} {size_text(case.size)}")
            if current.device:
                parts.append(f"{current.phase} on {current.device}")
            if current.note:
                parts.append(current.note)
            if current.elapsed_s is not None and current.estimate_s is not None:
                parts.append(f"{duration(current.elapsed_s)} of about {duration(current.estimate_s)}")
        elif current is not None and current.note:
            parts.append(current.note)
        dot = "·" if is_utf8 else "-"
        return f" {dot} ".join(parts)


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
