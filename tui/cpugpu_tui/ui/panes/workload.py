"""The list of presets and workloads, with claim and parameters, and the time and memory that a plan needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from textual import on
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model.quantities import duration, size_text
from cpugpu_tui.session.request import PlanRequest
from cpugpu_tui.state.state import TelemetryState
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.live.messages import Report
from cpugpu_tui.ui.panes.lines import Lines, Spans, StatePane, labelled, respelled, spelled, visible, wrapped
from cpugpu_tui.ui.panes.paged_list import PagedList
from cpugpu_tui.workloads.presets import PRESETS

if TYPE_CHECKING:
    from cpugpu_tui.model import Device, GpuTelemetry, OwnCode, Plan
    from cpugpu_tui.session.estimate import Estimate

LONG_S = 100.0
"""Times from here are written in minutes."""


@lru_cache(maxsize=64)  # a plan of 9000 cases takes 65 ms to build, and each gap of a run redraws the pane
def plan_of(request: PlanRequest) -> Plan:
    """Return the plan of a request.

    Raises:
        UsageError: the request is invalid.
    """
    from cpugpu_tui.session.planning import build_plan  # not before the first frame

    return build_plan(request)


def estimate_of(state: AppState, plan: Plan, repeat: int) -> Estimate:
    """Estimate `repeat` runs of a plan from earlier runs and peak rates in the state."""
    from cpugpu_tui.session.estimate import NOTHING_EARLIER, estimate

    return estimate(plan, repeat, state.devices, state.earlier or NOTHING_EARLIER, state.own.ceilings)


def time_words(found: Estimate, repeats: int) -> str:
    """Return the expected time and its source: `about 9 s, …`."""
    if found.seconds is None:
        return f"unknown: {found.source}."
    text = seconds_text(found.seconds)
    times = f" for {repeats} runs" if repeats > 1 else ""
    if found.is_least and found.most_seconds is None:
        return f"at least {text}{times}: {found.source}."
    if found.is_least and found.most_seconds is not None:
        return f"{text} to {seconds_text(found.most_seconds)}{times}: {found.source}."
    return f"about {text}{times}, {found.source}."


def cases_words(plan: Plan) -> str:
    """Return the number of cases of a plan."""
    return f"{len(plan.cases)}{', more are added during the search' if plan.search else ''}"


def memory_words(found: Estimate, free_bytes: Mapping[str, float]) -> tuple[str, str]:
    """Return the memory that a plan needs per device, and the role of the text.

    `free_bytes` maps each device of the plan to its free memory.
    """
    case = found.memory_case
    if found.memory_bytes is None or case is None:
        return "unknown: its agent did not report it.", "text"
    most = f"{bytes_words(found.memory_bytes)} per device, at {case.workload} {size_text(case.size)}"
    short = {name: free for name, free in free_bytes.items() if free < found.memory_bytes}
    if short:
        name = min(short, key=lambda name: short[name])
        return f"{most}, but {name} has only {bytes_words(short[name])} free. Choose smaller sizes.", "warn"
    each = ", ".join(f"{bytes_words(free)} on {name}" for name, free in free_bytes.items())
    return f"{most}, estimated by the workload{f'; free: {each}' if each else ''}.", "text"


def free_bytes(state: AppState, plan: Plan) -> dict[str, float]:
    """Return the free memory of each device that a plan uses, if the newest reading has it. The CPU's is the host's."""
    from cpugpu_tui.session.estimate import devices_of

    used = devices_of(plan, state.devices) or ()
    found = {device.name: _free(device, state.own.telemetry) for device in used}
    return {name: free for name, free in found.items() if free is not None}


def _free(device: Device, telemetry: TelemetryState) -> float | None:
    read = telemetry.latest
    if read is None:
        return None
    gpu: GpuTelemetry | None = next((gpu for gpu in read.gpus if gpu.uuid and gpu.uuid == device.uuid), None)
    readings = read.host if device.is_cpu else gpu.readings if gpu is not None else {}
    used, total = readings.get("memory_used_bytes"), readings.get("memory_total_bytes")
    if used is None or total is None or used.value is None or total.value is None:
        return None
    return total.value - used.value


def seconds_text(seconds: float) -> str:
    """Format a duration: `0.4 s`, `42 s`, `12:05 min`."""
    if seconds < LONG_S:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{duration(seconds)} {'h' if seconds >= 3600 else 'min'}"


def bytes_words(count: float) -> str:
    """Format bytes in a suitable unit: `48 MiB`."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}" if count < 1000 * factor else f"{count / factor:.0f} {unit}"
    return f"{count:.0f} B"


LABEL_WIDTH = 9
"""Cells of a parameter's name."""
TOGETHER = ("dtype", "threads", "devices")
"""Parameters that share a line when the pane is low."""
TITLE_WIDTH = 18
"""Cells of the longest built-in name, before the summaries."""
NAMES_ONLY_WIDTH = 60
"""A pane narrower than this lists only names."""


