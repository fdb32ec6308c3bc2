"""Two implementations, one for each device: what is refused by name, what is compared, and whose kernels are timed.

Without a GPU, NumPy plays the library of the device `cuda:0`: its arrays lie where they are made.
"""

from __future__ import annotations

from array import array
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.runs.typed_code import operation_of

from cpugpu_tui.model import Case, CaseFailed, Event
from cpugpu_tui.timing.channel import CallEmitter
from cpugpu_tui.timing.last_passes import profile_cases
from cpugpu_tui.timing.result_check import check_sides, examine_side, is_stream_seen, library_of
from cpugpu_tui.timing.timers import CaseError
from cpugpu_tui.workloads.containers import as_tensor
from cpugpu_tui.workloads.contract import REGISTRY
from cpugpu_tui.workloads.own_code import own_code, two_sides
from cpugpu_tui.workloads.two_implementations import TwoImplementations

GPU = "cuda:0"
SETUP = "x = np.random.rand(n, n)"


def pair(cpu, gpu, setup=SETUP):
    workload = TwoImplementations(two_sides(own_code(cpu, setup), own_code(gpu, setup)))
    REGISTRY[workload.name] = workload
    return workload


def loaded(workload, device, n=8):
    op = operation_of(workload, n, device)
    op.step(*op.inputs)
    return op


def traced(gpu, setup=SETUP):
    workload = pair("x @ x", gpu, setup)
    op = loaded(workload, GPU)
    return examine_side(op, workload, GPU, lambda: None), op


@pytest.mark.parametrize(
    ("code", "setup", "reason"),
    [
        ("f(x)", f"{SETUP}\nkept = {{}}\nf = lambda x: kept.setdefault(0, x @ x)", None),  # a cache of this set-up
        ("keep(x)", f"{SETUP}\nimport builtins\nkept = vars(builtins).setdefault('_kept', {{}})\n"
         "keep = lambda x: kept.setdefault(0, x @ x)", "it is cached"),
        ("np.add(x, 1, out=x)", SETUP, "changes its inputs"),
        ("(row for row in x)", SETUP, "returns a generator, which has computed nothing yet"),
    ],
)  # fmt: skip
def test_a_trap_is_refused_by_the_name_of_the_implementation(code, setup, reason):
    if reason is None:
        traced(code, setup)
        return
    with pytest.raises(CaseError, match=reason) as error:
        traced(code, setup)
    assert error.value.kind == "refused"
    assert error.value.message.startswith(code)


def test_results_are_compared_by_the_names_of_both():
    workload = pair("x @ x", "x @ x * 1.1")
    case = Case(workload.name, 8)
    results: dict[str, Any] = {"cpu": np.ones(4), GPU: torch.ones(4) * 1.1}
    with pytest.raises(CaseError, match=r"The results of x @ x \* 1.1 differ from x @ x by 0\.1") as error:
        check_sides(case, workload, results)
    assert error.value.kind == "mismatch"
    check = check_sides(case, workload, {"cpu": np.ones(4), GPU: array("d", [1, 1, 1, 1])})
    assert check.error == 0
    assert check_sides(case, workload, {"cpu": np.ones(4), GPU: "four ones"}) is None


def test_what_cannot_be_compared_says_so():
    found, _ = traced("'four ones'")
    assert found.not_compared.startswith("the result of 'four ones' is str, which has no DLPack")
    found, _ = traced("np.random.rand(4)")
    assert found.not_compared == "np.random.rand(4) draws random numbers"


class Late:
    """An array whose call returns before its work is queued, as JAX's."""

    def __init__(self, values):
        self.values, self.waited = values, 0

    def __array__(self):
        return np.asarray(self.values)

    def block_until_ready(self):
        self.waited += 1
        return self


def test_the_result_of_a_library_that_returns_early_is_waited_for(monkeypatch):
    """Only its own: on an H100 the second size of a pair of NumPy and JAX failed, because NumPy was waited for, too."""
    monkeypatch.setattr(np, "late", Late, raising=False)
    workload = pair("x @ x", "np.late(x @ x)")
    op = loaded(workload, GPU)
    found = examine_side(op, workload, GPU, lambda: None)
    on_cpu, second = loaded(workload, "cpu", 9), loaded(workload, GPU, 9)
    assert on_cpu.step(*on_cpu.inputs).shape == (9, 9)
    assert second.step(*second.inputs).waited == 1
    assert op.step(*op.inputs).waited == 1
    assert found.not_compared == ""
    assert not op.stream_seen
    assert op.waits_for_all


def test_every_array_of_a_result_is_waited_for_and_nothing_else(monkeypatch):
    """A dict, or a number beside an array, ended the run with an AttributeError."""
    monkeypatch.setattr(np, "late", Late, raising=False)
    workload = pair("[x @ x, x @ x]", "{'one': np.late(x @ x), 'rest': (np.late(x @ x), 1.0)}")
    op = loaded(workload, GPU)
    examine_side(op, workload, GPU, lambda: None)
    found = op.step(*op.inputs)
    assert (found["one"].waited, found["rest"][0].waited, found["rest"][1]) == (1, 1, 1.0)


@pytest.mark.parametrize(("pointer", "is_seen"), [(0, True), (7, False)])
def test_kernel_times_need_the_stream_of_torch(pointer, is_seen, monkeypatch):
    cupy: Any = ModuleType("cupy")
    cupy.cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=pointer))
    monkeypatch.setitem(__import__("sys").modules, "cupy", cupy)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    assert is_stream_seen("cupy", uses_side_stream=False) == is_seen
    assert is_stream_seen("torch", uses_side_stream=False)
    assert not is_stream_seen("torch", uses_side_stream=True)
    assert not is_stream_seen("numba", uses_side_stream=False)


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        (np.array([1, 2], dtype=np.uint16), [1, 2]),
        (np.frombuffer(b"\x01\x02", dtype=np.uint8), [1, 2]),  # read-only
        (memoryview(array("f", [1, 2])), [1, 2]),
        (torch.ones(2).numpy(), [1, 1]),
    ],
)
def test_arrays_of_any_library_are_read(value, numbers):
    assert as_tensor(value).tolist() == numbers


def test_text_is_no_array_and_the_library_is_that_of_the_result():
    assert as_tensor("text") is None
    assert as_tensor(np.array(["text"])) is None
    assert library_of({"a": [np.ones(2)]}) == "numpy"
    assert library_of(2.0) == ""


def test_an_implementation_that_ran_no_kernel_is_refused_by_name():
    workload = pair("x @ x", "x.dot(x)")
    case, events = Case(workload.name, 8), list[Event]()
    timer = SimpleNamespace(load=lambda _case, _inputs: loaded(workload, GPU), kernels=lambda _op: None)
    machine: Any = SimpleNamespace(
        devices=[SimpleNamespace(name=GPU, is_cpu=False)], timer=lambda _name: timer, make_inputs=lambda _case: (),
    )  # fmt: skip
    profile_cases([case], machine, CallEmitter(events.append), lambda: False)  # type: ignore[arg-type]
    failed = [event for event in events if isinstance(event, CaseFailed)]
    assert [(each.kind, each.message) for each in failed] == [
        ("refused", "x.dot(x) never used the GPU: no kernel ran in a call.")
    ]


def test_a_library_that_only_the_other_device_needs_is_not_imported():
    setup = "import no_such_library\nx = no_such_library.ones(n)"
    workload = TwoImplementations(two_sides(own_code("x @ x", SETUP), own_code("x @ x", setup)))
    REGISTRY[workload.name] = workload
    loaded(workload, "cpu")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        loaded(workload, GPU)
