"""Many cases, interleaved: a case's rounds are spread over a window of active cases."""

from __future__ import annotations

import traceback
from collections import deque

from cpugpu_tui.bench.control import Control
from cpugpu_tui.bench.emitter import Emit
from cpugpu_tui.bench.forecast import Forecast
from cpugpu_tui.bench.kernel_pass import profile_cases
from cpugpu_tui.bench.point import Point
from cpugpu_tui.bench.timers import GAP_MS, CaseError, Machine, Stopped, Stopwatch, leave_gap
from cpugpu_tui.model import KERNELS, Case, CaseFailed, Gap, Plan, Progressed

CHECK_EVERY = 10
"""In sweeps of over 20 cases every tenth is checked, and the first and last (METHOD.md, step 2)."""


class Sweep:
    """Runs the cases of a plan on a machine; every failure costs its own case only."""

    def __init__(self, plan: Plan, machine: Machine, emit: Emit, control: Control) -> None:
        self._plan = plan
        self._machine = machine
        self._emit = emit
        self._control = control
        self._pending = deque(enumerate(plan.cases))
        self._active: list[Point] = []
        self._warmed: set[str] = set()
        self._watch = Stopwatch()
        self._since_gap = Stopwatch()
        self._forecast = Forecast(plan, machine)
        self._to_profile: list[Case] = []

    def run(self) -> str:
        """Run to the end; return `done` or `stopped`.

        Raises:
            CaseError: fatal ones, after their case was reported: the process is of no use any more.
        """
        enter_every = max(1, self._plan.rounds // self._plan.window)
        passes = 0
        self._gap(force=True)
        while self._pending or self._active:
            room = not self._active or (passes % enter_every == 0 and len(self._active) < self._plan.window)
            if self._pending and room:
                self._enter()
            for point in list(self._active):
                if self._over():
                    return self._wind_up()
                self._advance(point)
            passes += 1
            if self._over():
                return self._wind_up()
        if KERNELS in self._plan.metrics:
            profile_cases(self._to_profile, self._machine, self._emit, self._over)
        return "done"

    def _over(self) -> bool:
        limit_s = self._plan.max_seconds
        return self._control.stopping or (limit_s is not None and self._watch.elapsed_s() >= limit_s)

    def _enter(self) -> None:
        """Start the next pending case; a failure on the way is its row."""
        index, case = self._pending.popleft()
        point = Point(case, self._plan, self._machine, self._emit, self._control, self._over)
        try:
            point.begin(check=self._is_checked(index), exact=self._is_checked(index), warmed=self._warmed)
        except Stopped:
            self._pending.appendleft((index, case))  # `_wind_up` says why it has no result
        except Exception as error:  # noqa: BLE001 - whatever a workload raises is its row's failure
            self._fail(point, error)
        else:
            self._active.append(point)
            self._forecast.learn(point)
        self._between()

    def _is_checked(self, index: int) -> bool:
        count = len(self._plan.cases)
        return count <= 20 or index % CHECK_EVERY == 0 or index == count - 1

    def _advance(self, point: Point) -> None:
        try:
            for _ in point.half_rounds():
                self._between()
                if self._control.stopping:
                    return
            if point.done:
                self._active.remove(point)
                if point.is_checked and not point.is_timed_once:
                    self._to_profile.append(point.case)
                point.finish()
                self._between()
        except Exception as error:  # noqa: BLE001 - as above
            self._active.remove(point)
            self._fail(point, error)

    def _fail(self, point: Point, error: Exception) -> None:
        failure = error if isinstance(error, CaseError) else self._machine.explain(error, point.case)
        point.lanes.clear()
        # The frames that it came through hold the tensors that did not fit.
        traceback.clear_frames(error.__traceback__)
        if not failure.fatal:
            self._machine.release()
        self._emit(
            CaseFailed(
                case=point.case.key,
                kind=failure.kind,
                message=failure.message,
                remedy=failure.remedy,
                device=point.device,
            )
        )
        self._emit.flush()
        if failure.fatal:
            raise failure

    def _between(self) -> None:
        """Between half-rounds: hand over events, leave a gap if one is due, pause if asked."""
        self._emit.flush()
        self._gap(force=False)
        if self._control.paused:
            self._gap(force=True)
            self._control.wait_while_paused()

    def _gap(self, *, force: bool) -> None:
        if not self._plan.gaps or (not force and self._since_gap.elapsed_s() < self._plan.gap_every_s):
            return
        self._emit(self._progress())
        self._emit(Gap(duration_ms=GAP_MS))
        self._emit.flush()
        leave_gap(GAP_MS)
        self._since_gap.restart()

    def _progress(self) -> Progressed:
        left_s = self._forecast.seconds_left(self._active, [case for _, case in self._pending])
        if left_s is not None and self._plan.max_seconds is not None:
            left_s = min(left_s, max(0.0, self._plan.max_seconds - self._watch.elapsed_s()))
        current = self._active[-1] if self._active else None
        return Progressed(
            case=current.case.key if current else "",
            device="",
            phase="gap",
            round_index=current.round_index if current else 0,
            seconds_left=left_s,
        )

    def _wind_up(self) -> str:
        """End early: a case with a complete round keeps its times, the rest is skipped."""
        stopped = self._control.stopping
        why = "Stopped by request." if stopped else "Not reached within the time of --max-seconds."
        for point in self._active:
            if point.rounds_complete >= 1:
                point.finish()
            else:
                self._skip(point.case, why)
        for _, case in self._pending:
            self._skip(case, why)
        return "stopped" if stopped else "done"

    def _skip(self, case: Case, why: str) -> None:
        self._emit(CaseFailed(case=case.key, kind="skipped", message=why, remedy="Run again to time it."))
