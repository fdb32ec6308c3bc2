"""Runs a fleet on a thread and shows its progress."""

from __future__ import annotations

import threading
from dataclasses import replace

from cpugpu_tui.session.fleet_running import Deliver, Fleet
from cpugpu_tui.session.fleet_state import FleetState, Told
from cpugpu_tui.ui.controllers.app_port import Port
from cpugpu_tui.ui.screens.fleet.screen import FleetList


class FleetRunning:
    """Replaces `Running` in the app of a fleet."""

    def __init__(self, port: Port, fleet: Fleet, state: FleetState, also: Deliver) -> None:
        """Run `fleet`; `also` receives every event too, on the fleet's thread."""
        self._port, self._fleet, self._also = port, fleet, also
        self.fleet_state = self._shown = state
        """The state so far; the fleet's thread replaces it as a whole."""
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)
        self.failure: BaseException | None = None
        """The error that ended the fleet, if any."""

    def begin(self) -> None:
        """Start all hosts."""
        self._thread.start()

    def _run(self) -> None:
        def deliver(host: str, told: Told) -> None:
            self.fleet_state = self.fleet_state.apply(host, told)
            self._also(host, told)

        try:
            self._fleet.run(deliver)
        except BaseException as error:  # noqa: BLE001 - the caller that waits for the app raises it
            self.failure = error

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no agent is left; return whether none is."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def is_over(self) -> bool:
        """Whether every host has ended."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Stop every host after its current block; called again, at once."""
        if self._fleet.stopping:
            self._fleet.kill()
        else:
            self._fleet.stop()
        self.look()

    def look(self) -> None:
        """Show the current state; ring the bell when the last host is done."""
        before, state = self._port.state.situation, self.fleet_state
        situation = replace(before, live=not self.is_over, stopping=self._fleet.stopping)
        if self._shown is state and situation == before:
            return
        if before.live and not situation.live:
            self._port.bell()
        self._shown = state
        for screen in self._port.screen_stack:
            if isinstance(screen, FleetList):
                screen.show_fleet(state)
        self._port.change(situation=situation)
