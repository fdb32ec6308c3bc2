"""Gauges of CPU and GPU: bare operations timed with the host's clock, and kernels with CUDA events."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from time import perf_counter_ns
from typing import Any

from cpugpu_tui.decide.stats import median
from cpugpu_tui.machine import procfs
from cpugpu_tui.model import Device, EventClock, torch_dtype
from cpugpu_tui.timing.timers import TorchThreads
from cpugpu_tui.timing.timers.cuda import spin, timing_event

SMALLEST_CALLS = 5_000
"""Calls of the smallest operation per block: 5 ms."""


class CpuGauge(TorchThreads):
    """Gauge of the CPU."""

    directions: tuple[str, ...] = ()
    clock: EventClock | None = None
    dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16", "float64")

    def __init__(self, device: Device) -> None:
        self.device = device

    def free_bytes(self) -> float:
        """Return the available memory of the host, bytes."""
        return float(procfs.available_memory_bytes() or (1 << 30))

    def matmul_ns(self, dtype: str, n: int) -> float:
        """Time a product of normally distributed matrices into a preallocated result."""
        import torch

        kind = getattr(torch, torch_dtype(dtype))
        a, b = (torch.randn(n, n).to(kind) for _ in range(2))
        out = torch.empty(n, n, dtype=kind)
        return timed_ns(lambda: torch.matmul(a, b, out=out))

    def copy_ns(self, size_bytes: int) -> float:
        """Time a copy into memory whose pages are mapped already."""
        import torch

        source, target = (torch.full((size_bytes // 4,), value) for value in (1.5, 0.5))
        return timed_ns(lambda: target.copy_(source))

    def launch_ns(self) -> float:
        """Time an addition of two numbers into a third one, which is only overhead of the framework."""
        import torch

        a, b, out = torch.ones(1), torch.ones(1), torch.ones(1)
        return block_ns(lambda: torch.add(a, b, out=out), SMALLEST_CALLS)

    def synchronize_ns(self) -> float | None:
        """Return None: calls on a CPU are synchronous."""
        return None

    def round_trip_ns(self) -> float | None:
        """Return None: calls on a CPU are synchronous."""
        return None

    def transfer_ns(self, direction: str, size_bytes: int) -> float:
        """Raise NotImplementedError: a CPU has no `directions`."""
        raise NotImplementedError(f"{direction} of {size_bytes} bytes on a CPU")

    def release(self) -> None:
        """Do nothing, because Python has freed all memory."""


TRIES = 3
"""Runs of each measurement, of which the median counts."""


def timed_ns(call: Callable[[], object], tries: int = TRIES) -> float:
    """Return the median wall time of single calls after one warm-up call, ns."""
    call()
    samples = []
    for _ in range(tries):
        started = perf_counter_ns()
        call()
        samples.append(float(perf_counter_ns() - started))
    return median(samples)


def block_ns(call: Callable[[], object], calls: int) -> float:
    """Return the time per call, ns: median over blocks of so many calls, after one warm-up block."""

    def block() -> None:
        for _ in repeat(None, calls):
            call()

    return timed_ns(block) / calls


LAUNCHES = 500
"""Launches queued on a held stream. The queue holds about 1,000; launches into a full queue would block."""

HOLD_CYCLES = 60_000_000
"""Length of the hold in SM cycles: 30 ms at 1,980 MHz, longer than 500 launches of 10 µs."""

WAITS = 500
"""Synchronisations or round trips per block: 10 ms."""

SMALL_COPY_BYTES, SMALL_COPY_TRIES = 1 << 20, 25
"""Copies below this size take about 10 µs and vary, so they are repeated more often."""

WARM_UP_NS = 300e6
"""Warm-up before the first product, ns: an idle H200 runs at 345 MHz instead of 1,980."""


class CudaGauge(TorchThreads):
    """Gauge of one GPU, on its default stream."""

    directions: tuple[str, ...] = ("h2d_pageable", "h2d_pinned", "d2h_pageable", "d2h_pinned")
    dtypes: tuple[str, ...] = ("float32", "tf32", "bfloat16", "float16", "float64")

    def __init__(self, device: Device, clock: EventClock) -> None:
        """Create the context and warm up until the clocks have left idle. `clock` is the check of its event clock."""
        import torch

        self.device = device
        self.clock: EventClock | None = clock
        self._reads_events = clock.is_sound
        torch.cuda.set_device(device.name)
        self._stream = torch.cuda.current_stream()
        a = torch.rand(2048, 2048, device=device.name)
        started = perf_counter_ns()
        while perf_counter_ns() - started < WARM_UP_NS:
            a.matmul(a)
            self._stream.synchronize()

    def free_bytes(self) -> float:
        """Return the free memory of the GPU, bytes."""
        import torch

        return float(torch.cuda.mem_get_info(self.device.name)[0])

    def matmul_ns(self, dtype: str, n: int) -> float:
        """Time a product of normally distributed matrices; zeros would be 13 % faster. TF32 is on only for `tf32`."""
        import torch

        backend = torch.backends.cuda.matmul
        inherited = backend.allow_tf32
        kind = getattr(torch, torch_dtype(dtype))
        a, b = (torch.randn(n, n, device=self.device.name).to(kind) for _ in range(2))
        out = torch.empty(n, n, dtype=kind, device=self.device.name)
        backend.allow_tf32 = dtype == "tf32"
        try:
            return self._hardware_ns(lambda: torch.matmul(a, b, out=out))
        finally:
            backend.allow_tf32 = inherited

    def copy_ns(self, size_bytes: int) -> float:
        """Time a copy within the GPU's memory."""
        import torch

        source = torch.randn(size_bytes // 4, device=self.device.name)
        target = torch.empty_like(source)
        return self._hardware_ns(lambda: target.copy_(source))

    def _hardware_ns(self, call: Any) -> float:
        """Return the median time of a long kernel between two CUDA events, ns; by the wall clock if these are wrong."""
        for _ in range(2):
            call()
        if not self._reads_events:

            def synchronised() -> None:
                call()
                self._stream.synchronize()

            return timed_ns(synchronised)
        pairs = [(timing_event(), timing_event()) for _ in range(TRIES)]
        self._stream.synchronize()
        for start, end in pairs:
            start.record()
            call()
            end.record()
        self._stream.synchronize()
        return median([start.elapsed_time(end) * 1e6 for start, end in pairs])

    def launch_ns(self) -> float:
        """Time the launches of small kernels on a held stream, so that the host never waits for the GPU."""
        call = self._smallest()

        def held_block() -> float:
            self._stream.synchronize()
            spin(HOLD_CYCLES)
            started = perf_counter_ns()
            for _ in repeat(None, LAUNCHES):
                call()
            return (perf_counter_ns() - started) / LAUNCHES

        held_block()
        launch_ns = median([held_block() for _ in range(TRIES)])
        self._stream.synchronize()
        return launch_ns

    def synchronize_ns(self) -> float | None:
        """Time the synchronisation with an empty stream."""
        return block_ns(self._stream.synchronize, WAITS)

    def round_trip_ns(self) -> float | None:
        """Time the smallest operation with a synchronise after each call."""
        call, wait = self._smallest(), self._stream.synchronize

        def round_trip() -> None:
            call()
            wait()

        return block_ns(round_trip, WAITS)

    def _smallest(self) -> Callable[[], object]:
        """Return the smallest operation: an addition of two numbers on the GPU into a third one."""
        import torch

        a, b, out = (torch.ones(1, device=self.device.name) for _ in range(3))
        return lambda: torch.add(a, b, out=out)

    def transfer_ns(self, direction: str, size_bytes: int) -> float:
        """Time a copy between host and GPU, with a synchronise at its end."""
        import torch

        host = torch.ones(size_bytes, dtype=torch.uint8)
        if direction.endswith("pinned"):
            host = host.pin_memory()
        there = torch.ones(size_bytes, dtype=torch.uint8, device=self.device.name)
        source, target = (host, there) if direction.startswith("h2d") else (there, host)

        def copy() -> None:
            target.copy_(source, non_blocking=True)
            self._stream.synchronize()

        return timed_ns(copy, SMALL_COPY_TRIES if size_bytes < SMALL_COPY_BYTES else TRIES)

    def release(self) -> None:
        """Free torch's cached memory."""
        import torch

        torch.cuda.empty_cache()
