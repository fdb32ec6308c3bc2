"""Limit, rates, kernels, the paper's clock and epochs of a row."""

from __future__ import annotations

from cpugpu_tui.analysis.answer import speedup_text
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import AS_WRITTEN, MOVING, PAGEABLE, PINNED, SYSTEM, USER
from cpugpu_tui.model.quantities import duration, factor, percent, significant, time_text
from cpugpu_tui.render.columns import rates
from cpugpu_tui.render.verdicts import ceilings_of, clock_words, device_limit, end_to_end, written
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import paragraph, spelled, wrapped
from cpugpu_tui.ui.roles import Spans

CLASS_WORDS = {
    "clock wrong": "it does not wait for the device",
    "scope": "it times more than the operation",
    "clock fair": "it is correct as a wall time",
}
"""Class of a paper's clock → meaning."""


START_WORDS = {
    "launch": "limited by launch and wait: the GPU has too little work",
    "call": "limited by the overhead of a call: the CPU has too little work",
}
"""Limit without a share → sentence."""


UNMEASURED = "limited by: unknown, the peak throughput of this device was not measured yet (press {machine})"
"""Shown while the limit is unknown."""


def moved_lines(row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a line with the speedup with copies for each kind of host memory."""
    lines: list[Spans] = []
    for metric, memory in ((PAGEABLE, "pageable"), (PINNED, "pinned")):
        found = end_to_end(row, metric)
        if found is not None:
            lines += wrapped(spelled(f"speedup with copies, {memory} memory: {speedup_text(found)}", glyphs), width)
    return lines


def hardware_lines(run: RunState, row: Row, times: DeviceTimes, width: int) -> list[Spans]:
    """Return rate, share of the peak rate, and kernels."""
    texts = [_rate(row, times), _limited(run, row, times), _kernels(times)]
    return [line for text in texts if text for line in paragraph(text, width)]


def _rate(row: Row, times: DeviceTimes) -> str:
    found = zip(rates(row, times), ("GFLOP/s", "GB/s"), strict=True)
    parts = [f"{significant(rate)} {unit}" for rate, unit in found if rate is not None]
    return f"reaches {' and '.join(parts)}" if parts else ""


def _limited(run: RunState, row: Row, times: DeviceTimes) -> str:
    if ceilings_of(run, times.device) is None:
        return UNMEASURED if times.latency_ns else ""
    found = device_limit(run, row, times)
    if found is None:
        return ""
    if found.share is None:
        return START_WORDS[found.kind]
    return f"limited by {found.kind}: {percent(found.share)} % of the peak rate measured here"


def _kernels(times: DeviceTimes) -> str:
    found = times.kernels
    if found is None:
        return ""
    busy = f", busy for {percent(found.elapsed_ns / times.latency_ns)} % of the wait" if times.latency_ns else ""
    return f"one call runs {found.count:,} kernel{'s' if found.count != 1 else ''}, {time_text(found.elapsed_ns)}{busy}"


def written_lines(run: RunState, row: Row, times: DeviceTimes, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return the time by the paper's clock, what it includes, and its error."""
    judged = written(run, row, times)
    classes, scope = clock_words(row)
    if judged is None or not classes:
        return []
    # A call on a CPU returns when it is done, so no clock stops too early.
    words = [word for word in classes.split(", ") if times.device != "cpu" or word != "clock wrong"]
    worth = "; ".join(CLASS_WORDS.get(word, word) for word in words) or "on a CPU that is correct"
    text = f"the paper's clock shows {time_text(judged.printed_ns)}: {scope}; {worth}"
    if judged.clock_factor > 1.05:
        text += f"; with a wait for the device it shows {factor(judged.clock_factor)} that"
    if judged.scope_factor is not None and judged.scope_factor > 1.05:
        text += f"; the operations alone are 1/{significant(judged.scope_factor)} of that"
    lines = paragraph(text, width)
    more = [(USER, "user"), (SYSTEM, "system"), (MOVING, "moving again (no effect)")]
    also = [f"{word} {time_text(ns)}" for name, word in more if (ns := times.median_ns(name)) is not None]
    lines += paragraph(f"it also prints: {', '.join(also)}", width, "text") if also else []
    if judged.impossible_factor is not None:
        much = factor(judged.impossible_factor)
        text = f"{glyphs.no} impossible: that would be {judged.implied}, {much} the peak rate of this device"
        lines += paragraph(text, width, "bad")
    return lines


def training_lines(times: DeviceTimes, width: int) -> list[Spans]:
    """Return a training's epochs: time per step, per epoch and in total, loss and accuracy."""
    if not times.epochs:
        return []
    total_ns = times.median_ns(AS_WRITTEN) or sum(epoch.elapsed_ns for epoch in times.epochs)
    per_epoch_ns = median([epoch.elapsed_ns for epoch in times.epochs])
    last = times.epochs[-1]
    text = (
        f"training: {time_text(per_epoch_ns / last.steps)} a step, {time_text(per_epoch_ns)} an epoch, "
        f"{duration(total_ns / 1e9)} in total ({time_text(total_ns)}); loss "
        f"{', '.join(f'{epoch.loss:.3f}' for epoch in times.epochs)}"
    )
    if last.accuracy is not None:
        text += f"; accuracy on the test images {last.accuracy:.1%}"
    return paragraph(text, width)
