"""Fields for typing and choosing: a line with a limit on pastes, the line at the bottom of a list, and devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

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
from cpugpu_tui.ui.panes.lines import Lines, Spans, spelled, wrapped
from cpugpu_tui.ui.panes.telemetry.wording import stranger
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


class DeviceChoice(Lines, can_focus=True):
    """One line with the chosen devices; with the focus, a line for each device that space selects or clears."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("down,j", "move(1)"), ("up,k", "move(-1)"), ("space", "choose"), ("enter", "submit"),
    ]  # fmt: skip

    class Changed(Message):
        """The choice has changed."""

    class Submitted(Message):
        """Enter was pressed: the form is complete."""

    def __init__(self, chosen: tuple[str, ...], state: AppState, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        """Begin with these names: `auto`, or those of devices."""
        super().__init__(id=id)
        self.chosen = chosen
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
        return stranger(spelled(text, self._glyphs), width, self._glyphs)

    def watch_has_focus(self, value: bool) -> None:
        """Open the list with the focus, and close it without."""
        super().watch_has_focus(value)
        if self.is_mounted:
            self.redraw()

    def on_resize(self) -> None:
        """Cut the names for the new width."""
        self.redraw()

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
        self.redraw()
        self.post_message(self.Changed())

    def action_submit(self) -> None:
        """Submit the form."""
        self.post_message(self.Submitted())


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
