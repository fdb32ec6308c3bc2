"""A search reports beside its answer that --max-seconds ended it; a search that finished does not."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
from tests.helpers.app.chart_runs import timed

from cpugpu_tui.api.timing import Result
from cpugpu_tui.cli.output.tables import state_text, summary
from cpugpu_tui.errors import UsageError
from cpugpu_tui.export.formats import rendered
from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.machine.procfs import hostname
from cpugpu_tui.model import Case, CaseFailed, CaseFinished, CasesChosen, Device, DevicesFound, RunFinished, RunStarted
from cpugpu_tui.render.answers import answer_lines
from cpugpu_tui.render.sentences import cut_short
from cpugpu_tui.session import resume
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.session.request import out_of_time
from cpugpu_tui.session.resume import unfinished
from cpugpu_tui.state.folding import folded

DEVICES = (Device("cpu", "Xeon"), Device("cuda:0", "H200"))  # no UUID that a resume would look for
LIMITED = PlanRequest(("matmul",), find_crossover=True, max_seconds=5.0)


def ended(request, **how):
    return folded(events_of(request, **how))


def events_of(request, *, skipped=0, chosen=(), status="done", took_s=4.5, idle_s=0):
    """A search over its coarse grid and these sizes, whose last `skipped` cases were not reached, resumed later."""
    plan = build_plan(request)
    further = tuple(Case("matmul", size, variant=plan.cases[0].variant) for size in chosen)
    started = RunStarted(run_id="r", series_id="s", plan=plan, environment={"hostname": hostname()}, number=1)
    events = [started, DevicesFound(devices=DEVICES), CasesChosen(cases=further)]
    cases = [*plan.cases, *further]
    for case in cases[: len(cases) - skipped]:
        events += [replace(event, wall_ns=idle_s * 10**9) for event in (*timed(case), CaseFinished(case=case.key))]
    for case in cases[len(cases) - skipped :]:
        events.append(CaseFailed(case=case.key, kind="skipped", message="Not reached within the time."))
    return (*events, RunFinished(status=status, wall_ns=int((idle_s + took_s) * 1e9)))


def test_a_bracket_that_time_left_wide_is_said_after_the_answer(words):
    state = ended(LIMITED)
    words(cut_short(state))
    lines = summary(state, None)
    assert lines.index(cut_short(state)) > lines.index(answer_lines(state)[0]) == 0


@pytest.mark.parametrize(("took_s", "idle_s", "goes_on"), [(4.5, 0, True), (3.0, 0, False), (3.0, 60, False)])
def test_a_search_that_time_cut_short_can_go_on(store, took_s, idle_s, goes_on, monkeypatch):
    """It was called complete, and offered no command, if all sizes that it had chosen were timed."""
    monkeypatch.setattr(resume, "is_found", lambda uuid: True)  # its GPU
    events = events_of(LIMITED, took_s=took_s, idle_s=idle_s)
    assert ("Resume: cpugpu-tui run --resume 1" in state_text(folded(events))) is goes_on
    store.import_run(events)
    with nullcontext() if goes_on else pytest.raises(UsageError):
        assert unfinished(store, "r").events[0].run_id == "r"
        assert unfinished(store, None).summary.number == 1, "the newest run, whose table offered it"


def test_sizes_that_were_not_reached_are_counted(words):
    cases = len(build_plan(LIMITED).cases)
    words([cut_short(ended(LIMITED, skipped=count)) for count in (cases, 2)])
    two = LIMITED._replace(names=("matmul", "sort"), sizes="100:1000")
    words(cut_short(ended(two, skipped=sum(case.workload == "sort" for case in build_plan(two).cases))))


def test_many_cases_that_were_not_reached_are_one_sentence_and_no_rows(words):
    """A sweep of 200 sizes that its limit of 8 s ended printed 190 rows, of two lines each, that say so."""
    request = PlanRequest(("matmul",), sizes="10:100:10", max_seconds=5.0)
    for status in ("done", "stopped"):
        words([line for line in state_text(ended(request, skipped=7, status=status)).splitlines() if "cases" in line])
        assert "skipped" not in state_text(ended(request, skipped=7, status=status))
    assert state_text(ended(request, skipped=3)).count("skipped") == 3
    assert "The rows show why" not in state_text(ended(request, skipped=9))
    offer = "Resume: cpugpu-tui run --resume 1 --max-seconds 10"  # with 5 s again, nothing more was timed
    offers = [offer in state_text(ended(request, skipped=count)) for count in (7, 1, 0)]
    assert offers == [True, True, False]


def test_a_run_without_a_result_names_one_limit_that_is_enough():
    """`allow 11 s` stood above `Resume: cpugpu-tui run --resume 1 --max-seconds 1.2`."""
    state = ended(PlanRequest(("matmul",), sizes="10:100:10", max_seconds=0.6), skipped=9)
    assert "allow 11 s" in out_of_time(state.plan, state.finished, state).remedy
    assert "--resume 1 --max-seconds 11" in state_text(state)


def test_files_and_notebooks_show_the_same_rows_and_starts_as_the_screen():
    """They printed a row for each skipped case beside the sentence for all, and Markdown no number of starts."""
    run = ExportedRun(events_of(PlanRequest(("matmul",), sizes="10:100:10", max_seconds=5.0, starts=1), skipped=7))
    files = [b"".join(rendered(name, [run])).decode() for name in ("markdown", "html")]
    for text in (*files, Result.of(run.state)._repr_html_()):
        assert "7 of 9 cases were not reached" in text
        assert "Not reached within" not in text
        assert "· 1 start" in text


def test_what_came_to_its_own_end_says_nothing():
    narrow = ended(LIMITED, chosen=(63, 66, 68, 209, 227))
    assert cut_short(narrow) == ""
    assert cut_short(ended(LIMITED, took_s=3.0)) == "", "it had time left"
    survey = PlanRequest(("survey",))
    assert [bool(cut_short(ended(survey, took_s=seconds))) for seconds in (4.5, 279.0)] == [False, True]
    assert cut_short(ended(PlanRequest(("matmul",), find_crossover=True))) == ""
    assert cut_short(ended(PlanRequest(("matmul",), sizes="50,100", max_seconds=5.0))) == ""
    assert cut_short(ended(LIMITED, status="stopped")) == "The search was stopped early.", "no row says it"
    assert cut_short(ended(LIMITED, status="stopped", skipped=1)) == "", "a row says it"
