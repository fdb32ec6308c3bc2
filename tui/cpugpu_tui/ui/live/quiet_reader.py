"""Reads saved runs for comparisons in short steps between runs, and caches them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from cpugpu_tui.model import Plan, RunFinished
from cpugpu_tui.ui.live.saved_runs import SavedRuns

if TYPE_CHECKING:
    from cpugpu_tui.compare.series import Series
    from cpugpu_tui.state.folding import MeasuredRun
    from cpugpu_tui.store import RunSummary

CACHED_CASES = 20_000
"""Cases whose medians are cached (10 MB), so that a baseline need not be read again after every run."""


class QuietReader:
    """Reads the history for comparisons, on threads. Every method raises `CpuGpuError` during a run."""

    def __init__(self, between_runs: Callable[[], AbstractContextManager[SavedRuns]]) -> None:
        """Read inside `between_runs`, which delays the next run for one step."""
        self._between_runs = between_runs
        self._cached: dict[str, MeasuredRun] = {}

    def runs(self, limit: int, before: int | None = None) -> list[RunSummary]:
        """Return the newest runs; with `before`, those with a lower number."""
        with self._between_runs() as saved:
            return saved.store.runs(limit, before)

    def plan_of(self, run_id: str) -> Plan:
        """Return the plan of a run."""
        with self._between_runs() as saved:
            return saved.store.plan_of(run_id)

    def runs_of(self, series_id: str) -> list[str]:
        """Return the ids of a series' runs, oldest first."""
        with self._between_runs() as saved:
            return saved.store.runs_of(series_id)

    def baseline(self, name: str) -> str | None:
        """Return the id of a baseline's series."""
        with self._between_runs() as saved:
            return saved.store.baseline(name)

    def measured(self, run_id: str) -> MeasuredRun | None:
        """Return a run with its medians; None if it never began."""
        from cpugpu_tui.state.folding import measured

        if run_id in self._cached:
            return self._cached[run_id]
        with self._between_runs() as saved:
            events = saved.store.load(run_id)
            found = measured(events)
        # An unfinished run may be resumed later, so it is not cached.
        if found is not None and isinstance(events[-1], RunFinished) and events[-1].status == "done":
            self._cache(found)
        return found

    def series(self, series_id: str, name: str = "") -> Series:
        """Return a series.

        Raises:
            UsageError: none of its runs has finished.
        """
        from cpugpu_tui.compare.series import series_from

        return series_from(name, [self.measured(run_id) for run_id in self.runs_of(series_id)])

    def _cache(self, run: MeasuredRun) -> None:
        self._cached[run.run_id] = run
        while sum(len(each.cases) for each in self._cached.values()) > CACHED_CASES and len(self._cached) > 1:
            self._cached.pop(next(iter(self._cached)))
