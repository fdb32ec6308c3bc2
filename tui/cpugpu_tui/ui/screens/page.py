"""The bases of pages and boxes, and the box that asks one question. A page has a title, lines that scroll, and keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen

from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Lines, Spans, in_whole_words, press, width_of, wrapped
from cpugpu_tui.ui.panes.status import tags


class Page(Screen[None]):
    """Fills the screen while the run continues."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("j", "scroll('down')"), ("k", "scroll('up')"), ("g", "scroll('home')"), ("G", "scroll('end')")
    ]  # fmt: skip
    AUTO_FOCUS = "VerticalScroll"
    TOPIC: ClassVar[str] = "timings"
    """Topic of help for this page, a key of `help.toml`."""
    LEAVE_KEY: ClassVar[str] = "{back}"
    """The one of `page_keys` that leaves the page or its mode; it stays in a terminal too narrow for all keys."""

    def __init__(self, state: AppState, glyphs: Glyphs) -> None:
        super().__init__()
        self.state, self.glyphs = state, glyphs

    def page_title(self) -> Spans:
        """Return the first line, which does not scroll: the name, then the rest, most important first."""
        raise NotImplementedError

    def page_tags(self) -> Spans:
        """Return the tags behind the name."""
        return tags(self.state)

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the lines for this width."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Yield title, text and keys."""
        yield Lines(id="page-title")
        with VerticalScroll(id="page"):
            yield Lines(id="page-text")
        yield Lines(id="page-keys", classes="keys")

    def show_state(self, state: AppState) -> None:
        """Show a newer state."""
        self.state = state
        self.redraw()

    def on_resize(self) -> None:
        """Wrap again for the new width."""
        self.redraw()

    def redraw(self) -> None:
        """Write all lines, unless the page is closing and has lost widgets."""
        if self in self.app.screen_stack:
            self.draw()

    def draw(self) -> None:
        """Write body, title and keys (or the notice of a key press); unchanged lines are not repainted."""
        self.draw_body()
        name, *rest = self.page_title()
        title = in_whole_words((name, *self.page_tags(), *rest), self.size.width - 2, self.glyphs)
        self.query_one("#page-title", Lines).show([title])
        result = self.state.key_result
        line: Spans = ((f" {result}", "strong"),) if result else self._keys_line()
        self.query_one("#page-keys", Lines).show([line])

    def _keys_line(self) -> Spans:
        """Return the keys that fit, always with the one that leaves the page."""
        keymap = self.state.keymap
        keys = [(key, label) for key, label in self.page_keys() if label != "scroll" or not self._is_whole]
        pairs: list[Spans] = [((f" {keymap.with_keys(key)}", "key"), (f" {label} ", "text")) for key, label in keys]
        kept = next((place for place, (key, _) in enumerate(keys) if key == self.LEAVE_KEY), 0)
        while len(pairs) > 1 and sum(map(width_of, pairs)) > self.size.width:
            if kept == len(pairs) - 1:  # the last one stays, so the one before it goes
                kept -= 1
                del pairs[kept]
            else:
                pairs.pop()
        return tuple(part for pair in pairs for part in pair)

    @property
    def _is_whole(self) -> bool:
        """Whether all lines are in sight, so that there is nothing to scroll."""
        return any(len(text.lines) <= self.size.height - 2 for text in self.query("#page-text").results(Lines))

    def draw_body(self) -> None:
        """Write what stands between title and keys."""
        self.query_one("#page-text", Lines).show(self.page_lines(self.text_width))

    @property
    def text_width(self) -> int:
        """Cells of a line of the text."""
        return max(20, self.size.width - 4)

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return (keys, label) pairs for the last line; ids in braces stand for the keys in force."""
        return (("{back}", "back"), ("j k g G", "scroll"))

    def action_scroll(self, where: str) -> None:
        """Scroll the text."""
        getattr(self.query_one("#page"), f"scroll_{where}")(animate=False)


class WheelMoves:
    """Moves the cursor of a screen's list with the wheel."""

    def action_move(self, step: int) -> None:
        """Move the cursor and keep it visible."""
        raise NotImplementedError

    def on_mouse_scroll_down(self) -> None:
        """Move the cursor with the wheel."""
        self.action_move(1)

    def on_mouse_scroll_up(self) -> None:
        """Move the cursor with the wheel."""
        self.action_move(-1)


