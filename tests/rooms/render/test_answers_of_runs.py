"""Answers of running, replayed and saved runs and of several sweeps, and the cost of computing them."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from tests.helpers.bench.large_run import fresh, large_run, samples_of, with_a_round_more
from tests.helpers.command_line import FAST
from tests.helpers.runs.recorder import QUICK, plan_of, state_of, swept
from tests.rooms.render.test_answers import ALL_WELL, CASES, run_of, timed

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import END_TO_END, WHAT_IFS
from cpugpu_tui.decide.verdict import compare
from cpugpu_tui.export.stream import case_results
from cpugpu_tui.render.answers import answer_lines, answers, as_data, condition_data, row_with_threads
from cpugpu_tui.render.columns import Key
from cpugpu_tui.render.rows import run_table
from cpugpu_tui.render.sentences import below_table, sentences, table_lines
from cpugpu_tui.report.report import judged
from cpugpu_tui.report.segments import FROM, TOO_FEW
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState
from cpugpu_tui.transport.agent_output import decode, encode

# ------------------------------------------------------------------ live, replayed, stored


def test_the_same_events_give_the_same_answers_however_they_came(cpugpu):
    """Live, from an event stream that was read again, and from the history."""
    plan = plan_of(16, 256, 2048, simulation=replace(QUICK, cpu_overhead_ns=50_000.0))
    recorder = swept(plan)[1]
    live = state_of(plan, recorder)
    replayed = RunState()
    for event in (model.RunStarted(run_id="r", series_id="s", plan=plan, environment={}),
        model.DevicesFound(devices=live.devices),
                  *recorder.events, model.RunFinished(status="done")):  # fmt: skip
        again = decode(encode(event))
        replayed = replayed.apply(again)
    assert answer_lines(replayed) == answer_lines(live)
    assert as_data(replayed) == as_data(live)

    done = cpugpu("run", "matmul", "--simulate", FAST, "--size", "16,64,256", "--threads", "1,2", "--json")
    stored = cpugpu.here("show", "latest", "--json")
    told = [next(found for found in outcome.objects if found["event"] == "Answer") for outcome in (done, stored)]
    assert told[0] == told[1]
    assert len(told[0]["sweeps"]) == 1
    assert told[0]["sweeps"][0]["sentences"]
    of_events = [folded(outcome.events) for outcome in (done, stored)]
    assert answer_lines(of_events[0]) == answer_lines(of_events[1])
    assert json.loads(json.dumps(as_data(of_events[0]))) == told[0]["sweeps"]


def test_as_data_every_number_of_a_crossover_is_there_but_not_its_points():
    (data,) = as_data(run_of(CASES, *ALL_WELL))
    assert set(data) == {"sweep", "gpu", "threads", "not_compared", "sentences", "crossover", "what_if"}
    assert data["not_compared"] == []
    found = data["crossover"]
    assert (found["kind"], found["low"], found["high"], found["changes"]) == ("crossover", 64, 256, 1)
    assert 64 < found["point"] < 256
    assert "points" not in found
    (answer,) = answers(run_of(CASES, *ALL_WELL))
    assert data["what_if"] == {key: condition_data(found) for key, found in answer.report.conditions.items()}


def rounds_of(case, cpu_ns, gpu_ns, rounds):
    """The events of a case whose call is so long that it has few rounds."""
    events = timed(case, cpu_ns, gpu_ns)
    return [event for event in events if not isinstance(event, model.DeviceSampled) or event.round_index <= rounds]


def test_as_data_the_span_that_was_judged_is_there_and_why_the_rest_was_not():
    huge, failing = model.Case("matmul", 1024), model.Case("matmul", 4096)
    oom = model.CaseFailed(case=failing.key, kind="oom", message="Full.", device="cuda:0")
    events = [*ALL_WELL, *rounds_of(huge, 3e9, 1e8, 2), *timed(failing, 1e10, None, end=oom)]
    run = run_of((*CASES, huge, failing), *events)
    (data,) = as_data(run)
    assert data["crossover"]["judged"] == {
        "smallest": 16, "largest": 256, "not_judged": [{"size": 1024, "reason": "only 2 rounds", "code": TOO_FEW}],
    }  # fmt: skip
    assert data["not_compared"] == [{"size": 4096, "reason": "oom"}]
    assert (data["crossover"]["low"], data["crossover"]["high"]) == (64, 256)
    assert "30.0× faster in 2 rounds, too few to judge" in data["sentences"][0]


@pytest.mark.parametrize(("gpu_ns", "reason"), [(2.5e9, "only 2 rounds and under 1.5×"), (1e8, "only 2 rounds")])
def test_few_rounds_say_whether_the_ratio_is_too_small_for_them(gpu_ns, reason):
    """Five rounds named a winner in one row and six named none in another, without a word why."""
    huge = model.Case("matmul", 1024)
    run = run_of((*CASES, huge), *ALL_WELL, *rounds_of(huge, 3e9, gpu_ns, 2))
    (data,) = as_data(run)
    assert [each["reason"] for each in data["crossover"]["judged"]["not_judged"]] == [reason]
    remedy = "1 of 4 timed rows had too few rounds to judge. --rounds 6 gives each row 6, however long its calls take."
    stopped, done = (run.apply(model.RunFinished(status=status)) for status in ("stopped", "done"))
    told = [remedy in below_table(each, has_answers=False, in_full=False) for each in (run, stopped, done)]
    assert told == [False, False, True]
    duet = replace(done, run=replace(done.run, environment={**done.run.environment, model.DUET: "a.1"}))
    assert [remedy in sentences(each) for each in (done, duet)] == [True, False], "a duet refuses --rounds"


def test_the_quotient_of_the_times_that_are_shown_is_the_speedup_that_is_shown():
    """On the screen and in exports, with and without copies, even with much noise."""
    plan = plan_of(16, 64, 256, simulation=replace(QUICK, noise=0.2, cpu_drift=0.1), metrics=model.METRICS)
    run = state_of(plan, swept(plan)[1])
    for row, result in zip(run.rows.values(), case_results(run), strict=True):
        cpu, gpu = row.cpu.latency_ns, row.gpu.latency_ns
        moved, moved_ns = judged(run, row, END_TO_END).comparison, row.gpu.median_ns(model.PAGEABLE)
        assert cpu
        assert gpu
        assert moved_ns
        assert row.own_comparison.speedup == pytest.approx(cpu / gpu)
        assert moved.speedup == pytest.approx(cpu / moved_ns)
        exported = [result.devices[name].metrics["latency"].median_ns for name in ("cpu", "cuda:0")]
        assert result.lead.speedup == pytest.approx(exported[0] / exported[1])


# ------------------------------------------------------------------ several sweeps


def two_sweeps(*, moved=True):
    """A matrix product that the GPU wins from about 82, and one in half precision that it never wins."""
    half = tuple(replace(case, dtype="float16") for case in CASES)
    other: dict[str, float] = {model.PAGEABLE: 5e4} if moved else {}
    events = [
        event
        for cases, cpu in ((CASES, (1e3, 1e4, 1e6)), (half, (1e3, 1e3, 1e3)))
        for case, cpu_ns in zip(cases, cpu, strict=True)
        for event in timed(case, cpu_ns, 2e4, gpu=other)
    ]
    return run_of((*CASES, *half), *events, model.RunFinished(status="done"))


def test_several_sweeps_are_a_table(words):
    words(table_lines(two_sweeps(), 120))


def test_a_speedup_that_holds_for_one_of_several_starts_says_so(monkeypatch):
    """Only the rows above had brackets for it: `32.0× ± 1.2 %` stood for all starts."""
    for starts in (1, 2):
        monkeypatch.setattr(RunState, "starts", starts)  # each of these rows has one
        assert ("in one start" in table_lines(two_sweeps(), 200)[1]) is (starts == 2)


@pytest.mark.parametrize("width", [40, 60, 78, 100])
def test_a_table_of_answers_fits_the_terminal_and_keeps_the_answer(width):
    head, *rows = table_lines(two_sweeps(), width)
    assert all(len(line) <= width for line in (head, *rows))
    assert "GPU wins" in head
    assert ("≈ 79" in rows[0], "at no size" in rows[1]) == (True, True)
    assert ("speedup" in head, "% at 256" in rows[0]) in {(True, True), (False, False)}, "nothing is cut"


def test_a_range_that_does_not_fit_a_narrow_terminal_is_left_out_as_a_whole():
    half = [replace(case, dtype="float64") for case in CASES]
    events = [event for case in (*CASES, *half) for event in timed(case, 1e9, 1e3)]
    run = run_of((*CASES, *half), *events, model.RunFinished(status="done"))
    wide, narrow = table_lines(run, 60)[1], table_lines(run, len("matmul float32  at every size timed") + 2)[1]
    assert narrow
    assert wide.startswith(narrow)
    assert "(" in wide
    assert "(" not in narrow


# ------------------------------------------------------------------ cost


MOST_COMPARISONS = len(WHAT_IFS) - 1
"""Comparisons of a row: as measured, and for each `WhatIf`."""


@pytest.fixture
def compared(monkeypatch):
    """Counts the comparisons of two devices."""
    calls: Counter[str] = Counter()

    def counted(*rounds):
        calls["compare"] += 1
        return compare(*rounds)

    monkeypatch.setattr("cpugpu_tui.state.device_times.compare", counted)
    return calls


def test_20_000_samples_are_compared_a_few_times_a_row_and_a_second_look_costs_none(compared):
    run = fresh(large_run())
    assert samples_of(run) >= 20_000
    first = answers(run)
    assert first[0].report.resident.kind == FROM
    assert all(each.sentences for each in first)
    assert compared["compare"] <= MOST_COMPARISONS * len(run.rows)
    compared.clear()
    assert [each.sentences for each in answers(run)] == [each.sentences for each in first]
    assert not compared


def test_one_more_round_compares_one_row_again(compared):
    run = fresh(large_run())
    answers(run)
    compared.clear()
    answers(with_a_round_more(run))
    assert 0 < compared["compare"] <= MOST_COMPARISONS


def test_a_sweep_beside_another_costs_no_look_at_all_rows_for_each(monkeypatch):
    """1,000 sizes on one and on all threads: a search among all rows would look at 2,000 for each."""
    cases = tuple(model.Case("matmul", size, threads=count) for count in (1, 4) for size in range(1, 1001))
    run = run_of(cases)
    looks: Counter[str] = Counter()
    monkeypatch.setattr("cpugpu_tui.render.answers._is_usable", lambda row: looks.update(rows=1) or row is not None)
    for row in run.rows.values():
        row_with_threads(run, row, 1)
    assert looks["rows"] <= len(run.rows)


PAGE_FAULTS = "page-faults"


def test_the_sentence_of_a_mark_that_most_rows_have_says_that_they_do_not_repeat_it():
    """`unsettled start in 126 of 200 timed rows` stood below a table in which no row showed it."""
    run = state_of(plan := plan_of(16, 64, 256, 1024, simulation=replace(QUICK, starved_share=0.0)), swept(plan)[1])
    some, most = (replace(run, rows={
        key: replace(row, times={name: replace(times, marks=() if index >= count else (PAGE_FAULTS,))
                                 for name, times in row.times.items()})
        for index, (key, row) in enumerate(run.rows.items())
    }) for count in (1, 3))  # fmt: skip
    for state, repeated, count in ((some, "", 1), (most, ", which do not repeat it", 3)):
        (line,) = (
            each for each in below_table(state, has_answers=False, in_full=False) if each.startswith(PAGE_FAULTS)
        )
        assert line.startswith(f"{PAGE_FAULTS} in {count} of 4 timed rows{repeated}: ")
        shown = [line[Key.REMARKS] for line in run_table(state).lines if PAGE_FAULTS in line[Key.REMARKS]]
        assert len(shown) == (0 if repeated else count)
