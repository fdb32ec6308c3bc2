"""Line filters: only ASCII on a terminal without UTF-8, and no control characters on any.

Panes choose their own signs for ASCII (`glyphs.ASCII`, `spelled`). These filters handle the rest, cell for cell: names
and claims from others, paths, Textual's own widgets.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter, NoColor

_SIGNS = str.maketrans(
    {
        **dict.fromkeys("─━═╌┄╴╶–—−‐", "-"), **dict.fromkeys("│┃║▏▎▌▐▕", "|"), **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯", "+"),
        **dict.fromkeys("█▉▊▋▇▆▅", "#"), **dict.fromkeys("▄▃", "="), **dict.fromkeys("▂▁░▒·", "."),
        **dict.fromkeys("…→▸›»", ">"), **dict.fromkeys("‹«←", "<"), **dict.fromkeys("‘’", "'"),
        **dict.fromkeys("“”", '"'), **dict.fromkeys("•●", "*"),
        "×": "x", "✗": "x", "✓": "+", "µ": "u", "μ": "u", "±": "~", "≈": "~", "↔": "=", "▲": "^", "▼": "v",
    }
)  # fmt: skip


class AsciiOnly(LineFilter):
    """Turns each line into ASCII of the same width."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments in ASCII."""
        del background
        return [
            segment if segment.text.isascii() else Segment(ascii_text(segment.text), segment.style, segment.control)
            for segment in segments
        ]


@lru_cache(4096)
def ascii_text(text: str) -> str:
    """Return a text in ASCII of the same width: similar signs, letters without accents, else `?`."""
    return "".join(map(_cell, text.translate(_SIGNS)))


def _cell(character: str) -> str:
    if character.isascii():
        return character
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    width = cell_len(character)
    return plain if len(plain) == width else "?" * width


class Harmless(LineFilter):
    """Replaces characters that a terminal would obey, or that cannot be encoded, cell for cell."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments without such characters."""
        del background
        return [
            segment
            if segment.control or segment.text.isprintable()
            else Segment(harmless_text(segment.text), segment.style)
            for segment in segments
        ]


@lru_cache(4096)
def harmless_text(text: str) -> str:
    """Return a text of the same width without control characters, direction marks and lone surrogates."""
    return _OBEYED.sub(lambda found: "?" * cell_len(found[0]), text)


_OBEYED = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_NO_COLOUR, _HARMLESS, _ASCII = NoColor(), Harmless(), AsciiOnly()


def line_filters(usual: Sequence[LineFilter], *, no_colour: bool, ascii_only: bool) -> list[LineFilter]:
    """Return the filters of each line; `usual` are Textual's own.

    With NO_COLOR the colours of every theme are removed, where Textual's filter would turn them into greys. A terminal
    without UTF-8 gets ASCII. Control characters in names of files, hosts and processes are always replaced.
    """
    filters: list[LineFilter] = [*([_NO_COLOUR] if no_colour else usual), _HARMLESS]
    return [*filters, _ASCII] if ascii_only else filters
