"""Fields for typing and choosing: a line with a limit on pastes, the line at the bottom of a list, and choosers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from cpugpu_tui.model import Device
from cpugpu_tui.model.quantities import gib
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.live.messages import InputDropped
from cpugpu_tui.ui.panes.lines import Lines, Spans, cut, sanitized, spelled, wrapped
from cpugpu_tui.ui.terminal.bounded_input import LONGEST_LINE


class LineField(Input):
    """An input of at most `LONGEST_LINE` characters. It does not blink, because each blink is a paint."""

    def __init__(
        self, value: str = "", *, placeholder: str = "", id: str | None = None, select_on_focus: bool = True  # noqa: A002
    ) -> None:  # fmt: skip
        super().__init__(value, placeholder, id=id, select_on_focus=select_on_focus, compact=True)
        self.cursor_blink = False

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace a part of the line; text beyond `LONGEST_LINE` is dropped."""
        room = max(LONGEST_LINE - len(self.value) + abs(end - start), 0)
        if len(text) > room:
            self.app.post_message(InputDropped(len(text) - room, LONGEST_LINE))
        super().replace(text[:room], start, end)


class TypingLine(Horizontal):
    """A sign for what is typed, and the field, which posts `Input.Changed` and `Input.Submitted`."""

    sign = ""
    """Text before the field; empty while the line is hidden."""

    def compose(self) -> ComposeResult:
        """Yield sign and field. They exist before they are visible, so that no key typed early is lost."""
        yield Lines(id="line-sign")
        yield LineField(id="line-field", select_on_focus=False)

    @property
    def field(self) -> Input:
        """The field."""
        return self.query_one(Input)

    @property
    def typing(self) -> bool:
        """Whether keys go into the field."""
        return self.screen.focused is self.field

    def ask(self, sign: str, hint: str, value: str) -> None:
        """Show the line with this value and focus its field."""
        self.show_sign(sign)
        self.field.placeholder = hint
        self.field.value = value
        self.field.cursor_position = len(value)
        self.screen.set_focus(self.field)

    def show_sign(self, sign: str, value: str | None = None) -> None:
        """Show the line without focus; hide it if `sign` is empty."""
        self.sign = sign
        self.display = bool(sign)
        label = self.query_one("#line-sign", Lines)
        label.styles.width = len(sign) + 1
        label.show([((sign, "key"),)])
        if value is not None:
            self.field.value = value


AUTO, EVERY = "auto", "cuda"
ABOUT_AUTO = "CPU and the first GPU"


class Chooser(Lines, can_focus=True):
    """A field that is chosen instead of typed."""

    class Changed(Message):
        """The choice has changed."""

    class Submitted(Message):
        """Enter was pressed: the form is complete."""

    value = ""
    """The choice as text."""

    def watch_has_focus(self, value: bool) -> None:
        """Open with the focus, and close without it."""
        super().watch_has_focus(value)
        if self.is_mounted:
            self.redraw()

    def on_resize(self) -> None:
        """Fit the choices into the new width."""
        self.redraw()

    def redraw(self) -> None:
        """Write all lines."""
        raise NotImplementedError

    def action_submit(self) -> None:
        """Submit the form."""
        self.post_message(self.Submitted())

    _is_opening = False

    @property
    def opens(self) -> bool:
        """Whether it has more lines with the focus."""
        return True

    def focus_on_click(self) -> bool:
        """Take the focus; remember whether this click only opens the list."""
        self._is_opening = not self.has_focus and self.opens
        return True


class Choice(Chooser):
    """One of several words, side by side. Arrow keys, space or a click choose; typed letters find a word or its alias.

    Textual's `Select` needs enter and the arrow keys for its list, which belong to the form here.
    """

    BINDINGS: ClassVar[list[BindingType]] = [("left", "step(-1)"), ("right,space", "step(1)"), ("enter", "submit")]

    def __init__(
        self, value: str, options: Sequence[str], aliases: Mapping[str, str] | None = None, *, id: str | None = None  # noqa: A002
    ) -> None:  # fmt: skip
        """Begin with this value, which may be none of the options; `aliases` maps other names to options."""
        super().__init__(id=id)
        self.value = value
        self._options, self._aliases = tuple(options), aliases or {}
        self._typed = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The options, and the value if it is none of them."""
        return tuple(dict.fromkeys((*self._options, self.value)))

    def redraw(self) -> None:
        """Write the words, as many lines as they need with the focus, and one without."""
        rows = self._rows()
        if len(rows) > 1 and not self.has_focus:
            self.show([((f"[{self.value}]", "strong"), (f" or {len(self.words) - 1} others", "muted"))])
            return
        chosen = "chosen" if self.has_focus else "strong"
        self.show([tuple((text, chosen if word == self.value else "text") for word, text in row) for row in rows])

    def _rows(self) -> list[list[tuple[str, str]]]:
        """Return lines of (word, text); the chosen word is in brackets, so that color is not needed to see it."""
        rows: list[list[tuple[str, str]]] = [[]]
        left = self.size.width
        for word in self.words:
            text = f"[{word}]" if word == self.value else f" {word} "
            if rows[-1] and len(text) > left:
                rows.append([])
                left = self.size.width
            rows[-1].append((word, text))
            left -= len(text)
        return rows

    def action_step(self, step: int) -> None:
        """Choose the next or the previous word; after the last comes the first."""
        words = self.words
        self.choose(words[(words.index(self.value) + step) % len(words)])

    def on_key(self, event: events.Key) -> None:
        """Find a word by its first letters or an alias; keep other text, which the form may accept."""
        if event.key == "backspace":
            self._typed = self._typed[:-1]
        elif event.is_printable and event.character not in (None, " "):
            self._typed = f"{self._typed}{event.character}"[:LONGEST_LINE]
        else:
            return
        event.stop()
        event.prevent_default()
        if self._typed:
            self.choose(self._found(self._typed), self._typed)

    def _found(self, typed: str) -> str:
        """Return the word that the text means, else the text. A number is no beginning of another number."""
        names = {**{word: word for word in self._options}, **self._aliases}
        folded = typed.lower()
        begins = [names[name] for name in names if folded[0].isalpha() and name.startswith(folded)]
        return names.get(folded) or next(iter(begins), typed)

    def choose(self, value: str, typed: str = "") -> None:
        """Choose a word; `typed` is the text that named it."""
        self.value, self._typed = value, typed
        self.redraw()
        self.post_message(self.Changed())

    def watch_has_focus(self, value: bool) -> None:
        """Begin a new word with the focus."""
        self._typed = ""
        super().watch_has_focus(value)

    @property
    def opens(self) -> bool:
        """Whether the words need more than one line."""
        return len(self._rows()) > 1

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Choose the word under the mouse. Not when the button is released: hints come and go, and the field moves."""
        place, rows = event.get_content_offset(self), self._rows()
        if self._is_opening or place is None or place.y >= len(rows):
            return
        end = 0
        for word, text in rows[place.y]:
            end += len(text)
            if place.x < end:
                self.choose(word)
                return


