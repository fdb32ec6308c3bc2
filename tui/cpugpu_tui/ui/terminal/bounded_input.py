"""A driver that bounds its input, so that long pastes, fast keys and invalid bytes cannot block the app.

Textual's own parser reads a paste one character at a time and mistakes escape codes in it for its end: 100 kB of
coloured text became 100,000 keys, opened the palette and kept the app busy for over 13 minutes. Here a paste is cut out
of the bytes first, and text beyond the limit is counted and dropped: 1 MB takes 2 ms.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import selectors
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

from textual import events
from textual.app import App
from textual.message import Message
from textual.message_pump import MessagePump
from textual.messages import InBandWindowResize

from cpugpu_tui.ui.live.messages import InputDropped
from cpugpu_tui.ui.terminal.textual_internals import ClickDriver, XTermParser

LONGEST_LINE = 4_096
"""Most characters of a paste and of an input line: the length of the longest path."""

PASTE_PAUSE_S = 1.0
"""A paste without its end mark ends after a pause of this length; until then all keys belong to it."""

LONGEST_SEQUENCE = 32
"""Characters of an escape sequence after which Textual's parser gives up and treats them as keys."""

_BEGIN, _END = b"\x1b[200~", b"\x1b[201~"
_PART_OF_END = rb"\x1b(?:\[(?:2(?:01?)?)?)?\Z"  # `re` compiles and keeps it at the first input
_KEPT_BYTES = 4 * LONGEST_LINE
_CONTINUATION = bytes(range(0x80, 0xC0))
"""Continuation bytes of UTF-8."""

_MOUSE = "\x1b[<"
"""How a click or a turn of the wheel begins."""
_OLD_MOUSE = rb"\x1b\[M[ -\xff]{3}"
"""A click as terminals without SGR encoding send it. Its last three bytes would be keys: the first is often a space."""
_UNFINISHED = rb"\x1b(?:\[(?:\[|M[ -\xff]{0,2}|<[-\d;]{0,28}|[0-?]{0,31}[ -/]{0,4})|O)?\Z"
_TOKEN = r"\x1b\[(?:<[-\d;]*[Mm]?|\d+\$|\[[A-E]|[0-?]*[ -/]*[@-~])|\x1bO[ -~]|\x1b[^\x1b\[O]|[\s\S]"
"""A sequence or a character; includes the non-standard `ESC[3$` of rxvt, `ESC[[A` of the Linux console, clicks at
negative positions, which some terminals send, and half a click, whose escape and digits would be keys."""
_CODES = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[^\[\]]?)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"


class Paste(NamedTuple):
    """Text that the terminal marked as pasted."""

    text: str
    """Without escape codes, at most `LONGEST_LINE` characters."""
    dropped: int = 0
    """Number of characters beyond the limit."""


