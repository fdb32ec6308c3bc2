"""How long the rest of a plan will take, from what the cases before it took."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.model import Case, Plan
from cpugpu_tui.timing.case_run import CaseRun
from cpugpu_tui.timing.timers import Machine
from cpugpu_tui.timing.warm_up import least_device_ns, most_device_ns


class Forecast:
    """Scales each device's last time per call with the cost hint (FLOPs) of the cases to come."""

    def __init__(self, plan: Plan, machine: Machine) -> None:
        self._plan = plan
        self._machine = machine
        self._last: dict[str, tuple[float, float]] = {}
        self._learnt = 0

    def learn(self, case_run: CaseRun) -> None:
        """Remember what a calibrated case costs per call on each device."""
        self._learnt += 1
        hint = self._hint(case_run.case)
        for run in case_run.runs:
            self._last[run.name] = (hint, run.estimate_ns)

    def seconds_left(self, active: Sequence[CaseRun], pending: Sequence[Case], more: int = 0) -> float | None:
        """Return the expected seconds for the rest, None before two cases are known.

        Of a search, which may choose up to `more` further cases, the most that is left.
        """
        # From the first case alone, all overhead, the last sizes of `quick` were forecast at minutes.
        if self._learnt < min(2, len(self._plan.cases)):
            return None
        if self._plan.search is not None:
            return self._most_s(active, pending, more)
        total_ns = sum(case_run.time_left_ns() for case_run in active)
        for case in pending:
            hint = self._hint(case)
            total_ns += sum(self._case_ns(hint, *last) for last in self._last.values())
        return total_ns / 1e9

    def _most_s(self, active: Sequence[CaseRun], pending: Sequence[Case], more: int) -> float:
        """Return the most seconds that a search can take: every case until its budget is spent."""
        budget_ns = self._plan.budget_s * 1e9
        active_ns = sum(max(0.0, budget_ns - run.spent_ns) for case_run in active for run in case_run.runs)
        largest = max((self._hint(case) for case in self._plan.cases), default=0.0)
        hints = [*(self._hint(case) for case in pending), *[largest] * more]
        estimates = ((self._scaled_ns(hint, *last)) for hint in hints for last in self._last.values())
        return (active_ns + sum(most_device_ns(each, self._plan) for each in estimates)) / 1e9

    def _hint(self, case: Case) -> float:
        """Return a case's FLOPs; 0 where a person's own workload cannot say: its row will tell, not that at work."""
        try:
            return float(self._machine.costs(case).flops)
        except Exception:  # noqa: BLE001 - as above
            return 0.0

    def _case_ns(self, hint: float, last_hint: float, last_ns: float) -> float:
        return least_device_ns(self._scaled_ns(hint, last_hint, last_ns), self._plan)

    def _scaled_ns(self, hint: float, last_hint: float, last_ns: float) -> float:
        """Return the time of a call: work below the last case's hides in fixed costs, so it is never scaled down."""
        return last_ns * max(1.0, hint / last_hint if last_hint else 1.0)
