"""Opens the history for a command, and lists its runs as a table.

Import neither agents nor the tables of a run here: a list took 0.6 s with them, of which 0.25 s were imports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from cpugpu_tui.cli.output.table_style import table_of
from cpugpu_tui.errors import print_notice
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.quantities import counted, duration
from cpugpu_tui.store import RunSummary, Store, open_store, open_to_read

if TYPE_CHECKING:
    from cpugpu_tui.compare.outcomes import Outcome


@contextmanager
def reading(database: Path | None) -> Iterator[Store]:
    """Open the history for a command that only reads, and print on stderr what opening changed."""
    with _closing(open_to_read(database)) as store:
        yield store


@contextmanager
def writing(database: Path | None, *, keep_aside: bool = False) -> Iterator[Store]:
    """Open the history for a command that changes it.

    With `keep_aside`, a damaged database is moved away and a new one is started.

    Raises:
        StoreError: the database cannot be opened or written.
    """
    with _closing(open_store(database, keep_aside=keep_aside)) as store:
        yield store


@contextmanager
def _closing(store: Store) -> Iterator[Store]:
    try:
        say_remark(store)
        yield store
    finally:
        store.close()


def say_remark(store: Store) -> None:
    """Print on stderr what opening the file changed, if anything."""
    if store.remark:
        print_notice(f"cpugpu-tui: {store.remark}")


def history_table(runs: Sequence[RunSummary], results: Mapping[int, Outcome] | None = None) -> Table:
    """Return a table with one row per run, in the given order; `results` adds answers and changes of some."""
    words = [[*(f"baseline {name}" for name in run.baselines), *run.tags] for run in runs]
    with_hosts, with_tags = any(run.fleet_host for run in runs), any(words)
    columns: list[str | tuple[str, bool]] = [("run", False), "started", "what", "dtype", "sizes", "status"]
    columns += ("answer", "change") if results is not None else ()
    columns += [("cases", False), ("took", False), "devices"]
    columns += [*(["host"] if with_hosts else []), *(["tags"] if with_tags else [])]
    rows = []
    for run, tags in zip(runs, words, strict=True):
        started = datetime.fromtimestamp(run.started_wall_ns / 1e9)
        rows.append([
            str(run.number), f"{started:%Y-%m-%d %H:%M:%S}", run.name, ", ".join(run.dtypes) or "–",
            "–".join(dict.fromkeys(f"{size:,}" for size in (*run.sizes[:1], *run.sizes[-1:]))), run.status,
            *(_result(results.get(run.number)) if results is not None else ()),
            f"{run.cases_ok} ok" + (f", {run.cases_failed} failed" if run.cases_failed else ""),
            "–" if run.duration_ns is None else duration(run.duration_ns / 1e9), " · ".join(counted(run.devices)),
            *([printable(run.fleet_host or "–")] if with_hosts else []), *([", ".join(tags)] if with_tags else []),
        ])  # fmt: skip
    return table_of(columns, rows)


def _result(found: Outcome | None) -> tuple[str, str]:
    """Return the answer of a run, and its change against the run before with the number of that run."""
    if found is None:
        return "", ""
    more = f" (1 of {found.sweeps} sweeps)" if found.sweeps > 1 and found.answer else ""
    return f"{found.answer or '–'}{more}", f"{found.widest} vs {found.before}" if found.widest else "–"
