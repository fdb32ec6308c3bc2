"""The curves of a sweep: times of each device over sizes, and the crossover on them. Every face draws the same ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from cpugpu_tui.analysis.costs import END_TO_END, ONE_THREAD, PINNED, RESIDENT, WHAT_IFS
from cpugpu_tui.analysis.slow_gpus import grouped
from cpugpu_tui.decide.comparison import Change
from cpugpu_tui.model import PAGEABLE, SweepKey, typed_name, work_name
from cpugpu_tui.model.quantities import count_of
from cpugpu_tui.render.answers import leading_answers, named_on, row_with_threads, survey_lines
from cpugpu_tui.render.columns import COLUMNS, Key
from cpugpu_tui.render.crossover_words import where
from cpugpu_tui.render.gpus import gpu_name, listed, models_of, several
from cpugpu_tui.report.bars import Part, parts_of
from cpugpu_tui.report.conditions import Condition
from cpugpu_tui.report.report import is_column, judged, sweep_in
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.row import Row, threads_of
from cpugpu_tui.state.state import RunState

BY_KEY = {what_if.key: what_if for what_if in WHAT_IFS}


class Curve(NamedTuple):
    """Times of one device over sizes."""

    sign: str
    """Capital letter, drawn at each size that was timed."""
    label: str
    role: str
    """`cpu`, `gpu`, `copies`, or `key` for a what-if."""
    points: tuple[tuple[int, float], ...]
    """(size, ns), sizes rising."""


class SweepChart(NamedTuple):
    """What a chart of one sweep shows. A sweep of one size has curves of one point."""

    name: str
    """Name of the sweep, with its dtype and the CPU threads."""
    axis: str
    """Meaning of its sizes: `n`, `batch`."""
    curves: tuple[Curve, ...]
    """CPU and the first GPU of each model; none is empty."""
    others: tuple[Curve, ...]
    """The other GPUs, to be drawn faintly."""
    others_label: str
    resident: Condition
    """Judgement with inputs on the GPU."""
    with_copies: Condition
    """The same with copies."""
    sentences: tuple[str, ...]
    """Who wins from where, and why; empty without a comparison."""

    @property
    def is_sweep(self) -> bool:
        """Whether it has several sizes."""
        return len({size for curve in self.curves for size, _ in curve.points}) > 1


class SurveyBar(NamedTuple):
    """One workload in the picture of a survey."""

    name: str
    ends: tuple[int, int]
    """Smallest and largest size that was timed on both devices."""
    parts: tuple[Part, ...]
    words: str
    """Where the GPU wins: `always`, `from n ≈ 169, with copies from 432`."""


class SurveyChart(NamedTuple):
    """What the picture of a survey shows."""

    name: str
    bars: tuple[SurveyBar, ...]
    """The workload in which the GPU wins earliest first."""
    sentences: tuple[str, ...]
    """What the bars do not show at a glance: which workloads always belong on the GPU, and which never do."""
    is_sweep: bool = False


def survey_chart(run: RunState) -> SurveyChart | None:
    """Return the picture of a survey; None for other runs, and before a workload was timed on both devices."""
    lines = survey_lines(run)
    if not lines:
        return None
    bars = []
    for answer in leading_answers(run):
        found, moved = answer.report.resident, answer.report.with_copies
        words = where(found, answer.report.axis)
        words += f", with copies {where(moved)}" if moved.changes else ""
        timed = found.timed
        bars.append(SurveyBar(named_on(answer), (timed[0].size, timed[-1].size), parts_of(answer.report), words))
    return SurveyChart(run.plan.name, tuple(bars), (" ".join(lines[:2]),))


def finished_rows(run: RunState, sweep: SweepKey) -> list[Row]:
    """Return the finished rows of a sweep, smallest size first."""
    return sorted((row for row in run.sweeps.get(sweep, ()) if row.status == "ok"), key=lambda row: row.case.size)


def curves(run: RunState, rows: Sequence[Row], what_if: str) -> list[Curve]:
    """Return the curves of a sweep: CPU, GPU, GPU with copies, and that of the what-if if it is none of these."""
    latency = [(row.case.size, row.cpu.latency_ns) for row in rows if row.cpu is not None]
    first = gpu_name(run)
    gpu = _of_gpu(first, [(row.case.size, row.gpu) for row in rows if row.gpu is not None])
    found = [_curve("C", "CPU", "cpu", latency), *gpu]
    if what_if == ONE_THREAD:
        others = [
            other for row in rows if (other := row_with_threads(run, row, 1)) is not None and other.cpu is not None
        ]
        points = [(other.case.size, other.cpu.latency_ns) for other in others if other.cpu is not None]
        found.append(_curve("W", "one CPU thread", "key", points))
    elif what_if not in (RESIDENT, END_TO_END):
        # Derived from the speedup, like the crossover, so that the curves meet at its marker.
        worlds = [(row, judged(run, row, what_if).comparison) for row in rows]
        points = [
            (row.case.size, row.cpu.latency_ns / there.speedup)
            for row, there in worlds
            if there is not None and row.cpu is not None and row.cpu.latency_ns is not None
        ]
        label = (
            f"{first} {COLUMNS[Key.MOVED].heading}, pinned"
            if what_if == PINNED
            else f"{first}, {BY_KEY[what_if].label}"
        )
        found.append(_curve("W", label, "key", points))
    return found


def _of_gpu(name: str, found: Sequence[tuple[int, DeviceTimes]]) -> list[Curve]:
    """Return the curves of a GPU, without and with copies, from its times by size."""
    copies = [(size, times.median_ns(PAGEABLE)) for size, times in found]
    return [
        _curve("G", name, "gpu", [(size, times.latency_ns) for size, times in found]),
        _curve("E", f"{name} {COLUMNS[Key.MOVED].heading}", "copies", copies),
    ]


def _curve(sign: str, label: str, role: str, points: Sequence[tuple[int, float | None]]) -> Curve:
    known = tuple((size, ns) for size, ns in points if ns is not None and ns > 0 and math.isfinite(ns))
    return Curve(sign, label, role, known)


def crossing_point(
    found: Sequence[Curve], change: Change, *, linear_sizes: bool = False, linear_times: bool = False
) -> tuple[float, float] | None:
    """Return (size, ns) of a change of winner on the CPU's curve, as a straight line between its points is drawn."""
    one = next((curve for curve in found if curve.label == "one CPU thread"), None)
    cpu = one or next((curve for curve in found if curve.sign == "C"), None)
    at = change.point
    if cpu is None:
        return None
    around = next(((a, b) for a, b in pairwise(cpu.points) if a[0] <= at <= b[0]), None)
    if around is None:
        return None
    (left, left_ns), (right, right_ns) = around
    x = [each if linear_sizes else math.log10(each) for each in (left, at, right)]
    share = (x[1] - x[0]) / (x[2] - x[0]) if x[2] > x[0] else 0.0
    if linear_times:
        return at, left_ns + share * (right_ns - left_ns)
    return at, left_ns * (right_ns / left_ns) ** share


