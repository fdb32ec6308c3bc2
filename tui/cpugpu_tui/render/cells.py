"""What a row says in a table: headings and cells, the same in the app, on the terminal and in exports for people.

Cells use UTF-8 signs except `us`, which every face spells with its own micro sign.
"""

from __future__ import annotations

import math

from cpugpu_tui.decide import verdict
from cpugpu_tui.decide.verdict import TIE, TOO_FEW, UNDECIDED, Comparison
from cpugpu_tui.model import AS_WRITTEN, DEVICE, PAGEABLE, Case
from cpugpu_tui.model.quantities import factor, percent, plus_minus, significant, time_text
from cpugpu_tui.render.insight import end_to_end, row_limit, written
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.no_core import WORD as NO_CORE_WORD
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.workloads.contract import REGISTRY

SPEEDUP, PLUS_MINUS, FASTER, ROUNDS = "speedup", "±", "faster", "rounds"
WITH_COPIES, LIMITED_BY, PAPERS_ERROR = "with copies", "limited by", "paper's error"
"""Headings of the columns; `CPU` and `GPU` stand for themselves."""

NONE = "–"
"""In place of a number that does not exist."""

WIDEST = 10.0
"""Half-widths from this on, ±1000 %, are shown as `> 999 %`: more says nothing."""

NO_WINNER_WORDS = {TIE: "tie", UNDECIDED: "unclear", TOO_FEW: "too few"}
"""Verdicts that name no device, in at most seven cells."""


COLD, WARM = "cold kernels", "warm kernels"
"""Headings of the GPU's own time, which say whether its caches were cold."""


def kernels_heading(run: RunState) -> str:
    """Return the heading of the GPU's own time in a run."""
    return WARM if run.run is not None and run.run.plan.cache == "warm" else COLD


def variant_text(case: Case) -> str:
    """Return the variant, empty where the workload has just one."""
    return "" if case.variant == "default" else case.variant


def name_text(case: Case) -> str:
    """Return the workload and its variant."""
    return f"{case.workload} {variant_text(case)}".rstrip()


def time_cell(row: Row, times: DeviceTimes | None) -> str:
    """Return the latency on a device with its unit."""
    if times is None or times.latency_ns is None or row.status == "mismatch":
        return NONE
    return time_text(times.latency_ns)


def kernels_cell(row: Row) -> str:
    """Return the GPU's own time of a call, without launch and synchronisation."""
    found = None if row.gpu is None or row.status == "mismatch" else row.gpu.median_ns(DEVICE)
    return NONE if found is None else time_text(found)


def speedup_cell(row: Row) -> str:
    """Return the GPU's speedup over the CPU."""
    return NONE if row.comparison is None else factor(row.comparison.speedup)


def plus_minus_cell(row: Row) -> str:
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


def rate_cells(row: Row) -> tuple[str, str]:
    """Return the GFLOP/s and GB/s that a row reaches on the GPU, or on the CPU where there is none."""
    times = row.gpu or row.cpu
    flops, bytes_moved = rates(row, times) if times is not None and row.status != "mismatch" else (None, None)
    return NONE if flops is None else significant(flops), NONE if bytes_moved is None else significant(bytes_moved)


def rates(row: Row, times: DeviceTimes) -> tuple[float | None, float | None]:
    """Return GFLOP/s and GB/s on one device, of the GPU's own time where that is known; None for work of neither."""
    elapsed_ns, facts = times.median_ns(DEVICE) or times.latency_ns, row.started
    if facts is None or not elapsed_ns:
        return None, None
    return facts.flops / elapsed_ns or None, facts.bytes_moved / elapsed_ns or None


def with_copies_cell(row: Row) -> str:
    """Return the speedup with data that starts and ends in the host's ordinary memory."""
    found = end_to_end(row, PAGEABLE)
    return NONE if found is None else factor(found.speedup)


def winner(comparison: Comparison) -> str:
    """Return which device is faster, or why none is, in a word."""
    return comparison.faster or NO_WINNER_WORDS.get(comparison.verdict, comparison.verdict)


def faster_cell(row: Row) -> str:
    """Return which device is faster in a word."""
    if row.comparison is None:
        return NO_CORE_WORD if row.is_starved else NONE
    return winner(row.comparison)


def limited_by_cell(run: RunState, row: Row) -> str:
    """Return what limits the row with the share of that ceiling: `memory 95 %`, `launch`."""
    found = row_limit(run, row)
    if found is None:
        return NONE
    return found.kind if found.share is None else f"{found.kind} {percent(found.share)} %"


def papers_error_cell(run: RunState, row: Row, impossible: str) -> str:
    """Return by how much the publication's clock shows too little, with a mark where the machine cannot be so fast."""
    times = row.gpu or row.cpu
    judged = written(run, row, times) if times is not None else None
    if judged is None:
        return NONE
    return (impossible if judged.impossible_factor is not None else "") + factor(judged.clock_factor)


def has_paper(run: RunState) -> bool:
    """Whether the plan times something as a publication did, by that publication's clock."""
    if "has paper" not in run.derived:
        plan = run.run.plan if run.run is not None and AS_WRITTEN in run.run.plan.metrics else None
        run.derived["has paper"] = plan is not None and any(_is_published(case, plan.scale) for case in plan.cases)
    found: bool = run.derived["has paper"]
    return found


def _is_published(case: Case, scale: str) -> bool:
    workload = REGISTRY.get(case.workload)
    facts = workload.as_written if workload is not None else None
    return facts is not None and facts.covers(case.variant, case.size, scale)
