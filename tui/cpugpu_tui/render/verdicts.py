"""What a row's numbers mean: verdict, what limits it, marks and remark; derived from a run's state, never stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from cpugpu_tui import model
from cpugpu_tui.analysis.ceilings import Limit, Written, judge_clock, limit
from cpugpu_tui.decide.comparison import TIE, TOO_FEW, UNDECIDED, Comparison
from cpugpu_tui.render.crossover_words import reason_words
from cpugpu_tui.report import segments
from cpugpu_tui.report.report import is_known, judged
from cpugpu_tui.state.condition import WORD as NO_CORE_WORD
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.recorded_gpu import INTERPOLATED, NOT_RECORDED, lacks_recorded, neighbouring_sizes
from cpugpu_tui.state.row import UNSAVED, Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.workloads.contract import REGISTRY
from cpugpu_tui.workloads.transfer import link_of

UNSETTLED = "unsettled start"
"""Mark of a row whose warm-up had not settled; `UNSETTLED_CODE` in exports, where blanks separate marks."""
UNSETTLED_CODE = UNSETTLED.replace(" ", "-")

OPEN_MARKS = {
    segments.TOO_FEW: "few-rounds",
    segments.UNSURE: "unsure",
    segments.ONE_START: "one-start",
    segments.CLOSE: model.TOO_CLOSE,
    segments.NOISY: "too-noisy",
    segments.MARGIN: "tie-possible",
    segments.CONTRADICTED: "rounds-disagree",
    segments.NOT_CONVERGED: model.NOT_CONVERGED,
}
"""Reason of the report why a row has no winner → mark."""

MARK_WORDS = {
    "starved": "the GPU ran out of queued work, so the sample was repeated with a longer queue",
    "blocking": "each call waits for the GPU by itself, so kernel time could not be measured alone",
    "launch-bound": "the GPU waited for launches, so kernel time could not be measured alone",
    "other-stream": "the code uses a stream that the event clock does not see, so kernel time was not measured",
    "clock-unsettled": "the GPU's clock had not settled before the round",
    "page-faults": "the system mapped memory during timing",
    "throttled": "the GPU lowered its clocks during timing",
    "power-capped": "the GPU was at its power limit, which is normal under load",
    "shared-gpu": "another process used the GPU",
    model.NO_CORE: "threads waited for a CPU core, so the time is not reliable",
    "one-thread": "only one CPU thread was used, although the machine has more cores",
    "denormals": "denormal numbers were not flushed to zero, which can make a CPU up to 187× slower",
    "tf32-on": "TF32 was switched on from outside, so these are not float32 products",
    "lower-precision": "the code computed in a smaller float type than its inputs have",
    "higher-precision": "inputs or results of the code have a larger float type than the row's dtype",
    UNSETTLED: "call times still varied by more than 1 % when warm-up ended",
    "damaged": "the database held impossible times, which are left out",
    UNSAVED: "the row was not saved when the table was printed; the last line on stderr says if it was saved later",
    model.NOT_CONVERGED: "time ran out before the winner was clear (with one device: before ± 10 % was reached)",
    model.MOST_ROUNDS: "all rounds were used before ± 10 % was reached",
    model.TOO_CLOSE: "the 95 % interval contains 1 and lies within 0.91 to 1.1",
    "too-noisy": "the 95 % interval contains 1 and is wider than 0.91 to 1.1",
    "tie-possible": "the 95 % interval excludes 1, but not a tie, a difference below 2 %",
    "rounds-disagree": "its first rounds had a winner, which the later ones do not confirm",
    "few-rounds": "too few rounds to be sure of a winner",
    "one-start": "it has a winner within its one start, but starts of other sizes differ more: its interval is widened",
    model.RECORDED: "the GPU's times were recorded on another machine",
    INTERPOLATED: "the size lies between two recorded ones, where the recorded times show no step",
    NOT_RECORDED: "the GPU has no recorded time at this size, and none could be interpolated",
    "unsure": "its own rounds show a winner, which is not sure enough among so many sizes: its interval is widened",
}
"""Mark → its meaning."""

ENDS = {model.NOT_CONVERGED, model.MOST_ROUNDS, model.TOO_CLOSE}
"""Marks for the end of a row's rounds. With two devices, the report has the reason for a missing winner instead."""


def mark_words(mark: str) -> str:
    """Return what a mark means; a newer version may have marks that this one does not know."""
    return MARK_WORDS.get(mark, "a mark of a newer version")


