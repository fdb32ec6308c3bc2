"""A duet: agents of several interpreters that live at the same time and are visited in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from cpugpu_tui.model import Case, Event, RunFinished, TelemetryRead
from cpugpu_tui.session.session import Session
from cpugpu_tui.session.turns import Turns


class Duet:
    """Runs a session for each agent, in `Turns`. `run` blocks; `stop` and `kill` may be called from any thread."""

    def __init__(self, sessions: Sequence[Session], cases: Sequence[Case], *, is_flipped: bool = False) -> None:
        """`cases` are those of the plan of every session; `is_flipped` lets the last agent begin."""
        self.sessions = tuple(sessions)
        self.stopping = False
        """Whether a stop was requested."""
        self.signal_exit = 0
        """Exit code requested by a signal (143, 129); 0 without one."""
        self._turns = Turns(
            len(self.sessions), cases, lambda index: self.sessions[index].resume(), is_flipped=is_flipped
        )
        for index, session in enumerate(self.sessions):
            session.on_turn = partial(self._turns.wait, index)

    @property
    def visits_s(self) -> float:
        """Time in which a case was timed. The rest is starting agents, preparing cases and warm-up."""
        return self._turns.visits_s

    def stop(self) -> None:
        """Stop after the block in flight."""
        self.stopping = True
        self._stop_all()

    def _stop_all(self) -> None:
        for session in self.sessions:
            session.stop()

    def pause(self) -> None:
        """Let no agent begin another round until `resume`."""
        self._turns.hold(True)

    def resume(self) -> None:
        """Continue after a pause."""
        self._turns.hold(False)

    def add_telemetry(self, event: TelemetryRead) -> None:
        """Add a reading to the events of each run."""
        for session in self.sessions:
            session.add_telemetry(event)

    def kill(self) -> None:
        """Stop at once."""
        self.stopping = True
        for session in self.sessions:
            session.kill()

    def run(self, deliver: Callable[[int, Event], None]) -> tuple[RunFinished, ...]:
        """Run all sessions to their end; return how each ended.

        `deliver` is called with the index of a session and its events, from that session's thread. If one session
        fails as a whole, the others are stopped.
        """
        with ThreadPoolExecutor(len(self.sessions), thread_name_prefix="duet") as pool:
            try:
                return tuple(pool.map(partial(self._run_one, deliver), range(len(self.sessions))))
            except BaseException:  # ctrl+c in a program that calls this: the pool would wait for its threads
                self.kill()
                raise

    def _run_one(self, deliver: Callable[[int, Event], None], index: int) -> RunFinished:
        status = "failed"
        try:
            finished = self.sessions[index].run(partial(deliver, index))
            status = finished.status
            return finished
        finally:
            if status != "done":
                self._stop_all()
            self._turns.leave(index)
