"""The columns of every table of a run: heading, explanation and cell text, shared by all faces.

Texts use UTF-8 characters except `us`, which each face converts to its own micro sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cpugpu_tui.analysis.ceilings import LEAST_SHARE
from cpugpu_tui.analysis.costs import END_TO_END, energy, joules_text
from cpugpu_tui.decide.stats import percentile
from cpugpu_tui.model import DEVICE, LATENCY
from cpugpu_tui.model.quantities import (
    count_of,
    factor,
    of_peak,
    plus_minus,
    share_text,
    significant,
    time_span,
    time_text,
)
from cpugpu_tui.render.crossover_words import NARROW, WIDE, interval_text
from cpugpu_tui.render.verdicts import row_limit, winner, written
from cpugpu_tui.report.report import alone_plus_minus, judged
from cpugpu_tui.state.condition import WORD as NO_CORE_WORD
from cpugpu_tui.state.device_times import ENOUGH_FOR_TAILS, DeviceTimes
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState


class Key:
    """Keys of columns."""

    CASE = "case"
    SIZE = "size"
    ON = "on"
    CPU = "cpu"
    GPU = "gpu"
    GPUS = "gpus"
    """A bar for each GPU, if a column each does not fit."""
    KERNEL = "kernel"
    SPEEDUP = "speedup"
    PLUS_MINUS = "plus_minus"
    VERDICT = "verdict"
    MOVED = "moved"
    LIMIT = "limit"
    CPU_ENERGY = "cpu_energy"
    GPU_ENERGY = "gpu_energy"
    CPU_P99 = "cpu_p99"
    GPU_P99 = "gpu_p99"
    WRITTEN = "written"
    GFLOPS = "gflops"
    GBS = "gbs"
    ROUNDS = "rounds"
    REMARKS = "remarks"
    CHANGE = "change"
    """Change on both devices against other runs; the next two are for one device."""
    CHANGE_CPU = "change-cpu"
    CHANGE_GPU = "change-gpu"
    SPREAD = "spread"
    """Spread of the runs of the series."""


NONE = "–"
"""Shown for a missing number."""

IMPOSSIBLE = "impossible "
"""Prefix of the paper's error if the printed time is shorter than this machine can reach."""

COLD, WARM = "cold kernels", "warm kernels"
"""Headings of kernel time, by the state of the caches."""


class Column(NamedTuple):
    """A column of the tables of runs."""

    key: str
    heading: str
    text: Callable[[RunState, Row], str] = lambda _run, _row: NONE
    """Returns the cell of a row with at most one GPU. Each face draws the columns without it itself."""
    meaning: str = ""
    """Its explanation in the help."""
    is_words: bool = False
    """Whether it holds words, aligned left; numbers are aligned right."""


def kernels_heading(run: RunState) -> str:
    """Return the heading of kernel time in a run."""
    return WARM if run.plan.cache == "warm" else COLD


def time_text_on(row: Row, times: DeviceTimes | None) -> str:
    """Return the latency on a device with its unit."""
    if times is None or times.latency_ns is None or row.status == "mismatch":
        return NONE
    return time_text(times.latency_ns)


def _kernels(_run: RunState, row: Row) -> str:
    found = None if row.gpu is None or row.status == "mismatch" else row.gpu.median_ns(DEVICE)
    return NONE if found is None else time_text(found)


def _plus_minus(run: RunState, row: Row) -> str:
    """Return the 95 % interval of the speedup, or of the time if the run times only one device.

    With too few rounds for an interval it is the number of rounds. It is in brackets if it is of one of several starts.
    """
    found = judged(run, row).comparison
    if found is not None and found.low is None:
        return count_of(found.rounds, "round") if row.status == "ok" else NONE
    if found is not None:
        text = interval_text(found) or NONE
        return f"({text})" if is_of_one_start(run, row) else text
    is_alone = len(run.devices) < 2 and not row.is_starved  # `± 2.1 %` stood in a row without a speedup
    share = alone_plus_minus(row) if is_alone else None
    return NONE if share is None or math.isnan(share) else time_interval(next(iter(row.times.values())), share)


