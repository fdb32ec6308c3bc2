"""The app of a fleet run: its controller, hosts and their cases, and how to stop them."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.screen import Screen
from textual.types import CSSPathType

from cpugpu_tui.session.fleet_running import Deliver, Fleet
from cpugpu_tui.session.fleet_state import FleetState, Told
from cpugpu_tui.ui import keys
from cpugpu_tui.ui.app_state import AppState, FleetOptions
from cpugpu_tui.ui.controllers.paging import Leaving, Paging
from cpugpu_tui.ui.glyphs import UNICODE, Glyphs
from cpugpu_tui.ui.keys import Situation
from cpugpu_tui.ui.screens.fleet import FleetList, FleetScreen
from cpugpu_tui.ui.shell import Shell


class FleetRunning:
    """Replaces `Running` in the app of a fleet."""

    def __init__(self, app: Shell[Any], fleet: Fleet, state: FleetState, also: Deliver) -> None:
        """Run `fleet`; `also` receives every event too, on the fleet's thread."""
        self._app, self._fleet, self._also = app, fleet, also
        self.fleet_state = self._shown = state
        """The state so far; the fleet's thread replaces it as a whole."""
        self.thread = threading.Thread(target=self._run, name="fleet", daemon=True)
        """Runs all hosts once it is started, and lives as long as an agent does."""
        self.failure: BaseException | None = None
        """The error that ended the fleet, if any."""

    def _run(self) -> None:
        def deliver(host: str, told: Told) -> None:
            self.fleet_state = self.fleet_state.apply(host, told)
            self._also(host, told)

        try:
            self._fleet.run(deliver)
        except BaseException as error:  # noqa: BLE001 - the caller that waits for the app raises it
            self.failure = error

    @property
    def is_over(self) -> bool:
        """Whether every host has ended."""
        return not self.thread.is_alive()

    def stop(self) -> None:
        """Stop every host after its current block; called again, at once."""
        if self._fleet.stopping:
            self._fleet.kill()
        else:
            self._fleet.stop()
        self.look()

    def look(self) -> None:
        """Show the current state; ring the bell when the last host is done."""
        before, state = self._app.state.situation, self.fleet_state
        situation = before._replace(live=not self.is_over, stopping=self._fleet.stopping)
        if self._shown is state and situation == before:
            return
        if before.live and not situation.live:
            self._app.bell()
        self._shown = state
        for screen in self._app.screen_stack:
            if isinstance(screen, FleetList):
                screen.show_fleet(state)
        self._app.change(situation=situation)


LOOK_S = 0.5
"""Seconds between updates. Paints may come at any time, because they do not disturb other machines."""

KEYS = ("stop", "back", "next-theme", "help", "quit")
"""Commands that work in a fleet's app."""

ALSO_KEYS = KEYS[1:]
"""Commands that help lists beside those of the fleet's own screen."""

GRACE_S = 1.6
"""How long quitting waits for the hosts' agents to end. A signal must be obeyed within 2 s."""

WAIT_S = 5.0
"""How long to wait for agents after the app is closed; they end with this process in any case."""


class FleetApp(Shell[int]):
    """The shell with the controllers of a fleet."""

    CSS_PATH: ClassVar[CSSPathType | None] = ["app.tcss", "lists.tcss", "layouts.tcss", "pages.tcss"]
    TITLE = "cpugpu-tui fleet"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings(KEYS)]

    def __init__(
        self, fleet: Fleet, state: FleetState, also: Deliver, options: FleetOptions, glyphs: Glyphs = UNICODE,
        **looks: Any,
    ) -> None:  # fmt: skip
        """Show `fleet`; `also` is called with everything as well, on the fleet's thread.

        Raises:
            UsageError: the theme is unknown.
        """
        first = AppState(keymap=options.keymap, situation=Situation(live=True))
        super().__init__(options, glyphs, first, **looks)
        self._fleet = fleet
        self.running = FleetRunning(self, fleet, state, also)
        self.paging = Paging(self, help_commands=ALSO_KEYS)
        self.leaving = Leaving(
            self, is_busy=lambda: not self.running.is_over, stop=fleet.kill,
            leave=lambda code: self.exit(code, return_code=code),
            question=("Hosts are still running. Stop them and quit?", "let them run", "All hosts have ended. Quit?"),
            grace_s=GRACE_S,
        )  # fmt: skip

    def get_default_screen(self) -> Screen[None]:
        """Open on the list of hosts."""
        return FleetScreen(self.state, self.running.fleet_state, self.glyphs)

    def on_mount(self) -> None:
        """Start the fleet's run."""
        if self.signals is not None:
            self.signals.answer(self._obey)
        self.running.thread.start()
        self.set_interval(LOOK_S, self._look)
        self.themes.follow_files()
        if self.state.theme_notice:
            self.call_after_refresh(self.say, self.state.theme_notice, stays=True)  # the list is not mounted yet

    def _look(self) -> None:
        """Show new results; leave if that was requested and all hosts have ended."""
        self.running.look()
        if self.running.is_over:
            self.leaving.exit_if_leaving()

    def _obey(self, code: int) -> None:
        self._fleet.signal_exit = code
        self.leaving.leave(code)

    def close(self) -> None:
        """Stop the hosts that still run, and wait briefly for their end."""
        if not self.running.is_over:
            self._fleet.kill()
            self.running.thread.join(WAIT_S)
