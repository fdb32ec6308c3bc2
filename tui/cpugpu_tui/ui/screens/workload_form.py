"""The form for a workload's parameters: fields, errors, and an estimate of time and memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from textual.widget import Widget

from cpugpu_tui.config.parsing import DTYPE_ALIASES, FieldError, full_dtype
from cpugpu_tui.config.sizes import sizes_text
from cpugpu_tui.errors import UsageError
from cpugpu_tui.machine.procfs import default_threads
from cpugpu_tui.model import COMPILED, DTYPES, WorkloadInfo
from cpugpu_tui.session.planning import PlanRequest, find_preset
from cpugpu_tui.session.request import usual_starts
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes import workload
from cpugpu_tui.ui.panes.fields import Choice, DeviceChoice, LineField
from cpugpu_tui.ui.panes.lines import Lines, Spans, spelled, wrapped
from cpugpu_tui.ui.panes.workload import Entry, plan_of
from cpugpu_tui.ui.screens.form import Form

DEVICES = "devices"
"""The field with a list of devices."""


def _text(_: str, text: str) -> str | None:
    return text or None


def _whole(field: str, text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) < 1:
        usual = " or auto" if field == "rounds" else ""
        remedy = f"Enter a positive integer{usual}." if len(text) <= 9 else "Enter at most 9 digits."
        raise FieldError(field, f"Invalid number {text!r}.", remedy)
    return int(text)


def _seconds(field: str, text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise FieldError(field, f"Invalid time {text!r}.", "Enter seconds, for example 20, or none.") from None


Parse = Callable[[str, str], Any]
"""(field, text, empty for the default) → value of the request. Raises FieldError."""

FIELDS: dict[str, tuple[str, str, Parse]] = {
    "sizes": ("sizes", "16,32,64, or 16:4096 to search, or 16:4096:16 in steps of 16", _text),
    "dtype": ("dtype", "left and right choose, or type a name such as bf16 or half", _text),
    "variant": ("variant", "ways to write the same work; left and right choose", _text),
    "threads": ("CPU threads", "left and right choose, or type a number; 1,all times both", _text),
    DEVICES: ("devices", "up and down move, space chooses", lambda _, text: tuple((text or "auto").split(","))),
    "repeat": ("repeats", "runs in one series", lambda field, text: _whole(field, text) or 1),
    "starts": ("starts", "processes that time it in turn: times differ from start to start",
               lambda field, text: _whole(field, text) or 1),
    "rounds": ("rounds", "auto: {rounds}, until ± is small; or an exact number", _whole),
    "max_seconds": ("time limit", "seconds for all runs of the series, or none", _seconds),
    "scale": ("scale", "small ends in seconds instead of minutes", lambda _, text: text or "full"),
}  # fmt: skip
"""Field of `PlanRequest` → label, hint, and how its text is read."""

CHOICES = ("dtype", "variant", "threads", "scale")
"""Fields with a `Choice`."""


class Filled(NamedTuple):
    """What the form returns."""

    request: PlanRequest | None
    """None if a field has an error."""
    texts: Mapping[str, str]
    """Field → text."""
    error: str = ""
    starts: bool = False
    """Whether to run it now."""


def default_texts(request: PlanRequest) -> dict[str, str]:
    """Return field → the text that stands for the default, as it is without any choice of a person."""
    # Typed code has no sizes of its own.
    sizes = request.sizes if request.own.codes else None
    plan, known = plan_of(PlanRequest(request.names, sizes, own=request.own)), request.own.infos()
    # A person's sizes are for the workloads with the first one's axis.
    first = [case.size for case in plan.cases if known[case.workload].axis == known[plan.cases[0].workload].axis]
    each = list(dict.fromkeys(first))
    variants = tuple(dict.fromkeys(case.variant for case in plan.cases))
    is_every = len(variants) > 1 and set(variants) == set(variants_of(request))
    return {
        "sizes": sizes or (f"{min(each)}:{max(each)}" if plan.search else sizes_text(each)),
        "dtype": ",".join(dict.fromkeys(case.dtype for case in plan.cases)),
        "variant": f"all {len(variants)}" if is_every else ",".join(variants),
        "threads": ",".join(dict.fromkeys(str(case.threads or "all") for case in plan.cases)),
        DEVICES: "auto",
        "repeat": "1",
        "starts": str(usual_starts(os.environ)),
        "rounds": "auto",
        "max_seconds": "none",
        "scale": "full",
    }


def variants_of(request: PlanRequest) -> tuple[str, ...]:
    """Return the variants of all workloads of a request."""
    return tuple(dict.fromkeys(variant for info in _workloads(request) for variant in info.variants))


def _workloads(request: PlanRequest) -> list[WorkloadInfo]:
    known = request.own.infos()
    return [known[part.workload] for name in request.names for part in find_preset(name, request.own, known).parts]


def options_of(request: PlanRequest, cores: int) -> dict[str, tuple[str, ...]]:
    """Return the words of each `Choice`, for a CPU with so many cores."""
    supported = [name for name in DTYPES if all(name in info.dtypes for info in _workloads(request))]
    defaults, variants = default_texts(request), variants_of(request)
    usual = defaults["variant"]
    # Side by side, they tell after how many calls compiling pays.
    both = [f"{usual},{COMPILED}"] if COMPILED in variants and usual in variants and usual != COMPILED else []
    threads = ["all", *(str(2**power) for power in range(12) if 2**power < cores), "1,all"]
    words = {"dtype": supported, "variant": (*variants, *both), "threads": threads, "scale": ("full", "small")}
    # The default first, if it is none of them.
    return {name: tuple(dict.fromkeys((*({defaults[name]} - set(each)), *each))) for name, each in words.items()}


def texts_of(request: PlanRequest) -> dict[str, str]:
    """Return field → text: what was asked for, else the default."""
    asked = {name: str(getattr(request, name) or "") for name in FIELDS}
    asked["max_seconds"] = f"{request.max_seconds:g}" if request.max_seconds else ""
    asked["dtype"] = full_dtype(asked["dtype"])
    asked[DEVICES] = ",".join(request.devices)
    return {name: asked[name] or default for name, default in default_texts(request).items()}


def request_from(texts: Mapping[str, str], base: PlanRequest) -> PlanRequest:
    """Return the request of the fields. Counts and times are checked here, the rest when it is planned.

    An empty field and the text of the default both stand for the default.

    Raises:
        FieldError: a field has a wrong value; `.field` names it.
    """
    before, defaults = texts_of(base), default_texts(base)
    del defaults["starts"]  # the usual number is that of this machine, not that of a request
    values: dict[str, Any] = {}
    for name, (_, _, parse) in FIELDS.items():
        typed = texts[name].strip()
        value = parse(name, "" if typed == defaults.get(name) else typed)
        if typed != before[name]:  # a field that is as it was keeps its value, even if that looks like the default
            values[name] = value
    return base._replace(**values)


class WorkloadForm(Form[Filled | None]):
    """Returns the changed request, or None if the changes were dropped."""

    def __init__(self, entry: Entry, state: AppState, glyphs: Glyphs, draft: Mapping[str, str] | None = None) -> None:
        """Edit this entry's request, or what was typed for it before; the state has devices and facts."""
        request, threads = entry.request, state.environment.get("threads")
        # Those of this machine before an agent has reported its own number.
        options = options_of(request, threads if isinstance(threads, int) else default_threads())
        # Without a choice there is nothing to ask.
        labels = {name: label for name, (label, *_) in FIELDS.items() if len(options.get(name, (0, 0))) > 1}
        super().__init__(entry.name, labels, state, glyphs)
        self._entry, self._options = entry, options
        self._first = dict(draft or texts_of(request))
        self._wrong: Mapping[str, str] = {}
        """Field → its error."""
        plan = plan_of(PlanRequest(request.names, request.sizes if request.own.codes else None, own=request.own))
        rounds = f"{plan.rounds} to {plan.max_rounds}"
        self._hints = {name: hint.replace("{rounds}", rounds) for name, (_, hint, _) in FIELDS.items()}

    def make_field(self, name: str) -> Iterator[Widget]:
        """Yield a chooser or a line."""
        text = self._first[name]
        if name == DEVICES:
            yield DeviceChoice(tuple(text.split(",")), self._state, self._glyphs, id=DEVICES)
        elif name in CHOICES:
            yield Choice(text, self._options[name], DTYPE_ALIASES if name == "dtype" else None, id=name)
        else:
            default = default_texts(self._entry.request)[name]
            # Sizes are continued more often than replaced; a digit after `none` would be wrong.
            yield LineField(text, placeholder=default, id=name, select_on_focus=name != "sizes")

    def show_state(self, state: AppState) -> None:
        """Show newer devices and estimates."""
        if self.is_shown:
            self.query_one(DeviceChoice).show_state(state)
        super().show_state(state)

    def check(self) -> Filled:
        """Show the error or the estimate; return what is typed."""
        texts = {**self._first, **self.texts()}
        try:
            request = request_from(texts, self._entry.request)
            plan = plan_of(request)
        except UsageError as error:
            field = error.field if isinstance(error, FieldError) and error.field in self._labels else ""
            self._show({field: str(error)} if field else {}, [] if field else wrapped(str(error), self.width, "bad"))
            return Filled(None, texts, str(error))
        found = workload.estimate_of(self._state, plan, request.repeat)
        self._show({}, self.fact_lines({
            "cases": (workload.cases_words(plan), "text"),
            "time": (workload.time_words(found, request.repeat), "text"),
            "memory": workload.memory_words(found, workload.free_bytes(self._state, plan)),
        }))  # fmt: skip
        return Filled(request, texts)

    def _show(self, wrong: Mapping[str, str], lines: Sequence[Spans]) -> None:
        self._wrong = wrong
        if not self.is_shown:
            return
        # A short terminal has room for the fields only.
        summary, claim = (
            wrapped(spelled(text, self._glyphs), self.width, role) if self.size.height >= least else []
            for text, role, least in ((self._entry.summary, "text", 16), (self._entry.claim, "muted", 30))
        )
        self.query_one("#about", Lines).show_any([*summary, *claim])
        self.show_hints(self._hints, wrong)
        does = "run" if self._state.situation.may_start else "keep"
        keys = {"enter": does, "esc": "close, keep changes", "tab": "next", "ctrl+c": "cancel", "ctrl+u": "clear"}
        self.show_outcome(lines, keys)

    def submit(self) -> None:
        """Close and run, or keep the changes while nothing can be run."""
        filled = self.check()
        if filled.request is not None:
            self.dismiss(filled._replace(starts=self._state.situation.may_start))
        for name in self._wrong:
            self.field(name).focus()  # it may be out of sight

    def action_leave(self) -> None:
        """Close and keep what was typed."""
        self.dismiss(self.check())
