"""What limits an operation, its share of this machine's peak rates, and which printed times are impossible.

The roofline model (Williams, Waterman, Patterson, CACM 2009): an operation of F FLOPs and B bytes takes at least
max(F / peak rate, B / peak bandwidth). The peak rates come from this machine's calibration, never from a data sheet.
"""

from __future__ import annotations

from dataclasses import dataclass

from cpugpu_tui.model import Ceilings

COMPUTE, MEMORY, LAUNCH, CALL, TRANSFER = "compute", "memory", "launch", "call", "transfer"

TOO_SMALL = 0.05
"""Below this share of both peak rates an operation is limited by its start, not by them."""

LAUNCH_SHARE = 0.5
"""If kernel time is less than this share of the latency, launch overhead and waiting are most of the time."""


@dataclass(frozen=True)
class Limit:
    """What an operation would need more of to be faster."""

    kind: str
    """`compute`, `memory`, `transfer`, or the start of the work: `launch` on a GPU, `call` on a CPU."""
    share: float | None
    """Share of the peak rate that was reached; None for `launch` and `call`, which have none."""


def least_ns(flops: float, bytes_moved: float, dtype: str, ceilings: Ceilings) -> tuple[str, float] | None:
    """Return the binding limit and the least time, ns; None if a needed peak rate was not measured."""
    bounds = []
    if flops:
        # Without a tf32 rate the float32 rate stands in, as on CPUs.
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
    """Return what limits an operation of kernel time `hardware_ns` and latency `latency_ns`.

    None if the deciding peak rate was not measured.
    """
    if link is not None:
        line = ceilings.transfers.get(link)
        if line is not None:
            # A small copy is mostly start-up, and its low share of the bandwidth shows that.
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
    """Time by the paper's clock."""
    clock_factor: float
    """The paper's error: how many times longer the same work takes when that clock waits for the GPU."""
    scope_factor: float | None
    """How many times longer that time is than the operations alone; None without their latency."""
    impossible_factor: float | None
    """How many times shorter the printed time is than this machine's least time; None if possible or unknown."""
    implied: str = ""
    """The rate that an impossible printed time implies."""


def judge_clock(
    printed_ns: float, synced_ns: float, operations: int, latency_ns: float | None,
    flops: float, bytes_moved: float, dtype: str, ceilings: Ceilings | None,
) -> Written:  # fmt: skip
    """Return a printed time, judged; `operations` calls with these FLOPs and bytes each were inside the clock."""
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
