"""What limits an operation, how close it comes to what this machine was seen to do, and which printed time cannot be.

The roofline model (Williams, Waterman, Patterson, CACM 2009): an operation of F FLOPs and B bytes takes at least
max(F / peak rate, B / peak bandwidth). The peaks here are this machine's own calibration, never a data sheet.
"""

from __future__ import annotations

from dataclasses import dataclass

from cpugpu_tui.model import Ceilings

COMPUTE, MEMORY, LAUNCH, CALL, TRANSFER = "compute", "memory", "launch", "call", "transfer"

TOO_SMALL = 0.05
"""Below this share of either ceiling an operation is too small to be limited by it: starting it is what it costs."""

LAUNCH_SHARE = 0.5
"""Where the hardware works for less than half of what a caller waits, launching and waiting are most of the time."""


@dataclass(frozen=True)
class Limit:
    """What an operation would need more of, to be faster."""

    kind: str
    """`compute`, `memory`, `transfer`, or what starting the work costs: `launch` on a GPU, `call` on a CPU."""
    share: float | None
    """Share of that ceiling that was reached; None for launches and calls, which have none."""


def least_ns(flops: float, bytes_moved: float, dtype: str, ceilings: Ceilings) -> tuple[str, float] | None:
    """Return what binds and the least time, ns; None where the ceiling that it needs was not measured."""
    bounds = []
    if flops:
        # `float32` products of a CPU and of a GPU differ by dtype only where both were calibrated.
        rate = ceilings.flops.get(dtype) or (ceilings.flops.get("float32") if dtype == "tf32" else None)
        if rate is None:
            return None
        bounds.append((COMPUTE, flops / rate * 1e9))
    if bytes_moved and ceilings.copy_bytes_per_s:
        bounds.append((MEMORY, bytes_moved / ceilings.copy_bytes_per_s * 1e9))
    return max(bounds, key=lambda bound: bound[1], default=None)


def limit(
    flops: float, bytes_moved: float, dtype: str, link: str | None, hardware_ns: float, latency_ns: float,
    ceilings: Ceilings,
) -> Limit | None:  # fmt: skip
    """Return what limits an operation that its device needs `hardware_ns` for and a caller waits `latency_ns` for.

    None where the ceiling that decides was not measured.
    """
    if link is not None:
        line = ceilings.transfers.get(link)
        if line is not None:
            # A small copy is all start-up: the share of the bandwidth says so.
            return Limit(TRANSFER, bytes_moved / line.bytes_per_s * 1e9 / latency_ns)
    if ceilings.synchronize_ns is not None and hardware_ns < LAUNCH_SHARE * latency_ns:
        return Limit(LAUNCH, None)
    bound = least_ns(flops, bytes_moved, dtype, ceilings)
    if bound is None:
        return None
    share = bound[1] / hardware_ns
    if share < TOO_SMALL:
        return Limit(CALL if ceilings.synchronize_ns is None else LAUNCH, None)
    return Limit(bound[0], share)


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


def judge_clock(
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
