"""Waits until a GPU's SM clock has settled, and says what the driver says about its clocks.

Why: 0 / 50 / 100 / 500 ms after a power-capped load the next light kernel reads 69 / 64.5 / 60.8 / 59.8 µs
on an H200 (method.md): a heavy neighbour makes it look 15 % slow.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from cpugpu_tui.timing.timers import Readiness

if TYPE_CHECKING:
    from cpugpu_tui.machine.nvml import GpuProbe

SETTLED = 0.02
"""The last three readings must lie within this (method.md, step 6)."""

READINGS = 3

WAIT_S = 0.6
"""A power-capped neighbour takes 0.5 s to wear off; after this long the half-round is marked instead."""

REFRESH_S = 0.02
"""Work between two readings of a clock that moves: faster than this the driver repeats itself."""

MARKS = {
    "power-capped": "power-capped",
    "thermal": "throttled",
    "hw-thermal": "throttled",
    "power-brake": "throttled",
    "hw-slowdown": "throttled",
}
"""Throttle words of the driver that become marks of a half-round."""


class SettledClock:
    """One GPU's clock, read before each half-round."""

    def __init__(self, probe: GpuProbe) -> None:
        self._probe = probe
        self._readings: deque[float] = deque(maxlen=READINGS)

    def settle(self, work: Callable[[], object]) -> Readiness:
        """Do `work` until the clock stands still; return its reading, and marks if it did not."""
        work()
        clock_mhz = self._read()
        if clock_mhz is None:
            return Readiness()
        ends = time.monotonic() + WAIT_S
        while not self._is_settled():
            if time.monotonic() >= ends:
                return Readiness(clock_mhz, ("clock-unsettled", *self._marks()))
            until = time.monotonic() + REFRESH_S
            while time.monotonic() < until:
                work()
            clock_mhz = self._read() or clock_mhz
        return Readiness(clock_mhz, self._marks())

    def _read(self) -> float | None:
        clock_mhz = self._probe.sm_clock_mhz()
        if clock_mhz:
            self._readings.append(clock_mhz)
        return clock_mhz

    def _is_settled(self) -> bool:
        seen = self._readings
        return len(seen) == READINGS and max(seen) <= min(seen) * (1 + SETTLED)

    def _marks(self) -> tuple[str, ...]:
        marks = dict.fromkeys(MARKS[word] for word in self._probe.throttle() if word in MARKS)
        # One of them is this process, under whatever number its namespace gives it.
        if self._probe.processes() > 1:
            marks["shared-gpu"] = "shared-gpu"
        return tuple(marks)
