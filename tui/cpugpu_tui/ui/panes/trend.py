"""A history as a line of text.

Textual's `Sparkline` writes one colour code per bar and scales itself to its own minimum and maximum; eight of them at
4 Hz wrote 105 KiB/s to the terminal, eight of these 7 KiB/s, and an even load looks even.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from cpugpu_tui.ui.glyphs import Glyphs, trend_lines


class Trend(Widget):
    """The newest values that fit, newest right, between two fixed ends; as high as its style says."""

    DEFAULT_CSS = """
    Trend {
        height: 1;
        width: 1fr;
    }
    """

    def __init__(
        self,
        low: float,
        high: float,
        glyphs: Glyphs,
        *,
        id: str | None = None,  # noqa: A002
        classes: str | None = None,
    ) -> None:
        """Draw values from `low` (lowest glyph) to `high` (full cell), in the unit of the values."""
        super().__init__(id=id, classes=classes)
        self._low, self._high, self._glyphs = low, high, glyphs
        self._values: tuple[float | None, ...] = ()
        self._lines: tuple[str, ...] = ()

    def show(self, values: Sequence[float | None]) -> None:
        """Show this history, oldest first; None is a gap. Repaints the lines whose text changed, and nothing else."""
        self._values = tuple(values)
        before, self._lines = self._lines, self._draw()
        for y, (old, new) in enumerate(zip(before, self._lines, strict=False)):
            if old != new:
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """Return line `y` as one segment: one colour code however long it is."""
        if len(self._lines) != self.size.height or len(self._lines[0]) != self.size.width:
            self._lines = self._draw()
        return Strip([Segment(self._lines[y], self.rich_style)], self.size.width)

    def _draw(self) -> tuple[str, ...]:
        width, height = self.size
        return trend_lines(self._values, width, height, self._low, self._high, self._glyphs)
