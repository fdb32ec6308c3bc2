"""Everything known of one row."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.analysis.quantities import US, percent, significant, time_text
from cpugpu_tui.analysis.stats import median, percentile
from cpugpu_tui.analysis.verdict import CPU_WINS, GPU_WINS, TIE, TOO_FEW, UNDECIDED
from cpugpu_tui.model import (
    AS_WRITTEN,
    COLD_START,
    DEVICE,
    LATENCY,
    PAGEABLE,
    PINNED,
    SINGLE,
    SYNCED,
    THROUGHPUT,
    Device,
)
from cpugpu_tui.runs.insight import MARK_WORDS
from cpugpu_tui.runs.state import DeviceTimes, Row, RunState
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.glyphs import Glyphs, trend_text
from cpugpu_tui.ui.panes.lines import wrapped
from cpugpu_tui.ui.picture import Picture
from cpugpu_tui.ui.roles import Spans
from cpugpu_tui.ui.screens.meaning import hardware_lines, moved_lines, training_lines, written_lines
from cpugpu_tui.ui.screens.page import Page

METRIC_WORDS = {
    LATENCY: "latency",
    DEVICE: "device",
    THROUGHPUT: "throughput",
    PAGEABLE: "end to end",
    PINNED: "same, pinned",
    AS_WRITTEN: "as written",
    SYNCED: "same, waited for",
    COLD_START: "first call",
}
METRIC_HELP = {
    LATENCY: "what a caller waits for one call",
    DEVICE: "what the hardware needs, caches cold",
    THROUGHPUT: "many calls queued, one wait",
    PAGEABLE: "data starts and ends on the host",
    PINNED: "in memory the GPU can read by itself",
    AS_WRITTEN: "by the publication's clock",
    SYNCED: "the same calls until the device had finished",
    COLD_START: "the first call of the process, libraries loading",
}
ENOUGH_FOR_TAILS = 200
"""Samples from which on p90 and p99 mean something (METHOD.md)."""

VERDICT_SENTENCES = {
    GPU_WINS: "the GPU is faster",
    CPU_WINS: "the CPU is faster",
    TIE: "a tie, within 2 %",
    UNDECIDED: "undecided",
    TOO_FEW: "too few for an interval",
}


class DetailScreen(Page):
    """One row, live: it changes while the row does."""

    def __init__(self, picture: Picture, key: str, glyphs: Glyphs) -> None:
        """Show the row with this key."""
        super().__init__(picture)
        self._key = key
        self._glyphs = glyphs

    def page_title(self) -> Spans:
        """Return the case and what came of it."""
        row = self.picture.run.rows.get(self._key)
        if row is None:
            return ((f"{self._key} ", "title"), ("is not part of this run", "muted"))
        look = rows.look_of(self.picture.run, US, self._glyphs, 9)
        telling = {"dtype", "threads"} | ({"variant"} if row.case.variant != "default" else set())
        case = rows.case_text(row.case, frozenset(telling))
        return ((f"{case}  ", "title"), *rows.verdict(row, look))

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the row in words and numbers."""
        row = self.picture.run.rows.get(self._key)
        return detail_lines(row, self.picture.run, width, self._glyphs) if row is not None else ()


