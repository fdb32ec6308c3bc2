"""One sweep over the host: what `procfs` tells, as readings with an age or a reason."""

from __future__ import annotations

import time
from collections.abc import Callable

from cpugpu_tui.model import Reading
from cpugpu_tui.telemetry import procfs

SLOW_S = 5.0
"""Clock and quota are read this rarely: the clock asks up to 16 cores, the quota walks the cgroup tree."""


def _reading(value: float | None, reason: str = "not-supported") -> Reading:
    return Reading(None, reason) if value is None else Reading(float(value))


class Host:
    """Reads `TelemetryRead.host`. It remembers the last tick counts, because CPU load is a difference."""

    def __init__(self, root: str = "/", clock_s: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock_s = clock_s
        self._ticks: tuple[int, int] | None = None
        self._slow: dict[str, Reading] = {}
        self._slow_at_s = float("-inf")

    def read(self) -> dict[str, Reading]:
        """Return every host reading; `cpu_quota_cores` is missing where no quota is set.

        Takes 0.2 ms, with the slow values 1.5 ms on 16 cores.
        """
        now_s = self._clock_s()
        if now_s - self._slow_at_s >= SLOW_S:
            self._slow, self._slow_at_s = self._read_slow(), now_s
        age_s = now_s - self._slow_at_s
        return {
            "cpu_pct": self._cpu_pct(),
            "load_1min": _reading(procfs.load_1min(self._root)),
            "memory_used_bytes": _reading(procfs.memory_used_bytes(self._root)),
            "memory_total_bytes": _reading(procfs.memory_total_bytes(self._root)),
            **{key: Reading(slow.value, slow.reason, age_s) for key, slow in self._slow.items()},
        }

    def _cpu_pct(self) -> Reading:
        before, self._ticks = self._ticks, procfs.cpu_ticks(self._root)
        if self._ticks is None:
            return Reading(None, "not-supported")
        return _reading(procfs.busy_pct(before, self._ticks) if before else None, "not-yet")

    def _read_slow(self) -> dict[str, Reading]:
        slow = {"cpu_freq_mhz": _reading(procfs.cpu_freq_mhz(self._root))}
        quota_cores = procfs.cpu_quota_cores(self._root)
        return slow if quota_cores is None else {**slow, "cpu_quota_cores": Reading(quota_cores)}