def is_of_one_start(run: RunState, row: Row) -> bool:
    """Return whether a row's interval holds within one of the run's several starts."""
    found = judged(run, row).comparison if run.starts > 1 else None
    return found is not None and bool(interval_text(found)) and not found.covers_starts


def time_interval(times: DeviceTimes, share: float) -> str:
    """Return the interval of a latency: `± 4.2 %`, above ± 10 % both ends, `3.21–4.10 µs`.

    Six samples of a command that differed by two had an interval over a factor of 4,000, so above `WIDE` it is the
    number of rounds.
    """
    if (1 + share) ** 2 > WIDE:
        later = (metrics.get(LATENCY, ()) for metrics in times.later.values())
        return count_of(sum(map(len, (times.round_ns, *later))), "round")
    if share <= NARROW or times.latency_ns is None:
        return plus_minus(share)
    return time_span(times.latency_ns / (1 + share), times.latency_ns * (1 + share))


def rates(row: Row, times: DeviceTimes) -> tuple[float | None, float | None]:
    """Return GFLOP/s and GB/s on one device, by kernel time if known; None for work without FLOPs or bytes."""
    elapsed_ns, facts = times.median_ns(DEVICE) or times.latency_ns, row.started
    if facts is None or not elapsed_ns:
        return None, None
    return facts.flops / elapsed_ns or None, facts.bytes_moved / elapsed_ns or None


def _rate(row: Row, which: int) -> str:
    """Return a rate on the GPU, or on the CPU without a GPU."""
    times = row.gpu or row.cpu
    found = None if times is None or row.status == "mismatch" else rates(row, times)[which]
    return NONE if found is None else significant(found)


def _speedup(run: RunState, row: Row) -> str:
    found = judged(run, row).comparison
    return NONE if found is None else factor(found.speedup)


def _with_copies(run: RunState, row: Row) -> str:
    found = judged(run, row, END_TO_END)
    if found.comparison is None:
        return NONE
    return f"{'? ' if found.is_open else ''}{factor(found.comparison.speedup)}"


def _faster(run: RunState, row: Row) -> str:
    found = judged(run, row).comparison
    if found is None:
        return NO_CORE_WORD if row.is_starved else NONE
    return winner(found)


def _limited_by(run: RunState, row: Row) -> str:
    """Return what limits the row, with the share of that peak rate: `memory 95 %`, `compute peak`, `launch`.

    `compute at peak` was cut to `compute at p…` in the app's table at 120 columns.
    """
    found = row_limit(run, row)
    if found is None:
        return NONE
    return found.kind if found.share is None else f"{found.kind} {of_peak(found.share, at_peak='peak')}"


def _papers_error(run: RunState, row: Row) -> str:
    """Return the paper's error."""
    times = row.gpu or row.cpu
    judged = written(run, row, times) if times is not None else None
    if judged is None:
        return NONE
    return (IMPOSSIBLE if judged.impossible_factor is not None else "") + factor(judged.clock_factor)


def joules(row: Row, times: DeviceTimes | None) -> float | None:
    """Return the energy of a call on a device, J; None if it is not known."""
    return None if times is None or row.status == "mismatch" else energy(times.energy).joules_per_call.value


def _joules(row: Row, times: DeviceTimes | None) -> str:
    found = joules(row, times)
    return NONE if found is None else joules_text(found)


def _p99(row: Row, times: DeviceTimes | None) -> str:
    singles = () if times is None or row.status == "mismatch" else times.single_calls_ns
    return time_text(percentile(singles, 99)) if len(singles) >= ENOUGH_FOR_TAILS else NONE


