"""The page that holds published figures against recordings finds and judges their counterparts as it says."""

import math

import pytest
from tests.helpers.runs.planted_report import planted
from tests.readme import found
from tests.readme.found import Crossover, Gain, Place, Speedup

from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.export.stream import ndjson
from cpugpu_tui.report.report import report

HERE = Place(found.SURVEY, "matmul", "")


@pytest.fixture
def sweeps(monkeypatch):
    """Return a function that plants the sweeps: sizes 10, 20, 40, … at which the CPU (C) or the GPU (G) wins, or none.

    A winner is twice as fast.
    """

    def plant(*letters, copies=""):
        reports = [planted(each, {END_TO_END: copies} if copies else {}) for each in letters]
        monkeypatch.setattr(Place, "sweeps", lambda *_: reports)

    return plant


@pytest.mark.parametrize(
    ("letters", "published", "agrees"),
    [
        ("CC~GG", Crossover(30), "yes"), ("CC~GG", Crossover(160), "yes"), ("CC~GG", Crossover(200), "no: 2.50×"),
        ("CC~GG", Crossover(1, 5), "no: 4.00×"), ("CC~GG", Crossover(1, 10), "yes"), ("CC~GG", Crossover(), "–"),
        ("CCC", Crossover(100), "– (no winner)"), ("CCC", Crossover(10), "no: 4.00×"),
        ("GGG", Crossover(15), "– (no winner)"), ("GGG", Crossover(100, 200), "no: 10.0×"),
        ("~~~", Crossover(100), "– (no winner)"),
    ],
)  # fmt: skip
def test_crossovers_agree_if_the_nearer_ends_of_their_brackets_lie_within_a_factor_of_2(
    sweeps, letters, published, agrees
):
    sweeps(letters)
    assert published.finding(HERE).agrees == agrees


def test_a_crossover_is_that_of_the_narrowest_bracket_with_its_copies(sweeps):
    sweeps("C~~~G", "CCGGG", copies="CCCCG")
    assert Crossover(30).finding(HERE).text == "from n ≈ 28 (20–40)"
    assert Crossover(30, copies=True).finding(HERE).text == "with copies from n ≈ 113 (80–160)"


@pytest.mark.parametrize(
    ("published", "text", "agrees"),
    [
        (Speedup(150, 3.0), "n = 160: 2.00× faster (1.98–2.02×)", "yes"),
        (Speedup(160, 5.0), "n = 160: 2.00× faster (1.98–2.02×)", "no: 2.50×"),
        (Speedup(160, 0.5), "n = 160: 2.00× faster (1.98–2.02×)", "no: the GPU wins"),
        (Speedup(160), "n = 160: 2.00× faster (1.98–2.02×)", "–"),
        (Speedup(320, 2.0), "n = 160: 2.00× faster (1.98–2.02×)", "yes"),
        (Speedup(321, 2.0), "n = 160: 2.00× faster (1.98–2.02×)", "– (other size)"),
        (Speedup(10, 0.4), "n = 10: 2.00× slower (1.98–2.02×)", "yes"),
        (Speedup(10, 1.0), "n = 10: 2.00× slower (1.98–2.02×)", "no: the CPU wins"),
        (Speedup(39, 2.0), "n = 40: unclear: 1.30× (0.700–2.40×), too noisy", "– (no winner)"),
        (Speedup(80, 1.0), "n = 80: 1.00× (0.990–1.01×), equal within 2 %", "yes"),
        (Speedup(80, 3.0), "n = 80: 1.00× (0.990–1.01×), equal within 2 %", "no: equally fast"),
    ],
)
def test_speedups_agree_if_the_same_device_wins_within_a_factor_of_2_at_a_near_size(sweeps, published, text, agrees):
    sweeps("CC~=G")
    assert published.finding(HERE) == (text, agrees)


def test_a_gain_needs_winners_at_both_sizes(sweeps):
    sweeps("C~G")
    assert [Gain(*ends).finding(HERE).agrees for ends in ((10, 40), (40, 10), (10, 20))] == [
        "yes",
        "no",
        "– (no winner)",
    ]


def test_a_new_recording_keeps_what_the_page_says_of_a_run(monkeypatch, tmp_path):
    run = next(run for run in found.runs(found.DEMO) if run.name == "quick")
    exported, kept = tmp_path / "export.ndjson", tmp_path / "kept.ndjson.gz"
    exported.write_bytes(b"".join(ndjson([run])))
    monkeypatch.setattr(found, "SURVEYED", kept)
    found.main([str(exported)])
    assert kept.stat().st_size < exported.stat().st_size / 4
    before, after = (
        [(each.changes, [size.comparison for size in each.sizes]) for sweep in report(state).sweeps
         for each in (sweep.resident, sweep.with_copies)]
        for state in (run.state, found.runs.__wrapped__(found.SURVEY)[0].state)
    )  # fmt: skip
    assert before == after


def test_brackets_have_open_ends_where_one_device_wins_alone():
    assert found.bracket_of(planted("CC~").resident) == (20, math.inf)
    assert found.bracket_of(planted("~GG").resident) == (0, 20)
