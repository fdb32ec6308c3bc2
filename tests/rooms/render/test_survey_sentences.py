"""The two sentences of a survey."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.command_line import ROOT
from tests.helpers.runs.planted_report import planted, with_copies

from cpugpu_tui.model import work_name
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.render.answer_sentences import survey_sentences
from cpugpu_tui.render.crossover_words import MOST_IN_TABLE, exceptions, sizes_text, where, who_wins
from cpugpu_tui.render.sentences import below_table, table_lines
from cpugpu_tui.report.bars import OPEN, cells_of
from cpugpu_tui.state.folding import folded
from cpugpu_tui.transport.agent_output import decode


def h200():
    """A survey of an H200, with eight workloads."""
    data = gzip.decompress((ROOT / "tests" / "golden" / "h200-survey.ndjson.gz").read_bytes())
    return folded(event for line in data.splitlines() if (event := decode(line)) is not None)


def test_two_sentences_say_what_belongs_on_the_gpu(words):
    surveys = [
        {"a": ("GGG", "GGG"), "b": ("GGG", "CCC"), "c": ("CCC", "CCC"), "d": ("CCGG", "CCCC"), "e": ("GGGG", "CCGG")},
        {"a": ("GGG", "GGG"), "b": ("CCC", "CCC")},
        {"a": ("CCGG", "CCCG")},
        {"a": ("GGG", ""), "b": ("===", "")},
        {"a": ("?", "")},
        {"a": ("GGG?", "CC??"), "b": ("CC?", "")},
        {"a": ("GG?GG", "GGGGG"), "b": ("CC=CC", ""), "c": ("GGGG", "GG=GG")},
    ]
    told = [survey_sentences([(name, with_copies(*each)) for name, each in found.items()]) for found in surveys]
    assert all(len(lines) == 2 for lines in told)
    words([line for lines in told for line in lines])


def test_a_device_that_wins_at_both_ends_wins_from_one_to_the_other():
    """`up to , except 20` stood in the table of a survey whose time was short."""
    both_ends, cpu = (planted(letters).resident for letters in ("G~~G", "C~C"))
    assert where(both_ends) == "from 10 to 80, unclear at 20 and 40"
    assert who_wins(cpu, "") == "the CPU wins from 10 to 40; no winner at 20 (too noisy)"


def test_explain_names_the_rows_that_a_survey_distrusts_and_gives_the_reasons():
    """A survey has no table of its rows, so a count of page faults told nobody which time to distrust."""
    run = h200()
    brief, full = (below_table(run, has_answers=True, in_full=in_full) for in_full in (False, True))
    told = {line.partition(" in ")[0]: line for line in full}
    marked = [(mark, row) for row in run.rows.values() for times in row.times.values() for mark in times.marks
              if row.status == "ok" and mark in told]  # fmt: skip
    assert {mark for mark, _ in marked} == {"page-faults", "launch-bound"}
    for mark, row in marked:
        rows = told[mark].partition("(")[2].partition(")")[0].split("; ")
        (sizes,) = (each for each in rows if each.startswith(f"{work_name(row.case.sweep)} "))
        assert size_text(row.case.size) in sizes.replace(" and", ",").replace(", ", " ").split(" ")
    assert sum("timed rows (named by --explain): " in line for line in brief) == 3
    assert any(line.startswith("matmul: The GPU wins from") and "launch overhead takes" in line for line in full)
    assert not any("launch overhead takes" in line for line in brief)


@pytest.mark.parametrize("width", [34, 40, 60, 100])
def test_a_survey_is_cut_between_words(width):
    """At 40 cells `from ≈ 185 token` and `from ≈ 95,400 nu` stood there."""
    whole = {word.rstrip(",") for line in table_lines(h200(), 300) for word in line.split()}
    for line in table_lines(h200(), width)[1:]:
        assert len(line) <= width
        words = {word.rstrip(",") for word in line.partition(" (1–")[0].removesuffix("…").split()}
        assert {word for word in words if word[0] not in "░▓█?·"} <= whole


@given(st.text("CG=?~", min_size=2, max_size=7))
def test_a_sweep_names_the_sizes_that_its_bar_shows_as_unclear_between_those_of_a_device(letters):
    """`from ≈ 3,060` stood beside a bar that was unclear up to 9,410: sizes were named by another rule than shown."""
    report = planted(letters)
    found, timed = report.resident, report.resident.timed
    ends = range(10 * (len(letters) - 1) + 1)
    shown = dict(zip(ends, cells_of(report, len(ends)), strict=True))  # each size is alone in its cell
    unclear = [size.size for place, size in enumerate(timed) if shown[10 * place] == OPEN]
    between = [size for size in unclear if any(part.first < size < part.last for part in found.ranges)]
    told = exceptions(found).removeprefix(", unclear at ")
    assert told == (sizes_text(between, most=MOST_IN_TABLE) if between else "")
