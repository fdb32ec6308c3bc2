"""Agents: spoken to and ended, as a process (default, here or on another machine) or as a thread of this one."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from cpugpu_tui.bench.control import BEAT
from cpugpu_tui.errors import CpuGpuError, ProtocolError, UnfitError, UsageError
from cpugpu_tui.model import Event, Hello, Plan, WorkloadsLoading
from cpugpu_tui.plain import to_plain
from cpugpu_tui.runs.agent_thread import AgentThread
from cpugpu_tui.runs.hosts import Host
from cpugpu_tui.runs.inbox import Agent, Gone, Inbox, Listener, Message
from cpugpu_tui.runs.launchers import REACHED
from cpugpu_tui.runs.starting import HELLO_LIMIT_S, Start, host_start, local_start, nobody_listens
from cpugpu_tui.runs.trouble import Progress
from cpugpu_tui.runs.wire import Garbage, LineReader, decode
from cpugpu_tui.telemetry.text import printable

__all__ = ["Agent", "AgentProcess", "AgentThread", "Agents", "Gone", "Inbox", "Listener", "Message"]

LAST_LINES = 8
"""Lines of an agent's stderr that are kept for the row of a crash."""

LOAD_LIMIT_S = 60.0
"""How long a person's file may take to load: torch is there already, but its own imports may come from a slow disk."""


