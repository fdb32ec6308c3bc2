"""Duets: equal sides do not differ at any look, small changes are found, and shared drift does not count."""

from dataclasses import replace

import pytest
from tests.helpers.bench import planted

from cpugpu_tui.analysis.compare import (
    BANDS,
    LOOKS,
    MOST_PAIRS,
    PASSED,
    SLOWER,
    TOO_FEW,
    UNDECIDED,
    VISITS,
    gated,
    grouped,
    judge,
    judge_slowdowns,
)
from cpugpu_tui.analysis.pairs import Pair
from cpugpu_tui.model import DEVICE, LATENCY

TRIALS = 200


def test_the_looks_spend_one_level_together_and_end_after_40_visits():
    assert sum(LOOKS.values()) == pytest.approx(1.0)
    assert list(LOOKS) == sorted(LOOKS)
    assert VISITS * MOST_PAIRS == 40


def test_of_200_duets_of_equal_sides_at_most_1_percent_are_called_different_at_any_look():
    assert planted.false_duets(TRIALS) <= 0.01 * TRIALS


@pytest.mark.parametrize(
    ("metric", "factor", "size", "share"), [(LATENCY, 1.02, 2048, 0.9), (DEVICE, 1.01, 1024, 0.95)]
)
def test_a_duet_finds_a_small_change_and_its_interval_holds_it(metric, factor, size, share):
    words = planted.duet_words(TRIALS, metric, factor, size)
    assert sum(each.verdict == SLOWER for each in words) >= share * TRIALS
    changes = [each.change for each in words if each.change is not None]
    assert sum(low_of(each) <= factor <= high_of(each) for each in changes) >= 0.98 * TRIALS
    assert {each.base_runs for each in changes} <= set(LOOKS)


def low_of(found):
    return found.low or 0.0


def high_of(found):
    return found.high or 0.0


def duet(ratios, size=64, drift=1.0):
    """A case whose machine became slower with each pair of agents, for both sides."""
    base = {f"pair{number}": 1e5 * drift**number for number in range(len(ratios))}
    new = {key: ns * ratio for (key, ns), ratio in zip(base.items(), ratios, strict=True)}
    return Pair(f"matmul/default/{size}/float32/tall", "CPU", base, new, ("matmul", "default", "float32", 0), size)


STEADY = [1.0198, 1.0202, 1.0199, 1.0201, 1.02, 1.0197, 1.0203, 1.0199, 1.0201, 1.02]
UNCLEAR = [0.9, 1.1, 0.95, 1.06, 0.99, 1.02, 0.93, 1.1, 0.97, 1.0]


def test_drift_that_both_sides_share_does_not_count_in_a_duet():
    (found,) = judge([duet(STEADY, drift=1.2)])
    assert (found.verdict, found.change and found.change.base_runs) == (SLOWER, 5)
    together = duet(STEADY, drift=1.2)
    apart = replace(together, new_ns={f"new {key}": ns for key, ns in together.new_ns.items()})
    assert judge([apart])[0].verdict == UNDECIDED


def test_pairs_after_the_look_that_decided_change_neither_word_nor_number():
    (early,), (late,) = judge([duet(STEADY[:5])]), judge([duet([*STEADY[:5], *UNCLEAR[:5]])])
    assert early == late


def test_between_two_looks_the_earlier_one_counts():
    (found,) = judge([duet(UNCLEAR[:9])])
    assert (found.verdict, found.change.base_runs) == (UNDECIDED, 7)


def test_fewer_pairs_than_the_first_look_have_no_verdict_and_no_interval():
    (found,) = judge([duet(STEADY[:4])])
    assert found.verdict == TOO_FEW
    assert found.change.low is None


def test_a_decided_case_that_is_no_longer_timed_stays_in_its_group():
    cases = [duet(STEADY if size % 2 else STEADY[:5], size) for size in range(2, 62)]
    assert {each.verdict for each in judge(cases)} == {SLOWER}
    assert [len(each.pairs) for each in judge(cases)] == [len(group) for group in grouped(cases)]
    assert next([pair.size for pair in group] for group in grouped(cases)) == [2, 3, 4]


def test_a_gate_asks_at_the_looks_too():
    def outcome(ratios, limit):
        limits = dict.fromkeys(BANDS, limit)
        (found,) = gated(judge_slowdowns([duet(ratios)], limits), limits)
        return found.outcome

    assert outcome(STEADY, 0.05) == PASSED
    assert outcome(STEADY, 0.01) == SLOWER
    assert outcome(UNCLEAR, 0.03) == UNDECIDED
    assert outcome(STEADY[:3], 0.05) == TOO_FEW
