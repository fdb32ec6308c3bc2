"""Arguments of `crossover` and `time_on`: a value of any type works, or is an error that names the argument."""

import itertools
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
import torch
from tests.helpers.command_line import FAST

from cpugpu_tui import UsageError, crossover, time_on
from cpugpu_tui.api import timing
from cpugpu_tui.model import Plan
from cpugpu_tui.session.own_workloads import OwnWorkloads


class Raising:
    """A foreign object that cannot be used for anything."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __index__(self) -> int:
        raise RuntimeError

    def __iter__(self) -> Any:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError


VALUES: dict[str, Any] = {
    "none": None, "true": True, "zero": 0, "negative": -1, "huge": 10**5_000, "large": 10**400, "nan": float("nan"),
    "infinite": float("inf"), "half": 0.5, "text": "?", "empty": "", "null": "\0", "surrogate": "\ud800",
    "digits": "1" * 400, "long": "x" * 4_000, "bytes": b"16", "bytearray": bytearray(b"16"), "memory": memoryview(b"2"),
    "list": [None], "nested": [[1]], "no list": [],
    "endless": itertools.count(1), "dictionary": {1: 2}, "set": {1.5}, "tensor": torch.ones(3),
    "scalar": torch.tensor(2.5), "decimal": Decimal("0.5"), "fraction": Fraction(1, 3), "complex": 1j,
    "object": object(), "type": int, "function": len, "raising": Raising(), "device": torch.device("meta"),
    "dtype": torch.int8, "module": torch,
}  # fmt: skip

ARGUMENTS = ("what", "n", "setup", "let", "inputs", "dtype", "threads", "device", "in_place", "rounds", "starts",
             "max_seconds", "simulate", "save")  # fmt: skip


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Plans of calls, which are not run."""
    plans: list[Plan] = []

    def plan(asked: Any, sizes: str, *, find_crossover: bool) -> None:
        own = OwnWorkloads(codes=(asked.subject.code,))
        plans.append(timing._plan_of(asked, own, sizes, find_crossover=find_crossover))

    monkeypatch.setattr(timing, "_run_plan", plan)
    return plans


def refusal(call: Callable[..., Any], arguments: dict[str, Any]) -> UsageError | None:
    try:
        call(**arguments)
    except UsageError as error:
        return error
    return None


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("call", [time_on, crossover])
def test_an_argument_of_any_type_works_or_is_a_usage_error(
    call: Callable[..., Any], argument: str, planned: list[Plan]
) -> None:
    """Wrong types raised bare TypeError and AttributeError; `n=b'16'` timed the sizes 49 and 54."""
    for name, value in VALUES.items():
        arguments = {"what": "x @ x", "n": "16:64" if call is crossover else 16, "simulate": FAST, argument: value}
        before = len(planned)
        error = refusal(call, arguments)
        assert error is None or error.remedy, name
        assert "--" not in str(error).replace("`cpugpu-tui export --schema`", ""), f"{name}: there are no options here"
        assert len(str(error)) < 600, name
        assert len(planned) == before + (error is None), name


@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (16, [16]), (torch.tensor(16), [16]), (torch.tensor([16, 32]), [16, 32]), ((16, 32), [16, 32]),
        (range(1, 4), [1, 2, 3]), (16.0, [16]), (["16", 32], [16, 32]), ("16, 1e3", [16, 1000]), (iter([8]), [8]),
    ],
)  # fmt: skip
def test_what_is_a_size_is_taken_as_one(n: Any, sizes: list[int], planned: list[Plan]) -> None:
    time_on("x @ x", n, simulate=FAST)
    assert [case.size for case in planned[0].cases] == sizes


def test_names_of_torch_are_taken_as_names(planned: list[Plan]) -> None:
    time_on("x", dtype=torch.float64, device=[torch.device("cpu"), "cuda:0"], rounds=torch.tensor(3), simulate=FAST)
    assert planned[0].devices == ("cpu", "cuda:0")
    assert planned[0].cases[0].dtype == "float64"
    assert planned[0].rounds == 3


def test_code_of_a_process_has_starts_and_a_callable_of_this_one_has_one(planned: list[Plan]) -> None:
    time_on("x @ x", setup="x = torch.rand(n, n)", starts=3, simulate=FAST)
    time_on(lambda: 1, simulate=FAST)
    assert [plan.starts for plan in planned] == [3, 1]
    with pytest.raises(UsageError) as error:
        time_on(lambda: 1, starts=2, simulate=FAST)
    assert "starts 2" in error.value.message


def test_the_usual_starts_are_those_of_the_command(planned: list[Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CPUGPU_STARTS")
    time_on("x @ x", simulate=FAST)
    assert planned[0].starts == 5


def test_calls_from_two_threads_run_one_after_the_other() -> None:
    """Both lambdas stand on one line, so they have one name: one of two calls failed with "Unknown workload"."""
    found: list[object] = []

    def time(what: Callable[..., Any]) -> None:
        try:
            found.append(time_on(what, 8, simulate=FAST).rows[0].failure)
        except Exception as error:  # noqa: BLE001 - of a thread, to be asserted on
            found.append(error)

    both = [threading.Thread(target=time, args=(what,)) for what in (lambda n: n + 1, lambda n: n * 2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert found == ["", ""]


def test_no_thread_remains_after_a_call() -> None:
    """The limit of an answer stayed for a minute after each call, and code that calls again was refused for it."""
    before = set(threading.enumerate())
    time_on("x @ x", 8, simulate=FAST)
    assert set(threading.enumerate()) <= before


def test_a_call_inside_timed_code_is_refused_as_that() -> None:
    inner: Callable[[], Any] = lambda: time_on("n + 1", 8, simulate=FAST)  # noqa: E731 - it has no name to import
    row = time_on(inner, 8, device="cpu", rounds=1).rows[0]
    assert "inside code that is being timed" in row.failure
