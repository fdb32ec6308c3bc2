"""Wait until a GPU's SM clock has settled, and turn its throttle reasons into marks.

A power-capped load slows the kernels that follow: 0, 50, 100 and 500 ms later, a light kernel takes 69, 64.5, 60.8 and
59.8 µs on an H200 (method.md), so at first it would appear 15 % too slow.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from cpugpu_tui.model.throttling import MARKS
from cpugpu_tui.timing.timers import Readiness

if TYPE_CHECKING:
    from cpugpu_tui.machine.nvml.probe import GpuProbe

SETTLED = 0.02
"""Largest relative difference of the last readings of a settled clock (method.md, step 6)."""

READINGS = 3

WAIT_S = 0.6
"""Longest wait, seconds; then the half-round is marked. The effect of a power-capped load lasts 0.5 s."""

REFRESH_S = 0.02
"""Work between two readings, seconds: the driver refreshes the clock about this often."""


class SettledClock:
    """The SM clock of one GPU, read before each half-round."""

    def __init__(self, probe: GpuProbe) -> None:
        self._probe = probe
        self._readings: deque[float] = deque(maxlen=READINGS)

    def settle(self, work: Callable[[], object]) -> Readiness:
        """Repeat `work` until the clock has settled; return its last reading and the marks."""
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
        # One of them is this process; its PID may differ in this namespace.
        if self._probe.processes() > 1:
            marks["shared-gpu"] = "shared-gpu"
        return tuple(marks)
