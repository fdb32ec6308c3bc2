"""The telemetry page: histories of all GPUs with their processes, or every reading of one GPU or of the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll

from cpugpu_tui.model import Device, GpuTelemetry
from cpugpu_tui.state.state import TelemetryState
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs, trend_text
from cpugpu_tui.ui.panes.lines import Spans, labelled, sanitized, width_of, wrapped
from cpugpu_tui.ui.panes.telemetry import nothing_yet, wording
from cpugpu_tui.ui.panes.telemetry.facts import History, instance_text, is_with_reserve, link_problem
from cpugpu_tui.ui.panes.telemetry.wording import GPU, HOST, Quantity, Readings, known, linked, worded
from cpugpu_tui.ui.screens.gpu.overview import outside_instances, overview_lines, process_table
from cpugpu_tui.ui.screens.page import Page

ALL_PAGE, HOST_PAGE = "all", "host"
"""Names of the pages other than those of the GPUs, which are numbers."""


class GpuScreen(Page):
    """Has a page for all devices, one for each GPU, and one for the host."""

    BINDINGS: ClassVar[list[BindingType]] = [("tab,right", "turn(1)"), ("shift+tab,left", "turn(-1)")]

    TOPIC = "gpu"
    LEAVE_KEY = "{zoom}"

    def __init__(self, state: AppState, glyphs: Glyphs) -> None:
        """Start on the page of all GPUs, or on the host's without one."""
        super().__init__(state, glyphs)
        read = state.telemetry.latest
        self._page = ALL_PAGE if read is not None and read.gpus else HOST_PAGE

    def page_title(self) -> Spans:
        """Return the names of the pages, with the open one marked."""
        name = ("Telemetry ", "title")
        room = self.size.width - 2 - width_of((name, *self.page_tags()))
        return (name, *page_tabs(pages(self.state), self._page, room, self.glyphs))

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the open page, or a sentence if its GPU has disappeared."""
        glyphs, telemetry, devices = self.glyphs, self.state.telemetry, self.state.run.devices
        if telemetry.latest is None:
            return nothing_yet(self.state, width)
        if self._page == HOST_PAGE:
            return host_lines(telemetry, width, glyphs)
        if self._page == ALL_PAGE:
            return overview_lines(telemetry, devices, width, self.size.height - 2, glyphs)
        gpu = next((gpu for gpu in telemetry.latest.gpus if str(gpu.index) == self._page), None)
        if gpu is None:
            return [((f"GPU {self._page} has disappeared.", "warn"),)]
        name: Spans = ((f"GPU {gpu.index} ", "strong"), (sanitized(gpu.name, max(width - 8, 0), glyphs), "title"))
        return [name, *gpu_lines(gpu, telemetry, devices, width, glyphs)]

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of this page."""
        return (("{zoom}", "back"), ("tab", "next page"), ("shift+tab", "previous page"), ("j k g G", "scroll"))

    def action_turn(self, step: int) -> None:
        """Go to the next or previous page, in a circle."""
        there = pages(self.state)
        at = there.index(self._page) if self._page in there else 0
        self._page = there[(at + step) % len(there)]
        self.query_one("#page", VerticalScroll).scroll_home(animate=False)
        self.redraw()


def pages(state: AppState) -> list[str]:
    """Return the pages in order: all, each GPU by its NVML number, the host."""
    read = state.telemetry.latest
    return [ALL_PAGE, *(str(gpu.index) for gpu in (read.gpus if read is not None else ())), HOST_PAGE]


def page_tabs(there: Sequence[str], chosen: str, width: int, glyphs: Glyphs) -> Spans:
    """Return the names of the pages with a sign at the open one; only numbers if the names do not fit."""
    for form in ("GPU {}", "{}"):
        spans: list[tuple[str, str]] = []
        for page in there:
            text = form.format(page) if page not in (ALL_PAGE, HOST_PAGE) else page
            sign, role = (glyphs.cursor, "chosen") if page == chosen else (" ", "text")
            spans += [(sign, "key"), (text, role), (" ", "text")]
        if width_of(spans) <= width:
            break
    return tuple(spans)


