"""The characters with a meaning, in a UTF-8 and an ASCII set, and histories drawn with them.

No other file in `ui/` may contain such a character. Filters replace, cell for cell, what the sets do not cover: names
and claims from others, paths, Textual's own widgets. A terminal without UTF-8 gets only ASCII, and no terminal gets
control characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter, NoColor

from cpugpu_tui.render.capabilities import Capabilities


class Glyphs(NamedTuple):
    """One set of characters, each one cell wide unless noted."""

    bars: str
    """Eight heights, lowest first. The lowest is visible: it means `low`, while a space means unknown."""
    full: str
    """The filled part of a horizontal bar."""
    empty: str
    """The rest of a horizontal bar."""
    up: str
    """Higher than before."""
    down: str
    """Lower than before."""
    yes: str
    """Holds, done."""
    no: str
    """Does not hold, failed."""
    none: str
    """In place of a missing number."""
    times: str
    plus_minus: str
    """Two cells wide in ASCII."""
    micro: str
    """Prefix of microseconds."""
    dot: str
    """Between two parts of a line."""
    arrow: str
    link: str
    """Between two names of one thing."""
    ellipsis: str
    edge: str
    """Left edge of a chart."""
    tick: str
    """The same beside a label."""
    cursor: str
    """Before the selected row, so that colour alone does not show it."""


UNICODE = Glyphs("▁▂▃▄▅▆▇█", "█", "░", "▲", "▼", "✓", "✗", "–", "×", "±", "µ", "·", "→", "↔", "…", "│", "┤", "▸")
"""For terminals with UTF-8."""
ASCII = Glyphs(".:-=+*#@", "#", ".", "^", "v", "+", "x", "-", "x", "+-", "u", "|", ">", "=", ">", "|", "+", ">")
"""For all other terminals."""


def glyphs_for(found: Capabilities) -> Glyphs:
    """Return the set that this terminal can show."""
    return UNICODE if found.utf8 else ASCII


def trend_text(values: Sequence[float | None], width: int, low: float, high: float, glyphs: Glyphs) -> str:
    """Draw a history as exactly `width` cells, newest value right; see `trend_lines`."""
    return trend_lines(values, width, 1, low, high, glyphs)[0]


def trend_lines(
    values: Sequence[float | None], width: int, height: int, low: float, high: float, glyphs: Glyphs
) -> tuple[str, ...]:
    """Draw a history as `height` lines of exactly `width` cells, top line first, newest value right.

    One value is one cell: older values that do not fit are left out, and nothing is averaged. The range from `low` to
    `high` is fixed, so that a constant load is a level line; values beyond it are drawn at its edge. If both are equal,
    every value is in the middle. None and NaN are spaces, because unknown is not low.
    """
    shown = list(islice(reversed(values), max(width, 0)))[::-1]
    heights = [_eighths(value, height, low, high) for value in shown]
    bars = f" {glyphs.bars}"
    pad = " " * (width - len(shown))
    return tuple(
        pad + "".join(bars[min(max(eighths - 8 * line, 0), 8)] for eighths in heights)
        for line in reversed(range(height))
    )


def means(
    values: Sequence[float | None], times_ns: Sequence[int], step_s: float, cells: int
) -> tuple[float | None, ...]:
    """Return the mean of each step of time, at most `cells` of them, newest last; None for a step without a value.

    Steps begin at fixed times. So a new value changes only the newest step, and few cells are repainted.
    """
    if not values or not times_ns or cells < 1:
        return ()
    last = int(times_ns[-1] / (step_s * 1e9))
    found: list[list[float]] = [[] for _ in range(cells)]
    for value, time_ns in zip(reversed(values), reversed(times_ns), strict=False):
        place = cells - 1 - last + int(time_ns / (step_s * 1e9))
        if place < 0:
            break
        if value is not None and isfinite(value):
            found[min(place, cells - 1)].append(value)
    return tuple(sum(each) / len(each) if each else None for each in found)


def _eighths(value: float | None, height: int, low: float, high: float) -> int:
    """Height of a value in eighths of a cell, from 1 to 8 × `height`; 0 for no value."""
    if value is None or not isfinite(value):
        return 0
    share = (value - low) / (high - low) if high > low else 0.5
    return 1 + round(min(max(share, 0.0), 1.0) * (8 * height - 1))


_SIGNS = str.maketrans(
    {
        **dict.fromkeys("─━═╌┄╴╶–—−‐", "-"), **dict.fromkeys("│┃║▏▎▌▐▕", "|"), **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯", "+"),
        **dict.fromkeys("█▉▊▋▇▆▅", "#"), **dict.fromkeys("▄▃▓", "="), **dict.fromkeys("▂▁░▒·", "."),
        **dict.fromkeys("…→▸›»", ">"), **dict.fromkeys("‹«←", "<"), **dict.fromkeys("‘’", "'"),
        **dict.fromkeys("“”", '"'), **dict.fromkeys("•●", "*"),
        "×": "x", "✗": "x", "✓": "+", "µ": "u", "μ": "u", "±": "~", "≈": "~", "≤": "<", "↔": "=", "▲": "^", "▼": "v",
    }
)  # fmt: skip


class Spelled(LineFilter):
    """Replaces characters of each line, cell for cell."""

    def __init__(self, spell: Callable[[str], str]) -> None:
        super().__init__()
        self._spell = spell

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments with their texts replaced."""
        if all(each.text.isascii() and each.text.isprintable() for each in segments):
            return segments  # spelled so already
        return [each if each.control else Segment(self._spell(each.text), each.style) for each in segments]


@lru_cache(4096)
def ascii_text(text: str) -> str:
    """Return a text in ASCII of the same width: similar signs, letters without accents, else `?`."""
    return text if text.isascii() else "".join(map(_cell, text.translate(_SIGNS)))


def _cell(character: str) -> str:
    if character.isascii():
        return character
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    width = cell_len(character)
    return plain if len(plain) == width else "?" * width


def harmless_text(text: str) -> str:
    """Return a text of the same width without what a terminal would obey, or what cannot be encoded.

    These are control characters, direction marks and lone surrogates.
    """
    return text if text.isprintable() else re.sub(_HARMFUL, lambda found: "?" * cell_len(found[0]), text)


_HARMFUL = "[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
_NO_COLOUR, _HARMLESS, _ASCII = NoColor(), Spelled(harmless_text), Spelled(ascii_text)


def line_filters(usual: Sequence[LineFilter], *, no_colour: bool, ascii_only: bool) -> list[LineFilter]:
    """Return the filters of each line; `usual` are Textual's own.

    With NO_COLOR all colours are removed. Textual's own filter would turn them into greys. A terminal without UTF-8
    gets ASCII. Control characters in names of files, hosts and processes are always replaced.
    """
    filters: list[LineFilter] = [*([_NO_COLOUR] if no_colour else usual), _HARMLESS]
    return [*filters, _ASCII] if ascii_only else filters
