"""Slow GPUs among others of their model: planted ones are found, and noise raises no alarm."""

import math
import random

import pytest

from cpugpu_tui.analysis.slow_gpus import overall, standings

H200 = "NVIDIA H200"


def group(*times_ns, model=H200):
    """Return GPUs of one model with these times."""
    names = [f"cuda:{index}" for index in range(len(times_ns))]
    return dict(zip(names, times_ns, strict=True)), dict.fromkeys(names, model)


def slow(times_ns, models):
    return [name for name, standing in standings(times_ns, models).items() if standing.is_slow]


@pytest.mark.parametrize("count", [3, 4, 8])
@pytest.mark.parametrize("factor", [1.07, 1.2, 3.0])
def test_the_one_planted_slow_gpu_is_found_and_by_how_much(count, factor):
    times_ns, models = group(*(1000.0 + index for index in range(count)))
    times_ns["cuda:1"] *= factor
    assert slow(times_ns, models) == ["cuda:1"]
    standing = standings(times_ns, models)["cuda:1"]
    assert standing.ratio == pytest.approx(factor, rel=0.01)
    assert standing.z > 3.5
    assert standing.alike == count


def test_within_five_per_cent_nobody_is_slow_however_far_out():
    times_ns, models = group(1000.0, 1000.0, 1000.0, 1000.0, 1049.0)
    standing = standings(times_ns, models)["cuda:4"]
    assert (standing.z, standing.is_slow) == (math.inf, False)


def test_beyond_five_per_cent_among_gpus_that_scatter_nobody_is_an_outlier():
    times_ns, models = group(1000.0, 1100.0, 1200.0, 1300.0, 1400.0)
    standing = standings(times_ns, models)["cuda:4"]
    assert standing.ratio > 1.05
    assert not standing.is_slow


def test_a_fast_gpu_is_not_slow():
    assert slow(*group(1000.0, 1000.0, 1000.0, 500.0)) == []


def test_of_two_alike_the_five_per_cent_rule_decides_alone():
    times_ns, models = group(1000.0, 1200.0)
    found = standings(times_ns, models)
    assert [standing.z for standing in found.values()] == [None, None]
    assert [standing.is_slow for standing in found.values()] == [False, True]
    assert slow(*group(1000.0, 1040.0)) == []


def test_gpus_of_different_models_are_not_compared():
    times_ns, models = group(1000.0, 1001.0, 1002.0, 2000.0, 2001.0, 2700.0)
    models |= dict.fromkeys(("cuda:3", "cuda:4", "cuda:5"), "NVIDIA L4")
    assert slow(times_ns, models) == ["cuda:5"]


def test_one_alone_of_its_model_has_no_standing():
    times_ns, models = group(1000.0, 1001.0, 5000.0)
    models["cuda:2"] = "NVIDIA L4"
    assert set(standings(times_ns, models)) == {"cuda:0", "cuda:1"}
    assert standings({"cuda:2": 5000.0}, models) == {}


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("noise", [0.005, 0.02])
def test_noise_is_no_slow_gpu(count, noise):
    """2000 cases of equal GPUs; each time is the median of 40 blocks with this noise."""
    rng = random.Random(f"{count}/{noise}")
    alarms = 0
    for _ in range(2000):
        times_ns, models = group(*(1000.0 * math.exp(rng.gauss(0.0, noise / math.sqrt(40 * 2 / math.pi)))
                                   for _ in range(count)))  # fmt: skip
        alarms += len(slow(times_ns, models))
    assert alarms == 0


def test_over_many_cases_a_single_disturbed_one_slows_nobody():
    quiet, models = group(1000.0, 1001.0, 1002.0, 1003.0)
    disturbed = {**quiet, "cuda:2": 2000.0}
    assert [each.is_slow for each in overall([quiet, disturbed, quiet], models).values()] == [False] * 4
    lasting = {**quiet, "cuda:2": 1100.0}
    assert [n for n, each in overall([lasting, disturbed, lasting], models).items() if each.is_slow] == ["cuda:2"]


def test_a_case_that_lacks_a_gpu_counts_for_the_others():
    quiet, models = group(1000.0, 1001.0, 1002.0)
    without = {name: ns for name, ns in quiet.items() if name != "cuda:0"}
    assert set(overall([quiet, without], models)) == {"cuda:0", "cuda:1", "cuda:2"}
    assert overall([], models) == {}
