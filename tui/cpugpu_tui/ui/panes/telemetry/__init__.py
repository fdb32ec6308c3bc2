"""Telemetry of every GPU and the host. The first frame has none, so what arranges it is loaded later."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size

from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.panes.lines import Spans, StatePane, wrapped


class TelemetryPane(StatePane):
    """Redrawn with every reading; during a run, in its gaps."""

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the richest arrangement that fits."""
        if state.telemetry.latest is None:
            return nothing_yet(state, size.width)
        from cpugpu_tui.ui.panes.telemetry.arrangements import telemetry_lines

        return telemetry_lines(state.telemetry, size.width, self.room(), self.glyphs, state.run.devices)

    def room(self) -> int:
        """Return how many lines the pane may have; its height follows its content, up to `max-height`."""
        limit = self.styles.max_height
        if limit is not None and limit.cells is not None:
            return max(1, limit.cells - self.gutter.height)
        return max(1, self.size.height)


def nothing_yet(state: AppState, width: int) -> list[Spans]:
    """Return a line for a state without readings: a saved run has none, and otherwise the first one is awaited."""
    if state.past is not None:
        return wrapped(f"Run {state.past.summary.number} has no recorded telemetry.", width, "muted")
    return [(("Waiting for the first reading.", "muted"),)]
