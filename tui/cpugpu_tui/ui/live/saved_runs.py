"""The history for the app: pages of runs, opening a run, tags, deletion, and series to compare. For worker threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from cpugpu_tui import model
from cpugpu_tui.errors import CpuGpuError, StoreError
from cpugpu_tui.state.state import RunState, TelemetryState

if TYPE_CHECKING:
    from cpugpu_tui.compare.series import Series
    from cpugpu_tui.model import Event, Plan
    from cpugpu_tui.state.folding import MeasuredRun
    from cpugpu_tui.store import RunSummary, Store

FIRST_PAGE, NEXT_PAGE = 200, 1000
"""Number of runs on the first page, which is shown first, and on the others."""

BASELINE = "main"
"""Name of the baseline that `b` proposes, which is the default of `gate`."""

RUNNING = "running"
"""Status of a run whose process is alive, in another terminal: this one lists no runs during its own."""

NO_HISTORY = StoreError(
    "The history is not open in this session, because of --no-save or --replay.",
    "Start cpugpu-tui without these options.",
)


@dataclass
class Place:
    """Cursor and filter of the list of runs, kept for the next time it opens."""

    number: int | None = None
    """Run under the cursor; None for the newest."""
    wanted: str = ""
    """Text of the filter."""
    marked: list[int] = field(default_factory=list)
    """Numbers of the runs to compare, at most two."""


class OpenedRun(NamedTuple):
    """A saved run with the state after all its events."""

    summary: RunSummary
    run: RunState
    telemetry: TelemetryState
    """Telemetry of its machine; without readings if none were saved."""


class SavedRuns:
    """The part of the store that screens use. Every method may raise `CpuGpuError`."""

    def __init__(
        self, store: Store | None, refusal: CpuGpuError = NO_HISTORY, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        """Read this store; without one, every method raises `refusal`. `now_ns` returns the wall time."""
        self._store, self._refusal = store, refusal
        self.now_ns = now_ns

    @property
    def store(self) -> Store:
        """The open store."""
        if self._store is None:
            raise copy(self._refusal)  # a copy: an exception keeps the frames of each raise, and with them a whole run
        return self._store

    @property
    def is_newer(self) -> bool:
        """Whether a newer version created the history."""
        return self._store is not None and self._store.is_newer

    @property
    def notice(self) -> str:
        """Why the history is read-only; empty if it is not."""
        return (self._store.notice or "") if self._store is not None else ""

    def pages(self) -> Iterator[list[RunSummary]]:
        """Yield pages of all runs, newest first; the last page may be empty."""
        before: int | None = None
        limit = FIRST_PAGE
        while True:
            page = self.store.runs(limit, before)
            yield page
            if len(page) < limit:
                return
            before, limit = page[-1].number, NEXT_PAGE

    def bury(self) -> None:
        """Mark runs whose process has died as interrupted, if the history is writable."""
        if not self.notice:
            self.store.mark_interrupted()

    def newest(self) -> list[RunSummary]:
        """Return the current first page."""
        self.bury()
        return self.store.runs(FIRST_PAGE)

    def summary(self, number: int) -> RunSummary:
        """Return the current summary of a run.

        Raises:
            StoreError: the run was deleted.
        """
        found = self.store.runs(1, number + 1)
        if not found or found[0].number != number:
            raise StoreError(f"Run {number} is no longer in the history.", "Another terminal deleted it.")
        return found[0]

    def open(self, number: int) -> OpenedRun:
        """Return a run with the state after all its events.

        Raises:
            StoreError: the run was deleted, is damaged, or was saved by a newer version.
        """
        summary = self.summary(number)
        try:
            events = self.store.load(summary.run_id)
        except StoreError as error:
            raise unreadable(number, error, is_newer=self.is_newer) from error
        return OpenedRun(summary, *folded(events))

    def advanced(self, known: RunSummary) -> OpenedRun | None:
        """Return the run again if it has changed since `known`, else None."""
        self.bury()
        now = self.summary(known.number)
        return None if now == known else self.open(known.number)

    def tag(self, run: RunSummary, tags: Sequence[str]) -> RunSummary:
        """Replace the tags of a run; return its new summary."""
        removed = [tag for tag in run.tags if tag not in tags]
        self.store.tag(run.run_id, [tag for tag in tags if tag not in run.tags], removed)
        return self.summary(run.number)

    def set_baseline(self, name: str, series_id: str) -> str:
        """Name a series as a baseline; return what to say about it, the most important first."""
        from cpugpu_tui.compare.series import set_baseline
        from cpugpu_tui.render.comparison import left_out

        series, said, few = set_baseline(self.store, name, series_id)
        return " ".join(filter(None, (said, few, left_out(series))))


def folded(events: Sequence[Event]) -> tuple[RunState, TelemetryState]:
    """Return the state of run and telemetry after these events."""
    from cpugpu_tui.state.folding import folded as run_of

    telemetry = TelemetryState()
    for event in events:
        if isinstance(event, model.TelemetryRead):
            telemetry = telemetry.apply(event)
    return run_of(events), telemetry


def unreadable(number: int, error: StoreError, *, is_newer: bool) -> StoreError:
    """Return the error for a run that cannot be opened; the store's own message is about the whole file."""
    if is_newer:
        newer = f"Run {number} was saved by a newer cpugpu-tui; this version cannot read it."
        return StoreError(newer, "Update cpugpu-tui.")
    return StoreError(f"Run {number} cannot be opened: {error.message}", error.remedy)


def ago(then_ns: int, now_ns: int) -> str:
    """Format the time since then: `3 h ago`, `412 d ago`, `just now`."""
    age = age_text(then_ns, now_ns)
    return f"{age} ago" if age else "just now"


def age_text(then_ns: int, now_ns: int) -> str:
    """Format the time between both: `3 h`; empty for less than a minute."""
    age_s = max(0, now_ns - then_ns) // 10**9
    for unit_s, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if age_s >= unit_s:
            return f"{age_s // unit_s} {unit}"
    return ""


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

    def baseline_for(self, plan_name: str) -> tuple[str, str] | None:
        """Return name and series of the baseline for a preset or workload; None without any."""
        with self._between_runs() as saved:
            return saved.store.baseline_for(plan_name)

    def measured(self, run_id: str) -> MeasuredRun | None:
        """Return a run with its medians; None if it never began."""
        from cpugpu_tui.state.folding import measured

        if run_id in self._cached:
            return self._cached[run_id]
        with self._between_runs() as saved:
            events = saved.store.load(run_id)
            found = measured(events)
        # An unfinished run may be resumed later, so it is not cached.
        if found is not None and isinstance(events[-1], model.RunFinished) and events[-1].status == "done":
            self._cached[found.run_id] = found
            while sum(len(each.cases) for each in self._cached.values()) > CACHED_CASES and len(self._cached) > 1:
                self._cached.pop(next(iter(self._cached)))
        return found

    def series(self, series_id: str, name: str = "") -> Series:
        """Return a series.

        Raises:
            UsageError: none of its runs has finished.
        """
        from cpugpu_tui.compare.series import series_from

        return series_from(name, [self.measured(run_id) for run_id in self.runs_of(series_id)])