def detail_lines(row: Row, run: RunState, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return the detail of a row: failure, comparison, times per device, marks, check, environment."""
    lines: list[Spans] = []
    if row.failure is not None:
        role = "muted" if row.failure.kind == "skipped" else "bad"
        lines += [*wrapped(row.failure.message, width, role), *wrapped(row.failure.remedy, width), ()]
    lines += _compared(row, width, glyphs)
    moved = moved_lines(row, width, glyphs)
    lines += [*moved, ()] if moved else []
    for device in run.devices:
        times = row.times.get(device.name)
        if times is not None:
            lines += [*_times(times, device, row, width, glyphs)]
            if row.status != "mismatch":
                lines += hardware_lines(run, row, times, width)
                lines += [*written_lines(run, row, times, width, glyphs), *training_lines(times, width)]
            lines.append(())
    lines += _checked(row, width)
    return lines + _environment(run, width)


def _compared(row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    comparison = row.comparison
    if comparison is None:
        return []
    text = f"speed-up {glyphs.times}{significant(comparison.speedup)}"
    if comparison.low is not None and comparison.high is not None:
        text += f", 95 % interval {glyphs.times}{comparison.low:.4g} to {glyphs.times}{comparison.high:.4g}"
        text += f" ({glyphs.plus_minus}{percent(comparison.plus_minus or 0)} %)"
    text += f", from {comparison.rounds} rounds: {VERDICT_SENTENCES.get(comparison.verdict, comparison.verdict)}"
    return [*wrapped(text, width, "strong"), ()]


def _times(times: DeviceTimes, device: Device, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    series = "cpu" if device.is_cpu else "gpu"
    simulated = " (simulated)" if device.simulated else ""
    lines: list[Spans] = [
        ((device.name.upper() if device.is_cpu else device.name, series), (f"  {device.label}{simulated}", "muted"))
    ]
    calibrated = times.calibrated
    if calibrated is not None:
        once = calibrated.rounds * calibrated.blocks * calibrated.calls_per_block == 1
        how = (
            "timed once: a call takes longer than the budget"
            if once
            else f"{_count(max(len(times.round_ns), 1), 'round')} of {_count(calibrated.blocks, 'block')}"
            f" of {_count(calibrated.calls_per_block, 'call')}"
        )
        threads = f", {_count(calibrated.threads, 'thread')}" if device.is_cpu else ""
        lines.append(((f"  {how}{threads}", "muted"),))
    if row.status != "mismatch":
        lines += _table(times, width, glyphs)
        lines += _rounds(times, width, glyphs, series)
    odd = list(times.marks)
    if calibrated is not None and not calibrated.stable:
        lines += wrapped("  ~ warm-up did not settle to 1 % before its limit", width, "warn")
    for mark in odd:
        lines += wrapped(f"  ~ {mark}: {MARK_WORDS.get(mark, 'odd')}", width, "warn")
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _table(times: DeviceTimes, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return one line per metric, as many columns as fit."""
    samples = {name: times.samples[name] for name in METRIC_WORDS if times.samples.get(name)}
    if not samples:
        return [(("  no samples yet", "muted"),)]
    header = f"  {'':<17}{'n':>6}{'median':>11}{'p90':>11}{'p99':>11}{'least':>11}"
    lines: list[Spans] = [((header, "muted"),)]
    for name, values in samples.items():
        # The tails of latency come from calls timed one by one; a block's mean hides them.
        singles = times.samples.get(SINGLE, values) if name == LATENCY else values
        tails = [
            _time(percentile(singles, p), glyphs) if len(singles) >= ENOUGH_FOR_TAILS else glyphs.none for p in (90, 99)
        ]
        numbers = [_time(median(values), glyphs), *tails, _time(min(values), glyphs)]
        text = f"{len(values):>6}" + "".join(f"{number:>11}" for number in numbers)
        room = width - len(header) - 2
        helped = METRIC_HELP[name] if len(METRIC_HELP[name]) <= room else ""
        lines.append(((f"  {METRIC_WORDS[name]:<17}", "text"), (text, "strong" if name == LATENCY else "text"),
                      (f"  {helped}", "muted")))  # fmt: skip
    return lines


def _time(ns: float, glyphs: Glyphs) -> str:
    return time_text(ns).replace(" us", f" {glyphs.micro}s")


def _rounds(times: DeviceTimes, width: int, glyphs: Glyphs, series: str) -> list[Spans]:
    values = list(times.round_ns.values())
    if len(values) < 2:
        return []
    middle = median(values)
    relative = [value / middle - 1 for value in values] if middle > 0 else []
    bars = trend_text(relative, min(len(values), max(10, width - 50)), -rows.ROUND_RANGE, rows.ROUND_RANGE, glyphs)
    spread = (max(values) - min(values)) / middle if middle > 0 else 0.0
    return [(("  rounds           ", "text"), (bars, series), (f"  spread {percent(spread)} % of the median", "muted"))]


def _checked(row: Row, width: int) -> list[Spans]:
    check = row.check
    if check is None:
        return [*wrapped("Results: not compared in this row.", width, "muted"), ()] if row.status == "ok" else []
    text = f"Results: error {check.error:.2g} against {check.against}, allowed {check.tolerance:.2g}."
    return [*wrapped(text, width, "text"), ()]


def _environment(run: RunState, width: int) -> list[Spans]:
    """Return the facts that ride with every result, those a person asks for."""
    facts = dict(run.run.environment) if run.run is not None else {}
    worker = facts.get("worker")
    parts = [
        f"run {run.run.number}" if run.run is not None and run.run.number is not None else "not saved",
        *(str(facts[name]) for name in ("hostname", "cpu") if facts.get(name)),
        *(f"{name} {facts[name]}" for name in ("torch", "python", "version") if facts.get(name)),
        f"worker {worker}" if worker else "",
        "SIMULATED" if run.simulated else "",
    ]
    precision = facts.get("matmul_precision")
    if precision:
        parts.append(f"float32 products {precision}, TF32 {'on' if facts.get('tf32_matmul') else 'off'}")
    return wrapped("Environment: " + ", ".join(part for part in parts if part), width, "muted")
