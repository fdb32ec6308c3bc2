"""Obeys signals on threads of their own, so that they work even when the main thread is stuck.

Python's handlers run only in the main thread, which may be busy or wait inside native code. The C handler writes
the signal's number into a pipe at once (`signal.set_wakeup_fd`), and a thread reads it from there.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

DEADLINE_S = 1.5
"""How long an orderly exit may take. Everything must be over 2 s after the signal."""

MOST_STARVED_S = 10.0
"""Most extra time on a machine whose cores are busy: an orderly exit reports and saves more."""

LEAVING, CTRL_C, ANSWERED = 253, 254, 255
"""Bytes in the pipe that are not signal numbers: all is done; ctrl+c came as a key; the event loop answers."""

Obey = Callable[[int], None]
"""Called with a signal, or with `CTRL_C` when it was pressed twice, on a thread of its own."""


class Killable(Protocol):
    """Something that must not outlive this process."""

    def signal(self, number: int) -> None:
        """Send it a signal if it is still alive; do not wait."""


to_kill: WeakSet[Killable] = WeakSet()
"""Killed when an orderly exit takes too long."""


class SignalWatch:
    """Listens for signals, calls `obey`, and ends the process if that takes too long."""

    def __init__(self, obey: Obey, restore: Callable[[], None], terminal: int | None) -> None:
        self._obey, self._restore, self._terminal = obey, restore, terminal
        self._reader, self.writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._asked: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.has_heard = False
        """Whether a signal has come."""
        self.exit_code = 0
        """Exit code of the process, once that is known."""
        self._presses = self._interrupts = 0
        self._code = 0
        self._ends_s: float | None = None
        self._starved_s = 0.0
        threading.Thread(target=self._listen, name="signals", daemon=True).start()
        threading.Thread(target=self._serve, name="signals-obeyed", daemon=True).start()

    def tell(self, word: int) -> None:
        """Put a byte that is not a signal into the pipe."""
        with suppress(OSError):
            os.write(self.writer, bytes([word]))

    def _serve(self) -> None:
        while word := self._asked.get():
            self._obey(word)

    def _listen(self) -> None:
        changes = select.poll()
        changes.register(self._reader, select.POLLIN)
        if self._terminal is not None:
            changes.register(self._terminal, 0)  # POLLHUP only: a closed terminal, even if SIGHUP is ignored
        while True:
            left_s = self._left_s()
            if left_s is not None and left_s <= 0:
                self._end()
            seen = dict(changes.poll(None if left_s is None else 1 + 1000 * left_s))
            if self._terminal in seen:
                changes.unregister(self._terminal)
                self._hear(signal.SIGHUP)
            if self._reader in seen:
                words = os.read(self._reader, 64)
                if not words:  # the block that watches has ended
                    os.close(self._reader)
                    self._asked.put(0)
                    return
                for word in words:
                    self._hear(word)

    def _hear(self, word: int) -> None:
        if word == ANSWERED:
            self._presses = 0
            if self._code == 128 + signal.SIGINT and not self._interrupts:
                self._ends_s = None
        elif word == LEAVING:
            self._be_gone_soon(self.exit_code)
        elif word == CTRL_C:
            self._presses += 1
            if self._presses > 1:
                self._asked.put(CTRL_C)
                self._be_gone_soon(128 + signal.SIGINT)
        elif word in SIGNALS:
            self.has_heard = True
            self._interrupts += word == signal.SIGINT
            self._asked.put(word)
            if word != signal.SIGINT or self._interrupts > 1:
                self._be_gone_soon(128 + word)

    def _be_gone_soon(self, code: int) -> None:
        if self._ends_s is None:
            self._code, self._starved_s = code, _starved_s()
            self._ends_s = time.monotonic() + DEADLINE_S

    def _left_s(self) -> float | None:
        if self._ends_s is None:
            return None
        starved_s = min(_starved_s() - self._starved_s, MOST_STARVED_S)
        return self._ends_s + starved_s - time.monotonic()

    def _end(self) -> None:
        for each in list(to_kill):
            with suppress(Exception):
                each.signal(signal.SIGKILL)
        with suppress(Exception):
            self._restore()
        os._exit(self._code)


_watch: SignalWatch | None = None


@contextmanager
def watch_signals(
    obey: Obey, restore: Callable[[], None] = lambda: None, terminal: int | None = None
) -> Iterator[SignalWatch | None]:
    """Call `obey` for signals. Ignored signals stay ignored (`nohup`, background jobs of a shell).

    SIGTERM, SIGHUP, SIGQUIT and a second SIGINT end the process with 128 + their number after `DEADLINE_S`, whatever
    the main thread does; `restore` is called before that. A closed `terminal` counts as SIGHUP. After a signal, the
    watch continues beyond the block: saving and ending the agents may take too long as well.
    """
    global _watch
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    _watch = watch = SignalWatch(obey, restore, terminal)
    wanted = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _wake) for number in wanted}
    woken = signal.set_wakeup_fd(watch.writer, warn_on_full_buffer=False)
    try:
        yield watch
    finally:
        if not watch.has_heard:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(woken)
            _watch = None
            os.close(watch.writer)


def pressed_ctrl_c() -> None:
    """Report ctrl+c as a key: the event loop that handles it may be busy."""
    if _watch is not None:
        _watch.tell(CTRL_C)


def leave(exit_code: int) -> None:
    """Fix the exit code of a process that is ending after a signal, so that no further signal changes it."""
    if _watch is not None and _watch.has_heard:
        _watch.exit_code = exit_code
        _watch.tell(LEAVING)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def loop_answers() -> None:
    """Report that the event loop is not busy, so its binding handles ctrl+c."""
    if _watch is not None:
        _watch.tell(ANSWERED)


def _wake(_number: int, _frame: object) -> None:
    """Do nothing: the signal is in the pipe."""


def _starved_s() -> float:
    """Return how long the main thread has waited for a core so far, s; 0 if the kernel does not report it."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
