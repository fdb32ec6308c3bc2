"""Splits a terminal's input into text for the key parser and pastes of limited length.

Textual's own parser reads a paste one character at a time and mistakes escape codes in it for its end: 100 kB of
coloured text became 100,000 keys, opened the palette and kept the app busy for over 13 minutes. Here a paste is cut out
of the bytes first, and text beyond the limit is counted and dropped: 1 MB takes 2 ms.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST_LINE = 4_096
"""Most characters of a paste and of an input line: the length of the longest path."""

PASTE_PAUSE_S = 1.0
"""A paste without its end mark ends after a pause of this length; until then all keys belong to it."""

LONGEST_SEQUENCE = 32
"""Characters of an escape sequence after which Textual's parser gives up and treats them as keys."""

_BEGIN, _END = b"\x1b[200~", b"\x1b[201~"
_KEPT_BYTES = 4 * LONGEST_LINE
_CONTINUATION = bytes(range(0x80, 0xC0))
"""Continuation bytes of UTF-8."""

_UNFINISHED = re.compile(rb"\x1b(?:\[(?:\[|[0-?]{0,31}[ -/]{0,4})|O)?\Z")
_TOKEN = re.compile(r"\x1b\[(?:\d+\$|\[[A-E]|[0-?]*[ -/]*[@-~])|\x1bO[ -~]|\x1b[^\x1b\[O]|[\s\S]")
"""A sequence or a character; includes the non-standard `ESC[3$` of rxvt and `ESC[[A` of the Linux console."""
_CODES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[^\[\]]?)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)


@dataclass(frozen=True)
class Paste:
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
                    typed, self._held = _split_at(typed, _UNFINISHED.search(typed, max(len(typed) - 48, 0)))
                text = self._decoder.decode(typed, final=bool(begin))
                pieces += [text] if text else []
            else:
                pasted, end, data = data.partition(_END)
                if not end:
                    pasted, self._held = _without_beginning_of_end(pasted)
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
        return Paste(_CODES.sub("", text).replace("\t", " "), dropped)


def keys_of(text: str) -> Iterator[str]:
    """Yield the keys in a text: single characters and whole escape sequences."""
    return (found[0] for found in _TOKEN.finditer(text))


def _split_at(data: bytes, found: re.Match[bytes] | None) -> tuple[bytes, bytes]:
    return (data, b"") if found is None else (data[: found.start()], data[found.start() :])


def _without_beginning_of_end(pasted: bytes) -> tuple[bytes, bytes]:
    """Split off bytes that may begin the end mark of a paste."""
    for length in range(len(_END) - 1, 0, -1):
        if pasted.endswith(_END[:length]):
            return pasted[:-length], pasted[-length:]
    return pasted, b""
