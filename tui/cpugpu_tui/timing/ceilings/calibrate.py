"""What the devices of this machine can do at most, and what it costs to ask them: measured, never a data sheet."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cpugpu_tui.decide.stats import fit_line
from cpugpu_tui.errors import CpuGpuError, UnfitError
from cpugpu_tui.model import (
    CALIBRATION,
    ITEMSIZE_BYTES,
    Ceilings,
    CeilingsMeasured,
    Device,
    Gap,
    Line,
    Plan,
    Progressed,
)
from cpugpu_tui.timing.ceilings import Gauge
from cpugpu_tui.timing.control import Control
from cpugpu_tui.timing.emitter import Emit
from cpugpu_tui.timing.host_watch import lacks_core
from cpugpu_tui.timing.timers import GAP_MS, Machine, Stopwatch, leave_gap
from cpugpu_tui.timing.torch_devices import first_line

FIRST_N = 512
LARGEST_N = 8192
"""Products grow from the first to at most the largest: beyond 8192 no rate of an H200 grew."""

GROWTH = 1.03
"""Doubling n goes on while the rate still grows by more than this."""

SURELY_LARGE_N = 4096
"""Below this n a step without growth ends nothing: on a GPU it is a tile that does not fit, or the launch."""

PRODUCT_NS = 0.6e9
"""A product that would take longer is not tried: a CPU's calibration stays near 15 s."""

MEMORY_SHARE = 1 / 8
"""Most of the free memory that one measurement takes."""

AGAIN = 2
"""The fastest product and the copy are timed so often again, and the best stands: beside other programs on two cores
one measurement in four read half of the rate."""

AGAIN_NS = 0.15e9
"""Products slower than this are not timed again: types that a CPU only emulates would take seconds."""

LARGEST_COPY = 1 << 30
"""An H200 copies 128 MiB at 91 % of the rate that element-wise work of 400 MB reached: limits of 110 % were shown."""
QUICK_CPU_COPY = 1 << 27
SMALLEST_COPY = 1 << 24

TRANSFER_SIZES = tuple(4**k for k in range(1, 15))
"""4 B to 256 MiB."""

Tell = Callable[[str], None]
"""Announces the next step, in words; raises `_Over` instead if a stop was asked for."""


@dataclass(frozen=True)
class Effort:
    """How thorough a calibration is."""

    first_n: int = FIRST_N
    products_s: float | None = None
    """Time for the products of one dtype, their matrices included; None for no such limit."""
    again: int = AGAIN
    largest_copy: int = LARGEST_COPY
    transfer_sizes: tuple[int, ...] = TRANSFER_SIZES
    dtypes: tuple[str, ...] | None = None
    """Element types whose products are timed, as far as the device has them; None for all."""
    limit_s: float | None = None
    """After this time no further step begins, and what is not essential is left out; None for no limit."""


FULL = Effort()


def quick(dtypes: tuple[str, ...], limit_s: float, *, is_cpu: bool) -> Effort:
    """Return the effort that fits into `limit_s` on one device: the dtypes of a run, few sizes, no repeats.

    On two loaded cores of an EPYC at 75 GFLOP/s it took 0.6 s.
    """
    sizes = tuple(4**k for k in (1, 5, 8, 10, 12, 13))  # 4 B to 64 MiB
    return Effort(
        first_n=256, products_s=limit_s / 2, again=0, transfer_sizes=sizes,
        largest_copy=QUICK_CPU_COPY if is_cpu else LARGEST_COPY,
        dtypes=tuple(dict.fromkeys(("float32", *dtypes))), limit_s=limit_s,
    )  # fmt: skip


WAYS = {
    "h2d_pageable": "copies to the GPU, pageable memory",
    "h2d_pinned": "copies to the GPU, pinned memory",
    "d2h_pageable": "copies back, pageable memory",
    "d2h_pinned": "copies back, pinned memory",
}
"""Keys of `Ceilings.transfers` in words."""


class _Over(Exception):
    """A stop was asked for between two steps."""


def calibrate(
    gauge: Gauge, environment: dict[str, Any], emit: Emit, control: Control, *, gaps: bool = False
) -> Ceilings | None:
    """Measure one device in full and report it, as `measure` does."""
    ceilings = measure(gauge, environment, emit, control, gaps=gaps)
    if ceilings is not None:
        emit(CeilingsMeasured(ceilings=ceilings))
        emit.flush()
    return ceilings


