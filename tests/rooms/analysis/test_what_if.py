"""Times of the GPU with other costs, derived from measured rounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpugpu_tui import model
from cpugpu_tui.analysis import costs
from cpugpu_tui.state.device_times import DeviceTimes

MEASURED = {
    model.LATENCY: {1: 10.0, 2: 12.0, 3: 11.0}, model.PAGEABLE: {1: 110.0, 2: 112.0},
    model.PINNED: {1: 60.0, 3: 61.0}, model.DEVICE_WARM: {2: 4.0},
}  # fmt: skip
BY_KEY = {what_if.key: what_if for what_if in costs.WHAT_IFS}


@pytest.mark.parametrize(
    ("key", "rounds"),
    [
        (costs.RESIDENT, {1: 10.0, 2: 12.0, 3: 11.0}), (costs.ONE_THREAD, {1: 10.0, 2: 12.0, 3: 11.0}),
        (costs.END_TO_END, {1: 110.0, 2: 112.0}), (costs.PINNED, {1: 60.0, 3: 61.0}), (costs.NO_LAUNCH, {2: 4.0}),
        (costs.TEN_CALLS, {1: 20.0, 2: 22.0}), (costs.HUNDRED_CALLS, {1: 11.0, 2: 13.0}),
    ],
)  # fmt: skip
def test_a_world_takes_the_rounds_it_needs(key, rounds):
    """With one copy for 10 calls, each takes its latency and a tenth of the copies: 10 + 100/10."""
    assert costs.gpu_rounds(BY_KEY[key], MEASURED) == pytest.approx(rounds)


def test_without_launch_the_kernels_are_as_warm_as_the_cpu():
    """Cold kernels of 8.69 us were compared with a warm CPU, beside warm ones of 4.25 us."""
    cold = {1: 8_000.0, 2: 10_000.0}
    samples = {model.DEVICE_WARM: (4_500.0,)}
    gpu = DeviceTimes("cuda:0", samples=samples, other_round_ns={model.DEVICE: cold})
    assert gpu.rounds_under(BY_KEY[costs.NO_LAUNCH], gpu.other_round_ns) == pytest.approx({1: 4_000.0, 2: 5_000.0})
    assert not DeviceTimes("cuda:0").rounds_under(BY_KEY[costs.NO_LAUNCH], {model.DEVICE: cold}), (
        "nothing is known of warm ones"
    )


def test_what_was_not_measured_has_no_rounds():
    assert not any(costs.gpu_rounds(what_if, {}) for what_if in costs.WHAT_IFS)


def test_moving_that_seemed_to_take_no_time_costs_nothing():
    """Noise can make a round with copies shorter than one without."""
    assert costs.gpu_rounds(BY_KEY[costs.TEN_CALLS], {model.LATENCY: {1: 10.0}, model.PAGEABLE: {1: 9.0}}) == {1: 10.0}


SERIES = st.dictionaries(st.integers(1, 12), st.floats(1.0, 1e9), max_size=12)


@given(SERIES, SERIES)
def test_the_more_calls_share_the_copies_the_nearer_to_none(latency, pageable):
    measured = {model.LATENCY: latency, model.PAGEABLE: pageable}
    ten, hundred = (costs.gpu_rounds(BY_KEY[key], measured) for key in (costs.TEN_CALLS, costs.HUNDRED_CALLS))
    assert set(ten) == set(hundred) == set(latency) & set(pageable)
    for index in ten:
        assert latency[index] <= hundred[index] <= ten[index]
        assert ten[index] <= max(latency[index], pageable[index]) * (1 + 1e-12)


def test_worlds_have_names_of_their_own_and_the_measured_one_comes_first():
    assert costs.WHAT_IFS[0].key == costs.RESIDENT
    for names in (list(BY_KEY), [w.label for w in costs.WHAT_IFS], [w.question for w in costs.WHAT_IFS]):
        assert all(names)
        assert len(set(names)) == len(costs.WHAT_IFS)