def _columns() -> Iterator[Column]:
    """Yield all columns."""
    yield Column(Key.CASE, "case", is_words=True)
    yield Column(Key.SIZE, "size")
    yield Column(Key.ON, "on", is_words=True)
    yield Column(
        Key.CPU, "CPU", lambda _, row: time_text_on(row, row.cpu),
        "Latency of one call, including the wait for the GPU. Median of the rounds. ~ marks a disturbed time; {open}"
        " shows the cause.",
    )  # fmt: skip
    yield Column(Key.GPU, "GPU", lambda _, row: time_text_on(row, row.gpu))
    yield Column(
        Key.GPUS, "GPUs", is_words=True,
        meaning="Several GPUs have a column each, or a bar each under GPUs. A full bar is 10 % above the median of its"
        " model. ! marks a slow GPU: over 5 % slower than its model, and an outlier among three or more. {open} shows"
        " the numbers and, for transfer, copies between GPUs. The speedup is the first GPU's.",
    )  # fmt: skip
    yield Column(Key.KERNEL, COLD, _kernels, "Kernel time with empty caches, without launch and wait.")
    yield Column(Key.SPEEDUP, "speedup", _speedup, "CPU latency divided by GPU latency. Above 1 the GPU is faster.")
    yield Column(
        Key.PLUS_MINUS, "95 % interval", _plus_minus,
        "Of the speedup; with one device, of its time. It is about the mean of other starts of the process, or holds"
        " within this start; a sentence below the table says which. In brackets: within one of several starts. Above"
        " ± 10 % both ends. Where the rounds are too few for an interval, or for one of a time within a factor of 10,"
        " their number.",
    )  # fmt: skip
    yield Column(
        Key.VERDICT, "faster", _faster,
        "GPU or CPU: this device clearly wins. tie: equally fast within 2 %. unclear: no winner, {open} shows why. A"
        " running row shows its rounds, a failed row the failure.", is_words=True,
    )  # fmt: skip
    yield Column(
        Key.MOVED,
        "with copies",
        _with_copies,
        "Speedup if data starts and ends in pageable host memory. ? marks one without a winner.",
    )
    yield Column(
        Key.LIMIT, "limited by", _limited_by,
        "What the row needs more of. compute, memory: with the share of this machine's peak rate ({machine})."
        " transfer: PCIe. launch, call: starting the work takes longer than the work. neither peak: under"
        f" {share_text(LEAST_SHARE)} of both.", is_words=True,
    )  # fmt: skip
    yield Column(
        Key.CPU_ENERGY, "CPU energy", lambda _, row: _joules(row, row.cpu),
        "Energy of one call. `run --energy` measures it.",
    )  # fmt: skip
    yield Column(Key.GPU_ENERGY, "GPU energy", lambda _, row: _joules(row, row.gpu))
    yield Column(
        Key.CPU_P99, "CPU p99", lambda _, row: _p99(row, row.cpu),
        f"99 % of the calls were at least this fast. Needs {ENOUGH_FOR_TAILS} single calls.",
    )  # fmt: skip
    yield Column(Key.GPU_P99, "GPU p99", lambda _, row: _p99(row, row.gpu))
    yield Column(
        Key.WRITTEN, "paper's error", _papers_error,
        "How many times longer the work takes if the paper's clock waits for the GPU. ! marks a time that this machine"
        " cannot reach.",
    )  # fmt: skip
    yield Column(
        Key.GFLOPS, "GFLOP/s", lambda _, row: _rate(row, 0),
        "FLOPs of a call per second of kernel time, or of latency if that is not known. GB/s: bytes moved, likewise.",
    )  # fmt: skip
    yield Column(Key.GBS, "GB/s", lambda _, row: _rate(row, 1))
    yield Column(
        Key.CHANGE, "change CPU, GPU",
        meaning="Change of CPU and GPU time since the previous series of the same plan; the title names the runs. With"
        " 3 runs on each side also a verdict: faster, slower, same, unclear.",
    )  # fmt: skip
    yield Column(Key.CHANGE_CPU, "CPU change", is_words=True)
    yield Column(Key.CHANGE_GPU, "GPU change", is_words=True)
    yield Column(
        Key.SPREAD, "min-max %",
        meaning="Slowest minus fastest run of this series, in percent of the median. 5 {run} makes five runs.",
    )  # fmt: skip
    yield Column(
        Key.ROUNDS, "rounds", is_words=True,
        meaning="Latency of each round, CPU left, GPU right. Full height is 10 % above the median.",
    )  # fmt: skip
    yield Column(Key.REMARKS, "remarks", is_words=True)


COLUMNS = {column.key: column for column in _columns()}
"""Key → column. The live table's widths stand in `ui/panes/timing_columns.py`."""


def is_words(key: str) -> bool:
    """Whether a column holds words; columns of one GPU or thread count are not in `COLUMNS` and hold numbers."""
    return key in COLUMNS and COLUMNS[key].is_words
