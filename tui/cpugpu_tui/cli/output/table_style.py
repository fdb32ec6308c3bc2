"""How every table on stdout looks, on terminals that know ASCII alone too."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.segment import Segment
from rich.table import Table

from cpugpu_tui.errors import shown
from cpugpu_tui.model.quantities import micro
from cpugpu_tui.render.capabilities import capabilities


class _HarmlessConsole(Console):
    """A console that shows what strangers wrote, and obeys only its own styles."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments with everything spelled out that a terminal would obey."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable() or segment.text == "\n":
                yield segment
            else:
                yield Segment(shown_lines(segment.text), segment.style)


def console() -> Console:
    """Return a console on stdout that never cuts a table that goes into a pipe."""
    return _HarmlessConsole(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 160)


def shown_lines(text: str) -> str:
    """Return lines of text with everything spelled out that a terminal would obey."""
    return "\n".join(map(shown, text.split("\n")))


def tell(text: str) -> None:
    """Print lines on stdout, as `shown` shows them."""
    print(shown_lines(text))


def new_table() -> Table:
    """Return an empty table in the house style."""
    return Table(box=box.SIMPLE_HEAD if unicode() else box.ASCII, pad_edge=False, padding=(0, 1, 0, 0))


def add_columns(table: Table, *names: str, justify: JustifyMethod = "left", ratio: int | None = None) -> None:
    """Add columns whose cells are wrapped where they do not fit, never cut: "9.3..." would be read as a number.

    And rich cuts with a sign that a terminal without UTF-8 cannot show, after `plain` had its say.
    """
    for name in names:
        table.add_column(name, justify=justify, overflow="fold", ratio=ratio)


def table_of(columns: Iterable[tuple[str, bool]], rows: Iterable[Iterable[str]]) -> Table:
    """Return a table of rows as this terminal can show them; `columns` are headings, and whether they hold words."""
    table = new_table()
    for heading, is_words in columns:
        add_columns(table, heading, justify="left" if is_words else "right")
    for row in rows:
        table.add_row(*map(plain, row))
    return table


def unicode() -> bool:
    """Whether stdout takes more than ASCII; a terminal as the app judges it, which Python's encoding does not tell.

    Under LC_ALL=C Python writes UTF-8 all the same (PEP 540), and the app's last words would be in signs that the app
    itself did without.
    """
    encoding = sys.stdout.encoding or ""
    if sys.stdout.isatty():
        return capabilities(os.environ, encoding, isatty=True, size=(80, 24)).utf8
    return "utf" in encoding.lower()


def plain(text: str) -> str:
    """Return text that stdout can show."""
    if unicode():
        return micro(text)
    return (
        text.replace("×", "x")
        .replace("±", "+-")
        .replace("≈", "~")
        .replace("–", "-")
        .replace("·", "-")
        .encode("ascii", "replace")
        .decode()
    )
