"""How an agent is started, spoken to and ended: as a process (default) or as a thread of this one."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence

import msgspec

from cpugpu_tui.errors import CpuGpuError, ProtocolError, UnfitError, UsageError
from cpugpu_tui.model import Event, Hello, Plan, WorkloadsLoading
from cpugpu_tui.plain import to_plain
from cpugpu_tui.runs.agent_thread import AgentThread
from cpugpu_tui.runs.agent_zip import open_agent_zip
from cpugpu_tui.runs.inbox import Agent, Gone, Inbox, Listener, Message
from cpugpu_tui.runs.wire import Garbage, LineReader, decode
from cpugpu_tui.telemetry.text import printable

__all__ = ["Agent", "AgentProcess", "AgentThread", "Agents", "Gone", "Inbox", "Listener", "Message"]

LAST_LINES = 8
"""Lines of an agent's stderr that are kept for the row of a crash."""

LOAD_LIMIT_S = 60.0
"""How long a person's file may take to load: torch is there already, but its own imports may come from a slow disk."""


class AgentProcess:
    """An agent in a process of its own: its crash is one case, and it can be ended at once."""

    def __init__(
        self, python: str | None, *, simulated: bool, on_ready: Listener | None, own: Sequence[str] = ()
    ) -> None:
        """Start it; `own` are the words that name a person's own workloads, as in `Agents`.

        Raises:
            UsageError: the interpreter does not exist or cannot be executed.
        """
        command, descriptors = agent_command(python)
        self._on_ready = on_ready
        self._inbox = Inbox()
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._loading = ""
        self._deadline: threading.Timer | None = None
        self._is_overdue = False
        try:
            self._process = subprocess.Popen(
                [*command, *(["--simulated"] if simulated else []), *own],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                # Of its own session: ctrl+c in the terminal is the app's business, not the agent's.
                start_new_session=True, pass_fds=descriptors, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            raise UsageError(
                f"The interpreter {python!r} cannot be started: {error.strerror}.", "Name a Python with --python PATH."
            ) from error
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._errors = threading.Thread(target=self._read_errors, name="agent-stderr", daemon=True)
        self._errors.start()
        threading.Thread(target=self._read_events, name="agent-events", daemon=True).start()

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

    def end(self, *, at_once: bool) -> None:
        """Send SIGKILL or SIGTERM to the agent's whole process group; a suspended one is woken for it."""
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
            self.end(at_once=True)
        code = self._process.wait()
        self._errors.join(1.0)
        loading = self._loading
        self._watch_loading("")
        gone = Gone(code, tuple(self._last_lines), error)
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
        self.end(at_once=True)

    def _not_loaded(self, source: str, gone: Gone) -> UsageError:
        if self._is_overdue:
            return UsageError(f"{source} was not loaded after {LOAD_LIMIT_S:g} s.", "Let it only define workloads.")
        return UsageError(f"{source} ended the agent: it {gone.manner}.", "Let it only define workloads, not run them.")

    def _no_hello(self, gone: Gone) -> CpuGpuError:
        return no_agent(self._process.args[0] if isinstance(self._process.args, list) else "the agent", gone)


def no_agent(interpreter: object, gone: Gone) -> UnfitError:
    """Return the sentence for an interpreter that never said hello."""
    said = f' Its last line: "{gone.last_lines[-1]}".' if gone.last_lines else ""
    return UnfitError(
        f"{interpreter} did not become an agent: it {gone.manner}.{said}",
        "Name a Python of version 3.10 or later that has torch, with --python PATH.",
    )


def agent_command(python: str | None) -> tuple[list[str], tuple[int, ...]]:
    """Return the command of an agent, and descriptors to hand over.

    Raises:
        UsageError: no such interpreter.
    """
    if python is None:
        # -P keeps a stray torch.py in the current folder from being imported.
        return [sys.executable, "-P", "-m", "cpugpu_tui.bench"], ()
    found = shutil.which(os.path.expanduser(python))
    if found is None:
        raise UsageError(f"There is no interpreter {python!r}.", "Name a Python that has torch with --python PATH.")
    descriptor = open_agent_zip()
    return [found, f"/proc/self/fd/{descriptor}"], (descriptor,)


class Agents:
    """Starts agents, and keeps the next one started, so that a run begins at once."""

    def __init__(
        self,
        python: str | None = None,
        worker: str = "process",
        *,
        simulated: bool = False,
        own: Sequence[str] = (),
    ) -> None:
        """`own` are the words of `bench.own_workloads` that name a person's own; no other file is ever loaded."""
        self.python = python
        self.worker = worker
        """`process` or `thread`."""
        self.on_ready: Listener | None = None
        """Called from another thread when a standby agent is ready, or cannot be."""
        self._simulated = simulated
        self._own = tuple(own)
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
        agent = AgentProcess(self.python, simulated=self._simulated, on_ready=self.on_ready, own=self._own)
        self._live = [other for other in self._live if other.alive]
        self._live.append(agent)
        return agent

    def pids(self) -> set[int]:
        """Return the process ids of all agents that live."""
        with self._lock:
            return {agent.pid for agent in self._live if agent.alive}

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
