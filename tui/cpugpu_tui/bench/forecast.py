"""How long the rest of a plan will take, from what the cases before it took."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.bench.point import Point
from cpugpu_tui.bench.timers import Machine
from cpugpu_tui.bench.warm_up import least_lane_ns
from cpugpu_tui.model import Case, Plan


class Forecast:
    """Scales each device's last time per call with the cost hint (FLOPs) of the cases to come."""

    def __init__(self, plan: Plan, machine: Machine) -> None:
        self._plan = plan
        self._machine = machine
        self._last: dict[str, tuple[float, float]] = {}
        self._learnt = 0

    def learn(self, point: Point) -> None:
        """Remember what a calibrated case costs per call on each device."""
        self._learnt += 1
        hint = self._hint(point.case)
        for lane in point.lanes:
            self._last[lane.name] = (hint, lane.estimate_ns)

    def seconds_left(self, active: Sequence[Point], pending: Sequence[Case]) -> float | None:
        """Return the expected seconds for the rest, None before two cases are known."""
        # From the first case alone, all overhead, the last sizes of `quick` were forecast at minutes.
        if self._learnt < min(2, len(self._plan.cases)):
            return None
        total_ns = sum(point.time_left_ns() for point in active)
        for case in pending:
            hint = self._hint(case)
            total_ns += sum(self._case_ns(hint, *last) for last in self._last.values())
        return total_ns / 1e9

    def _hint(self, case: Case) -> float:
        """Return a case's FLOPs; 0 where a person's own workload cannot say: its row will tell, not that at work."""
        try:
            return float(self._machine.costs(case).flops)
        except Exception:  # noqa: BLE001 - as above
            return 0.0

    def _case_ns(self, hint: float, last_hint: float, last_ns: float) -> float:
        # Work below the last case's hides in fixed costs, so time is never scaled down.
        estimate_ns = last_ns * max(1.0, hint / last_hint if last_hint else 1.0)
        return least_lane_ns(estimate_ns, self._plan)
