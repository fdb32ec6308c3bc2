"""Tables on stdout, from the same state that the panes show."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table

from cpugpu_tui.analysis.energy import SCOPE_WORDS, energy, joules_text
from cpugpu_tui.cli.output.table_style import add_columns as add_columns
from cpugpu_tui.cli.output.table_style import console as console
from cpugpu_tui.cli.output.table_style import new_table as new_table
from cpugpu_tui.cli.output.table_style import plain as plain
from cpugpu_tui.cli.output.table_style import unicode as unicode
from cpugpu_tui.model import ENERGY
from cpugpu_tui.model.quantities import percent
from cpugpu_tui.render.answer_table import table_lines
from cpugpu_tui.render.answers import answer_lines, lines_beside_table
from cpugpu_tui.render.cells import (
    COLD,
    FASTER,
    LIMITED_BY,
    NONE,
    PAPERS_ERROR,
    PLUS_MINUS,
    SPEEDUP,
    WARM,
    WITH_COPIES,
    faster_cell,
    has_paper,
    kernels_cell,
    kernels_heading,
    limited_by_cell,
    name_text,
    papers_error_cell,
    plus_minus_cell,
    speedup_cell,
    time_cell,
    with_copies_cell,
)
from cpugpu_tui.render.ending import cut_short
from cpugpu_tui.render.gpus import ToldRow, several, told_rows
from cpugpu_tui.render.heading import heading
from cpugpu_tui.render.insight import MARK_WORDS, allowed_cores, remark, row_marks
from cpugpu_tui.render.peers import Matrix, matrices
from cpugpu_tui.session.again import commands
from cpugpu_tui.session.planning import scale_text
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.state.thread_columns import is_column, table_rows, thread_columns, with_threads
from cpugpu_tui.telemetry.reasons import REASONS

ENERGY_ON = ("CPU", "GPU")
"""Devices that can have a column of energies."""


OPTIONAL = (PAPERS_ERROR, COLD, WARM, LIMITED_BY, WITH_COPIES)
"""Columns that a narrow terminal goes without, in this order; the detail and `--json` have them always."""

WITHOUT_CPU = ("CPU", SPEEDUP, WITH_COPIES, FASTER)
"""Columns that say nothing where several GPUs were timed and no CPU."""

LEAST_REMARK = 12
"""Cells that the remarks need, which are words and may be wrapped."""

LEFT = ("case", "on", FASTER, LIMITED_BY, "remarks")
"""Columns of words; the others are of numbers."""


def run_table(state: RunState, width: int | None = None) -> Table:
    """Return one row per case: times, speedup with its interval, winner, what the publication's clock says.

    With a width it leaves out columns until no number has to be wrapped: `0.0406×` over two lines reads as `0.040`.
    """
    rows = run_cells(state)
    return _table_of(rows, columns_within(rows, width))


def _table_of(rows: Sequence[Mapping[str, str]], names: Sequence[str]) -> Table:
    table = new_table()
    for name in names:
        add_columns(table, plain(name), justify="left" if name in LEFT else "right")
    for cells in rows:
        table.add_row(*(cells[name] for name in names))
    return table


def columns_within(rows: Sequence[Mapping[str, str]], width: int | None) -> list[str]:
    """Return the columns that fit, without those that hold nothing."""
    nothing = ("", plain(NONE))
    droppable = (*OPTIONAL, "remarks")
    names = [
        name
        for name in (rows[0] if rows else {})
        if name not in droppable or any(row[name] not in nothing for row in rows)
    ]
    for name in OPTIONAL:
        if width is None or _least_width(rows, names) <= width:
            break
        names = [other for other in names if other != name]
    return names


def _least_width(rows: Sequence[Mapping[str, str]], names: Sequence[str]) -> int:
    """Return the cells that a table takes if nothing but its remarks is wrapped: each column has two more between."""
    widths = [
        LEAST_REMARK if name == "remarks" else max(len(name), *(len(row[name]) for row in rows)) for name in names
    ]
    return sum(widths) + 2 * len(names)


def run_cells(state: RunState) -> list[dict[str, str]]:
    """Return the cells of every row by the heads of their columns, which are the same in every row."""
    common, cores = common_marks(state), allowed_cores(state)
    told = told_rows(state, table_rows(state))
    energies = joule_columns(each.row for each in told)
    found = []
    for each in told:
        cells = _cells(state, each, energies)
        if several(state):  # also rows without any times, which are no GPU's
            cells = _of_one_gpu(cells, each)
        remarks = (remark(each.row, cores, common), each.slow)
        cells["remarks"] = ", ".join(remark for remark in remarks if remark)
        found.append({name: plain(text) for name, text in cells.items()})
    return found


def _of_one_gpu(cells: dict[str, str], told: ToldRow) -> dict[str, str]:
    """Return the cells of a line of a run on several GPUs: what all lines of a row share stands in its first."""
    name, *others = cells
    shared = (name, *(head for head in others if head.startswith("CPU")))
    found = {name: cells[name], "on": told.gpu or ""} | {head: cells[head] for head in others}
    if not told.is_first:
        found |= dict.fromkeys(shared, "")
    without = () if any(device.is_cpu for device in told.state.devices) else WITHOUT_CPU
    return {head: text for head, text in found.items() if head not in without}


def _cells(state: RunState, told: ToldRow, energies: Sequence[str]) -> dict[str, str]:
    """Return the cells of a row but its remarks.

    The columns are those of the whole run: what one GPU's rows alone say of it may differ from GPU to GPU.
    """
    row, has_gpu = told.row, state.gpu is not None
    case, beside = row.case, thread_columns(state)
    is_beside = is_column(state, case.sweep)
    has_sweeps = len({(other.case.workload, other.case.variant) for other in state.rows.values()}) > 1
    threads = f" t{case.threads or 'all'}" if is_beside or (case.threads and not beside) else ""
    dtype = f" {case.dtype}" if len({other.case.dtype for other in state.rows.values()}) > 1 else ""
    name = (f"{name_text(case)} " if has_sweeps else "") + f"{case.size:,}{dtype}{threads}"
    cells = {"case" if has_sweeps else "size": name}
    cells[f"CPU, {state.threads} thr." if beside and state.threads else "CPU"] = (
        NONE if is_beside else time_cell(row, row.cpu)
    )
    # With all cores named twice (`2,all` on two of them) both columns have the same head without the word.
    cells |= {f"CPU, {count or 'all'} thr.{' asked' if count == state.threads else ''}": _beside(state, row, count)
              for count in beside}  # fmt: skip
    if has_gpu:
        cells |= {"GPU": time_cell(row, row.gpu), kernels_heading(state): kernels_cell(row)}
        cells[SPEEDUP] = speedup_cell(row)
    cells[PLUS_MINUS] = plus_minus_cell(row)
    if has_gpu:
        cells |= {FASTER: faster_cell(row), WITH_COPIES: with_copies_cell(row)}
    cells[LIMITED_BY] = limited_by_cell(told.state, row)
    cells |= {f"{name} energy": _joules_cell(row, name) for name in energies}
    if has_gpu and has_paper(state):
        cells[PAPERS_ERROR] = papers_error_cell(told.state, row, impossible="impossible ")
    return cells


def common_marks(state: RunState) -> dict[str, int]:
    """Return the marks that more than half of the finished rows have, which the rows need not repeat."""
    finished, counts = _counted_marks(state)
    return {mark: count for mark, count in counts.items() if finished > 2 and count > finished / 2}


def mark_lines(state: RunState) -> list[str]:
    """Return a sentence for each mark of a finished row: what it means, and how many rows have it."""
    finished, counts = _counted_marks(state)
    return [f"{mark} in {count} of {finished} rows: {MARK_WORDS.get(mark, 'odd')}." for mark, count in counts.items()]


def _counted_marks(state: RunState) -> tuple[int, Mapping[str, int]]:
    """Return how many rows have finished, and how many of them have each mark."""
    finished = [row for row in state.rows.values() if row.status == "ok"]
    return len(finished), Counter(mark for row in finished for mark in row_marks(row))


def joule_columns(rows: Iterable[Row]) -> list[str]:
    """Return the devices, `CPU` and `GPU`, that any of the rows knows the energy of a call on."""
    shown = list(rows)
    return [name for name in ENERGY_ON if any(_joules(row, name) is not None for row in shown)]


def _times_on(row: Row, name: str) -> DeviceTimes | None:
    return row.cpu if name == "CPU" else row.gpu


def _joules(row: Row, name: str) -> float | None:
    times = _times_on(row, name)
    return None if times is None or row.status == "mismatch" else energy(times.energy).joules_per_call.value


def _joules_cell(row: Row, name: str) -> str:
    joules = _joules(row, name)
    return "–" if joules is None else joules_text(joules)


def _beside(state: RunState, row: Row, threads: int) -> str:
    """Return the CPU's time with other threads, or what became of it."""
    other = with_threads(state, row, threads)
    if other is None:
        return NONE
    return other.failure.kind if other.failure is not None else time_cell(other, other.cpu)


