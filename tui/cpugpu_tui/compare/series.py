"""Runs of one plan, and how a person names them: in the history, or in the database of another machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from cpugpu_tui.config import paths
from cpugpu_tui.errors import NoSuchRunError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.state.measured import MeasuredRun, measured

if TYPE_CHECKING:
    from cpugpu_tui.store import Store

MOST_LOOKED_THROUGH = 200
"""Runs among which the previous series is looked for."""


@dataclass(frozen=True)
class Series:
    """Runs of one plan in one environment."""

    name: str
    """How the person named it, `baseline main`, or `this series`."""
    runs: tuple[MeasuredRun, ...]
    """Oldest first."""

    @property
    def text(self) -> str:
        """`baseline main (runs 3-7)`, `run 12`."""
        numbers = numbers_text([run.number for run in self.runs if run.number is not None])
        if numbers in self.name:  # that of another database says its numbers itself
            return self.name
        return f"{self.name} ({numbers})" if self.name else numbers

    @property
    def starved_cases(self) -> tuple[int, int]:
        """How many cases lacked a core in some run, and of how many."""
        cases = {key for run in self.runs for key in run.cases}
        return len({key for run in self.runs for key, case in run.cases.items() if case.starved}), len(cases)


# ------------------------------------------------------------------ in an open history


def series_named(store: Store, text: str) -> Series:
    """Return the series that a person names: a baseline, what `Store.find` takes, or a tag of its newest run.

    Raises:
        UsageError: there is no such baseline, run or tag, or its series has not one finished run.
        StoreError: the history cannot be read.
    """
    series_id = store.baseline(text)
    if series_id is not None:
        return series_of_id(store, series_id, f"baseline {text}")
    try:
        return series_of_id(store, store.series_of(store.find(text)), "")
    except UsageError as error:
        # Looked for last, for it takes the whole list of runs.
        tagged = next((run.series_id for run in store.runs() if text in run.tags), None)
        if tagged is None:
            raise _unknown(store, text, error) from error
    return series_of_id(store, tagged, f"tag {text}")


def _unknown(store: Store, text: str, error: UsageError) -> UsageError:
    """Return what is said where nothing has this name; of numbers and of several runs `Store.find` says it."""
    if text.isdigit() or not store.count() or not isinstance(error, NoSuchRunError):
        return error
    baselines = ", ".join(printable(name) for name in store.baselines())
    return UsageError(
        f"There is no baseline, run or tag {printable(text)!r}{f'; baselines are {baselines}' if baselines else ''}.",
        f"`cpugpu-tui baseline {printable(text)} latest` makes the newest series this baseline; "
        "`cpugpu-tui history` lists the runs.",
    )


def series_of_id(store: Store, series_id: str, name: str = "") -> Series:
    """Return a series by its id.

    Raises:
        UsageError: it has not one finished run.
    """
    return series_from(name, [measured(store.load(run_id)) for run_id in store.runs_of(series_id)])


def series_from(name: str, runs: Sequence[MeasuredRun | None]) -> Series:
    """Return a series of these runs, those that began.

    Raises:
        UsageError: there is none.
    """
    known = tuple(run for run in runs if run is not None)
    if not known:
        raise UsageError(
            f"There is no finished run in {name or 'that series'}.", "`cpugpu-tui history` lists the runs."
        )
    return Series(name, known)


def other_series(store: Store, series_id: str, name: str, *, simulated: bool) -> list[tuple[str, str]]:
    """Return (id, name) of what a series may be compared with, the previous one first, then older ones, newest first.

    They are the other series of the same preset or workload, and last the baselines that are not among them; the name
    is `baseline main`, or empty.
    """
    baselines = {each: f"baseline {known}" for known, each in store.baselines().items()}
    found = dict[str, str]()
    for run in store.runs(MOST_LOOKED_THROUGH):
        if run.name == name and run.simulated == simulated and run.cases_ok and run.status != "running":
            found.setdefault(run.series_id, baselines.get(run.series_id, ""))
    # Newer series than this one may be among them: of a saved run the previous is what came before it.
    ids = list(found)
    place = ids.index(series_id) + 1 if series_id in found else 0
    ordered = [*ids[place:], *ids[:place], *baselines]
    return [(each, found.get(each) or baselines.get(each, "")) for each in dict.fromkeys(ordered) if each != series_id]


def numbers_text(numbers: Sequence[int]) -> str:
    """Return `run 3`, `runs 3-7`, `runs 3, 5-7`; empty without any."""
    ordered = sorted(set(numbers))
    runs = [[number for _, number in group] for _, group in groupby(enumerate(ordered), lambda pair: pair[1] - pair[0])]
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"run{'s' if len(ordered) > 1 else ''} {', '.join(parts)}" if parts else ""


# ------------------------------------------------------------------ in a file

Say = Callable[["Store"], None]
"""Is told the open store."""


def series_in(text: str, database: Path | None, say: Say | None = None) -> Series:
    """Return the series that `text` names, `FILE:RUN` for one in another database; `say` as for `open_history`.

    Raises:
        UsageError: there is no such database, baseline or run, or its series has no finished run.
        StoreError: a database cannot be read.
    """
    file, name = file_and_name(text)
    with open_history(file or database, say) as store:
        series = series_named(store, name)
    return Series(f"{file.name}: {series.text}", series.runs) if file is not None else series


def file_and_name(text: str) -> tuple[Path | None, str]:
    """Return the database, None for the history, and what names a series in it.

    Raises:
        UsageError: it names a database that is not there.
    """
    head, colon, name = text.rpartition(":")
    if not colon or not head:
        return None, text
    file = paths.database_path(Path(head))
    if file.is_file():
        return file, name or "latest"
    if "/" in head or file.suffix:
        raise UsageError(f"There is no database {head}.", "Write FILE:RUN, like other.db:latest.")
    return None, text


@contextmanager
def open_history(database: Path | None, say: Say | None = None) -> Iterator[Store]:
    """Open the history to read, and close it; one that does not exist is not created.

    `say` is called with the open store, for what a person should know of it: an older one was upgraded.

    Raises:
        UsageError: there is none.
        StoreError: it cannot be read.
    """
    path = paths.database_path(database)
    if not path.exists():
        raise UsageError(f"There are no saved runs yet in {path}.", "`cpugpu-tui run quick` makes one.")
    from cpugpu_tui.store import open_to_read

    store = open_to_read(database)
    try:
        if say is not None:
            say(store)
        yield store
    finally:
        store.close()
