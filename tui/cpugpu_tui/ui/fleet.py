"""The app of a fleet run: hosts live, their cases, and how to stop them."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.driver import Driver
from textual.screen import Screen

from cpugpu_tui.session.fleet.running import Deliver, Fleet
from cpugpu_tui.session.fleet.state import FleetState
from cpugpu_tui.ui import keys, themes
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.controllers.fleet import FleetRunning
from cpugpu_tui.ui.controllers.leaving import Leaving
from cpugpu_tui.ui.controllers.paging import Paging
from cpugpu_tui.ui.glyphs import UNICODE, Glyphs
from cpugpu_tui.ui.keys import Situation
from cpugpu_tui.ui.options import FleetOptions
from cpugpu_tui.ui.screens.fleet import FleetScreen
from cpugpu_tui.ui.shell import Shell

LOOK_S = 0.5
"""How often what has come in is shown: the hosts are other machines, no paint is in their numbers."""

KEYS = ("stop", "back", "next-theme", "help", "quit")
"""Commands that work in a fleet."""

ALSO_KEYS = ("back", "next-theme", "help", "quit")
"""Commands that help lists beside its words on the fleet's own: what a run's panes answer does nothing here."""

GRACE_S = 1.6
"""How long leaving waits for the hosts' agents to be gone: a signal must be obeyed within 2 s."""

WAIT_S = 5.0
"""How long its agents may take to be gone once the app is closed; they go with this process in any case."""


class FleetApp(Shell[int]):
    """The shell with the controllers of a fleet."""

    TITLE = "cpugpu-tui fleet"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings(KEYS)]

    def __init__(
        self, fleet: Fleet, state: FleetState, also: Deliver, options: FleetOptions, glyphs: Glyphs = UNICODE, *,
        theme: str = themes.DEFAULT_THEME, sixteen_colours: bool = False, driver_class: type[Driver] | None = None,
    ) -> None:  # fmt: skip
        """Show `fleet`; `also` is told everything, too, on the fleet's thread.

        Raises:
            UsageError: there is no theme of that name.
        """
        first = AppState(keymap=options.keymap, situation=Situation(live=True))
        super().__init__(
            options, glyphs, first, theme=theme, sixteen_colours=sixteen_colours, driver_class=driver_class
        )  # fmt: skip
        self._fleet = fleet
        self.running = FleetRunning(self, fleet, state, also)
        self.paging = Paging(self, help_lists=ALSO_KEYS)
        self.leaving = Leaving(
            self, is_busy=lambda: not self.running.is_over, stop=fleet.kill, leave=self._leave,
            question=("Hosts are at work. Stop them and quit?", "let them run"), grace_s=GRACE_S,
        )  # fmt: skip

    def get_default_screen(self) -> Screen[None]:
        """Open on the list of hosts."""
        return FleetScreen(self.state, self.running.fleet_state, self.glyphs)

    def on_mount(self) -> None:
        """Begin."""
        if self.signals is not None:
            self.signals.answer(self._obey)
        self.running.begin()
        self.set_interval(LOOK_S, self._look)
        self.themes.follow_files()
        if self.state.theme_notice:
            self.call_after_refresh(self.say, self.state.theme_notice, stays=True)  # the list is not mounted yet

    def _look(self) -> None:
        """Show what has come in; leave, once nothing is left to wait for."""
        self.running.look()
        if self.running.is_over:
            self.leaving.go_if_asked()

    def _obey(self, code: int) -> None:
        self._fleet.signal_exit = code
        self.leaving.leave(code)

    def _leave(self, code: int) -> None:
        self.exit(code, return_code=code)

    def close(self) -> None:
        """Stop what still runs, and wait for it a little."""
        if not self.running.is_over:
            self._fleet.kill()
            self.running.wait(WAIT_S)
