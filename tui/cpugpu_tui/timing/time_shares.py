"""The time limit of a run, the share of it that each sweep of a search gets, and the forecast of what is left."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cpugpu_tui.model import Case, Plan, SweepKey
from cpugpu_tui.timing.case_run import CaseRun
from cpugpu_tui.timing.timers import Stopwatch
from cpugpu_tui.timing.warm_up import least_device_ns, most_device_ns
from cpugpu_tui.workloads import case_costs

GRACE_PART = 0.25
"""Part of a sweep's share for which it may go on after the share, until its cases have rounds for an interval."""


EQUALLY_SHARED_PART = 0.8
"""Part of the limit that all sweeps share equally. The rest goes to the widest brackets after the last share."""


FINISHING_PART = 0.02
"""Part of the limit, at its end, in which no case starts, so that those that run can end with a result."""


class TimeShares:
    """A time limit that begins now. In a search each sweep gets an equal share of the time that is left."""

    def __init__(self, limit_s: float, *, is_search: bool) -> None:
        self.sweep: SweepKey | None = None
        """The sweep whose share has begun; None without shares, before the first and in the rest after the last."""
        self.postponed: list[tuple[int, Case]] = []
        """Index in the plan and case, of those that a sweep's share was too short for."""
        self._has_shares = is_search and limit_s < math.inf
        self._limit_s = self._ends_s = self._grace_ends_s = limit_s
        self._sweep_count = 0
        """Number of sweeps in all; 0 before the first share."""
        self._watch = Stopwatch()

    @property
    def left_s(self) -> float:
        """Return the time until the limit, seconds; negative after it."""
        return self._limit_s - self._watch.elapsed_s()

    def begin(self, sweep: SweepKey | None, sweeps_left: int) -> None:
        """Begin the share of `sweep`; do nothing without shares. `sweeps_left` counts this sweep and those after it."""
        if self._has_shares:
            self._sweep_count = self._sweep_count or sweeps_left
            share_s = min(self.left_s / sweeps_left, EQUALLY_SHARED_PART * self._limit_s / self._sweep_count)
            self.sweep, self._ends_s = sweep, self._watch.elapsed_s() + share_s
            self._grace_ends_s = self._ends_s + GRACE_PART * share_s

    def begin_rest(self) -> list[tuple[int, Case]]:
        """End the last share; return the postponed cases, which get nearly all the time that is left."""
        cases, self.postponed, self.sweep = self.postponed, [], None
        self._ends_s, self._grace_ends_s = (1 - FINISHING_PART) * self._limit_s, self._limit_s
        return cases

    @property
    def is_share_over(self) -> bool:
        """Return whether the share of the current sweep, or after the last share the rest, is over."""
        return self._has_shares and self._watch.elapsed_s() >= self._ends_s

    @property
    def is_grace_over(self) -> bool:
        """Return whether the time to complete rounds after the share is over, too."""
        return self._watch.elapsed_s() >= self._grace_ends_s


# ------------------------------------------------------------------ forecast


class Forecast:
    """Predicts the remaining time: each device's last time per call, scaled with the FLOPs of the remaining cases."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._last: dict[str, tuple[float, float]] = {}
        """Device → (FLOPs, ns per call) of its last case."""
        self._learnt = 0

    def learn(self, case_run: CaseRun) -> None:
        """Store the time per call of a case on each device after its warm-up."""
        self._learnt += 1
        flops = self._flops(case_run.case)
        for run in case_run.runs:
            self._last[run.name] = (flops, run.estimate_ns)

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
            flops = self._flops(case)
            total_ns += sum(least_device_ns(self._scaled_ns(flops, *last), self._plan) for last in self._last.values())
        return total_ns / 1e9

    def _most_s(self, active: Sequence[CaseRun], pending: Sequence[Case], more: int) -> float:
        """Return the upper limit of a search, seconds: every case until its budget is spent."""
        spent_ns = (run.spent_ns for case_run in active for run in case_run.runs)
        active_ns = sum(max(0.0, self._plan.budget_ns - each) for each in spent_ns)
        largest = max((self._flops(case) for case in self._plan.cases), default=0.0)
        pending_flops = [*(self._flops(case) for case in pending), *[largest] * more]
        estimates = (self._scaled_ns(flops, *last) for flops in pending_flops for last in self._last.values())
        return (active_ns + sum(most_device_ns(each, self._plan) for each in estimates)) / 1e9

    def _flops(self, case: Case) -> float:
        """Return a case's FLOPs; 0 if the workload's own code raises, which is reported when that case starts."""
        try:
            return float(case_costs(case).flops)
        except Exception:  # noqa: BLE001 - as above
            return 0.0

    def _scaled_ns(self, flops: float, last_flops: float, last_ns: float) -> float:
        """Return the scaled time of a call. Never scale down, because fixed overheads dominate smaller cases."""
        return last_ns * max(1.0, flops / last_flops if last_flops else 1.0)
