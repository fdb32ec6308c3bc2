"""The app as a person meets it: themes, screens, and what each key does.

Screens that a key opens are imported by that key: they take 10 ms, which the first frame need not wait for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.driver import Driver
from textual.screen import Screen

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import Plan
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.ui import keys as commands
from cpugpu_tui.ui import themes
from cpugpu_tui.ui.app_state import ParentRun
from cpugpu_tui.ui.controllers.paging import Paging
from cpugpu_tui.ui.glyphs import ASCII, UNICODE, Glyphs
from cpugpu_tui.ui.keys import Situation
from cpugpu_tui.ui.live.backend import Backend
from cpugpu_tui.ui.options import AppOptions, AppResult
from cpugpu_tui.ui.panes.timing_table import TimingTable
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.page import Page

if TYPE_CHECKING:
    from cpugpu_tui.ui.screens.claims import ClaimsScreen

__all__ = ["AppOptions", "AppResult", "CpuGpuApp"]

WIDTHS: list[tuple[int, str]] | None = [(0, "-tiny"), (60, "-narrow"), (100, "-normal"), (160, "-wide")]
HEIGHTS: list[tuple[int, str]] | None = [(0, "-flat"), (16, "-short"), (34, "-tall")]
"""Columns and rows from which on `app.tcss` has another layout."""


class CpuGpuApp(Paging):
    """Times workloads on CPU and GPU and shows it."""

    CSS_PATH = "app.tcss"
    TITLE = "cpugpu-tui"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*commands.bindings(), *commands.digits()]

    def __init__(
        self,
        options: AppOptions,
        glyphs: Glyphs = UNICODE,
        backend: Backend | None = None,
        *,
        theme: str = themes.DEFAULT_THEME,
        sixteen_colours: bool = False,
        driver_class: type[Driver] | None = None,
    ) -> None:
        """Start on `theme` unless the options name one; with sixteen colours only those made for them.

        Raises:
            UsageError: there is no theme of that name.
        """
        super().__init__(options, backend, driver_class)
        self.animation_level = "none"
        self._options, self._glyphs = options, glyphs
        self.set_class(glyphs is ASCII, "-ascii")  # on every screen a scrollbar would be a row of question marks
        self.set_keymap(options.keymap.for_textual())
        own_themes = options.config_dir / "themes" if options.config_dir is not None else None
        self.start_theme(options.theme or theme, own_themes, sixteen_colours=sixteen_colours)

    def get_default_screen(self) -> Screen[None]:
        """Open on the main screen."""
        return MainScreen(self.state, self._glyphs)

    def on_mount(self) -> None:
        """Begin."""
        self.answer_signals()
        self.show_first()
        self.follow_theme_files()

    # ---------------------------------------------------------------- commands

    def action_run(self) -> None:
        """Run what is highlighted, or the plan of the saved run that is shown, or was run again last."""
        if self.state.past is not None:
            self.run_past_again()
        elif self.state.again is not None:
            self.begin_plan(self.state.again, self.state.count or 1, again=True)
        else:
            self._start(self.state.request)

    def action_find_crossover(self) -> None:
        """Find from which size on the GPU wins at what is highlighted; sizes a person named are its range."""
        self._start(replace(self.state.request, find_crossover=True))

    def _start(self, request: PlanRequest) -> None:
        if self._refused():
            return
        try:
            plan = build_plan(replace(request, gaps=True))
        except UsageError as error:
            self.change(problem=error)
            return
        self.begin_plan(plan, self.state.count or request.repeat, request.case_timeout_s)

    def begin_plan(
        self, plan: Plan, repeats: int = 1, case_timeout_s: float | None = None, *, again: bool = False,
        whole: ParentRun | None = None,
    ) -> None:  # fmt: skip
        """Start a plan; `again`: `r` runs it once more, until something else is highlighted; `whole`: see `R`."""
        self.leave_history()
        self.expect_runs(plan, whole)
        self.bridge.expect_series()
        self.run_worker(
            lambda: self.bridge.run_series(plan, repeats, case_timeout_s),
            thread=True, exclusive=True, exit_on_error=False, group="run",
        )  # fmt: skip
        kept = None if whole is None else self.state.again  # a row that is run alone is not what `r` runs next
        self.begin_series(
            problem=None, repeats=repeats, repeat_number=1, again=plan if again else kept, count=0, whole=whole,
            situation=Situation(live=True, ran=self.state.situation.ran),
        )  # fmt: skip
        self.set_terminal_title(f"cpugpu-tui: {plan.name}")
        if isinstance(self.screen, MainScreen):
            self.screen.query_one(TimingTable).focus()

    def _refused(self) -> bool:
        """Say that nothing is run during a replay; pages reach this where no key is refused before."""
        if self.state.situation.replay:
            self.change(problem=UsageError("This is a replay.", "Start cpugpu-tui without --replay to run something."))
        return self.state.situation.replay

    def action_pause(self) -> None:
        """Pause or resume the run."""
        paused = self.state.situation.paused
        if paused:
            self.bridge.resume()
        else:
            self.bridge.pause()
        self.situate(paused=not paused)

    def action_stop(self) -> None:
        """Stop after the block; when that was asked for already, at once."""
        if self.state.situation.stopping:
            self.bridge.kill()
        else:
            self.bridge.stop()
            self.situate(stopping=True, paused=False)

    def action_measure(self) -> None:
        """Measure the machine for its card."""
        if self._refused():
            return
        self.leave_history()
        request = self.state.request
        plan = Plan(
            "machine", (), devices=request.devices, calibrate=True, gaps=True, simulation=request.simulation
        )  # fmt: skip
        self.bridge.expect_series()
        self.run_worker(
            lambda: self.bridge.calibrate(plan), thread=True, exclusive=True, exit_on_error=False, group="run"
        )
        self.begin_series(
            problem=None, calibrating="starting",
            situation=Situation(live=True, ran=self.state.situation.ran),
        )  # fmt: skip
        from cpugpu_tui.ui.screens.machine import MachineScreen

        if not isinstance(self.screen, MachineScreen):
            self.action_machine()

    def on_claims_screen_wanted(self, message: ClaimsScreen.Wanted) -> None:
        """Close the page and measure what a claim needs, on the devices that were asked for."""
        while isinstance(self.screen, Page):
            self.pop_screen()
        if message.judged.wants_ceilings:
            self.action_measure()
        elif message.judged.request is not None and isinstance(self.screen, MainScreen):
            asked = self.state.request
            request = replace(
                message.judged.request, devices=asked.devices, mnist=asked.mnist, simulation=asked.simulation
            )  # fmt: skip
            pane = self.screen.query_one(WorkloadPane)
            pane.choose("+".join(request.names))
            pane.change(request)
            self._start(request)

    def run_named(self, name: str) -> None:
        """Highlight a preset or a workload and run it, with the parameters that it has."""
        while isinstance(self.screen, Page):
            self.pop_screen()
        if isinstance(self.screen, MainScreen):
            pane = self.screen.query_one(WorkloadPane)
            pane.choose(name)
            self._start(pane.entry.request)