LABEL_WIDTH, VALUE_WIDTH, AGE_WIDTH, TOP_WIDTH = 26, 13, 11, 12
"""Cells of a row: label, value, age, and the top of the history's range."""
TWO_COLUMNS_WIDTH = 150
"""Width from which there are two columns; a GPU then fits into 60 lines."""
GPM = ("sm_occupancy_pct", "tensor_active_pct", "dram_active_pct")
"""Readings that the app does not ask for, because they cost 0.7 ms a sweep."""
GAP = 4
"""Cells between the columns."""
MIG = (
    "MIG: torch sees each instance as a device. Power, temperature and clocks are those of the whole board. "
    "Memory and processes of each instance are listed below."
)
SLOW_LINK = "PCIe {}, under load: copies are slower than necessary. Check the slot and the riser."
SHARED = "Other processes use this GPU and slow every measurement on it. Wait until they end, or choose another GPU."
PERSISTENCE_OFF = (
    "persistence mode is off: the driver unloads when idle, and the next first call may wait seconds for it."
    " An administrator can enable it with `nvidia-smi -pm 1`."
)
UNCORRECTED = "ECC could not correct some memory errors: results may be wrong. Have this GPU checked."
WITH_RESERVE = "used memory includes the driver's reserve: this driver is too old to report it separately."
Section = list[Spans]


def gpu_lines(
    gpu: GpuTelemetry, state: TelemetryState, devices: Sequence[Device], width: int, glyphs: Glyphs
) -> list[Spans]:
    """Return identity, remarks, readings, MIG instances and processes of a GPU."""
    past = {key.partition("/")[2]: values for key, values in state.history.items()
            if key.startswith(f"gpu{gpu.index}/")}  # fmt: skip
    problem = state.latest.problem if state.latest is not None else None
    column = _column_width(width)
    sections = [_table(title, group, gpu.readings, past, column, glyphs) for title, group in wording.GPU_GROUPS.items()]
    sections.append(_instances(gpu, devices, column, glyphs))
    lines = [*_identity(gpu, devices, width, glyphs), *_sentence(problem, "!", "warn", width, glyphs)]
    lines += [*_remarks(gpu, past, width, glyphs), ()]
    lines += [*_in_columns([section for section in sections if section], width), ()]
    return [*lines, *outside_instances(gpu, width, glyphs)]


