"""CPU threads as columns: one row per size, with a column of times for each other thread count."""

import io

import pytest
from rich.console import Console
from tests.helpers.runs.planted_crossover import search_plan, searched
from tests.helpers.runs.recorder import QUICK, plan_of, state_of, swept

from cpugpu_tui.cli.output.tables import keys_within, rich_table, spelled_table
from cpugpu_tui.model import Case, CaseFailed, Simulation
from cpugpu_tui.render.answers import answers
from cpugpu_tui.render.columns import Key
from cpugpu_tui.render.rows import is_beside, threads_key, with_threads
from cpugpu_tui.report.report import main_threads
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.glyphs import UNICODE
from cpugpu_tui.ui.panes.timing_columns import FEWEST_ROUNDS, Shape, columns, shape_of

CASES = tuple(Case("matmul", size, threads=threads) for size in (64, 256) for threads in (1, 0))


def both():
    plan = plan_of(simulation=QUICK, cases=CASES)
    return state_of(plan, swept(plan)[1])


def printed(run):
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 - closed with the test
    table = spelled_table(run)
    console.print(rich_table(table, list(table.headings)))
    return [line for line in console.export_text().splitlines() if line.strip()]


def test_the_table_has_a_row_for_each_size_and_a_column_for_each_count():
    lines = printed(both())
    assert "CPU, 1 thr." in lines[0]
    assert len(lines) == 2 + 2
    assert [line.split()[0] for line in lines[2:]] == ["64", "256"]


def test_a_failure_with_other_threads_is_said_in_its_cell():
    run = both().apply(CaseFailed(case=CASES[0].key, kind="oom", message="Full."))
    assert "oom" in printed(run)[2]
    cell = rows.cells(run.rows[CASES[1].key], rows.look_of(run, UNICODE, 9), run)[threads_key(1)]
    assert "OOM" in "".join(text for text, _ in cell)


def test_a_size_that_only_one_count_has_is_a_row_of_its_own():
    run = both()
    alone = Case("matmul", 512, threads=1)
    plan = plan_of(simulation=QUICK, cases=(*CASES, alone))
    run = state_of(plan, swept(plan)[1])
    shown = [row.case for row in run.rows.values() if not is_beside(run, row)]
    assert alone in shown
    assert "512 t1" in printed(run)[-1]
    assert printed(run)[-1].split()[2:3] == ["–"], "its time is not that of all threads"
    assert printed(run)[-1].split()[3] != "–"
    look = rows.look_of(run, UNICODE, 9)
    names = [
        "".join(text for text, _ in rows.cells(run.rows[case.key], look, run)[Key.CASE]) for case in (alone, CASES[1])
    ]
    assert names == ["matmul 512 1 thread", "matmul 64"]


def test_the_count_with_results_stands_for_the_row_where_the_other_failed():
    plan = plan_of(simulation=QUICK, cases=CASES)
    run = state_of(plan, swept(plan)[1])
    for case in CASES[1::2]:
        run = run.apply(CaseFailed(case=case.key, kind="error", message="Broken."))
    fresh = RunState(run=run.run, devices=run.devices, rows={k: r for k, r in run.rows.items() if r.case.threads == 1})
    assert main_threads(fresh, CASES[0].sweep) == 1
    assert with_threads(run, run.rows[CASES[1].key], 1) is run.rows[CASES[0].key]


def test_a_search_with_two_counts_finds_two_crossovers():
    run, _ = searched(search_plan(Simulation(noise=0.002), threads="1,all"))
    (answer,) = answers(run)
    world = answer.report.under("one thread")
    assert [change.ratio <= 1.1 for change in world.changes] == [True]
    assert len(world.timed) == len([row for row in run.rows.values() if row.case.threads == 1 and row.cpu])


@pytest.mark.parametrize("width", [57, 77, 92, 115, 150, 200, 300])
@pytest.mark.parametrize(
    "told", [frozenset[str](), frozenset({Key.CHANGE}), frozenset({Key.SPREAD}), frozenset({Key.CHANGE, Key.SPREAD})]
)
@pytest.mark.parametrize("names", [(0, 0), (11, 4), (24, 13), (28, 22)])
def test_nothing_is_cut_and_nothing_stands_out_of_the_table(width, told, names):
    found = columns(width, (), told, Shape(names=names))
    cells = {column.key: column.width for column in found}
    assert all(len(column.label) <= column.width for column in found), found
    assert cells["case"] >= names[1], "what tells names apart"
    assert cells["case"] <= max(names[0], 4), "no blanks between names and times"
    assert cells["rounds"] >= FEWEST_ROUNDS
    assert cells["verdict"] >= len("✗ mismatch")
    assert cells.get("cpu", 8) >= len("~12.8 µs")
    assert cells.get("plus_minus", 15) >= len("(0.0352–0.0480)"), "within one of several starts"
    assert sum(each + 2 for each in cells.values()) - 1 <= width, "the last column's padding may stand out"


def test_at_80_columns_there_are_interval_winner_and_sparkline():
    labels = [column.label for column in columns(77, shape=Shape(names=(11, 4)))]
    assert labels == ["case", "CPU", "GPU", "speedup", "95 % interval", "faster", "rounds"]


def test_the_papers_error_has_a_column_where_a_paper_timed_this():
    def labels(*cases):
        plan = plan_of(simulation=QUICK, cases=cases)
        shape = shape_of(state_of(plan, swept(plan)[1]), UNICODE)
        return [column.label for column in columns(300, shape=shape)]

    assert "paper's error" in labels(Case("matmul", 64))
    assert "paper's error" not in labels(Case("elementwise", 64, variant="add"))


@pytest.mark.parametrize("width", [76, 80, 100, 120, 160])
def test_no_number_is_broken_over_two_lines_on_a_narrow_terminal(width):
    plan = plan_of(simulation=QUICK, cases=tuple(Case("matmul", n) for n in (16, 64, 2048)))
    run = state_of(plan, swept(plan)[1])
    console = Console(width=width, record=True, file=io.StringIO())
    table = spelled_table(run)
    console.print(rich_table(table, keys_within(table, width)))
    lines = [line for line in console.export_text().splitlines() if line.strip()]
    assert len(lines) == 2 + 3
    assert max(map(len, lines)) <= width
    assert ("paper's error" in lines[0]) == (width >= 100), "the least important column goes first"
    assert "speedup" in lines[0]
