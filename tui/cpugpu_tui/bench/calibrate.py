"""What the devices of this machine can do at most, and what it costs to ask them: measured, never a data sheet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cpugpu_tui.analysis.line_fit import fit_line
from cpugpu_tui.bench.control import Control
from cpugpu_tui.bench.emitter import Emit
from cpugpu_tui.bench.gauges import Gauge
from cpugpu_tui.bench.timers import GAP_MS, leave_gap
from cpugpu_tui.model import ITEMSIZE_BYTES, Ceilings, CeilingsMeasured, Line, Progressed

FIRST_N = 512
LARGEST_N = 8192
"""Products grow from the first to at most the largest: beyond 8192 no rate of an H200 grew."""

GROWTH = 1.03
"""Doubling n goes on while the rate still grows by more than this."""

PRODUCT_NS = 0.6e9
"""A product that would take longer is not tried: a CPU's calibration stays near 15 s."""

HOPELESS_NS = 0.3e9
"""A first product slower than this (float16 on most CPUs) ends its dtype there."""

MEMORY_SHARE = 1 / 8
"""Most of the free memory that one measurement takes."""

LARGEST_COPY = 1 << 30
SMALLEST_COPY = 1 << 24

TRANSFER_SIZES = tuple(4**k for k in range(1, 15))
"""4 B to 256 MiB."""


def calibrate(
    gauge: Gauge, environment: dict[str, Any], emit: Emit, control: Control, *, gaps: bool = False
) -> Ceilings | None:
    """Measure one device's ceilings and costs; None if a stop was asked for on the way."""
    products: dict[str, tuple[int, float]] = {}
    for dtype in gauge.dtypes:
        found = largest_product(
            gauge, dtype, _teller(gauge, emit, f"{dtype} product", gaps=gaps), lambda: control.stopping
        )
        if found is not None:
            products[dtype] = found
    tell = _teller(gauge, emit, "copy", gaps=gaps)
    copy_bytes = copy_size(gauge.free_bytes())
    tell(copy_bytes)
    copy_ns = gauge.copy_ns(copy_bytes)
    transfers = {direction: _transfer(gauge, direction, emit, control, gaps=gaps) for direction in gauge.directions}
    tell(0)
    ceilings = Ceilings(
        device=gauge.device.name,
        label=gauge.device.label,
        uuid=gauge.device.uuid,
        hostname=str(environment.get("hostname")),
        torch=str(environment.get("torch") or ""),
        measured_wall_ns=time.time_ns(),
        threads=gauge.threads(),
        flops={dtype: rate for dtype, (_, rate) in products.items()},
        matmul_sizes={dtype: n for dtype, (n, _) in products.items()},
        copy_bytes_per_s=2e9 * copy_bytes / copy_ns,
        copy_bytes=copy_bytes,
        launch_ns=gauge.launch_ns(),
        synchronize_ns=gauge.synchronize_ns(),
        round_trip_ns=gauge.round_trip_ns(),
        transfers={name: line for name, line in transfers.items() if line is not None},
        simulated=gauge.device.simulated,
    )
    gauge.release()
    if control.stopping:
        return None
    emit(CeilingsMeasured(ceilings=ceilings))
    emit.flush()
    return ceilings


def largest_product(
    gauge: Gauge, dtype: str, tell: Callable[[int], None], over: Callable[[], bool]
) -> tuple[int, float] | None:
    """Return (n, FLOP/s) of the fastest product, doubling n while that helps; None where the dtype does not run."""
    best: tuple[int, float] | None = None
    n = FIRST_N
    while n <= LARGEST_N and 3 * n * n * ITEMSIZE_BYTES[dtype] <= MEMORY_SHARE * gauge.free_bytes() and not over():
        tell(n)
        try:
            elapsed_ns = gauge.matmul_ns(dtype, n)
        except RuntimeError:  # not implemented for this dtype, or no memory after all
            break
        rate = 2e9 * n**3 / elapsed_ns
        grew = best is None or rate > GROWTH * best[1]
        if best is None or rate > best[1]:
            best = n, rate
        # A GPU's largest products come last; a step without growth there is a tile that does not fit.
        if (not grew and n >= 4096) or elapsed_ns > HOPELESS_NS or 8 * elapsed_ns > PRODUCT_NS:
            break
        n *= 2
    return best


def copy_size(free_bytes: float) -> int:
    """Return how much to copy: 1 GiB, or what an eighth of the free memory holds twice."""
    size = LARGEST_COPY
    while size > SMALLEST_COPY and 2 * size > MEMORY_SHARE * free_bytes:
        size //= 2
    return size


def _transfer(gauge: Gauge, direction: str, emit: Emit, control: Control, *, gaps: bool) -> Line | None:
    points = []
    tell = _teller(gauge, emit, direction.replace("_", " "), gaps=gaps)
    for size in TRANSFER_SIZES:
        if control.stopping or size > MEMORY_SHARE * gauge.free_bytes():
            break
        tell(size)
        points.append((float(size), gauge.transfer_ns(direction, size)))
    return fit_line(points) if len(points) > 1 else None


def _teller(gauge: Gauge, emit: Emit, what: str, *, gaps: bool) -> Callable[[int], None]:
    """Return what announces each step of a measurement, and leaves a user interface the time to say so."""

    def tell(size: int) -> None:
        note = f"{what} {size:,}" if size else "launch and wait"
        emit(Progressed(case="", device=gauge.device.name, phase="calibration", note=note))
        emit.flush()
        if gaps:
            leave_gap(GAP_MS)

    return tell
