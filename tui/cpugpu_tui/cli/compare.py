"""`cpugpu-tui compare` and `baseline`: two series side by side, and what series are called."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from cpugpu_tui.analysis.compare import Judged
from cpugpu_tui.cli.history import say_remark, writing
from cpugpu_tui.cli.listing import print_json
from cpugpu_tui.cli.table_style import console, plain, table_of, tell
from cpugpu_tui.compare.comparison import Difference, Series, SeriesComparison, compare_series, series_of_id
from cpugpu_tui.compare.naming import reading, series_in
from cpugpu_tui.errors import EXIT_OK, UnfitError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.render.comparison import (
    COMPARED,
    NOTHING_DIFFERS,
    WORDS,
    against,
    cells,
    comparison_data,
    left_out,
    said,
    summary,
)
from cpugpu_tui.store import Store


def print_comparison(base: str, new: str, database: Path | None, *, as_json: bool) -> int:
    """Print how `new` differs from `base`.

    Raises:
        UsageError: a series cannot be found, or the two cannot be compared.
        StoreError: a database cannot be read.
    """
    found = compare_series(series_in(base, database, say_remark), series_in(new, database, say_remark))
    if as_json:
        print_json(comparison_data(found))
    else:
        show_comparison(found)
    return EXIT_OK


def show_comparison(found: SeriesComparison) -> None:
    """Print what differed around the series, the verdicts, and the geometric mean."""
    out = console()
    out.print(plain(against(found)), soft_wrap=True)
    if found.differences:
        out.print(differences_table(found.differences))
    else:
        out.print(NOTHING_DIFFERS)
    out.print(verdicts_table(found.judged))
    for line in summary(found):
        out.print(plain(line), soft_wrap=True)


def differences_table(differences: tuple[Difference, ...]) -> Table:
    """Return one row for each thing that is not the same."""
    columns = [(name, True) for name in ("differs", "base", "new")]
    return table_of(columns, (map(printable, (each.what, each.base, each.new)) for each in differences))


def verdicts_table(judged: tuple[Judged, ...]) -> Table:
    """Return one row for each verdict."""
    columns = [(name, name in WORDS) for name in COMPARED]
    return table_of(columns, ([printable(found[name]) for name in COMPARED] for found in map(cells, judged)))


# ------------------------------------------------------------------ baselines


def print_baselines(name: str | None, run_name: str | None, database: Path | None, *, as_json: bool) -> int:
    """Give a series a name, or list what is named.

    Raises:
        UsageError: there is no such run, or the name cannot be one.
        StoreError: the history cannot be read or written.
    """
    if name is not None and run_name is not None:
        return _set_baseline(name, run_name, database, as_json=as_json)
    with reading(database, say_remark) as store:
        known = store.baselines()
        if name is not None and name not in known:
            raise UsageError(f"There is no baseline {name!r}.", f"`cpugpu-tui baseline {name} latest` makes one.")
        for each, series_id in known.items():
            if name in (None, each):
                _print_baseline(store, each, series_id, as_json=as_json)
    if not known and not as_json:
        tell("No baselines yet. `cpugpu-tui baseline main latest` names the newest series.")
    return EXIT_OK


def _set_baseline(name: str, run_name: str, database: Path | None, *, as_json: bool) -> int:
    check_name(name)
    with writing(database) as store:
        series_id = store.series_of(store.find(run_name))
        series = series_of_id(store, series_id)
        require_times(series)
        store.set_baseline(name, series_id)
        if as_json:
            _print_baseline(store, name, series_id, as_json=True)
            return EXIT_OK
    tell(plain(f"Baseline {name} is {said(series)}."))
    if without := left_out(series):
        tell(plain(without))
    return EXIT_OK


def require_times(series: Series) -> None:
    """Refuse a baseline without one time.

    Raises:
        UnfitError: in every case threads lacked a core.
    """
    if series.starved_cases[0] and not any(run.has_times for run in series.runs):
        raise UnfitError(
            f"{series.text.capitalize()} cannot be a baseline: in every case threads lacked a core.",
            "Stop other work on this machine and run again, or run with --threads 1.",
        )


def check_name(name: str) -> None:
    """Accept a name for a baseline.

    Raises:
        UsageError: it could be taken for a run or a file, or cannot be shown.
    """
    if not name or name.isdigit() or name == "latest" or ":" in name or "/" in name or printable(name) != name:
        raise UsageError(f"{printable(name)!r} cannot name a baseline.", "Use a word, like main.")


def _print_baseline(store: Store, name: str, series_id: str, *, as_json: bool) -> None:
    runs = store.runs_of(series_id)
    if as_json:
        print_json({"name": name, "series_id": series_id, "run_ids": runs})
    elif runs:
        tell(plain(f"{printable(name)}: {said(series_of_id(store, series_id))}"))
    else:
        tell(plain(f"{printable(name)}: no finished run"))
