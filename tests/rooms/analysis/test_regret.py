"""Which sizes verify a threshold, and when its choices cost too much."""

import pytest

from cpugpu_tui.analysis.regret import Choice, Regret, answered, held_out
from cpugpu_tui.thresholds import Threshold


def threshold(timed, faster=(), equal=()):
    return Threshold("matmul", "default", "float32", 0, True, True, "n", timed, faster, equal)


def test_the_middle_of_each_answered_gap_is_verified_and_weighs_as_much_as_the_gap():
    found = held_out(
        threshold((16, 32, 80, 162, 177, 400, 1000), (("cpu", 16, 80), ("cuda", 177, 400)), ((400, 1000),))
    )
    assert list(found) == [23, 51, 266, 632]  # not between 80 and 162, which nobody decided, nor 162 and 177
    assert found[23] == pytest.approx(0.693, abs=0.001)  # ln(2)


@pytest.mark.parametrize("timed", [(5,), (1, 2), (100, 109)])
def test_a_range_without_other_sizes_has_none_to_verify(timed):
    each = threshold(timed, (("cpu", timed[0], timed[-1]),))
    assert held_out(each) == {}
    assert answered(each) == 1


def test_what_no_part_holds_is_not_answered_and_what_either_device_does_is():
    timed = (10, 20, 50, 500, 1000)
    assert answered(threshold(timed, (("cpu", 10, 20), ("cuda", 500, 1000)))) == pytest.approx(0.30, abs=0.01)
    assert answered(threshold(timed, (("cpu", 10, 20), ("cuda", 500, 1000)), ((20, 500),))) == pytest.approx(1)
    assert answered(threshold(timed, (("cpu", 10, 20),))) == pytest.approx(0.15, abs=0.01)


@pytest.mark.parametrize(("first", "last"), [(16, 2048), (150, 200), (162, 177)])
def test_a_bracket_that_no_search_narrows_further_does_not_count(first, last):
    """It took 31 % of the range 150 to 200, so `verify` failed a file without fault."""
    timed = tuple(sorted({first, 162, 177, last}))
    assert answered(threshold(timed, (("cpu", first, 162), ("cuda", 177, last)))) == 1


@pytest.mark.parametrize(
    ("device", "ratio", "regret"),
    [("cpu", 0.5, 0.0), ("cpu", 1.2, 0.2), ("cuda", 2.0, 0.0), ("cuda", 0.8, 0.25), ("", 1.1, 0.1), ("", 0.8, 0.25)],
)
def test_the_regret_is_what_the_other_device_would_have_saved(device, ratio, regret):
    assert Choice(1, device, ratio, ratio, ratio, 1.0).regret == pytest.approx(regret)


def test_a_threshold_fails_only_if_its_regret_is_sure_and_wide_gaps_weigh_more():
    right, wrong = Choice(1, "cuda", 2.0, 1.9, 2.1, 1.0), Choice(2, "cpu", 1.2, 1.15, 1.25, 3.0)
    unsure = wrong._replace(low=0.9)
    assert Regret((right, wrong), 1.0).mean == pytest.approx(0.15)
    assert Regret((right, wrong), 1.0).worst == wrong
    assert Regret((right, wrong), 1.0).is_failed  # at least 0.1125
    assert not Regret((right, unsure), 1.0).is_failed
    assert not Regret((), 1.0).is_failed
