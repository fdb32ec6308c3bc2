"""The interval of one start from earlier starts of the same case in the history."""

from dataclasses import replace

import pytest
from tests.helpers.runs.recorder import QUICK, plan_of
from tests.helpers.runs.scripted import session_of, well

from cpugpu_tui.decide.starts import earlier_spread
from cpugpu_tui.decide.stats import median
from cpugpu_tui.decide.verdict import compare, start_logs
from cpugpu_tui.export.stream import case_results
from cpugpu_tui.model import NO_CORE, DeviceSampled, EarlierTimed, Event
from cpugpu_tui.render.answers import answer_lines
from cpugpu_tui.render.sentences import starts_sentence, starts_text
from cpugpu_tui.report.report import covers_starts
from cpugpu_tui.state.folding import folded, measured

VARIED = replace(QUICK, cpu_start=0.14, gpu_start=0.10)


def run(store, plan, seed):
    """Run a plan whose starts differ, and save it."""
    simulation = replace(plan.simulation or VARIED, drift_seed=seed)
    session, _ = session_of(replace(plan, simulation=simulation), *[well] * plan.starts, store=store)
    delivered: list[Event] = []
    assert session.run(delivered.append).status == "done"
    return delivered


def row_of(events):
    (row,) = folded(events).rows.values()
    return row


PLAN = plan_of(64, simulation=VARIED)


def test_one_start_has_the_interval_of_earlier_ones_and_shows_its_own(store):
    before = [row_of(run(store, replace(PLAN, starts=2), seed)) for seed in (1, 2)]
    events = run(store, PLAN, 3)
    row = row_of(events)
    found, gpu = row.own_comparison, row.gpu
    logs = [
        log
        for each in before
        if each.cpu is not None and each.gpu is not None
        for log in start_logs([(each.cpu.round_ns, each.gpu.round_ns)])
        + start_logs([(each.cpu.later[1]["latency"], each.gpu.later[1]["latency"])])
    ]
    expected = compare(row.cpu.round_ns, gpu.round_ns, row.others, (), earlier_spread(logs))
    assert (found.starts, found.degrees) == (1, 3)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=0.01)
    assert (found.within_low, found.within_high) == (expected.within_low, expected.within_high)
    assert found.high > 1.05 * found.within_high  # starts differ by more than rounds
    # So it is in the history, whatever becomes of the runs before.
    number = store.runs(limit=1)[0].number
    for earlier in store.runs(before=number):
        store.delete(earlier.run_id)
    assert row_of(store.load(store.find("latest"))).own_comparison == found
    (result,) = case_results(folded(events))
    assert (result.lead.starts, result.lead.covers_starts, result.lead.within_low) == (1, True, found.within_low)


def test_the_words_say_what_an_interval_is_about(store, words):
    for seed in (1, 2, 3, 4):
        state = folded(run(store, PLAN, seed))
        words("\n".join([answer_lines(state)[0], starts_sentence(state)]))
    state = folded(run(store, plan_of(64, 128, simulation=VARIED), 5))
    words(starts_sentence(state))
    words(starts_sentence(folded(run(store, replace(PLAN, starts=3), 6))))
    # A search times some sizes in its first start alone.
    events = run(store, replace(plan_of(64, 256, simulation=VARIED), starts=2), 7)
    mixed = folded(event for event in events if not (getattr(event, "start", 0) and "/256/" in str(event)))
    words(f"{starts_text(mixed)}\n{starts_sentence(mixed)}")


@pytest.mark.parametrize(
    "other",
    [
        {"cases": tuple(replace(case, threads=1) for case in PLAN.cases)},
        {"cases": tuple(replace(case, dtype="float64") for case in PLAN.cases)},
        {"cases": tuple(replace(case, size=65) for case in PLAN.cases)},
        {"cache": "warm"},
        {"simulation": replace(VARIED, launch_ns=VARIED.launch_ns * 2)},
        {"flush_denormals": False},
    ],
    ids=str,
)
def test_other_work_is_no_earlier_start(other, store):
    for seed in range(1, 4):
        run(store, replace(PLAN, **other), seed)
    events = run(store, PLAN, 9)
    assert not [event for event in events if isinstance(event, EarlierTimed)]
    assert not covers_starts(row_of(events))


def test_another_torch_is_no_earlier_start(store):
    for seed in range(1, 4):
        run(store, PLAN, seed)
    store._connection.execute('UPDATE environment SET facts = \'{"torch": "2.0"}\'')
    assert not covers_starts(row_of(run(store, PLAN, 9)))


def test_the_newest_twenty_starts_count(store):
    for seed in range(1, 7):
        run(store, replace(PLAN, starts=4), seed)
    earlier = [event for event in run(store, PLAN, 9) if isinstance(event, EarlierTimed)]
    assert [event.device for event in earlier] == ["cpu", "cuda:0"]
    assert {len(event.starts) for event in earlier} == {20}
    newest = row_of(store.load(store.runs()[1].run_id))
    assert earlier[0].starts[-1]["latency"] == median(list(newest.cpu.later[3]["latency"].values()))


def test_a_start_whose_threads_lacked_a_core_does_not_count(store):
    for seed in range(1, 4):
        run(store, PLAN, seed)
    store._connection.execute(
        "UPDATE measurement SET marks = ? WHERE device = 'cpu' AND case_result_id = 1", (f'["{NO_CORE}"]',)
    )
    (cpu, gpu) = (event for event in run(store, PLAN, 9) if isinstance(event, EarlierTimed))
    assert len(cpu.starts) == len(gpu.starts) == 2


def test_comparisons_know_nothing_of_it(store):
    for seed in range(1, 4):
        run(store, PLAN, seed)
    events = run(store, PLAN, 9)
    without = [event for event in events if not isinstance(event, EarlierTimed)]
    assert len(without) < len(events)
    mine, other = measured(events), measured(without)
    assert mine.cases == other.cases


def test_several_starts_are_moderated_by_earlier_ones(store):
    for seed in range(1, 4):
        run(store, PLAN, seed)
    found = row_of(run(store, replace(PLAN, starts=3), 9)).own_comparison
    assert (found.starts, found.degrees, found.within_low) == (3, 2 + 2, None)


def test_live_states_are_those_of_all_events(store):
    for seed in range(1, 4):
        run(store, PLAN, seed)
    events = run(store, PLAN, 9)
    assert folded(events).rows[PLAN.cases[0].key].own_comparison == row_of(events).own_comparison
    assert any(isinstance(event, DeviceSampled) for event in events)
