"""`crossover` and `time_on`: what a script or a notebook gets, on a simulated machine and on this CPU."""

import builtins
import functools
import os
import pickle
import re
import select
import signal
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from tests.helpers.command_line import FAST, PATIENCE_S, start_in_threads

from cpugpu_tui import CpuGpuError, Result, UnfitError, UsageError, crossover, time_on
from cpugpu_tui.config.installing import install_command
from cpugpu_tui.model import Case, CaseFailed, Device, DevicesFound, Plan, RunFinished, RunStarted
from cpugpu_tui.state.state import RunState

STATEMENT = "x @ x * (1 << 0)"
PRODUCT: dict[str, Any] = {"setup": "x = torch.rand(n, n)", "simulate": FAST}
HERE: dict[str, Any] = {"device": "cpu", "rounds": 1}
SQUARE = {"x": lambda n: torch.rand(n, n)}


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        start_in_threads(patch)
        # A person's own history may have peak rates, which add a column.
        patch.setenv("CPUGPU_DB", str(tmp_path_factory.mktemp("api") / "none.db"))
        return crossover(STATEMENT, "16:2048", **PRODUCT)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of a package in the caller's folder, which needs its neighbour."""
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "scale.py").write_text("SCALE = 2\n")
    (package / "work.py").write_text("from .scale import SCALE\ndef scaled(x):\n    return x * SCALE\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_package.work  # type: ignore[import-not-found]

    yield own_package.work
    for name in [name for name in sys.modules if name.startswith("own_package")]:
        del sys.modules[name]


def test_the_answer_has_point_bracket_and_rows(searched):
    low, high = searched.bracket
    assert low <= searched.point <= high
    assert searched.answer.startswith(
        "SIMULATED: your code was not timed. No number here was measured. The GPU wins from n ≈"
    )
    sizes = [row.size for row in searched.rows]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (16, 2048)
    first, last = searched.rows[0], searched.rows[-1]
    assert (first.faster, last.faster) == ("CPU", "GPU")
    assert last.speedup == pytest.approx(last.cpu_ns / last.gpu_ns, rel=0.1)
    assert last.low <= last.speedup <= last.high
    with pytest.raises(FrozenInstanceError):
        searched.point = 1.0  # type: ignore[misc]


def test_a_result_travels_to_another_process(searched):
    there = pickle.loads(pickle.dumps(searched))
    assert (there, there.run, there.table()) == (searched, searched.run, searched.table())


@pytest.mark.usefixtures("agents_here")
def test_the_table_is_that_of_the_command_line(cpugpu, searched):
    done = cpugpu.here(
        "time", STATEMENT, "--setup", PRODUCT["setup"], "--n", "16:2048", "--simulate", FAST, "--no-save"
    )
    assert [line.split() for line in searched.table().splitlines()] == [line.split() for line in done.out.splitlines()]
    assert str(searched) == searched.table()


def test_a_notebook_gets_the_table_and_its_sentences_as_html(searched):
    html = searched._repr_html_()
    assert html.count("<tr>") == len(searched.rows) + 1
    assert "SIMULATED" in html
    assert "(1 &lt;&lt; 0)" in html
    assert "<<" not in html
    assert all(sentence in html for sentence in searched.receipt)


def test_the_plot_shows_a_line_for_each_device_and_the_bracket(searched):
    from matplotlib.figure import Figure

    axes = searched.plot(Figure().add_subplot())
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert {"CPU", "GPU", "GPU with copies"} <= set(lines)
    assert list(lines["CPU"].get_xdata()) == [row.size for row in searched.rows]
    assert axes.get_title(loc="left").startswith("SIMULATED: The GPU wins from")
    assert [patch.get_x() for patch in axes.patches][:1] == [searched.bracket[0]]
    assert any(f"{round(searched.point or 0):,}" in text.get_text() for text in axes.texts)


def test_without_matplotlib_the_plot_says_how_to_get_it(searched, monkeypatch, words):
    ordinary = builtins.__import__

    def lacking(name, *others):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name=name)
        return ordinary(name, *others)

    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(UnfitError) as error:
        searched.plot()
    assert error.value.remedy == f"Install it with: {install_command('plot')}"
    words(error.value.message)


@pytest.mark.usefixtures("agents_here")
@pytest.mark.parametrize("what", ["x @ x", lambda x: x @ x])
def test_no_process_is_said_to_have_run_simulated_code(what):
    found = time_on(what, 8, let=SQUARE, simulate=FAST)
    assert found.receipt == (found.where,) == ("Simulated: your code was not timed.",)


@pytest.mark.usefixtures("agents_here")
def test_a_function_that_torch_wrote_in_c_is_found_in_its_public_module():
    found = time_on(torch.fft.rfft, 16, let={"input": "torch.rand(n)"}, **HERE)
    assert found.where == "Ran in a process of its own."
    assert ":rfft" in found.table()


def test_an_importable_function_runs_in_a_process_of_its_own(module):
    found = time_on(module.scaled, 16, let={"x": "torch.rand(n)"}, **HERE)
    assert (found.where, found.receipt[0]) == ("Ran in a process of its own.", found.where)
    assert found.rows[0].failure == ""
    assert found.rows[0].cpu_ns is not None
    assert "Again: cpugpu-tui time" in found.table()


