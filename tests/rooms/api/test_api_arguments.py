"""Arguments of the public functions: a value of any type works, or is an error that names the argument."""

import inspect
import itertools
import json
import os
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.command_line import FAST
from tests.rooms.export.test_thresholds_reader import DOCUMENT

from cpugpu_tui import CpuGpuError, UsageError, crossover, load, thresholds, time_on, workload
from cpugpu_tui.api import comparing, timing
from cpugpu_tui.machine.text import shortened
from cpugpu_tui.model import Plan


class Raising:
    """A foreign object that cannot be used for anything."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __index__(self):
        raise RuntimeError

    def __iter__(self):
        raise RuntimeError

    def __repr__(self):
        raise RuntimeError


VALUES: dict[str, Any] = {
    "none": None, "true": True, "zero": 0, "negative": -1, "huge": 10**5_000, "large": 10**400, "nan": float("nan"),
    "infinite": float("inf"), "half": 0.5, "text": "?", "empty": "", "null": "\0", "surrogate": "\ud800",
    "digits": "1" * 400, "long": "x" * 4_000, "bytes": b"16", "bytearray": bytearray(b"16"), "memory": memoryview(b"2"),
    "list": [None], "nested": [[1]], "no list": [],
    "endless": itertools.count(1), "dictionary": {1: 2}, "set": {1.5}, "tensor": torch.ones(3),
    "scalar": torch.tensor(2.5), "decimal": Decimal("0.5"), "fraction": Fraction(1, 3), "complex": 1j,
    "object": object(), "type": int, "function": len, "raising": Raising(), "device": torch.device("meta"),
    "dtype": torch.int8, "module": torch, "folder": Path("/"), "no path": Path("/no/such/file"),
}  # fmt: skip


class Stopped(Exception):
    """Raised where a comparison would start processes."""


@pytest.fixture
def planned(monkeypatch):
    """Plans of calls, which are not run."""
    plans: list[Plan] = []

    def play(_, plan, *more, **named):
        plans.append(plan)
        raise Stopped

    monkeypatch.setattr(timing, "_run_plan", lambda plan, _asked: plans.append(plan))
    monkeypatch.setattr(comparing, "play", play)
    return plans


def refusal(call, arguments):
    """Return the documented error of a call."""
    try:
        call(**arguments)
    except Stopped:
        pass
    except (CpuGpuError, thresholds.ThresholdsError) as error:
        return error
    return None


USUAL: dict[Callable[..., Any], dict[str, Any]] = {
    time_on: {"what": "x @ x", "n": 16, "simulate": FAST},
    crossover: {"what": "x @ x", "n": "16:64", "simulate": FAST},
    comparing.compare: {"new": "x @ x", "old": "x * x", "setup": "x = torch.ones(n, n)", "simulate": FAST},
}
"""Function → arguments that are right."""


def arguments_of(*calls):
    """Run a test for each argument of these functions."""
    pairs = [(call, name) for call in calls for name in inspect.signature(call).parameters if name != "self"]
    return pytest.mark.parametrize(("call", "argument"), pairs, ids=[f"{each.__name__}-{name}" for each, name in pairs])


def assert_named(error, argument, value, case):
    """Check that an error names the argument or its value, and no option of the command line."""
    shown = getattr(value, "__name__", argument) if callable(value) else argument
    shown = os.fsdecode(value) if isinstance(value, (str, bytes, Path)) else shown
    ways = (ascii(shown)[1:-1][:40], ascii(shortened(shown))[1:-1])
    assert argument in str(error) or any(way in ascii(str(error)) for way in ways), f"{case}: {error}"
    assert "--" not in str(error).replace("`cpugpu-tui export --schema`", ""), f"{case}: there are no options here"
    assert len(str(error)) < 600, case
    assert str(error).isprintable(), case


@arguments_of(*USUAL)
def test_an_argument_of_any_type_works_or_is_a_usage_error(call, argument, planned):
    """Wrong types raised bare TypeError and AttributeError; `n=b'16'` timed the sizes 49 and 54."""
    for name, value in VALUES.items():
        before = len(planned)
        error = refusal(call, {**USUAL[call], argument: value})
        assert len(planned) == before + (error is None), name
        if error is not None:
            assert isinstance(error, UsageError), name
            assert error.remedy, name
            assert_named(error, argument, value, name)


@arguments_of(load)
def test_a_saved_run_is_loaded_by_its_name_or_a_usage_error_says_why_not(call, argument, cpugpu, monkeypatch):
    """`load(5.5)` looked for a run '5.5', and `database=True` raised a bare TypeError."""
    assert cpugpu.here("run", "matmul", "--size", "8", "--simulate", FAST).code == 0
    monkeypatch.setenv("CPUGPU_DB", str(cpugpu.database))
    usual = {"name": "latest", "database": str(cpugpu.database)}
    assert refusal(call, usual) is None
    for name, value in VALUES.items():
        error = refusal(call, {**usual, argument: value})
        if error is not None:
            assert_named(error, argument, value, name)
        else:
            assert (argument, name) == ("database", "none") or value in (1, "latest"), name


@arguments_of(thresholds.load, thresholds.Thresholds.choose, thresholds.Thresholds.why)
def test_thresholds_take_any_type_or_name_the_argument(call, argument, tmp_path):
    """`choose("matmul", "64")` and `load(None)` raised a bare TypeError."""
    (tmp_path / "t.json").write_text(json.dumps(DOCUMENT))
    usual = {"path": tmp_path / "t.json", "here": {}} if call is thresholds.load else {"operation": "matmul", "n": 64}
    bound = call if call is thresholds.load else getattr(thresholds.Thresholds(DOCUMENT, {}), call.__name__)
    for name, value in VALUES.items():
        error = refusal(bound, {**usual, argument: value})
        if error is not None:
            assert_named(error, argument, value, name)


def test_what_is_no_workload_is_a_usage_error():
    for name, value in VALUES.items():
        assert isinstance(refusal(workload, {"cls": value}), UsageError), name


@pytest.mark.usefixtures("agents_here")
def test_axes_of_something_else_are_a_usage_error():
    pytest.importorskip("matplotlib").use("agg")
    found = time_on("x @ x", 8, setup="x = torch.ones(n, n)", simulate=FAST)
    for name, value in VALUES.items():
        error = refusal(found.plot, {"axes": value})
        assert value is None or (error is not None and "axes" in str(error)), name


@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (16, [16]), (torch.tensor(16), [16]), (torch.tensor([16, 32]), [16, 32]), ((16, 32), [16, 32]),
        (range(1, 4), [1, 2, 3]), (16.0, [16]), (["16", 32], [16, 32]), ("16, 1e3", [16, 1000]), (iter([8]), [8]),
    ],
)  # fmt: skip
def test_what_is_a_size_is_taken_as_one(n, sizes, planned):
    time_on("x @ x", n, simulate=FAST)
    assert [case.size for case in planned[0].cases] == sizes


def test_names_of_torch_are_taken_as_names(planned):
    time_on("x", dtype=torch.float64, device=[torch.device("cpu"), "cuda:0"], rounds=torch.tensor(3), simulate=FAST)
    assert (planned[0].devices, planned[0].cases[0].dtype) == (("cpu", "cuda:0"), "float64")
    assert planned[0].rounds == 3


def test_code_of_a_process_has_starts_and_a_callable_of_this_one_has_one(planned):
    time_on("x @ x", setup="x = torch.rand(n, n)", starts=3, simulate=FAST)
    time_on(lambda: 1, simulate=FAST)
    assert [plan.starts for plan in planned] == [3, 1]
    with pytest.raises(UsageError) as error:
        time_on(lambda: 1, starts=2, simulate=FAST)
    assert "starts 2" in error.value.message


def test_the_usual_starts_are_those_of_the_command(planned, monkeypatch):
    monkeypatch.delenv("CPUGPU_STARTS")
    time_on("x @ x", simulate=FAST)
    assert planned[0].starts == 5


def test_calls_from_two_threads_run_one_after_the_other():
    """Both lambdas stand on one line, so they have one name: one of two calls failed with "Unknown workload"."""
    found: list[object] = []

    def time(what):
        try:
            found.append(time_on(what, 8, simulate=FAST).rows[0].failure)
        except Exception as error:  # noqa: BLE001 - of a thread, to be asserted on
            found.append(error)

    both = [threading.Thread(target=time, args=(what,)) for what in (lambda n: torch.ones(n), lambda n: torch.zeros(n))]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert found == ["", ""]


def test_no_thread_remains_after_a_call():
    """The limit of an answer stayed for a minute after each call, and code that calls again was refused for it."""
    before = set(threading.enumerate())
    time_on("x @ x", 8, simulate=FAST)
    assert set(threading.enumerate()) <= before


def test_a_call_inside_timed_code_is_refused_as_that():
    inner: Callable[[], Any] = lambda: time_on("n + 1", 8, simulate=FAST)  # noqa: E731 - it has no name to import
    row = time_on(inner, 8, device="cpu", rounds=1).rows[0]
    assert "inside code that is being timed" in row.failure
