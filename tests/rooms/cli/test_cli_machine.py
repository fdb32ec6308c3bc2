"""`cpugpu-tui machine`: the card from what is kept or measured now, and how it fails."""

import pytest

from cpugpu_tui.cli import machine
from cpugpu_tui.cli.machine import HOW
from cpugpu_tui.errors import EXIT_OK, EXIT_UNFIT

SIMULATED = ("machine", "--simulate", "default")


@pytest.mark.parametrize(("gpus", "is_said"), [({"GPU-1": 0}, True), ({}, False)])
def test_a_kept_card_of_the_cpu_names_the_way_to_the_gpu_only_where_one_is(gpus, is_said, cpugpu, monkeypatch):
    """`With a GPU, this card also shows …` was said on a machine with a GPU."""
    monkeypatch.setattr(machine, "nvml_indices", lambda: gpus)
    cpugpu.here(*SIMULATED, "--measure", "--device", "cpu")
    done = cpugpu.here(*SIMULATED)
    assert "Only the CPU was measured" in done.out
    assert done.out.endswith(f"{HOW}\n") == is_said


def test_with_nothing_kept_it_measures_both_and_says_why_small_work_loses(cpugpu):
    done = cpugpu.here(*SIMULATED)
    assert (done.code, done.err) == (EXIT_OK, "")
    for fact in ("simulated GPU", "20.0 µs", "20.0 TFLOP/s", "50.0 GB/s"):
        assert fact in done.out
    assert HOW not in done.out


def test_what_is_kept_is_shown_until_it_is_measured_again(cpugpu):
    first = cpugpu.here(*SIMULATED, "--measure", "--json").objects
    kept = cpugpu.here(*SIMULATED, "--json").objects
    again = cpugpu.here(*SIMULATED, "--measure", "--json").objects
    assert [(item["device"], item["simulated"]) for item in first] == [("cpu", True), ("cuda:0", True)]
    assert sorted(kept, key=str) == sorted(first, key=str)
    assert {item["measured_wall_ns"] for item in again}.isdisjoint(item["measured_wall_ns"] for item in first)
    with cpugpu.store() as store:
        assert len(store.ceilings()) == 2


def test_measuring_one_device_keeps_the_other_on_the_card(cpugpu):
    cpugpu.here(*SIMULATED, "--measure")
    done = cpugpu.here(*SIMULATED, "--measure", "--device", "cpu")
    assert "GPU simulated GPU" in done.out
    assert HOW not in done.out


def test_without_a_gpu_the_card_says_why_and_asked_for_one_it_fails_without_a_card(cpugpu):
    done = cpugpu.here("machine", "--measure", "--simulate", "gpus=0")
    assert (done.code, done.err) == (EXIT_OK, "")
    assert "has no GPU" in done.out
    assert "simulated CPU" in done.out
    done = cpugpu.here("machine", "--measure", "--device", "cuda", "--simulate", "gpus=0")
    assert (done.code, done.out) == (EXIT_UNFIT, "")
    assert done.err.startswith("cpugpu-tui: ")


def test_the_calibration_is_not_in_the_history_but_the_next_run_has_it(cpugpu):
    cpugpu.here(*SIMULATED, "--measure")
    cpugpu.here("run", "--simulate", "default", "--size", "64", "--rounds", "5")
    with cpugpu.store() as store:
        (run,) = store.runs()
        (started, *_) = store.load(run.run_id)
    assert [found.device for found in started.plan.ceilings] == ["cuda:0", "cpu"]  # type: ignore[attr-defined]


def test_a_busy_machine_is_named_although_its_rates_were_not_measured(cpugpu, monkeypatch):
    """It printed nothing but the reason, on stderr."""
    real = machine.measured

    def disturbed(*given):
        _, state, _ = real(*given)
        return (), state, EXIT_UNFIT

    monkeypatch.setattr(machine, "measured", disturbed)
    done = cpugpu.here(*SIMULATED, "--measure", "--no-save", code=EXIT_UNFIT)
    for word in ("simulated CPU", "simulated GPU", "not measured"):
        assert word in done.out
