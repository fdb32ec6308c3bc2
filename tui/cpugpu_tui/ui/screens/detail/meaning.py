"""What the times of a row mean: where a GPU call goes, what limits it, what if, and the paper's clock."""

from __future__ import annotations

from collections.abc import Mapping

from cpugpu_tui.analysis import costs
from cpugpu_tui.analysis.ceilings import LEAST_SHARE
from cpugpu_tui.decide.comparison import CPU_OBSERVED, CPU_WINS, GPU_OBSERVED, GPU_WINS, TIE, TOO_FEW
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import AS_WRITTEN, DEVICE_WARM, ENQUEUE, MOVING, PAGEABLE, RECORDED, SYNCHRONISE, SYSTEM, USER
from cpugpu_tui.model.quantities import count_of, duration, factor, joined, percent, share_text, significant, time_text
from cpugpu_tui.render.answers import row_with_threads
from cpugpu_tui.render.columns import rates
from cpugpu_tui.render.crossover_words import reason_words, speedup_text
from cpugpu_tui.render.verdicts import ceilings_of, clock_words, device_limit, winner, written
from cpugpu_tui.report.report import decomposition_of, judged
from cpugpu_tui.report.segments import Size
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Spans, paragraph, spelled, wrapped

CLASS_WORDS = {
    "clock wrong": "it does not wait for the device",
    "scope": "it times more than the operation",
    "clock fair": "it is correct as a wall time",
}
"""Class of a paper's clock → meaning."""


START_WORDS = {
    "launch": "limited by launch and wait: the GPU has too little work",
    "call": "limited by the overhead of a call: the CPU has too little work",
    "neither peak": f"limited by neither peak rate: it reaches less than {share_text(LEAST_SHARE)} of both",
}
"""Limit without a share → sentence."""


UNMEASURED = "limited by: unknown, the peak throughput of this device was not measured yet (press {machine})"
"""Shown while the limit is unknown."""