class DeviceChoice(Chooser):
    """One line with the chosen devices; with the focus, a line for each device that space selects or clears."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("down,j", "move(1)"), ("up,k", "move(-1)"), ("space", "choose"), ("enter", "submit"),
    ]  # fmt: skip

    def __init__(self, chosen: tuple[str, ...], state: AppState, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        """Begin with these names: `auto`, or those of devices."""
        super().__init__(id=id)
        self.chosen, self.value = chosen, ",".join(chosen)
        """Device names as in a plan."""
        self._state, self._glyphs = state, glyphs
        self._asked = chosen
        self._cursor = 0

    def show_state(self, state: AppState) -> None:
        """Show the devices that are known."""
        self._state = state
        self.redraw()

    def redraw(self) -> None:
        """Write all lines."""
        state, width = self._state, max(20, self.size.width)
        names = option_names(self._asked, state.devices)
        self._cursor = min(self._cursor, len(names) - 1)
        labels = {device.name: device for device in state.devices}
        if not self.has_focus:
            named = ", ".join(_named(name, labels) for name in self.chosen)
            self.show([((self._fitted(named, width), "text"),)])
            return
        lines: list[Spans] = []
        for index, name in enumerate(names):
            sign = "[x]" if name in self.chosen else "[ ]"
            role = "chosen" if index == self._cursor else "text"
            lines.append(((self._fitted(f"{sign} {_named(name, labels)}", width), role),))
        if state.surveying:
            lines.append((("looking for GPUs", "muted"),))
        elif state.devices_remark:
            lines += wrapped(spelled(state.devices_remark, self._glyphs), width, "warn")
        self.show(lines)

    def _fitted(self, text: str, width: int) -> str:
        shown = sanitized(spelled(text, self._glyphs), len(text), self._glyphs)
        return shown if cell_len(shown) <= width else cut(shown, width, self._glyphs)

    def action_move(self, step: int) -> None:
        """Move the cursor; beyond the end of the list, move to the next or the previous field."""
        count = len(option_names(self._asked, self._state.devices))
        if 0 <= self._cursor + step < count:
            self._cursor += step
            self.redraw()
        elif step > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()

    def action_choose(self) -> None:
        """Select or clear the device under the cursor."""
        name = option_names(self._asked, self._state.devices)[self._cursor]
        self.chosen = toggled(self.chosen, name)
        self.value = ",".join(self.chosen)
        self.redraw()
        self.post_message(self.Changed())

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Select or clear the device under the mouse."""
        place = event.get_content_offset(self)
        if not self._is_opening and place is not None and place.y < len(option_names(self._asked, self._state.devices)):
            self._cursor = place.y
            self.action_choose()


def option_names(asked: Sequence[str], devices: Sequence[Device]) -> list[str]:
    """Return the names to choose from: `auto`, the reported devices, and those of the request."""
    every = [EVERY] if sum(not device.is_cpu for device in devices) > 1 else []
    return list(dict.fromkeys([AUTO, "cpu", *every, *(device.name for device in devices), *asked]))


def toggled(chosen: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Return the choice with `name` selected or cleared.

    `auto` excludes all others and replaces an empty choice; `cuda` replaces single GPUs.
    """
    if name == AUTO:
        return (AUTO,)
    left = tuple(other for other in chosen if other not in (AUTO, name) and not _is_covered(other, name))
    return (left if name in chosen else (*left, name)) or (AUTO,)


def _is_covered(one: str, other: str) -> bool:
    """Whether one of the two names is `cuda` and the other a single GPU."""
    return EVERY in (one, other) and one.startswith("cuda:") != other.startswith("cuda:") and "cpu" not in (one, other)


def _named(name: str, labels: dict[str, Device]) -> str:
    """Return a device with its model and memory: `cuda:1 NVIDIA H200 (139.8 GiB)`."""
    if name == AUTO:
        return f"{AUTO}: {ABOUT_AUTO}"
    if name == EVERY:
        count = sum(not device.is_cpu for device in labels.values())
        return f"{EVERY}: all GPUs{f' ({count})' if count else ''}"
    device = labels.get(name)
    if device is None:
        return name if name in ("cpu", "cuda") or not labels else f"{name} (not found)"
    memory = "" if device.memory_bytes is None else f" ({gib(device.memory_bytes)} GiB)"
    return f"{name} {device.label}{memory}"
