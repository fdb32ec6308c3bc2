"""A driver whose input cannot wedge the app: bytes that are no text, pastes of any length, keys that come too fast."""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from textual import events
from textual.app import App
from textual.message import Message
from textual.message_pump import MessagePump
from textual.messages import InBandWindowResize

from cpugpu_tui.ui.live.messages import InputDropped
from cpugpu_tui.ui.terminal.terminal_input import LONGEST_LINE, LONGEST_SEQUENCE, Paste, TerminalInput, keys_of
from cpugpu_tui.ui.terminal.textual_internals import LinuxDriver, XTermParser

MOST_WAITING = 256
"""Keys that may wait for the app: nobody types so far ahead, and they are answered within about a second."""

ASKED_AFTER = 32
"""Keys after which the app is asked how far it is; asking costs as much as a key."""

READ_BYTES = 65_536
LOOK_S = 0.1
"""How often the end of the app is looked for; a pause of this length ends what was cut in the middle."""


async def all_answered(app: App[Any]) -> None:
    """Wait until every key that was sent before has been through all queues on its way: app, focus, parents, app."""
    await _reached(app)
    if app.screen_stack:
        for node in (app.focused or app.screen).ancestors_with_self:
            await _reached(node)


async def _reached(node: MessagePump) -> None:
    """Wait until a queue has come to what stands at its end now, or its owner has gone."""
    reached = asyncio.Event()
    if node.call_later(reached.set):
        while node.is_running and not reached.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(reached.wait(), 1.0)


class BoundedInputDriver(LinuxDriver):
    """Textual's driver with a reader of its own."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self.app, self._app_loop = app, asyncio.get_running_loop()
        self._sent = self._answered = self._asked_at = 0
        """Keys sent to the app, those it has answered for certain, and those it is being asked about."""
        self._asking: Future[None] | None = None
        self._parser = XTermParser()
        self._reading = self._suspended = False
        self._dropped = 0
        """Characters dropped since the last pause: what comes without a pause is dropped to its end."""

    def suspend_application_mode(self) -> None:
        """Give the terminal back for a while."""
        self._suspended = True
        super().suspend_application_mode()

    def resume_application_mode(self) -> None:
        """Take the terminal again on SIGCONT.

        That comes after a SIGSTOP, too, when the terminal was never given back, and while the app ends: a second reader
        beside the first would share the keys with it, and one that is started at the end keeps the process.
        """
        if self._suspended:
            self._resume()
        else:  # not at once: a handler of a signal may have come while the terminal is written to
            self._app_loop.call_soon_threadsafe(self._take_again)

    def _take_again(self) -> None:
        if self._reading:
            super().suspend_application_mode()  # not ours: a SIGCONT meanwhile would start a reader of its own
            self._resume()

    def _resume(self) -> None:
        # Here, not in the reader: a second SIGCONT before it ran started another, and the first kept the process.
        self._suspended, self._reading = False, True
        super().resume_application_mode()

    def run_input_thread(self) -> None:
        """Read what the terminal sends until the app leaves it."""
        self._reading = True
        try:
            self._read_keys()
        finally:
            self._reading = False

    def _read_keys(self) -> None:
        self._parser, self._dropped = XTermParser(), 0
        pending = TerminalInput()
        heard_s = time.monotonic()
        with selectors.SelectSelector() as selector:  # others know no terminals on macOS
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(LOOK_S):
                    data = self._read()
                    if not data:
                        os.kill(os.getpid(), signal.SIGHUP)  # the terminal has gone; whoever ignores that goes on
                        return
                    heard_s = time.monotonic()
                    self._take(pending.feed(data))
                else:
                    self._take(pending.pause(time.monotonic() - heard_s))
                    self._say_what_was_dropped()
                for message in self._parser.tick():
                    self._send(message)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, READ_BYTES)
        except OSError:
            return b""

    def _take(self, pieces: list[str | Paste]) -> None:
        for piece in pieces:
            if isinstance(piece, str):
                self._type(piece)
            else:
                if piece.dropped:
                    self.process_message(InputDropped(piece.dropped, LONGEST_LINE))
                if self._room() > 0:
                    self._send(events.Paste(piece.text))

    def _type(self, text: str) -> None:
        """Send keys to the app, as many as may wait there."""
        if self._dropped:
            self._dropped += len(text)
            return
        left = len(text)
        for key in keys_of(text):
            if self._room() <= 0:
                self._dropped = left
                return
            left -= len(key)
            for message in self._parsed(key):
                self._send(message)

    def _parsed(self, key: str) -> list[Message]:
        """Return what Textual makes of a key. A sequence that it does not know is none: it would wait for its end."""
        if key == "\x1b":
            return [events.Key("escape", key)]
        is_sequence = key.startswith(("\x1b[", "\x1bO"))
        try:
            found = list(self._parser.feed(key)) if len(key) <= LONGEST_SEQUENCE else []
        except (ValueError, ArithmeticError):  # `ESC[1114112u` is no character; a mouse in a window of no pixels
            found = []
        if is_sequence and not found:
            self._parser = XTermParser()
        return found

    def _send(self, message: Message) -> None:
        # Sizes are what the kernel says: a paste that holds `ESC[48;9999;9999;0;0t` must not become one.
        if not isinstance(message, events.Resize | InBandWindowResize):
            self._sent += 1
            self.process_message(message)

    def _room(self) -> int:
        """Return how many more keys may be sent; ask the app now and then which it has answered."""
        if self._asking is not None and self._asking.done():
            self._asking, self._answered = None, self._asked_at
        waiting = self._sent - self._answered
        if self._asking is None and waiting >= ASKED_AFTER:
            self._asked_at = self._sent
            self._asking = asyncio.run_coroutine_threadsafe(all_answered(self.app), self._app_loop)
        return MOST_WAITING - waiting

    def _say_what_was_dropped(self) -> None:
        if self._dropped:
            self.process_message(InputDropped(self._dropped, MOST_WAITING))
            self._dropped = 0
