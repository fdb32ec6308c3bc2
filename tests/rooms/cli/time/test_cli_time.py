"""`cpugpu-tui time`: typed code from the command line to the table, on a simulated machine and on this CPU."""

import shlex

import pytest
from tests.helpers.command_line import FAST

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK, EXIT_USAGE, UsageError
from cpugpu_tui.model import DeviceSampled, LinesProfiled, RunStarted, Simulation
from cpugpu_tui.session.typed_code import parameters

PRODUCT = ("time", "x @ x", "--setup", "x = torch.rand(n, n)")
CPU = ("--device", "cpu", "--rounds", "1", "--no-ceilings")
THREAD = ("--worker", "thread")
HERE = (*CPU, *THREAD)
"""In this process, which has imported torch: each agent takes 1.5 s of CPU for that."""


@pytest.mark.usefixtures("agents_here")
def test_a_range_searches_the_crossover_and_the_command_repeats_it(cpugpu):
    done = cpugpu.here(*PRODUCT, "--n", "16:2048", "--simulate", FAST)
    assert (done.code, done.err) == (EXIT_OK, "")
    assert "x @ x" in done.out
    assert "The GPU wins from n ≈" in done.out
    again = done.out.rpartition("Again: cpugpu-tui ")[2]
    assert shlex.split(again.partition(" --simulate")[0]) == [*PRODUCT, "--n", "16:2048", "--starts", "1"]


def test_a_simulated_run_of_code_that_is_only_outlined_does_not_say_that_it_was_not_run(cpugpu, tmp_path):
    (tmp_path / "own.py").write_text(f"def f(n): open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    done = cpugpu.here("time", f"{tmp_path}/own.py:f", "--n", "64", "--simulate", FAST)
    assert (tmp_path / "ran").exists(), "with shapes alone, to count its operations"
    assert done.out.startswith("SIMULATED: your code was not timed. No number here was measured.")


def test_simulated_code_that_cannot_run_has_no_times(cpugpu):
    array = ("--setup", "x = np.random.rand(n)", "--n", "64,256", "--simulate", FAST)
    on_numbers = "torch.tensor(np.dot(x, x)) + 1"  # not on shapes
    assert "GPU is" in cpugpu.here("time", on_numbers, *array, code=EXIT_OK).out
    done = cpugpu.here("time", "json.dumps(x @ x)", *array, code=EXIT_CASES_FAILED)
    assert done.out.count("NameError: name 'json' is not defined.") == 2
    assert "--setup 'import json'" in done.out
    absent = cpugpu.here("time", "x @ x", "--setup", "import my_model", "--n", "64", "--simulate", FAST)
    assert "Install my_model, or name the folder that holds it in PYTHONPATH." in absent.out
    assert "GPU is" not in done.out


@pytest.mark.parametrize(("code", "says"), [
    ("list(range(n))", "Never used the GPU"), ("x", "nothing was computed"), ("x.add_(1)", "changes its inputs"),
])  # fmt: skip
def test_simulated_code_is_refused_as_in_a_real_run(cpugpu, code, says):
    """It had times, although a real run refuses it."""
    sizes = ("--setup", "x = torch.rand(n)", "--n", "64,256", "--simulate", FAST)
    done = cpugpu.here("time", code, *sizes, code=EXIT_CASES_FAILED)
    assert done.out.count(says) == 2
    assert done.out.count("set code for the GPU beside it: --on-cpu") == code.startswith("list")


def test_code_that_failed_is_not_compared_because_nothing_was_timed(cpugpu):
    cpugpu.here("time", "missing + 1", "--n", "64", *HERE)
    done = cpugpu.here("compare", "latest", "latest")
    assert (done.code, done.out) == (EXIT_USAGE, "")
    assert "No run of the series of 'latest' has a timed case." in done.err


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (("", "--n", "64"), EXIT_USAGE, "The statement is empty. Give one"),
        (("own.py:", "--n", "64"), EXIT_USAGE, "Write own.py:FUNCTION."),
        (("x @ x", "-s", "x = torch.rand(n, n)"), EXIT_USAGE, "--n"),
        (("x.T", "-s", "x = torch.rand(n, n)", "--n", "64"), EXIT_CASES_FAILED, "view"),
        (("x + y", "-s", "x = torch.rand(n)", "--n", "64"), EXIT_CASES_FAILED, "'y'"),
        (("exit(7)", "-s", "x = torch.rand(n)", "--n", "64"), EXIT_CASES_FAILED, "7"),
        (("open('/nowhere').read()", "--n", "64"), EXIT_CASES_FAILED, "/nowhere"),
    ],
)
def test_bad_code_is_a_sentence_and_an_exit_code(cpugpu, words, code, named):
    done = cpugpu("time", *words, *HERE, code=code)
    assert named in " ".join(f"{done.out} {done.err}".split())
    assert "Traceback" not in done.out + done.err


