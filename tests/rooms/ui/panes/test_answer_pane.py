"""The answer pane: whole sentences, optional reasons, a table that begins at the highlighted sweep."""

import gzip
import json
from dataclasses import replace
from functools import lru_cache

import pytest
from tests.helpers.app.fake_run import DEVICES, finished, rounds
from tests.helpers.app.several_gpus import run_of as simulated
from tests.helpers.command_line import ROOT
from tests.helpers.runs.planted_crossover import searched

from cpugpu_tui.export.json_document import read_runs
from cpugpu_tui.export.thresholds import rendered, thresholds_of
from cpugpu_tui.model import METRICS, Case, DevicesFound, Plan, RunStarted, Simulation
from cpugpu_tui.render.answers import answer_lines, leading_answers, survey_lines
from cpugpu_tui.render.sentences import PICTURE
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.state.folding import folded
from cpugpu_tui.thresholds import Thresholds
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import ASCII, UNICODE
from cpugpu_tui.ui.keys import Situation
from cpugpu_tui.ui.panes.answer import pane_lines
from cpugpu_tui.ui.panes.lines import plain

SMALL, TALL, WIDE = (78, 2, 4), (118, 3, 6), (118, 7, 7)
"""Cells, least and most lines of the pane at 80×24, 120×40 and 200×60."""

PRODUCTS = tuple(Case("matmul", size) for size in (72, 80, 88, 96))


@lru_cache
def product():
    """A finished run of one sweep."""
    return simulated(1, cases=tuple(Case("matmul", size) for size in (16, 64, 256, 1024)), metrics=METRICS)


@lru_cache
def variants():
    """A finished run of four sweeps."""
    names = ("fresh", "out", "add", "add-out")
    cases = (Case("elementwise", size, variant=name) for size in (100, 10_000, 1_000_000) for name in names)
    return simulated(1, cases=tuple(cases), metrics=METRICS)


def shown(run, size, cursor="", glyphs=UNICODE, file=None, *, is_zoomed=False):
    """Return the pane's lines that are not empty."""
    state = AppState(run=run, situation=Situation(ran=True), cursor=cursor, thresholds=file)
    return [text for line in pane_lines(state, *size, glyphs, is_zoomed=is_zoomed) if (text := plain(line))]


def test_at_80x24_the_answer_stands_whole_and_its_reasons_fold_away():
    lines = shown(product(), SMALL)
    said = " ".join(lines)
    assert said.startswith(answer_lines(product())[0])
    assert said.count(". ") == 1
    assert "× faster (± " in said.rpartition("; ")[2]
    assert len(lines) <= 4


@pytest.mark.parametrize("size", [SMALL, TALL, WIDE])
def test_no_sentence_is_cut(size):
    lines = shown(product(), size)
    assert lines[-1].endswith(".")
    assert "..." not in " ".join(lines)
    assert all(len(line) <= size[0] for line in lines)


def test_cause_counterfactual_and_the_papers_error_are_lines_of_their_own():
    starts = [line.split(" ")[0] for line in shown(product(), WIDE)]
    assert [word for word in starts if word in {"The", "At", "Without", "Timed"}] == ["The", "At", "Without", "Timed"]


def test_several_variants_are_a_table():
    run = variants()
    head, *rows = shown(run, TALL)
    assert head.startswith("workload ")
    assert "GPU wins" in head
    assert [row.split("  ")[0] for row in rows] == [
        "elementwise fresh", "elementwise out", "elementwise add", "elementwise add-out",
    ]  # fmt: skip


def test_a_table_that_is_too_long_begins_with_its_first_line_or_has_the_highlighted_sweep():
    run = variants()
    cursor = next(key for key, row in run.rows.items() if row.case.variant == "add")
    for chosen, names in (("", ["fresh", "out"]), (cursor, ["out", "add"])):
        head, *rows, more = shown(run, SMALL, chosen)
        assert head.startswith("workload ")
        assert [row.split()[1] for row in rows] == names
        assert more.startswith("2 more")
        assert " z " in more, "the key that shows them"


def test_while_the_run_goes_on_it_says_so():
    run = replace(product(), finished=None)
    assert shown(run, SMALL)[0].startswith("So far, ")


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_no_line_ends_between_a_number_and_its_sign(glyphs):
    lines = [line for width in range(40, 120) for line in shown(product(), (width, 9, 9), glyphs=glyphs)]
    assert not [line for line in lines if line.startswith(("%", "≈", "~ ")) or line.endswith(("±", "+-", "≈", " ~"))]


def file_with(**changes):
    """Return the file of thresholds of `product`, with other values in each threshold or in the machine."""
    document = json.loads(rendered("json", thresholds_of(product())))
    for each in (document["machine"], *document["thresholds"]):
        each |= {name: value for name, value in changes.items() if name in each}
    return Thresholds(document, {})


IN_FILE = "thresholds.json covers this run."
CONTRADICTS = "This run contradicts thresholds.json. Press e to update the file."


