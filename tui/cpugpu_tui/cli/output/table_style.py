"""The style of all tables on stdout, also on terminals that show only ASCII."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from cpugpu_tui.cli.output.printing import plain, shown_lines, unicode


class _HarmlessConsole(Console):
    """A console that escapes control characters in its texts. Only its own styles reach the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments with control characters escaped."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable() or segment.text == "\n":
                yield segment
            else:
                yield Segment(shown_lines(segment.text), segment.style)


def console() -> Console:
    """Return a console on stdout. In a pipe it is 160 columns wide, so that tables are not cut."""
    return _HarmlessConsole(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 160)


def table_of(columns: Iterable[str | tuple[str, bool]], rows: Iterable[Iterable[str]]) -> Table:
    """Return a table of rows in characters that stdout can show.

    `columns` are headings, with False beside that of numbers. Cells are wrapped, never cut: "9.3..." would be read as a
    number. Rich also cuts with a character that a terminal without UTF-8 cannot show.
    """
    table = Table(box=box.SIMPLE_HEAD if unicode() else box.ASCII, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        heading, is_words = (column, True) if isinstance(column, str) else column
        table.add_column(heading, justify="left" if is_words else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(plain, row))
    return table
