"""`time --on-cpu A --on-gpu B` as a person meets it: a run and its command, a wrong result, errors."""

import shlex

import pytest
from tests.helpers.command_line import FAST

from cpugpu_tui.errors import EXIT_OK, EXIT_USAGE
from cpugpu_tui.model import CodeTraced, RunStarted

NUMPY = ("--on-cpu", "x @ x", "--setup", "x = np.random.rand(n, n)")
TORCH = ("--on-gpu", "y @ y", "--gpu-setup", "y = torch.from_numpy(x)")


def test_both_are_named_and_their_command_times_the_same(cpugpu):
    done = cpugpu.here("time", *NUMPY, *TORCH, "--let", "k=1,2", "--n", "64,1024", "--simulate", FAST)
    assert done.code == EXIT_OK, done.err
    assert "x @ x on the CPU, y @ y on the GPU" in done.out
    again = done.out.split("Again: cpugpu-tui ")[1]
    repeated = cpugpu.here(*shlex.split(again), "--json", "--no-save")
    plan = next(event for event in repeated.events if isinstance(event, RunStarted)).plan
    assert [code.sides[1].setup for code in plan.codes] == [("x = np.random.rand(n, n)", "y = torch.from_numpy(x)")] * 2
    assert len({case.workload for case in plan.cases}) == 2, "a workload for each k"


def test_numpy_is_timed_on_a_machine_without_the_library_of_the_gpu(cpugpu, tmp_path):
    (tmp_path / "on_gpu.py").write_text("import cupy_that_nobody_has\ndef f(x):\n    return x\n")
    (tmp_path / "on_cpu.py").write_text("import numpy\ndef inputs(n):\n    return numpy.random.rand(n)\n"
                                        "def f(x):\n    return numpy.sort(x)\n")  # fmt: skip
    both = "--on-cpu", f"{tmp_path}/on_cpu.py:f", "--on-gpu", f"{tmp_path}/on_gpu.py:f"
    done = cpugpu.here("time", *both, "--n", "64", "--device", "cpu", "--threads", "1", "--json")
    assert done.code == EXIT_OK, done.err
    traced = next(event for event in done.events if isinstance(event, CodeTraced))
    assert (traced.library, traced.not_compared) == ("numpy", "")


@pytest.mark.parametrize(
    "wrong",
    [
        NUMPY,
        TORCH[:2],
        ("x @ x", "--gpu-setup", "y = x"),
        ("x @ x", *NUMPY, *TORCH),
        (*NUMPY, *TORCH, "--against", "x"),
        (*NUMPY, *TORCH, "--in-place"),
        (*NUMPY, *TORCH, "--", "true"),
    ],
)
def test_what_does_not_belong_together_is_refused_in_one_sentence(cpugpu, wrong, words):
    done = cpugpu.here("time", "--n", "8", "--simulate", FAST, *wrong)
    assert (done.code, done.out) == (EXIT_USAGE, "")
    words(done.err)