def device_marks(row: Row, times: DeviceTimes) -> tuple[str, ...]:
    """Return the marks of a row on one device, with those of older versions corrected.

    Older versions marked rows `foreign-load` even on idle machines, and `not-converged` even with a clear winner.
    """
    left_out = {"foreign-load"}
    if ENDS & {*times.marks}:
        left_out |= ENDS if is_known(row) else set()
    return tuple(mark for mark in times.marks if mark not in left_out)


def all_marks(row: Row, times: DeviceTimes) -> tuple[str, ...]:
    """Return the marks of a row on one device, including `UNSETTLED`."""
    return (*device_marks(row, times), *(() if times.has_settled else (UNSETTLED,)))


def row_marks(run: RunState, row: Row) -> list[str]:
    """Return the marks of a row on all its devices, including `UNSETTLED`, `UNSAVED` and why it lacks a winner."""
    return [*_disturbances(run, row), *open_marks(run, row)]


def _disturbances(run: RunState, row: Row) -> list[str]:
    marks = dict.fromkeys(mark for times in row.times.values() for mark in device_marks(row, times))
    unsettled = [UNSETTLED] if any(not times.has_settled for times in row.times.values()) else []
    return [*marks, *unsettled, *([] if row.saved else [UNSAVED]),
            *([NOT_RECORDED] if lacks_recorded(run, row) else [])]  # fmt: skip


def open_marks(run: RunState, row: Row) -> list[str]:
    """Return why a finished row has no winner; empty if it has one or is equal."""
    mark = OPEN_MARKS.get(judged(run, row).reason) if row.status == "ok" else None
    return [mark] if mark else []


def common_marks(run: RunState) -> Collection[str]:
    """Return the marks of more than half of the finished rows, which rows need not repeat.

    A mark that says what kind of number a row has is repeated in each row.
    """
    finished, marked = _marked(run)
    most = {mark for mark, rows in marked.items() if finished > 2 and len(rows) > finished / 2}
    return most - {model.RECORDED, INTERPOLATED, NOT_RECORDED, model.NO_CORE}


def mark_lines(run: RunState, where: Callable[[str, Sequence[Row]], str] = lambda _mark, _rows: "") -> list[str]:
    """Return a sentence for each mark of finished rows, with its count, except why they have no winner.

    `where` says where the rows of a mark are.
    """
    finished, marked = _marked(run)
    cases = "cases" if len({row.case.threads for row in run.rows.values()}) > 1 else "rows"  # several in a row
    return [
        f"{mark} in {len(rows)} of {finished} timed {cases}{where(mark, rows)}: {mark_words(mark)}."
        + (_near_words(run, rows[0]) if mark == NOT_RECORDED else "")
        for mark, rows in marked.items()
    ]


def _near_words(run: RunState, row: Row) -> str:
    near = ",".join(map(str, neighbouring_sizes(run, row)))
    return f" The nearest recorded sizes to {row.case.size:,} are taken with --size {near}." if near else ""


def _marked(run: RunState) -> tuple[int, Mapping[str, Sequence[Row]]]:
    """Return the number of finished rows, and mark → rows with it."""
    finished, marked = [row for row in run.rows.values() if row.status == "ok"], dict[str, list[Row]]()
    for row in finished:
        for mark in _disturbances(run, row):
            marked.setdefault(mark, []).append(row)
    return len(finished), marked


def crowded_threads(run: RunState, row: Row) -> str:
    """Return `32 threads on 16 cores` if a case had more CPU threads than allowed cores; empty otherwise."""
    cores = run.facts.get("affinity_cores")
    is_crowded = isinstance(cores, int) and row.case.threads > cores
    return f"{row.case.threads} threads on {cores} cores" if is_crowded else ""


def remark(run: RunState, row: Row, common: Collection[str] = ()) -> str:
    """Return why there is no time, or the row's marks except the `common` ones."""
    if row.failure is not None:
        return f"{row.failure.kind}: {row.failure.message}"
    is_once = any(times.timed_once for times in row.times.values())
    open_words = reason_words(judged(run, row)) if open_marks(run, row) else ""
    remarks = [open_words, *(mark for mark in _disturbances(run, row) if mark not in common), crowded_threads(run, row)]
    return ", ".join(filter(None, (*remarks, "1 sample" if is_once else "")))


# ------------------------------------------------------------------ verdicts


PENDING, ACTIVE, TIMED, FAILED, SKIPPED = "pending", "active", "timed", "failed", "skipped"
"""Codes of outcomes in addition to those of `decide.comparison` and `NO_CORE`."""

