"""The last word on a terminal without UTF-8: whatever a screen draws, what leaves it is ASCII, cell for cell.

Panes spell their signs out themselves (`glyphs.ASCII`, `spelled`), in words where one cell is too few. This is for the
rest: names and claims that strangers wrote, paths, a widget of Textual's.
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
    """Turns every line of every widget into ASCII of the same width."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments in ASCII."""
        del background
        return [
            segment if segment.text.isascii() else Segment(ascii_text(segment.text), segment.style, segment.control)
            for segment in segments
        ]


@lru_cache(4096)
def ascii_text(text: str) -> str:
    """Return a text of as many cells in ASCII: a sign that looks alike, a letter without its accent, else `?`."""
    return "".join(map(_cell, text.translate(_SIGNS)))


def _cell(character: str) -> str:
    if character.isascii():
        return character
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    width = cell_len(character)
    return plain if len(plain) == width else "?" * width


class Harmless(LineFilter):
    """Takes out of every line of every widget what a terminal would obey, or could not be sent: cell for cell."""

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
    """Return a text of as many cells without control characters, marks of direction and lone surrogates."""
    return _OBEYED.sub(lambda found: "?" * cell_len(found[0]), text)


_OBEYED = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_NO_COLOUR, _HARMLESS, _ASCII = NoColor(), Harmless(), AsciiOnly()


def line_filters(usual: Sequence[LineFilter], *, no_colour: bool, ascii_only: bool) -> list[LineFilter]:
    """Return what each line of each widget goes through; `usual` is what Textual would let it.

    NO_COLOR takes the colours out of every theme, where Textual's own filter makes greys of them; a terminal without
    UTF-8 gets ASCII. What strangers called their files, hosts and processes is made harmless on all of them.
    """
    filters: list[LineFilter] = [*([_NO_COLOUR] if no_colour else usual), _HARMLESS]
    return [*filters, _ASCII] if ascii_only else filters
