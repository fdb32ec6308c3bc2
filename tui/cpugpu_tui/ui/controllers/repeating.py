"""Repeats: a count before `r`, one row again, and what changed since the run before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cpugpu_tui.model import Plan, RunStarted, TelemetryRead
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.app_state import ParentRun
from cpugpu_tui.ui.controllers.app_port import Port
from cpugpu_tui.ui.live.messages import SeriesEnded
from cpugpu_tui.ui.live.quiet_reader import QuietReader
from cpugpu_tui.ui.live.saved_runs import age_text
from cpugpu_tui.ui.screens.main import MainScreen

if TYPE_CHECKING:
    from cpugpu_tui.compare.changes import Changes
    from cpugpu_tui.compare.series import Series
    from cpugpu_tui.state.measured import MeasuredRun

MOST_COUNT = 99
"""Runs of one series that can be typed."""

KEPT_PLANS = 8
"""Plans whose last series is kept in memory, so that `r` need not read it."""


class Repeating:
    """Knows the last series of each plan. What must be read for it is read when a run is over."""

    def __init__(self, port: Port, reader: QuietReader) -> None:
        self._port, self._reader = port, reader
        self._last: dict[Plan, Series] = {}
        """What is run (`same_work`) → its last series with a finished run, measured by this app."""
        self._base: Series | None = None
        self._new: tuple[MeasuredRun, ...] = ()
        """Runs of the series that goes on, or went on last."""

    # ---------------------------------------------------------------- how many

    def count(self, digit: int) -> None:
        """Take a digit of how many runs the next key starts; a third digit begins anew."""
        state = self._port.state
        if not isinstance(self._port.screen, MainScreen) or not state.situation.may_start:
            return
        count = 10 * state.count + digit
        self._port.change(count=count if count <= MOST_COUNT else digit)

    def drop_count(self) -> bool:
        """Forget the digits; return False if there were none."""
        if not self._port.state.count:
            return False
        self._port.change(count=0)
        return True

    # ---------------------------------------------------------------- one row

    def plan_of_row(self) -> tuple[Plan, ParentRun] | None:
        """Return what runs the highlighted row alone, and the run that it is a row of; None without such a row."""
        from cpugpu_tui.compare.changes import plan_of_row

        state = self._port.state
        parent = state.parent or ParentRun(state.run, state.changes)
        row = state.run.rows.get(state.cursor or "")
        if row is None or parent.run.run is None:
            return None
        return replace(plan_of_row(parent.run.run.plan, row.case), gaps=True), parent

    def return_to_parent(self) -> bool:
        """Show the run again of which a row was run alone; return False if it is not such a row that is shown."""
        parent = self._port.state.parent
        if parent is None or self._port.state.situation.live:
            return False
        self._port.change(run=parent.run, changes=parent.changes, parent=None, cursor=None)
        return True

    # ---------------------------------------------------------------- what changed

    def expect_runs(self, plan: Plan, parent: ParentRun | None) -> None:
        """Look up, in memory, what the rows of the series to come will be compared with."""
        from cpugpu_tui.compare.changes import same_work
        from cpugpu_tui.compare.series import Series
        from cpugpu_tui.state.measured import measured_state

        self._new = ()
        self._base = self._last.get(same_work(plan))
        if parent is not None:
            known = parent.changes.new if parent.changes is not None else ()
            own = measured_state(parent.run, times_only=True)
            self._base = Series("", known or ((own,) if own is not None else ()))

    def compared(self, run: RunState) -> Changes | None:
        """Return what the rows of a run are compared with: anew when it begins, with their verdicts when it ends."""
        from cpugpu_tui.compare.changes import Changes, same_work
        from cpugpu_tui.state.measured import measured_state

        known, started = self._port.state.changes, run.run
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
        from cpugpu_tui.compare.series import Series

        if run.status != "done":
            return
        work = same_work(started.plan)
        self._last.pop(work, None)
        self._last[work] = Series("", self._new)
        if len(self._last) > KEPT_PLANS:
            self._last.pop(next(iter(self._last)))

    def look_before(self, _: SeriesEnded) -> None:
        """Read the series before, where this app has not measured it itself."""
        state = self._port.state
        run, changes = state.run, state.changes
        wanted = changes is not None and changes.base is None and run.run is not None
        if not wanted or state.quitting or state.calibrating or state.past is not None:
            return
        # Without a history, or once the next run has begun, there is nothing to compare with.
        latest = state.own.telemetry.latest
        self._port.in_background("before", lambda: self._before(run, latest), self._know_before, lambda _: None)

    def _before(self, run: RunState, latest: TelemetryRead | None) -> tuple[str, Series, str] | None:
        """Return run id, the series before that run and a remark on it.

        On a thread; each step of reading is between runs or not at all.
        """
        from cpugpu_tui.compare.changes import remark_on, series_before
        from cpugpu_tui.state.measured import measured_state, power_limits_of

        # The same facts as `compare` has of the saved run: its power limits are in the telemetry, not in the state.
        started, mine = run.run, measured_state(run, power_limits_of(latest.gpus) if latest is not None else None)
        base = series_before(self._reader, started) if started is not None and mine is not None else None
        if started is None or mine is None or base is None:
            return None
        remark = remark_on(base, mine)
        return (started.run_id, base, remark) if remark is not None else None

    def _know_before(self, found: tuple[str, Series, str] | None) -> None:
        """Show it, unless another run has begun."""
        changes, started = self._port.state.changes, self._port.state.own.run.run
        if found is None or changes is None or changes.run_id != found[0] or started is None:
            return
        _, base, remark = found
        age = age_text(base.runs[-1].started_wall_ns, started.wall_ns)
        self._port.change(changes=replace(changes, base=base, age=age, remark=remark))
