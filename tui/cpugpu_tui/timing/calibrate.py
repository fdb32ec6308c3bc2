"""Calibration: measure peak rates and fixed overheads of the devices. Nothing is taken from data sheets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cpugpu_tui import model
from cpugpu_tui.decide.stats import fit_line
from cpugpu_tui.errors import CpuGpuError, UnfitError
from cpugpu_tui.timing.channel import Control, Emit
from cpugpu_tui.timing.host_watch import lacks_core
from cpugpu_tui.timing.timers import GAP_MS, Gauge, Machine, Stopwatch, Watch, leave_gap
from cpugpu_tui.timing.torch_devices import first_line

FIRST_N = 512
LARGEST_N = 8192
"""Range of n of the matrix products. Beyond 8,192 no rate of an H200 increased."""

GROWTH = 1.03
"""n is doubled while the rate grows by more than this factor."""

SURELY_LARGE_N = 4096
"""Below this n, a step without growth is ignored: on a GPU the cause may be the tile size or launch overhead."""

PRODUCT_NS = 0.6e9
"""Longest expected product that is tried, ns; keeps a CPU's calibration near 15 s."""

MEMORY_SHARE = 1 / 8
"""Largest share of the free memory that one measurement uses."""

REPEATS = 2
"""Repeats of the fastest product and of the copy, of which the best counts. Beside other programs on two cores, one
measurement in four had half of the rate."""

LONGEST_REPEATED_NS = 0.15e9
"""Longest product that is repeated, ns: dtypes that a CPU only emulates would take seconds."""

LARGEST_COPY = 1 << 30
"""128 MiB is too small for an H200: its rate was 91 % of element-wise work on 400 MB, which gave limits of 110 %."""
QUICK_CPU_COPY = 1 << 27
SMALLEST_COPY = 1 << 24

TRANSFER_SIZES = tuple(4**k for k in range(1, 15))
"""4 B to 256 MiB."""

Announce = Callable[[str], None]
"""Announces the next step in words; raises `_StopRequested` if a stop was requested."""


@dataclass(frozen=True)
class Effort:
    """How thorough a calibration is."""

    first_n: int = FIRST_N
    products_s: float | None = None
    """Time limit for the products of one dtype with creating their matrices, seconds; None for no limit."""
    repeats: int = REPEATS
    largest_copy: int = LARGEST_COPY
    transfer_sizes: tuple[int, ...] = TRANSFER_SIZES
    dtypes: tuple[str, ...] | None = None
    """Element types of the products, if the device supports them; None for all."""
    limit_s: float | None = None
    """Time after which no step starts and optional ones are left out, seconds; None for no limit."""


FULL = Effort()


def quick(dtypes: tuple[str, ...], limit_s: float, *, is_cpu: bool) -> Effort:
    """Return the effort that fits into `limit_s` on one device: dtypes of the run, few sizes, no repeats.

    It took 0.6 s on two loaded cores of an EPYC with 75 GFLOP/s.
    """
    sizes = tuple(4**k for k in (1, 5, 8, 10, 12, 13))  # 4 B to 64 MiB
    return Effort(
        first_n=256, products_s=limit_s / 2, repeats=0, transfer_sizes=sizes,
        largest_copy=QUICK_CPU_COPY if is_cpu else LARGEST_COPY,
        dtypes=tuple(dict.fromkeys(("float32", *dtypes))), limit_s=limit_s,
    )  # fmt: skip


TRANSFER_NAMES = {
    "h2d_pageable": "copies to the GPU, pageable memory",
    "h2d_pinned": "copies to the GPU, pinned memory",
    "d2h_pageable": "copies back, pageable memory",
    "d2h_pinned": "copies back, pinned memory",
}
"""Keys of `Ceilings.transfers` → description."""


class _StopRequested(Exception):
    """A stop was requested between two steps."""


def calibrate(
    gauge: Gauge, watch: Watch, environment: dict[str, Any], emit: Emit, control: Control, *, gaps: bool = False
) -> model.Ceilings | None:
    """Measure one device in full and emit the result; returns as `measure`.

    Raises:
        UnfitError: see `measure`; or other processes used the cores, so the rates would be too low.
    """
    watch.begin(gauge.device)
    ceilings = measure(gauge, environment, emit, control, gaps=gaps)
    if ceilings is not None:
        if lacks_core(watch.end().waited):
            raise _disturbed(gauge.device, "Stop other work on this machine, then measure again.")
        emit(model.CeilingsMeasured(ceilings=ceilings))
        emit.flush()
    return ceilings