class AgentProcess:
    """An agent in a process of its own: its crash is one case, and it can be ended at once."""

    def __init__(self, start: Start, *, on_ready: Listener | None) -> None:
        """Start it.

        Raises:
            UsageError: the interpreter does not exist or cannot be executed.
            UnfitError: the launcher of a host cannot.
        """
        self._start = start
        self._on_ready = on_ready
        self._inbox = Inbox()
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._loading = ""
        self._deadline: threading.Timer | None = None
        self._is_overdue = False
        self._is_reached = self._is_ready = self._is_late = False
        self._is_fed = not start.feed
        self._waiting_since_s = self._beaten_s = time.monotonic()
        try:
            self._process = subprocess.Popen(
                start.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                # Of its own session: ctrl+c in the terminal is the app's business, not the agent's.
                start_new_session=True, pass_fds=start.descriptors, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            raise start.not_started(error) from error
        finally:
            for descriptor in start.descriptors:
                os.close(descriptor)
        self._errors = threading.Thread(target=self._read_errors, name="agent-stderr", daemon=True)
        self._errors.start()
        threading.Thread(target=self._read_events, name="agent-events", daemon=True).start()
        if start.feed:  # larger than a pipe, and nobody reads it before the host is reached
            threading.Thread(target=self._feed, name="agent-zip", daemon=True).start()

    @property
    def pid(self) -> int:
        """The agent's process id, also of its process group."""
        return self._process.pid

    def listen(self, inbox: queue.SimpleQueue[Message]) -> None:
        """See `Agent`."""
        self._inbox.listen(inbox)

    def send_plan(self, plan: Plan) -> None:
        """See `Agent`."""
        self._write(msgspec.json.encode(to_plain(plan)) + b"\n")

    def command(self, word: str) -> None:
        """See `Agent`."""
        self._write(word.encode() + b"\n")

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        # A dead agent is reported by its reader; here there is nothing to say.
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(data)

    def _feed(self) -> None:
        assert self._process.stdin is not None
        left = memoryview(self._start.feed)
        with contextlib.suppress(OSError, ValueError):
            while left:
                left = left[self._process.stdin.write(left) or 0 :]
            self._is_fed = True

    def tend(self) -> None:
        """Tell an agent on another machine that we live, and end one that does not become ready; once a second."""
        now_s, beat_s = time.monotonic(), self._start.beat_s
        if self._start.waits_in_line and not self._is_reached:
            self._waiting_since_s = now_s
        if beat_s is None or not self.alive:
            return
        if not self._is_ready and now_s - self._waiting_since_s > self._start.hello_limit_s:
            self._is_late = True
            self._terminate(at_once=True)
        elif self._is_fed and now_s - self._beaten_s >= beat_s:
            self._beaten_s = now_s
            self._write(BEAT + b"\n")

    def end(self, *, at_once: bool) -> None:
        """Send SIGKILL or SIGTERM to the agent's whole process group; a suspended one is woken for it.

        One that is not ready yet is not reported to be unfit then: it has done nothing wrong.
        """
        self._on_ready = None
        self._terminate(at_once=at_once)

    def _terminate(self, *, at_once: bool) -> None:
        number = signal.SIGKILL if at_once else signal.SIGTERM
        self.signal(number)
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send a signal to the agent's process group, if it still lives."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the process; return whether it came."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        reader = LineReader()
        while chunk := os.read(self._process.stderr.fileno(), 65536):
            for line in reader.feed(chunk):
                self._note(line)

    def _note(self, line: bytes) -> None:
        text = printable(line.decode("utf-8", "replace"))[:300]
        if text.strip():
            self._last_lines.append(text)

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        reader = LineReader()
        error: CpuGpuError | None = None
        while error is None and (chunk := os.read(self._process.stdout.fileno(), 1 << 16)):
            for line in reader.feed(chunk):
                if line == REACHED:
                    self._is_reached, self._waiting_since_s = True, time.monotonic()
                    self._start.on_reached()
                    continue
                if self._start.host is not None and not self._is_reached:
                    self._note(line)  # a jump host's banner may look like anything
                    continue
                try:
                    event = decode(line)
                except Garbage:
                    self._note(line)
                except ProtocolError as problem:
                    error = problem
                    break
                else:
                    self._deliver(event)
        if error is not None:
            self._terminate(at_once=True)
        code = self._start.seen_here(self._process.wait())
        self._errors.join(1.0)
        loading = self._loading
        self._watch_loading("")
        gone = Gone(code, tuple(self._last_lines), error)
        if error is None:
            error = self._start.trouble(gone, Progress(self._is_reached, self._is_ready, self._is_late))
            gone = Gone(code, gone.last_lines, error)
        if error is None and loading:
            error = self._not_loaded(loading, gone)
            gone = Gone(code, gone.last_lines, error)
        if self._on_ready is not None:
            self._on_ready(error or self._no_hello(gone))
        self._inbox.put(gone)

    def _deliver(self, event: Event | None) -> None:
        if event is None:
            return
        self._watch_loading(event.source if isinstance(event, WorkloadsLoading) else "")
        if isinstance(event, WorkloadsLoading):
            return
        self._is_ready = self._is_ready or isinstance(event, Hello)
        if isinstance(event, Hello) and self._on_ready is not None:
            listener, self._on_ready = self._on_ready, None
            listener(event)
        self._inbox.put(event)

    def _watch_loading(self, source: str) -> None:
        """Give a person's file its time, from now on; nothing is loaded any more where there is none."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._loading = source
        if source:
            self._deadline = threading.Timer(LOAD_LIMIT_S, self._give_up_loading)
            self._deadline.daemon = True
            self._deadline.start()

    def _give_up_loading(self) -> None:
        self._is_overdue = True
        self._terminate(at_once=True)

    def _not_loaded(self, source: str, gone: Gone) -> UsageError:
        if self._is_overdue:
            return UsageError(f"{source} was not loaded after {LOAD_LIMIT_S:g} s.", "Let it only define workloads.")
        return UsageError(f"{source} ended the agent: it {gone.manner}.", "Let it only define workloads, not run them.")

    def _no_hello(self, gone: Gone) -> CpuGpuError:
        return no_agent(self._start.name, gone)


def no_agent(interpreter: object, gone: Gone) -> UnfitError:
    """Return the sentence for an interpreter that never said hello."""
    said = f' Its last line: "{gone.last_lines[-1]}".' if gone.last_lines else ""
    return UnfitError(
        f"{interpreter} did not become an agent: it {gone.manner}.{said}",
        "Name a Python of version 3.10 or later that has torch, with --python PATH.",
    )


class Agents:
    """Starts agents, and keeps the next one started, so that a run begins at once."""

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
        """`own` are the words of `bench.own_workloads` that name a person's own; no other file is ever loaded.

        With a `host` they are started there, by its launcher and its interpreter, which may take `hello_limit_s`.
        """
        self.python = python if host is None else host.python
        self.worker = worker
        """`process` or `thread`."""
        self.on_ready: Listener | None = None
        """Called from another thread when a standby agent is ready, or cannot be."""
        self.on_reached: Callable[[], None] = nobody_listens
        """Called from another thread when a host has been reached."""
        self._words = (*(["--simulated"] if simulated else []), *own)
        self._simulated, self._own = simulated, tuple(own)
        self._host, self._hello_limit_s = host, hello_limit_s
        self._lock = threading.Lock()
        self._standby: AgentProcess | AgentThread | None = None
        self._live: list[AgentProcess] = []
        self._closed = False

    def prepare(self) -> None:
        """Start the standby agent if there is none; returns at once.

        Raises:
            UsageError: the interpreter does not exist.
        """
        with self._lock:
            if self._standby is None and not self._closed:
                self._standby = self._start()

    def greet(self) -> Hello:
        """Start the standby agent, wait until it has said hello, and return that.

        Raises:
            CpuGpuError: it cannot be started, or did not become an agent.
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
            return AgentThread(simulated=self._simulated, on_ready=self.on_ready, own=self._own)
        if self._host is None:
            start = local_start(self.python, self._words)
        else:
            start = host_start(self._host, self._words, self.on_reached, self._hello_limit_s)
        agent = AgentProcess(start, on_ready=self.on_ready)
        self._live = [other for other in self._live if other.alive]
        self._live.append(agent)
        return agent

    def pids(self) -> set[int]:
        """Return the process ids of all agents that live."""
        with self._lock:
            return {agent.pid for agent in self._live if agent.alive}

    def tend(self) -> None:
        """Tell agents on other machines that we live, and end those that do not become ready; once a second."""
        with self._lock:
            for agent in self._live:
                agent.tend()

    def suspend(self) -> None:
        """Stop all agents where they are (ctrl+z)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let all agents go on (fg)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        with self._lock:
            for agent in self._live:
                agent.signal(number)

    def close(self) -> None:
        """End all agents and wait until no process of ours is left on a GPU."""
        with self._lock:
            self._closed = True
            self._standby = None
            for agent in self._live:
                agent.end(at_once=False)
            for agent in self._live:
                if not agent.wait(0.5):
                    agent.end(at_once=True)
                    agent.wait(1.0)
