"""The columns of every table of a run: heading, explanation, and what a row says in each, once for all faces.

Texts use UTF-8 signs except `us`, which every face spells with its own micro sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cpugpu_tui.analysis.energy import energy, joules_text
from cpugpu_tui.decide import verdict
from cpugpu_tui.model import AS_WRITTEN, DEVICE, PAGEABLE, Case
from cpugpu_tui.model.quantities import factor, percent, plus_minus, significant, time_text
from cpugpu_tui.render.insight import end_to_end, row_limit, written
from cpugpu_tui.render.verdicts import winner
from cpugpu_tui.state.core_contention import WORD as NO_CORE_WORD
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import Row, RunState, once
from cpugpu_tui.workloads.contract import REGISTRY


class Key:
    """Which column: what tables are indexed by."""

    CASE = "case"
    SIZE = "size"
    ON = "on"
    CPU = "cpu"
    GPU = "gpu"
    GPUS = "gpus"
    """A bar for each GPU, where there is no room for a column each."""
    KERNEL = "kernel"
    SPEEDUP = "speedup"
    PLUS_MINUS = "plus_minus"
    VERDICT = "verdict"
    MOVED = "moved"
    LIMIT = "limit"
    CPU_ENERGY = "cpu_energy"
    GPU_ENERGY = "gpu_energy"
    WRITTEN = "written"
    GFLOPS = "gflops"
    GBS = "gbs"
    ROUNDS = "rounds"
    REMARKS = "remarks"
    CHANGE = "change"
    """Against other runs on both devices; the next two on one."""
    CHANGE_CPU = "change-cpu"
    CHANGE_GPU = "change-gpu"
    SPREAD = "spread"
    """How far apart the runs of the series are."""


NONE = "–"
"""In place of a number that does not exist."""

IMPOSSIBLE = "impossible "
"""Stands before the factor of a publication's clock that shows more than the machine can do."""

WIDEST = 10.0
"""Half-widths from this on, ±1000 %, are shown as `> 999 %`: more says nothing."""

COLD, WARM = "cold kernels", "warm kernels"
"""Headings of the GPU's own time, which say whether its caches were cold."""


@dataclass(frozen=True)
class Column:
    """A column of the tables of runs."""

    key: str
    heading: str
    text: Callable[[RunState, Row], str] = lambda _run, _row: NONE
    """What a row of a run says in it; the row has one GPU at most. Each face draws the other columns itself."""
    meaning: str = ""
    """What help says of it."""
    is_words: bool = False
    """Whether it holds words, which stand left; numbers stand right."""


def kernels_heading(run: RunState) -> str:
    """Return the heading of the GPU's own time in a run."""
    return WARM if run.run is not None and run.run.plan.cache == "warm" else COLD


def time_text_on(row: Row, times: DeviceTimes | None) -> str:
    """Return the latency on a device with its unit."""
    if times is None or times.latency_ns is None or row.status == "mismatch":
        return NONE
    return time_text(times.latency_ns)


def _kernels(_run: RunState, row: Row) -> str:
    found = None if row.gpu is None or row.status == "mismatch" else row.gpu.median_ns(DEVICE)
    return NONE if found is None else time_text(found)


def _plus_minus(_run: RunState, row: Row) -> str:
    """Return half of the 95 % interval: of the speedup, or of the time where one device alone was timed.

    Where rounds are too few for an interval it says how many there were.
    """
    found = row.comparison
    if found is not None and found.plus_minus is None:
        return f"{found.rounds} round{'' if found.rounds == 1 else 's'}" if row.status == "ok" else NONE
    share = found.plus_minus if found is not None else alone_plus_minus(row)
    if share is None or math.isnan(share):
        return NONE
    return plus_minus(share) if share < WIDEST else "> 999 %"


def alone_plus_minus(row: Row) -> float | None:
    """Return the relative half-width of the time's 95 % interval where just one device was timed."""
    if len(row.times) != 1 or row.status == "mismatch":
        return None
    (times,) = row.times.values()
    return verdict.plus_minus(times.round_ns)


def rates(row: Row, times: DeviceTimes) -> tuple[float | None, float | None]:
    """Return GFLOP/s and GB/s on one device, of the GPU's own time where that is known; None for work of neither."""
    elapsed_ns, facts = times.median_ns(DEVICE) or times.latency_ns, row.started
    if facts is None or not elapsed_ns:
        return None, None
    return facts.flops / elapsed_ns or None, facts.bytes_moved / elapsed_ns or None


def _rate(row: Row, which: int) -> str:
    """Return a rate on the GPU, or on the CPU where there is none."""
    times = row.gpu or row.cpu
    found = None if times is None or row.status == "mismatch" else rates(row, times)[which]
    return NONE if found is None else significant(found)


def _with_copies(_run: RunState, row: Row) -> str:
    found = end_to_end(row, PAGEABLE)
    return NONE if found is None else factor(found.speedup)


def _faster(_run: RunState, row: Row) -> str:
    if row.comparison is None:
        return NO_CORE_WORD if row.is_starved else NONE
    return winner(row.comparison)


def _limited_by(run: RunState, row: Row) -> str:
    """Return what limits the row with the share of that ceiling: `memory 95 %`, `launch`."""
    found = row_limit(run, row)
    if found is None:
        return NONE
    return found.kind if found.share is None else f"{found.kind} {percent(found.share)} %"


