"""The list of themes with a preview of the one under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Lines, PagedList, Spans, spelled, wrapped
from cpugpu_tui.ui.screens.page import Box
from cpugpu_tui.ui.themes import ThemeChoices

_INSIDE = 36
"""Cells of a line; `pages.tcss` sets the width of the box."""


class ThemesScreen(Box[None]):
    """Enter keeps the theme under the cursor, esc restores the old one."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,ctrl+c,q", "cancel"), ("G", "focused.last")]

    def __init__(self, choices: ThemeChoices, glyphs: Glyphs) -> None:
        super().__init__()
        self._choices, self._glyphs = choices, glyphs
        self._before = choices.current

    def compose(self) -> ComposeResult:
        """Yield the box."""
        with Vertical(id="box"):
            yield PagedList(self._glyphs.cursor)
            yield Lines(classes="keys")

    def on_mount(self) -> None:
        """Put the cursor on the current theme."""
        self.query_one("#box").border_title = "Themes"
        self.show(self._choices)

    def show(self, choices: ThemeChoices) -> None:
        """List these themes, with the cursor on the current one."""
        self._choices = choices
        names = [name for name, _ in choices.themes]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(_label(name, kind), name) for name, kind in choices.themes)
        options.highlighted = names.index(choices.current) if choices.current in names else 0
        self._explain(choices.current)

    def _explain(self, name: str) -> None:
        keys: Spans = (("enter", "key"), (" keep   ", "text"), ("esc", "key"), (" cancel", "text"))
        choices = self._choices
        lines: list[Spans] = [keys, *_keeping(name, choices.config_file)]
        for text in (*choices.broken, choices.remark):
            lines += wrapped(spelled(text, self._glyphs), _INSIDE, "warn")
        self.query_one(Lines).show(lines)

    @on(OptionList.OptionHighlighted)
    def _preview(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if event.option_id is not None:
            self.app.theme = event.option_id
            self._explain(event.option_id)

    @on(OptionList.OptionSelected)
    def _keep(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(None)

    def action_cancel(self) -> None:
        """Restore the old theme and close."""
        self.app.theme = self._before
        self.dismiss(None)


def _label(name: str, kind: str) -> Text:
    """Return a line of the list: the name left, its kind right."""
    return Text(f" {name:<{_INSIDE - len(kind) - 3}} {kind}", no_wrap=True, overflow="ellipsis")


def _keeping(name: str, config_file: str) -> Sequence[Spans]:
    """Return how to keep the choice for good; the app never writes the config."""
    home = str(Path.home())
    where = f"~{config_file.removeprefix(home)}" if config_file.startswith(f"{home}/") else config_file
    return [(("Kept until you quit. To keep it, put", "muted"),), ((f'theme = "{name}"', "strong"),),
            *wrapped(f"in {where}", _INSIDE, "muted")]  # fmt: skip
