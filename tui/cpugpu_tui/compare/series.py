"""Series of runs, and finding them by name in an open history."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby
from typing import TYPE_CHECKING

from cpugpu_tui.errors import NoSuchRunError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.state.folding import MeasuredRun, measured

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary, Store

MOST_LOOKED_THROUGH = 200
"""Most runs among which the previous series is searched."""

LIKE = 0.7
"""How much a name must resemble another one to be meant, for `difflib`: `last` and `latest` have 0.8."""


@dataclass(frozen=True)
class Series:
    """Runs of one plan in one environment."""

    name: str
    """Its name as the user gave it, `baseline main`, or `this series`."""
    runs: tuple[MeasuredRun, ...]
    """Oldest first."""

    @property
    def text(self) -> str:
        """`baseline main (runs 3-7)`, `run 12`."""
        numbers = numbers_text([run.number for run in self.runs if run.number is not None])
        if numbers in self.name:  # a name from another database contains its numbers
            return self.name
        return f"{self.name} ({numbers})" if self.name else numbers

    @property
    def starved_cases(self) -> tuple[int, int]:
        """Number of cases that had no free CPU core in some run, and number of all cases."""
        cases = {key for run in self.runs for key in run.cases}
        return len({key for run in self.runs for key, case in run.cases.items() if case.starved}), len(cases)


def free_cores_remedy(threads: Iterable[int]) -> str:
    """Return the remedy for cases with so many threads that lacked a CPU core."""
    fewer = "" if set(threads) == {1} else ", or use --threads 1"
    return f"Stop other work on this machine and run again{fewer}."


def series_named(store: Store, text: str) -> Series:
    """Return the series with this name: a baseline, a name that `Store.find` knows, or a tag of its newest run.

    Raises:
        UsageError: the baseline, run or tag is unknown, or its series has no finished run.
        StoreError: the history cannot be read.
    """
    series_id = store.baseline(text)
    if series_id is not None:
        return series_of_id(store, series_id, f"baseline {text}")
    try:
        return series_of_id(store, store.series_of(store.find(text)), typed=text)
    except UsageError as error:
        tagged = store.runs(1, tags=[text])
        if not tagged:
            raise _unknown(store, text, error) from error
    return series_of_id(store, tagged[0].series_id, f"tag {text}")


def _unknown(store: Store, text: str, error: UsageError) -> UsageError:
    """Return the error for an unknown name; for numbers and ambiguous names the one of `Store.find`."""
    if text.isdigit() or not store.count() or not isinstance(error, NoSuchRunError):
        return error
    known = list(store.baselines())
    baselines = ", ".join(map(printable, known))
    message = f"Unknown baseline, run or tag {printable(text)!r}.{f' Known baselines: {baselines}.' if known else ''}"
    near = get_close_matches(text, ["latest", *known], 1, LIKE)
    if near or not is_baseline_name(text) or text.endswith((".json", ".ndjson")):
        return UsageError(message, f"Did you mean {printable(near[0])!r}?" if near else error.remedy)
    create = f"`cpugpu-tui baseline {shlex.quote(text)} latest`"
    return UsageError(message, f"To list runs, use `cpugpu-tui history`. To create this baseline, use {create}.")


def series_of_id(store: Store, series_id: str, name: str = "", typed: str = "") -> Series:
    """Return a series by its id. An error calls it by its name, or as it was `typed`.

    Raises:
        UsageError: it has no finished run.
    """
    return series_from(name, [measured(store.load(run_id)) for run_id in store.runs_of(series_id)], typed)


def series_from(name: str, runs: Sequence[MeasuredRun | None], typed: str = "") -> Series:
    """Return a series of those runs that began.

    Raises:
        UsageError: none of them began.
    """
    known = tuple(run for run in runs if run is not None)
    if not known:
        called = name or (f"series {printable(typed)!r}" if typed else "that series")
        raise UsageError(f"No run of {called} has a timed case.", "List runs with `cpugpu-tui history`.")
    return Series(name, known)


def other_series(store: Store, series_id: str, name: str, *, simulated: bool) -> list[tuple[str, str]]:
    """Return (id, name) of the series to compare a series with: the previous one first, then older ones.

    They are the other series of the same preset or workload, followed by the other baselines. The name is
    `baseline main`, or empty.
    """
    baselines = {each: f"baseline {known}" for known, each in store.baselines().items()}
    ids = series_called(store.runs(MOST_LOOKED_THROUGH), name, simulated=simulated)
    # A saved run may be followed by newer series, which come after the older ones.
    place = ids.index(series_id) + 1 if series_id in ids else 0
    ordered = [*ids[place:], *ids[:place], *baselines]
    return [(each, baselines.get(each, "")) for each in dict.fromkeys(ordered) if each != series_id]


def series_called(runs: Iterable[RunSummary], name: str, *, simulated: bool) -> list[str]:
    """Return the ids of the series of a preset or workload that have results, in the order of their runs."""
    return list(dict.fromkeys(
        run.series_id for run in runs
        if run.name == name and run.simulated == simulated and run.cases_ok and run.status != "running"
    ))  # fmt: skip


def checked_baseline(name: str) -> str:
    """Return the name of a new baseline.

    Raises:
        UsageError: the name could be mistaken for a run or a file, or is not printable.
    """
    if not is_baseline_name(name):
        raise UsageError(f"Invalid baseline name {printable(name, 40)!r}.", "Use a word such as main.")
    return name


def is_baseline_name(name: str) -> bool:
    """Whether a baseline may have this name."""
    is_other = not name or name.isdigit() or name == "latest" or ":" in name or "/" in name
    return not is_other and printable(name) == name


def numbers_text(numbers: Sequence[int]) -> str:
    """Return `run 3`, `runs 3-7`, `runs 3, 5-7`; empty without any."""
    ordered = sorted(set(numbers))
    runs = [[number for _, number in group] for _, group in groupby(enumerate(ordered), lambda pair: pair[1] - pair[0])]
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"run{'s' if len(ordered) > 1 else ''} {', '.join(parts)}" if parts else ""
