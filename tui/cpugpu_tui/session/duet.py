"""A duet: agents of several interpreters that live at the same time and are visited in turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from cpugpu_tui.model import Case, Event, Progressed, RunFinished, TelemetryRead

if TYPE_CHECKING:
    from cpugpu_tui.session.session import Session


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


# ------------------------------------------------------------------ whose turn it is


Place = tuple[int, int]
"""Where an agent waits: index of the case, and round of this case; round 0 prepares it."""


class Turns:
    """Lets one agent work at a time, the one that is furthest behind.

    The order flips with each round: A B, B A, A B, B A. So what drifts for seconds reaches all of them alike.
    """

    def __init__(
        self, count: int, cases: Sequence[Case], resume: Callable[[int], None], *, is_flipped: bool = False
    ) -> None:
        """`resume` lets the agent with an index work; `is_flipped` lets the last one begin."""
        self.visits_s = 0.0
        """Time in which a case was timed. The rest is starting agents, preparing cases and warm-up."""
        self._resume = resume
        self._index = {case.key: index for index, case in enumerate(cases)}
        self._is_flipped = is_flipped
        self._lock = threading.Lock()
        self._live = set(range(count))
        self._waiting: dict[int, Place] = {}
        self._visited_s: float | None = None
        self._is_held = False

    def hold(self, is_held: bool) -> None:
        """Let no agent work from its next turn on, or go on."""
        with self._lock:
            self._is_held = is_held
            self._visit_next()

    def wait(self, index: int, turn: Progressed) -> None:
        """Note that an agent waits, and let the next one work once all of them wait."""
        with self._lock:
            self._waiting[index] = self._index.get(turn.case, len(self._index)), turn.round_index
            self._visit_next()

    def leave(self, index: int) -> None:
        """Wait for this agent no more."""
        with self._lock:
            self._live.discard(index)
            self._waiting.pop(index, None)
            self._visit_next()

    def _visit_next(self) -> None:
        if self._visited_s is not None:
            self.visits_s += time.monotonic() - self._visited_s
            self._visited_s = None
        if self._is_held or not self._live or self._live - self._waiting.keys():
            return
        index = min(self._waiting, key=self._rank)
        _, round_index = self._waiting.pop(index)
        if round_index:
            self._visited_s = time.monotonic()
        self._resume(index)

    def _rank(self, index: int) -> tuple[int, int, int]:
        case, round_index = self._waiting[index]
        # A case is prepared by the first agent first, because that one checks the memory for all of them.
        is_reversed = round_index > 0 and (round_index % 2 == 0) != self._is_flipped
        return case, round_index, -index if is_reversed else index