# ------------------------------------------------------------------ all charts of a run


def charts(run: RunState) -> list[tuple[SweepKey, SweepChart]]:
    """Return each sweep with times and its chart; sweeps that are a column of another one are part of its chart."""
    drawn = ((sweep, _chart(run, sweep)) for sweep in run.sweeps if not is_column(run, sweep))
    return [(sweep, chart) for sweep, chart in drawn if chart.curves]


def _chart(run: RunState, sweep: SweepKey) -> SweepChart:
    rows = finished_rows(run, sweep)
    known = [curve for curve in curves(run, rows, ONE_THREAD) if curve.points]
    others, gpus = list[Curve](), list[str]()
    if several(run):
        leaders = [names[0] for names in grouped(models_of(run)).values()]
        gpus = [gpu.name for gpu in run.gpus if gpu.name not in leaders]
        of_gpus = {
            gpu.name: _of_gpu(gpu.name, [(row.case.size, row.times[gpu.name]) for row in rows if gpu.name in row.times])
            for gpu in run.gpus
        }
        known += [curve._replace(role=f"{curve.role} {index}") for index, name in enumerate(leaders[1:], 2)
                  for curve in of_gpus[name] if curve.points]  # fmt: skip
        others = [of_gpus[name][0] for name in gpus if of_gpus[name][0].points]
    sentences = (
        f"{answer.gpu.name}: {sentence}" if answer.gpu is not None else sentence
        for answer in leading_answers(run) if answer.rows[0].case.sweep == sweep
        for sentence in answer.sentences
    )  # fmt: skip
    own = sweep_in(run, sweep)
    return SweepChart(
        _name(run, sweep, rows), own.axis, tuple(known), tuple(others), listed(gpus) if others else "",
        own.resident, own.with_copies, tuple(sentences),
    )  # fmt: skip


def _name(run: RunState, sweep: SweepKey, rows: Sequence[Row]) -> str:
    """Return the workload, or the code that was typed, with variant, dtype and CPU threads."""
    workload, variant, dtype, asked = sweep
    threads = threads_of(rows) or asked
    name = f"{work_name((typed_name(workload, run.plan.codes), variant, dtype, asked))} {dtype}"
    return f"{name}, {count_of(threads, 'CPU thread')}" if threads else name