def test_a_file_that_ends_the_process_is_named_as_the_cause(cpugpu, tmp_path):
    file = tmp_path / "own.py"
    file.write_text("import os\nos._exit(5)\ndef f(): ...\n")
    done = cpugpu("time", f"{file}:f", *CPU, code=EXIT_CASES_FAILED)
    assert "your code" in " ".join(done.out.split())


def test_code_in_a_plan_is_not_run_again_by_itself(cpugpu, limits_when_ready):
    """What is resumed or replayed may come from a stranger: only the command that is typed again runs it."""
    first = cpugpu.here(*PRODUCT, "--n", "16,32", "--simulate", FAST, "--max-seconds", "1e-9", *THREAD)
    refused = cpugpu.here("run", "--resume")
    assert first.code in (EXIT_OK, EXIT_CASES_FAILED)
    assert refused.code == EXIT_USAGE
    assert "code" in refused.err
    cpugpu.here("rm", "latest", code=EXIT_OK)
    cpugpu.here("time", "missing + 1", "--n", "64", "--simulate", FAST, code=EXIT_CASES_FAILED)
    assert "No unfinished run" in cpugpu.here("run", "--resume").err, "its cases failed: nothing is missing"


def test_an_agent_runs_no_code_that_its_command_line_does_not_allow(cpugpu):
    from cpugpu_tui.session.own_workloads import OwnWorkloads
    from cpugpu_tui.session.planning import PlanRequest, build_plan
    from cpugpu_tui.session.session import Session
    from cpugpu_tui.transport.agent_pool import Agents
    from cpugpu_tui.workloads.own_code import own_code

    code = own_code("x.sum()", "x = torch.rand(n)")
    own = OwnWorkloads(codes=(code,))
    plan = build_plan(PlanRequest(names=(code.name,), sizes="8", simulation=Simulation(), own=own))
    events = []
    agents = Agents(None, simulated=True)
    try:
        finished = Session(plan, agents, None, "series", None, {}).run(events.append)
    finally:
        agents.close()
    assert (finished.status, finished.exit_code) == ("failed", EXIT_USAGE), finished
    assert [event.plan.codes for event in events if isinstance(event, RunStarted)] == [(code,)]


@pytest.mark.usefixtures("agents_here")
def test_a_function_of_a_file_is_timed_with_what_inputs_returns(cpugpu, tmp_path):
    file = tmp_path / "my_model.py"
    file.write_text("import torch\ndef inputs(n):\n    return torch.rand(n)\ndef double(x):\n    return x * 2\n")
    done = cpugpu("time", f"{file}:double", "--n", "8,16", *CPU, code=EXIT_OK)
    assert f"{file}:double" in done.out


def test_the_slowest_lines_are_named_below_the_receipt_and_are_no_times(cpugpu, tmp_path):
    file = tmp_path / "my_model.py"
    loop = "def loop(x):\n    y = x[0]\n    for row in x:\n        y = y + row\n    return y\n"
    file.write_text(f"import torch\ndef inputs(n):\n    return torch.rand(n, 4)\n{loop}")
    words = ("time", f"{file}:loop", "--n", "64", *HERE)
    done = cpugpu.here(*words, "--explain", code=EXIT_OK)
    said = " ".join(done.out.split())
    assert "Slowest lines on cpu at n = 64 (profiled call: " in said
    assert "my_model.py:7 `y = y + row`: Python loop, 64 operators in 64 passes" in said
    shown = cpugpu.here("show", "1", "--explain")
    assert "Python loop, 64 operators" in " ".join(shown.out.split())
    assert "Python loop" not in cpugpu.here("show", "1").out
    events = cpugpu(*words, "--json").events
    (profiled,) = (event for event in events if isinstance(event, LinesProfiled))
    assert events.index(profiled) > max(events.index(event) for event in events if isinstance(event, DeviceSampled))


def test_every_combination_of_values_is_timed():
    assert parameters(["a=1,2", "b=(3,4)"]) == [(("a", "1"), ("b", "(3,4)")), (("a", "2"), ("b", "(3,4)"))]
    assert parameters([]) == [()]
    with pytest.raises(UsageError, match="'=3'"):
        parameters(["=3"])


def test_without_numpy_the_code_is_told_and_torch_does_not_warn(cpugpu, tmp_path):
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')\n")
    words = ("time", "np.zeros(3) if n == 16 else torch.ones(n)", "--n", "16", *HERE)
    done = cpugpu(*words, PYTHONPATH=str(tmp_path))
    assert "The code uses np, but this Python has no NumPy." in done.out
    assert "initialize NumPy" not in done.out + done.err


def test_a_run_without_an_answer_is_no_success(cpugpu):
    """`--max-seconds 0.1` skipped every row, and the exit code was 0."""
    words = ("time", "x @ x", "-s", "x = torch.rand(n, n)", "--n", "64,128", "--simulate", "pace=1")
    done = cpugpu(*words, "--max-seconds", "0.05", "--json", *THREAD, code=EXIT_CASES_FAILED)
    assert "0.05 s" in done.events[-1].message
    assert done.events[-1].remedy
