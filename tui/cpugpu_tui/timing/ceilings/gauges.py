"""The gauges of CPU and GPU: bare operations by the host's clock, and by events for what a GPU does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from time import perf_counter_ns
from typing import Any

from cpugpu_tui.decide.stats import median
from cpugpu_tui.machine import procfs
from cpugpu_tui.model import Device, torch_dtype
from cpugpu_tui.timing.timers.cuda import spin, timing_event

SMALLEST_CALLS = 5_000
"""Calls of the smallest operation in a block: 5 ms."""


class CpuGauge:
    """Times torch on the host."""

    directions: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16", "float64")

    def __init__(self, device: Device) -> None:
        self.device = device

    def threads(self) -> int:
        """Return the intra-op threads in force."""
        import torch

        return torch.get_num_threads()

    def free_bytes(self) -> float:
        """Return the host's available memory."""
        return float(procfs.available_memory_bytes() or (1 << 30))

    def matmul_ns(self, dtype: str, n: int) -> float:
        """Time a product of normals into a preallocated result."""
        import torch

        kind = getattr(torch, torch_dtype(dtype))
        a, b = (torch.randn(n, n).to(kind) for _ in range(2))
        out = torch.empty(n, n, dtype=kind)
        return timed_ns(lambda: torch.matmul(a, b, out=out))

    def copy_ns(self, size_bytes: int) -> float:
        """Time a copy into memory that is mapped already."""
        import torch

        source, target = (torch.full((size_bytes // 4,), value) for value in (1.5, 0.5))
        return timed_ns(lambda: target.copy_(source))

    def launch_ns(self) -> float:
        """Time an addition of two numbers into a given one: what the framework costs."""
        import torch

        a, b, out = torch.ones(1), torch.ones(1), torch.ones(1)
        return block_ns(lambda: torch.add(a, b, out=out), SMALLEST_CALLS)

    def synchronize_ns(self) -> float | None:
        """Return None: a call on a CPU returns when it is done."""
        return None

    def round_trip_ns(self) -> float | None:
        """Return None, as above."""
        return None

    def transfer_ns(self, direction: str, size_bytes: int) -> float:
        """There is no cable between a CPU and itself."""
        raise NotImplementedError(f"{direction} of {size_bytes} bytes on a CPU")

    def release(self) -> None:
        """Python has freed it all."""


TRIES = 3
"""Runs of each measurement; their median stands."""


def timed_ns(call: Callable[[], object], tries: int = TRIES) -> float:
    """Return the median wall time of single calls, once warm."""
    call()
    samples = []
    for _ in range(tries):
        started = perf_counter_ns()
        call()
        samples.append(float(perf_counter_ns() - started))
    return median(samples)


def block_ns(call: Callable[[], object], calls: int) -> float:
    """Return the time of one call: the median over blocks of so many, once warm."""

    def block() -> None:
        for _ in repeat(None, calls):
            call()

    return timed_ns(block) / calls


LAUNCHES = 500
"""Launches queued behind a held stream: fewer than its queue holds (about 1000), or the launch would wait."""

HOLD_CYCLES = 60_000_000
"""Length of the hold, 30 ms at 1980 MHz: longer than 500 launches of 10 µs take."""

WAITS = 500
"""Synchronisations and round trips in a block: 10 ms."""

SMALL_COPY_BYTES, SMALL_COPY_TRIES = 1 << 20, 25
"""Copies below this size take some 10 us, of which three runs would be too few."""

WARM_UP_NS = 300e6
"""Work before the first product: an idle H200 runs at 345 MHz instead of 1980."""


class CudaGauge:
    """Times torch on one GPU, its default stream."""

    directions: tuple[str, ...] = ("h2d_pageable", "h2d_pinned", "d2h_pageable", "d2h_pinned")
    dtypes: tuple[str, ...] = ("float32", "tf32", "bfloat16", "float16", "float64")

    def __init__(self, device: Device) -> None:
        """Create the context and leave idle clocks behind."""
        import torch

        self.device = device
        torch.cuda.set_device(device.name)
        self._stream = torch.cuda.current_stream()
        a = torch.rand(2048, 2048, device=device.name)
        started = perf_counter_ns()
        while perf_counter_ns() - started < WARM_UP_NS:
            a.matmul(a)
            self._stream.synchronize()

    def threads(self) -> int:
        """Return the intra-op threads in force on the host."""
        import torch

        return torch.get_num_threads()

    def free_bytes(self) -> float:
        """Return the GPU's free memory."""
        import torch

        return float(torch.cuda.mem_get_info(self.device.name)[0])

    def matmul_ns(self, dtype: str, n: int) -> float:
        """Time a product of normals; TF32 is switched on for `tf32` alone, and put back. Zeros would read 13 % more."""
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
        """Return the median time of a long kernel between two events."""
        for _ in range(2):
            call()
        pairs = [(timing_event(), timing_event()) for _ in range(TRIES)]
        self._stream.synchronize()
        for start, end in pairs:
            start.record()
            call()
            end.record()
        self._stream.synchronize()
        return median([start.elapsed_time(end) * 1e6 for start, end in pairs])

    def launch_ns(self) -> float:
        """Queue small kernels behind a held stream, so that the host never waits for the GPU: the host's time alone."""
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
        """Wait for a stream on which nothing is left to do."""
        return block_ns(self._stream.synchronize, WAITS)

    def round_trip_ns(self) -> float | None:
        """Queue the smallest operation and wait for it, again and again."""
        call, wait = self._smallest(), self._stream.synchronize

        def there_and_back() -> None:
            call()
            wait()

        return block_ns(there_and_back, WAITS)

    def _smallest(self) -> Callable[[], object]:
        """Return an addition of two numbers on the GPU, into a third one."""
        import torch

        a, b, out = (torch.ones(1, device=self.device.name) for _ in range(3))
        return lambda: torch.add(a, b, out=out)

    def transfer_ns(self, direction: str, size_bytes: int) -> float:
        """Time a copy between the host and the GPU with the wait at its end."""
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
        """Return torch's cached blocks."""
        import torch

        torch.cuda.empty_cache()
