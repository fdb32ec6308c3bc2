"""A run as texts for a page: columns, one row of cells per case, sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from cpugpu_tui.analysis.answer import speedup_text
from cpugpu_tui.analysis.quantities import percent, significant, time_text
from cpugpu_tui.model import DEVICE, PAGEABLE
from cpugpu_tui.runs.answers import answer_lines
from cpugpu_tui.runs.device_times import DeviceTimes
from cpugpu_tui.runs.ending import cut_short
from cpugpu_tui.runs.gpus import several, told_rows
from cpugpu_tui.runs.insight import MARK_WORDS, allowed_cores, end_to_end, remark, row_limit, row_marks
from cpugpu_tui.runs.no_core import WORD as NO_CORE_WORD
from cpugpu_tui.runs.planning import scale_text
from cpugpu_tui.runs.signs import micro
from cpugpu_tui.runs.state import Row, RunState, Sweep

NONE = "–"
"""What stands where there is nothing to say."""

LEFT = ("case", "on", "faster", "limit", "remarks")
"""Columns of words; the others are of numbers."""


def when(state: RunState) -> str:
    """Return when the run began and how it ended."""
    if state.run is None:
        return ""
    began = f"{datetime.fromtimestamp(state.run.wall_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{began}, {state.finished.status if state.finished is not None else 'unfinished'}"


def columns(state: RunState) -> list[str]:
    """Return the heads of the columns; with several GPUs each has a line of its own, which says whose it is."""
    gpu = ["GPU", "device", "speed-up", "end to end", "faster"] if state.gpu is not None else []
    on = ["on"] if several(state) else []
    return ["case" if len(state.sweeps) > 1 else "size", *on, "CPU", *gpu, "limit", "remarks"]


def lines(state: RunState, rows: Iterable[Row]) -> Iterator[list[str]]:
    """Yield the texts of each line of a table of these rows, as many as there are columns."""
    for told in told_rows(state, rows):
        name, cpu, *others = _cells(told.state, told.row)
        if not several(state):
            yield [name, cpu, *others]
            continue
        if told.slow:
            others[-1] = ", ".join(filter(None, (others[-1], told.slow)))
        first = [name, told.gpu or "", cpu] if told.is_first else ["", told.gpu or "", ""]
        yield [*first, *others]


def _cells(state: RunState, row: Row) -> list[str]:
    """Return the texts of one row of a run with one GPU at most."""
    found = [case_name(state, row) if len(state.sweeps) > 1 else f"{row.case.size:,}", _latency(row, row.cpu)]
    if state.gpu is not None:
        device_ns = None if row.gpu is None or row.status == "mismatch" else row.gpu.median_ns(DEVICE)
        moved, lead = end_to_end(row, PAGEABLE), row.comparison
        found += [_latency(row, row.gpu), NONE if device_ns is None else time_text(device_ns)]
        found += [NONE if lead is None else speedup_text(lead)]
        found += [NONE if moved is None else f"×{significant(moved.speedup)}"]
        found += [lead.verdict if lead is not None else NO_CORE_WORD if row.is_starved else NONE]
    return [micro(text) for text in [*found, _limit(state, row), remark(row, allowed_cores(state))]]


def sweep_name(state: RunState, sweep: Sweep) -> str:
    """Return what tells a sweep from the others of its run: workload, variant; dtype and threads where they differ."""
    workload, variant, dtype, threads = sweep
    words = [workload] if variant == "default" else [workload, variant]
    words += [dtype] if len({other[2] for other in state.sweeps}) > 1 else []
    if len({other[3] for other in state.sweeps}) > 1:
        words.append(f"{threads or 'all'} thread{'' if threads == 1 else 's'}")
    return " ".join(words)


def case_name(state: RunState, row: Row) -> str:
    """Return the sweep and the size."""
    return f"{sweep_name(state, row.case.sweep)} {row.case.size:,}"


def sentences(state: RunState) -> list[str]:
    """Return what the run says, most important first."""
    lines = [*answer_lines(state), cut_short(state)]
    if state.run is not None and state.run.plan.scale == "small":
        lines.append(f"Small scale: {scale_text(state.run.plan)}.")
    if state.finished is not None and state.finished.message:
        lines.append(f"{state.finished.status}: {state.finished.message}")
    return [micro(line) for line in lines if line]


def mark_sentences(state: RunState) -> list[str]:
    """Return what the marks of the rows mean."""
    marks = dict.fromkeys(mark for row in state.rows.values() for mark in row_marks(row))
    return [f"{mark}: {MARK_WORDS[mark]}." for mark in marks if mark in MARK_WORDS]


def _latency(row: Row, times: DeviceTimes | None) -> str:
    if times is None or times.latency_ns is None or row.status == "mismatch":
        return NONE
    return time_text(times.latency_ns)


def _limit(state: RunState, row: Row) -> str:
    limit = row_limit(state, row)
    if limit is None:
        return NONE
    return limit.kind if limit.share is None else f"{limit.kind} {percent(limit.share)}%"