@pytest.mark.parametrize(
    ("what", "let"),
    [
        (lambda x: x @ x, SQUARE),
        (functools.partial(torch.add, alpha=2), {"input": torch.ones(8), "other": torch.ones(8)}),
        (torch.nn.Linear(8, 8), {"input": "torch.rand(n, 8)"}),
        ("net(x)", {"net": torch.nn.Linear(8, 8), "x": "torch.rand(8, 8)"}),
    ],
    ids=["lambda", "partial", "module", "value"],
)
def test_what_is_no_text_runs_in_the_callers_process(what, let, words):
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    found = time_on(what, 8, let=let, threads=1, **HERE)
    words(found.where)
    assert found.rows[0].cpu_ns is not None, found.rows
    assert found.receipt[0] == found.where
    assert found.where in found.table()
    assert "Again:" not in found.table()
    assert torch.get_num_threads() == threads
    assert bool((torch.get_rng_state() == state).all())


def test_a_value_of_the_caller_stays_as_it_is():
    mine = torch.ones(8)
    allowed = time_on(lambda x: x.add_(1), 8, let={"x": mine}, in_place=True, **HERE)
    refused = time_on(lambda x: x.add_(1), 8, let={"x": mine}, **HERE)
    assert allowed.rows[0].failure == ""
    assert "in_place=True" in refused.rows[0].failure
    assert bool((mine == 1).all())


def test_an_error_in_a_lambda_names_file_and_line():
    found = time_on(lambda x: x / None, 8, let=SQUARE, **HERE)
    assert found.rows[0].failure.startswith(f"error: {Path(__file__).name}, line ")
    assert found.rows[0].cpu_ns is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: time_on(3),  # type: ignore[arg-type]
        lambda: time_on("x @", 8),
        lambda: time_on("x", "16:32"),
        lambda: time_on("x", 8, let={"n": 3}),
        lambda: time_on("x", 8, inputs=lambda n: n),
        lambda: time_on(lambda x, y: x, 8, **HERE),
        lambda: time_on("nowhere.py:f", 8),
        lambda: time_on("x", 8, device="tpu"),
        lambda: crossover("x", 16),
        lambda: crossover("x", "32:16"),
    ],
)
def test_bad_input_is_a_usage_error_in_terms_of_python(call, words):
    with pytest.raises(UsageError) as error:
        call()
    said = str(error.value)
    assert not any(option in said for option in ("--let", "--in-place", "--setup"))
    words(re.sub(r"\.py:\d+", ".py:LINE", said.replace(str(Path.cwd()), ".")))


def test_a_limit_that_leaves_nothing_says_what_it_would_have_needed():
    case, state = Case("matmul", 64), RunState()
    for event in (
        RunStarted(run_id="r", series_id="s", plan=Plan("matmul", (case,)), environment={}),
        DevicesFound(devices=(Device("cpu", "A"),)),
        CaseFailed(case=case.key, kind="skipped", message="Over."),
        RunFinished(
            status="failed", message="No size was timed within 8 s (--max-seconds).", remedy="Allow 13 s for a run."
        ),
    ):
        state = state.apply(event)
    assert Result.of(state).answer.endswith("No size was timed within 8 s (max_seconds). Allow 13 s for a run.")


def test_a_run_that_failed_as_a_whole_raises_its_own_error():
    with pytest.raises(CpuGpuError) as error:
        time_on("x", 8, setup="x = torch.rand(n)", device="cuda:7", simulate=FAST)
    assert isinstance(error.value, UnfitError)
    assert "cuda:7" in str(error.value)


SCRIPT = """
import asyncio
from cpugpu_tui import time_on

def double(x):
    return x * 2

async def notebook():
    return time_on(double, 8, let={"x": "torch.rand(n)"}, device="cpu", rounds=1)

found = asyncio.run(notebook())
print(found.where)
print(found.rows[0].cpu_ns > 0)
"""


def test_a_script_without_a_guard_and_a_running_event_loop_are_no_obstacle():
    """Read from stdin, like an interactive session: the function has no file."""
    done = subprocess.run(
        [sys.executable, "-"], input=SCRIPT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["Ran in the caller's process: double is defined in __main__.", "True"]


ENDLESS = "import time\ndef f(x):\n    open('began', 'w').write('now')\n    time.sleep(999)\n"


def test_ctrl_c_ends_an_endless_function_and_its_process(tmp_path):
    os.mkfifo(tmp_path / "began")
    (tmp_path / "endless.py").write_text(ENDLESS)
    script = "from cpugpu_tui import time_on\ntime_on('endless.py:f', let={'x': 'torch.rand(n)'}, device='cpu')"
    began = os.open(tmp_path / "began", os.O_RDONLY | os.O_NONBLOCK)
    caller = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert select.select([began], [], [], PATIENCE_S)[0]
        family = psutil.Process(caller.pid).children(recursive=True)
        caller.send_signal(signal.SIGINT)
        _, said = caller.communicate(timeout=PATIENCE_S)
    finally:
        caller.kill()
        os.close(began)
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert caller.returncode == -signal.SIGINT
    assert family
    assert psutil.wait_procs(family, timeout=PATIENCE_S)[1] == []
