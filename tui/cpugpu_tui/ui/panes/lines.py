"""Lines of text that are painted from the first to the last cell that changed.

A `Static` repaints all of itself for one changed digit; the telemetry of one GPU and the host at 120×40 cost 2.9 kB
a second that way, more than the whole budget.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.picture import Picture
from cpugpu_tui.ui.roles import ROLE_CLASSES, Spans, role_style


class Lines(Widget):
    """Shows lines of spans as they are: no markup, no wrapping; what is too long is cut."""

    COMPONENT_CLASSES: ClassVar[set[str]] = ROLE_CLASSES

    DEFAULT_CSS = """
    Lines {
        height: auto;
        min-height: 1;
        width: 1fr;
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        """Start without lines."""
        super().__init__(id=id, classes=classes)
        self._lines: tuple[Spans, ...] = ()

    @property
    def lines(self) -> tuple[Spans, ...]:
        """What is shown now."""
        return self._lines

    def show(self, lines: Sequence[Spans]) -> None:
        """Show these lines; only what differs is painted, and only another number of lines asks for a new layout."""
        before, self._lines = self._lines, tuple(lines)
        if len(before) != len(self._lines):
            self.refresh(layout=True)
            return
        regions = [
            region
            for y, (old, new) in enumerate(zip(before, self._lines, strict=True))
            if (region := changed_region(y, old, new)) is not None
        ]
        if regions:
            self.refresh(*regions)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return one cell per line, for `height: auto`."""
        del container, viewport, width
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        """Return line `y` in the colours of the theme."""
        base = self.rich_style
        spans = self._lines[y] if y < len(self._lines) else ()
        segments = [Segment(text, base + role_style(self, role)) for text, role in spans if text]
        return Strip(segments).adjust_cell_length(self.size.width, base)


def changed_region(y: int, old: Spans, new: Spans) -> Region | None:
    """Return the cells of line `y` between the first and the last that differ, None if none does."""
    before, after = _cells(old), _cells(new)
    length = max(len(before), len(after))
    blank = (" ", "text")
    before += [blank] * (length - len(before))
    after += [blank] * (length - len(after))
    differing = [x for x in range(length) if before[x] != after[x]]
    return Region(differing[0], y, differing[-1] - differing[0] + 1, 1) if differing else None


def _cells(spans: Spans) -> list[tuple[str, str]]:
    """Return one entry per terminal cell: a wide character fills two."""
    cells: list[tuple[str, str]] = []
    for text, role in spans:
        for character in text:
            cells.extend([(character, role)] * Segment(character).cell_length)
    return cells


class PicturePane(Lines):
    """Lines that are a function of the picture and of the pane's own size."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        """Draw with these glyphs."""
        super().__init__(id=id, classes=classes)
        self.glyphs = glyphs
        self._picture: Picture | None = None

    def draw(self, picture: Picture, size: Size) -> Sequence[Spans]:
        """Return the lines for a picture in this many cells."""
        raise NotImplementedError

    def show_picture(self, picture: Picture) -> None:
        """Show a picture; nothing is painted where it says the same as before."""
        self._picture = picture
        if self.size.width:
            self.show(self.draw(picture, self.size))

    def on_resize(self) -> None:
        """Draw again in the new size."""
        if self._picture is not None:
            self.show(self.draw(self._picture, self.size))


def wrapped(text: str, width: int, role: str = "text", lines: int = 0) -> list[Spans]:
    """Return a sentence as lines of at most `width` cells, at most `lines` of them if that is above 0."""
    pieces = textwrap.wrap(text, max(width, 10), max_lines=lines or None, placeholder=" ...") if text else []
    return [((piece, role),) for piece in pieces]