class TerminalInput:
    """Splits input into text and pastes; holds back sequences that a read has cut."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = b""
        """Bytes that may begin a sequence."""
        self._pasted: bytearray | None = None
        """Bytes of the current paste up to the limit; None outside of one."""
        self._characters = 0
        """Characters of the current paste, including those beyond the limit."""

    def feed(self, data: bytes) -> list[str | Paste]:
        """Return the pieces that these bytes complete."""
        pieces: list[str | Paste] = []
        data, self._held = self._held + data, b""
        while data:
            if self._pasted is None:
                typed, begin, data = data.partition(_BEGIN)
                if begin:
                    self._pasted, self._characters = bytearray(), 0
                else:
                    typed, self._held = _split_at(typed, re.compile(_UNFINISHED).search(typed, max(len(typed) - 48, 0)))
                typed = re.sub(_OLD_MOUSE, b"", typed)
                text = self._decoder.decode(typed, final=bool(begin))
                pieces += [text] if text else []
            else:
                pasted, end, data = data.partition(_END)
                if not end:
                    pasted, self._held = _split_at(
                        pasted, re.compile(_PART_OF_END).search(pasted, max(len(pasted) - len(_END), 0))
                    )
                self._keep(pasted)
                if end:
                    pieces.append(self._whole_paste())
        return pieces

    def pause(self, silent_s: float) -> list[str | Paste]:
        """Return the pieces that were held back, after `silent_s` seconds without input."""
        if self._pasted is not None:
            return [self._whole_paste()] if silent_s >= PASTE_PAUSE_S else []
        text, self._held = self._decoder.decode(self._held, final=True), b""
        return [text] if text else []

    def _keep(self, pasted: bytes) -> None:
        assert self._pasted is not None
        self._characters += len(pasted.translate(None, _CONTINUATION))
        self._pasted += pasted[: max(_KEPT_BYTES - len(self._pasted), 0)]

    def _whole_paste(self) -> Paste:
        assert self._pasted is not None
        text = self._pasted.decode("utf-8", "replace")[:LONGEST_LINE]
        dropped = max(self._characters - len(text), 0)
        self._pasted, self._held = None, b""
        return Paste(re.sub(_CODES, "", text).replace("\t", " "), dropped)


def keys_of(text: str) -> Iterator[str]:
    """Yield the keys in a text: single characters and whole escape sequences."""
    return (found[0] for found in re.finditer(_TOKEN, text))


def _split_at(data: bytes, found: re.Match[bytes] | None) -> tuple[bytes, bytes]:
    return (data, b"") if found is None else (data[: found.start()], data[found.start() :])


MOST_WAITING = 256
"""Most keys that may wait for the app: nobody types so far ahead, and the app handles them within about a second."""

ASKED_AFTER = 32
"""Waiting keys after which the driver asks the app for its progress, which costs as much as a key."""

READ_BYTES = 65_536
LOOK_S = 0.1
"""Seconds between checks for the end of the app. A pause of this length also ends a partial sequence."""


async def all_answered(app: App[Any]) -> None:
    """Wait until every key sent before has passed all queues on its way: app, focus, parents, app."""
    await _reached(app)
    if app.screen_stack:
        for node in (app.focused or app.screen).ancestors_with_self:
            await _reached(node)


async def _reached(node: MessagePump) -> None:
    """Wait until a widget has handled its current queue, or is closed."""
    reached = asyncio.Event()
    if node.call_later(reached.set):
        while node.is_running and not reached.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(reached.wait(), 1.0)


class BoundedInputDriver(ClickDriver):
    """Textual's driver with its own input reader."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self.app, self._app_loop = app, asyncio.get_running_loop()
        self._sent = self._answered = self._asked_at = 0
        """Number of keys sent to the app, of those certainly handled, and of those being asked about."""
        self._asking: Future[None] | None = None
        self._parser = XTermParser()
        self._reading = self._suspended = False
        self._dropped = 0
        """Characters dropped since the last pause. Once one is dropped, so is all further input up to a pause."""

    def suspend_application_mode(self) -> None:
        """Give the terminal back while the app is suspended."""
        self._suspended = True
        super().suspend_application_mode()

    def resume_application_mode(self) -> None:
        """Take the terminal again on SIGCONT.

        SIGCONT also follows a SIGSTOP, when the terminal was never given back, and may arrive while the app ends. A
        second reader would take keys from the first, and one started at the end would keep the process alive.
        """
        if self._suspended:
            self._resume()
        else:  # later: this signal handler may have interrupted a write to the terminal
            self._app_loop.call_soon_threadsafe(self._take_again)

    def _take_again(self) -> None:
        if self._reading:
            super().suspend_application_mode()  # ours would let a SIGCONT in between start another reader
            self._resume()

    def _resume(self) -> None:
        # Set before the reader starts: a second SIGCONT in between started another, and the process never ended.
        self._suspended, self._reading = False, True
        super().resume_application_mode()

    def run_input_thread(self) -> None:
        """Read the terminal's input until the app ends."""
        self._reading = True
        try:
            self._read_keys()
        finally:
            self._reading = False

    def _read_keys(self) -> None:
        self._parser, self._dropped = XTermParser(), 0
        pending = TerminalInput()
        heard_s = time.monotonic()
        with selectors.SelectSelector() as selector:  # the other selectors do not support terminals on macOS
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(LOOK_S):
                    data = self._read()
                    if not data:
                        os.kill(os.getpid(), signal.SIGHUP)  # the terminal was closed
                        return
                    heard_s = time.monotonic()
                    self._take(pending.feed(data))
                else:
                    self._take(pending.pause(time.monotonic() - heard_s))
                    self._report_dropped()
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
        """Send keys to the app, as long as fewer than `MOST_WAITING` wait there."""
        if self._dropped:
            self._dropped += len(text)
            return
        left = len(text)
        for key in keys_of(text):
            is_mouse = key.startswith(_MOUSE)
            if is_mouse and self._room() <= MOST_WAITING // 2:
                left -= len(key)  # a fast wheel must not push out keys
                continue
            if self._room() <= 0:
                self._dropped = left
                return
            left -= len(key)
            for message in self._parsed(key):
                self._send(message)

    def _parsed(self, key: str) -> list[Message]:
        """Return Textual's messages for a key. Unknown sequences are dropped: the parser would wait for their end."""
        if key == "\x1b":
            return [events.Key("escape", key)]
        is_sequence = key.startswith(("\x1b[", "\x1bO"))
        try:
            found = list(self._parser.feed(key)) if len(key) <= LONGEST_SEQUENCE else []
        except (ValueError, ArithmeticError):  # `ESC[1114112u` is an invalid character; a window may have 0 pixels
            found = []
        if is_sequence and not found:
            self._parser = XTermParser()
        return found

    def _send(self, message: Message) -> None:
        # Only the kernel sets the size: a paste with `ESC[48;9999;9999;0;0t` must not.
        if isinstance(message, events.Resize | InBandWindowResize):
            return
        if not isinstance(message, events.MouseEvent) or self._is_wanted(message):
            self._sent += 1
            self.process_message(message)

    def _is_wanted(self, event: events.MouseEvent) -> bool:
        """Whether a mouse event was asked for and lies on the screen. Only what is dragged needs movements."""
        width, height = self.app.size
        is_inside = 0 <= event.x < width and 0 <= event.y < height
        is_idle = isinstance(event, events.MouseMove) and self.app.mouse_captured is None
        return self.takes_mouse and is_inside and not is_idle

    def _room(self) -> int:
        """Return how many more keys may be sent; sometimes ask the app which it has handled."""
        if self._asking is not None and self._asking.done():
            self._asking, self._answered = None, self._asked_at
        waiting = self._sent - self._answered
        if self._asking is None and waiting >= ASKED_AFTER:
            self._asked_at = self._sent
            self._asking = asyncio.run_coroutine_threadsafe(all_answered(self.app), self._app_loop)
        return MOST_WAITING - waiting

    def _report_dropped(self) -> None:
        if self._dropped:
            self.process_message(InputDropped(self._dropped, MOST_WAITING))
            self._dropped = 0
