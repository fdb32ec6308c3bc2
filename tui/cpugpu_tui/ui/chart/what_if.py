"""What-if sentences: the crossover of a sweep under other costs, beside the measured one."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.analysis.answer import where
from cpugpu_tui.analysis.costs import END_TO_END, ONE_THREAD, PINNED, RESIDENT, WHAT_IFS
from cpugpu_tui.decide.crossover import NO_WINNER, NOTHING, TIES, TOO_FEW_ROUNDS, Crossover
from cpugpu_tui.model import SweepKey
from cpugpu_tui.render.answers import answers, axis_of, world
from cpugpu_tui.render.rows import is_column
from cpugpu_tui.state.state import Row, RunState

MEASURED = (RESIDENT, END_TO_END, PINNED, ONE_THREAD)
"""What-ifs that were timed; the others are derived from them."""

WITHOUT_WINNER = {
    NOTHING: "not timed",
    TOO_FEW_ROUNDS: "not judged (too few rounds)",
    TIES: "as fast as the CPU",
    NO_WINNER: "neither clearly faster nor slower",
}
"""What follows `the GPU is` if there is no winner."""

BY_KEY = {what_if.key: what_if for what_if in WHAT_IFS}


def shown_row(run: RunState, cursor: str | None) -> Row | None:
    """Return the row for chart and what-if: the highlighted one, else the last finished one."""
    row = run.rows.get(cursor or "")
    if row is not None:
        return row
    rows = list(run.rows.values())
    return next((row for row in reversed(rows) if row.status == "ok"), rows[0] if rows else None)


def marked_row(run: RunState, sweep: SweepKey, cursor: str | None) -> Row | None:
    """Return the highlighted row of a sweep if it has finished, else the largest finished one."""
    row = run.rows.get(cursor or "")
    if row is not None and row.status == "ok" and row.case.sweep == sweep:
        return row
    return next(reversed(finished_rows(run, sweep)), None)


def next_world(run: RunState, now: str) -> str:
    """Return the next what-if that a run can answer.

    That against one CPU thread is always offered: without its times, the sentence says how to get them.
    """
    known = {key for answer in answers(run) for key in answer.evidence.worlds} | {RESIDENT, ONE_THREAD}
    cycle = [what_if.key for what_if in WHAT_IFS if what_if.key in known]
    return cycle[(cycle.index(now) + 1) % len(cycle)] if now in cycle else RESIDENT


def finished_rows(run: RunState, sweep: SweepKey) -> list[Row]:
    """Return the finished rows of a sweep, smallest size first."""
    return sorted((row for row in run.sweeps.get(sweep, ()) if row.status == "ok"), key=lambda row: row.case.size)


def what_if_sentence(run: RunState, sweep: SweepKey, rows: Sequence[Row], key: str) -> str:
    """Return the crossover under one what-if beside the measured one; empty without a comparison.

    `rows` are the finished ones of the sweep. The resident what-if is the measured one.
    """
    measured = world(run, rows, RESIDENT)
    if not measured.points:
        return ""
    name = " ".join(part for part in sweep[:2] if part != "default")
    several = len([other for other in run.sweeps if not is_column(run, other)]) > 1
    prefix = f"{name}: " if several else ""
    axis = axis_of(run, rows)
    if key == RESIDENT:
        return f"{prefix}With {BY_KEY[key].label}, the GPU {_outcome(measured, axis)}."
    if key == ONE_THREAD and {row.cpu.calibrated.threads for row in rows if row.cpu and row.cpu.calibrated} == {1}:
        return f"{prefix}These CPU times already use one thread: the GPU {_outcome(measured, axis)}."
    head = f"{prefix}{BY_KEY[key].question}"
    found = world(run, rows, key)
    if not found.points:
        remedy = " Set threads to 1,all (enter on the workload, or --threads 1,all)." if key == ONE_THREAD else ""
        return f"{head} Not measured.{remedy}"
    head += f" The GPU {_outcome(found, axis, is_measured=key in MEASURED)}"
    if where(found) == where(measured):
        return f"{head}, the same as with inputs on the GPU."
    if {measured.kind, found.kind} & WITHOUT_WINNER.keys():
        return f"{head}; with inputs on the GPU, it {_outcome(measured, axis)}."
    return f"{head}; with inputs on the GPU, {where(measured, axis)}."


def _outcome(found: Crossover, axis: str, *, is_measured: bool = True) -> str:
    """Return `wins from n ≈ 205`, `would win from n ≈ 205` or why nobody does, to follow `the GPU`."""
    if found.kind in WITHOUT_WINNER:
        return f"{'is' if is_measured else 'would be'} {WITHOUT_WINNER[found.kind]}"
    return f"{'wins' if is_measured else 'would win'} {where(found, axis)}"
