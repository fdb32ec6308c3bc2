"""An agent in a thread of this process (`--worker thread`)."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cpugpu_tui.agent.main import EXIT_BROKEN, facts, hello, wanted
from cpugpu_tui.agent.worker import THREAD_NAME, work
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import CaseFailed, CaseFinished, Event, Gap, Plan, RunFinished
from cpugpu_tui.timing.control import CODE, Control
from cpugpu_tui.timing.emitter import CallEmitter
from cpugpu_tui.transport.agent_output import Gone, Inbox, Listener, Message
from cpugpu_tui.transport.agent_process import no_agent
from cpugpu_tui.transport.signal_watch import to_kill


class AgentThread:
    """The same torch-worker in a thread of this process. A thread cannot be killed."""

    def __init__(self, *, simulated: bool, on_ready: Listener | None, own: Sequence[str] = ()) -> None:
        """`own` are the arguments that name a person's own workload files, as in `Agents`."""
        self._inbox = Inbox()
        self._on_ready = on_ready
        self._control = Control()
        self._plans: queue.SimpleQueue[Plan | None] = queue.SimpleQueue()
        self._held: list[Event] = []
        self._handing_over = threading.Lock()
        self._gaps = False
        self._thread = threading.Thread(target=self._serve, args=(simulated, own), name=THREAD_NAME, daemon=True)
        self._others = frozenset(children())
        to_kill.add(self)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Id of this process."""
        return os.getpid()

    @property
    def alive(self) -> bool:
        """Whether the thread has not ended."""
        return self._thread.is_alive()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the thread; return whether it ended in time."""
        self._thread.join(timeout_s)
        return not self.alive

    def listen(self, inbox: queue.SimpleQueue[Message]) -> None:
        """See `Agent`."""
        self._inbox.listen(inbox)

    def send_plan(self, plan: Plan) -> None:
        """See `Agent`."""
        self._plans.put(plan)

    def command(self, word: str) -> None:
        """See `Agent`."""
        self._control.obey(word)

    def hand_over(self) -> None:
        """See `Agent`."""
        with self._handing_over:
            for event in self._held:
                self._inbox.put(event)
            self._held.clear()

    def end(self, *, at_once: bool) -> None:
        """Stop after the block in flight: a thread cannot be killed."""
        del at_once
        self._on_ready = None
        self._control.obey("stop")
        self._plans.put(None)

    def signal(self, number: int) -> None:
        """Handle a signal that is meant for an agent.

        SIGKILL kills the processes that workloads have started, which would outlive this one. SIGCONT marks the
        half-round in flight as suspended.
        """
        if number == signal.SIGCONT:
            self._control.was_suspended = True
        elif number == signal.SIGKILL:
            for pid in set(children()) - self._others:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)

    def _serve(self, simulated: bool, own: Sequence[str]) -> None:
        gone = Gone(EXIT_BROKEN)
        try:
            if self._run_plan(simulated, own):
                gone = Gone(0)
        except BaseException as error:  # noqa: BLE001 - SystemExit too: it would end an agent's process
            gone = Gone(EXIT_BROKEN, (printable(f"{type(error).__name__}: {error}"),))
        listener = self._on_ready
        if listener is not None:
            listener(no_agent("This interpreter", gone))
        self.hand_over()
        self._inbox.put(gone)

    def _run_plan(self, simulated: bool, own: Sequence[str]) -> bool:
        """Say hello, wait for the plan and run it; return False if another agent has to run the remaining cases."""
        environment = facts(simulated=simulated)
        files, installed = wanted(own)
        greeting = hello(environment, files, CallEmitter(lambda _event: None), installed=installed)
        listener, self._on_ready = self._on_ready, None
        if listener is not None:
            listener(greeting)
        self._inbox.put(greeting)
        plan = self._plans.get()
        self._gaps = plan is not None and plan.gaps
        return plan is None or work(plan, environment, CallEmitter(self._hold), self._control, allows_code=CODE in own)

    def _hold(self, event: Event) -> None:
        """Hold events until a gap, or until a case is over if the plan has no gaps.

        A thread that wakes up for an event would take the GIL from a timed block.
        """
        with self._handing_over:
            self._held.append(event)
        over = isinstance(event, (CaseFinished, CaseFailed)) and not self._gaps
        if over or isinstance(event, (Gap, RunFinished)):
            self.hand_over()


def children() -> list[int]:
    """Return ids of the child processes of all threads; empty where the kernel does not list them."""
    with suppress(OSError):
        tasks = list(Path("/proc/self/task").iterdir())
        return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    return []
