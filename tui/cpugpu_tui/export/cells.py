"""A run as texts for a page: columns, one row of cells per case, sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from cpugpu_tui.model import SweepKey
from cpugpu_tui.render.answers import answer_lines
from cpugpu_tui.render.cells import (
    FASTER,
    LIMITED_BY,
    PAPERS_ERROR,
    PLUS_MINUS,
    SPEEDUP,
    WITH_COPIES,
    faster_cell,
    has_paper,
    kernels_cell,
    kernels_heading,
    limited_by_cell,
    papers_error_cell,
    plus_minus_cell,
    speedup_cell,
    time_cell,
    with_copies_cell,
)
from cpugpu_tui.render.ending import cut_short
from cpugpu_tui.render.gpus import several, told_rows
from cpugpu_tui.render.insight import MARK_WORDS, allowed_cores, remark, row_marks
from cpugpu_tui.render.signs import micro
from cpugpu_tui.session.planning import scale_text
from cpugpu_tui.state.state import Row, RunState

LEFT = ("case", "on", FASTER, LIMITED_BY, "remarks")
"""Columns of words; the others are of numbers."""


def when(state: RunState) -> str:
    """Return when the run began and how it ended."""
    if state.run is None:
        return ""
    began = f"{datetime.fromtimestamp(state.run.wall_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{began}, {state.finished.status if state.finished is not None else 'unfinished'}"


def columns(state: RunState) -> list[str]:
    """Return the heads of the columns; with several GPUs each has a line of its own, which says whose it is."""
    name = ["case" if len(state.sweeps) > 1 else "size", *(["on"] if several(state) else []), "CPU"]
    if state.gpu is None:
        return [*name, PLUS_MINUS, LIMITED_BY, "remarks"]
    paper = [PAPERS_ERROR] if has_paper(state) else []
    gpu = ["GPU", kernels_heading(state), SPEEDUP, PLUS_MINUS, FASTER, WITH_COPIES]
    return [*name, *gpu, LIMITED_BY, *paper, "remarks"]


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
    name = case_name(state, row) if len(state.sweeps) > 1 else f"{row.case.size:,}"
    found = [name, time_cell(row, row.cpu)]
    if state.gpu is not None:
        found += [time_cell(row, row.gpu), kernels_cell(row), speedup_cell(row), plus_minus_cell(row)]
        found += [faster_cell(row), with_copies_cell(row), limited_by_cell(state, row)]
        found += [papers_error_cell(state, row, "impossible ")] if has_paper(state) else []
    else:
        found += [plus_minus_cell(row), limited_by_cell(state, row)]
    return [micro(text) for text in [*found, remark(row, allowed_cores(state))]]


def sweep_name(state: RunState, sweep: SweepKey) -> str:
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
