"""Starts and ends agents, and keeps the next one ready: processes here or on another machine, or a thread."""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Sequence

from cpugpu_tui.config.hosts import Host
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model import Hello
from cpugpu_tui.transport.agent_command import HELLO_LIMIT_S, host_start, local_start, nobody_listens
from cpugpu_tui.transport.agent_output import Listener
from cpugpu_tui.transport.agent_process import AgentProcess
from cpugpu_tui.transport.agent_thread import AgentThread

TERMINATED_S, KILLED_S = 0.5, 1.0
"""How long all agents together may take to obey SIGTERM, and then SIGKILL."""


class Agents:
    """Starts agents, and keeps one on standby so that a run begins at once."""

    def __init__(
        self,
        python: str | None = None,
        worker: str = "process",
        *,
        simulated: bool = False,
        own: Sequence[str] = (),
        host: Host | None = None,
        hello_limit_s: float = HELLO_LIMIT_S,
    ) -> None:
        """`own` are the arguments that name a person's own workload files; no other file is loaded.

        With a `host`, agents start there, by its launcher and interpreter. Each may take `hello_limit_s`.
        """
        self.python = python if host is None else host.python
        self.worker = worker
        """`process` or `thread`."""
        self.on_ready: Listener | None = None
        """Called from another thread with the hello of a standby agent, or with the error."""
        self.on_reached: Callable[[], None] = nobody_listens
        """Called from another thread once a host is reached."""
        self._simulated, self._own = simulated, tuple(own)
        self._host, self._hello_limit_s = host, hello_limit_s
        self._lock = threading.Lock()
        self._standby: AgentProcess | AgentThread | None = None
        self._live: list[AgentProcess] = []
        self._threads: list[AgentThread] = []
        self._closed = False

    def prepare(self) -> None:
        """Start the standby agent if there is none; returns at once.

        Raises:
            UsageError: the interpreter does not exist.
        """
        with self._lock:
            if self._standby is None and not self._closed:
                self._standby = self._start()

    def use(self, own: Sequence[str]) -> None:
        """Start agents with these arguments from now on; a standby agent with other ones is ended."""
        with self._lock:
            if self._own == tuple(own):
                return
            self._own = tuple(own)
            unfit, self._standby = self._standby, None
        if unfit is not None:
            unfit.end(at_once=True)

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
            agent, self._standby = self._standby, None
            if isinstance(agent, AgentProcess) and not agent.alive:
                agent = None
            return agent or self._start()

    def _start(self) -> AgentProcess | AgentThread:
        if self.worker == "thread":
            thread = AgentThread(simulated=self._simulated, on_ready=self.on_ready, own=self._own)
            # The first one is kept: it knows best which child processes are not a workload's.
            self._threads = [*self._threads[:1], *(other for other in self._threads[1:] if other.alive), thread]
            return thread
        words = (*(["--simulated"] if self._simulated else []), *self._own)
        if self._host is None:
            start = local_start(self.python, words)
        else:
            start = host_start(self._host, words, self.on_reached, self._hello_limit_s)
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

    def tend(self) -> None:
        """Send heartbeats to agents on other machines, and end those that are not ready in time. Call once a second."""
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
        with self._lock:
            self._closed = True
            self._standby = None
            for at_once, patience_s in ((False, TERMINATED_S), (True, KILLED_S)):
                left = [agent for agent in self._live if agent.alive]
                for agent in left:
                    agent.end(at_once=at_once)
                ends_s = time.monotonic() + patience_s
                for agent in left:
                    agent.wait(max(0.0, ends_s - time.monotonic()))
            for thread in self._threads:
                thread.end(at_once=True)
                thread.signal(signal.SIGKILL)
            ends_s = time.monotonic() + thread_patience_s
            for thread in self._threads if thread_patience_s else ():
                thread.wait(max(0.0, ends_s - time.monotonic()))
