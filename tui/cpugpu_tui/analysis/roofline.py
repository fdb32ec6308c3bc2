"""What limits an operation, and how close it comes to what this machine was seen to do.

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
