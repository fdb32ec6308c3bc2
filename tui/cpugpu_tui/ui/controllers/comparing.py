"""The part of the app that compares series: with the previous one, a chosen one, the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.driver import Driver
from textual.message import Message

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.controllers.exporting import TakingAway
from cpugpu_tui.ui.live.backend import Backend
from cpugpu_tui.ui.live.messages import SeriesEnded
from cpugpu_tui.ui.live.quiet_reader import QuietReader
from cpugpu_tui.ui.live.saved_runs import BASELINE
from cpugpu_tui.ui.options import AppOptions

if TYPE_CHECKING:
    from cpugpu_tui.ui.live.saved_runs import SavedRuns
    from cpugpu_tui.ui.screens.compare import Compared

IS_BASELINE = f"is baseline {BASELINE}"

NONE_BEFORE = "There is no other series of {name} to compare with yet; run it again."


class BaselineKnown(Message):
    """What the status line says of the baseline has been found out."""

    def __init__(self, series_id: str, text: str, error: CpuGpuError | None = None) -> None:
        """Carry it, with the series that it is said of; `error`: why the baseline could not be set."""
        super().__init__()
        self.series_id, self.text, self.error = series_id, text, error


class Comparing(TakingAway):
    """Reads series on threads, and only between runs."""

    def __init__(
        self, options: AppOptions, backend: Backend | None = None, driver_class: type[Driver] | None = None
    ) -> None:
        """Begin with nothing read."""
        super().__init__(options, backend, driver_class)
        self.reader = QuietReader(self.bridge.between_runs)

    def action_compare(self) -> None:
        """Compare the run on the screen with the previous series; pressed again, go back."""
        from cpugpu_tui.ui.screens.compare import CompareScreen

        if isinstance(self.screen, CompareScreen):
            self.pop_screen()
            return
        run = self.state.run
        read = lambda place: compared(self.bridge.history(), self.reader, run, place)  # noqa: E731 - one line, and bound to this run
        self.push_screen(CompareScreen(self.state, self._glyphs, read))

    def action_set_baseline(self) -> None:
        """Make the series of the run on the screen the baseline."""
        run = self.state.run
        started = run.run
        if started is None:
            return

        def body() -> None:
            try:
                self.bridge.history().store.set_baseline(BASELINE, started.series_id)
                starved = sum(row.is_starved for row in run.rows.values())
                without = f", without {starved} that lacked a core" if starved else ""
                self.post_message(BaselineKnown(started.series_id, IS_BASELINE + without))
            except CpuGpuError as error:
                self.post_message(BaselineKnown("", "", error))

        self.run_worker(body, thread=True, exit_on_error=False, group="baseline")

    @on(SeriesEnded)
    def _look_at_baseline(self) -> None:
        """Compare what has ended with the baseline, if there is one."""
        run = self.state.run
        if run.run is None or self.state.quitting:
            return
        series_id = run.run.series_id
        self.change(baseline=("", ""))
        self.run_worker(
            lambda: self.post_message(BaselineKnown(series_id, against_baseline(self.reader, run))),
            thread=True, exit_on_error=False, group="baseline",
        )  # fmt: skip

    @on(BaselineKnown)
    def _say_baseline(self, message: BaselineKnown) -> None:
        if not self.screen_stack:  # the app is closing
            return
        if message.error is not None:
            self.change(problem=message.error)
        else:
            self.change(baseline=(message.series_id, message.text))


def compared(saved: SavedRuns, reader: QuietReader, run: RunState, place: int) -> Compared:
    """Return the series of a run beside the n-th other one."""
    from cpugpu_tui.compare.comparison import compare_series, other_series
    from cpugpu_tui.ui.screens.compare import Compared

    started = run.run
    if started is None:
        return Compared(None, "No run is on the screen. Start one, or open a saved one.", 0, 0)
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


def against_baseline(reader: QuietReader, run: RunState) -> str:
    """Return what the status line says of the baseline after a run; empty where they have nothing in common."""
    from cpugpu_tui.compare.comparison import compare_series
    from cpugpu_tui.render.comparison_words import in_short

    started = run.run
    try:
        baseline = reader.baseline(BASELINE)
        if started is None or baseline is None:
            return ""
        if baseline == started.series_id:
            return IS_BASELINE
        base, new = (reader.series(each) for each in (baseline, started.series_id))
        return f"vs {BASELINE}: {in_short(compare_series(base, new))}"
    except CpuGpuError:
        return ""
