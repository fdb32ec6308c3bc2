"""The latest telemetry and a short history of each value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cpugpu_tui.model import TelemetryRead

HISTORY = 240
"""Telemetry points kept per value: four minutes at 1 Hz."""
HELD_S = 12.5
"""Age up to which an old reading is repeated: 2.5 times the longest interval between readings, which is 5 s."""
SAME_NS = 2e6
"""Readings closer than this count as simultaneous, because traces store ages in milliseconds."""


@dataclass(frozen=True)
class TelemetryState:
    """The latest telemetry and a bounded history of each value."""

    latest: TelemetryRead | None = None
    history: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    """`gpu0/power_mw` or `host/cpu_pct` → values, oldest first; None where a value is missing."""

    def apply(self, event: TelemetryRead) -> TelemetryState:
        """Add one point to each history.

        If no reading of a GPU is newer than before, the GPU did not answer: the event repeats old numbers, and its
        point is None. Otherwise values that are read every 5 s are repeated until they are `HELD_S` old.
        """
        now = TelemetryState(event)
        values: dict[str, float | None] = {f"host/{key}": r.value for key, r in event.host.items()}
        for gpu in event.gpus:
            has_answered = now._newest_ns(gpu.index) - self._newest_ns(gpu.index) > SAME_NS
            points = {key: r.value if has_answered and r.age_s <= HELD_S else None for key, r in gpu.readings.items()}
            values |= {f"gpu{gpu.index}/{key}": value for key, value in points.items()}
        keys = dict.fromkeys([*self.history, *values])
        history = {key: (*self.history.get(key, ()), values.get(key))[-HISTORY:] for key in keys}
        return TelemetryState(event, history)

    def _newest_ns(self, index: int) -> float:
        """Return the time of a GPU's newest reading, in ns of the events' monotonic clock."""
        gpus = (gpu for gpu in (self.latest.gpus if self.latest is not None else ()) if gpu.index == index)
        ages_s = [reading.age_s for gpu in gpus for reading in gpu.readings.values() if reading.value is not None]
        return self.latest.mono_ns - min(ages_s) * 1e9 if self.latest is not None and ages_s else float("-inf")
