"""Forms: fields with a hint or an error under each, an estimate and keys, and the boxes that ask for one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import DescendantFocus
from textual.widget import Widget
from textual.widgets import Input

from cpugpu_tui.compare.series import checked_baseline
from cpugpu_tui.errors import CpuGpuError, UsageError, file_path, home_path
from cpugpu_tui.export import formats, target
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.fields import Chooser, LineField
from cpugpu_tui.ui.panes.lines import Lines, Spans, labelled, spelled, visible, width_of, wrapped
from cpugpu_tui.ui.screens.page import Box

T = TypeVar("T")

LABEL_WIDTH = 13
"""Cells of the labels, as in `pages.tcss`."""

NARROW_HINT_INDENT = 2
"""Indentation of hints below 60 columns, as in `pages.tcss`."""


class LineBox(Box[T]):
    """Asks for one line of text, of which a proposal can be edited. Returns what it means, or None if cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "dismiss"),
        Binding("ctrl+c", "dismiss", show=False, priority=True),  # otherwise the field copies its selection
    ]
    TITLE: ClassVar[str]
    DOES: ClassVar[str]
    """Label of enter."""
    WIDTH: ClassVar[int] = 54
    """Most cells of the text in the box, as in `pages.tcss`."""
    REPLACES: ClassVar[bool] = False
    """Whether typing replaces the proposal, rather than going on at its end."""

    def __init__(self, proposed: str) -> None:
        super().__init__()
        self._proposed = proposed

    def compose(self) -> ComposeResult:
        """Yield the field, its hint or error, and the keys."""
        with Vertical(id="box") as box:
            box.border_title = self.TITLE
            yield LineField(self._proposed, select_on_focus=self.REPLACES)
            yield Lines(id="hint")
            yield Lines(id="outcome", classes="keys")

    def on_mount(self) -> None:
        """Show the keys."""
        keys: Spans = (("enter", "key"), (f" {self.DOES}  ", "text"), ("esc", "key"), (" cancel", "text"))
        self.query_one("#outcome", Lines).show([keys])

    @property
    def field(self) -> Input:
        """The field."""
        return self.query_one(Input)

    def check(self, text: str, *, is_final: bool) -> T | None:
        """Show what is wrong with the text, or its hint. After enter, return what it means if it is right."""
        raise NotImplementedError

    def tell(self, text: str, role: str = "muted") -> None:
        """Show a hint or an error."""
        self.query_one("#hint", Lines).show(wrapped(text, min(self.WIDTH, self.app.size.width - 4), role))

    def on_resize(self) -> None:
        """Wrap again for the new width."""
        self.check(self.field.value.strip(), is_final=False)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.check(event.value.strip(), is_final=False)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        found = self.check(event.value.strip(), is_final=True)
        if found is not None:
            self.dismiss(found)


class FieldBox(VerticalScroll, can_focus=False, inherit_bindings=False):
    """Holds the fields. The arrow keys move between fields, also where these need to be scrolled."""

    BINDINGS: ClassVar[list[BindingType]] = [("pagedown", "page_down"), ("pageup", "page_up")]