class ListPage(WheelMoves, Page, inherit_bindings=False):
    """A list with a cursor that draws only visible lines, so that thousands are as fast as ten."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("j,down", "move(1)"), ("k,up", "move(-1)"), ("pagedown", "move_page(1)"), ("pageup", "move_page(-1)"),
        ("home", "move(-1_000_000_000)"), ("G,end", "move(1_000_000_000)"),
    ]  # fmt: skip
    AUTO_FOCUS = ""

    def __init__(self, state: AppState, glyphs: Glyphs) -> None:
        super().__init__(state, glyphs)
        self.index = self._top = 0
        self._in_sight = range(0)

    def compose(self) -> ComposeResult:
        """Yield title, list, the entry under the cursor and the keys."""
        for name in ("page-title", "heads", "list", "about"):
            yield Lines(id=name)
        yield Lines(id="page-keys", classes="keys")

    def count(self) -> int:
        """Return the number of lines of the list."""
        raise NotImplementedError

    def list_heads(self, width: int) -> Spans:
        """Return the headings."""
        raise NotImplementedError

    def list_line(self, index: int, width: int, *, chosen: bool) -> Spans:
        """Return a line of the list."""
        raise NotImplementedError

    def about_lines(self, width: int) -> list[Spans]:
        """Return the facts of the entry under the cursor."""
        raise NotImplementedError

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the visible lines."""
        return [self.list_line(place, width, chosen=place == self.index) for place in self._in_sight]

    def draw_body(self) -> None:
        """Write the visible lines, and the facts of the entry under the cursor."""
        width, height, count = max(self.size.width - 2, 20), self.height, self.count()
        self.index = min(max(self.index, 0), max(count - 1, 0))
        top = min(max(self._top, self.index - height + 1), self.index)
        self._top = max(min(top, count - height), 0)
        self._in_sight = range(self._top, min(self._top + height, count))
        lines = list(self.page_lines(width))
        self.query_one("#heads", Lines).show([self.list_heads(width)])
        # Padded to the full height, so that the lines below stay in place.
        self.query_one("#list", Lines).show([*lines[:height], *[()] * (height - len(lines))])
        about, facts = self.query_one("#about", Lines), self.about_lines(width)
        if len(about.lines) != len(facts):
            self.call_after_refresh(self.redraw)  # the height of the list changes then
        about.show(facts)

    @property
    def where(self) -> tuple[str, str]:
        """The place of the cursor, such as `3 of 25`, for the title; empty if the whole list is visible."""
        count = self.count()
        return (f"  {self.index + 1:,} of {count:,}" if count > self.height else "", "muted")

    @property
    def height(self) -> int:
        """Number of visible lines of the list."""
        return max(self.query_one("#list").size.height, 1) if self.is_mounted else 1

    def action_move(self, step: int) -> None:
        """Move the cursor and keep it visible."""
        self.index = min(max(self.index + step, 0), max(self.count() - 1, 0))
        self.redraw()

    @on(events.Click, "#list")
    def _click(self, event: events.Click) -> None:
        """Select the clicked line; open it on a double click."""
        if event.y < len(self._in_sight):
            self.action_move(self._in_sight[event.y] - self.index)
            if event.chain == 2:
                press(self, "enter")

    def action_move_page(self, pages: int) -> None:
        """Move by one screen of lines."""
        self.action_move(pages * self.height)


T = TypeVar("T")


class Box(ModalScreen[T]):
    """A box over the open page. It closes once, even if more keys were typed ahead."""

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close and return the result; do nothing if the box is closed already or covered.

        Textual would pop the top screen, whichever it is: a second quick enter closed the main screen, which ended the
        app. Its `is_current` does not tell, because it is also true for a screen below a box.
        """
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()


class ConfirmScreen(Box[bool]):
    """Asks a question while the run continues. Returns whether the answer was yes."""

    BINDINGS: ClassVar[list[BindingType]] = [("y,q,ctrl+c", "dismiss(True)"), ("n,escape", "dismiss(False)")]

    def __init__(self, question: str, yes: str, no: str) -> None:
        """Ask `question`; `yes` and `no` are the labels of the answers."""
        super().__init__()
        self._set(question, yes, no)

    def _set(self, question: str, yes: str, no: str) -> None:
        keys: Spans = (("y", "key"), (f" {yes}   ", "text"), ("esc", "key"), (f" {no}", "text"))
        self._question, self._keys = question, keys

    def ask(self, question: str, yes: str, no: str) -> None:
        """Ask another question, because what the first one was about has ended."""
        if self.is_attached and question != self._question:
            self._set(question, yes, no)
            self.on_resize()

    def compose(self) -> ComposeResult:
        """Yield the box."""
        with Vertical(id="box"):
            yield Lines(id="question", classes="keys")

    def on_resize(self) -> None:
        """Write question and keys for this width."""
        width = min(54, self.size.width - 4)
        is_wide = width_of(self._keys) <= width
        keys = [self._keys] if is_wide else [self._keys[:2], self._keys[2:]]
        self.query_one(Lines).show([*wrapped(self._question, width), (), *keys])
