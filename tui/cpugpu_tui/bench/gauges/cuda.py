"""A GPU's gauge: events for what the hardware does, the host's clock for what launching and waiting cost."""

from __future__ import annotations

from itertools import repeat
from time import perf_counter_ns
from typing import Any

from cpugpu_tui.analysis.stats import median
from cpugpu_tui.bench.gauges.cpu import TRIES, timed_ns
from cpugpu_tui.bench.timers.cuda import spin, timing_event
from cpugpu_tui.model import Device, torch_dtype

LAUNCHES = 500
"""Launches queued behind a held stream: fewer than its queue holds (about 1000), or the launch would wait."""

HOLD_CYCLES = 60_000_000
"""Length of the hold, 30 ms at 1980 MHz: longer than 500 launches of 10 µs take."""

WAITS = 2_000
"""Synchronisations and round trips timed together."""

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
        """Time a product of uniform matrices; TF32 is switched on for `tf32` alone, and put back."""
        import torch

        backend = torch.backends.cuda.matmul
        inherited = backend.allow_tf32
        kind = getattr(torch, torch_dtype(dtype))
        a, b = (torch.rand(n, n, device=self.device.name).to(kind) for _ in range(2))
        out = torch.empty(n, n, dtype=kind, device=self.device.name)
        backend.allow_tf32 = dtype == "tf32"
        try:
            return self._hardware_ns(lambda: torch.matmul(a, b, out=out))
        finally:
            backend.allow_tf32 = inherited

    def copy_ns(self, size_bytes: int) -> float:
        """Time a copy within the GPU's memory."""
        import torch

        source = torch.rand(size_bytes // 4, device=self.device.name)
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
        """Queue many small kernels behind a held stream: the host's time alone."""
        a, b, out = self._numbers()
        for _ in range(100):
            a.add_(b)
        import torch

        add = torch.add
        self._stream.synchronize()
        spin(HOLD_CYCLES)
        started = perf_counter_ns()
        for _ in repeat(None, LAUNCHES):
            add(a, b, out=out)
        elapsed = perf_counter_ns() - started
        self._stream.synchronize()
        return elapsed / LAUNCHES

    def synchronize_ns(self) -> float | None:
        """Wait for a stream on which nothing is left to do."""
        wait = self._stream.synchronize
        wait()
        started = perf_counter_ns()
        for _ in repeat(None, WAITS):
            wait()
        return (perf_counter_ns() - started) / WAITS

    def round_trip_ns(self) -> float | None:
        """Queue the smallest operation and wait for it, again and again."""
        import torch

        a, b, out = self._numbers()
        add, wait = torch.add, self._stream.synchronize
        for _ in range(100):
            add(a, b, out=out)
            wait()
        started = perf_counter_ns()
        for _ in repeat(None, WAITS):
            add(a, b, out=out)
            wait()
        return (perf_counter_ns() - started) / WAITS

    def _numbers(self) -> tuple[Any, Any, Any]:
        import torch

        one, two, out = (torch.ones(1, device=self.device.name) for _ in range(3))
        return one, two, out

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

        return timed_ns(copy)

    def release(self) -> None:
        """Return torch's cached blocks."""
        import torch

        torch.cuda.empty_cache()