NO_WINNER_WORDS = {TIE: "tie", UNDECIDED: "unclear", TOO_FEW: "too few"}
"""Verdicts that name no device, in at most seven cells."""

FAILURE_WORDS = {"oom": "OOM", "unsupported": "not here"}
"""Failures in at most eight cells; the others are called by their kind."""


class Outcome(NamedTuple):
    """The outcome of a row."""

    code: str
    """A verdict of `decide.comparison`, `NO_CORE`, or one of the codes above."""
    word: str


def winner(comparison: Comparison) -> str:
    """Return the faster device, or why there is none, in a word."""
    return comparison.faster or NO_WINNER_WORDS.get(comparison.verdict, comparison.verdict)


def failure_word(kind: str) -> str:
    """Return the word for a kind of failure."""
    return FAILURE_WORDS.get(kind, kind)


def outcome(run: RunState, row: Row) -> Outcome:
    """Return the winner or other outcome of a row; while it runs, the rounds done on every device."""
    if row.failure is not None:
        return Outcome(SKIPPED if row.failure.kind == "skipped" else FAILED, failure_word(row.failure.kind))
    if row.is_starved:
        return Outcome(model.NO_CORE, NO_CORE_WORD)
    found = judged(run, row).comparison
    if row.status in (ACTIVE, PENDING) and (found is None or found.low is None):
        return Outcome(row.status, _progress(row) if row.status == ACTIVE else "")
    return Outcome(TIMED, "timed") if found is None else Outcome(found.verdict, winner(found))


def _progress(row: Row) -> str:
    """Return `3 of 8` rounds."""
    calibrated = [times.calibrated for times in row.times.values() if times.calibrated is not None]
    had = min((len(times.round_ns) for times in row.times.values()), default=0)
    wanted = min((each.rounds for each in calibrated), default=0)
    if had >= wanted:  # further rounds run until the interval is narrow
        wanted = min((each.max_rounds or each.rounds for each in calibrated), default=0)
    return f"{had} of {wanted}" if wanted else "warm-up"


# ------------------------------------------------------------------ insight


def ceilings_of(run: RunState, device_name: str) -> model.Ceilings | None:
    """Return the calibration of a device of the run; None without one.

    A GPU is matched by its UUID, a CPU by its name and, if possible, its threads.
    """
    device = next((found for found in run.devices if found.name == device_name), None)
    if device is None:
        return None
    same = [found for found in run.plan.ceilings if found.is_of(device)]
    if not same or device.uuid:
        return same[0] if same else None
    return next((found for found in same if found.threads == run.threads), same[0])


def row_limit(run: RunState, row: Row) -> Limit | None:
    """Return what limits a row on the GPU, or on the CPU without a GPU."""
    times = row.gpu or row.cpu
    return None if times is None else device_limit(run, row, times)


def device_limit(run: RunState, row: Row, times: DeviceTimes) -> Limit | None:
    """Return what limits a row on one device."""
    ceilings, started = ceilings_of(run, times.device), row.started
    if ceilings is None or started is None or times.latency_ns is None or row.status == "mismatch":
        return None
    hardware_ns = times.median_ns(model.DEVICE) or times.kernels_ns or times.latency_ns
    link = link_of(row.case.variant) if times.device != "cpu" and row.case.workload == "transfer" else None
    return limit(started.flops, started.bytes_moved, row.case.dtype, link, hardware_ns, times.latency_ns, ceilings)


def written(run: RunState, row: Row, times: DeviceTimes) -> Written | None:
    """Return the time by the paper's clock on one device, judged; None if no paper has this case."""
    printed, synced = times.median_ns(model.AS_WRITTEN), times.median_ns(model.SYNCED)
    if not printed or synced is None or row.started is None:
        return None
    # A call on a CPU returns when it is done, so a rate above its peak only tells that the peak was measured too low.
    ceilings = None if times.device == "cpu" else ceilings_of(run, times.device)
    return judge_clock(
        printed, synced, row.started.operations, times.latency_ns,
        row.started.flops, row.started.bytes_moved, row.case.dtype, ceilings,
    )  # fmt: skip


def clock_words(row: Row) -> tuple[str, str]:
    """Return the classes of the paper's clock and its scope, in words; empty if no paper has this workload."""
    workload = REGISTRY.get(row.case.workload)
    facts = workload.as_written if workload is not None else None
    return (", ".join(facts.classes), facts.scope) if facts is not None else ("", "")
