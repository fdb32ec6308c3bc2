"""`compare`, `load` and rows as dictionaries: what a script or a notebook gets of two codes and of saved runs."""

from __future__ import annotations

import asyncio
import io
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from tests.helpers.command_line import FAST, PATIENCE_S, CommandLine, start_in_threads

import cpugpu_tui
from cpugpu_tui import Comparison, UnfitError, UsageError, load
from cpugpu_tui.compare.comparison import compare_series
from cpugpu_tui.compare.in_turn import Played


class Cell(io.StringIO):
    """The stream of a notebook, which is not a terminal."""


SETUP = "x = torch.rand(n, n)"
SIMULATED = f"{FAST},noise=0.002,duet_factor=1.06"


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A comparison that was made inside a running event loop, in a thread, its history, and its progress."""
    cpugpu = CommandLine(tmp_path_factory.mktemp("compared") / "history.db")
    found: list[Comparison] = []

    async def notebook():
        found.append(cpugpu_tui.compare("x @ x", "torch.mm(x, x)", [64, 2048], setup=SETUP, simulate=SIMULATED,
                                        save=True))  # fmt: skip

    with pytest.MonkeyPatch.context() as patch:
        start_in_threads(patch)
        patch.setenv("CPUGPU_DB", str(cpugpu.database))
        patch.setattr(Cell, "__module__", "ipykernel.iostream")
        patch.setattr(sys, "stderr", cell := Cell())
        thread = threading.Thread(target=lambda: asyncio.run(notebook()))
        thread.start()
        thread.join(PATIENCE_S)
    return found[0], cpugpu, cell.getvalue()


def test_the_answer_and_the_rows_say_where_it_is_slower(compared):
    found, cpugpu, _ = compared
    assert "GPU: NEW is slower than OLD at n = 2,048, by 4." in found.answer
    rows = {(row["size"], row["device"]): row for row in found.records()}
    row = rows[2048, "GPU kernels"]
    assert (row["verdict"], row["ratio"]) == ("SLOWER", pytest.approx(1.06, rel=0.01))
    assert row["new_ns"] / row["old_ns"] == pytest.approx(row["ratio"])
    assert row["low"] < row["ratio"] < row["high"]
    assert found.answer.split(". ")[1] in found.table()
    assert "NEW x @ x" in found._repr_html_()
    assert re.search(r"^ x @ x 2,048  +GPU kernels ", found.table(), re.MULTILINE), "not the name that the plan has"
    shown = cpugpu.here("compare", "1", "2").out
    assert found.answer.split(". ")[1] in shown, "the history says the same"


def test_a_saved_run_is_loaded_with_its_name(compared, monkeypatch):
    _, cpugpu, _ = compared
    monkeypatch.setenv("CPUGPU_DB", str(cpugpu.database))
    latest, other = load("latest"), load(1, cpugpu.database)  # either side may be saved first
    assert [row["size"] for row in latest.records()] == [64, 2048]
    assert {load(number).records()[0]["name"] for number in (1, 2)} == {"x @ x", "torch.mm(x, x)"}
    assert other.records() == load(1).records()
    with pytest.raises(UsageError, match="99"):
        load(99)


def test_rows_are_a_dataframe_where_pandas_is(compared, monkeypatch):
    found, *_ = compared
    pandas: Any = ModuleType("pandas")
    pandas.DataFrame = lambda records: ("frame", records)
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert found.frame() == ("frame", found.records())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnfitError, match="pandas") as error:
        found.frame()
    assert "records()" in error.value.remedy


@pytest.mark.parametrize(
    ("new", "more", "says"),
    [
        (lambda x: x, {}, "a lambda cannot be imported"),
        ("x +", {}, "Invalid statement"),
        ("x", {"let": {"x": lambda n: n}}, "runs in this process alone"),
        ("x", {"old_setup": "y = ("}, "Invalid setup"),
    ],
)
def test_what_cannot_be_compared_is_a_usage_error(new, more, says):
    with pytest.raises(UsageError, match=says):
        cpugpu_tui.compare(new, "x * 1", 8, setup="x = torch.rand(n)", simulate=FAST, **more)


def test_a_setup_that_lacks_a_name_is_called_as_its_argument():
    with pytest.raises(UnfitError, match=r"Make x in old_setup, for example old_setup='x = "):
        cpugpu_tui.compare("x + 1", "x * 1", 8, setup="x = torch.rand(n)", old_setup="y = 3", simulate=FAST)


@pytest.mark.usefixtures("agents_here")
def test_a_code_that_fails_says_why(tmp_path):
    (tmp_path / "bad.py").write_text("import no_such_library\ndef f(n):\n    return n\n")
    with pytest.raises(UnfitError, match="no_such_library"):
        cpugpu_tui.compare(f"{tmp_path}/bad.py:f", "n + 1", 8, device="cpu")


def test_a_time_limit_that_leaves_no_verdict_says_so(compared):
    full = compared[0].found
    short = compare_series(*(replace(side, runs=side.runs[:1]) for side in (full.base, full.new)))
    assert Comparison.of(short, Played((), full.base)).answer.startswith(
        "SIMULATED: your code was not timed. No number here was measured. Too few runs for 6 of 6 verdicts"
    )


@pytest.mark.usefixtures("agents_here")
def test_a_notebook_has_a_progress_line_of_each_pair_and_a_pipe_has_none(compared, monkeypatch):
    _, cpugpu, painted = compared
    assert re.search(r"1 of 2 cases done - pair 3 of at most 10 - .*(x @ x|torch\.mm\(x, x\)) 2,048", painted)
    assert painted.endswith("\r" + " " * 80 + "\r")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setenv("CPUGPU_DB", str(cpugpu.database))
    cpugpu_tui.time_on("x @ x", 64, setup=SETUP, simulate=FAST)
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


SCRIPT = f"""
import os, signal, threading
import cpugpu_tui
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
cpugpu_tui.compare("x @ x", "x @ x + 0", 64, setup={SETUP!r}, simulate="pace=1,noise=0.5")
"""


def test_ctrl_c_raises_and_leaves_no_process():
    caller = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert caller.stderr.splitlines()[-1] == "KeyboardInterrupt", caller.stderr
    assert caller.returncode == -signal.SIGINT
