"""The rows of a run as text; every face lays them out in its own way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from cpugpu_tui.model import SweepKey, work_name
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.render.answers import hides_skipped
from cpugpu_tui.render.columns import COLUMNS, NONE, Key, joules, kernels_heading, time_text_on
from cpugpu_tui.render.gpus import beside_words, row_standings, several, slow_text
from cpugpu_tui.render.verdicts import SKIPPED, common_marks, remark
from cpugpu_tui.report.report import has_paper, is_column, main_threads
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState

THREADS = "cpu-"
"""Prefix of the keys of columns with CPU times at other thread counts."""


class Line(NamedTuple):
    """A line of a table: a row of the run, or its part for one GPU."""

    run: RunState
    row: Row
    """The row with the times of at most one GPU."""
    gpu: str | None = None
    """The GPU of the line; None in runs with one GPU or none."""
    is_first: bool = True
    """Whether it is the first line of its row."""
    slow: str = ""
    """How slow the GPU is here; empty if it is not slow."""

    def text(self, key: str) -> str:
        """Return the text of a column."""
        return COLUMNS[key].text(self.run, self.row)

    def remarks(self, common: Collection[str] = ()) -> str:
        """Return why there is no time, or the row's marks except the `common` ones."""
        return ", ".join(filter(None, (remark(self.run, self.row, common), self.slow)))


class RunTable(NamedTuple):
    """The table of a run."""

    headings: Mapping[str, str]
    """Key of a column → its heading, in order."""
    lines: tuple[Mapping[str, str], ...]
    """Key of a column → text."""


def lines_of(run: RunState, rows: Iterable[Row]) -> list[Line]:
    """Return the lines of these rows: one for each of several GPUs, one for a row without times.

    Skipped rows that a sentence stands for have none.
    """
    hides = hides_skipped(run)
    rows = [row for row in rows if not (hides and row.status == SKIPPED)]
    if not several(run):
        return [Line(run, row) for row in rows]
    found = []
    for row in rows:
        names = [gpu.name for gpu in run.gpus if gpu.name in row.times]
        if row.failure is not None or not names:
            found.append(Line(run, row, row.failure.device if row.failure is not None else None))
            continue
        stand = row_standings(run, row)
        for index, name in enumerate(names):
            slow = slow_text(run, row, name, stand[name]) if name in stand else ""
            found.append(Line(run, row.on(name), name, index == 0, slow))
    return found


def run_table(run: RunState, rows: Iterable[Row] | None = None) -> RunTable:
    """Return the table of a run for a screen, with thread counts in columns and without the common marks.

    `rows` are those to show, by default all.
    """
    lines, beside = lines_of(run, table_rows(run) if rows is None else rows), thread_columns(run)
    cases = [row.case for row in run.rows.values()]
    has_sweeps = len({(case.workload, case.variant) for case in cases}) > 1
    has_dtypes = len({case.dtype for case in cases}) > 1
    # With `2,all` on two cores both columns would have the same heading without the word `asked`.
    counts = {
        threads_key(count): f"CPU, {count or 'all'} thr.{' asked' if count == run.threads else ''}" for count in beside
    }
    name_key = Key.CASE if has_sweeps else Key.SIZE
    headings = _headings(run, name_key, counts, lines)
    if beside and run.threads:
        headings[Key.CPU] = f"CPU, {run.threads} thr."
    common = common_marks(run)
    found = []
    for line in lines:
        others = {threads_key(count): _with_threads(run, line.row, count) for count in beside}
        case, is_beside = line.row.case, is_column(run, line.row.case.sweep)
        threads = f" t{case.threads or 'all'}" if is_beside or (case.threads and not beside) else ""
        name = f"{f'{case.name} ' if has_sweeps else ''}{size_text(case.size)}{f' {case.dtype}' if has_dtypes else ''}"
        own = {name_key: f"{name}{threads}", Key.REMARKS: line.remarks(common), **others}
        if is_beside:  # its time is in the column of its thread count
            own[Key.CPU] = NONE
        found.append(_texts(line, headings, own))
    return RunTable(headings, tuple(found))


def full_table(run: RunState, rows: Iterable[Row]) -> RunTable:
    """Return a table of rows of a run for a file, with a line for each thread count and all marks."""
    lines = lines_of(run, rows)
    name = Key.CASE if len(run.sweeps) > 1 else Key.SIZE
    headings = _headings(run, name, {}, lines)
    owns = ({name: case_name(run, line.row), Key.REMARKS: line.remarks()} for line in lines)
    return RunTable(headings, tuple(_texts(line, headings, own) for line, own in zip(lines, owns, strict=True)))


def _headings(run: RunState, name: str, threads: Mapping[str, str], lines: Iterable[Line]) -> dict[str, str]:
    """Return key → heading of the columns, the same for all lines."""
    of_gpu = (Key.GPU, Key.KERNEL, Key.SPEEDUP) if run.gpu is not None else ()
    judged = (Key.VERDICT, Key.MOVED) if run.gpu is not None else ()
    energies = [key for key, times in ((Key.CPU_ENERGY, "cpu"), (Key.GPU_ENERGY, "gpu"))
                if any(joules(line.row, getattr(line.row, times)) is not None for line in lines)]  # fmt: skip
    paper = [Key.WRITTEN] if run.gpu is not None and has_paper(run) else []
    names = [name, Key.ON] if several(run) else [name]
    keys = (*names, Key.CPU, *threads, *of_gpu, Key.PLUS_MINUS, *judged, Key.LIMIT, *energies, *paper, Key.REMARKS)
    known = {Key.KERNEL: kernels_heading(run), **threads}
    if beside_words(run):
        known |= {Key.CPU: f"{COLUMNS[Key.CPU].heading}, here", Key.GPU: f"{COLUMNS[Key.GPU].heading}, recorded"}
    return {key: known.get(key) or COLUMNS[key].heading for key in keys}


def _texts(line: Line, headings: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of a line; only the first line of a row shows what its lines share."""
    own = {Key.ON: line.gpu or "", **own}
    found = {key: own[key] if key in own else line.text(key) for key in headings}
    if not line.is_first:
        found |= {
            key: "" for key in found if key in (Key.CASE, Key.SIZE, Key.CPU, Key.CPU_ENERGY) or key.startswith(THREADS)
        }
    return found


# ------------------------------------------------------------------ names and threads


def sweep_name(run: RunState, sweep: SweepKey) -> str:
    """Return the name of a sweep in its run: workload and variant, with dtype and threads if the run has several."""
    *_, dtype, threads = sweep
    words = [work_name(sweep)]
    words += [dtype] if len({other[2] for other in run.sweeps}) > 1 else []
    if len({other[3] for other in run.sweeps}) > 1:
        words.append(f"{threads or 'all'} thread{'' if threads == 1 else 's'}")
    return " ".join(words)


def case_name(run: RunState, row: Row) -> str:
    """Return the size, after the name of its sweep if there are several."""
    size = size_text(row.case.size)
    return f"{sweep_name(run, row.case.sweep)} {size}" if len(run.sweeps) > 1 else size


def threads_key(count: int) -> str:
    """Return the key of the column of CPU times with this number of threads, 0 for all."""
    return f"{THREADS}{count}"


def _with_threads(run: RunState, row: Row, count: int) -> str:
    """Return the CPU's time with other threads, or the kind of its failure."""
    other = with_threads(run, row, count)
    if other is None:
        return NONE
    return other.failure.kind if other.failure is not None else time_text_on(other, other.cpu)


# ------------------------------------------------------------------ thread columns


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
