"""An agent in a thread of this process (`--worker thread`)."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from cpugpu_tui.agent.main import EXIT_BROKEN, THREAD_NAME, facts, hello, wanted, work
from cpugpu_tui.config.hosts import Host
from cpugpu_tui.errors import CpuGpuError, print_notice
from cpugpu_tui.machine.processes import children
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import CaseFailed, CaseFinished, Event, Gap, Hello, Plan, RunFinished
from cpugpu_tui.model.names import CODE
from cpugpu_tui.timing.channel import CallEmitter, Control
from cpugpu_tui.transport.agent_command import HELLO_LIMIT_S, host_start, local_start, nobody_listens
from cpugpu_tui.transport.agent_output import AgentExited, Listener, Message
from cpugpu_tui.transport.agent_process import AgentProcess, no_agent
from cpugpu_tui.transport.signal_watch import to_kill


class AgentThread:
    """The same torch-worker in a thread of this process. A thread cannot be killed."""

    def __init__(self, *, simulated: bool, on_ready: Listener | None, own: Sequence[str] = ()) -> None:
        """`own` are the arguments that name a person's own workload files, as in `Agents`."""
        self.messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        """See `Agent`."""
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
                self.messages.put(event)
            self._held.clear()

    def end(self, *, at_once: bool) -> None:
        """Stop after the block in flight: a thread cannot be killed."""
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
        gone = AgentExited(EXIT_BROKEN)
        try:
            if self._run_plan(simulated, own):
                gone = AgentExited(0)
        except BaseException as error:  # noqa: BLE001 - SystemExit too: it would end an agent's process
            gone = AgentExited(EXIT_BROKEN, (printable(f"{type(error).__name__}: {error}"),))
        listener = self._on_ready
        if listener is not None:
            listener(no_agent("This interpreter", gone))
        self.hand_over()
        self.messages.put(gone)

    def _run_plan(self, simulated: bool, own: Sequence[str]) -> bool:
        """Say hello, wait for the plan and run it; return False if another agent has to run the remaining cases."""
        environment = facts(simulated=simulated)
        files, installed = wanted(own)
        greeting = hello(environment, files, CallEmitter(lambda _event: None), installed=installed)
        listener, self._on_ready = self._on_ready, None
        if listener is not None:
            listener(greeting)
        self.messages.put(greeting)
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


# ------------------------------------------------------------------ agent pool


TERMINATED_S, KILLED_S = 0.5, 1.0
"""How long all agents together may take to obey SIGTERM, and then SIGKILL."""


TEND_S = 1.0
"""Interval of heartbeats and of the look at agents that do not start."""

_printing, _printed = threading.Lock(), set[str]()


def print_once(text: str) -> None:
    """Print a notice on stderr, unless this process has printed it before: several agents may wait for one thing."""
    with _printing:
        if text not in _printed:
            _printed.add(text)
            print_notice(text)


