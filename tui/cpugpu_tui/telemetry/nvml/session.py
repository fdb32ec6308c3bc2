"""All GPUs through one session with the driver, which opens itself, and opens again when driver or GPUs come back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from cpugpu_tui.model import GpuTelemetry
from cpugpu_tui.telemetry.nvml.gpu import SLOW_S, Gpu
from cpugpu_tui.telemetry.nvml.returns import NO_GPU, NO_PYNVML, driver_problem

PCIE_WINDOW_S = 0.02
"""Between the two readings that a PCIe rate is the difference of, where the counters have 32 bits. They go round in
68 ms at generation 5, 16 lanes, so the time between two sweeps would be too long. nvmlDeviceGetPcieThroughput counts
as long, but holds the driver meanwhile, for each direction of each GPU; we sleep, once for all."""


def _wall_us() -> int:
    return time.time_ns() // 1000


class Nvml:
    """NVML as one session.

    All calls must come from one thread: `nvmlShutdown` beside another call crashes the process.
    """

    def __init__(
        self,
        root: str = "/",
        clock_s: Callable[[], float] = time.monotonic,
        gpm: bool = False,
        wall_us: Callable[[], int] = _wall_us,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`root` is where `proc` is found; `gpm` asks for SM occupancy, tensor and DRAM activity, 0.7 ms a sweep."""
        self._root = root
        self._clock_s = clock_s
        self._gpm = gpm
        self._wall_us = wall_us
        self._pause = pause
        self._nvml: Any = None
        self._gpus: list[Gpu] = []
        self._problem: str | None = None
        self._tried_s = float("-inf")

    def read(self, own_pids: Collection[int] = (), quiet: bool = False) -> tuple[tuple[GpuTelemetry, ...], str | None]:
        """Return a row per GPU, and a problem (one sentence of cause, one of remedy) when there are no GPUs to read.

        Processes in `own_pids`, and this process, are marked as ours. `quiet` leaves out what costs the driver more
        than 0.2 ms, except GPM if that was asked for. Takes 20 ms, asleep. Never raises for what the driver says.
        """
        now_s = self._clock_s()
        # Not a single value: the driver may have been unloaded or reset, which only a new session survives.
        if not any(gpu.answered for gpu in self._gpus) and now_s - self._tried_s >= SLOW_S:
            self._tried_s = now_s
            self._open()
        if self._nvml is None:
            return (), self._problem
        for gpu in self._gpus:
            gpu.refresh(self._nvml, now_s, quiet)  # up to 18 ms each: not between the two looks at a PCIe counter
        if any([gpu.glance(self._nvml) for gpu in self._gpus]):  # all of them, then one pause
            self._pause(PCIE_WINDOW_S)
        own = {os.getpid(), *own_pids}
        rows = tuple(gpu.read(self._nvml, now_s, own) for gpu in self._gpus)
        return rows, None if rows else NO_GPU

    def close(self) -> None:
        """End the session with the driver; a later `read` starts another."""
        if self._nvml is not None:
            for gpu in self._gpus:
                gpu.detach(self._nvml)
                gpu.answered = False
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
        self._nvml = None

    def _open(self) -> None:
        """Start a session, or set the problem. Rows and names of GPUs outlive sessions: a lost GPU has no name."""
        self.close()
        try:
            import pynvml
        except ImportError:
            self._problem = NO_PYNVML
            return
        try:
            pynvml.nvmlInit()
            self._nvml = pynvml
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self.close()
            self._problem = driver_problem(error.value, error)
            return
        self._gpus += [Gpu(index, self._root, self._gpm, self._wall_us) for index in range(len(self._gpus), count)]
