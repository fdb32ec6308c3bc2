"""What was odd about a row: its marks, what each means, and the remark that a table has of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from cpugpu_tui.decide.verdict import is_usable
from cpugpu_tui.model import NO_CORE
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import UNSAVED, Row, RunState

UNSETTLED = "unsettled start"
"""Mark of a row whose warm-up had not settled; in exported data `UNSETTLED_CODE`, for marks stand between blanks."""
UNSETTLED_CODE = UNSETTLED.replace(" ", "-")

MARK_WORDS = {
    "starved": "the queue ran dry before a sample, which was taken again with a longer backlog",
    "launch-bound": "the GPU finished before the next launch came: its own time could not be told from the launches",
    "clock-unsettled": "the GPU's clock had not settled before the round",
    "page-faults": "memory was mapped while timing",
    "throttled": "the GPU lowered its clocks while timing",
    "power-capped": "the GPU was at its power limit, which is normal under load",
    "shared-gpu": "another process was on the GPU",
    NO_CORE: "threads waited for a core, so there is no winner",
    "one-thread": "one CPU thread where the machine has more cores",
    "denormals": "denormal numbers, which a CPU takes up to 187 times as long for, were not flushed to zero",
    "tf32-on": "TF32 was switched on from outside: these are not float32 products",
    UNSETTLED: "the first calls had not settled to 1 % when their time was over",
    "damaged": "the database held numbers that no clock gives; they are left out",
    UNSAVED: "the history has not taken this row; it is kept in memory and saving is tried again",
    "not-converged": "time ran out before it was clear who wins (with one device: before its time was known to ±10 %)",
}
"""Marks in words."""


def mark_words(mark: str) -> str:
    """Return what a mark means; of one that a newer version made, that it is odd."""
    return MARK_WORDS.get(mark, "odd")


def device_marks(row: Row, times: DeviceTimes) -> tuple[str, ...]:
    """Return the marks of a row on one device, those of older versions judged by today's rules.

    They marked rows `foreign-load` by CPU ticks, which rose on idle machines, and clear rows `not-converged`.
    """
    marks = tuple(mark for mark in times.marks if mark != "foreign-load")
    if "not-converged" not in marks:
        return marks
    devices = sorted(row.times.values(), key=lambda each: each.device != "cpu")
    usable = is_usable([each.round_ns for each in devices], is_compared=row.comparison is not None)
    return tuple(mark for mark in marks if mark != "not-converged" or not usable)


def all_marks(row: Row, times: DeviceTimes) -> tuple[str, ...]:
    """Return the marks of a row on one device, and whether its warm-up had not settled."""
    return (*device_marks(row, times), *(() if times.is_settled else (UNSETTLED,)))


def row_marks(row: Row) -> list[str]:
    """Return the marks of a row on all its devices, and whether it waits to be saved."""
    marks = dict.fromkeys(mark for times in row.times.values() for mark in device_marks(row, times))
    unsettled = [UNSETTLED] if any(not times.is_settled for times in row.times.values()) else []
    return [*marks, *unsettled, *([] if row.saved else [UNSAVED])]


def common_marks(run: RunState) -> Collection[str]:
    """Return the marks that more than half of the finished rows have, which the rows need not repeat."""
    finished, counts = _counted(run)
    return {mark for mark, count in counts.items() if finished > 2 and count > finished / 2}


def mark_lines(run: RunState) -> list[str]:
    """Return a sentence for each mark of a finished row: what it means, and how many rows have it."""
    finished, counts = _counted(run)
    return [f"{mark} in {count} of {finished} rows: {mark_words(mark)}." for mark, count in counts.items()]


def _counted(run: RunState) -> tuple[int, Mapping[str, int]]:
    """Return how many rows have finished, and how many of them have each mark."""
    finished = [row for row in run.rows.values() if row.status == "ok"]
    return len(finished), Counter(mark for row in finished for mark in row_marks(row))


def crowded_threads(run: RunState, row: Row) -> str:
    """Return `32 threads on 16 cores` for a case of more CPU threads than cores it was allowed; empty for others."""
    cores = run.run.environment.get("affinity_cores") if run.run is not None else None
    is_crowded = isinstance(cores, int) and row.case.threads > cores
    return f"{row.case.threads} threads on {cores} cores" if is_crowded else ""


def remark(run: RunState, row: Row, common: Collection[str] = ()) -> str:
    """Return why there is no time, or what was odd about it and is not among the `common` marks."""
    if row.failure is not None:
        return f"{row.failure.kind}: {row.failure.message}"
    is_once = any(times.timed_once for times in row.times.values())
    remarks = [*(mark for mark in row_marks(row) if mark not in common), crowded_threads(run, row)]
    return ", ".join(filter(None, (*remarks, "1 sample" if is_once else "")))
