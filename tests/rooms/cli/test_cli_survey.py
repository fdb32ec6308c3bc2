"""`cpugpu-tui survey`: one line for each workload, sorted, in every face; stopped surveys go on."""

import re
import sqlite3
from contextlib import closing

import pytest
from tests.helpers.command_line import FAST, CommandLine

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK, EXIT_USAGE
from cpugpu_tui.model import RunStarted
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.workloads.presets import MORE, SURVEY_ALL, SURVEYED

SOME = "matmul,svd,fft,sort"
BAR = re.compile("[░▓█?·]{20,}")


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A history whose only run is a survey of four workloads; read-only."""
    command = CommandLine(tmp_path_factory.mktemp("survey") / "history.db")
    assert command("survey", "--only", SOME, "--simulate", "drift=0").code == EXIT_OK
    return command


def rows_of(out):
    """Return the bar of each workload, in the order of the table."""
    return {line.split()[0]: bar[0] for line in out.splitlines()[2:] if (bar := BAR.search(line))}


def test_it_prints_a_bar_for_each_workload_the_one_in_which_the_gpu_wins_first_on_top(history):
    out = history("show", "1").out
    bars = rows_of(out)
    assert set(bars) == set(SOME.split(","))
    starts = [re.search("[▓█]", bar) for bar in bars.values()]
    places = [found.start() for found in starts if found is not None]
    assert (len(places), places) == (len(bars), sorted(places))
    assert "█" in bars["matmul"]  # with copies too
    assert "█" not in bars["sort"]
    # The sentences are last; no row of a case is printed.
    assert re.search(r"^On this GPU, faster from a size on: .*matmul \(≈ ", out, re.MULTILINE)
    assert re.search("^Including copies, .*not faster at any size timed: .*sort", out, re.MULTILINE)
    assert not re.search("^ *matmul 16 ", out, re.MULTILINE)
    assert f"survey --only {SOME}" in out


def test_json_holds_the_sentences_and_what_they_rest_on(history):
    (answer,) = (each for each in history("show", "1", "--json").objects if each["event"] == "Answer")
    (survey,) = answer["survey"]
    assert (survey["gpu"], set(survey["resident"]["depends on size"])) == ("cuda:0", set(SOME.split(",")))
    assert survey["with_copies"]["depends on size"] == ["matmul"]
    assert "sort" in survey["with_copies"]["never"]
    printed = history("show", "1").out
    assert len(survey["sentences"]) == 2
    assert all(sentence in printed for sentence in survey["sentences"])


@pytest.mark.usefixtures("agents_here")
def test_a_survey_of_two_models_has_sentences_for_each(cpugpu, tmp_path):
    simulate = ("--simulate", f"{FAST},gpus=2,other_gpus=1")
    done = cpugpu("survey", "--only", "fft,sort", "--device", "cpu", "--device", "cuda", *simulate, code=EXIT_OK)
    for gpu in ("cuda:0", "cuda:1"):
        assert len(re.findall(rf"^{gpu}: .*\.$", done.out, re.MULTILINE)) == 2
        assert re.search(rf"^fft on {gpu} ", done.out, re.MULTILINE)
    (answer,) = (each for each in cpugpu("show", "1", "--json").objects if each["event"] == "Answer")
    assert [survey["gpu"] for survey in answer["survey"]] == ["cuda:0", "cuda:1"]
    assert [set(survey["resident"]["depends on size"]) for survey in answer["survey"]] == [{"fft", "sort"}] * 2
    pytest.importorskip("matplotlib")
    assert cpugpu("export", "1", "--out", tmp_path / "x.html").code == EXIT_OK
    html = (tmp_path / "x.html").read_text()
    assert ">cuda:0 wins from ≈ " in html  # the bracket on the curves
    assert not re.search(">GPU wins (from|up to) ", html)
    assert re.search("<li>cuda:0: The GPU wins from .*<li>cuda:1: The GPU wins from ", html, re.DOTALL)


def test_a_size_that_does_not_fit_is_a_row_with_need_and_free(cpugpu):
    done = cpugpu("survey", "--only", "fft,sort", "--simulate", f"{FAST},oom_size=100", code=EXIT_CASES_FAILED)
    assert re.search(r"fft 100 .*Needs \d.*free", done.out)
    assert re.search(r"sort 100 .*Needs \d.*free", done.out)
    assert not re.search(r"fft 1 ", done.out)
    assert len(rows_of(done.out)) == 2


@pytest.mark.usefixtures("agents_here")
def test_equal_devices_have_no_winner_in_any_face(cpugpu, tmp_path):
    pytest.importorskip("matplotlib")
    equal = "cpu_overhead_ns=200000,launch_ns=200000,sync_ns=0,kernel_overhead_ns=0,gpu_bytes_per_ns=20,drift=0"
    done = cpugpu("survey", "--only", "fft,sort", "--simulate", equal, "--export", tmp_path / "x.html", code=EXIT_OK)
    assert {*"".join(rows_of(done.out).values())} <= {"?", "·"}
    assert not re.search("(GPU|copies), faster", done.out)
    open_words = "(equal at every size timed|unclear)"
    assert len(re.findall(f"^(?:fft|sort) .*{open_words}", done.out, re.MULTILINE)) == 2
    assert len(re.findall(rf">(?:4,096|4M) · {open_words}<", (tmp_path / "x.html").read_text())) == 2


def test_a_stopped_survey_goes_on(history, cpugpu):
    """A newer unfinished run of another preset is left alone."""
    cpugpu.take_over(history)
    assert cpugpu("run", "matmul", "--size", "16,32", "--simulate", FAST).code == EXIT_OK
    with closing(sqlite3.connect(cpugpu.database)) as other, other:
        other.execute("PRAGMA foreign_keys = ON")
        other.execute("DELETE FROM case_result WHERE case_key LIKE 'sort/%' OR case_key LIKE 'matmul/default/32/%'")
        other.execute("UPDATE run SET status = 'interrupted', finished = NULL, finished_wall_ns = NULL")
    done = cpugpu("survey", "--resume", code=EXIT_OK)
    assert set(rows_of(done.out)) == set(SOME.split(","))
    with cpugpu.store() as store:
        assert [run.status for run in store.runs()] == ["interrupted", "done"]
    for words in (("--resume",), ("--resume", "--only", "fft")):
        assert cpugpu("survey", *words).code == EXIT_USAGE


def test_all_adds_the_second_set_and_only_names_either(cpugpu):
    small = ("--simulate", "default", "--no-save", "--json")
    named = cpugpu("survey", "--only", "topk,fft", *small, code=EXIT_OK)
    plan = next(event.plan for event in named.events if isinstance(event, RunStarted))
    assert (plan.name, {case.workload for case in plan.cases}) == (SURVEY_ALL, {"topk", "fft"})
    both = build_plan(PlanRequest((SURVEY_ALL,)))
    assert {case.workload for case in both.cases} == {part.workload for part in (*SURVEYED, *MORE)}
    assert both.search.limit_s == 460
    half = build_plan(PlanRequest((SURVEY_ALL,), dtype="half"))
    assert {"topk", "cnn"} <= {case.workload for case in half.cases}
    assert "lstm" not in {case.workload for case in half.cases}
