"""What a publication's clock would have printed, beside what is true."""

from __future__ import annotations

from dataclasses import dataclass

from cpugpu_tui.analysis.roofline import least_ns
from cpugpu_tui.model import Ceilings


@dataclass(frozen=True)
class Written:
    """One `as_written` time, judged."""

    printed_ns: float
    """What the publication's clock shows."""
    clock_factor: float
    """How many times longer the same takes when the clock waits for the device."""
    scope_factor: float | None
    """How many times longer the waited-for time is than the operations alone; None without their latency."""
    impossible_factor: float | None
    """By how much the printed time exceeds what this machine can do at most; None if it does not, or if unknown."""
    implied: str = ""
    """The rate that the printed time would mean, where it is impossible."""


def judge(
    printed_ns: float, synced_ns: float, operations: int, latency_ns: float | None,
    flops: float, bytes_moved: float, dtype: str, ceilings: Ceilings | None,
) -> Written:  # fmt: skip
    """Return what a printed time is worth: `operations` calls of so many FLOPs and bytes were inside the clock."""
    scope = synced_ns / (operations * latency_ns) if operations and latency_ns else None
    judged = Written(printed_ns, synced_ns / printed_ns, scope, None)
    bound = least_ns(flops, bytes_moved, dtype, ceilings) if ceilings is not None else None
    if bound is None or not operations:
        return judged
    kind, least = bound
    factor = operations * least / printed_ns
    if factor <= 1.0:
        return judged
    rate = operations * (flops if kind == "compute" else bytes_moved) / (printed_ns / 1e9)
    implied = f"{rate / 1e12:,.4g} {'TFLOP/s' if kind == 'compute' else 'TB/s'}"
    return Written(printed_ns, judged.clock_factor, scope, factor, implied)
