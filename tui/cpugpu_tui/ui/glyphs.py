"""The characters that carry meaning, in two sets, and text drawn with them.

A terminal that is not UTF-8 gets ASCII; nothing else in `ui/` may name such a character itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite

from cpugpu_tui.ui.terminal.guard import Capabilities


@dataclass(frozen=True)
class Glyphs:
    """One set of characters, each one cell wide except where it says otherwise."""

    bars: str
    """Eight heights, lowest first. The lowest is visible: it says `low`, a space says unknown."""
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
    """In place of a number that does not exist."""
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
    cursor: str
    """In front of what is chosen, where colour alone would say it."""
    spinner: str
    """Frames, in order."""


UNICODE = Glyphs(
    bars="▁▂▃▄▅▆▇█",
    full="█",
    empty="░",
    up="▲",
    down="▼",
    yes="✓",
    no="✗",
    none="–",
    times="×",
    plus_minus="±",
    micro="µ",
    dot="·",
    arrow="→",
    link="↔",
    ellipsis="…",
    cursor="▸",
    spinner="⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏",
)
"""For every terminal that shows UTF-8."""

ASCII = Glyphs(
    bars=".:-=+*#@",
    full="#",
    empty=".",
    up="^",
    down="v",
    yes="+",
    no="x",
    none="-",
    times="x",
    plus_minus="+-",
    micro="u",
    dot="|",
    arrow=">",
    link="=",
    ellipsis=">",
    cursor=">",
    spinner="|/-\\",
)
"""For all others."""


def glyphs_for(found: Capabilities) -> Glyphs:
    """Return the set that this terminal can show."""
    return UNICODE if found.utf8 else ASCII


def trend_text(values: Sequence[float | None], width: int, low: float, high: float, glyphs: Glyphs) -> str:
    """Return a history as exactly `width` cells of text, newest value right; see `trend_lines`."""
    return trend_lines(values, width, 1, low, high, glyphs)[0]


def trend_lines(
    values: Sequence[float | None], width: int, height: int, low: float, high: float, glyphs: Glyphs
) -> tuple[str, ...]:
    """Return a history as `height` lines of exactly `width` cells, top line first, newest value right.

    One value is one cell: what does not fit is older than what is shown, and nothing is averaged. The range from `low`
    to `high` is fixed, so that an even load is an even line at its height; values beyond it are drawn at its edge. When
    both are equal every value stands in the middle. None and NaN are spaces: unknown is never low.
    """
    shown = list(islice(reversed(values), max(width, 0)))[::-1]
    heights = [_eighths(value, height, low, high) for value in shown]
    pad = " " * (width - len(shown))
    return tuple(
        pad + "".join(_cell(eighths - 8 * line, glyphs) for eighths in heights) for line in reversed(range(height))
    )


def _eighths(value: float | None, height: int, low: float, high: float) -> int:
    """Height of a value in eighths of a cell, from 1 to 8 × `height`; 0 stands for no value."""
    if value is None or not isfinite(value):
        return 0
    share = (value - low) / (high - low) if high > low else 0.5
    return 1 + round(min(max(share, 0.0), 1.0) * (8 * height - 1))


def _cell(eighths: int, glyphs: Glyphs) -> str:
    return glyphs.bars[min(eighths, 8) - 1] if eighths > 0 else " "