def measure(
    gauge: Gauge, environment: dict[str, Any], emit: Emit, control: Control, effort: Effort = FULL, *,
    gaps: bool = False,
) -> model.Ceilings | None:  # fmt: skip
    """Return one device's peak rates and overheads; None if the run was stopped. Frees its memory.

    Raises:
        UnfitError: the device failed, most likely out of memory, or `effort.limit_s` was too short.
    """
    watch = Stopwatch()

    def is_late() -> bool:
        return effort.limit_s is not None and watch.elapsed_s() > effort.limit_s

    def announce(step: str) -> None:
        control.wait_while_paused()
        if control.stopping:
            raise _StopRequested
        if is_late():
            raise UnfitError(
                f"The peak rates of {gauge.device.name} were not measured within {effort.limit_s:.1f} s.",
                "Measure them in full: `cpugpu-tui machine --measure`.",
            )
        if effort.limit_s is None:  # 20 gaps would be a third of a quick calibration
            emit(model.Progressed(case="", device=gauge.device.name, phase=model.CALIBRATION, note=step))
            emit.flush()
            if gaps:
                leave_gap(GAP_MS)

    try:
        return _measured(gauge, environment, announce, effort, is_late)
    except _StopRequested:
        return None
    except RuntimeError as error:
        raise UnfitError(
            f"Calibration of {gauge.device.name} failed: {first_line(error).rstrip('.')}.",
            "Free some of its memory, then calibrate again.",
        ) from error
    finally:
        gauge.release()


def _measured(
    gauge: Gauge, environment: dict[str, Any], announce: Announce, effort: Effort, is_late: Callable[[], bool]
) -> model.Ceilings:
    dtypes = gauge.dtypes if effort.dtypes is None else tuple(each for each in effort.dtypes if each in gauge.dtypes)
    products: dict[str, tuple[int, float]] = {}
    for dtype in dtypes:
        if not (products and is_late()) and (found := largest_product(gauge, dtype, announce, effort)) is not None:
            products[dtype] = found
    copy_bytes = min(copy_size(gauge.free_bytes()), effort.largest_copy)
    announce(f"copy of {copy_bytes >> 20:,} MiB")
    copy_ns = min(gauge.copy_ns(copy_bytes) for _ in range(1 + effort.repeats))
    announce("launch and synchronise")
    launch_ns, synchronize_ns, round_trip_ns = gauge.launch_ns(), gauge.synchronize_ns(), gauge.round_trip_ns()
    transfers: dict[str, model.Line] = {}
    for name in gauge.directions:
        if not is_late() and (line := transfer_line(gauge, name, announce, effort.transfer_sizes)) is not None:
            transfers[name] = line
    return model.Ceilings(
        device=gauge.device.name, label=gauge.device.label, uuid=gauge.device.uuid,
        hostname=str(environment.get("hostname")), torch=str(environment.get("torch") or ""),
        measured_wall_ns=time.time_ns(), threads=gauge.threads(),
        flops={dtype: rate for dtype, (_, rate) in products.items()},
        matmul_sizes={dtype: n for dtype, (n, _) in products.items()}, copy_bytes_per_s=2e9 * copy_bytes / copy_ns,
        copy_bytes=copy_bytes, launch_ns=launch_ns, synchronize_ns=synchronize_ns, round_trip_ns=round_trip_ns,
        transfers=transfers, simulated=gauge.device.simulated, driver=environment.get("driver"),
        quick=effort.limit_s is not None, clock=gauge.clock,
    )  # fmt: skip


def largest_product(gauge: Gauge, dtype: str, announce: Announce, effort: Effort = FULL) -> tuple[int, float] | None:
    """Return (n, FLOP/s) of the fastest product, doubling n while the rate grows; None if the dtype is unsupported.

    A dtype that the device only emulates keeps the rate of its first product.
    """
    times_ns: dict[int, float] = {}
    best_n, n = 0, effort.first_n
    whole = Stopwatch()
    while n <= LARGEST_N and 3 * n * n * model.ITEMSIZE_BYTES[dtype] <= MEMORY_SHARE * gauge.free_bytes():
        announce(f"{dtype} matmul {n}")
        watch = Stopwatch()
        try:
            times_ns[n] = gauge.matmul_ns(dtype, n)
        except RuntimeError:  # dtype not implemented, or out of memory in spite of the check
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
    if effort.repeats and times_ns[best_n] < LONGEST_REPEATED_NS:
        announce(f"{dtype} matmul {best_n}, again")
        times_ns[best_n] = min(times_ns[best_n], *(gauge.matmul_ns(dtype, best_n) for _ in range(effort.repeats)))
    return best_n, _rate(best_n, times_ns)


