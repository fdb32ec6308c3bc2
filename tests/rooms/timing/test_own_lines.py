"""Lines of typed code: which cost most, and why. Expected reasons hold on any CPU; times are only compared in order."""

import dataclasses
import sys
from collections import Counter

import pytest
from tests.helpers.runs.recorder import Recorder, SpiedMachine, plan_of
from tests.helpers.runs.typed_code import line, operation_of, typed_workload

from cpugpu_tui.model import Case, DeviceSampled, KernelsProfiled, LinesProfiled, Progressed
from cpugpu_tui.model.line_costs import COPY, FALLBACK, LOOP, MOST_LINES, OUTSIDE, SMALL, WAIT, WORK
from cpugpu_tui.timing import own_lines
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.last_passes import profile_lines
from cpugpu_tui.timing.own_lines import LineOperators, reason_of
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.workloads.own_code import own_code
from cpugpu_tui.workloads.two_implementations import register

FILE = """\
import numpy as np
import torch

def inputs(n):
    return torch.rand(n, 8)

def loop(x):
    total = torch.zeros(8)
    for row in x:
        total = total + row * 2
    return total @ total

def item(x):
    y = x.sum()
    s = y.item()
    return x[0] * s

def mask(x):
    wanted = x > 0.5
    return x[wanted]

def many(x):
    return x.sin().cos().sin().cos().sin().cos().sin().cos().sin().cos()

def outside(x):
    np.linalg.svd(np.ones((64, 64)))
    return x + 1

def helped(x):
    return double(x) + 1

def double(x):
    return x * 2

def printing(x):
    text = str(x)
    return x + len(text)

def trained(x):
    w = torch.ones(8, requires_grad=True)
    loss = (x @ w).sum()
    loss.backward()
    return w.grad * 1

def after(x):
    return double(x) + float(np.linalg.svd(np.ones((64, 64)))[1][0])

def reading(x):
    for _ in range(64):
        s = x[0, 0].item()
    return x * s
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_model.py"
    path.write_text(FILE)
    return path


def profiled(statement, *setup, n=4, in_place=False, lets=()):
    workload = typed_workload(statement, *setup, lets=lets, in_place=in_place)
    return own_lines.profile_lines(operation_of(workload, n), workload, "cpu", None)


def test_a_loop_is_named_with_its_line_and_lines_are_sorted_by_share(file):
    """On a busy machine taking the rows apart may take longer than the body, so no line is expected to be first."""
    found = profiled(f"{file}:loop", n=400)
    body = line(found, "total + row")
    assert (body.file, body.line, body.source_line) == ("my_model.py", 10, "total = total + row * 2")
    assert (body.reason, body.visits, body.operators) == (LOOP, 400, 800)
    assert [each.share for each in found.lines] == sorted((each.share for each in found.lines), reverse=True)
    assert 0.2 < sum(each.share for each in found.lines) <= 1.01
    assert len(found.lines) <= MOST_LINES


@pytest.mark.parametrize(
    ("function", "text", "number", "reason"),
    [
        ("item", "y.item()", 15, WAIT),
        ("mask", "x[wanted]", 20, WAIT),
        ("many", "x.sin()", 23, SMALL),
        ("outside", "svd", 26, OUTSIDE),
        ("helped", "x * 2", 33, WORK),
        ("printing", "str(x)", 36, WAIT),
        ("reading", "x[0, 0].item()", 50, LOOP),
    ],
)
def test_a_line_has_the_reason_for_its_cost(file, function, text, number, reason):
    cost = line(profiled(f"{file}:{function}"), text)
    assert (cost.line, cost.reason) == (number, reason)
    assert cost.synchronisations == {WAIT: 1, LOOP: 64}.get(reason, 0)
    assert cost.elapsed_ns > 0


def test_a_called_line_counts_for_itself_and_not_for_its_caller(file):
    found = profiled(f"{file}:helped")
    assert [line(found, text).operators for text in ("double(x) + 1", "x * 2")] == [1, 1]


def test_a_backward_pass_belongs_to_the_line_that_asks_for_it(file):
    assert line(profiled(f"{file}:trained"), "loss.backward()").operators >= 2


def test_a_statement_and_functions_of_the_setup_are_lines_too():
    found = profiled("f(x) + 1", "x = torch.rand(n, n)", "def f(x):", "    return x.exp()", n=64)
    assert {(each.file, each.line, each.source_line) for each in found.lines} == {
        ("statement", 1, "f(x) + 1"), ("setup", 3, "return x.exp()"),
    }  # fmt: skip


def test_a_call_that_changes_its_inputs_begins_with_the_same_ones():
    """Without that, the seventh call would find an empty tensor and do nothing."""
    found = profiled(
        "f(x)", "x = torch.ones(n)", "def f(x):", "    for _ in range(int(x[0].item() * 10)): y = x.mul_(0)",
        "    return y", in_place=True,
    )  # fmt: skip
    assert line(found, "x.mul_(0)").visits >= 10


def test_the_tracer_of_a_debugger_is_put_back(file):
    before = sys.gettrace()
    tracer = lambda *_: None  # noqa: E731
    sys.settrace(tracer)
    try:
        profiled(f"{file}:item")
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_a_long_loop_is_traced_only_for_a_while(file, monkeypatch):
    monkeypatch.setattr(own_lines, "LONGEST_TRACE_NS", 0.0)
    assert sum(each.visits for each in profiled(f"{file}:loop", n=400).lines) <= 2


def seen(counts, role_ns, **more):
    return LineOperators(Counter(role_ns), Counter(counts), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("operators", "elapsed_ns", "visits", "reason"),
    [
        (seen({WORK: 1, WAIT: 1}, {WORK: 1e4, WAIT: 3e5}), 3.4e5, 1, WAIT),
        (seen({WORK: 64, WAIT: 64}, {WORK: 2e5, WAIT: 4e5}), 9e5, 64, WAIT),
        (seen({WORK: 128, WAIT: 64}, {WORK: 6e5, WAIT: 4e5}), 1.2e6, 64, WAIT),
        (seen({WORK: 128, WAIT: 1}, {WORK: 6e5, WAIT: 1e4}), 1.2e6, 64, LOOP),
        (seen({COPY: 1}, {COPY: 1e6}, bytes_to_gpu=4096), 1e6, 1, COPY),
        (seen({FALLBACK: 1, COPY: 1}, {FALLBACK: 1e6, COPY: 2e5}), 1.3e6, 1, FALLBACK),
        (seen({WORK: 20}, {WORK: 1e5}, device_ns=2e5), 2e5, 1, SMALL),
        (seen({WORK: 64}, {WORK: 3e5}), 4e5, 64, LOOP),
        (seen({WORK: 64}, {WORK: 3e5}, device_ns=1e9), 4e5, 64, WORK),
        (seen({WORK: 1}, {WORK: 1e4}, device_ns=1e7), 2e4, 1, WORK),
        (seen({WORK: 1}, {WORK: 1e4}, elapsed_ns=1e6), 1e6, 1, OUTSIDE),
        (seen({}, {}), 1e6, 64, LOOP),
        (seen({WORK: 1}, {WORK: 1e4}, elapsed_ns=1e6, prints=1), 1e6, 1, WAIT),
    ],
    ids=["wait", "waits in a loop", "short waits in a loop", "one wait in a loop", "copy", "fall-back", "small",
         "loop", "loop of long kernels", "long kernel", "numpy", "plain loop", "printed"],
)  # fmt: skip
def test_the_reason_on_a_gpu(operators, elapsed_ns, visits, reason):
    assert reason_of(operators, elapsed_ns, visits, own_lines.SMALL_NS, on_gpu=True) == reason


def test_a_pause_of_the_process_is_not_the_work_of_a_line():
    """A loop of 4 visits, paused for 24 ms at another place in each call; work that is long in all calls counts."""
    calls = [own_lines.Durations() for _ in range(3)]
    for index, call in enumerate(calls):
        for visit in range(4):
            call.add(24e6 if visit == index else 1e6 if visit == 3 else 5e3)
    assert own_lines.undisturbed_ns(calls) == 1e6 + 3 * 5e3
    assert own_lines.undisturbed_ns([None, calls[0]]) == 24e6 + 1e6 + 2 * 5e3


# ------------------------------------------------------------------ when it is done


class LineMachine(SpiedMachine):
    """A simulated machine whose code has one line; the first device fails."""

    def profile_lines(self, op, device):  # type: ignore[override]
        if device == "cpu":
            raise RuntimeError
        return LinesProfiled(case=op.case.key, device=device, lines=(), profiled_ns=2.0, unprofiled_ns=1.0)


def test_lines_come_after_every_time_and_before_the_kernels():
    code = own_code("x @ x", "x = torch.rand(n, n)")
    plan = plan_of(codes=(code,), metrics=("latency", "kernels"))
    plan = dataclasses.replace(plan, cases=(Case("matmul", 64), Case(code.name, 64), Case(code.name, 128)))
    register(plan.codes)
    recorder = Recorder()
    assert Scheduler(plan, LineMachine(plan, recorder), recorder, Control()).run() == "done"
    kinds = [type(event) for event in recorder.of(DeviceSampled, LinesProfiled, KernelsProfiled)]
    assert kinds == sorted(kinds, key=[DeviceSampled, LinesProfiled, KernelsProfiled].index)
    assert [(event.case, event.device) for event in recorder.of(LinesProfiled)] == [
        (case.key, "cuda:0") for case in plan.cases[1:]
    ]


def test_only_devices_that_timed_the_case_are_profiled_and_a_stop_ends_it():
    plan, recorder = plan_of(64), Recorder()
    machine = LineMachine(plan, recorder)
    profile_lines([(plan.cases[0], ("cuda:0",))], machine, recorder, lambda: False)
    assert [event.device for event in recorder.of(Progressed, LinesProfiled)] == ["cuda:0", "cuda:0"]
    profile_lines([(plan.cases[0], ("cuda:0",))], machine, recorder, lambda: True)
    assert len(recorder.of(LinesProfiled)) == 1
