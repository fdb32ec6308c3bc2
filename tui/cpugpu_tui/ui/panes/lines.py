"""Text lines with roles instead of colours, and the widgets that show them. Only lines that change are painted."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.color import Color
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from cpugpu_tui.machine.text import printable
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import ASCII, Glyphs

Spans = tuple[tuple[str, str], ...]
"""A line: pairs of text and role. Plain data, so that functions that write lines need no widget."""

ROLES = {
    "text": ("", ""),
    "muted": ("foreground-muted", ""),
    "strong": ("", "bold"),
    "title": ("primary", "bold"),
    "cpu": ("series-cpu", ""),
    "gpu": ("series-gpu", ""),
    "copies": ("series-copies", ""),
    "good": ("success", ""),
    "warn": ("warning", ""),
    "bad": ("error", ""),
    "key": ("accent", "bold"),
    "tag": ("background on warning", "bold"),
    "stale": ("foreground-muted", "italic"),
    "chosen": ("", "reverse"),
}
"""Role → its CSS variables and attributes. CSS classes of roles were an eighth of the work for the first frame."""

PLAIN_TAG = ("warning on ansi_default", "bold reverse")
"""The tag without colours of its own. Of a terminal's colours only its two own ones surely stand out on each other."""


def role_style(widget: Widget, role: str) -> Style:
    """Return the style of a role in the app's theme."""
    app = widget.app
    is_plain = role == "tag" and (app.no_color or app.native_ansi_color)
    colours, attributes = PLAIN_TAG if is_plain else ROLES[role]
    return _style(tuple(app.theme_variables.get(name, name) for name in colours.split(" on ") if name), attributes)


@lru_cache
def _style(colours: tuple[str, ...], attributes: str) -> Style:
    return Style.from_color(*(Color.parse(colour).rich_color for colour in colours)) + Style.parse(attributes)


def width_of(spans: Sequence[tuple[str, str]]) -> int:
    """Return the width of a line in cells."""
    return sum(Text(text).cell_len for text, _ in spans)


def plain(spans: Spans) -> str:
    """Return a line's text without its roles."""
    return "".join(text for text, _ in spans)


def rich_text(widget: Widget, spans: Spans) -> Text:
    """Return a line as rich text in the widget's styles, without interpreting markup."""
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    for piece, role in spans:
        text.append(piece, role_style(widget, role))
    return text


class Lines(Widget):
    """Shows lines of spans without markup or wrapping; long lines are cut.

    With the CSS class `keys`, a click on a key or on the label behind it presses that key.
    """

    DEFAULT_CSS = "Lines { height: auto; min-height: 1; width: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._lines: tuple[Spans, ...] = ()
        self._base = Style()

    @property
    def lines(self) -> tuple[Spans, ...]:
        """The lines on the screen."""
        return self._lines

    def show(self, lines: Sequence[Spans]) -> None:
        """Show these lines. Only lines that differ are painted; a new layout is for another height alone."""
        before, self._lines = self._lines, tuple(lines)
        if len(before) != len(self._lines) and self.styles.is_auto_height:
            self.refresh(layout=True)
            return
        width, both = self.size.width, zip_longest(before, self._lines, fillvalue=())
        changed = [Region(0, y, width, 1) for y, (old, new) in enumerate(both) if old != new]
        if changed:
            self.refresh(*changed)

    def show_any(self, lines: Sequence[Spans]) -> None:
        """Show these lines; without any, take no room."""
        self.show(lines)
        self.display = bool(lines)

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked."""
        place = event.get_content_offset(self)
        if place is not None and self.has_class("keys") and place.y < len(self._lines):
            key = key_at(self._lines[place.y], place.x)
            if key:
                event.stop()
                press(self, key)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines, for `height: auto`."""
        return len(self._lines)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines of a region."""
        self._base = self.rich_style  # once for all of them, because it is that of all ancestors together
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Return line `y` in the colours of the theme."""
        base = self._base
        spans = self._lines[y] if y < len(self._lines) else ()
        segments = [Segment(text, base + role_style(self, role)) for text, role in spans if text]
        return Strip(segments).adjust_cell_length(self.size.width, base)


def key_at(spans: Spans, x: int) -> str:
    """Return the key at column `x`, or the first key of the label there; empty if there is none."""
    start, key = 0, ""
    for text, role in spans:
        end = start + cell_len(text)
        if role == "key" and text.strip():
            key = text.split()[0]
            if start <= x < end:
                left = text[: x - start + 1]
                return (left + text[len(left) :].partition(" ")[0]).split()[-1]
        elif role == "muted":
            key = ""  # a key that does nothing now, or a remark
        if start <= x < end:
            return key if text.strip() else ""
        start = end
    return ""


def press(widget: Widget, key: str) -> None:
    """Press a key, written as people write it."""
    name = next(iter(Binding.make_bindings([Binding({"esc": "escape", ",": "comma"}.get(key, key), "")]))).key
    widget.app.post_message(events.Key(name, key if len(key) == 1 else None))


class StatePane(Lines):
    """Lines computed from the app's state and the pane's size."""

    def __init__(self, glyphs: Glyphs, state: AppState, *, id: str | None = None) -> None:  # noqa: A002
        """Make a pane that draws this state in the first frame."""
        super().__init__(id=id)
        self.glyphs = glyphs
        self._state = state
        self._drawn_for = Size(0, 0)

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the lines for a state in this many cells."""
        raise NotImplementedError

    def show_state(self, state: AppState) -> None:
        """Show a state; lines that stay the same are not painted."""
        self._state, self._drawn_for = state, self.size
        if self.size.width:
            self.show(self.draw(state, self.size))

    def on_resize(self) -> None:
        """Draw again in the new size, unless a paint has done so."""
        if self._drawn_for != self.size:
            self.show_state(self._state)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines at this width, for `height: auto`."""
        return len(self.draw(self._state, Size(width, self.size.height)))

    def render_line(self, y: int) -> Strip:
        """Return line `y`. The first frame comes before the first resize event, so the lines may be drawn here."""
        if self._drawn_for != self.size:
            self._drawn_for = self.size
            self._lines = tuple(self.draw(self._state, self.size))
        return super().render_line(y)


