"""The parameters of a workload, edited with validation under each field, and what they will take."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.events import DescendantFocus
from textual.widgets import Input

from cpugpu_tui.errors import UsageError
from cpugpu_tui.session.planning import FieldError, PlanRequest
from cpugpu_tui.ui.app_state import AppState, StateModal
from cpugpu_tui.ui.form_fields import DEVICES, FIELDS, hints, placeholders, request_from, texts_of
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.line_field import LineField
from cpugpu_tui.ui.panes.device_choice import DeviceChoice
from cpugpu_tui.ui.panes.estimate_lines import estimate_of, free_bytes, memory_words, plan_of, time_words
from cpugpu_tui.ui.panes.lines import Lines, spelled, wrapped
from cpugpu_tui.ui.panes.workload import Entry
from cpugpu_tui.ui.roles import ROLE_CLASSES, Spans
from cpugpu_tui.ui.screens.box import Box

LABEL_WIDTH = 13
"""Cells left of the fields, as in `app.tcss`."""


class WorkloadForm(StateModal, Box[PlanRequest | None]):
    """Returns the changed request, or None if the person went back."""

    COMPONENT_CLASSES: ClassVar[set[str]] = ROLE_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("ctrl+c", "cancel", show=False, priority=True),  # a field would copy what is selected in it
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, entry: Entry, state: AppState, glyphs: Glyphs) -> None:
        """Edit this entry's request; the state tells devices, and what the estimate rests on."""
        super().__init__()
        self._entry, self._state, self._glyphs = entry, state, glyphs
        self._hints = hints(entry.request)

    def compose(self) -> ComposeResult:
        """Yield one line per field, each with lines for what is wrong or its hint, then what all of it will take."""
        with VerticalScroll(id="box", can_focus=False):
            yield Lines(id="about")
            empty, texts = placeholders(self._entry.request), texts_of(self._entry.request)
            for name, (text, _) in FIELDS.items():
                with Horizontal(classes="field"):
                    label = Lines(classes="label")
                    label.show([((text, "strong"),)])
                    yield label
                    if name == DEVICES:
                        yield DeviceChoice(self._entry.request.devices, self._state, self._glyphs, id=DEVICES)
                    else:
                        yield typed_field(texts[name], empty[name], name)
                yield Lines(id=f"{name}-hint", classes="hint")
            yield Lines(id="outcome")

    def on_mount(self) -> None:
        """Say what is edited."""
        self.query_one("#box").border_title = self._entry.name
        self.query_one("#sizes").focus()

    def on_resize(self) -> None:
        """Lay out anew, once the box has the width that this size gives it."""
        self.call_after_refresh(self._lay_out)

    def _lay_out(self) -> None:
        entry, width = self._entry, self._width
        # A short terminal keeps its lines for the fields and for what they will take.
        claim = wrapped(self._spelled(entry.claim), width, "muted") if self.size.height >= 30 else []
        self.query_one("#about", Lines).show([*wrapped(self._spelled(entry.summary), width), *claim])
        self._check()

    def show_state(self, state: AppState) -> None:
        """Show devices and estimate as they are known now."""
        self._state = state
        if self.query("#outcome"):
            self.query_one(DeviceChoice).show_state(state)
            self._check()

    @property
    def _width(self) -> int:
        return max(20, self.query_one("#box").content_size.width - 1)

    def _spelled(self, text: str) -> str:
        return spelled(text, self._glyphs)

    def _texts(self) -> dict[str, str]:
        return {name: self.query_one(f"#{name}", Input).value for name in FIELDS if name != DEVICES}

    def _check(self) -> PlanRequest | None:
        """Show what is wrong, or what would run; return the request if nothing is wrong."""
        request, wrong, other = None, {}, ""
        try:
            request = request_from(self._texts(), self.query_one(DeviceChoice).chosen, self._entry.request)
        except FieldError as error:
            wrong[error.field] = str(error)
            other = str(error) if error.field not in FIELDS else ""
        except UsageError as error:
            other = str(error)
        for name in FIELDS:
            self._show_hint(name, wrong.get(name, ""))
        lines = self._taken(request) if request is not None else wrapped(other, self._width, "bad")
        keys: Spans = (("enter", "key"), (" use these  ", "text"), ("esc", "key"), (" as they were", "text"))
        self.query_one("#outcome", Lines).show([*lines, keys])
        return request

    def _show_hint(self, name: str, wrong: str) -> None:
        """Show what is wrong with a field under it; what to write there only while the person is at it."""
        line = self.query_one(f"#{name}-hint", Lines)
        text = wrong or (self._hints[name] if self.query_one(f"#{name}").has_focus else "")
        role = "bad" if wrong else "muted"
        line.show(wrapped(self._spelled(text), self._width - LABEL_WIDTH, role))
        line.display = bool(text)

    def _taken(self, request: PlanRequest) -> list[Spans]:
        """Return how many cases would run, how long they take and how much memory they need."""
        count, found = len(plan_of(request).cases), estimate_of(self._state, request)
        memory, role = memory_words(found, free_bytes(self._state, request))
        facts = {
            "cases": (f"{count}{', more are chosen as it goes' if plan_of(request).search else ''}", "text"),
            "time": (time_words(found, request.repeat), "text"),
            "memory": (memory, role),
        }
        lines: list[Spans] = []
        for label, (text, text_role) in facts.items():
            rows = wrapped(self._spelled(text), self._width - LABEL_WIDTH, text_role)
            labels = [label, *[""] * (len(rows) - 1)]
            lines += [((f"{said:<{LABEL_WIDTH}}", "muted"), *row) for said, row in zip(labels, rows, strict=True)]
        return lines

    @on(Input.Changed)
    @on(DeviceChoice.Changed)
    def _changed(self, event: Input.Changed | DeviceChoice.Changed) -> None:
        event.stop()
        self._check()

    @on(DescendantFocus)
    def _moved(self) -> None:
        self._check()

    @on(Input.Submitted)
    @on(DeviceChoice.Submitted)
    def _submitted(self, event: Input.Submitted | DeviceChoice.Submitted) -> None:
        event.stop()
        request = self._check()
        if request is not None:
            self.dismiss(request)

    def action_cancel(self) -> None:
        """Close without changing anything."""
        self.dismiss(None)


def typed_field(text: str, placeholder: str, name: str) -> Input:
    """Return a field to type into, of one line and without a blink, which would be a paint beside a timed block."""
    return LineField(text, placeholder=placeholder, id=name, select_on_focus=False)