def _rate(n: int, times_ns: dict[int, float]) -> float:
    """Return the FLOP/s of the product of two n×n matrices."""
    return 2e9 * n**3 / times_ns[n]


def copy_size(free_bytes: float) -> int:
    """Return the size of the copy, bytes: 1 GiB, or less so that source and target fit into an eighth of the memory."""
    size = LARGEST_COPY
    while size > SMALLEST_COPY and 2 * size > MEMORY_SHARE * free_bytes:
        size //= 2
    return size


def transfer_line(
    gauge: Gauge, direction: str, announce: Announce, transfer_sizes: tuple[int, ...]
) -> model.Line | None:
    """Return fixed time and rate of copies in one direction; None if memory allows too few sizes for a fit."""
    announce(TRANSFER_NAMES[direction])
    sizes = [size for size in transfer_sizes if size <= MEMORY_SHARE * gauge.free_bytes()]
    try:
        return fit_line([(float(size), gauge.transfer_ns(direction, size)) for size in sizes])
    except ValueError:
        return None


LEAST_SHARE_S = 0.5
"""Least time to calibrate a device, seconds."""

STEPS_SHARE = 0.7
"""Share of a device's time after which no step of its calibration starts; the rest is left for the last step."""

STARVED_TRIES = 2
"""Attempts to calibrate a device whose threads waited for a core, if time is left."""


def first_ceilings(
    plan: model.Plan, machine: Machine, environment: dict[str, Any], emit: Emit, control: Control, left_s: float | None
) -> CpuGpuError | None:
    """Calibrate, within `plan.ceilings_s`, the devices without known ceilings; return the error if one fails.

    Runs after all cases, so a failure, even of a lost GPU, does not affect their results. `left_s` is the rest of the
    run's time limit; None without a limit.
    """
    missing = [d for d in machine.devices if not any(known.is_of(d) for known in plan.ceilings)]
    if plan.ceilings_s is None or not missing:
        return None
    watch = Stopwatch()
    limit_s = plan.ceilings_s if left_s is None else min(plan.ceilings_s, left_s)
    for index, device in enumerate(missing):
        share_s = (limit_s - watch.elapsed_s()) / (len(missing) - index)
        if control.stopping or share_s < LEAST_SHARE_S:
            return None  # left for the next run
        _announce(device, plan, emit, limit_s)
        try:
            _measure_one(device, plan, machine, environment, emit, control, share_s)
        except CpuGpuError as error:
            return error
        except RuntimeError as error:
            return UnfitError(f"Calibration of {device.name} failed: {first_line(error).rstrip('.')}.")
    return None


def _announce(device: model.Device, plan: model.Plan, emit: Emit, limit_s: float) -> None:
    """Announce the calibration, and leave a gap in which a user interface can show it."""
    note = f"peak rates for 'limited by', once, at most {limit_s:.0f} s"
    emit(model.Progressed(case="", device=device.name, phase=model.CALIBRATION, note=note))
    if plan.gaps:
        emit(model.Gap(duration_ms=GAP_MS))
    emit.flush()
    if plan.gaps:
        leave_gap(GAP_MS)


def _measure_one(
    device: model.Device, plan: model.Plan, machine: Machine, environment: dict[str, Any], emit: Emit, control: Control,
    share_s: float,
) -> None:  # fmt: skip
    """Measure one device within `share_s`.

    Raises:
        CpuGpuError: it failed, or other processes used the cores; a rate ten times too low would be saved for good.
    """
    watch = Stopwatch()
    dtypes = tuple(dict.fromkeys(case.dtype for case in plan.cases))
    gauge = machine.gauge(device.name)  # on a GPU this warms up for 0.3 s
    for _ in range(STARVED_TRIES):
        left_s = share_s - watch.elapsed_s()
        if left_s < LEAST_SHARE_S:
            break
        machine.watch.begin(device)
        found = measure(gauge, environment, emit, control, quick(dtypes, STEPS_SHARE * left_s, is_cpu=device.is_cpu))
        if found is None:
            return
        if not lacks_core(machine.watch.end().waited):
            emit(model.CeilingsMeasured(ceilings=found))
            return
    raise _disturbed(device, "The next run tries again.")


def _disturbed(device: model.Device, remedy: str) -> UnfitError:
    name = "the CPU" if device.is_cpu else device.name
    return UnfitError(f"Peak rates of {name} were not measured: other processes used the CPU's cores.", remedy)
