"""Forecast the remaining time of a run."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.model import Case, Plan
from cpugpu_tui.timing.case_run import CaseRun
from cpugpu_tui.timing.warm_up import least_device_ns, most_device_ns
from cpugpu_tui.workloads import case_costs


class Forecast:
    """Predicts the remaining time: each device's last time per call, scaled with the FLOPs of the remaining cases."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._last: dict[str, tuple[float, float]] = {}
        self._learnt = 0

    def learn(self, case_run: CaseRun) -> None:
        """Store the time per call of a case on each device after its warm-up."""
        self._learnt += 1
        hint = self._hint(case_run.case)
        for run in case_run.runs:
            self._last[run.name] = (hint, run.estimate_ns)

    def seconds_left(self, active: Sequence[CaseRun], pending: Sequence[Case], more: int = 0) -> float | None:
        """Return the expected remaining seconds; None before two cases are known.

        For a search, which may add up to `more` cases, this is an upper limit.
        """
        # The first case is only overhead: from it alone the last sizes of `quick` were predicted to take minutes.
        if self._learnt < min(2, len(self._plan.cases)):
            return None
        if self._plan.search is not None:
            return self._most_s(active, pending, more)
        total_ns = sum(case_run.time_left_ns() for case_run in active)
        for case in pending:
            hint = self._hint(case)
            total_ns += sum(least_device_ns(self._scaled_ns(hint, *last), self._plan) for last in self._last.values())
        return total_ns / 1e9

    def _most_s(self, active: Sequence[CaseRun], pending: Sequence[Case], more: int) -> float:
        """Return the upper limit of a search, seconds: every case until its budget is spent."""
        spent_ns = (run.spent_ns for case_run in active for run in case_run.runs)
        active_ns = sum(max(0.0, self._plan.budget_ns - each) for each in spent_ns)
        largest = max((self._hint(case) for case in self._plan.cases), default=0.0)
        hints = [*(self._hint(case) for case in pending), *[largest] * more]
        estimates = ((self._scaled_ns(hint, *last)) for hint in hints for last in self._last.values())
        return (active_ns + sum(most_device_ns(each, self._plan) for each in estimates)) / 1e9

    def _hint(self, case: Case) -> float:
        """Return a case's FLOPs; 0 if the workload's own code raises, which is reported when that case starts."""
        try:
            return float(case_costs(case).flops)
        except Exception:  # noqa: BLE001 - as above
            return 0.0

    def _scaled_ns(self, hint: float, last_hint: float, last_ns: float) -> float:
        """Return the scaled time of a call. Never scale down, because fixed overheads dominate smaller cases."""
        return last_ns * max(1.0, hint / last_hint if last_hint else 1.0)