class Entry(NamedTuple):
    """One line of the list."""

    request: PlanRequest
    """What `r` runs while this entry is highlighted."""
    summary: str
    claim: str = ""
    """The publication's claim."""

    @property
    def name(self) -> str:
        """Names as on the command line, joined by `+`."""
        return "+".join(self.request.names)

    @property
    def title(self) -> str:
        """The name as the list shows it: of typed code its text."""
        codes = self.request.own.codes
        return visible(codes[0].statement) if codes else self.name


def entries(asked: PlanRequest, *, presets_only: bool = False) -> dict[str, Entry]:
    """Return the entries of the list by name. A combination from the command line comes first.

    With `presets_only` the workloads, which come last, are left out unless the request needs them.
    """
    known = {preset.name: Entry(bare(asked)._replace(names=(preset.name,)), preset.summary, preset.claim)
             for preset in (*PRESETS.values(), *asked.own.presets)}  # fmt: skip
    name = "+".join(asked.names)
    for info in asked.own.infos().values() if not presets_only or name not in known else ():
        entry = Entry(bare(asked)._replace(names=(info.name,)), info.summary)
        known.setdefault(info.name, entry)
    if name in known:
        return {**known, name: known[name]._replace(request=asked)}
    return {name: Entry(asked, "as given on the command line"), **known}


def _about(code: OwnCode) -> str:
    """Return what the title of typed code leaves out."""
    setup = f"setup: {'; '.join(code.setup)}" if code.setup else "your own code"
    return visible("; ".join([setup, *(f"{name} = {value}" for name, value in code.lets)]))


def bare(asked: PlanRequest) -> PlanRequest:
    """Return the parts of a command line that apply to every entry: where to run, not what."""
    return PlanRequest(
        devices=asked.devices, threads=asked.threads, simulation=asked.simulation, gaps=asked.gaps,
        starts=asked.starts,
        own=asked.own._replace(codes=()),
    )  # fmt: skip


class WorkloadPane(Vertical):
    """The list, and the highlighted entry below or beside it."""

    class Highlighted(Report):
        """Another entry is highlighted: `request` is what `r` runs now."""

        request: PlanRequest

    class Opened(Report):
        """The person wants to change the parameters of an entry."""

        entry: Entry

    def __init__(self, glyphs: Glyphs, state: AppState, *, id: str | None = None) -> None:  # noqa: A002
        """Make an empty pane; `fill` puts the presets into it, and `complete` the rest."""
        super().__init__(id=id)
        self._entries: dict[str, Entry] = {}
        self._names_only: bool | None = None
        self._is_complete = False
        self._glyphs, self._state, self._asked = glyphs, state, state.request

    async def fill(self) -> None:
        """List the presets, highlight the entry from the command line and give the list the focus."""
        self._entries = entries(self._asked, presets_only=True)
        parameters = ParametersPane(self._glyphs, self._state, id="parameters")
        await self.mount(Lines(id="which"), PagedList(self._glyphs.cursor, *self._options(self._entries)), parameters)
        self.choose("+".join(self._asked.names))
        self.options.focus()

    def complete(self) -> None:
        """List the workloads, too, and show parameters: keys of the list need not wait for them."""
        more = {name: entry for name, entry in entries(self._asked).items() if name not in self._entries}
        self._entries |= more
        self.options.add_options(self._options(more))
        self._is_complete, self._names_only = True, None
        self.on_resize()
        self.show_state(self._state)

    def on_resize(self) -> None:
        """Show summaries beside the names if the pane is wide enough; a narrow one shows them below the list."""
        names_only = self.size.width < NAMES_ONLY_WIDTH
        if names_only == self._names_only or not self._entries:
            return
        self._names_only = names_only
        for index, entry in enumerate(self._entries.values()):
            about = "" if names_only else f" {spelled(entry.claim or entry.summary, self._glyphs)}"
            prompt = Content.assemble(f" {entry.title:<{TITLE_WIDTH}}", (about, "$foreground-muted"))
            self.options.replace_option_prompt_at_index(index, prompt)

    @property
    def options(self) -> OptionList:
        """The list."""
        return self.query_one(OptionList)

    @property
    def entry(self) -> Entry:
        """The highlighted entry."""
        return list(self._entries.values())[self.options.highlighted or 0]

    @property
    def summaries(self) -> list[tuple[str, str]]:
        """Name and summary of every entry."""
        return [(name, entry.summary) for name, entry in self._entries.items()]

    def choose(self, name: str) -> None:
        """Highlight the entry of this name."""
        self.options.highlighted = list(self._entries).index(name)

    def change(self, request: PlanRequest) -> None:
        """Give the highlighted entry other parameters."""
        name = self.entry.name
        self._entries[name] = self._entries[name]._replace(request=request)
        self.post_message(self.Highlighted(request))

    def highlight(self, request: PlanRequest) -> None:
        """Highlight the entry of a request and give it these parameters. Ignore a request that is not in the list."""
        name = "+".join(request.names)
        if name in self._entries:
            self.choose(name)
            self.change(request)

    def add(self, request: PlanRequest) -> None:
        """List typed code first, or give its entry this request, and highlight it."""
        name = "+".join(request.names)
        if name not in self._entries:
            self._entries = {name: Entry(request, _about(request.own.codes[0])), **self._entries}
            self.options.clear_options()
            self.options.add_options(self._options(self._entries))
            self._names_only = None
            self.on_resize()
        self.highlight(request)

    def show_state(self, state: AppState) -> None:
        """Show the parameters of the highlighted entry."""
        self._state = state
        if not self._is_complete:
            return
        self.query_one("#which", Lines).show([self._which(self.entry.name)])
        pane = self.query_one(ParametersPane)
        pane.entry = self.entry
        pane.show_state(state)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.post_message(self.Highlighted(self.entry.request))

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Opened(self.entry))

    def _options(self, listed: Mapping[str, Entry]) -> list[Option]:
        """Return entries as options, with names alone."""
        return [Option(f" {entry.title}") for entry in listed.values()]

    def _which(self, name: str) -> Spans:
        """Return the position of an entry, for layouts that show one line of the list."""
        return ((f"Workload {list(self._entries).index(name) + 1}/{len(self._entries)} ", "muted"),)


