"""The parameters of a workload, edited with validation under each field."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input

from cpugpu_tui.errors import UsageError
from cpugpu_tui.runs.planning import FieldError, PlanRequest, build_plan
from cpugpu_tui.ui.panes.lines import Lines, wrapped
from cpugpu_tui.ui.panes.workload import Entry
from cpugpu_tui.ui.roles import ROLE_CLASSES

LABEL_WIDTH = 13
"""Cells left of the fields, as in `app.tcss`."""

FIELDS: dict[str, tuple[str, str]] = {
    "sizes": ("sizes", "like 16,32,64 or 1:10000:50 (start:stop:step)"),
    "dtype": ("dtype", "float32, tf32, float64, bfloat16 or float16"),
    "threads": ("CPU threads", "all, or numbers separated by commas"),
    "devices": ("devices", "auto, cpu, cuda, cuda:1, separated by commas"),
    "repeat": ("repeats", "runs of one series"),
    "rounds": ("rounds", "per case; empty: 8 to 40, until the interval is narrow"),
    "max_seconds": ("at most", "seconds for the whole run"),
    "scale": ("scale", "full, or small: seconds instead of minutes"),
}
"""Field of `PlanRequest` → label and hint."""


def placeholders(request: PlanRequest) -> dict[str, str]:
    """Return what an empty field stands for."""
    plan = build_plan(PlanRequest(request.names, own=request.own))
    sizes = list(dict.fromkeys(str(case.size) for case in plan.cases))
    shown = sizes if len(sizes) <= 8 else [*sizes[:3], "...", sizes[-1]]
    return {
        "sizes": ",".join(shown),
        "dtype": ", ".join(dict.fromkeys(case.dtype for case in plan.cases)),
        "threads": ", ".join(dict.fromkeys(str(case.threads or "all") for case in plan.cases)),
        "devices": "auto",
        "repeat": "1",
        "rounds": f"{plan.rounds} to {plan.max_rounds}",
        "max_seconds": "no limit",
        "scale": "full",
    }


def texts_of(request: PlanRequest) -> dict[str, str]:
    """Return the fields of a request as a person types them."""
    return {
        "sizes": request.sizes or "",
        "dtype": request.dtype or "",
        "threads": request.threads or "",
        "devices": ",".join(request.devices),
        "repeat": str(request.repeat),
        "rounds": str(request.rounds or ""),
        "max_seconds": f"{request.max_seconds:g}" if request.max_seconds else "",
        "scale": request.scale,
    }


def request_from(texts: dict[str, str], base: PlanRequest) -> PlanRequest:
    """Return the request that the texts of the fields say, checked by making its plan.

    Raises:
        FieldError: a field has a wrong value; `.field` names it.
    """
    typed = {name: text.strip() for name, text in texts.items()}
    request = replace(
        base,
        sizes=typed["sizes"] or None,
        dtype=typed["dtype"] or None,
        threads=typed["threads"] or None,
        devices=tuple(part.strip() for part in (typed["devices"] or "auto").split(",")),
        repeat=_whole("repeat", typed["repeat"]) or 1,
        rounds=_whole("rounds", typed["rounds"]),
        max_seconds=_seconds("max_seconds", typed["max_seconds"]),
        scale=typed["scale"] or "full",
    )
    build_plan(request)
    return request


def _whole(field: str, text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise FieldError(field, f"{text!r} is no count.", "Write a whole number from 1 on.")
    count = int(text)
    if count < 1:
        raise FieldError(field, "0 is no count.", "Write a whole number from 1 on.")
    return count


def _seconds(field: str, text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise FieldError(field, f"{text!r} is no time.", "Write seconds, like 20 or 1.5.") from None


class WorkloadForm(ModalScreen[PlanRequest | None]):
    """Returns the changed request, or None if the person went back."""

    COMPONENT_CLASSES: ClassVar[set[str]] = ROLE_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, entry: Entry) -> None:
        """Edit this entry's request."""
        super().__init__()
        self._entry = entry

    def compose(self) -> ComposeResult:
        """Yield one line per field, each with a line for its hint or what is wrong."""
        with VerticalScroll(id="box", can_focus=False):
            yield Lines(id="about")
            empty = placeholders(self._entry.request)
            for name, text in texts_of(self._entry.request).items():
                with Horizontal(classes="field"):
                    label = Lines(classes="label")
                    label.show([((FIELDS[name][0], "strong"),)])
                    yield label
                    field = Input(text, placeholder=empty[name], id=name, compact=True)
                    field.cursor_blink = False
                    yield field
                yield Lines(id=f"{name}-hint", classes="hint")
            yield Lines(id="outcome")

    def on_mount(self) -> None:
        """Say what is edited."""
        self.query_one("#box").border_title = self._entry.name
        self.query_one("#sizes").focus()

    def on_resize(self) -> None:
        """Wrap the description for the width."""
        entry = self._entry
        width = max(20, self.query_one("#box").content_size.width - 1)
        about = [*wrapped(entry.summary, width), *wrapped(entry.claim, width, "muted")]
        self.query_one("#about", Lines).show(about)
        self._check()

    def _texts(self) -> dict[str, str]:
        return {name: self.query_one(f"#{name}", Input).value for name in FIELDS}

    def _check(self) -> PlanRequest | None:
        """Show what is wrong, or what would run; return the request if nothing is wrong."""
        request, wrong = None, {}
        try:
            request = request_from(self._texts(), self._entry.request)
            count = len(build_plan(request).cases)
            said = f"{count} case{'' if count == 1 else 's'}."
        except FieldError as error:
            wrong[error.field], said = str(error), ""
        except UsageError as error:
            said = str(error)
        for name, (_, hint) in FIELDS.items():
            text, role = (wrong[name], "bad") if name in wrong else (hint, "muted")
            lines = wrapped(text, self.query_one("#box").content_size.width - LABEL_WIDTH - 1, role)
            self.query_one(f"#{name}-hint", Lines).show(lines)
        other = [text for name, text in wrong.items() if name not in FIELDS]
        keys = (("enter", "key"), (" use these  ", "text"), ("esc", "key"), (" as they were  ", "text"))
        self.query_one("#outcome", Lines).show([(*keys, (" ".join([*other, said]), "muted"))])
        return request

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._check()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        request = self._check()
        if request is not None:
            self.dismiss(request)

    def action_cancel(self) -> None:
        """Close without changing anything."""
        self.dismiss(None)