def moved_lines(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a line with the speedup with copies for each kind of host memory."""
    lines: list[Spans] = []
    for key, memory in ((costs.END_TO_END, "pageable"), (costs.PINNED, "pinned")):
        found = judged(run, row, key).comparison
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
    share = percent(found.share)
    why = " (the peak is a measurement, too, and this row exceeds it)" if float(share) > 100 else ""
    return f"limited by {found.kind}: {share} % of the peak rate measured here{why}"


def _kernels(times: DeviceTimes) -> str:
    found = times.kernels
    if found is None:
        return ""
    busy = f", busy for {percent(found.elapsed_ns / times.latency_ns)} % of the wait" if times.latency_ns else ""
    return f"one profiled call runs {count_of(found.count, 'kernel')}, warm, {time_text(found.elapsed_ns)}{busy}"


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
    losses = ", ".join(f"{epoch.loss:.3f}" for epoch in times.epochs)
    text = f"training: {time_text(per_epoch_ns / last.steps)} a step, {time_text(per_epoch_ns)} an epoch, "
    text += f"{duration(total_ns / 1e9)} in total ({time_text(total_ns)}); loss {losses}"
    if last.accuracy is not None:
        text += f"; accuracy on the test images {last.accuracy:.1%}"
    return paragraph(text, width)


REMARKS = {
    costs.TO_GPU: "inputs copied to the GPU",
    costs.LAUNCH: "the host queues the call",
    costs.KERNELS: "the GPU's own work",
    costs.WAIT: "until the host sees the end",
    costs.BACK: "result copied to the host",
}
"""Part → meaning, in at most 28 cells, which fit beside the bar at 80 columns."""

HIDDEN = "without the overlapping part"
"""Meaning of kernels that partly run while the host queues, copies or waits; the bar shows the rest."""
REST = "not accounted for"

MEASURES = ((ENQUEUE, "launch"), (SYNCHRONISE, "wait"), (DEVICE_WARM, "warm kernels"))
"""Metric → part; all of them are needed to take a call apart."""

MISMATCH = "Not shown: the results differ, so the times of this row do not count."
NOT_YET = "Nothing has been timed on the GPU yet."

NAME, TIME, SHARE, REMARK = 16, 9, 7, 28
"""Cells of the columns; the bar takes the rest."""


def breakdown_lines(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return the parts of one call, resident and with copies, or why they are unknown."""
    if row.status == "pending" or run.gpu is None or (row.failure is not None and row.gpu is None):
        return []  # the row or the answer already tells why
    times = row.gpu
    which = f" ({times.device})" if times is not None and len(run.devices) > 2 else ""
    title: Spans = ((f"Where the GPU's time goes{which}", "title"),)
    if times is None or row.status == "mismatch":
        return [title, *paragraph(MISMATCH if times else NOT_YET, width, "muted")]
    resident, moved = decomposition_of(row, moved=False), decomposition_of(row, moved=True)
    if resident is None and moved is None:
        return [title, *paragraph(_why_not(row, times), width, "muted")]
    lines = [title]
    if resident is not None:
        lines += _taken_apart("resident (the inputs are on the GPU)", resident, width, glyphs)
    if moved is not None:
        return [*lines, *_taken_apart("with copies (from and to the host)", moved, width, glyphs)]
    what = "the copies were not timed separately" if times.samples.get(PAGEABLE) else "not timed"
    when = "yet" if row.status == "active" else "in this run"
    return [*lines, *paragraph(f"with copies: {what} {when}", width, "muted")]


def _why_not(row: Row, times: DeviceTimes) -> str:
    """Return which parts were not timed separately."""
    has = {metric: times.median_ns(metric) for metric, _ in MEASURES}
    has[DEVICE_WARM] = has[DEVICE_WARM] or times.kernels_ns
    missing = [part for metric, part in MEASURES if not has[metric]] or ["some part"]
    were, when = "was" if len(missing) == 1 else "were", "yet" if row.status == "active" else "in this run"
    return f"Parts unknown: {joined(missing)} {were} not timed separately {when}."


def _taken_apart(how: str, found: costs.Decomposition, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a heading with the total, a line for each part, and the rest or the overlap."""
    total = f"{time_text(found.measured_ns)} a call"
    how = how if len(how) + len(total) + 4 <= width else how.partition(" (")[0]
    lines: list[Spans] = [((f"  {how}: ", "text"), (total, "strong"))]
    for name, part_ns in found.parts:
        remark = HIDDEN if name == costs.KERNELS and found.share(found.hidden_ns) >= costs.LEAST_REST else REMARKS[name]
        lines.append(_part(name, part_ns, found, remark, "gpu", width, glyphs))
    rest_ns = found.rest_ns
    if abs(found.share(rest_ns)) < costs.LEAST_REST:
        return lines
    if rest_ns >= 0:
        name, role = ("rest", "muted") if found.is_explained else ("unexplained", "warn")
        return [*lines, _part(name, rest_ns, found, REST, role, width, glyphs)]
    text = f"the parts overlap by {time_text(-rest_ns)}, {percent(found.share(-rest_ns))} % of the call"
    if not found.is_explained:
        text += ": each was timed separately, and in a call they run at the same time"
    return [*lines, *paragraph(text, width, "muted" if found.is_explained else "warn")]


def _part(
    name: str, part_ns: float, found: costs.Decomposition, remark: str, role: str, width: int, glyphs: Glyphs
) -> Spans:
    """Return `launch  ###.........  10.5 µs   50 %  the host queues the call`."""
    share = found.share(part_ns)
    cells = min(max(width - 2 - NAME - TIME - SHARE - 2 - REMARK, 12), 40)
    full = min(max(round(share * cells), 0), cells)
    bar = glyphs.full * full + glyphs.empty * (cells - full)
    text = f"{time_text(part_ns):>{TIME}}{percent(share) + ' %':>{SHARE}}"
    fits = 2 + NAME + cells + TIME + SHARE + 2 + len(remark) <= width
    label = (f"  {name:<{NAME}}", "warn" if role == "warn" else "text")
    return (label, (bar, role), (text, "strong"), (f"  {remark}" if fits else "", "muted"))


VERDICT_SENTENCES = {
    GPU_WINS: "the GPU is faster",
    CPU_WINS: "the CPU is faster",
    TIE: "a tie, within 2 %",
    GPU_OBSERVED: "the GPU is faster in each round",
    CPU_OBSERVED: "the CPU is faster in each round",
    TOO_FEW: "too few rounds for an interval",
}

COMPUTED = {costs.TEN_CALLS: "10 calls", costs.HUNDRED_CALLS: "100 calls", costs.NO_LAUNCH: "no launch and wait"}
"""Conditions that are computed from measured times → words."""


LEAST_WITH_INTERVALS = 60
"""Least width for the longest label, the speedup with its interval, and the winner in a word."""


def worlds_of(run: RunState, row: Row) -> Mapping[str, Size]:
    """Return `WhatIf.key` → judgement, for the conditions that this row has times for."""
    found = {each.key: judged(run, row, each.key) for each in costs.WHAT_IFS if each.key != costs.ONE_THREAD}
    single = row_with_threads(run, row, 1)  # the time of one CPU thread is in another row
    found |= {costs.ONE_THREAD: judged(run, single)} if single is not None else {}
    return {key: each for key, each in found.items() if each.comparison is not None}


def world_lines(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a line for each condition: label, speedup with ±, winner; empty if only one is known."""
    found = worlds_of(run, row)
    if len(found) < 2:
        return []
    shown = [(what_if.label, found[what_if.key]) for what_if in costs.WHAT_IFS if what_if.key in found]
    text = speedup_text if width >= LEAST_WITH_INTERVALS else lambda comparison: factor(comparison.speedup)
    speedups = [spelled(text(each.comparison), glyphs) for _, each in shown if each.comparison is not None]
    labels, numbers = max(len(label) for label, _ in shown) + 2, max(map(len, speedups)) + 1
    sentences = [winner_sentence(each) for _, each in shown]
    is_wide = width >= 2 + labels + numbers + 2 + max(map(len, sentences))
    lines: list[Spans] = [(("The GPU's speedup under each condition", "title"),)]
    lines += [
        ((f"  {label:<{labels}}", "text"), (f"{speedup:<{numbers}}", "strong"), _verdict(each, glyphs, is_wide=is_wide))
        for (label, each), speedup in zip(shown, speedups, strict=True)
    ]
    computed = [words for key, words in COMPUTED.items() if key in found]
    if computed:
        times = "these" if RECORDED in row.times else "measured"
        lines += paragraph(f"computed from {times} times: {', '.join(computed)}", width, "muted")
    return lines


def winner_sentence(found: Size) -> str:
    """Return the winner, or why none is known."""
    known = VERDICT_SENTENCES.get(found.comparison.verdict) if found.comparison is not None else None
    return known or f"unclear ({reason_words(found)})"


def _verdict(found: Size, glyphs: Glyphs, *, is_wide: bool) -> tuple[str, str]:
    """Return the winner as a sentence, or as a word if the line is too short."""
    comparison = found.comparison
    assert comparison is not None
    word = winner_sentence(found) if is_wide else winner(comparison)
    if comparison.faster == GPU_WINS:
        return f"{glyphs.up} {word}", "gpu"
    if comparison.faster == CPU_WINS:
        return f"{glyphs.down} {word}", "cpu"
    return f"{'=' if comparison.verdict == TIE else '?'} {word}", "muted"