class Agents:
    """Starts agents, and keeps some on standby so that a run begins at once."""

    def __init__(
        self, python: str | None = None, worker: str = "process", *, simulated: bool = False, own: Sequence[str] = (),
        host: Host | None = None, files: Mapping[str, bytes] | None = None, hello_limit_s: float = HELLO_LIMIT_S,
    ) -> None:  # fmt: skip
        """`own` are the arguments that name a person's own workload files; no other file is loaded.

        With a `host`, agents start there, by its launcher and interpreter, and `files` go with them. Each may take
        `hello_limit_s`.
        """
        self.python = python if host is None else host.python
        self.worker = worker
        """`process` or `thread`."""
        self.on_ready: Listener | None = None
        """Called from another thread with the hello of a standby agent, or with the error."""
        self.on_wait: Callable[[str], None] = print_once
        """Called from another thread if an interpreter of this machine takes long to start."""
        self.on_reached: Callable[[], None] = nobody_listens
        """Called from another thread once a host is reached."""
        self._simulated, self._own = simulated, tuple(own)
        self.host, self._files, self._hello_limit_s = host, files or {}, hello_limit_s
        self._lock = threading.Lock()
        self._standby: list[AgentProcess | AgentThread] = []
        self._live: list[AgentProcess] = []
        self._threads: list[AgentThread] = []
        self._closed = False
        self._over = threading.Event()
        if host is not None:
            threading.Thread(target=self._tend, name="agents-beat", daemon=True).start()

    def prepare(self, count: int = 1) -> None:
        """Start agents until so many are on standby; returns at once.

        Raises:
            UsageError: the interpreter does not exist.
        """
        with self._lock:
            while len(self._standby) < count and not self._closed:
                self._standby.append(self._start())

    @property
    def is_standby_ready(self) -> bool:
        """Whether an agent on standby has said hello, so that a run begins at once."""
        return any(isinstance(agent, AgentProcess) and agent.is_ready for agent in self._standby[:1])

    @property
    def is_starting(self) -> bool:
        """Whether some agent that lives has not said hello: nothing should be timed beside it."""
        return any(agent.alive and not agent.is_ready for agent in self._live)

    def use(self, own: Sequence[str]) -> None:
        """Start agents with these arguments from now on; a standby agent with other ones is ended."""
        with self._lock:
            if self._own == tuple(own):
                return
            self._own = tuple(own)
            unfit, self._standby = self._standby, []
        for agent in unfit:
            agent.end(at_once=True)

    def greet(self) -> Hello:
        """Start the standby agent and return its hello.

        Raises:
            CpuGpuError: it could not be started, or ended before its hello.
        """
        answers: queue.SimpleQueue[Hello | CpuGpuError] = queue.SimpleQueue()
        self.on_ready = answers.put
        self.prepare()
        answer = answers.get()
        self.on_ready = None
        if isinstance(answer, CpuGpuError):
            raise answer
        return answer

    def take(self) -> AgentProcess | AgentThread:
        """Return the standby agent, or a new one.

        Raises:
            UsageError: the interpreter does not exist.
        """
        with self._lock:
            while self._standby:
                agent = self._standby.pop(0)
                if agent.alive or isinstance(agent, AgentThread):
                    return agent
            return self._start()

    def _start(self) -> AgentProcess | AgentThread:
        if self.worker == "thread":
            thread = AgentThread(simulated=self._simulated, on_ready=self.on_ready, own=self._own)
            # The first one is kept: it knows best which child processes are not a workload's.
            self._threads = [*self._threads[:1], *(other for other in self._threads[1:] if other.alive), thread]
            return thread
        words = (*(["--simulated"] if self._simulated else []), *self._own)
        if self.host is None:
            start = local_start(self.python, words, self.on_wait, self._hello_limit_s)
        else:
            start = host_start(self.host, words, self._files, self.on_reached, self._hello_limit_s)
        agent = AgentProcess(start, on_ready=self.on_ready)
        self._live = [other for other in self._live if other.alive]
        self._live.append(agent)
        return agent

    @property
    def has_live_thread(self) -> bool:
        """Whether an agent that is a thread has not ended."""
        return any(thread.alive for thread in self._threads)

    def pids(self) -> set[int]:
        """Return the process ids of all agents that live."""
        with self._lock:
            return {agent.pid for agent in self._live if agent.alive}

    def _tend(self) -> None:
        """Send heartbeats to agents on another machine, and end those that are not ready in time."""
        while not self._over.wait(TEND_S):
            with self._lock:
                for agent in self._live:
                    agent.tend()

    def suspend(self) -> None:
        """Suspend all agents (ctrl+z).

        An agent that is still starting continues: it has no guardian yet, which would end it if we were killed.
        """
        self._signal(signal.SIGSTOP, lambda agent: agent.is_ready)

    def resume(self) -> None:
        """Continue all suspended agents (fg)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int, which: Callable[[AgentProcess], bool] = lambda _: True) -> None:
        with self._lock:
            for agent in filter(which, self._live):
                agent.signal(number)
            for thread in self._threads:
                thread.signal(number)

    def close(self, thread_patience_s: float = 0.0) -> None:
        """End all agents, and wait until none of our processes uses a GPU.

        An agent that is a thread ends after its block in flight. Python aborts if it exits before that, so a caller
        that exits at once waits `thread_patience_s`.
        """
        self._over.set()
        with self._lock:
            self._closed = True
            self._standby.clear()
            for at_once, patience_s in ((False, TERMINATED_S), (True, KILLED_S)):
                left = [agent for agent in self._live if agent.alive]
                for agent in left:
                    agent.end(at_once=at_once)
                ends_s = time.monotonic() + patience_s
                for agent in left:
                    agent.wait(max(0.0, ends_s - time.monotonic()))
            for agent in self._live:
                agent.join(KILLED_S if not agent.alive else 0.0)
            for thread in self._threads:
                thread.end(at_once=True)
                thread.signal(signal.SIGKILL)
            ends_s = time.monotonic() + thread_patience_s
            for thread in self._threads if thread_patience_s else ():
                thread.wait(max(0.0, ends_s - time.monotonic()))