def _papers_error(run: RunState, row: Row) -> str:
    """Return by how much the publication's clock shows too little."""
    times = row.gpu or row.cpu
    judged = written(run, row, times) if times is not None else None
    if judged is None:
        return NONE
    return (IMPOSSIBLE if judged.impossible_factor is not None else "") + factor(judged.clock_factor)


def joules(row: Row, times: DeviceTimes | None) -> float | None:
    """Return the energy of a call on a device; None where it was not measured or cannot be told."""
    return None if times is None or row.status == "mismatch" else energy(times.energy).joules_per_call.value


def _joules(row: Row, times: DeviceTimes | None) -> str:
    found = joules(row, times)
    return NONE if found is None else joules_text(found)


def _columns() -> Iterator[Column]:
    """Yield all columns, those of numbers that a row tells with how it does."""
    yield Column(Key.CASE, "case", is_words=True)
    yield Column(Key.SIZE, "size")
    yield Column(Key.ON, "on", is_words=True)
    yield Column(
        Key.CPU, "CPU", lambda _, row: time_text_on(row, row.cpu),
        "Latency: time of one call; on the GPU with the wait for its end. Median of the rounds. ~ in front: something"
        " disturbed it, {open} says what.",
    )  # fmt: skip
    yield Column(Key.GPU, "GPU", lambda _, row: time_text_on(row, row.gpu))
    yield Column(
        Key.GPUS, "GPUs", is_words=True,
        meaning="Several GPUs have a column each, or a bar each under GPUs: full height is 10 % over the median of its"
        " model. !: slow, over 5 % behind its like and an outlier among three; {open} has the numbers, and of transfer"
        " the copies between GPUs. The speedup is that of the first.",
    )  # fmt: skip
    yield Column(Key.KERNEL, COLD, _kernels, "The GPU's own work with cold caches, without launch and wait.")
    yield Column(
        Key.SPEEDUP, "speedup", lambda _, row: NONE if row.comparison is None else factor(row.comparison.speedup),
        "Time on the CPU divided by time on the GPU. Above 1 the GPU is faster.",
    )  # fmt: skip
    yield Column(
        Key.PLUS_MINUS, "±", _plus_minus,
        "Half of the 95 % interval of the speedup; with one device, of its time. Below five rounds there is no"
        " interval, and their number stands here.",
    )  # fmt: skip
    yield Column(
        Key.VERDICT, "faster", _faster,
        "GPU or CPU: the interval leaves no doubt. tie: it lies within 2 %. unclear: it allows either. A row in"
        " progress shows its rounds, a failed one what went wrong.", is_words=True,
    )  # fmt: skip
    yield Column(
        Key.MOVED, "with copies", _with_copies, "The speedup when data starts and ends in the host's ordinary memory."
    )
    yield Column(
        Key.LIMIT, "limited by", _limited_by,
        "What the row would need more of: compute or memory, with the share of what this machine reached on its card"
        " ({machine}); transfer: the cable; launch, call: starting the work costs more than the work.", is_words=True,
    )  # fmt: skip
    yield Column(Key.CPU_ENERGY, "CPU energy", lambda _, row: _joules(row, row.cpu))
    yield Column(Key.GPU_ENERGY, "GPU energy", lambda _, row: _joules(row, row.gpu))
    yield Column(
        Key.WRITTEN, "paper's error", _papers_error,
        "How far the publication's own clock is off: 53× shows 53 times too little. A ! before it: what it shows is"
        " more than this machine can do.",
    )  # fmt: skip
    yield Column(Key.GFLOPS, "GFLOP/s", lambda _, row: _rate(row, 0))
    yield Column(Key.GBS, "GB/s", lambda _, row: _rate(row, 1))
    yield Column(
        Key.CHANGE, "change CPU, GPU",
        meaning="CPU's and GPU's time against the series before of the same plan; the title names the runs. From three"
        " runs on each side a word: faster, slower, same, unclear (no clear change).",
    )  # fmt: skip
    yield Column(Key.CHANGE_CPU, "CPU change", is_words=True)
    yield Column(Key.CHANGE_GPU, "GPU change", is_words=True)
    yield Column(
        Key.SPREAD, "min-max %",
        meaning="Slowest run less fastest of this series, in percent of the median: 5 {run} makes five.",
    )  # fmt: skip
    yield Column(
        Key.ROUNDS, "rounds", is_words=True,
        meaning="The latencies of the rounds, CPU left, GPU right; full height is 10 % above the median.",
    )  # fmt: skip
    yield Column(Key.REMARKS, "remarks", is_words=True)


COLUMNS = {column.key: column for column in _columns()}
"""Key → column. The live table's widths stand in `ui/panes/timing_columns.py`."""


def is_words(key: str) -> bool:
    """Whether a column holds words; those beside `COLUMNS`, of one GPU or thread count each, hold numbers."""
    return key in COLUMNS and COLUMNS[key].is_words


def name_text(case: Case) -> str:
    """Return the workload, and its variant where it has several."""
    return case.workload if case.variant == "default" else f"{case.workload} {case.variant}"


@once
def has_paper(run: RunState) -> bool:
    """Whether the plan times something as a publication did, by that publication's clock."""
    plan = run.run.plan if run.run is not None and AS_WRITTEN in run.run.plan.metrics else None
    return plan is not None and any(_is_published(case, plan.scale) for case in plan.cases)


def _is_published(case: Case, scale: str) -> bool:
    workload = REGISTRY.get(case.workload)
    facts = workload.as_written if workload is not None else None
    return facts is not None and facts.covers(case.variant, case.size, scale)
