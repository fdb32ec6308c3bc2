"""Time copies from one GPU to another: latency of the smallest, and rate of a large one."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

from cpugpu_tui.timing.timers.cuda import spin, timing_event

LARGE_BYTES, SMALLEST_BYTES = 1 << 28, 1 << 20
"""Size of a large copy, halved down to the smallest if memory is short; 256 MiB take 0.7 ms over NVLink of an H200."""

MEMORY_SHARE = 1 / 8
"""Largest share of either GPU's free memory that a copy uses."""

LARGE_COPIES, SMALL_COPIES = 7, 50
"""Samples of each kind."""

WARM_UP = 10
"""Small copies before the first sample: the first one sets up peer access, which takes 1 s between some GPUs."""

HOLD_CYCLES = 400_000
"""Length of the kernel that holds the stream while copy and events are queued, which takes 40 µs. In SM cycles:
0.2 ms at 2 GHz."""

MOST_HOLDS = 6
"""Most doublings of the hold; the sample is then used as it is."""

CHECKED_BYTES = 1 << 20
"""Bytes at both ends of a large copy that are compared: some mainboards corrupt copies between GPUs."""


class GpuLink:
    """Times copies between two GPUs on their default streams; creates their contexts."""

    def __init__(self, source: str, target: str, *, is_clock_sound: bool = True) -> None:
        """`source` and `target` are torch's names, such as `cuda:0`. Large copies need a sound event clock."""
        import torch

        self._source, self._target = source, target
        self._reads_events = is_clock_sound
        torch.cuda.set_device(source)
        self._streams = tuple(torch.cuda.current_stream(name) for name in (source, target))
        self.has_access: bool | None = torch.cuda.can_device_access_peer(source, target)

    def _wait(self) -> None:
        for stream in self._streams:
            stream.synchronize()

    def latencies_ns(self) -> tuple[float, ...]:
        """Time copies of one number, synchronised with both GPUs."""
        import torch

        torch.cuda.set_device(self._source)
        here, there = torch.ones(1, device=self._source), torch.zeros(1, device=self._target)
        samples = []
        for _ in range(WARM_UP + SMALL_COPIES):
            self._wait()
            started = perf_counter_ns()
            there.copy_(here, non_blocking=True)
            self._wait()
            samples.append(float(perf_counter_ns() - started))
        return tuple(samples[WARM_UP:])

    def large_ns(self) -> tuple[int, tuple[float, ...]]:
        """Return the size of a large copy, bytes, and its times by events; 0 and no times without a sound event clock.

        The events are in the source's stream, where torch queues such copies.

        Raises:
            RuntimeError: too little memory is free, or a copy arrives corrupted.
        """
        import torch

        if not self._reads_events:
            return 0, ()
        torch.cuda.set_device(self._source)
        size = LARGE_BYTES
        free_bytes = min(torch.cuda.mem_get_info(name)[0] for name in (self._source, self._target))
        while size > MEMORY_SHARE * free_bytes:
            size //= 2
        if size < SMALLEST_BYTES:
            need_bytes = int(SMALLEST_BYTES / MEMORY_SHARE)
            raise RuntimeError(f"Only {free_bytes >> 20} MiB are free, but copies need {need_bytes >> 20} MiB")
        here = torch.randint(0, 256, (size,), dtype=torch.uint8, device=self._source)
        there = torch.zeros(size, dtype=torch.uint8, device=self._target)
        self._require_intact(here, there)
        return size, tuple(self._held_ns(here, there) for _ in range(LARGE_COPIES))

    def _require_intact(self, here: Any, there: Any) -> None:
        import torch

        there.copy_(here, non_blocking=True)
        self._wait()
        for part in (slice(None, CHECKED_BYTES), slice(-CHECKED_BYTES, None)):
            if not torch.equal(here[part].cpu(), there[part].cpu()):
                raise RuntimeError("Copies arrive corrupted, so their times are not reported")

    def _held_ns(self, here: Any, there: Any) -> float:
        """Time one copy. If the GPU reaches the first event before all is queued, repeat with a longer hold."""
        for doubled in range(MOST_HOLDS + 1):
            start, end = timing_event(), timing_event()
            self._wait()
            spin(HOLD_CYCLES << doubled)
            start.record(self._streams[0])
            there.copy_(here, non_blocking=True)
            end.record(self._streams[0])
            was_starved = start.query()
            self._wait()
            if not was_starved:
                break
        return float(start.elapsed_time(end) * 1e6)
