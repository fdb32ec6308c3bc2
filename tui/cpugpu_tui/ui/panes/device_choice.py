"""Which devices to time, chosen by name from what an agent reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from cpugpu_tui.model import Device
from cpugpu_tui.model.quantities import gib
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Lines, spelled, wrapped
from cpugpu_tui.ui.panes.telemetry.wording import stranger
from cpugpu_tui.ui.roles import Spans

AUTO, EVERY = "auto", "cuda"
ABOUT_AUTO = "CPU and first GPU, if there is one"


class DeviceChoice(Lines, can_focus=True):
    """One line that says what is chosen; with the focus a line for each device, which space takes in or out."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("space", "choose", show=False),
        Binding("enter", "submit", show=False),
    ]

    class Changed(Message):
        """Another choice was made."""

    class Submitted(Message):
        """The person is content with the form."""

    def __init__(self, chosen: tuple[str, ...], state: AppState, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        """Begin with these names, `auto` among them or those of devices."""
        super().__init__(id=id)
        self.chosen = chosen
        """Names as a plan takes them."""
        self._state, self._glyphs = state, glyphs
        self._asked = chosen
        self._cursor = 0

    def show_state(self, state: AppState) -> None:
        """Show the devices that are known by now."""
        self._state = state
        self.redraw()

    def redraw(self) -> None:
        """Write all lines."""
        state, width = self._state, max(20, self.size.width)
        names = option_names(self._asked, state.devices)
        self._cursor = min(self._cursor, len(names) - 1)
        labels = {device.name: device for device in state.devices}
        if not self.has_focus:
            told = ", ".join(_told(name, labels) for name in self.chosen)
            self.show([((self._said(told, width), "text"),)])
            return
        lines: list[Spans] = []
        for index, name in enumerate(names):
            sign = "[x]" if name in self.chosen else "[ ]"
            role = "chosen" if index == self._cursor else "text"
            lines.append(((self._said(f"{sign} {_told(name, labels)}", width), role),))
        if state.surveying:
            lines.append((("asking an agent which GPUs there are", "muted"),))
        elif state.devices_remark:
            lines += wrapped(spelled(state.devices_remark, self._glyphs), width, "warn")
        self.show(lines)

    def _said(self, text: str, width: int) -> str:
        return stranger(spelled(text, self._glyphs), width, self._glyphs)

    def watch_has_focus(self, value: bool) -> None:
        """Open the list, or close it."""
        super().watch_has_focus(value)
        if self.is_mounted:
            self.redraw()

    def on_resize(self) -> None:
        """Cut the names for the new width."""
        self.redraw()

    def action_move(self, step: int) -> None:
        """Move the cursor; beyond either end of the list to the next field, or the one before."""
        count = len(option_names(self._asked, self._state.devices))
        if 0 <= self._cursor + step < count:
            self._cursor += step
            self.redraw()
        elif step > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()

    def action_choose(self) -> None:
        """Take the device under the cursor in, or out."""
        name = option_names(self._asked, self._state.devices)[self._cursor]
        self.chosen = toggled(self.chosen, name)
        self.redraw()
        self.post_message(self.Changed())

    def action_submit(self) -> None:
        """Say that the form is done."""
        self.post_message(self.Submitted())


def option_names(asked: Sequence[str], devices: Sequence[Device]) -> list[str]:
    """Return what can be chosen: `auto`, what an agent reported, and what was asked for, reported or not."""
    every = [EVERY] if sum(not device.is_cpu for device in devices) > 1 else []
    return list(dict.fromkeys([AUTO, "cpu", *every, *(device.name for device in devices), *asked]))


def toggled(chosen: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Return the choice with `name` taken in or out; `auto` stands alone, and for nothing; `cuda` for each GPU."""
    if name == AUTO:
        return (AUTO,)
    left = tuple(other for other in chosen if other not in (AUTO, name) and not _is_covered(other, name))
    return (left if name in chosen else (*left, name)) or (AUTO,)


def _is_covered(one: str, other: str) -> bool:
    """Whether one of the two names every GPU and the other a single one of them."""
    return EVERY in (one, other) and one.startswith("cuda:") != other.startswith("cuda:") and "cpu" not in (one, other)


def _told(name: str, labels: dict[str, Device]) -> str:
    """Return a device as a person knows it, `cuda:1 NVIDIA H200 (139.8 GiB)`."""
    if name == AUTO:
        return f"{AUTO}: {ABOUT_AUTO}"
    if name == EVERY:
        count = sum(not device.is_cpu for device in labels.values())
        return f"{EVERY}: every GPU{f' ({count})' if count else ''}"
    device = labels.get(name)
    if device is None:
        return name if name in ("cpu", "cuda") or not labels else f"{name} (no agent reported it)"
    memory = "" if device.memory_bytes is None else f" ({gib(device.memory_bytes)} GiB)"
    return f"{name} {device.label}{memory}"
