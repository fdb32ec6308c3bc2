"""Talks to an agent in a process of its own, on this machine or behind a launcher, and ends it."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace

import msgspec

from cpugpu_tui.errors import CpuGpuError, UnfitError, UsageError
from cpugpu_tui.model import Event, Hello, Plan, WorkloadsLoading
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.timing.channel import BEAT, REACHED
from cpugpu_tui.transport import agent_output
from cpugpu_tui.transport.agent_command import TIMEOUT, HostError, Progress, Start
from cpugpu_tui.transport.agent_output import Garbage, LineReader
from cpugpu_tui.transport.guard import StreamGuard
from cpugpu_tui.transport.signal_watch import to_kill

ANSWER_LIMIT_S = 60.0
"""Least time that an agent has from its plan to its first event. It asks the driver for GPUs in between, and torch
waits for ever if the driver hangs."""

SILENT_S, IMPORT_S = 3, 15
"""How long a start may take before it is reported: without any output, and while the interpreter imports torch."""

LOAD_LIMIT_S = 60.0
"""How long a person's workload file may take to load. torch is imported already, but its other imports may be slow."""


class AgentProcess:
    """An agent in a process of its own. A crash costs one case only, and the agent can be killed."""

    def __init__(self, start: Start, *, on_ready: agent_output.Listener | None) -> None:
        """Start the process.

        Raises:
            UsageError: the interpreter does not exist or cannot be executed.
            UnfitError: the launcher of a host cannot be executed.
        """
        self._start = start
        self._on_ready = on_ready
        self.messages: queue.SimpleQueue[agent_output.Message] = queue.SimpleQueue()
        """See `Agent`."""
        self._guard = StreamGuard()
        self._fault: CpuGpuError | None = None
        self._words: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._last_lines = agent_output.LastLines()
        self._loading = ""
        self._loading_limit: threading.Timer | None = None
        self._answer_limit: threading.Timer | None = None
        self._is_loading_late = False
        self._is_reached = self._is_start_late = False
        self.is_ready = False
        """Whether it has said hello."""
        self._is_fed, self._is_awaited = not start.feed, False
        self._restarts_limit = False
        """Whether the time limit for an answer begins again when it is reached."""
        self._waiting_since_s = self._beaten_s = time.monotonic()
        self._ended, self._is_started = threading.Event(), threading.Event()
        """`_is_started` is set by the hello, or by the end."""
        # Reentrant: a signal handler may interrupt the thread that holds it, and take it again.
        self._signalling = threading.RLock()
        try:
            self._process = subprocess.Popen(
                start.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                # In a session of its own: the app handles ctrl+c of the terminal, not the agent.
                start_new_session=True, pass_fds=start.descriptors, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            raise start.not_started(error) from error
        finally:
            for descriptor in start.descriptors:
                os.close(descriptor)
        to_kill.add(self)
        self._threads = (
            threading.Thread(target=self._read, name="agent-events", daemon=True),
            threading.Thread(target=self._write_words, name="agent-stdin", daemon=True),
        )
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """Id of the agent's process and of its process group."""
        return self._process.pid

    def send_plan(self, plan: Plan) -> None:
        """See `Agent`."""
        self._guard.expect(plan)
        self._is_awaited = True
        self._await_answer(max(ANSWER_LIMIT_S, 0.0 if self._start.host is None else self._start.hello_limit_s))
        self._words.put(msgspec.json.encode(to_plain(plan)) + b"\n")

    def command(self, word: str) -> None:
        """See `Agent`."""
        if word == "stop":
            self._guard.expect_stop()
        self._words.put(word.encode() + b"\n")

    def hand_over(self) -> None:
        """Do nothing: a process holds no events back."""

    def _write_words(self) -> None:
        """Write queued words to the agent, in a thread of its own: an agent that does not read blocks only this."""
        # The reader reports a dead agent.
        with contextlib.suppress(OSError, ValueError):
            self._write(self._start.feed)  # larger than a pipe, and not read before the host is reached
            self._is_fed = True
            if self._start.host is None:
                self._watch_start()
            while words := self._words.get():
                self._write(words)
        # The end of stdin ends an agent that its launcher left behind.
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]

    def _watch_start(self) -> None:
        """Wait for the hello of an agent on this machine; report a start that takes long, and end it at its limit.

        It counts seconds that it waited, so that a suspension of this process (ctrl+z) counts as one second.
        """
        is_told = False
        for waited_s in range(1, math.ceil(self._start.hello_limit_s) + 1):
            if self._is_started.wait(min(1.0, self._start.hello_limit_s)):
                return
            if not is_told and waited_s >= (IMPORT_S if self._is_reached else SILENT_S):
                is_told = True
                limit = f"{self._start.hello_limit_s:g} s"
                self._start.on_wait(f"Waiting for {self._start.name} to answer, at most {limit}.")
        self._is_start_late = True
        self._terminate(at_once=True)

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        left = memoryview(data)
        while left:
            left = left[self._process.stdin.write(left) or 0 :]

    def tend(self) -> None:
        """Send an agent on another machine a heartbeat, and end it if it is not ready in time. Call once a second."""
        now_s, beat_s = time.monotonic(), self._start.beat_s
        if self._start.waits_in_line and not self._is_reached:
            self._waiting_since_s = now_s
        if beat_s is None or not self.alive:
            return
        if not self.is_ready and now_s - self._waiting_since_s > self._start.hello_limit_s:
            self._is_start_late = True
            self._terminate(at_once=True)
        elif self._is_fed and now_s - self._beaten_s >= beat_s and self._words.empty():
            self._beaten_s = now_s
            self._words.put(BEAT + b"\n")

    def end(self, *, at_once: bool) -> None:
        """Send SIGKILL or SIGTERM to the agent's process group, and wake it if it is suspended.

        An agent that was not ready yet is not reported as unfit.
        """
        self._on_ready = None
        self._terminate(at_once=at_once)

    def _terminate(self, *, at_once: bool) -> None:
        number = signal.SIGKILL if at_once else signal.SIGTERM
        self.signal(number)
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send a signal to the agent's process group, unless the process was reaped."""
        if number == signal.SIGSTOP:
            self._restarts_limit = True
        with self._signalling:
            if not self._ended.is_set():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, number)

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return not self._ended.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the process; return whether it ended in time."""
        return self._ended.wait(timeout_s)

    def join(self, timeout_s: float) -> None:
        """Wait until the threads of this agent have ended, which they do soon after its process."""
        ends_s = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, ends_s - time.monotonic()))

    def _reap(self) -> int:
        """Wait until the process ends, kill the rest of its group, and return the exit code.

        The group is killed before the process is reaped: afterwards another group could have its id.
        """
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        with self._signalling:
            self.signal(signal.SIGKILL)
            code = self._process.wait()
            self._ended.set()
            self._is_started.set()
        self._words.put(b"")
        return code

    def _read(self) -> None:
        """Handle the process's output until it ends, then report how it ended."""
        events = LineReader()
        with closing(agent_output.Output(self._process)) as output:
            error = self._take(output.chunks(), events)
            if not agent_output.has_ended(self._process.pid):
                error = error or self._guard.cut_off("closed its stdout but did not exit")
                self._terminate(at_once=True)
            code = self._start.as_subprocess(self._reap())
            error = self._take(output.rest(), events) if error is None else error
        self._conclude(code, error or self._fault, is_cut_off=bool(events.partial))

    def _take(self, output: Iterable[tuple[bool, bytes]], events: LineReader) -> CpuGpuError | None:
        """Handle output; return the error if it cannot be understood."""
        try:
            for is_stdout, chunk in output:
                if is_stdout:
                    self._take_lines(chunk, events)
                else:
                    if self._start.host is not None:  # output of this machine uses no network
                        self._guard.read_stderr(len(chunk))
                    self._last_lines.feed(chunk)
        except CpuGpuError as error:
            return error
        return None

    def _take_lines(self, chunk: bytes, events: LineReader) -> None:
        self._guard.read(len(chunk))
        for line in events.feed(chunk):  # which drops lines that are too long, also after the last whole one
            self._guard.dropped(events.dropped_lines)
            self._take_line(line)
        self._guard.dropped(events.dropped_lines)

    def _take_line(self, line: bytes) -> None:
        """Deliver the event on a line; keep another line as one of the last.

        Raises:
            ProtocolError: the agent speaks another protocol version.
            MisbehavedError: no working agent sends this.
        """
        if line == REACHED and not self._is_reached:
            self._is_reached, self._waiting_since_s = True, time.monotonic()
            self._start.on_reached()
        elif self._start.host is not None and not self._is_reached:
            self._guard.stray()
            self._last_lines.note(line)  # a jump host's banner may look like anything
        else:
            try:
                event = self._guard.event_on(line)
            except Garbage:
                self._last_lines.note(line)
            else:
                self._deliver(event)

    def _conclude(self, code: int, error: CpuGpuError | None, *, is_cut_off: bool) -> None:
        """Report how the agent ended, and the error behind it if there is one."""
        loading = self._loading
        self._watch_loading("")
        self._end_answer_limit()
        gone = agent_output.AgentExited(code, self._last_lines())
        if error is None:
            error = self._start.host_failure(gone, Progress(self._is_reached, self.is_ready, self._is_start_late))
        if error is None and self._start.host is not None and is_cut_off:  # on this machine somebody may have killed it
            error = self._guard.cut_off()
        if error is None and loading:
            error = self._not_loaded(loading, gone)
        gone = replace(gone, error=error)
        if self._on_ready is not None:
            self._on_ready(error or no_agent(self._start.name, gone))
        self.messages.put(gone)

    def _deliver(self, event: Event | None) -> None:
        if event is None:
            return
        # Read no further than the session can follow, so that memory stays bounded.
        while (
            self.messages.qsize() > agent_output.WAITING_EVENTS
            and self.alive
            and not agent_output.has_ended(self._process.pid)
        ):
            time.sleep(agent_output.LOOK_AGAIN_S)
        if isinstance(event, WorkloadsLoading):
            if not self.is_ready:
                self._watch_loading(event.source)
            else:  # a plan's function is imported, which the session limits; the answer can come only after that
                self._restarts_limit = True
                self.messages.put(event)
            return
        self._watch_loading("")
        if isinstance(event, Hello):
            self.is_ready = True
            self._is_started.set()
            listener, self._on_ready = self._on_ready, None
            if listener is not None:
                listener(event)
        else:
            self._end_answer_limit()
        self.messages.put(event)

    def _await_answer(self, limit_s: float) -> None:
        """Start the time limit for the answer to the plan. Suspending it (ctrl+z) or an import restarts the limit."""
        self._restarts_limit = False
        self._answer_limit = timer = threading.Timer(limit_s, self._on_answer_limit, (limit_s,))
        timer.daemon = True
        timer.start()

    def _end_answer_limit(self) -> None:
        self._is_awaited = False
        if self._answer_limit is not None:
            self._answer_limit.cancel()  # its thread would live on for the whole limit
            self._answer_limit = None

    def _on_answer_limit(self, limit_s: float) -> None:
        if not self._is_awaited or not self.alive:
            return
        if self._restarts_limit:
            self._await_answer(limit_s)
            return
        self._fault = HostError(
            TIMEOUT,
            f"The agent has not answered its plan for {limit_s:.0f} s.",
            "The GPU driver may hang. Look for Xid errors in the output of dmesg.",
        )
        self._terminate(at_once=True)

    def _watch_loading(self, source: str) -> None:
        """Start the time limit for loading a person's file; an empty `source` ends it."""
        if self._loading_limit is not None:
            self._loading_limit.cancel()
            self._loading_limit = None
        self._loading = source
        if source:
            self._loading_limit = threading.Timer(LOAD_LIMIT_S, self._give_up_loading)
            self._loading_limit.daemon = True
            self._loading_limit.start()

    def _give_up_loading(self) -> None:
        self._is_loading_late = True
        self._terminate(at_once=True)

    def _not_loaded(self, source: str, gone: agent_output.AgentExited) -> UsageError:
        if self._is_loading_late:
            return UsageError(f"Loading {source} took over {LOAD_LIMIT_S:g} s.", "Only define workloads in this file.")
        return UsageError(
            f"The agent {gone.manner} while loading {source}.", "Only define workloads in this file, and run none."
        )


def no_agent(interpreter: object, gone: agent_output.AgentExited) -> UnfitError:
    """Return the error for an interpreter that ended before its hello."""
    return UnfitError(
        f"{interpreter} could not run the agent: it {gone.manner}. {gone.last_words}".rstrip(),
        "Use --python PATH with Python 3.10 or later that has torch.",
    )
