"""Compares series with an earlier one, the baseline and the publications' claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.controllers.app_port import Port, toggle
from cpugpu_tui.ui.live.bridge import Bridge
from cpugpu_tui.ui.live.messages import PairChosen, SeriesEnded
from cpugpu_tui.ui.live.saved_runs import BASELINE, QuietReader

if TYPE_CHECKING:
    from cpugpu_tui.ui.live.saved_runs import SavedRuns
    from cpugpu_tui.ui.screens.compare import Compared

IS_BASELINE = "is baseline {name}"

NONE_BEFORE = "{name} has only this series. Run it again to compare."


class Comparing:
    """Reads series on threads, between runs only."""

    def __init__(self, port: Port, bridge: Bridge, reader: QuietReader) -> None:
        self._port, self._bridge, self._reader = port, bridge, reader

    def toggle(self) -> None:
        """Open or close the comparison of the shown run with an earlier series."""
        from cpugpu_tui.ui.screens.compare import CompareScreen

        run = self._port.state.run

        def read(place: int) -> Compared:
            return compared(self._bridge.history(), self._reader, run, place)

        toggle(self._port, CompareScreen, lambda: CompareScreen(self._port.state, self._port.glyphs, read))

    def toggle_claims(self) -> None:
        """Open or close the claims."""
        from cpugpu_tui.ui.screens.claims import ClaimsScreen

        read = self._bridge.backend.claim_points
        toggle(self._port, ClaimsScreen, lambda: ClaimsScreen(self._port.state, self._port.glyphs, read))

    def open_pair(self, message: PairChosen) -> None:
        """Open the comparison of two saved runs."""
        from cpugpu_tui.ui.screens.compare import PairScreen

        def read(_: int) -> Compared:
            return compared_pair(self._bridge.history(), message.base, message.new)

        self._port.push_screen(PairScreen(self._port.state, self._port.glyphs, read))

    def set_baseline(self) -> None:
        """Ask for a name, and make the series of the shown run the baseline of this name."""
        from cpugpu_tui.ui.screens.baseline import BaselineBox

        if self._port.state.run.run is not None:
            self._port.push_screen(BaselineBox(BASELINE), self.name_baseline)

    def name_baseline(self, name: str | None) -> None:
        """Make the series of the shown run the baseline `name`; None changes nothing."""
        run = self._port.state.run
        started = run.run
        if started is None or name is None:
            return

        def body() -> tuple[str, str]:
            self._bridge.history().store.set_baseline(name, started.series_id)
            starved = sum(row.is_starved for row in run.rows.values())
            without = f", without {starved} that lacked a core" if starved else ""
            return started.series_id, IS_BASELINE.format(name=name) + without

        self._in_background(body)

    def compare_with_baseline(self, _: SeriesEnded) -> None:
        """Compare the series that has ended with the baseline, if one is set."""
        state = self._port.state
        run = state.run
        if run.run is None or state.quitting:
            return
        series_id = run.run.series_id
        self._port.change(baseline=("", ""))
        self._in_background(lambda: (series_id, against_baseline(self._reader, run)))

    def _in_background(self, body: Callable[[], tuple[str, str]]) -> None:
        """Run `body` on a thread and show its result: the series' id and the text about the baseline."""
        self._port.in_background(
            "baseline", body, lambda found: self._port.change(baseline=found),
            lambda error: self._port.change(problem=error),
        )  # fmt: skip


def compared(saved: SavedRuns, reader: QuietReader, run: RunState, place: int) -> Compared:
    """Compare the series of a run with the n-th other series, the previous one first."""
    from cpugpu_tui.compare.comparison import compare_series
    from cpugpu_tui.compare.series import other_series
    from cpugpu_tui.ui.screens.compare import Compared

    started = run.run
    if started is None:
        return Compared(None, "No run is shown. Start one, or open a saved one.", 0, 0)
    count = 0
    try:
        others = other_series(saved.store, started.series_id, started.plan.name, simulated=run.simulated)
        count, place = len(others), min(place, max(len(others) - 1, 0))
        if not others:
            return Compared(None, NONE_BEFORE.format(name=started.plan.name), 0, 0)
        base = reader.series(*others[place])
        return Compared(compare_series(base, reader.series(started.series_id)), "", place, count)
    except CpuGpuError as error:
        return Compared(None, str(error), place, count)


def compared_pair(saved: SavedRuns, base: int, new: int) -> Compared:
    """Compare two saved runs, which may belong to one series."""
    from cpugpu_tui.compare.comparison import compare_series
    from cpugpu_tui.compare.series import series_from
    from cpugpu_tui.state.folding import measured
    from cpugpu_tui.ui.screens.compare import Compared

    try:
        runs = [measured(saved.store.load(saved.summary(number).run_id)) for number in (base, new)]
        before, after = (series_from("", [run]) for run in runs)
        return Compared(compare_series(before, after), "", 0, 1)
    except CpuGpuError as error:
        return Compared(None, str(error), 0, 0)


def against_baseline(reader: QuietReader, run: RunState) -> str:
    """Return the status line's text about the baseline; empty without one."""
    from cpugpu_tui.compare.comparison import compare_series
    from cpugpu_tui.render.comparison import in_short

    started = run.run
    try:
        found = reader.baseline_for(started.plan.name) if started is not None else None
        if started is None or found is None:
            return ""
        name, baseline = found
        if baseline == started.series_id:
            return IS_BASELINE.format(name=name)
        base, new = (reader.series(each) for each in (baseline, started.series_id))
        return f"vs {name}: {in_short(compare_series(base, new))}"
    except CpuGpuError:
        return ""
