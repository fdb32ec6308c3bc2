"""The demo's backend: a history of recorded runs in memory, and a session that plays them."""

from __future__ import annotations

from collections.abc import Callable

from cpugpu_tui.demo.player import Player
from cpugpu_tui.demo.recording import Recording
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model import PROTOCOL, Ceilings, Hello, Plan, TelemetryRead
from cpugpu_tui.ui.live.backend import Backend, RunningSession
from cpugpu_tui.ui.options import AppOptions


class DemoBackend(Backend):
    """A backend with recorded runs in place of agents, store and telemetry."""

    def __init__(self, options: AppOptions) -> None:
        super().__init__(options)
        assert options.demo is not None
        self._recording: Recording = options.demo
        self._pace = options.demo_pace

    def open(
        self,
        on_agent: Callable[[Hello | CpuGpuError], None],
        on_telemetry: Callable[[TelemetryRead], None],
        on_notice: Callable[[str], None],
    ) -> None:
        """Put all runs into the history and report the recorded agent's environment."""
        del on_telemetry, on_notice
        from cpugpu_tui.store import Store
        from cpugpu_tui.store.outbox import Outbox

        store = Store.in_memory()
        for run in self._recording.runs:
            store.import_run(run.events)
        self.outbox = Outbox(lambda _wait_s: store, store)
        on_agent(Hello(protocol=PROTOCOL, environment=self._recording.environment))

    def session(self, plan: Plan, series_id: str | None, case_timeout_s: float | None) -> RunningSession:
        """Return a session that plays all runs."""
        del plan, series_id, case_timeout_s
        return Player(self._recording, self._pace)

    def ceilings(self) -> tuple[Ceilings, ...]:
        """Return the peak rates of the recorded machine."""
        return self._recording.ceilings