@pytest.mark.parametrize("size", [SMALL, TALL, WIDE])
def test_the_file_that_has_the_plan_is_named(size):
    for run in (product(), replace(product(), finished=None)):
        assert IN_FILE in " ".join(shown(run, size, file=file_with()))
    assert "thresholds.json" not in " ".join(shown(product(), size))
    head, *rows = shown(variants(), WIDE, file=thresholds_of(variants()))
    assert head.startswith("workload ")
    assert rows[-1] == IN_FILE


@pytest.mark.parametrize(
    "changes", [{"operation": "softmax"}, {"dtype": "float64"}, {"simulated": False, "cpu": "Z80"}]
)
def test_a_file_without_the_plan_or_of_another_machine_is_not(changes):
    assert "thresholds.json" not in " ".join(shown(product(), WIDE, file=file_with(**changes)))


@pytest.mark.parametrize("size", [SMALL, TALL, WIDE])
def test_a_run_that_contradicts_the_file_says_so(size, words):
    other = file_with(faster=[["cuda", 16, 1024]])
    text = " ".join(shown(product(), size, file=other))
    assert text.startswith(answer_lines(product())[0])
    assert CONTRADICTS in text
    assert IN_FILE not in text
    words(shown(product(), size, file=other))
    assert CONTRADICTS not in " ".join(shown(replace(product(), finished=None), size, file=other)), "not over yet"


@pytest.mark.parametrize("size", [(58, 2, 4), (38, 2, 6)])
def test_a_warning_has_room_below_60_columns(size):
    assert len(shown(product(), size)) <= 3
    lines = shown(product(), size, file=file_with(faster=[["cuda", 16, 1024]]))
    assert CONTRADICTS.partition(" Press")[0] in " ".join(lines)
    assert len(lines) <= 4


def test_a_survey_leaves_a_list_of_workloads_out_rather_than_cut_it():
    plan = build_plan(PlanRequest(("survey",), only=("matmul", "fft", "attention"), simulation=Simulation(drift=0.0)))
    run, _ = searched(plan)
    for width in range(38, 140, 4):
        lines = shown(run, (width, 3, 5))
        assert "..." not in " ".join(lines)
        assert lines[-1].strip(), "the line goes to the table then"


def test_a_sentence_of_which_one_clause_fits_does_not_read_like_the_whole_answer():
    """`On this GPU, faster at every size timed: fft.` stood below a table in which the GPU wins 19 of 20."""
    path = ROOT / "tests" / "golden" / "h200-survey.ndjson.gz"
    (run,) = read_runs(gzip.decompress(path.read_bytes()), path.name)
    assert "On this GPU, faster at every size timed: fft; …" in shown(folded(run.events), (118, 3, 8))


def test_a_survey_shows_every_workload_and_its_sentences_where_there_is_room():
    plan = build_plan(PlanRequest(("survey",), only=("matmul", "fft", "sort"), simulation=Simulation(drift=0.0)))
    run, _ = searched(plan)
    lines = shown(run, (118, 3, 30))
    assert [line.split()[0] for line in lines[1:4]] == [answer.name for answer in leading_answers(run)]
    assert all("▓" in line for line in lines[1:4])
    narrow = shown(run, (66, 3, 30))
    assert all("▓" in line for line in narrow[1:4])
    assert " ".join(narrow[4].split()) == PICTURE, "the legend of the bars, whose heading has no room for it"
    assert " ".join(lines[4:]) == " ".join(survey_lines(run))
    assert len(shown(run, SMALL)) <= 4
    small, zoomed = (" ".join(shown(run, SMALL, is_zoomed=is_zoomed)) for is_zoomed in (False, True))
    assert "2 more. Press z to enlarge the pane." in small
    assert "2 more." in zoomed
    assert "Press z" not in zoomed
    for case in plan.cases:  # where one line is left, it is the one of the highlighted row
        assert shown(run, (38, 3, 3), case.key)[1].startswith(f"{case.workload} ")


def test_a_size_in_its_first_rounds_changes_the_answer_only_where_it_is_the_first():
    """`No winner at 96 (only 1 round)` came and went with every case of a run, a line and a half each."""
    plan, case = Plan("matmul", PRODUCTS), PRODUCTS[-1]
    events = [RunStarted(run_id="r", series_id="s", plan=plan, environment={}), DevicesFound(devices=DEVICES)]
    for other in PRODUCTS[:-1]:
        events += [*rounds(other, 1_000.0, 20_000.0), finished(other)]

    def answered(count, before=events):
        return " ".join(shown(folded([*before, *rounds(case, 1_000.0, 20_000.0, count)]), TALL))

    assert f"(72–{PRODUCTS[-2].size:,})" in answered(0)
    assert answered(2) == answered(1) == answered(0)
    assert f"(72–{case.size:,})" in answered(3)
    first = answered(1, events[:2])
    assert "in 1 round" in first, "better than nothing"
