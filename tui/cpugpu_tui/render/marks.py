"""The marks of a row, their meanings, and the remark in a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from cpugpu_tui.decide.verdict import is_usable
from cpugpu_tui.model import NO_CORE
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import UNSAVED, Row, RunState

UNSETTLED = "unsettled start"
"""Mark of a row whose warm-up had not settled; `UNSETTLED_CODE` in exports, where blanks separate marks."""
UNSETTLED_CODE = UNSETTLED.replace(" ", "-")

MARK_WORDS = {
    "starved": "the GPU ran out of queued work, so the sample was repeated with a longer queue",
    "launch-bound": "the GPU waited for launches, so kernel time could not be measured alone",
    "clock-unsettled": "the GPU's clock had not settled before the round",
    "page-faults": "the system mapped memory during timing",
    "throttled": "the GPU lowered its clocks during timing",
    "power-capped": "the GPU was at its power limit, which is normal under load",
    "shared-gpu": "another process used the GPU",
    NO_CORE: "threads waited for a CPU core, so there is no winner",
    "one-thread": "only one CPU thread was used, although the machine has more cores",
    "denormals": "denormal numbers were not flushed to zero, which can make a CPU up to 187× slower",
    "tf32-on": "TF32 was switched on from outside, so these are not float32 products",
    "lower-precision": "the code computed in a smaller float type than its inputs have",
    UNSETTLED: "call times still varied by more than 1 % when warm-up ended",
    "damaged": "the database held impossible times, which are left out",
    UNSAVED: "the row is not saved yet; it is kept in memory, and saving is retried",
    "not-converged": "time ran out before the winner was clear (with one device: before ± 10 % was reached)",
}
"""Mark → its meaning."""


def mark_words(mark: str) -> str:
    """Return what a mark means; a newer version may have marks that this one does not know."""
    return MARK_WORDS.get(mark, "a mark of a newer version")


def device_marks(row: Row, times: DeviceTimes) -> tuple[str, ...]:
    """Return the marks of a row on one device, with those of older versions corrected.

    Older versions marked rows `foreign-load` even on idle machines, and `not-converged` even with a clear winner.
    """
    marks = tuple(mark for mark in times.marks if mark != "foreign-load")
    if "not-converged" not in marks:
        return marks
    devices = sorted(row.times.values(), key=lambda each: each.device != "cpu")
    usable = is_usable([each.round_ns for each in devices], row.shared, is_compared=row.comparison is not None)
    return tuple(mark for mark in marks if mark != "not-converged" or not usable)


def all_marks(row: Row, times: DeviceTimes) -> tuple[str, ...]:
    """Return the marks of a row on one device, including `UNSETTLED`."""
    return (*device_marks(row, times), *(() if times.is_settled else (UNSETTLED,)))


def row_marks(row: Row) -> list[str]:
    """Return the marks of a row on all its devices, including `UNSETTLED` and `UNSAVED`."""
    marks = dict.fromkeys(mark for times in row.times.values() for mark in device_marks(row, times))
    unsettled = [UNSETTLED] if any(not times.is_settled for times in row.times.values()) else []
    return [*marks, *unsettled, *([] if row.saved else [UNSAVED])]


def common_marks(run: RunState) -> Collection[str]:
    """Return the marks of more than half of the finished rows, which rows need not repeat."""
    finished, counts = _counted(run)
    return {mark for mark, count in counts.items() if finished > 2 and count > finished / 2}


def mark_lines(run: RunState) -> list[str]:
    """Return a sentence for each mark of finished rows: its count and its meaning."""
    finished, counts = _counted(run)
    return [f"{mark} in {count} of {finished} rows: {mark_words(mark)}." for mark, count in counts.items()]


def _counted(run: RunState) -> tuple[int, Mapping[str, int]]:
    """Return the number of finished rows, and mark → number of rows with it."""
    finished = [row for row in run.rows.values() if row.status == "ok"]
    return len(finished), Counter(mark for row in finished for mark in row_marks(row))


def crowded_threads(run: RunState, row: Row) -> str:
    """Return `32 threads on 16 cores` if a case had more CPU threads than allowed cores; empty otherwise."""
    cores = run.run.environment.get("affinity_cores") if run.run is not None else None
    is_crowded = isinstance(cores, int) and row.case.threads > cores
    return f"{row.case.threads} threads on {cores} cores" if is_crowded else ""


def remark(run: RunState, row: Row, common: Collection[str] = ()) -> str:
    """Return why there is no time, or the row's marks except the `common` ones."""
    if row.failure is not None:
        return f"{row.failure.kind}: {row.failure.message}"
    is_once = any(times.timed_once for times in row.times.values())
    remarks = [*(mark for mark in row_marks(row) if mark not in common), crowded_threads(run, row)]
    return ", ".join(filter(None, (*remarks, "1 sample" if is_once else "")))