_ASCII = {ord(sign): f"^{power}" for power, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")} | str.maketrans("░▓█", ".=#")
"""Powers in ASCII, 10^8, and the signs of a survey."""


def spelled(text: str, glyphs: Glyphs) -> str:
    """Return a text with the signs that this terminal can show."""
    for sign, own in (("×", glyphs.times), ("–", glyphs.none), ("±", glyphs.plus_minus), ("µ", glyphs.micro),
                      ("·", glyphs.dot)):  # fmt: skip
        text = text.replace(sign, own)
    if glyphs is ASCII:  # its ellipsis is `>`: `16 > 2048` would be read as a comparison
        text = text.replace("…", "...").replace("≈", "~").replace("≤", "<=").translate(_ASCII)
    return text


def sanitized(text: str, width: int, glyphs: Glyphs) -> str:
    """Return an untrusted name in at most `width` cells, without control characters; empty if it takes no cell.

    Names are cleaned when they are read, too; but events also come from files and other machines.
    """
    text = printable(text)
    if glyphs is ASCII:
        text = text.encode("ascii", "replace").decode()
    text = set_cell_size(text, max(0, width)).rstrip()
    return text if cell_len(text) else ""  # accents without a letter


def visible(text: str) -> str:
    """Return code with escapes for control and format characters, which may hide it or turn its direction."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


_NO_BREAK = "\u00a0"
_UNIT_GAP = r"(?<=±) |(?<=\+-) |(?<=[≈~≤=]) (?=\d)| (?=%|(?:[≈~≤]|<=) ?\d)"
"""Spaces at which no line may break: `± 18 %`, `n ≈ 193`."""
_SIGNS = frozenset("±+≈~≤=%")


def cut(text: str, width: int, glyphs: Glyphs) -> str:
    """Return a text in exactly `width` cells."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, max(width - len(glyphs.ellipsis), 0)) + glyphs.ellipsis


def fitted(spans: Spans, width: int, glyphs: Glyphs) -> Spans:
    """Return a line in at most `width` cells; an ellipsis stands for what does not fit."""
    if width_of(spans) <= width:
        return spans
    kept: list[tuple[str, str]] = []
    left = width - len(glyphs.ellipsis)
    for text, role in spans:
        kept.append((set_cell_size(text, min(cell_len(text), max(left, 0))), role))
        left -= cell_len(text)
        if left <= 0:
            break
    return (*kept, (glyphs.ellipsis, "muted"))


def packed(items: Sequence[Spans], width: int) -> list[Spans]:
    """Return items on as few lines as their order allows."""
    lines: list[Spans] = []
    for item in items:
        if lines and width_of(lines[-1]) + 3 + width_of(item) <= width:
            lines[-1] = (*lines[-1], ("   ", "text"), *item)
        else:
            lines.append(item)
    return lines


def in_whole_words(spans: Spans, width: int, glyphs: Glyphs) -> Spans:
    """Return a line in at most `width` cells, cut at a comma or between words, but not behind a number.

    `3 outdated  1 of 25` was once cut to `3 outdated  1…`. A first part that does not fit is cut anywhere.
    """
    if width_of(spans) <= width:
        return spans
    *kept, (text, role), _ = fitted(spans, width - 1, glyphs)
    if not kept:
        return fitted(spans, width, glyphs)
    if text != spans[len(kept)][0]:
        between = ", " if ", " in text else " "
        text = "" if between == " " and text.lstrip()[:1].isdigit() else text.rpartition(between)[0]
    while text.rstrip()[-1:].isdigit():
        text = text.rstrip().rpartition(" ")[0]
    line = (*kept, (text, role))
    return (*line, (glyphs.ellipsis if plain(line).endswith(" ") else f" {glyphs.ellipsis}", "muted"))


def wrapped(text: str, width: int, role: str = "text", lines: int = 0) -> list[Spans]:
    """Wrap a text at `width` cells; at most `lines` lines if that is above 0."""
    # A text without a sign, as in the first frame, does not wait until the pattern is compiled.
    held = text if _SIGNS.isdisjoint(text) else re.sub(_UNIT_GAP, _NO_BREAK, text)
    pieces = textwrap.wrap(held, max(width, 10), max_lines=lines or None, placeholder=" ...") if text else []
    return [((piece.replace(_NO_BREAK, " "), role),) for piece in pieces]


INDENT = "  "
"""Indentation of paragraphs under a heading."""


def paragraph(text: str, width: int, role: str = "text") -> list[Spans]:
    """Wrap a text at `width` cells, each line indented; empty for an empty text."""
    pieces = textwrap.wrap(text, max(width, 12), initial_indent=INDENT, subsequent_indent=INDENT) if text else []
    return [((piece, role),) for piece in pieces]


def labelled(label: str, lines: Sequence[Spans], cells: int, role: str = "muted") -> list[Spans]:
    """Put a label of `cells` cells before the first line, and blanks before the others."""
    return [((f"{'' if index else label:<{cells}}", role), *line) for index, line in enumerate(lines)]


def respelled(lines: Sequence[Spans], glyphs: Glyphs) -> list[Spans]:
    """Return lines with the signs that this terminal can show."""
    return [tuple((spelled(text, glyphs), role) for text, role in line) for line in lines]
