"""Repeats, and comparisons: with the previous series, an earlier one, the baseline and the publications' claims."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cpugpu_tui import model
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.app_state import ParentRun
from cpugpu_tui.ui.live.bridge import Bridge
from cpugpu_tui.ui.live.messages import PairChosen, SeriesEnded, in_background
from cpugpu_tui.ui.live.saved_runs import BASELINE, QuietReader, age_text
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.shell import Shell

if TYPE_CHECKING:
    from cpugpu_tui.compare.changes import Changes
    from cpugpu_tui.compare.series import Series
    from cpugpu_tui.state.folding import MeasuredRun


MOST_COUNT = 99
"""Largest number of runs that can be typed."""

KEPT_PLANS = 8
"""Plans whose last series is kept in memory, so that `r` reads nothing."""


class Repeating:
    """Keeps the last series of each plan; reads earlier ones only after a run."""

    def __init__(self, app: Shell[Any], reader: QuietReader) -> None:
        self._app, self._reader = app, reader
        self._last: dict[model.Plan, Series] = {}
        """Plan without its incidental fields (`same_work`) → its last series with a finished run of this app."""
        self._base: Series | None = None
        self._new: tuple[MeasuredRun, ...] = ()
        """Runs of the current or last series."""

    # ---------------------------------------------------------------- how many

    def count(self, digit: int) -> None:
        """Add a digit to the number of runs that the next key starts; a third digit starts over."""
        state = self._app.state
        if not isinstance(self._app.screen, MainScreen) or not state.situation.may_start:
            return
        count = 10 * state.asked_runs + digit
        self._app.change(asked_runs=count if count <= MOST_COUNT else digit)

    def drop_count(self) -> bool:
        """Clear the count; return False if none was typed."""
        if not self._app.state.asked_runs:
            return False
        self._app.change(asked_runs=0)
        return True

    # ---------------------------------------------------------------- one row

    def plan_of_row(self) -> tuple[model.Plan, ParentRun] | None:
        """Return the plan of the highlighted row alone and the run it belongs to; None without a row."""
        from cpugpu_tui.compare.changes import plan_of_row

        state = self._app.state
        parent = state.parent or ParentRun(state.run, state.changes)
        row = state.run.rows.get(state.cursor or "")
        if row is None or parent.run.run is None:
            return None
        return replace(plan_of_row(parent.run.run.plan, row.case), gaps=True), parent

    def return_to_parent(self) -> bool:
        """Show the run whose row was run alone; return False if no such row is shown."""
        parent = self._app.state.parent
        if parent is None or self._app.state.situation.live:
            return False
        self._app.change(run=parent.run, changes=parent.changes, parent=None, cursor=None)
        return True

    # ---------------------------------------------------------------- what changed

    def expect_runs(self, plan: model.Plan, parent: ParentRun | None) -> None:
        """Choose, from memory, the series to compare the next one with."""
        from cpugpu_tui.compare.changes import same_work
        from cpugpu_tui.compare.series import Series
        from cpugpu_tui.state.folding import measured_state

        self._new = ()
        self._base = self._last.get(same_work(plan))
        if parent is not None:
            known = parent.changes.new if parent.changes is not None else ()
            own = measured_state(parent.run, times_only=True)
            self._base = Series("", known or ((own,) if own is not None else ()))

    def compared(self, run: RunState) -> Changes | None:
        """Return the comparison of a run: a new one when the run begins, with verdicts when it ends."""
        from cpugpu_tui.compare.changes import Changes, same_work
        from cpugpu_tui.compare.series import Series
        from cpugpu_tui.state.folding import measured_state

        known, started = self._app.state.changes, run.run
        if started is None:
            return known
        if known is None or known.run_id != started.run_id:
            # The demo plays runs of different plans, which do not form a series.
            self._new = tuple(each for each in self._new if same_work(each.plan) == same_work(started.plan))
            age = age_text(self._base.runs[-1].started_wall_ns, started.wall_ns) if self._base is not None else ""
            known = Changes(started.run_id, self._base, self._new, age, number=started.number)
        if run.finished is None or known.is_over:
            return known
        measured = measured_state(run, times_only=True)
        if measured is None or not measured.has_times:
            return known
        self._new = (*self._new, measured)
        if run.status == "done":
            work = same_work(started.plan)
            self._last.pop(work, None)
            self._last[work] = Series("", self._new)
            if len(self._last) > KEPT_PLANS:
                self._last.pop(next(iter(self._last)))
        return known.with_run(measured)

    def look_before(self, _: SeriesEnded) -> None:
        """Read the previous series if this app has not measured it."""
        state = self._app.state
        run, changes = state.run, state.changes
        wanted = changes is not None and changes.base is None and run.run is not None
        if not wanted or state.quitting or state.calibrating or state.past is not None:
            return
        # Errors are ignored: without a history, or once the next run has begun, nothing can be compared.
        latest = state.own.telemetry.latest
        in_background(self._app, "before", lambda: self._before(run, latest), self._know_before)

    def _before(self, run: RunState, latest: model.TelemetryRead | None) -> tuple[str, Series, str] | None:
        """Return the run id, the previous series and a remark; called on a thread, reads between runs only."""
        from cpugpu_tui.compare.changes import remark_on, series_before
        from cpugpu_tui.state.folding import measured_state, power_limits_of

        started = run.run
        base = series_before(self._reader, started) if started is not None else None
        # `compare` sees the power limits of the saved run; here they are in the telemetry.
        mine = measured_state(run, power_limits_of(latest.gpus) if latest is not None else None) if base else None
        if started is None or base is None or mine is None:
            return None
        remark = remark_on(base, mine)
        return (started.run_id, base, remark) if remark is not None else None

    def _know_before(self, found: tuple[str, Series, str] | None) -> None:
        """Show the previous series, unless another run has begun."""
        changes, started = self._app.state.changes, self._app.state.own.run.run
        if found is None or changes is None or changes.run_id != found[0] or started is None:
            return
        _, base, remark = found
        age = age_text(base.runs[-1].started_wall_ns, started.wall_ns)
        self._app.change(changes=replace(changes, base=base, age=age, remark=remark))


IS_BASELINE = "is baseline {name}"


class Comparing:
    """Reads series on threads, between runs only."""

    def __init__(self, app: Shell[Any], bridge: Bridge, reader: QuietReader) -> None:
        self._app, self._bridge, self._reader = app, bridge, reader

    def toggle(self) -> None:
        """Open or close the comparison of the shown run with an earlier series."""
        from cpugpu_tui.ui.screens import compare

        run = self._app.state.run

        def read(place: int) -> compare.Compared:
            duet, shown = self._bridge.duet, self._app.state.run.run
            if duet is not None and shown is not None and shown.run_id == duet.run_id:
                return compare.Compared(duet.found, duet.problem, 0, 1)
            return compare.compared(self._bridge.history(), self._reader, run, place)

        screen = compare.CompareScreen
        self._app.toggle(screen, lambda: screen(self._app.state, self._app.glyphs, read))

    def toggle_claims(self) -> None:
        """Open or close the claims."""
        from cpugpu_tui.ui.screens.claims import ClaimsScreen

        read = self._bridge.backend.claim_points
        self._app.toggle(ClaimsScreen, lambda: ClaimsScreen(self._app.state, self._app.glyphs, read))

    def toggle_noise(self) -> None:
        """Open or close the noise floor of this machine."""
        from cpugpu_tui.ui.screens.compare import NoiseScreen, noise_of

        app, reader = self._app, self._reader
        app.toggle(
            NoiseScreen, lambda: NoiseScreen(app.state, app.glyphs, lambda: noise_of(reader, app.state.simulated))
        )

    def open_pair(self, message: PairChosen) -> None:
        """Open the comparison of two saved runs."""
        from cpugpu_tui.ui.screens.compare import PairScreen, compared_pair

        history, pair = self._bridge.history, (message.base, message.new)
        self._app.push_screen(PairScreen(self._app.state, self._app.glyphs, lambda _: compared_pair(history(), *pair)))

    def set_baseline(self) -> None:
        """Ask for a name, and make the series of the shown run the baseline of this name."""
        from cpugpu_tui.ui.screens.form import BaselineBox

        if self._app.state.run.run is not None:
            self._app.push_screen(BaselineBox(BASELINE), self.name_baseline)

    def name_baseline(self, name: str | None) -> None:
        """Make the series of the shown run the baseline `name`; None changes nothing."""
        started = self._app.state.run.run
        if started is None or name is None:
            return

        def set_baseline() -> str:
            return self._bridge.history().set_baseline(name, started.series_id)

        def done(remarks: str) -> None:
            self._tell((started.series_id, IS_BASELINE.format(name=name)))
            self._app.say(remarks, stays=True)

        in_background(self._app, "baseline", set_baseline, done, lambda error: self._app.change(problem=error))

    def compare_with_baseline(self, _: SeriesEnded) -> None:
        """Compare the series that has ended with the baseline, if one is set."""
        started = self._app.state.run.run
        if started is None or self._app.state.quitting:
            return
        self._tell(("", ""))
        # Errors are ignored: without a history, or once the next run has begun, nothing can be compared.
        in_background(self._app, "baseline", lambda: against_baseline(self._reader, started), self._tell)

    def _tell(self, baseline: tuple[str, str]) -> None:
        """Show the text about the baseline beside the series with this id."""
        self._app.change(baseline=baseline)


def against_baseline(reader: QuietReader, started: model.RunStarted) -> tuple[str, str]:
    """Return the id of a series and the status line's text about its baseline; empty without one."""
    from cpugpu_tui.compare.comparison import compare_series
    from cpugpu_tui.render.comparison import in_short

    found = reader.baseline_for(started.plan.name)
    if found is None:
        return started.series_id, ""
    name, baseline = found
    if baseline == started.series_id:
        return started.series_id, IS_BASELINE.format(name=name)
    base, new = (reader.series(each) for each in (baseline, started.series_id))
    return started.series_id, f"vs {name}: {in_short(compare_series(base, new))}"
