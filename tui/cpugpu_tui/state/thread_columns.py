"""Show CPU threads as columns: cases that differ only in threads share the row of the most threads."""

from __future__ import annotations

from dataclasses import replace

from cpugpu_tui.model import SweepKey
from cpugpu_tui.state.state import Row, RunState


def main_threads(run: RunState, sweep: SweepKey) -> int:
    """Return the threads of the row shared by sweeps that differ only in threads; 0 stands for all.

    It is the largest number, preferably among sweeps with a size timed on both devices.
    """
    alike = {other[-1]: rows for other, rows in run.sweeps.items() if other[:-1] == sweep[:-1]}
    compared = [count for count, rows in alike.items() if any(row.comparison is not None for row in rows)]
    counts = compared or list(alike) or [sweep[-1]]
    return 0 if 0 in counts else max(counts)


def is_column(run: RunState, sweep: SweepKey) -> bool:
    """Whether a sweep is a column in the rows of another sweep that differs only in CPU threads."""
    return sweep[-1] != main_threads(run, sweep)


def is_beside(run: RunState, row: Row) -> bool:
    """Whether a row's time is shown in another row. A size without another row keeps its own."""
    if len(run.sweeps) < 2:
        return False
    main = main_threads(run, row.case.sweep)
    return main != row.case.threads and replace(row.case, threads=main).key in run.rows


def thread_columns(run: RunState) -> tuple[int, ...]:
    """Return the thread counts with a column of their own; 0 stands for all."""
    if len(run.sweeps) < 2:
        return ()
    return tuple(sorted({sweep[-1] for sweep in run.sweeps if is_column(run, sweep)}))


def table_rows(run: RunState) -> list[Row]:
    """Return the rows of a table in plan order. Rows that exist for one thread count only are sorted in by size."""
    if len(run.sweeps) < 2:
        return list(run.rows.values())
    shown = [row for row in run.rows.values() if not is_beside(run, row)]
    place = {id(row): index for index, row in enumerate(shown)}
    for row in shown:
        if not is_column(run, row.case.sweep):
            continue
        main = replace(row.case, threads=main_threads(run, row.case.sweep)).sweep
        smaller = [other for other in run.sweeps.get(main, ()) if other.case.size < row.case.size]
        place[id(row)] = place[id(smaller[-1])] if smaller else place[id(run.sweeps[main][0])] - 1
    return sorted(shown, key=lambda row: (place[id(row)], is_column(run, row.case.sweep), row.case.size))


def with_threads(run: RunState, row: Row, threads: int) -> Row | None:
    """Return the same case with another number of threads; None if the run has none."""
    return run.rows.get(replace(row.case, threads=threads).key)
