"""A terminal's bytes taken apart: text for the parser of keys, and every paste as one piece with a cap.

Textual's own parser looks for the end of a paste among escape codes, a character at a time: 100 kB of coloured text
came out as 100,000 keys, opened the palette and kept the app busy for over 13 minutes. Here a paste is cut out of the
bytes before anything else looks at them, and what goes over the cap is counted and dropped: 1 MB takes 2 ms.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST_LINE = 4_096
"""Characters of a paste, and of a line that is typed: as many as the longest path has, which is the longest answer."""

PASTE_PAUSE_S = 1.0
"""A paste that stops for so long without its end has lost it; until then all keys belong to it."""

LONGEST_SEQUENCE = 32
"""Characters of an escape sequence that Textual's parser reads before it takes them for keys."""

_BEGIN, _END = b"\x1b[200~", b"\x1b[201~"
_KEPT_BYTES = 4 * LONGEST_LINE
_CONTINUATION = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that begin no character."""

_UNFINISHED = re.compile(rb"\x1b(?:\[(?:\[|[0-?]{0,31}[ -/]{0,4})|O)?\Z")
_TOKEN = re.compile(r"\x1b\[(?:\d+\$|\[[A-E]|[0-?]*[ -/]*[@-~])|\x1bO[ -~]|\x1b[^\x1b\[O]|[\s\S]")
"""A sequence or a character; `ESC[3$` and `ESC[[A` are what rxvt and the Linux console send, against the rules."""
_CODES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[^\[\]]?)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)


@dataclass(frozen=True)
class Paste:
    """Text that the terminal says was pasted."""

    text: str
    """Without escape codes, `LONGEST_LINE` characters at most."""
    dropped: int = 0
    """Characters over the cap."""


class TerminalInput:
    """Splits what a terminal sends into text and pastes; knows what was cut in the middle by the end of a read."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = b""
        """What may be the beginning of a sequence."""
        self._pasted: bytearray | None = None
        """What is kept of the paste that is coming in; None outside of one."""
        self._characters = 0
        """Characters of it so far, with those that are not kept."""

    def feed(self, data: bytes) -> list[str | Paste]:
        """Return the pieces that are complete now."""
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
        """Return what waited for more, now that nothing has come for a while."""
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
    """Yield text as what keys send: single characters, and whole escape sequences."""
    return (found[0] for found in _TOKEN.finditer(text))


def _split_at(data: bytes, found: re.Match[bytes] | None) -> tuple[bytes, bytes]:
    return (data, b"") if found is None else (data[: found.start()], data[found.start() :])


def _without_beginning_of_end(pasted: bytes) -> tuple[bytes, bytes]:
    """Split off what may be the first bytes of the mark that ends a paste."""
    for length in range(len(_END) - 1, 0, -1):
        if pasted.endswith(_END[:length]):
            return pasted[:-length], pasted[-length:]
    return pasted, b""
