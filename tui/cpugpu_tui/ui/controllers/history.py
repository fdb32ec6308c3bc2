"""The part of the app that knows saved runs: opens one in the panes, follows it, runs it again, comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual import on
from textual.driver import Driver
from textual.message import Message
from textual.timer import Timer

from cpugpu_tui.analysis.what_if import RESIDENT
from cpugpu_tui.errors import CpuGpuError, UsageError
from cpugpu_tui.model import Plan
from cpugpu_tui.ui.app_state import SavedRunView
from cpugpu_tui.ui.controllers.timings import Charting
from cpugpu_tui.ui.live.backend import Backend
from cpugpu_tui.ui.live.saved_runs import OpenedRun, ago
from cpugpu_tui.ui.options import AppOptions
from cpugpu_tui.ui.panes.timing_table import TimingTable
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.page import Page

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary
    from cpugpu_tui.ui.screens.run_list import Place, RunList

FOLLOW_S = 1.0
"""How often a run that another terminal has live is looked at again: one line is read, the rest when that differs."""


class PastRead(Message):
    """A saved run has been read, for the first time or anew."""

    def __init__(self, opened: OpenedRun | None, now_ns: int, *, again: bool = False) -> None:
        """Carry the run, None if it is as it was; `again`: its plan is to run, not its rows to be shown."""
        super().__init__()
        self.opened, self.now_ns, self.again = opened, now_ns, again


class PastRefused(Message):
    """A saved run cannot be shown."""

    def __init__(self, error: CpuGpuError) -> None:
        """Carry why."""
        super().__init__()
        self.error = error


class LookingBack(Charting):
    """Puts this terminal's own run aside for a saved one; only between runs, for reading costs what is being timed."""

    def __init__(
        self, options: AppOptions, backend: Backend | None = None, driver_class: type[Driver] | None = None
    ) -> None:
        """Begin with the present."""
        super().__init__(options, backend, driver_class)
        self._history_place: Place | None = None
        self._follower: Timer | None = None
        self._following = False

    def action_history(self) -> None:
        """List the saved runs; pressed again, go back; beside a saved run, to the present one."""
        from cpugpu_tui.ui.screens.history import HistoryScreen
        from cpugpu_tui.ui.screens.run_list import Place

        if isinstance(self.screen, HistoryScreen):
            self.pop_screen()
        elif self.state.past is not None:
            self.return_to_present()
        else:
            self._history_place = self._history_place or Place()
            self.push_screen(HistoryScreen(self.state, self._glyphs, self.bridge.history, self._history_place))

    # ---------------------------------------------------------------- opening

    def on_run_list_chosen(self, message: RunList.Chosen) -> None:
        """Read the run that was chosen, on a thread."""
        self._read_past(message.run, again=message.again)

    def _read_past(self, known: RunSummary, *, again: bool = False, follow: bool = False) -> None:
        """Read a run, or when it is followed see whether there is more of it; its message brings what was found."""

        def body() -> None:
            try:
                saved = self.bridge.history()
                opened = saved.advanced(known) if follow else saved.open(known.number)
                self.post_message(PastRead(opened, saved.now_ns(), again=again))
            except CpuGpuError as error:
                self.post_message(PastRefused(error))

        self.run_worker(body, thread=True, exit_on_error=False, group="past")

    @on(PastRead)
    def _show_past(self, message: PastRead) -> None:
        self._following = False
        past, opened = self.state.past, message.opened
        if not self.screen_stack:  # the app is closing
            return
        if self.state.situation.live or (opened is None and past is None):
            return  # a run has begun, or the person has gone back, while it was read
        if opened is not None and message.again:
            self._run_again(opened)
        elif opened is not None and (past is None or past.summary.run_id == opened.summary.run_id):
            self._put(opened, ago(opened.summary.started_wall_ns, message.now_ns))
        elif past is not None and past.age != (age := ago(past.summary.started_wall_ns, message.now_ns)):
            self.change(past=replace(past, age=age))

    def _put(self, opened: OpenedRun, age: str) -> None:
        """Put a saved run into the panes, in place of this terminal's own or of what was known of it before."""
        before = self.state.past
        first: dict[str, Any] = {}
        if before is None:
            first = {"what_if": RESIDENT, "cursor": None, "problem": None}
            self._close_pages()
            self._follower = self.set_interval(FOLLOW_S, self._follow)
        ceilings = opened.run.run.plan.ceilings if opened.run.run is not None else ()
        self.change(
            **first, run=opened.run, telemetry=opened.telemetry, ceilings=ceilings,
            past=SavedRunView(opened.summary, age, self.state.own, before.notice if before else self.state.notice),
            situation=replace(self.state.situation, past=True, ran=True),
        )  # fmt: skip
        if before is None and isinstance(self.screen, MainScreen):
            self.screen.query_one(TimingTable).focus()

    @on(PastRefused)
    def _say_refused(self, message: PastRefused) -> None:
        from cpugpu_tui.ui.screens.history import HistoryScreen

        self._following = False
        if not self.screen_stack:
            return
        if isinstance(self.screen, HistoryScreen):
            self.screen.post_message(HistoryScreen.Failed(message.error))
        else:
            self._stop_following()  # it is gone or broken, and would be so every second
            self.change(problem=message.error)

    # ---------------------------------------------------------------- while it is shown

    def _follow(self) -> None:
        """See what another terminal has added; of a run that is over only the age changes."""
        past = self.state.past
        if past is None or self._following:
            return
        if past.is_live:
            self._following = True
            self._read_past(past.summary, follow=True)
        else:
            self._show_past(PastRead(None, self.bridge.history().now_ns()))

    def return_to_present(self) -> bool:
        """Show this terminal's own run again; return False if it is what is shown."""
        self._stop_following()
        if self.state.past is None:
            return False
        own = self.state.own
        self.change(
            past=None, run=own.run, telemetry=own.telemetry, ceilings=own.ceilings,
            what_if=RESIDENT, cursor=None, problem=None,
            situation=replace(self.state.situation, past=False, ran=own.run.run is not None),
        )  # fmt: skip
        return True

    def _stop_following(self) -> None:
        if self._follower is not None:
            self._follower.stop()
            self._follower = None

    def leave_history(self) -> None:
        """Go back to the present, and to the panes: something is about to run."""
        from cpugpu_tui.ui.screens.history import HistoryScreen

        if isinstance(self.screen, HistoryScreen):
            self.pop_screen()
        self.return_to_present()

    def _close_pages(self) -> None:
        while isinstance(self.screen, Page):
            self.pop_screen()

    # ---------------------------------------------------------------- running it again

    def run_past_again(self) -> None:
        """Run the plan of the saved run that is shown."""
        past = self.state.past
        if past is not None:
            self._run_again(OpenedRun(past.summary, self.state.run, self.state.telemetry))

    def _run_again(self, opened: OpenedRun) -> None:
        """Run the plan of a saved run, with its seed, as it was; what this app's agents cannot do is said."""
        started = opened.run.run
        simulates = self.state.request.simulation is not None
        if started is None or not self.state.situation.may_start:
            return
        if opened.run.simulated != simulates:
            self._say_refused(PastRefused(other_kind(opened.summary.number, simulates=simulates)))
            return
        timeout_s = started.environment.get("case_timeout_s")
        # What the devices reach is looked up anew; gaps are for this screen and change no number.
        plan = replace(started.plan, gaps=True, ceilings=())
        self._close_pages()
        self.begin_plan(plan, self.state.count or 1, timeout_s, again=True)

    def begin_plan(
        self, plan: Plan, repeats: int = 1, case_timeout_s: float | None = None, *, again: bool = False
    ) -> None:
        """Start a plan."""
        raise NotImplementedError


def other_kind(number: int, *, simulates: bool) -> UsageError:
    """Return why a run cannot be run again by an app that simulates, or by one that measures."""
    if simulates:
        return UsageError(f"Run {number} was measured, and this app simulates.", "Start cpugpu-tui without --simulate.")
    return UsageError(f"Run {number} was simulated, and this app measures.", "Start cpugpu-tui with --simulate.")
