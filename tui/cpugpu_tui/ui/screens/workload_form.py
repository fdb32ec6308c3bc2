"""The form for a workload's parameters: fields, errors, and an estimate of time and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from cpugpu_tui.session.planning import PlanRequest, find_preset
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.estimate_lines import estimate_of, free_bytes, memory_words, plan_of, time_words
from cpugpu_tui.ui.panes.fields import DeviceChoice, LineField
from cpugpu_tui.ui.panes.lines import Lines, Spans, labelled, spelled, wrapped
from cpugpu_tui.ui.panes.workload import Entry
from cpugpu_tui.ui.screens.page import Box

DEVICES = "devices"
"""The field with a list instead of text."""

FIELDS: dict[str, tuple[str, str]] = {
    "sizes": ("sizes", "for example 16,32,64 or 1:10000:50 (start:stop:step)"),
    "dtype": ("dtype", "float32, tf32, float64, bfloat16 or float16"),
    "variant": ("variant", ""),
    "threads": ("CPU threads", "all, or numbers separated by commas"),
    DEVICES: ("devices", "press space to choose"),
    "repeat": ("repeats", "runs in one series"),
    "rounds": ("rounds", "per case; empty: 8 to 40, until ± is small"),
    "max_seconds": ("at most", "seconds for the whole run"),
    "scale": ("scale", "full, or small: seconds instead of minutes"),
}
"""Field of `PlanRequest` → label and hint."""


def hints(request: PlanRequest) -> dict[str, str]:
    """Return field → hint."""
    known = request.own.infos()
    parts = [part for name in request.names for part in find_preset(name, request.own, known).parts]
    variants = dict.fromkeys(variant for part in parts for variant in known[part.workload].variants)
    return {**{name: hint for name, (_, hint) in FIELDS.items()}, "variant": "one of " + ", ".join(variants)}


def placeholders(request: PlanRequest) -> dict[str, str]:
    """Return field → default, which an empty field stands for."""
    # Typed code has no sizes of its own.
    plan = plan_of(PlanRequest(request.names, request.sizes if request.own.codes else None, own=request.own))
    sizes = list(dict.fromkeys(str(case.size) for case in plan.cases))
    shown = sizes if len(sizes) <= 8 else [*sizes[:3], "...", sizes[-1]]
    return {
        "sizes": ",".join(shown),
        "dtype": ", ".join(dict.fromkeys(case.dtype for case in plan.cases)),
        "variant": ", ".join(dict.fromkeys(case.variant for case in plan.cases)),
        "threads": ", ".join(dict.fromkeys(str(case.threads or "all") for case in plan.cases)),
        "repeat": "1",
        "rounds": f"{plan.rounds} to {plan.max_rounds}",
        "max_seconds": "no limit",
        "scale": "full",
    }


def texts_of(request: PlanRequest) -> dict[str, str]:
    """Return field → text, for the fields that are typed."""
    texts = {name: str(getattr(request, name) or "") for name in FIELDS if name != DEVICES}
    return {**texts, "max_seconds": f"{request.max_seconds:g}" if request.max_seconds else ""}


def request_from(texts: Mapping[str, str], devices: tuple[str, ...], base: PlanRequest) -> PlanRequest:
    """Return the request of the fields. Counts, times and commas are checked here, the rest when it is planned.

    Raises:
        FieldError: a field has a wrong value; `.field` names it.
    """
    typed = {name: text.strip() for name, text in texts.items()}
    for name in ("sizes", "dtype", "variant", "threads"):
        if typed[name].endswith(","):
            raise FieldError(name, f"{typed[name]!r} ends with a comma.", "Add a value or remove the comma.")
    return replace(
        base, sizes=typed["sizes"] or None, dtype=typed["dtype"] or None, variant=typed["variant"] or None,
        threads=typed["threads"] or None, devices=devices, repeat=_whole("repeat", typed["repeat"]) or 1,
        rounds=_whole("rounds", typed["rounds"]), max_seconds=_seconds("max_seconds", typed["max_seconds"]),
        scale=typed["scale"] or "full",
    )  # fmt: skip


def _whole(field: str, text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) < 1:
        remedy = "Enter a positive integer." if len(text) <= 9 else "Enter at most 9 digits."
        raise FieldError(field, f"Invalid number {text!r}.", remedy)
    return int(text)


def _seconds(field: str, text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise FieldError(field, f"Invalid time {text!r}.", "Enter seconds, for example 20 or 1.5.") from None


LABEL_WIDTH = 13
"""Cells of the labels, as in `app.tcss`."""


class WorkloadForm(Box[PlanRequest | None]):
    """Returns the changed request, or None if cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "cancel"),
        Binding("ctrl+c", "cancel", show=False, priority=True),  # otherwise the field copies its selection
        ("down", "app.focus_next"),
        ("up", "app.focus_previous"),
    ]

    def __init__(self, entry: Entry, state: AppState, glyphs: Glyphs) -> None:
        """Edit this entry's request; the state has the devices and the facts for the estimate."""
        super().__init__()
        self._entry, self._state, self._glyphs = entry, state, glyphs
        self._hints = hints(entry.request)

    def compose(self) -> ComposeResult:
        """Yield one line per field with its error or hint, then the estimate."""
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
                        yield LineField(texts[name], placeholder=empty[name], id=name, select_on_focus=False)
                yield Lines(id=f"{name}-hint", classes="hint")
            yield Lines(id="outcome", classes="keys")

    def on_mount(self) -> None:
        """Set the title and focus the first field."""
        self.query_one("#box").border_title = self._entry.name
        self.query_one("#sizes").focus()

    def on_resize(self) -> None:
        """Wrap again once the box has its new width."""
        self.call_after_refresh(self._lay_out)

    def _lay_out(self) -> None:
        if self not in self.app.screen_stack:
            return  # closed meanwhile
        entry, width = self._entry, self._width
        # A short terminal has room for the fields and the estimate only.
        claim = wrapped(spelled(entry.claim, self._glyphs), width, "muted") if self.size.height >= 30 else []
        self.query_one("#about", Lines).show([*wrapped(spelled(entry.summary, self._glyphs), width), *claim])
        self._check()

    def show_state(self, state: AppState) -> None:
        """Show newer devices and estimates."""
        self._state = state
        if self.query("#outcome"):
            self.query_one(DeviceChoice).show_state(state)
            self._check()

    @property
    def _width(self) -> int:
        return max(20, self.query_one("#box").content_size.width - 1)

    def _texts(self) -> dict[str, str]:
        return {name: self.query_one(f"#{name}", Input).value for name in FIELDS if name != DEVICES}

    def _check(self) -> PlanRequest | None:
        """Show the error or the estimate; return the request if it is valid."""
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
        keys: Spans = (("enter", "key"), (" apply  ", "text"), ("esc", "key"), (" cancel", "text"))
        self.query_one("#outcome", Lines).show([*lines, keys])

    def _show_hint(self, name: str, wrong: str) -> None:
        """Show a field's error below it, or its hint while it has the focus."""
        line = self.query_one(f"#{name}-hint", Lines)
        text = wrong or (self._hints[name] if self.query_one(f"#{name}").has_focus else "")
        role = "bad" if wrong else "muted"
        line.show(wrapped(spelled(text, self._glyphs), self._width - LABEL_WIDTH, role))
        line.display = bool(text)

    def _taken(self, plan: Plan, repeat: int) -> list[Spans]:
        """Return the number of cases, their time and their memory."""
        count, found = len(plan.cases), estimate_of(self._state, plan, repeat)
        memory, role = memory_words(found, free_bytes(self._state, plan))
        facts = {
            "cases": (f"{count}{', more are added during the search' if plan.search else ''}", "text"),
            "time": (time_words(found, repeat), "text"),
            "memory": (memory, role),
        }
        lines: list[Spans] = []
        for label, (text, text_role) in facts.items():
            rows = wrapped(spelled(text, self._glyphs), self._width - LABEL_WIDTH, text_role)
            lines += labelled(label, rows, LABEL_WIDTH)
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