class ParametersPane(StatePane):
    """The highlighted entry: its summary, its claim and its parameters."""

    entry: Entry | None = None
    _estimated: tuple[tuple[object, ...], Mapping[str, str]] | None = None
    """Inputs and result of the last estimate."""

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the claim and the parameters."""
        if self.entry is None:
            return ()
        facts = self._facts(state, self.entry.request)
        return respelled(parameter_lines(self.entry, facts, size.width, size.height), self.glyphs)

    def _facts(self, state: AppState, request: PlanRequest) -> Mapping[str, str]:
        """Return parameters and estimate, cached because every gap of a run asks again."""
        inputs = (request, state.devices, id(state.earlier), state.own.ceilings)
        if self._estimated is None or self._estimated[0] != inputs:
            try:
                plan = plan_of(request)
            except UsageError as error:
                return {"": str(error)}
            found = estimate_of(state, plan, request.repeat)
            needs = {"time": time_words(found, request.repeat), "memory": memory_words(found, {})[0]}
            self._estimated = inputs, {**plan_facts(plan, request.repeat), **needs}
        return self._estimated[1]


def parameter_lines(entry: Entry, facts: Mapping[str, str], width: int, height: int) -> list[Spans]:
    """Return summary, claim and parameters; only the parameters if they do not fit into `height` lines."""
    about = wrapped(entry.summary, width)
    if entry.claim:
        about += [(), *wrapped(entry.claim, width, "muted")]
    whole = [*about, (), *_pairs(facts, width, lines=0)]
    pairs = _pairs(facts, width, lines=1)
    return whole if len(whole) <= height else pairs if len(pairs) <= height else _pairs(shortened(facts), width, 1)


def _pairs(facts: Mapping[str, str], width: int, lines: int) -> list[Spans]:
    """Return the lines of the facts: at most `lines` for each, unlimited if that is 0."""
    found: list[Spans] = []
    for label, text in facts.items():
        rows = wrapped(_brief(text, width - LABEL_WIDTH) if lines else text, width - LABEL_WIDTH, lines=lines)
        found += labelled(label, rows, LABEL_WIDTH)
    return found


def _brief(text: str, width: int) -> str:
    """Return the whole clauses of a fact that fit into one line: `about 9 s`. The form shows the rest."""
    ends = [found.start() for found in re.finditer("[,:;] ", text) if found.start() <= width]
    return text[: ends[-1]] if len(text) > width and ends else text


def shortened(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the facts in four lines: those of `TOGETHER` share one."""
    alone = {label: text for label, text in facts.items() if label not in TOGETHER}
    forms = {"threads": "{} CPU threads"}
    together = ", ".join(forms.get(name, "{}").format(facts[name]) for name in TOGETHER if name in facts)
    first, *others = alone.items()
    return dict([first, *([("on", together)] if together else []), *others])


def plan_facts(plan: Plan, repeat: int) -> Mapping[str, str]:
    """Return the parameters of a plan as label → text."""
    sizes = [case.size for case in plan.cases]
    low, high = size_text(min(sizes)), size_text(max(sizes))
    ends = low if low == high else f"{low} to {high}"
    cases = {"sizes": f"{ends}, chosen by the search"} if plan.search else {"cases": f"{len(sizes)}, size {ends}"}
    facts = {
        **cases,
        "dtype": ", ".join(dict.fromkeys(case.dtype for case in plan.cases)),
        "threads": ", ".join(dict.fromkeys(str(case.threads or "all") for case in plan.cases)),
        "devices": ", ".join(plan.devices),
    }  # fmt: skip
    if repeat > 1:
        facts["repeats"] = str(repeat)
    if plan.max_seconds:
        facts["at most"] = f"{plan.max_seconds:g} s"
    return facts
