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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from cpugpu_tui.bench.agent import EXIT_BROKEN
from cpugpu_tui.bench.control import Control
from cpugpu_tui.bench.emitter import CallEmitter
from cpugpu_tui.bench.environment import facts
from cpugpu_tui.bench.worker import THREAD_NAME, work
from cpugpu_tui.errors import CpuGpuError, ProtocolError, UnfitError, UsageError
from cpugpu_tui.model import PROTOCOL, CaseFailed, CaseFinished, Event, Gap, Hello, Plan, RunFinished
from cpugpu_tui.plain import to_plain
from cpugpu_tui.runs.agent_zip import open_agent_zip
from cpugpu_tui.runs.wire import Garbage, LineReader, decode
from cpugpu_tui.telemetry.text import printable
from cpugpu_tui.workloads import catalogue

LAST_LINES = 8
"""Lines of an agent's stderr that are kept for the row of a crash."""


@dataclass(frozen=True)
class Gone:
    """The agent ended or can no longer be understood; nothing comes after this."""

    exit_code: int
    """Negative for a signal, as in `subprocess`."""
    last_lines: tuple[str, ...] = ()
    """What it said last on stderr, made printable."""
    error: CpuGpuError | None = None
    """Why it could not be understood."""

    @property
    def manner(self) -> str:
        """How it ended, in words."""
        if self.exit_code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-self.exit_code).name}"
        return f"ended with exit code {self.exit_code}"


Message = Event | Gone
Listener = Callable[[Hello | CpuGpuError], None]


class Agent(Protocol):
    """Something that takes one plan and sends events."""

    def listen(self, inbox: queue.SimpleQueue[Message]) -> None:
        """Send everything, also what was said before, to `inbox`."""

    def send_plan(self, plan: Plan) -> None:
        """Start the plan."""

    def command(self, word: str) -> None:
        """Send `stop`, `pause` or `resume`."""

    def end(self, *, at_once: bool) -> None:
        """Make it end: terminate, or kill."""

    @property
    def pid(self) -> int:
        """Its process."""


class Inbox:
    """Holds what an agent says until somebody listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._early: deque[Message] = deque()
        self._target: queue.SimpleQueue[Message] | None = None

    def put(self, message: Message) -> None:
        """Deliver, or keep for the listener to come."""
        with self._lock:
            if self._target is None:
                self._early.append(message)
            else:
                self._target.put(message)

    def listen(self, target: queue.SimpleQueue[Message]) -> None:
        """Deliver to `target` from now on, what was kept first."""
        with self._lock:
            for message in self._early:
                target.put(message)
            self._early.clear()
            self._target = target


class AgentProcess:
    """An agent in a process of its own: its crash is one case, and it can be ended at once."""

    def __init__(self, python: str | None, *, simulated: bool, on_ready: Listener | None) -> None:
        """Start it.

        Raises:
            UsageError: the interpreter does not exist or cannot be executed.
        """
        command, descriptors = agent_command(python)
        self._on_ready = on_ready
        self._inbox = Inbox()
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)
        try:
            self._process = subprocess.Popen(
                [*command, *(["--simulated"] if simulated else [])],
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
        gone = Gone(code, tuple(self._last_lines), error)
        if self._on_ready is not None:
            self._on_ready(error or self._no_hello(gone))
        self._inbox.put(gone)

    def _deliver(self, event: Event | None) -> None:
        if event is None:
            return
        if isinstance(event, Hello) and self._on_ready is not None:
            listener, self._on_ready = self._on_ready, None
            listener(event)
        self._inbox.put(event)

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


class AgentThread:
    """The same torch-worker inside this process (`--worker thread`): nothing can end it at once."""

    def __init__(self, *, simulated: bool, on_ready: Listener | None) -> None:
        self._inbox = Inbox()
        self._on_ready = on_ready
        self._control = Control()
        self._plans: queue.SimpleQueue[Plan | None] = queue.SimpleQueue()
        self._held: list[Event] = []
        self._gaps = False
        self._thread = threading.Thread(target=self._serve, args=(simulated,), name=THREAD_NAME, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """This very process."""
        return os.getpid()

    def listen(self, inbox: queue.SimpleQueue[Message]) -> None:
        """See `Agent`."""
        self._inbox.listen(inbox)

    def send_plan(self, plan: Plan) -> None:
        """See `Agent`."""
        self._plans.put(plan)

    def command(self, word: str) -> None:
        """See `Agent`."""
        self._control.obey(word)

    def end(self, *, at_once: bool) -> None:
        """Stop after the block in flight: a thread cannot be killed."""
        del at_once
        self._control.obey("stop")
        self._plans.put(None)

    def _serve(self, simulated: bool) -> None:
        environment = facts(simulated=simulated)
        hello = Hello(protocol=PROTOCOL, environment=environment, catalogue=catalogue())
        if self._on_ready is not None:
            self._on_ready(hello)
        self._inbox.put(hello)
        plan = self._plans.get()
        self._gaps = plan is not None and plan.gaps
        gone = Gone(0)
        try:
            if plan is not None and not work(plan, environment, CallEmitter(self._hold), self._control):
                gone = Gone(EXIT_BROKEN)
        except Exception as error:  # noqa: BLE001 - what would end an agent's process: whoever waits must be told
            gone = Gone(EXIT_BROKEN, (printable(f"{type(error).__name__}: {error}"),))
        self._hand_over()
        self._inbox.put(gone)

    def _hold(self, event: Event) -> None:
        """Hand events over in gaps, or, where there are none, when a case is over: whoever wakes for them takes the
        interpreter from a timed block."""
        self._held.append(event)
        over = isinstance(event, (CaseFinished, CaseFailed)) and not self._gaps
        if over or isinstance(event, (Gap, RunFinished)):
            self._hand_over()

    def _hand_over(self) -> None:
        for held in self._held:
            self._inbox.put(held)
        self._held.clear()


class Agents:
    """Starts agents, and keeps the next one started, so that a run begins at once."""

    def __init__(self, python: str | None = None, worker: str = "process", *, simulated: bool = False) -> None:
        self.python = python
        self.worker = worker
        """`process` or `thread`."""
        self.on_ready: Listener | None = None
        """Called from another thread when a standby agent is ready, or cannot be."""
        self._simulated = simulated
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
            return AgentThread(simulated=self._simulated, on_ready=self.on_ready)
        agent = AgentProcess(self.python, simulated=self._simulated, on_ready=self.on_ready)
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