def summary(state: RunState, notice: str | None, is_saved: bool = True) -> list[str]:
    """Return the lines under the table: answer, failures, and where the run is kept.

    `is_saved` off is for a run that the history lacks, or has in part: `notice` says why.
    """
    answers = table_lines(state, console().width, plain)
    said = (*answers, *lines_beside_table(state)) if answers else answer_lines(state)
    lines = [line for line in (*said, cut_short(state)) if line]
    lines += mark_lines(state)
    lines += energy_lines(state)
    if state.run is not None and state.run.plan.scale == "small":
        lines.append(f"Small scale: {scale_text(state.run.plan)}.")
    finished = state.finished
    if finished is not None and finished.message:
        lines.append(f"{finished.status}: {finished.message} {finished.remedy}".strip())
    inherited = (state.run.environment.get("inherited") if state.run else None) or {}
    if inherited:
        names = ", ".join(f"{name}={value}" for name, value in inherited.items())
        lines.append(f"Warning: inherited {names}; such variables can make the CPU side slow.")
    if notice:
        lines.append(notice)
    if state.run is not None and state.run.number is not None:
        part = "Saved" if is_saved else "Saved in part"
        lines.append(f"{part} as run {state.run.number}: cpugpu-tui show {state.run.number}")
    return [plain(line) for line in lines]


