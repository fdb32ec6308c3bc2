"""The parameters of a workload, edited with validation under each field, and what they will take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.events import DescendantFocus
from textual.widgets import Input

from cpugpu_tui.config.parsing import FieldError
from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import Plan
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui.estimate_lines import estimate_of, free_bytes, memory_words, plan_of, time_words
from cpugpu_tui.ui.form_fields import DEVICES, FIELDS, hints, placeholders, request_from, texts_of
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.line_field import LineField
from cpugpu_tui.ui.panes.device_choice import DeviceChoice
from cpugpu_tui.ui.panes.lines import Lines, spelled, wrapped
from cpugpu_tui.ui.panes.workload import Entry
from cpugpu_tui.ui.picture import Picture, PictureModal
from cpugpu_tui.ui.roles import ROLE_CLASSES, Spans
from cpugpu_tui.ui.screens.box import Box

LABEL_WIDTH = 13
"""Cells left of the fields, as in `app.tcss`."""


class WorkloadForm(PictureModal, Box[PlanRequest | None]):
    """Returns the changed request, or None if the person went back."""

    COMPONENT_CLASSES: ClassVar[set[str]] = ROLE_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("ctrl+c", "cancel", show=False, priority=True),  # a field would copy what is selected in it
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, entry: Entry, picture: Picture, glyphs: Glyphs) -> None:
        """Edit this entry's request; the picture tells devices, and what the estimate rests on."""
        super().__init__()
        self._entry, self._picture, self._glyphs = entry, picture, glyphs
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
                        yield DeviceChoice(self._entry.request.devices, self._picture, self._glyphs, id=DEVICES)
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

    def show_picture(self, picture: Picture) -> None:
        """Show devices and estimate as they are known now."""
        self._picture = picture
        if self.query("#outcome"):
            self.query_one(DeviceChoice).show_picture(picture)
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
        try:
            request = request_from(self._texts(), self.query_one(DeviceChoice).chosen, self._entry.request)
            lines = self._taken(plan_of(request), request.repeat)
            self._show_outcome({}, lines)
            return request
        except UsageError as error:
            field = error.field if isinstance(error, FieldError) and error.field in FIELDS else None
            other = "" if field else str(error)
            self._show_outcome({field: str(error)} if field else {}, wrapped(other, self._width, "bad"))
            return None

    def _show_outcome(self, wrong: Mapping[str, str], lines: Sequence[Spans]) -> None:
        for name in FIELDS:
            self._show_hint(name, wrong.get(name, ""))
        keys: Spans = (("enter", "key"), (" use these  ", "text"), ("esc", "key"), (" as they were", "text"))
        self.query_one("#outcome", Lines).show([*lines, keys])

    def _show_hint(self, name: str, wrong: str) -> None:
        """Show what is wrong with a field under it; what to write there only while the person is at it."""
        line = self.query_one(f"#{name}-hint", Lines)
        text = wrong or (self._hints[name] if self.query_one(f"#{name}").has_focus else "")
        role = "bad" if wrong else "muted"
        line.show(wrapped(self._spelled(text), self._width - LABEL_WIDTH, role))
        line.display = bool(text)

    def _taken(self, plan: Plan, repeat: int) -> list[Spans]:
        """Return how many cases would run, how long they take and how much memory they need."""
        count, found = len(plan.cases), estimate_of(self._picture, plan, repeat)
        memory, role = memory_words(found, free_bytes(self._picture, plan))
        facts = {
            "cases": (f"{count}{', more are chosen as it goes' if plan.search else ''}", "text"),
            "time": (time_words(found, repeat), "text"),
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
