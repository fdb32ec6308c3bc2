"""The part of the app that repeats: a count before `r`, one row again, what changed since the run before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual import on
from textual.driver import Driver
from textual.message import Message

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model import Plan, RunStarted
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.app_state import ParentRun
from cpugpu_tui.ui.controllers.comparing import Comparing
from cpugpu_tui.ui.live.backend import Backend
from cpugpu_tui.ui.live.messages import SeriesEnded
from cpugpu_tui.ui.live.saved_runs import age_text
from cpugpu_tui.ui.options import AppOptions
from cpugpu_tui.ui.screens.main import MainScreen

if TYPE_CHECKING:
    from cpugpu_tui.compare.changes import Changes
    from cpugpu_tui.compare.comparison import Series
    from cpugpu_tui.state.measured import MeasuredRun

MOST_COUNT = 99
"""Runs of one series that can be typed."""

KEPT_PLANS = 8
"""Plans whose last series is kept in memory, so that `r` need not read it."""


class BeforeKnown(Message):
    """The series before a run was read from the history."""

    def __init__(self, run_id: str, base: Series, remark: str) -> None:
        """Carry it, with the run that it is before."""
        super().__init__()
        self.run_id, self.base, self.remark = run_id, base, remark


class Repeating(Comparing):
    """Knows the last series of each plan. What must be read for it is read when a run is over."""

    def __init__(
        self, options: AppOptions, backend: Backend | None = None, driver_class: type[Driver] | None = None
    ) -> None:
        """Begin without any run."""
        super().__init__(options, backend, driver_class)
        self._last: dict[Plan, Series] = {}
        """What is run (`same_work`) → its last series with a finished run, measured by this app."""
        self._base: Series | None = None
        self._new: tuple[MeasuredRun, ...] = ()
        """Runs of the series that goes on, or went on last."""

    # ---------------------------------------------------------------- how many

    def action_count(self, digit: int) -> None:
        """Take a digit of how many runs the next key starts; a third digit begins anew."""
        if not isinstance(self.screen, MainScreen) or not self.state.situation.may_start:
            return
        count = 10 * self.state.count + digit
        self.change(count=count if count <= MOST_COUNT else digit)

    def drop_count(self) -> bool:
        """Forget the digits; return False if there were none."""
        if not self.state.count:
            return False
        self.change(count=0)
        return True

    # ---------------------------------------------------------------- one row

    def action_run_row(self) -> None:
        """Run the highlighted row alone, with the seed and on the devices of the run that it is of."""
        from cpugpu_tui.compare.changes import plan_of_row

        whole = self.state.whole or ParentRun(self.state.run, self.state.changes)
        row = self.state.run.rows.get(self.state.cursor or "")
        started = whole.run.run
        if row is None or started is None:
            return
        plan = replace(plan_of_row(started.plan, row.case), gaps=True)
        timeout_s = started.environment.get("case_timeout_s")
        self.begin_plan(plan, self.state.count or 1, timeout_s, whole=whole)

    def begin_plan(
        self, plan: Plan, repeats: int = 1, case_timeout_s: float | None = None, *, again: bool = False,
        whole: ParentRun | None = None,
    ) -> None:  # fmt: skip
        """Start a plan; `whole`: it is one row of that run."""
        raise NotImplementedError

    def return_to_whole(self) -> bool:
        """Show the run again of which a row was run alone; return False if it is not such a row that is shown."""
        whole = self.state.whole
        if whole is None or self.state.situation.live:
            return False
        self.change(run=whole.run, changes=whole.changes, whole=None, cursor=None)
        return True

    # ---------------------------------------------------------------- what changed

    def expect_runs(self, plan: Plan, whole: ParentRun | None) -> None:
        """Look up, in memory, what the rows of the series to come will be compared with."""
        from cpugpu_tui.compare.changes import same_work
        from cpugpu_tui.compare.comparison import Series
        from cpugpu_tui.state.measured import measured_state

        self._new = ()
        self._base = self._last.get(same_work(plan))
        if whole is not None:
            known = whole.changes.new if whole.changes is not None else ()
            own = measured_state(whole.run, times_only=True)
            self._base = Series("", known or ((own,) if own is not None else ()))

    def standing(self, run: RunState) -> Changes | None:
        """Return what the rows of a run are compared with: anew when it begins, with their verdicts when it ends."""
        from cpugpu_tui.compare.changes import Changes, same_work
        from cpugpu_tui.state.measured import measured_state

        known, started = self.state.changes, run.run
        if started is None:
            return known
        if known is None or known.run_id != started.run_id:
            # The demo plays runs of other work one after the other, and they are no series.
            self._new = tuple(each for each in self._new if same_work(each.plan) == same_work(started.plan))
            age = age_text(self._base.runs[-1].started_wall_ns, started.wall_ns) if self._base is not None else ""
            known = Changes(started.run_id, self._base, self._new, age, number=started.number)
        if run.finished is None or known.is_over:
            return known
        measured = measured_state(run, times_only=True)
        if measured is None or not measured.has_times:
            return known
        self._new = (*self._new, measured)
        self._keep(run, started)
        return known.with_run(measured)

    def _keep(self, run: RunState, started: RunStarted) -> None:
        """Note the series as the last of its plan; a run that was stopped is no measure for the next."""
        from cpugpu_tui.compare.changes import same_work
        from cpugpu_tui.compare.comparison import Series

        if run.status != "done":
            return
        work = same_work(started.plan)
        self._last.pop(work, None)
        self._last[work] = Series("", self._new)
        if len(self._last) > KEPT_PLANS:
            self._last.pop(next(iter(self._last)))

    @on(SeriesEnded)
    def _look_before(self) -> None:
        """Read the series before, where this app has not measured it itself."""
        run, changes = self.state.run, self.state.changes
        wanted = changes is not None and changes.base is None and run.run is not None
        if not wanted or self.state.quitting or self.state.calibrating or self.state.past is not None:
            return

        def body() -> None:
            try:
                if (found := self._series_before(run)) is not None:
                    self.post_message(found)
            except CpuGpuError:
                return  # without a history, or once the next run has begun, there is nothing to compare with

        self.run_worker(body, thread=True, exit_on_error=False, group="before")

    def _series_before(self, run: RunState) -> BeforeKnown | None:
        """Return the series before a run. On a thread; each step of reading is between runs or not at all."""
        from cpugpu_tui.compare.changes import remark_on, series_before
        from cpugpu_tui.state.measured import measured_state, power_limits_of

        # The same facts as `compare` has of the saved run: its power limits are in the telemetry, not in the state.
        latest = self.state.own.telemetry.latest
        started, mine = run.run, measured_state(run, power_limits_of(latest.gpus) if latest is not None else None)
        if started is None or mine is None:
            return None
        base = series_before(self.reader, started)
        remark = remark_on(base, mine) if base is not None else None
        return BeforeKnown(started.run_id, base, remark) if base is not None and remark is not None else None

    @on(BeforeKnown)
    def _know_before(self, message: BeforeKnown) -> None:
        """Show it, unless another run has begun."""
        changes, started = self.state.changes, self.state.own.run.run
        if not self.screen_stack or changes is None or changes.run_id != message.run_id or started is None:
            return
        age = age_text(message.base.runs[-1].started_wall_ns, started.wall_ns)
        self.change(changes=replace(changes, base=message.base, age=age, remark=message.remark))
