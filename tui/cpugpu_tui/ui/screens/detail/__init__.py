"""The page with everything known of one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cpugpu_tui.compare.changes import Changes
from cpugpu_tui.model import RECORDED
from cpugpu_tui.model.quantities import count_of, factor, joined
from cpugpu_tui.render.crossover_words import WITHIN_START, ends_text
from cpugpu_tui.render.receipts import code_text, compiled_lines, line_words, profiled_words, receipt_lines, slow_lines
from cpugpu_tui.render.verdicts import all_marks, crowded_threads, mark_words
from cpugpu_tui.report.report import judged
from cpugpu_tui.state.row import UNSAVED, Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.keys import DEFAULT_KEYMAP, Keymap
from cpugpu_tui.ui.panes.change_cells import change_lines
from cpugpu_tui.ui.panes.lines import Spans, paragraph, spelled, visible, wrapped
from cpugpu_tui.ui.panes.status import run_name
from cpugpu_tui.ui.rows import NOT_SAVED, case_text
from cpugpu_tui.ui.screens import machine
from cpugpu_tui.ui.screens.detail import device_times, meaning
from cpugpu_tui.ui.screens.page import Page

MOST_SHOWN = 5
"""Most lines of code for each device."""


def own_code_lines(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return the code of a row, its receipt and its slowest lines; empty for a workload that nobody typed."""
    text = next((code_text(code) for code in run.plan.codes if code.name == row.case.workload), "")
    lines = wrapped(visible(text), width, "muted") if text else []
    for index, line in enumerate(receipt_lines(row)):
        lines += [] if index else [(("Where it ran", "title"),)]
        lines += paragraph(spelled(line, glyphs), width)
    for profiled in slow_lines(row):
        lines += [(), ((spelled(f"Slowest lines on {profiled.device}", glyphs), "title"),)]
        for cost in profiled.lines[:MOST_SHOWN]:
            lines += paragraph(spelled(line_words(cost, profiled.device), glyphs), width)
        lines += paragraph(spelled(f"P{profiled_words(profiled)[1:]}.", glyphs), width, "muted")
    return lines


