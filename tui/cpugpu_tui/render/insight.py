"""What the numbers of a row mean on this machine: derived from a run's state, never stored."""

from __future__ import annotations

from collections.abc import Collection

from cpugpu_tui.analysis.roofline import Limit, Written, judge_clock, limit
from cpugpu_tui.decide.verdict import Comparison, compare, is_usable
from cpugpu_tui.model import AS_WRITTEN, DEVICE, NO_CORE, SYNCED, Ceilings
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import UNSAVED, Row, RunState
from cpugpu_tui.workloads.contract import REGISTRY
from cpugpu_tui.workloads.transfer import link_of

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
    "unsettled start": "the first calls had not settled to 1 % when their time was over",
    "damaged": "the database held numbers that no clock gives; they are left out",
    UNSAVED: "the history has not taken this row; it is kept in memory and saving is tried again",
    "not-converged": "time ran out before it was clear who wins (with one device: before its time was known to ±10 %)",
}
"""Marks in words; an unknown mark stands for itself."""


def ceilings_of(run: RunState, device_name: str) -> Ceilings | None:
    """Return what a device of the run reached in its calibration, None if it never had one.

    A GPU is known by its UUID, a CPU by its name and the threads in force.
    """
    device = next((found for found in run.devices if found.name == device_name), None)
    if run.run is None or device is None:
        return None
    same = [found for found in run.run.plan.ceilings if found.is_of(device)]
    if not same or device.uuid:
        return same[0] if same else None
    return next((found for found in same if found.threads == run.threads), same[0])


def row_limit(run: RunState, row: Row) -> Limit | None:
    """Return what limits a row: on the GPU where it has one, on the CPU otherwise."""
    times = row.gpu or row.cpu
    return None if times is None else device_limit(run, row, times)


def device_limit(run: RunState, row: Row, times: DeviceTimes) -> Limit | None:
    """Return what limits a row on one device."""
    ceilings, started = ceilings_of(run, times.device), row.started
    if ceilings is None or started is None or times.latency_ns is None or row.status == "mismatch":
        return None
    hardware_ns = times.median_ns(DEVICE) or times.kernels_ns or times.latency_ns
    link = link_of(row.case.variant) if times.device != "cpu" and row.case.workload == "transfer" else None
    return limit(
        started.flops, started.bytes_moved, row.case.dtype, link, hardware_ns, times.latency_ns, ceilings
    )  # fmt: skip


def written(run: RunState, row: Row, times: DeviceTimes) -> Written | None:
    """Return the publication's time on one device, judged; None where nobody published this."""
    printed, synced = times.median_ns(AS_WRITTEN), times.median_ns(SYNCED)
    if not printed or synced is None or row.started is None:
        return None
    return judge_clock(
        printed, synced, row.started.operations, times.latency_ns,
        row.started.flops, row.started.bytes_moved, row.case.dtype, ceilings_of(run, times.device),
    )  # fmt: skip


def clock_words(row: Row) -> tuple[str, str]:
    """Return the classes of the publication's clock and its scope, in words; empty for what nobody published."""
    workload = REGISTRY.get(row.case.workload)
    facts = workload.as_written if workload is not None else None
    return (", ".join(facts.classes), facts.scope) if facts is not None else ("", "")


def end_to_end(row: Row, metric: str) -> Comparison | None:
    """Return the GPU's speed-up when data starts and ends on the host (`PAGEABLE` or `PINNED`), None without it."""
    if row.cpu is None or row.gpu is None or row.status == "mismatch" or row.comparison is None:
        return None
    return compare(row.cpu.round_ns, row.gpu.other_round_ns.get(metric, {}))


def row_marks(row: Row) -> list[str]:
    """Return the marks of a row's half-rounds, and whether its warm-up had not settled."""
    unstable = any(not times.is_settled for times in row.times.values())
    marks = dict.fromkeys(mark for times in row.times.values() for mark in device_marks(row, times))
    return [*marks, *(["unsettled start"] if unstable else []), *([] if row.saved else [UNSAVED])]


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


def allowed_cores(run: RunState) -> int | None:
    """Return the CPU cores that the run was allowed to use, None where that is not known."""
    found = run.run.environment.get("affinity_cores") if run.run is not None else None
    return found if isinstance(found, int) else None


def remark(row: Row, cores: int | None, common: Collection[str] = ()) -> str:
    """Return why there is no time, or what was odd about it and is not among the `common` marks."""
    if row.failure is not None:
        return f"{row.failure.kind}: {row.failure.message}"
    remarks = [mark for mark in row_marks(row) if mark not in common]
    if cores is not None and row.case.threads > cores:
        remarks.append(f"{row.case.threads} threads on {cores} cores")
    if any(times.timed_once for times in row.times.values()):
        remarks.append("1 sample")
    return ", ".join(remarks)