class Form(Box[T]):
    """Fields in a box. `escape` leaves and keeps what was typed; `ctrl+c` drops it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave"), ("down", "app.focus_next"), ("up", "app.focus_previous"),
        Binding("ctrl+c", "dismiss", show=False, priority=True),  # otherwise the field copies its selection
    ]  # fmt: skip

    def __init__(self, title: str, labels: Mapping[str, str], state: AppState, glyphs: Glyphs) -> None:
        """Show a field for each of `labels`, which maps its name to its label."""
        super().__init__()
        self._title, self._labels, self._state, self._glyphs = title, labels, state, glyphs
        self._in_sight: tuple[object, ...] = ()
        """What was last scrolled to: the size of the screen, and each line with its place in the box."""

    def make_field(self, name: str) -> Iterable[Widget]:
        """Yield the field of this name, whose id is the name."""
        raise NotImplementedError

    def check(self) -> object:
        """Show hints, errors and the estimate for what is typed."""
        raise NotImplementedError

    def submit(self) -> None:
        """Close and run what is typed, or show why it cannot be run."""
        raise NotImplementedError

    def action_leave(self) -> None:
        """Close and keep what was typed."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Yield one line per field with its error or hint, the estimate and the keys."""
        with FieldBox(id="box") as box:
            box.border_title = self._title
            yield Lines(id="about")
            for name, text in self._labels.items():
                with Horizontal(classes="field"):
                    label = Lines(classes="label")
                    label.show([((text, "strong"),)])
                    yield label
                    yield from self.make_field(name)
                yield Lines(id=f"{name}-hint", classes="hint")
                yield from self.below(name)
            yield Lines(id="outcome")
            yield Lines(id="form-keys", classes="keys")

    def on_mount(self) -> None:
        """Focus the first field."""
        # On a busy machine a hint gets its place only after `call_after_refresh` has called: it was out of sight.
        self.screen_layout_refresh_signal.subscribe(self, self._bring_into_sight)
        self.field(next(iter(self._labels))).focus()

    def on_resize(self) -> None:
        """Wrap again once the box has its new width."""
        self.call_after_refresh(self.check)

    def show_state(self, state: AppState) -> None:
        """Show newer estimates."""
        self._state = state
        self.check()

    def field(self, name: str) -> Widget:
        """Return a field."""
        return self.query_one(f"#{name}")

    def texts(self) -> dict[str, str]:
        """Return field → text."""
        fields = {name: self.field(name) for name in self._labels}
        return {name: field.value for name, field in fields.items() if isinstance(field, Input | Chooser)}

    def below(self, name: str) -> Iterable[Widget]:
        """Yield more lines under a field."""
        return ()

    @property
    def is_shown(self) -> bool:
        """Whether the form is open and composed."""
        return self in self.app.screen_stack and bool(self.query("#form-keys"))

    @property
    def width(self) -> int:
        """Cells of a line in the box."""
        return max(20, self.query_one("#box").content_size.width - 1)

    def show_hints(self, hints: Mapping[str, str], wrong: Mapping[str, str]) -> None:
        """Show each error under its field, and under the field with the focus its hint."""
        indent = LABEL_WIDTH if self.size.width >= 60 else NARROW_HINT_INDENT
        for name in self._labels:
            error, has_focus = wrong.get(name, ""), self.field(name).has_focus
            text = visible(spelled(error or (hints.get(name, "") if has_focus else ""), self._glyphs))
            lines = wrapped(text, self.width - indent, "bad" if error else "muted")
            self.query_one(f"#{name}-hint", Lines).show_any(lines)

    @on(Input.Changed)
    @on(Chooser.Changed)
    @on(DescendantFocus)
    def _changed(self, event: Input.Changed | Chooser.Changed | DescendantFocus) -> None:
        event.stop()
        if self.is_shown:
            self.check()
            self.call_after_refresh(self._bring_into_sight)

    def _bring_into_sight(self, _: object = None) -> None:
        """Scroll to the field with the focus and its hint, below the last field also to the estimate.

        Not again while they stay where they are: a person may have scrolled elsewhere.
        """
        names = list(self._labels)
        name = self.focused.id if self.is_shown and self.focused is not None else None
        if name not in names:
            return
        wanted = (*(["outcome"] if name == names[-1] else []), f"{name}-hint", name)
        lines = [line for line in map(self.field, wanted) if line.display]
        places = (self.size, *((line.id, line.virtual_region) for line in lines))
        if places == self._in_sight:
            return
        self._in_sight = places
        for line in lines:
            line.scroll_visible(animate=False, immediate=True)

    @on(Input.Submitted)
    @on(Chooser.Submitted)
    def _submitted(self, event: Input.Submitted | Chooser.Submitted) -> None:
        event.stop()
        self.submit()

    def show_outcome(self, lines: Sequence[Spans], keys: Mapping[str, str]) -> None:
        """Show the lines below the fields, and as many of the keys (key → label) as fit, the first ones first."""
        pairs: list[Spans] = [((key, "key"), (f" {does}  ", "text")) for key, does in keys.items()]
        while len(pairs) > 2 and sum(map(width_of, pairs)) > self.width + 3:
            pairs.pop()
        self.query_one("#outcome", Lines).show_any(lines)
        self.query_one("#form-keys", Lines).show([tuple(part for pair in pairs for part in pair)])

    def fact_lines(self, facts: Mapping[str, tuple[str, str]]) -> list[Spans]:
        """Return the lines of label → (text, role)."""
        rows = {label: wrapped(spelled(text, self._glyphs), self.width - LABEL_WIDTH, role)
                for label, (text, role) in facts.items()}  # fmt: skip
        return [line for label in rows for line in labelled(label, rows[label], LABEL_WIDTH)]


class BaselineBox(LineBox[str]):
    """Returns the name, or None if cancelled."""

    TITLE, DOES, REPLACES = "Name this series as a baseline", "set", True

    def check(self, text: str, *, is_final: bool) -> str | None:
        """Show the error of the name, or what it is for; return a valid name."""
        try:
            name = checked_baseline(text)
        except UsageError as error:
            self.tell(str(error), "bad")
            return None
        self.tell("Later runs are compared with it. The commands compare and gate accept its name.")
        return name


class ExportForm(LineBox[Path]):
    """Returns a writable file, or None if cancelled."""

    TITLE, DOES, WIDTH = "Export", "write", 72
    _asked: Path | None = None
    """An existing file that a second enter replaces."""

    def check(self, text: str, *, is_final: bool) -> Path | None:
        """Show an unknown suffix at once. What needs the disk is checked when enter is pressed."""
        # `Path.expanduser` raises for an unknown user; this does not.
        path, asked, self._asked = Path(home_path(text)), self._asked, None
        suffixes = ", ".join(formats.SUFFIXES.values())
        told = f"The suffix sets the format: {suffixes}. A file named thresholds.json gets crossovers for programs."
        role = "muted"
        try:
            name = formats.required_format_of(path) if text or is_final else ""
            if is_final:
                formats.need(name)
                target.check_file(file_path(home_path(text)))
                if not path.exists() or asked == path:
                    return path
                self._asked = path
                verb = "add to" if name == formats.THRESHOLDS else "replace"
                told, role = f"{path} exists already. Press enter again to {verb} it.", "warn"
        except CpuGpuError as error:
            told, role = str(error), "bad"
        self.tell(told, role)
        return None
