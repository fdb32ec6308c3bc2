"""The meaning of a row's numbers on this machine; derived from a run's state, never stored."""

from __future__ import annotations

from cpugpu_tui.analysis.roofline import Limit, Written, judge_clock, limit
from cpugpu_tui.decide.verdict import Comparison, compare
from cpugpu_tui.model import AS_WRITTEN, DEVICE, SYNCED, Ceilings
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.workloads.contract import REGISTRY
from cpugpu_tui.workloads.transfer import link_of


def ceilings_of(run: RunState, device_name: str) -> Ceilings | None:
    """Return the calibration of a device of the run; None without one.

    A GPU is matched by its UUID, a CPU by its name and, if possible, its threads.
    """
    device = next((found for found in run.devices if found.name == device_name), None)
    if run.run is None or device is None:
        return None
    same = [found for found in run.run.plan.ceilings if found.is_of(device)]
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
    hardware_ns = times.median_ns(DEVICE) or times.kernels_ns or times.latency_ns
    link = link_of(row.case.variant) if times.device != "cpu" and row.case.workload == "transfer" else None
    return limit(
        started.flops, started.bytes_moved, row.case.dtype, link, hardware_ns, times.latency_ns, ceilings
    )  # fmt: skip


def written(run: RunState, row: Row, times: DeviceTimes) -> Written | None:
    """Return the time by the paper's clock on one device, judged; None if no paper has this case."""
    printed, synced = times.median_ns(AS_WRITTEN), times.median_ns(SYNCED)
    if not printed or synced is None or row.started is None:
        return None
    return judge_clock(
        printed, synced, row.started.operations, times.latency_ns,
        row.started.flops, row.started.bytes_moved, row.case.dtype, ceilings_of(run, times.device),
    )  # fmt: skip


def clock_words(row: Row) -> tuple[str, str]:
    """Return the classes of the paper's clock and its scope, in words; empty if no paper has this workload."""
    workload = REGISTRY.get(row.case.workload)
    facts = workload.as_written if workload is not None else None
    return (", ".join(facts.classes), facts.scope) if facts is not None else ("", "")


def end_to_end(row: Row, metric: str) -> Comparison | None:
    """Return the GPU's speedup including copies (`PAGEABLE` or `PINNED`); None if it was not measured."""
    if row.cpu is None or row.gpu is None or row.status == "mismatch" or row.comparison is None:
        return None
    return compare(row.cpu.round_ns, row.gpu.other_round_ns.get(metric, {}), row.shared)
