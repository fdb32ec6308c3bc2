"""Reads saved runs for comparisons a step at a time, each between runs or not at all, and keeps what it has read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from cpugpu_tui.model import Plan, RunFinished
from cpugpu_tui.ui.live.saved_runs import SavedRuns

if TYPE_CHECKING:
    from cpugpu_tui.compare.series import Series
    from cpugpu_tui.state.measured import MeasuredRun
    from cpugpu_tui.store import RunSummary

KEPT_CASES = 20_000
"""Cases whose medians are kept, 10 MB: a baseline is compared with after every run and need not be read each time."""


class QuietReader:
    """What comparisons ask of the history, on threads. Every method raises `CpuGpuError` once a run has begun."""

    def __init__(self, between_runs: Callable[[], AbstractContextManager[SavedRuns]]) -> None:
        """Read inside `between_runs`, which holds off the next run for one step."""
        self._between_runs = between_runs
        self._kept: dict[str, MeasuredRun] = {}

    def runs(self, limit: int, before: int | None = None) -> list[RunSummary]:
        """Return the newest runs, or those with a lower number."""
        with self._between_runs() as saved:
            return saved.store.runs(limit, before)

    def plan_of(self, run_id: str) -> Plan:
        """Return what a run was to run."""
        with self._between_runs() as saved:
            return saved.store.plan_of(run_id)

    def runs_of(self, series_id: str) -> list[str]:
        """Return the ids of a series' runs, oldest first."""
        with self._between_runs() as saved:
            return saved.store.runs_of(series_id)

    def baseline(self, name: str) -> str | None:
        """Return the id of the series that is this baseline."""
        with self._between_runs() as saved:
            return saved.store.baseline(name)

    def measured(self, run_id: str) -> MeasuredRun | None:
        """Return a run with its medians; None for a stream that never began."""
        from cpugpu_tui.state.measured import measured

        if run_id in self._kept:
            return self._kept[run_id]
        with self._between_runs() as saved:
            events = saved.store.load(run_id)
            found = measured(events)
        # A run that was broken off may go on one day, and would say more then.
        if found is not None and isinstance(events[-1], RunFinished) and events[-1].status == "done":
            self._keep(found)
        return found

    def series(self, series_id: str, name: str = "") -> Series:
        """Return a series.

        Raises:
            UsageError: it has not one finished run.
        """
        from cpugpu_tui.compare.series import series_from

        return series_from(name, [self.measured(run_id) for run_id in self.runs_of(series_id)])

    def _keep(self, run: MeasuredRun) -> None:
        self._kept[run.run_id] = run
        while sum(len(each.cases) for each in self._kept.values()) > KEPT_CASES and len(self._kept) > 1:
            self._kept.pop(next(iter(self._kept)))