def _compiled(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    lines = [line for text in compiled_lines(run, row) for line in paragraph(spelled(text, glyphs), width)]
    return [(("Compiled by torch.compile", "title"),), *lines] if lines else []


TIMED_ONCE = (
    "One call takes longer than the time budget, so it was timed once and has no ± value. "
    "Choose smaller sizes to get one."
)


WAITS = "the row is kept in memory, and saving is retried"


class DetailScreen(Page):
    """One row; it follows the run, and stays as it was once another run without this row has begun, as in the demo."""

    TOPIC = "detail"

    def __init__(self, state: AppState, key: str, glyphs: Glyphs) -> None:
        super().__init__(state, glyphs)
        self._key = key
        self._run = state.run

    def _followed(self) -> tuple[RunState, Row | None]:
        if self._key in self.state.run.rows:
            self._run = self.state.run
        return self._run, self._run.rows.get(self._key)

    def page_title(self) -> Spans:
        """Return the case and its verdict."""
        run, row = self._followed()
        if row is None:
            return ((f"{self._key} ", "title"), (" is not part of this run", "muted"))
        case = replace(row.case, workload=run_name(run, row.case.workload, self.glyphs))
        name = case_text(case, frozenset({"variant"}))
        others = case_text(case, frozenset({"variant", "dtype", "threads"})).removeprefix(name)
        look = rows.look_of(run, self.glyphs, 9)
        earlier = "" if run is self.state.run else " of the run before"
        return ((f"{name} ", "title"), (" ", "text"), *rows.verdict(run, row, look), (f" {others}{earlier}", "muted"))

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the details of the row."""
        run, row = self._followed()
        if row is None:
            return ()
        changes = self.state.changes if self.state.past is None else None
        return detail_lines(row, run, width, self.glyphs, self.state.keymap, changes)


def detail_lines(
    row: Row, run: RunState, width: int, glyphs: Glyphs, keymap: Keymap = DEFAULT_KEYMAP, changes: Changes | None = None
) -> list[Spans]:
    """Return the details of a row: verdict, where the time goes, what if, then each device."""
    typed = own_code_lines(run, row, width, glyphs)
    unsaved = [] if row.saved else wrapped(f"{NOT_SAVED} {UNSAVED}: {WAITS}", width, "warn")
    # The device's part has the details.
    lacks_winner = row.is_starved and len(row.times) > 1
    starved = wrapped("No winner: threads waited for a free core.", width, "warn") if lacks_winner else []
    parts = [_failed(row, width), unsaved, starved, _compared(run, row, width, glyphs),
             _less_certain(run, row, width), [] if changes is None else change_lines(changes, run, row, width),
             machine.gpus_lines(run, row, width, glyphs), machine.peers_lines(run, row, width), typed,
             _compiled(run, row, width, glyphs),
             meaning.breakdown_lines(run, row, width, glyphs), meaning.world_lines(run, row, width, glyphs),
             *_devices(run, row, width, glyphs), _checked(row, width), _environment(run, width)]  # fmt: skip
    lines: list[Spans] = []
    for part in parts:
        if part is not typed:  # source code may hold {braces} of its own
            part = [tuple((spelled(keymap.with_keys(text), glyphs), role) for text, role in line) for line in part]
        lines += [(), *part] if lines and part else part
    return lines


def _failed(row: Row, width: int) -> list[Spans]:
    if row.failure is None:
        return []
    role = "muted" if row.failure.kind == "skipped" else "bad"
    return [*wrapped(row.failure.message, width, role), *wrapped(row.failure.remedy, width)]


def _less_certain(run: RunState, row: Row, width: int) -> list[Spans]:
    """Return the marks behind the sign `~` of the table."""
    devices: dict[str, list[str]] = {}
    for times in row.times.values():
        for mark in all_marks(row, times):
            devices.setdefault(mark, []).append(times.device)
    crowded = crowded_threads(run, row)
    lines: list[Spans] = []
    for mark, names in devices.items():
        where = "" if RECORDED in names else f"on {joined(names)}, "
        lines += wrapped(f"~ less certain: {where}{mark_words(mark)}", width, "warn")
    return [*lines, *(wrapped(f"{crowded}.", width, "warn") if crowded else [])]


def _compared(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    found = judged(run, row)
    comparison = found.comparison
    if comparison is None:
        return []
    which = f" of {row.gpu.device}" if row.gpu is not None and len(row.gpus) > 1 else ""
    text = f"speedup{which} {factor(comparison.speedup)}"
    if comparison.low is not None and comparison.high is not None:
        # Equal digits: three of 11.04 would lie outside of 11.01 to 11.06.
        digits = [f"{value:#.4g}".rstrip(".") + "×" for value in (comparison.speedup, comparison.low, comparison.high)]
        about = "" if comparison.covers_starts else f" {WITHIN_START}"
        text = f"speedup{which} {digits[0]}, 95 % interval {digits[1]} to {digits[2]}{about}"
        if comparison.within_low is not None and comparison.within_high is not None:
            text += f" ({WITHIN_START} {ends_text(comparison.within_low, comparison.within_high)})"
    starts = f" in {comparison.starts} starts" if comparison.starts > 1 else ""
    text += f", from {count_of(comparison.rounds, 'round')}{starts}: {meaning.winner_sentence(found)}"
    calibrations = [times.calibrated for times in row.times.values() if times.calibrated is not None]
    is_once = any(each.rounds == each.calls_per_block == 1 for each in calibrations)
    once = wrapped(TIMED_ONCE, width, "warn") if is_once else []
    return [*wrapped(spelled(text, glyphs), width, "strong"), *once, *meaning.moved_lines(run, row, width, glyphs)]


def _devices(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[list[Spans]]:
    """Return a part for each timed device."""
    found = []
    for device in run.devices:
        times = row.times.get(device.name)
        if times is not None:
            lines = device_times.times_lines(run, row, device, times, width, glyphs)
            if row.status != "mismatch":
                lines += meaning.hardware_lines(run, row, times, width)
                lines += machine.machine_lines(run, row, times, width, glyphs)
                lines += device_times.placed_lines(times, width)
                lines += [*meaning.written_lines(run, row, times, width, glyphs), *meaning.training_lines(times, width)]
            found.append(lines)
    return found


def _checked(row: Row, width: int) -> list[Spans]:
    check = row.check
    if check is None:
        return wrapped("Results: not compared in this row.", width, "muted") if row.status == "ok" else []
    text = f"Results: error {check.error:.2g} against {check.against}, allowed {check.tolerance:.2g}."
    return wrapped(text, width, "text")


def _environment(run: RunState, width: int) -> list[Spans]:
    """Return host, versions and unusual settings of the run."""
    facts, worker = run.facts, run.facts.get("worker")
    parts = [
        f"run {run.run.number}" if run.run is not None and run.run.number is not None else "not saved",
        *(str(facts[name]) for name in ("hostname", "cpu") if facts.get(name)),
        *(f"{name} {facts[name]}" for name in ("torch", "python", "version") if facts.get(name)),
        f"worker {worker}" if worker else "",
        "SIMULATED" if run.simulated else "",
    ]
    tf32 = f"TF32 {'on' if facts.get('tf32_matmul') else 'off'}"
    if precision := facts.get("matmul_precision"):
        parts.append(f"float32 products {precision}, {tf32}")
    elif facts.get("tf32_matmul"):
        parts.append(tf32)
    if run.plan.cache != "cold":
        parts.append(f"caches {run.plan.cache}")
    return wrapped("Environment: " + ", ".join(part for part in parts if part), width, "muted")