def host_lines(state: TelemetryState, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return every reading of the host."""
    if state.latest is None:
        return []
    past = {key.partition("/")[2]: values for key, values in state.history.items() if key.startswith("host/")}
    shown = {key: quantity for key, quantity in HOST.items() if key in state.latest.host}
    table = _table("Host", shown, state.latest.host, past, _column_width(width), glyphs, "cpu")
    return [*_sentence(state.latest.problem, "!", "warn", width, glyphs), *table]


def _column_width(width: int) -> int:
    return (width - GAP) // 2 if width >= TWO_COLUMNS_WIDTH else width


# ------------------------------------------------------------------ identity and remarks


def _identity(gpu: GpuTelemetry, devices: Sequence[Device], width: int, glyphs: Glyphs) -> Section:
    """Return all names of a GPU; torch's name is known once a run has found its devices."""
    lines = wrapped(linked(wording.mapping(gpu, devices, glyphs, full=True), glyphs), width, "strong")
    if not wording.torch_names(gpu, devices):
        why = "the shown run does not use this GPU" if devices else "known once a run has found its devices"
        lines += wrapped(f"torch's number: {why}.", width, "muted")
    return lines


def _remarks(gpu: GpuTelemetry, past: History, width: int, glyphs: Glyphs) -> Section:
    """Return what disturbs measurements, the worst first."""
    slow = link_problem(gpu.readings, past.get("kernel_active_pct", ()), glyphs)
    is_shared = any(not process.own for process in gpu.everyone or ())
    found = [(gpu.problem, "!", "warn")]
    for throttle in wording.throttles(gpu):
        now = "" if throttle.is_now else " (not now)"
        text = f"{throttle.text()}{now}: {wording.MEANINGS.get(throttle.word, wording.NAMELESS)}"
        found.append((text, wording.sign_of((throttle,), glyphs), throttle.role))
    found += [
        (SLOW_LINK.format(slow) if slow else "", "!", "warn"),
        (SHARED if is_shared else "", "!", "warn"),
        (UNCORRECTED if known(gpu.readings, "ecc_uncorrected_count") else "", "!!", "bad"),
        (PERSISTENCE_OFF if gpu.persistence is False else "", "!", "warn"),
        (MIG if gpu.instances else "", "", "text"),
        (WITH_RESERVE if is_with_reserve(gpu.readings) else "", "", "text"),
        *((f"{word}: {wording.MEANINGS[word]}", "", "muted") for word in wording.quiet_words(gpu)),
    ]
    return [line for text, sign, role in found for line in _sentence(text, sign, role, width, glyphs)]


def _sentence(text: str | None, sign: str, role: str, width: int, glyphs: Glyphs) -> Section:
    return wrapped(f"{sign} {sanitized(text, 400, glyphs)}".strip(), width, role) if text else []


# ------------------------------------------------------------------ readings


def _table(
    title: str, shown: Mapping[str, Quantity], readings: Readings, past: History, width: int, glyphs: Glyphs,
    series: str = "gpu",
) -> Section:  # fmt: skip
    """Return a heading and a line for each quantity; `series` is the role of the histories."""
    rows = [_row(key, quantity, readings, past, width, glyphs, series) for key, quantity in shown.items()]
    return [((title, "strong"),), *rows]


def _row(
    key: str, quantity: Quantity, readings: Readings, past: History, width: int, glyphs: Glyphs, series: str
) -> Spans:
    """Return label, value, age and history of a reading, or why it has no value."""
    reading = readings.get(key)
    label = (f"  {quantity.label:<{LABEL_WIDTH - 2}}", "muted")
    told = worded(quantity, reading, glyphs.none)
    role = told.role
    if told.value is None:
        reason = told.text
        if reading is not None and reading.reason == "not-asked" and key in GPM:
            reason = f"{glyphs.none} read by `cpugpu-tui telemetry --gpm`"
        # Align the dash with the numbers if the reason then fits, but keep one cell to the label.
        indent = max(1, min(VALUE_WIDTH - 1, width - LABEL_WIDTH - len(reason)))
        return (label, (" " * indent, "text"), (sanitized(reason, width - LABEL_WIDTH - indent, glyphs), role))
    age = f"  {wording.age_text(quantity, reading):<{AGE_WIDTH - 2}}"
    number: Spans = (label, (f"{told.text:>{VALUE_WIDTH}}", role), (age, role if role == "stale" else "muted"))
    top = wording.top_of(quantity, readings)
    bars = width - width_of(number) - TOP_WIDTH - 1
    if top is None or bars < 4:
        return number
    drawn = trend_text(past.get(key, ()), bars, 0, top, glyphs)
    return (*number, (" ", "text"), (drawn, series), (f" to {quantity.text(top)}"[:TOP_WIDTH], "muted"))


def _in_columns(sections: Sequence[Section], width: int) -> list[Spans]:
    """Return the sections in one column, or in two of similar height if `width` allows."""
    if width < TWO_COLUMNS_WIDTH:
        return _stacked(sections)
    heights = [len(section) + 1 for section in sections]
    split = min(range(1, len(sections)), key=lambda at: max(sum(heights[:at]), sum(heights[at:])), default=1)
    left, right = _stacked(sections[:split]), _stacked(sections[split:])
    column = _column_width(width) + GAP
    height = max(len(left), len(right))
    left += [()] * (height - len(left))
    right += [()] * (height - len(right))
    return [
        (*first, (" " * (column - width_of(first)), "text"), *second) if second else first
        for first, second in zip(left, right, strict=True)
    ]


def _stacked(sections: Sequence[Section]) -> list[Spans]:
    lines: list[Spans] = []
    for section in sections:
        lines += [(), *section] if lines else section
    return lines


# ------------------------------------------------------------------ MIG instances and processes


def _instances(gpu: GpuTelemetry, devices: Sequence[Device], width: int, glyphs: Glyphs) -> Section:
    """Return the MIG instances of a GPU, each with its names and processes."""
    if not gpu.instances:
        return []
    lines: Section = [(("MIG instances", "strong"),)]
    for instance in gpu.instances:
        used = instance.readings.get("memory_used_bytes")
        is_stale = used is not None and GPU["memory_used_bytes"].is_stale(used)
        text = instance_text(gpu, instance, devices, width - 2, glyphs, full=True)
        lines.append(((f"  {text}"[:width], "stale" if is_stale else "text"),))
        names = linked(wording.mapping(gpu, devices, glyphs, instance=instance, full=True), glyphs)
        lines += labelled("", wrapped(names, width - 4, "muted"), 4, "text")
        if instance.processes:
            rows = [("", process) for process in instance.processes]
            lines += [(("  ", "text"), *line) for line in process_table(rows, width - 2, glyphs)]
    return lines
