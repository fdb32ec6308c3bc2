"""All GPUs through one session with the driver; it reopens when the driver or GPUs come back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Container
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cpugpu_tui.machine.limits import MOST_GPUS
from cpugpu_tui.machine.nvml.calls import NO_GPU, NO_PYNVML, count_problem, driver_problem
from cpugpu_tui.machine.nvml.gpu import SLOW_S, Gpu
from cpugpu_tui.model import GpuTelemetry

PCIE_WINDOW_S = 0.02
"""Time between the two readings of a PCIe rate if its counters have 32 bits. These wrap after 68 ms at generation 5
with 16 lanes, so two samples are too far apart. nvmlDeviceGetPcieThroughput measures as long, but blocks the driver for
each direction of each GPU; we sleep once for all GPUs."""


def _wall_us() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True)
class Waiting:
    """The current call, or the last one."""

    gpu_index: int | None
    """None for calls to the driver as a whole."""
    function: str
    since_s: float
    """`time.monotonic`."""


class _TracedNvml:
    """Wrapper of pynvml that records the last function, to name it if its call hangs."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.waiting = Waiting(None, "", time.monotonic())
        self.gpu_index: int | None = None

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._library, name)
        if name.startswith("nvml") and callable(value):
            self.waiting = Waiting(self.gpu_index, name, time.monotonic())
        return value


class Nvml:
    """One NVML session.

    Use it from one thread only: `nvmlShutdown` of the last session beside another call crashes the process.
    """

    def __init__(
        self,
        root: str = "/",
        clock_s: Callable[[], float] = time.monotonic,
        gpm: bool = False,
        wall_us: Callable[[], int] = _wall_us,
        pause: Callable[[float], None] = time.sleep,
        without: Container[int] = (),
    ) -> None:
        """`root` is the folder that holds `proc`; `gpm` adds SM occupancy, tensor and DRAM activity (0.7 ms a sample).

        GPUs in `without` are skipped; their rows say that they do not answer.
        """
        self._root = root
        self._clock_s = clock_s
        self._gpm = gpm
        self._wall_us = wall_us
        self._pause = pause
        self._without = without
        self._traced: _TracedNvml | None = None
        self._nvml: Any = None
        self._gpus: list[Gpu] = []
        self._problem: str | None = None
        self._tried_s = float("-inf")

    def read(self, own_pids: Collection[int] = (), quiet: bool = False) -> tuple[tuple[GpuTelemetry, ...], str | None]:
        """Return a row per GPU, and a problem (one sentence of cause, one of remedy) if no GPU can be read.

        Processes in `own_pids`, and this process, are marked as ours. `quiet` skips values that cost the driver more
        than 0.2 ms, except GPM. Takes 20 ms, mostly asleep. Errors of the driver become reasons or the problem.
        """
        now_s = self._clock_s()
        # Without a single value the driver may have been unloaded or reset, which requires a new session.
        if not any(gpu.answered for gpu in self._gpus) and now_s - self._tried_s >= SLOW_S:
            self._tried_s = now_s
            self._open()
        if self._nvml is None:
            return (), self._problem
        asked = [gpu for gpu in self._gpus if gpu.index not in self._without]
        for gpu in asked:
            gpu.refresh(self._for(gpu), now_s, quiet)  # up to 18 ms each, so not between the two PCIe readings
        if any([gpu.glance(self._for(gpu)) for gpu in asked]):  # all of them, then one pause
            self._pause(PCIE_WINDOW_S)
        own = {os.getpid(), *own_pids}
        rows = tuple(gpu.read(self._for(gpu), now_s, own) if gpu in asked else gpu.silent_row() for gpu in self._gpus)
        return rows, None if rows else NO_GPU

    @property
    def waiting(self) -> Waiting | None:
        """The call that may hang; None before the first. Read it from another thread."""
        return self._traced.waiting if self._traced is not None else None

    @property
    def gpu_count(self) -> int:
        """Number of GPUs that the driver has listed so far."""
        return len(self._gpus)

    def _for(self, gpu: Gpu) -> Any:
        """Return pynvml, with calls recorded for this GPU."""
        self._nvml.gpu_index = gpu.index
        return self._nvml

    def close(self) -> None:
        """Close the session with the driver; a later `read` opens another."""
        if self._nvml is not None:
            self._nvml.gpu_index = None
            for gpu in self._gpus:
                gpu.detach(self._nvml)
                gpu.answered = False
            with suppress(Exception):
                self._nvml.nvmlShutdown()
        self._nvml = None

    def _open(self) -> None:
        """Open a session, or set the problem; GPUs keep their rows and names, because a lost GPU has no name."""
        self.close()
        try:
            import pynvml
        except ImportError:
            self._problem = NO_PYNVML
            return
        traced = self._traced = _TracedNvml(pynvml)
        try:
            traced.nvmlInit()
            self._nvml = traced
            count = traced.nvmlDeviceGetCount()
        except Exception as error:  # noqa: BLE001 - a broken library raises anything
            self.close()
            self._problem = driver_problem(error)
            return
        if count > MOST_GPUS:
            self.close()
            self._problem = count_problem(count)
            return
        self._gpus += [Gpu(index, self._root, self._gpm, self._wall_us) for index in range(len(self._gpus), count)]
