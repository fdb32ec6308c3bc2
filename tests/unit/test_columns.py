"""CPU threads as columns: one row per size, the time with other threads beside it, nothing hidden."""

from __future__ import annotations

import io

import pytest
from planted_crossover import search_plan, searched
from recorder import QUICK, plan_of, state_of, swept
from rich.console import Console

from cpugpu_tui.analysis.quantities import US
from cpugpu_tui.cli.tables import run_table
from cpugpu_tui.model import LATENCY, Case, CaseFailed, Simulation
from cpugpu_tui.runs.answers import answers
from cpugpu_tui.runs.columns import is_beside, main_threads, table_rows, thread_columns, with_threads
from cpugpu_tui.runs.device_times import DeviceTimes
from cpugpu_tui.runs.state import Row, RunState
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.glyphs import UNICODE
from cpugpu_tui.ui.panes.timings import columns
from cpugpu_tui.ui.rows import CHANGE, SPREAD, fitted_case, time_width

CASES = tuple(Case("matmul", size, threads=threads) for size in (64, 256) for threads in (1, 0))


def both() -> RunState:
    plan = plan_of(simulation=QUICK, cases=CASES)
    return state_of(plan, swept(plan)[1])


def printed(run: RunState) -> list[str]:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 - closed with the test
    console.print(run_table(run))
    return [line for line in console.export_text().splitlines() if line.strip()]


def test_the_table_has_a_row_for_each_size_and_a_column_for_each_count() -> None:
    lines = printed(both())
    assert "CPU, 1 thr." in lines[0]
    assert len(lines) == 2 + 2
    assert [line.split()[0] for line in lines[2:]] == ["64", "256"]


def test_all_threads_stand_for_the_row_and_the_answer_names_them() -> None:
    run = both()
    assert thread_columns(run) == (1,)
    assert main_threads(run, CASES[0].sweep) == 0
    assert [row.case.threads for row in run.rows.values() if not is_beside(run, row)] == [0, 0]
    (answer,) = answers(run)
    assert "than 2 CPU threads" in answer.sentences[0]
    assert "one thread" in answer.evidence.worlds


def test_a_failure_with_other_threads_is_said_in_its_cell() -> None:
    run = both().apply(CaseFailed(case=CASES[0].key, kind="oom", message="Full."))
    assert "oom" in printed(run)[2]
    cell = rows.cells(run.rows[CASES[1].key], rows.look_of(run, US, UNICODE, 9), run)[rows.beside_key(1)]
    assert "no memory" in "".join(text for text, _ in cell)


def test_a_size_that_only_one_count_has_is_a_row_of_its_own() -> None:
    run = both()
    alone = Case("matmul", 512, threads=1)
    plan = plan_of(simulation=QUICK, cases=(*CASES, alone))
    run = state_of(plan, swept(plan)[1])
    shown = [row.case for row in run.rows.values() if not is_beside(run, row)]
    assert alone in shown
    assert "512 t1" in printed(run)[-1]
    assert printed(run)[-1].split()[2:3] == ["–"], "its time is not that of all threads"
    assert printed(run)[-1].split()[3] != "–"
    look = rows.look_of(run, US, UNICODE, 9)
    names = [
        "".join(text for text, _ in rows.cells(run.rows[case.key], look, run)[rows.CASE]) for case in (alone, CASES[1])
    ]
    assert names == ["matmul 512 1 thread", "matmul 64"]


def test_a_size_of_one_count_alone_stands_among_the_others_by_size() -> None:
    alone = Case("matmul", 128, threads=1)
    plan = plan_of(simulation=QUICK, cases=(alone, *CASES))
    run = state_of(plan, swept(plan)[1])
    assert [row.case.size for row in table_rows(run)] == [64, 128, 256]


def test_the_count_with_results_stands_for_the_row_where_the_other_failed() -> None:
    plan = plan_of(simulation=QUICK, cases=CASES)
    run = state_of(plan, swept(plan)[1])
    for case in CASES[1::2]:
        run = run.apply(CaseFailed(case=case.key, kind="error", message="Broken."))
    fresh = RunState(run=run.run, devices=run.devices, rows={k: r for k, r in run.rows.items() if r.case.threads == 1})
    assert main_threads(fresh, CASES[0].sweep) == 1
    assert with_threads(run, run.rows[CASES[1].key], 1) is run.rows[CASES[0].key]


def test_a_search_with_two_counts_finds_two_crossovers() -> None:
    run, _ = searched(search_plan(Simulation(noise=0.002), threads="1,all"))
    (answer,) = answers(run)
    world = answer.evidence.worlds["one thread"]
    assert world.ratio is not None
    assert world.ratio <= 1.1
    assert len(world.points) == len([row for row in run.rows.values() if row.case.threads == 1 and row.cpu])


def test_the_column_stands_in_the_app_too_where_there_is_room() -> None:
    wide = [column.label for column in columns(118, US, UNICODE, (1,))]
    assert wide[1:4] == ["CPU µs", "CPU t1", "GPU µs"]
    assert "CPU t1" in [column.label for column in columns(79, US, UNICODE, (1,))]
    for width in (60, 79, 100, 118, 150, 200):
        laid_out = columns(width, US, UNICODE, (1, 4))
        assert sum(column.width + 2 for column in laid_out) <= width


@pytest.mark.parametrize("width", [60, 79, 100, 118, 150, 200])
@pytest.mark.parametrize(
    "told", [frozenset[str](), frozenset({CHANGE}), frozenset({SPREAD}), frozenset({CHANGE, SPREAD})]
)
@pytest.mark.parametrize("time_width", [0, 8, 10])
def test_no_time_is_cut_and_nothing_stands_out_of_the_table(width: int, told: frozenset[str], time_width: int) -> None:
    laid_out = {column.key: column.width for column in columns(width, US, UNICODE, (), told, time_width=time_width)}
    assert min(laid_out["cpu"], laid_out["gpu"]) >= time_width
    assert sum(cells + 2 for cells in laid_out.values()) - 1 <= width, "the last column's padding may stand out"


def test_what_became_of_a_row_is_whole_before_the_sparkline_grows() -> None:
    laid_out = {column.key: column.width for column in columns(79, US, UNICODE, (), frozenset({SPREAD}))}
    assert laid_out["verdict"] >= len("? undecided")


def test_a_size_is_whole_where_the_variant_is_cut() -> None:
    case, varying = Case("matmul", 1024, "default"), frozenset({"workload", "variant"})
    assert fitted_case(case, varying, 11, UNICODE) == "…tmul 1024…"


def test_a_time_of_a_million_has_its_cells() -> None:
    assert time_width(RunState(), US) == 2
    for ns, text in ((34_380_000.0, "~34,380"), (1_035_000_000.0, "~1,035,000"), (1.2e12, "~9,999,000")):
        times = DeviceTimes("cpu", samples={LATENCY: (ns,)})
        run = RunState(rows={"matmul": Row(CASES[0], times={"cpu": times})})
        assert time_width(run, US) == len(text)


@pytest.mark.parametrize("width", [76, 80, 100, 120, 160])
def test_no_number_is_broken_over_two_lines_on_a_narrow_terminal(width: int) -> None:
    plan = plan_of(simulation=QUICK, cases=tuple(Case("matmul", n) for n in (16, 64, 2048)))
    run = state_of(plan, swept(plan)[1])
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(run_table(run, width))
    lines = [line for line in console.export_text().splitlines() if line.strip()]
    assert len(lines) == 2 + 3
    assert max(map(len, lines)) <= width
    assert ("clock off" in lines[0]) == (width >= 100), "the least important column goes first"
    assert "speed-up" in lines[0]
