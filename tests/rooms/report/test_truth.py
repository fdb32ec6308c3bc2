"""What reports of drawn machines say is true, and more rounds never take a part of an answer in silence."""

from dataclasses import replace

from tests.helpers.runs.drawn_machines import CONDITIONS, KINDS, SPOKEN, drawn, judged
from tests.helpers.runs.recorder import QUICK, plan_of, state_events, state_of, swept

from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.demo.recording import shipped
from cpugpu_tui.model import DeviceSampled
from cpugpu_tui.render.answer_sentences import survey_sentences
from cpugpu_tui.render.crossover_words import where, who_wins
from cpugpu_tui.report.report import decomposition_of, report
from cpugpu_tui.report.segments import CONTRADICTED, NO_CORE, NOT_DECIDED, UP_TO, WITHIN
from cpugpu_tui.state.state import RunState


def test_always_never_and_from_are_right_under_every_condition():
    counts, wrong = judged(range(len(KINDS), 2 * len(KINDS)))
    assert {key for key, kind in counts if kind in SPOKEN} == set(CONDITIONS), "each condition has statements"
    assert not wrong
    left_open = sum(count for (_, kind), count in counts.items() if kind in (NOT_DECIDED, UP_TO, WITHIN))
    assert left_open <= 0.4 * counts.total(), "of 420 machines 22 % are left open"


def test_with_more_rounds_an_answer_grows_or_names_the_sizes_that_it_takes_back():
    """While a run went on, `the CPU wins up to 500` became `up to 228` without a reason.

    A bracket names the sizes inside it.
    """
    taken_back = contradicted = 0
    searches = [state_events(plan, recorder) for _, plan, _, recorder in map(drawn, range(len(KINDS)))]
    for number, events in enumerate((*searches, shipped().runs[0].events)):  # the last was recorded on an H200
        state, winners = RunState(), dict[tuple[str, int], str]()
        for event in events:
            state = state.apply(event)
            if not isinstance(event, DeviceSampled):
                continue
            for found in (each.under(key) for each in report(state).sweeps for key in (RESIDENT, END_TO_END)):
                named = {size.size for size in found.outside}
                named |= {size.size for size in found.timed
                          if any(change.low < size.size < change.high for change in found.changes)}  # fmt: skip
                for size in found.timed:
                    before = winners.get((found.key, size.size))
                    if size.winner is None and before is not None:
                        taken_back += 1
                        contradicted += size.reason == CONTRADICTED
                        assert size.size in named, (number, who_wins(found, "n"), size)
                    else:
                        assert size.winner == before or before is None, (number, who_wins(found, "n"), size)
                    if size.winner is not None:
                        winners[found.key, size.size] = size.winner
    assert 0 < contradicted < taken_back


def test_a_row_without_a_result_has_a_reason_and_no_winner():
    """If its results differ, the parts of a call are not told either."""
    plan = plan_of(32, 64, 128, simulation=replace(QUICK, starved_share=0.4, starved_size=64, mismatch_size=128))
    state = state_of(plan, swept(plan)[1])
    (found,) = report(state).sweeps
    assert [(size.reason, size.winner) for size in found.resident.sizes[1:]] == [(NO_CORE, None), ("mismatch", None)]
    assert where(found.resident) == "at 32, the only size timed with free cores"
    told = who_wins(found.resident, "n")
    assert told.startswith("the GPU wins at 32, the only size timed with free cores; no winner at 64 (no core)")
    assert survey_sentences([("matmul", found)])[0].endswith(": matmul (where cores were free).")
    well = found.rows[0]
    assert decomposition_of(well, moved=False)
    assert decomposition_of(replace(well, status="mismatch"), moved=False) is None


def test_one_thread_is_no_condition_of_a_sweep_that_has_only_one():
    plan = plan_of(32, simulation=QUICK)
    plan = replace(plan, cases=tuple(replace(case, threads=1) for case in plan.cases))
    (found,) = report(state_of(plan, swept(plan)[1])).sweeps
    assert found.one_thread == ()
