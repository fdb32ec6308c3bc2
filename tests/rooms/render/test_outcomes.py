"""The result of a saved run in a few words: who wins, and the change against the run before."""

import pytest
from tests.helpers.app.saved_runs import stream

from cpugpu_tui.render.outcomes import MOST_CASES, Outcome, affordable, outcome_of


def times(cases, rounds=8):
    """The same time in every round, by size and device."""
    return {
        f"matmul/default/{size}/float32/t1": {
            device: {0: dict.fromkeys(range(1, rounds + 1), ns)} for device, ns in devices.items()
        }
        for size, devices in cases.items()
    }


@pytest.mark.parametrize(
    ("cases", "answer"),
    [
        ({64: {"cpu": 1e6, "cuda:0": 2e6}, 128: {"cpu": 4e6, "cuda:0": 2e6}}, "GPU from"),
        ({64: {"cpu": 1e6, "cuda:0": 5e5}, 128: {"cpu": 4e6, "cuda:0": 1e6}}, "GPU 4.00× at 128"),
        ({64: {"cpu": 1e6, "cuda:0": 2e6}, 128: {"cpu": 1e6, "cuda:0": 4e6}}, "CPU 4.00× at 128"),
        ({64: {"cpu": 1e6}, 128: {"cpu": 4.1e6}}, "CPU 4.10 ms at 128"),
        ({64: {"cuda:1": 1e6}}, "GPU 1.00 ms at 64"),
        ({}, ""),
    ],
)
def test_the_answer_is_told_in_a_few_words(cases, answer):
    assert outcome_of(times(cases)).answer.startswith(answer)


def test_the_answer_of_several_workloads_counts_those_in_which_the_gpu_wins_somewhere():
    rises, never = {"cpu": 1e6, "cuda:0": 2e6}, {"cpu": 1e6, "cuda:0": 4e6}
    first = times({64: rises, 128: {"cpu": 4e6, "cuda:0": 2e6}})
    others = {key.replace("matmul", "sort"): value for key, value in times({64: never, 128: never}).items()}
    alone = {key.replace("matmul", "fft"): value for key, value in times({64: {"cuda:0": 1e6}}).items()}
    apart = {"knn/default/64/float32/t0": {"cuda:0": {0: {1: 1e6}}, "cpu": {0: {2: 1e6}}}}  # no round in common
    assert outcome_of(first | others | alone | apart) == Outcome("GPU wins 1 of 2")
    variant = {key.replace("default", "compiled"): value for key, value in first.items()}
    found = outcome_of(first | variant)
    assert (found.answer[:8], found.sweeps) == ("GPU from", 2)


def test_only_the_newest_runs_are_read_if_they_have_many_cases(store):
    store.import_run(stream("a"))
    (run,) = store.runs()
    small, large = run._replace(cases_ok=MOST_CASES // 2), run._replace(cases_ok=MOST_CASES + 1)
    assert affordable([small, small]) == [small, small]
    assert affordable([small, large, small]) == [small]
    assert affordable([large]) == []
