"""`time --on-cpu A --on-gpu B` as a person meets it: a run and its command."""

import shlex

import pytest
from tests.helpers.command_line import FAST

from cpugpu_tui.errors import EXIT_OK
from cpugpu_tui.model import CodeTraced, RunStarted

NUMPY = ("--on-cpu", "x @ x", "--setup", "x = np.random.rand(n, n)")
TORCH = ("--on-gpu", "y @ y * k", "--gpu-setup", "y = torch.from_numpy(x)")


@pytest.mark.usefixtures("agents_here")
def test_both_are_named_and_their_command_times_the_same(cpugpu):
    done = cpugpu.here("time", *NUMPY, *TORCH, "--let", "k=1,2", "--n", "64,1024", "--simulate", FAST, code=EXIT_OK)
    assert "x @ x on the CPU, y @ y * k on the GPU" in done.out
    assert "copies" not in done.out, "each library makes its inputs where it wants"
    again = done.out.split("Again: cpugpu-tui ")[1]
    repeated = cpugpu.here(*shlex.split(again), "--json", "--no-save")
    plan = next(event for event in repeated.events if isinstance(event, RunStarted)).plan
    assert [code.sides[1].setup for code in plan.codes] == [("x = np.random.rand(n, n)", "y = torch.from_numpy(x)")] * 2
    assert len({case.workload for case in plan.cases}) == 2, "a workload for each k"


@pytest.mark.usefixtures("agents_here")
def test_numpy_is_timed_on_a_machine_without_the_library_of_the_gpu(cpugpu, tmp_path):
    (tmp_path / "on_gpu.py").write_text("import cupy_that_nobody_has\ndef f(x):\n    return x\n")
    (tmp_path / "on_cpu.py").write_text("import numpy\ndef inputs(n):\n    return numpy.random.rand(n)\n"
                                        "def f(x):\n    return numpy.sort(x)\n")  # fmt: skip
    both = "--on-cpu", f"{tmp_path}/on_cpu.py:f", "--on-gpu", f"{tmp_path}/on_gpu.py:f"
    done = cpugpu.here("time", *both, "--n", "64", "--device", "cpu", "--threads", "1", "--json", code=EXIT_OK)
    traced = next(event for event in done.events if isinstance(event, CodeTraced))
    assert (traced.library, traced.not_compared) == ("numpy", "")
