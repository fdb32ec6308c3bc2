"""The box that shows code in full and asks whether to run it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import ClassVar

from rich.cells import chop_cells
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll

from cpugpu_tui.model import OwnCode
from cpugpu_tui.session.typed_code import function_source
from cpugpu_tui.ui.panes.lines import Lines, Spans, visible, wrapped
from cpugpu_tui.ui.screens.page import Box

FACT_WIDTH = 11
"""Cells of the labels."""

INPUTS = "inputs"
"""Name of the function that makes arguments."""

LONGEST_FILE = 200_000
"""Characters of a file that are shown."""


class CodeQuestion(Box[bool]):
    """Returns whether the code may run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "dismiss(True)"), ("escape,ctrl+c,q,n", "dismiss(False)"), ("j,down", "scroll('down')"),
        ("k,up", "scroll('up')"), ("pagedown", "scroll('page_down')"), ("pageup", "scroll('page_up')"),
        ("home,g", "scroll('home')"), ("end,G", "scroll('end')"),
    ]  # fmt: skip

    def __init__(
        self, codes: Sequence[OwnCode], changed: Sequence[str], since: str = "since that run", python: str | None = None
    ) -> None:
        """Ask about `codes`; `changed` are their files that have changed `since` something was done.

        `python` is the interpreter that will import their modules; None for this one.
        """
        super().__init__()
        self._codes, self._changed, self._since, self._python = codes, changed, since, python

    def compose(self) -> ComposeResult:
        """Yield the question, the code and the keys."""
        with Vertical(id="box"):
            yield Lines(id="question")
            with VerticalScroll(id="code", can_focus=False):
                yield Lines(id="code-text")
            yield Lines(id="code-keys", classes="keys")

    def on_mount(self) -> None:
        """Set the title."""
        self.query_one("#box").border_title = "Run this code?"

    def on_resize(self) -> None:
        """Wrap for the new width."""
        width = max(20, min(self.app.size.width, 100) - 6)
        lines = wrapped("This code was not typed in this app. Read it before you run it.", width, "strong")
        for file in self._changed:
            lines += wrapped(f"! {visible(file)} has changed {self._since}.", width, "warn")
        self.query_one("#question", Lines).show([*lines, ()])
        self.query_one("#code-text", Lines).show(list(code_lines(self._codes, width, self._python)))
        keys: Spans = (("enter", "key"), (" run  ", "text"), ("esc", "key"), (" cancel  ", "text"),
                       ("j k", "key"), (" scroll", "text"))  # fmt: skip
        self.query_one("#code-keys", Lines).show([(), keys])

    def action_scroll(self, move: str) -> None:
        """Scroll the code."""
        getattr(self.query_one("#code", VerticalScroll), f"scroll_{move}")(animate=False)


def code_lines(codes: Sequence[OwnCode], width: int, python: str | None = None) -> Iterator[Spans]:
    """Yield all that would run: setup, parameters and statement of each code, then the files that they import."""
    for code in codes:
        for label, text in _facts(code):
            for number, piece in enumerate(_cut(text, width - FACT_WIDTH)):
                yield ((f"{label if number == 0 else '':<{FACT_WIDTH}}", "muted"), (piece, "text"))
    for target in dict.fromkeys(code.target for code in codes if code.target):
        yield ()
        if target[0].endswith(".py"):
            yield from _text_lines(target[0], _file_lines(target[0]), width)
        else:
            yield from _module_lines(target[0], target[-1], width, python)


def _text_lines(title: str, lines: Sequence[str], width: int) -> Iterator[Spans]:
    yield from wrapped(visible(title), width, "title")
    yield from (((f"  {piece}", "text"),) for line in lines for piece in _cut(line, width - 2))


def _module_lines(module: str, name: str, width: int, python: str | None) -> Iterator[Spans]:
    """Yield the source of a module's function, and of `inputs` beside it, as far as files of this Python show it."""
    yield from wrapped(f"The interpreter imports the whole module {visible(module)}.", width, "warn")
    sources = {each: function_source(module, each) for each in dict.fromkeys((name, INPUTS)) if python is None}
    for source in sources.values():
        if source is not None:
            yield from _text_lines(f"{source.file}, line {source.line}", source.text.expandtabs(4).splitlines(), width)
    if sources.get(name) is None:
        why = f"another Python runs it: {python}" if python is not None else "no Python file defines it"
        yield from wrapped(f"The code of {visible(name)} is not shown, because {visible(why)}.", width, "warn")


def _facts(code: OwnCode) -> Iterator[tuple[str, str]]:
    """Yield label and text of everything in typed code that may change what runs."""
    yield "statement", code.statement
    for line in code.setup:
        yield "setup", line
    for name, value in code.lets:
        yield "parameter", f"{name} = {value}"
    if code.target:
        yield "function", f"{code.target[-1]} of {code.target[0]}"
    for each in fields(code):
        value = getattr(code, each.name)
        if value and each.name not in ("name", "statement", "setup", "lets", "target", "sha256"):
            text = shlex.join(value) if isinstance(value, tuple) else "yes" if value is True else str(value)
            yield each.name.replace("_", " "), text


def _cut(text: str, width: int) -> list[str]:
    """Cut code into lines of this width; blanks stay, because they mean something in Python."""
    return chop_cells(visible(text), max(width, 10)) or [""]


def _file_lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            text = file.read(LONGEST_FILE + 1)
    except OSError as error:
        return [f"Cannot be read: {error.strerror}."]
    rest = [f"The file has more than {LONGEST_FILE:,} characters; the rest is not shown."]
    return text[:LONGEST_FILE].expandtabs(4).splitlines() + (rest if len(text) > LONGEST_FILE else [])
