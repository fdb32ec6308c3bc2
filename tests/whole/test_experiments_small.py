"""Every published experiment at small scale, through the command line, on the CPU: times, and what was scaled."""

import pytest

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK
from cpugpu_tui.model import EpochFinished
from cpugpu_tui.state.folding import folded
from cpugpu_tui.workloads import PRESETS


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.small is not None])
def test_it_runs_to_its_end(cpugpu, name):
    """The whole set takes under two minutes on two cores: `pytest --durations=0` says how long."""
    small = PRESETS[name].small
    assert small is not None
    done = cpugpu("run", name, "--scale", "small", "--device", "cpu", "--rounds", "2", "--no-save", "--json")
    assert done.code == EXIT_OK, done.err
    state = folded(done.events)
    assert {row.status for row in state.rows.values()} == {"ok"}
    assert all(row.cpu is not None and row.cpu.latency_ns for row in state.rows.values())
    assert done.events[0].plan.scale == "small"
    if name == "mnist-mlp":
        epochs = [event for event in done.events if isinstance(event, EpochFinished)]
        assert len(epochs) == 2
        assert all(event.accuracy is not None and event.accuracy > 0.2 for event in epochs)


def test_the_table_says_what_was_scaled_and_how_to_run_it_again(cpugpu):
    done = cpugpu("run", "matmul-sweep", "--scale", "small", "--device", "cpu", "--rounds", "1", "--no-save")
    assert "1 to 501 in steps of 100" in done.out
    assert "--scale small --rounds 1" in done.out


def test_a_folder_without_digits_fails_its_cases_and_says_which_file(cpugpu, tmp_path):
    done = cpugpu(
        "run", "mnist-mlp", "--scale", "small", "--mnist", str(tmp_path), "--device", "cpu", "--no-save", "--json"
    )
    assert done.code == EXIT_CASES_FAILED, done.err
    failures = [event for event in done.events if type(event).__name__ == "CaseFailed"]
    assert len(failures) == 8
    assert all("train-images-idx3-ubyte" in event.message for event in failures)
    assert all("--mnist" in event.remedy for event in failures)