def energy_lines(state: RunState) -> list[str]:
    """Return how sure the energies are, and for a run that was asked for them why there are none."""
    lines = []
    for name in ENERGY_ON:
        timed = [times for row in state.rows.values() if (times := _times_on(row, name)) is not None]
        found = [energy(times.energy) for times in timed]
        known = [each for each in found if each.joules_per_call.value is not None]
        if known:
            off = percent(max(each.plus_minus or 0.0 for each in known))
            scope = SCOPE_WORDS.get(known[0].scope, "")
            lines.append(
                f"{name} energy: of one call, ±{off} % (a step of the counter){f'; {scope}' if scope else ''}."
            )
            disputed = sum(each.is_disputed for each in known)
            if disputed:
                lines.append(f"In {disputed} of these rows the power, read directly, is more than 10 % off.")
        elif found and state.run is not None and ENERGY in state.run.plan.metrics:
            reasons = dict.fromkeys(REASONS.get(each.joules_per_call.reason or "", "unknown") for each in found)
            lines.append(f"No {name} energy: {', '.join(reasons)}.")
    return lines


def matrix_table(matrix: Matrix) -> Table:
    """Return a matrix of copies between GPUs as a table."""
    table = new_table()
    add_columns(table, matrix.heads[0])
    add_columns(table, *matrix.heads[1:], justify="right")
    for row in matrix.rows:
        table.add_row(*map(plain, row))
    return table


def print_state(state: RunState, notice: str | None = None, is_saved: bool = True) -> None:
    """Print heading, table and summary of a run; see `summary`."""
    out = console()
    if state.rows:
        out.print(plain(heading(state)))
        rows = run_cells(state)
        names = columns_within(rows, out.width)
        out.print(_table_of(rows, names))
        if missing := [name for name in columns_within(rows, None) if name not in names]:
            out.print(f"Not shown in {out.width} columns: {', '.join(missing)}.")
    for matrix in matrices(state):
        out.print(plain(matrix.title))
        out.print(matrix_table(matrix))
    for line in summary(state, notice, is_saved):
        out.print(line, soft_wrap=not sys.stdout.isatty())  # a pipe has no width
    for command in commands(state.run) if state.run is not None else ():
        out.print(plain(f"Again: {command}"), soft_wrap=True)  # a command to copy must not be broken by us
