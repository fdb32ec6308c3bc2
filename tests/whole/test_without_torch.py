"""The controller works in an environment without torch; what needs torch says in one sentence how to get it."""

import os

import pytest
from tests.demo.record import packed
from tests.helpers.command_line import FAST

from cpugpu_tui.demo.recording import shipped


@pytest.fixture
def without_torch(cpugpu, tmp_path):
    """`cpugpu-tui` in processes that cannot import torch; its history holds two simulated runs."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "torch.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')"
    )
    path = os.pathsep.join([str(tmp_path / "hidden"), os.environ.get("PYTHONPATH", "")])

    def call(*arguments):
        return cpugpu(*arguments, PYTHONPATH=path)

    for _ in range(2):
        done = call("run", "matmul", "--size", "16,64", "--rounds", "5", "--simulate", FAST)
        assert (done.code, done.err) == (0, ""), done.err
    return call


def test_the_demo_the_history_and_what_is_made_of_it_need_no_torch(without_torch, tmp_path):
    recording = tmp_path / "short.gz"
    recording.write_bytes(packed([shipped().runs[0]]))
    for arguments, said in {
        ("demo", recording, "--table"): "NVIDIA H200",
        ("history",): "2 runs",
        ("show", "1"): "matmul",
        ("compare", "1", "2"): "matmul",
        ("export", "2", "--format", "csv", "--out", "-"): "matmul",
        ("telemetry", "--simulate", "default", "--count", "1"): "GPU",
        ("claims",): "outcome",
        ("list",): "vector-dot",
    }.items():
        done = without_torch(*arguments)
        assert done.code == 0, (arguments, done.err)
        assert said in done.out, arguments
        assert "torch'" not in done.out + done.err, arguments


def test_a_run_without_torch_says_what_to_do_and_exits_4(without_torch):
    done = without_torch("run", "matmul", "--size", "16", "--no-save")
    assert (done.code, done.out) == (4, "")
    assert "No module named 'torch'" in done.err
    assert "--python auto" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_gate_whose_other_python_lacks_torch_names_the_option_that_gave_it(cpugpu, bare_python):
    done = cpugpu("gate", "matmul", "--against", bare_python, "--no-save", code=4)
    assert done.err.endswith("Install torch in this interpreter, or name another one with --against.\n")
