"""The gate: what passes, what fails, and what stays undecided."""

from tests.helpers.runs.noisy_series import BASE, gate, pair

from cpugpu_tui.analysis.compare import FAILED, NOT_JUDGED, PASSED, SLOWER, TOO_FEW, UNDECIDED, verdict


def outcomes(pairs, limit=0.05):
    return [each.outcome for each in gate(pairs, limit)]


def test_it_passes_what_is_slower_by_less_than_the_limit_and_what_is_faster():
    pairs = [pair(BASE, [1.02 * ns for ns in BASE]), pair(BASE, [0.5 * ns for ns in BASE], 128)]
    assert outcomes(pairs) == [PASSED, PASSED]
    assert verdict(gate(pairs, 0.05)) == PASSED
    assert outcomes(pairs, 0.01) == [UNDECIDED, PASSED]
    assert outcomes(pairs, 0.0) == [SLOWER, PASSED]


def test_what_may_be_slower_is_undecided_and_undecided_is_no_pass():
    pairs = [pair(BASE, BASE), pair(BASE, (100.0, 112.0, 95.0, 108.0, 99.0), 128)]
    assert outcomes(pairs) == [PASSED, UNDECIDED]
    assert verdict(gate(pairs, 0.05)) == UNDECIDED


def test_four_runs_are_too_few_for_it_though_enough_for_a_word():
    assert outcomes([pair(BASE[:4], BASE[:4])]) == [TOO_FEW]
    assert verdict(gate([pair(BASE[:4], BASE[:4])], 0.05)) == UNDECIDED


def test_a_case_that_fails_now_is_no_pass_and_one_that_was_not_asked_for_is_not_judged():
    failed = pair(BASE, (), trouble="mismatch in the new series", is_lost=True)
    left_out = pair(BASE, (), 128, trouble="not in the new series")
    assert outcomes([failed, left_out, pair(BASE, BASE, 256)]) == [FAILED, NOT_JUDGED, PASSED]
    assert verdict(gate([failed, pair(BASE, BASE)], 0.05)) == FAILED
    assert verdict(gate([left_out, pair(BASE, BASE)], 0.05)) == PASSED
    assert verdict(gate([left_out], 0.05)) == UNDECIDED
    assert verdict([]) == UNDECIDED


def test_a_case_that_the_new_series_did_not_reach_is_undecided_and_no_pass():
    why = "skipped in the new series"
    found = gate([pair(BASE, (), 128, trouble=why, is_unreached=True), pair(BASE, BASE)], 0.05)
    assert [(each.outcome, each.why) for each in found] == [(UNDECIDED, why), (PASSED, "")]
    assert verdict(found) == UNDECIDED


def test_slower_is_said_before_anything_else():
    slow = pair(BASE, [1.5 * ns for ns in BASE])
    failed = pair(BASE, (), 128, trouble="error", is_lost=True)
    assert verdict(gate([failed, slow, pair(BASE[:2], BASE, 7)], 0.05)) == SLOWER


def test_a_group_hides_no_case_that_is_slower():
    pairs = [pair(BASE, [ns * (1.06 if size == 13 else 1.0) for ns in BASE], size) for size in range(100)]
    (bad,) = [each for each in gate(pairs, 0.05) if each.outcome != PASSED]
    assert bad.outcome == UNDECIDED
    assert "+6.0 %" in bad.why


def test_sizes_that_a_search_found_now_and_then_are_left_alone():
    assert outcomes([pair(BASE[:1], BASE, is_chosen=True), pair(BASE, BASE, 128)]) == [NOT_JUDGED, PASSED]
