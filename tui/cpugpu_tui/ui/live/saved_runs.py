"""Saved runs as the app sees them: pages of the list, a run opened again, tags, deletion. Called on threads only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpugpu_tui.errors import CpuGpuError, StoreError
from cpugpu_tui.model import Event, TelemetryRead
from cpugpu_tui.state.folding import folded as run_of
from cpugpu_tui.state.state import RunState, TelemetryState

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary, Store

FIRST_PAGE, NEXT_PAGE = 200, 1000
"""Runs of the first page, which is all that is waited for, and of those after it."""

BASELINE = "main"
"""Name of the baseline that `b` sets: the one that `gate` goes by unless told otherwise."""

RUNNING = "running"
"""Status of a run whose process lives: another terminal's, for this one lists nothing during a run of its own."""

NO_HISTORY = StoreError(
    "There is no history here: nothing has been saved, or --no-save asked for none.",
    "Start cpugpu-tui without --no-save, or name a database with --db.",
)


@dataclass(frozen=True)
class OpenedRun:
    """A saved run, its events folded as those of a live one are."""

    summary: RunSummary
    run: RunState
    telemetry: TelemetryState
    """What its machine did; without readings if none were kept."""


class SavedRuns:
    """The store as far as the screens are concerned. Every method may raise `CpuGpuError`."""

    def __init__(
        self, store: Store | None, refusal: CpuGpuError = NO_HISTORY, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        """Read this store; without one everything raises `refusal`. `now_ns` tells the wall time."""
        self._store, self._refusal = store, refusal
        self.now_ns = now_ns

    @property
    def store(self) -> Store:
        """The open store."""
        if self._store is None:
            raise self._refusal
        return self._store

    @property
    def is_newer(self) -> bool:
        """Whether a newer version made the history."""
        return self._store is not None and self._store.is_newer

    @property
    def notice(self) -> str:
        """Why nothing can be changed here, if that is so."""
        return (self._store.notice or "") if self._store is not None else ""

    def pages(self) -> Iterator[list[RunSummary]]:
        """Yield all runs, newest first, a page at a time; the last page may be empty."""
        before: int | None = None
        limit = FIRST_PAGE
        while True:
            page = self.store.runs(limit, before)
            yield page
            if len(page) < limit:
                return
            before, limit = page[-1].number, NEXT_PAGE

    def bury(self) -> None:
        """Mark runs whose process has died, where that can be written: `running` is to mean live."""
        if not self.notice:
            self.store.mark_interrupted()

    def newest(self) -> list[RunSummary]:
        """Return the first page as it is now."""
        self.bury()
        return self.store.runs(FIRST_PAGE)

    def summary(self, number: int) -> RunSummary:
        """Return a run's line as it is now.

        Raises:
            StoreError: it has been deleted.
        """
        found = self.store.runs(1, number + 1)
        if not found or found[0].number != number:
            raise StoreError(f"Run {number} is no longer in the history.", "Another terminal has deleted it.")
        return found[0]

    def open(self, number: int) -> OpenedRun:
        """Return a run with all its events folded.

        Raises:
            StoreError: it has been deleted, is damaged, or a newer version saved what this one cannot read.
        """
        summary = self.summary(number)
        try:
            events = self.store.load(summary.run_id)
        except StoreError as error:
            raise unreadable(number, error, is_newer=self.is_newer) from error
        return OpenedRun(summary, *folded(events))

    def advanced(self, known: RunSummary) -> OpenedRun | None:
        """Return the run again if it has more to show than `known` says, None if it has not."""
        self.bury()
        now = self.summary(known.number)
        return None if now == known else self.open(known.number)

    def tag(self, run: RunSummary, tags: Sequence[str]) -> RunSummary:
        """Give a run these tags and no others; return its line as it is then."""
        gone = [tag for tag in run.tags if tag not in tags]
        self.store.tag(run.run_id, [tag for tag in tags if tag not in run.tags], gone)
        return self.summary(run.number)

    def delete(self, run: RunSummary) -> None:
        """Take a run and its samples out of the history for good."""
        self.store.delete(run.run_id)


def folded(events: Sequence[Event]) -> tuple[RunState, TelemetryState]:
    """Return what a saved stream shows."""
    telemetry = TelemetryState()
    for event in events:
        if isinstance(event, TelemetryRead):
            telemetry = telemetry.apply(event)
    return run_of(events), telemetry


def unreadable(number: int, error: StoreError, *, is_newer: bool) -> StoreError:
    """Return why a run of the list cannot be opened: the store's own sentence speaks of the whole file."""
    if is_newer:
        return StoreError(
            f"Run {number} was saved by a newer cpugpu-tui and holds what this one cannot read.", "Update cpugpu-tui."
        )
    return StoreError(f"Run {number} cannot be opened: {error.message}", error.remedy)


def ago(then_ns: int, now_ns: int) -> str:
    """Return how long ago this was, in few cells: `3 h ago`, `412 d ago`."""
    age = age_text(then_ns, now_ns)
    return f"{age} ago" if age else "just now"


def age_text(then_ns: int, now_ns: int) -> str:
    """Return the time between, in few cells: `3 h`; empty for less than a minute."""
    age_s = max(0, now_ns - then_ns) // 10**9
    for unit_s, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if age_s >= unit_s:
            return f"{age_s // unit_s} {unit}"
    return ""