def measure(
    gauge: Gauge, environment: dict[str, Any], emit: Emit, control: Control, effort: Effort = FULL, *,
    gaps: bool = False,
) -> Ceilings | None:  # fmt: skip
    """Return one device's ceilings and costs; None if a stop came before the last step. Its memory is given back.

    Raises:
        UnfitError: the device failed on the way, most likely for want of memory, or `effort.limit_s` was too short.
    """
    watch = Stopwatch()

    def is_late() -> bool:
        return effort.limit_s is not None and watch.elapsed_s() > effort.limit_s

    def tell(what: str) -> None:
        control.wait_while_paused()
        if control.stopping:
            raise _Over
        if is_late():
            raise UnfitError(
                f"{gauge.device.name} was not measured within {effort.limit_s:.1f} s.",
                "Measure it in full with cpugpu-tui machine --measure.",
            )
        if effort.limit_s is None:  # 20 gaps would take a third of the time of a quick one
            emit(Progressed(case="", device=gauge.device.name, phase=CALIBRATION, note=what))
            emit.flush()
            if gaps:
                leave_gap(GAP_MS)

    try:
        return _measured(gauge, environment, tell, effort, is_late)
    except _Over:
        return None
    except RuntimeError as error:
        raise UnfitError(
            f"{gauge.device.name} failed while it was measured: {first_line(error).rstrip('.')}.",
            "Free some of its memory, then measure again.",
        ) from error
    finally:
        gauge.release()


def _measured(
    gauge: Gauge, environment: dict[str, Any], tell: Tell, effort: Effort, is_late: Callable[[], bool]
) -> Ceilings:
    dtypes = gauge.dtypes if effort.dtypes is None else tuple(each for each in effort.dtypes if each in gauge.dtypes)
    products: dict[str, tuple[int, float]] = {}
    for dtype in dtypes:
        if not (products and is_late()) and (found := largest_product(gauge, dtype, tell, effort)) is not None:
            products[dtype] = found
    copy_bytes = min(copy_size(gauge.free_bytes()), effort.largest_copy)
    tell(f"copy of {copy_bytes >> 20:,} MiB")
    copy_ns = min(gauge.copy_ns(copy_bytes) for _ in range(1 + effort.again))
    tell("launch and wait")
    launch_ns, synchronize_ns, round_trip_ns = gauge.launch_ns(), gauge.synchronize_ns(), gauge.round_trip_ns()
    transfers: dict[str, Line] = {}
    for name in gauge.directions:
        if not is_late() and (line := cable(gauge, name, tell, effort.transfer_sizes)) is not None:
            transfers[name] = line
    return Ceilings(
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
        launch_ns=launch_ns,
        synchronize_ns=synchronize_ns,
        round_trip_ns=round_trip_ns,
        transfers=transfers,
        simulated=gauge.device.simulated,
        driver=environment.get("driver"),
        quick=effort.limit_s is not None,
    )


def largest_product(gauge: Gauge, dtype: str, tell: Tell, effort: Effort = FULL) -> tuple[int, float] | None:
    """Return (n, FLOP/s) of the fastest product, doubling n while that helps; None where the dtype does not run.

    A dtype that the device only emulates keeps the rate of its first product.
    """
    times_ns: dict[int, float] = {}
    best_n, n = 0, effort.first_n
    whole = Stopwatch()
    while n <= LARGEST_N and 3 * n * n * ITEMSIZE_BYTES[dtype] <= MEMORY_SHARE * gauge.free_bytes():
        tell(f"{dtype} matmul {n}")
        watch = Stopwatch()
        try:
            times_ns[n] = gauge.matmul_ns(dtype, n)
        except RuntimeError:  # not implemented for this dtype, or no memory after all
            break
        has_grown = best_n == 0 or _rate(n, times_ns) > GROWTH * _rate(best_n, times_ns)
        best_n = max(times_ns, key=lambda tried: _rate(tried, times_ns))
        if (not has_grown and n >= SURELY_LARGE_N) or 8 * times_ns[n] > PRODUCT_NS:
            break
        if effort.products_s is not None and whole.elapsed_s() + 8 * watch.elapsed_s() > effort.products_s:
            break
        n *= 2
    if best_n == 0:
        return None
    if effort.again and times_ns[best_n] < AGAIN_NS:
        tell(f"{dtype} matmul {best_n}, again")
        times_ns[best_n] = min(times_ns[best_n], *(gauge.matmul_ns(dtype, best_n) for _ in range(effort.again)))
    return best_n, _rate(best_n, times_ns)


