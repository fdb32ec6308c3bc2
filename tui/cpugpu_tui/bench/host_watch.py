"""Notices what disturbs the CPU while blocks are timed: memory being mapped, and other processes' work."""

from __future__ import annotations

import os
import resource
from time import perf_counter

from cpugpu_tui.telemetry import procfs

FAULT_S = 0.5e-6
"""Least cost of a minor page fault; with clearing the page it reads 2 µs (measurement.md §3.7)."""

FAULT_SHARE = 0.05
"""Page faults are marked from this share of the watched time on."""

FOREIGN_SHARE = 0.15
"""Other processes are marked from this share of one core on (measurement.md §7.2, step 9)."""

FOREIGN_WINDOW_S = 0.1
"""Other processes' time is counted in ticks of 10 ms: over less than this it cannot be told."""


class HostWatch:
    """One watch for all devices; `begin` and `end` alternate."""

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._cores = procfs.affinity_cores(root)
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._faults, self._started_s = 0, 0.0
        self._others_since_s, self._others_s = perf_counter(), self._others()

    def begin(self) -> None:
        """Start watching."""
        self._faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self._started_s = perf_counter()

    def end(self) -> tuple[str, ...]:
        """Return the marks of what happened since `begin`: `page-faults`, `foreign-load`.

        Foreign load is what happened since the last window of `FOREIGN_WINDOW_S` ended.
        """
        now_s = perf_counter()
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - self._faults
        marks = ["page-faults"] if faults * FAULT_S > FAULT_SHARE * (now_s - self._started_s) else []
        window_s = now_s - self._others_since_s
        if window_s >= FOREIGN_WINDOW_S:
            others_s = self._others()
            if others_s is not None and self._others_s is not None:
                foreign_s = others_s - self._others_s
                if foreign_s > FOREIGN_SHARE * window_s + 2 * self._tick_s:
                    marks.append("foreign-load")
            self._others_since_s, self._others_s = now_s, others_s
        return tuple(marks)

    def _others(self) -> float | None:
        """Return the CPU seconds that others than this process have had on the cores that it may use."""
        ticks = procfs.busy_ticks(self._cores, self._root)
        if ticks is None:
            return None
        own = os.times()
        return ticks * self._tick_s - (own.user + own.system)
