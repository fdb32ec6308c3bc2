"""A program on a real pseudo-terminal, driven and watched by a test.

Nothing here sleeps: every wait ends with the event it waits for, or fails with what was on the screen at its deadline.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pyte

REAL_APP = Path(__file__).with_name("real_app.py")
"""The app on a simulated machine: `real_app.py FOLDER [PACE [WORDS]]`."""

DEADLINE_S = 120.0
"""How long a test waits before it gives up; it says "hung", never "slow": other programs may keep the cores busy."""

PIECE_BYTES = 1024
"""Written at once; a terminal holds 4096 that nobody has read yet."""


class TooLateError(AssertionError):
    """What was awaited did not happen; the message holds the screen."""


class PtyApp:
    """One child process that owns a pseudo-terminal, which is also its controlling terminal.

    >>> with PtyApp([sys.executable, "-m", "cpugpu_tui"], columns=120, rows=40) as app:
    ...     app.until_text("press r")
    ...     app.quit()
    """

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        columns: int = 120,
        rows: int = 40,
        env: Mapping[str, str | None] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> None:
        """Start the command. `env` is laid over this process's environment; None removes a variable."""
        self.output = bytearray()
        """Every byte written to the terminal so far."""
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._shown = 0
        self._closed = False
        master, slave = pty.openpty()
        self._master = master
        self.resize(columns, rows)
        self._process = subprocess.Popen(
            command, env=_environment(env or {}), cwd=cwd, preexec_fn=lambda: os.login_tty(slave)
        )
        os.close(slave)

    def __enter__(self) -> PtyApp:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self.hang_up()

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """Exit code of the child, None while it lives."""
        return self._process.poll()

    # ---------------------------------------------------------------- acting on it

    def send(self, keys: str | bytes) -> int:
        """Type or paste this, reading meanwhile what comes back; return how many bytes went in before it ended."""
        data, sent = keys.encode() if isinstance(keys, str) else keys, 0
        ends = time.monotonic() + DEADLINE_S
        while sent < len(data) and time.monotonic() < ends:
            readable, writable, _ = select.select([self._master], [self._master], [], 1.0)
            if readable and not self._read(0.001):
                break
            if writable:
                try:
                    sent += os.write(self._master, data[sent : sent + PIECE_BYTES])
                except OSError:  # EIO: the child has gone
                    break
        return sent

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size; the kernel sends SIGWINCH."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child."""
        self._process.send_signal(number)

    def modes(self) -> list[object]:
        """Return how the terminal is set."""
        return list(termios.tcgetattr(self._master))

    def hang_up(self) -> None:
        """Close the terminal, as a lost connection does; the kernel sends SIGHUP."""
        if not self._closed:
            os.close(self._master)
            self._closed = True

    def blank(self) -> None:
        """Take everything off the screen, as leaving and entering the alternate screen does on a real terminal."""
        _ = self.lines
        self._screen.reset()

    # ---------------------------------------------------------------- watching it

    def until(self, happened: Callable[[PtyApp], bool], deadline_s: float = DEADLINE_S) -> None:
        """Read until `happened(self)` is true. It is asked again after everything that arrives."""
        ends = time.monotonic() + deadline_s
        while not happened(self):
            if not self._read(ends - time.monotonic()):
                code = self._process.poll()
                why = f"not seen within {deadline_s} s" if code is None else f"it ended with {code}"
                raise TooLateError(f"{why}; last screen:\n{self.text}")

    def poll_until(self, happened: Callable[[PtyApp], bool], deadline_s: float = DEADLINE_S) -> None:
        """Read until `happened(self)` is true, which need not show on the terminal."""
        ends = time.monotonic() + deadline_s
        while not happened(self):
            if time.monotonic() > ends:
                raise TooLateError(f"not so within {deadline_s} s; last screen:\n{self.text}")
            if not self._read(0.01):
                time.sleep(0.002)  # a terminal without its program is always readable

    def continue_if_stopped(self) -> bool:
        """Resume the child if it has suspended itself; return whether it had."""
        try:
            is_stopped = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG) is not None
        except ChildProcessError:  # it has just ended: Linux has no child then that could stop
            return False
        if is_stopped:
            self.signal(signal.SIGCONT)
        return is_stopped

    def until_bytes(self, wanted: bytes, since: int = 0, deadline_s: float = DEADLINE_S) -> int:
        """Read until these bytes arrived after position `since` of the output; return the position behind them."""
        self.until(lambda app: app.output.find(wanted, since) >= 0, deadline_s)
        return self.output.find(wanted, since) + len(wanted)

    def until_text(self, wanted: str, deadline_s: float = DEADLINE_S) -> None:
        """Read until the screen shows this text."""
        self.until(lambda app: wanted in app.text, deadline_s)

    def bytes_during(self, window_s: float) -> int:
        """Return how many bytes are written within the next `window_s` seconds."""
        before, ends = len(self.output), time.monotonic() + window_s
        while self._read(ends - time.monotonic()):
            pass
        return len(self.output) - before

    def bytes_until_quiet(self, quiet_s: float = 0.3) -> int:
        """Return how many bytes are written until nothing has been written for `quiet_s` seconds."""
        before = len(self.output)
        while self._read(quiet_s):
            pass
        return len(self.output) - before

    def exit_code(self, deadline_s: float = DEADLINE_S) -> int:
        """Wait for the end and return the exit code; -N for a death by signal N."""
        ends = time.monotonic() + deadline_s
        while not self._closed and self._read(ends - time.monotonic()):
            pass
        try:
            return self._process.wait(max(ends - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired as error:
            raise TooLateError(f"still running after {deadline_s} s; last screen:\n{self.text}") from error

    def quit(self) -> None:
        """Press q, and wait until the app has ended with exit code 0."""
        self.send("q")
        assert self.exit_code() == 0

    def until_stopped(self, deadline_s: float = DEADLINE_S) -> None:
        """Wait until the child is suspended, as by ctrl+z; SIGCONT resumes it."""
        options = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        ends = time.monotonic() + deadline_s
        while os.waitid(os.P_PID, self.pid, options) is None:
            if time.monotonic() > ends:
                raise TooLateError(f"not suspended within {deadline_s} s; last screen:\n{self.text}")
            self._read(0.02)

    @property
    def text(self) -> str:
        """What the screen shows now, one line per row."""
        return "\n".join(self.lines)

    @property
    def lines(self) -> list[str]:
        """What the screen shows now, without trailing spaces."""
        self._stream.feed(bytes(self.output[self._shown :]))
        self._shown = len(self.output)
        return [line.rstrip() for line in self._screen.display]

    def _read(self, timeout_s: float) -> bool:
        """Take what has arrived, waiting for it; return whether there was anything."""
        if timeout_s <= 0 or not select.select([self._master], [], [], timeout_s)[0]:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # EIO: the child has gone and with it the other end
            return False
        self.output += data
        return bool(data)


def _environment(over: Mapping[str, str | None]) -> dict[str, str]:
    """Return an environment that does not depend on the terminal of the person who runs the tests."""
    base = {key: value for key, value in os.environ.items() if not key.startswith(("TEXTUAL", "COLORTERM", "NO_COLOR"))}
    for key in ("COLUMNS", "LINES", "STY", "TMUX"):
        base.pop(key, None)
    settings: dict[str, str | None] = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8", **over}
    for key, value in settings.items():
        if value is None:
            base.pop(key, None)
        else:
            base[key] = value
    return base