def _rate(n: int, times_ns: dict[int, float]) -> float:
    """Return FLOP/s of the product of two n×n matrices."""
    return 2e9 * n**3 / times_ns[n]


def copy_size(free_bytes: float) -> int:
    """Return how much to copy: 1 GiB, or what an eighth of the free memory holds twice."""
    size = LARGEST_COPY
    while size > SMALLEST_COPY and 2 * size > MEMORY_SHARE * free_bytes:
        size //= 2
    return size


def cable(gauge: Gauge, direction: str, tell: Tell, transfer_sizes: tuple[int, ...] = TRANSFER_SIZES) -> Line | None:
    """Return start-up and rate of copies in one direction; None where too little memory is free to tell them apart."""
    tell(WAYS[direction])
    sizes = [size for size in transfer_sizes if size <= MEMORY_SHARE * gauge.free_bytes()]
    try:
        return fit_line([(float(size), gauge.transfer_ns(direction, size)) for size in sizes])
    except ValueError:
        return None


LEAST_SHARE_S = 0.5
"""A device is not measured in less time than this."""

STEPS_SHARE = 0.7
"""Share of a device's time after which no step of its calibration begins: the last one takes the rest."""

STARVED_TRIES = 2
"""A device whose threads lacked a core is measured again, as long as there is time."""


def first_ceilings(
    plan: Plan, machine: Machine, environment: dict[str, Any], emit: Emit, control: Control, left_s: float | None
) -> CpuGpuError | None:
    """Measure, within `plan.ceilings_s`, the devices of which the plan has no ceilings; return why one is missing.

    The cases are over by now. Whatever goes wrong here, even a GPU that is lost, leaves their results as they are.
    `left_s` is what is left of the run's own time limit, None without one.
    """
    missing = [d for d in machine.devices if not any(known.is_of(d) for known in plan.ceilings)]
    if plan.ceilings_s is None or not missing:
        return None
    watch = Stopwatch()
    limit_s = plan.ceilings_s if left_s is None else min(plan.ceilings_s, left_s)
    for index, device in enumerate(missing):
        share_s = (limit_s - watch.elapsed_s()) / (len(missing) - index)
        if control.stopping or share_s < LEAST_SHARE_S:
            return None  # the next run finds what is still missing
        _announce(device, plan, emit, limit_s)
        try:
            _measure_one(device, plan, machine, environment, emit, control, share_s)
        except CpuGpuError as error:
            return error
        except RuntimeError as error:
            return UnfitError(f"{device.name} failed while it was measured: {first_line(error).rstrip('.')}.")
    return None


def _announce(device: Device, plan: Plan, emit: Emit, limit_s: float) -> None:
    """Say what comes, and leave a user interface the time to show it."""
    note = f"peak rates for 'limited by', once, at most {limit_s:.0f} s"
    emit(Progressed(case="", device=device.name, phase=CALIBRATION, note=note))
    if plan.gaps:
        emit(Gap(duration_ms=GAP_MS))
    emit.flush()
    if plan.gaps:
        leave_gap(GAP_MS)


def _measure_one(
    device: Device, plan: Plan, machine: Machine, environment: dict[str, Any], emit: Emit, control: Control,
    share_s: float,
) -> None:  # fmt: skip
    """Measure one device within `share_s`.

    Raises:
        CpuGpuError: it failed, or other work took the cores: a tenth of the true rate would be kept for good.
    """
    watch = Stopwatch()
    dtypes = tuple(dict.fromkeys(case.dtype for case in plan.cases))
    gauge = machine.gauge(device.name)  # of a GPU it warms up for 0.3 s
    for _ in range(STARVED_TRIES):
        left_s = share_s - watch.elapsed_s()
        if left_s < LEAST_SHARE_S:
            break
        machine.watch.begin(device)
        found = measure(gauge, environment, emit, control, quick(dtypes, STEPS_SHARE * left_s, is_cpu=device.is_cpu))
        if found is None:
            return
        if not lacks_core(machine.watch.end().waited):
            emit(CeilingsMeasured(ceilings=found))
            return
    raise UnfitError(
        f"Peak rates of {device.name} are not known yet: other work took its cores while they were measured.",
        "They are measured after the next run.",
    )
