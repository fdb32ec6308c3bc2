"""What-if in words: where the crossover of a sweep would be with other costs, beside where it is."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.analysis.answer import where
from cpugpu_tui.analysis.costs import END_TO_END, ONE_THREAD, PINNED, RESIDENT, WHAT_IFS
from cpugpu_tui.decide.crossover import NO_WINNER, NOTHING, TIES, TOO_FEW_ROUNDS, Crossover
from cpugpu_tui.model import SweepKey
from cpugpu_tui.render.answers import answers, world
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.state.thread_columns import is_column

MEASURED = (RESIDENT, END_TO_END, PINNED, ONE_THREAD)
"""Worlds that were timed as they are; the others are derived from what was timed."""

WITHOUT_WINNER = {
    NOTHING: "not timed",
    TOO_FEW_ROUNDS: "timed in too few rounds to tell",
    TIES: "as fast as the CPU",
    NO_WINNER: "neither faster nor slower for certain",
}
"""What is said of the GPU where a world has no winner."""

BY_KEY = {what_if.key: what_if for what_if in WHAT_IFS}


def shown_row(run: RunState, cursor: str | None) -> Row | None:
    """Return the row that chart and what-if are about: the highlighted one, or the last that has finished."""
    row = run.rows.get(cursor or "")
    if row is not None:
        return row
    rows = list(run.rows.values())
    return next((row for row in reversed(rows) if row.status == "ok"), rows[0] if rows else None)


def marked_row(run: RunState, sweep: SweepKey, cursor: str | None) -> Row | None:
    """Return the highlighted row of a sweep if it has finished, the largest that has otherwise."""
    row = run.rows.get(cursor or "")
    if row is not None and row.status == "ok" and row.case.sweep == sweep:
        return row
    return next(reversed(finished_rows(run, sweep)), None)


def next_world(run: RunState, now: str) -> str:
    """Return the world after this one among those that a run has.

    That against one CPU thread is always among them: it says how to get it.
    """
    known = {key for answer in answers(run) for key in answer.evidence.worlds} | {RESIDENT, ONE_THREAD}
    cycle = [what_if.key for what_if in WHAT_IFS if what_if.key in known]
    return cycle[(cycle.index(now) + 1) % len(cycle)] if now in cycle else RESIDENT


def finished_rows(run: RunState, sweep: SweepKey) -> list[Row]:
    """Return the rows of a sweep that will not change any more, sizes rising."""
    return sorted((row for row in run.sweeps.get(sweep, ()) if row.status == "ok"), key=lambda row: row.case.size)


def what_if_sentence(run: RunState, sweep: SweepKey, rows: Sequence[Row], key: str) -> str:
    """Return where the GPU would be faster in one world, with the measured one beside it; empty without a comparison.

    `rows` are those of the sweep that count. The resident world is what was measured: it is said in one half.
    """
    measured = world(run, rows, RESIDENT)
    if not measured.points:
        return ""
    name = " ".join(part for part in sweep[:2] if part != "default")
    several = len([other for other in run.sweeps if not is_column(run, other)]) > 1
    lead = f"{name}: " if several else ""
    if key == RESIDENT:
        return f"{lead}As measured, {BY_KEY[key].label}: the GPU is {_faster(measured)}."
    if key == ONE_THREAD and {row.cpu.calibrated.threads for row in rows if row.cpu and row.cpu.calibrated} == {1}:
        return f"{lead}These CPU times are those of one thread already: the GPU is {_faster(measured)}."
    condition = BY_KEY[key].condition
    head = f"What {condition}" if condition.startswith("if ") else condition[0].upper() + condition[1:]
    found = world(run, rows, key)
    if not found.points:
        remedy = " Set its threads to 1,all (enter on the workload, or --threads 1,all)." if key == ONE_THREAD else ""
        return f"{lead}{head}: not measured.{remedy}"
    verb = "is" if key in MEASURED else "would be"
    if where(found) == where(measured):
        return f"{lead}{head}: the GPU {verb} {_faster(found)}, the same as measured."
    if measured.kind in WITHOUT_WINNER:
        return f"{lead}{head}: the GPU {verb} {_faster(found)}; as measured it is {_faster(measured)}."
    return f"{lead}{head}: the GPU {verb} {_faster(found)}, instead of {where(measured)}."


def _faster(found: Crossover) -> str:
    """Return what follows `the GPU is`, or `would be`."""
    return WITHOUT_WINNER.get(found.kind) or f"faster {where(found)}"
