"""Saved runs: lists them, opens one in the panes, follows it, and returns to the present run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual.timer import Timer

from cpugpu_tui.analysis.costs import RESIDENT
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.state.beside import with_recorded
from cpugpu_tui.ui.app_state import SavedRunView
from cpugpu_tui.ui.controllers.app_port import Port, close_pages
from cpugpu_tui.ui.live.saved_runs import OpenedRun, SavedRuns, ago
from cpugpu_tui.ui.screens.main import MainScreen

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary
    from cpugpu_tui.ui.screens.run_list import Place

FOLLOW_S = 1.0
"""How often a run of another terminal is polled: one line is read, and the rest only if that line changed."""


class History:
    """Shows saved runs in place of this terminal's run; between runs only, because reading disturbs timing."""

    def __init__(self, port: Port, saved_runs: Callable[[], SavedRuns]) -> None:
        """`saved_runs` is called on threads and waits until the history is open."""
        self._port, self._saved_runs = port, saved_runs
        self._place: Place | None = None
        self._follower: Timer | None = None
        self._following = False

    def toggle(self) -> None:
        """Open or close the list of saved runs; while a saved run is shown, return to the present one."""
        from cpugpu_tui.ui.screens.history import HistoryScreen
        from cpugpu_tui.ui.screens.run_list import Place

        port = self._port
        if isinstance(port.screen, HistoryScreen):
            port.pop_screen()
        elif port.state.past is not None:
            self.return_to_present()
        else:
            self._place = self._place or Place()
            port.push_screen(HistoryScreen(port.state, port.glyphs, self._saved_runs, self._place))

    # ---------------------------------------------------------------- opening

    def show(self, known: RunSummary) -> None:
        """Show a saved run in the panes."""
        self.read(known, self._put)

    def read(self, known: RunSummary, then: Callable[[OpenedRun, int], object]) -> None:
        """Read a saved run on a thread; call `then` with it and the wall time, unless a run has begun."""

        def body() -> tuple[OpenedRun, int]:
            saved = self._saved_runs()
            return saved.open(known.number), saved.now_ns()

        def opened(found: tuple[OpenedRun, int]) -> None:
            if not self._port.state.situation.live:
                then(*found)

        self._port.in_background("past", body, opened, self.refuse)

    def _put(self, opened: OpenedRun, now_ns: int) -> None:
        """Show a saved run in the panes, or its newer version."""
        port, before = self._port, self._port.state.past
        if before is not None and before.summary.run_id != opened.summary.run_id:
            return
        first: dict[str, Any] = {}
        if before is None:
            first = {"what_if": RESIDENT, "cursor": None, "problem": None}
            close_pages(port)
            self._follower = port.set_interval(FOLLOW_S, self._follow)
        ceilings = opened.run.run.plan.ceilings if opened.run.run is not None else ()
        age, state = ago(opened.summary.started_wall_ns, now_ns), port.state
        port.change(
            **first, run=with_recorded(opened.run), telemetry=opened.telemetry, ceilings=ceilings,
            past=SavedRunView(opened.summary, age, state.own, before.notice if before else state.notice),
            situation=state.situation._replace(past=True, ran=True),
        )  # fmt: skip
        if before is None and isinstance(port.screen, MainScreen):
            port.screen.focus_timings()

    def refuse(self, error: CpuGpuError) -> None:
        """Show why a saved run cannot be opened or run again."""
        from cpugpu_tui.ui.screens.history import HistoryScreen

        self._following = False
        if isinstance(self._port.screen, HistoryScreen):
            self._port.screen.post_message(HistoryScreen.Failed(error))
        else:
            self._stop_following()  # it was deleted or is broken; polling would repeat the error every second
            self._port.change(problem=error)

    # ---------------------------------------------------------------- while it is shown

    def _follow(self) -> None:
        """Show what another terminal has added; of a finished run only the age changes."""
        past = self._port.state.past
        if past is None or self._following:
            return
        if not past.is_live:
            self._show_age(self._saved_runs().now_ns())
            return
        known = past.summary
        self._following = True

        def body() -> tuple[OpenedRun | None, int]:
            saved = self._saved_runs()
            return saved.advanced(known), saved.now_ns()

        self._port.in_background("past", body, self._show_more, self.refuse)

    def _show_more(self, found: tuple[OpenedRun | None, int]) -> None:
        self._following = False
        opened, now_ns = found
        state = self._port.state
        if state.situation.live or state.past is None:
            return  # a run began or the present one came back during the read
        if opened is None:
            self._show_age(now_ns)
        else:
            self._put(opened, now_ns)

    def _show_age(self, now_ns: int) -> None:
        past = self._port.state.past
        if past is not None and past.age != (age := ago(past.summary.started_wall_ns, now_ns)):
            self._port.change(past=past._replace(age=age))

    def return_to_present(self) -> bool:
        """Show this terminal's run again; return False if it is shown already."""
        self._stop_following()
        state = self._port.state
        if state.past is None:
            return False
        own = state.own
        self._port.change(
            past=None, run=own.run, telemetry=own.telemetry, ceilings=own.ceilings,
            what_if=RESIDENT, cursor=None, problem=None,
            situation=state.situation._replace(past=False, ran=own.run.run is not None),
        )  # fmt: skip
        return True

    def _stop_following(self) -> None:
        if self._follower is not None:
            self._follower.stop()
            self._follower = None

    def leave(self) -> None:
        """Return to the panes and the present run, because something is about to run."""
        from cpugpu_tui.ui.screens.history import HistoryScreen

        if isinstance(self._port.screen, HistoryScreen):
            self._port.pop_screen()
        self.return_to_present()
