"""Differences of the driver's cumulative counters, by the driver's own time stamps. Pure functions.

A counter that goes backwards has wrapped if it is as narrow as 32 bits, and was reset otherwise: 64 bits of bytes
last nine years at 64 GB/s. A 32-bit counter that may have gone round more than once says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cpugpu_tui.machine.limits import MOST_SHARE
from cpugpu_tui.model import Reading


@dataclass(frozen=True)
class Stamped:
    """A value with the moment at which it was true, or a reason why there is none."""

    value: float | None
    reason: str | None = None
    """A key of `telemetry.reasons.REASONS`."""
    at_us: int = 0
    """Microseconds since the epoch."""
    is_stamped: bool = False
    """Whether the driver said so; otherwise it is when we asked."""
    bits: int = 64
    """Width of the value: a counter starts at 0 again after 2 to this power."""

    def reading(self, now_us: int) -> Reading:
        """Return it as a Reading with its age at `now_us`, never below 0."""
        if self.value is None:
            return Reading(None, self.reason)
        return Reading(float(self.value), None, max(0, now_us - self.at_us) / 1e6, self.is_stamped)


NOT_YET = Stamped(None, "not-yet")
"""There is nothing to take the difference to."""


def share_pct(before: Stamped | None, after: Stamped) -> Stamped:
    """Return the share of the time between two readings of a counter of nanoseconds, in % of it.

    At most 100: the counter and its time stamp are not taken at the very same instant.
    """
    rate = rate_per_s(before, after)
    if rate.value is None:
        return rate
    share = rate.value / 1e9
    return replace(rate, value=min(100.0, 100 * share)) if share <= MOST_SHARE else Stamped(None, "out-of-range")


def rate_per_s(before: Stamped | None, after: Stamped, most_per_s: float = 0.0) -> Stamped:
    """Return the increase of a counter per second between two readings, as of the later one.

    `most_per_s` is the largest increase that is possible: a 32-bit counter that could have gone round in this time
    is `window-too-long`. `not-yet` without an earlier number or without time between them.
    """
    if after.value is None:
        return after
    if before is None or before.value is None or after.at_us <= before.at_us:
        return NOT_YET
    elapsed_s = (after.at_us - before.at_us) / 1e6
    if before.value < 0 or after.value < 0:
        return Stamped(None, "out-of-range")
    increase = after.value - before.value
    if after.bits < 64:
        if most_per_s * elapsed_s >= 2**after.bits:
            return Stamped(None, "window-too-long")
        increase %= 2**after.bits
    if increase < 0:
        return Stamped(None, "counter-reset")
    return replace(after, value=increase / elapsed_s, bits=64)
