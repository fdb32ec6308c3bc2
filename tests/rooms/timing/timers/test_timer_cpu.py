"""The CPU timer on real tensors: calls, their number and threads. No test judges a time."""

from typing import Any

import pytest
import torch
from tests.helpers.runs.typed_code import typed_workload
from threadpoolctl import threadpool_info

from cpugpu_tui.model import AS_WRITTEN, COLD_START, SYNCED, Case, Device
from cpugpu_tui.timing.timers.cpu import CpuTimer
from cpugpu_tui.timing.timers.timed_operation import operation, time_written
from cpugpu_tui.workloads import find

CPU = Device("cpu", "Xeon")


class Counted:
    """A step that records its calls and their arguments."""

    def __init__(self):
        self.calls = 0
        self.out_ids: set[int | None] = set()
        self.threads: set[int] = set()

    def __call__(self, a, b, *, out=None):
        self.calls += 1
        self.out_ids.add(None if out is None else id(out))
        self.threads.add(torch.get_num_threads())
        return torch.matmul(a, b, out=out)


def timer_and_operation(case=None, *, cold=False, cores=2):
    case = case or Case("matmul", 8, threads=1)
    timer = CpuTimer(CPU, 1 << 16, 2, cores, cold=cold, fresh=True)
    inputs = find(case.workload).inputs(case.size, torch.float32, torch.Generator().manual_seed(1))
    op, step = timer.load(case, inputs), Counted()
    op.step = step
    return timer, op, step


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_a_block_calls_so_often_and_allocates_afresh():
    timer, op, step = timer_and_operation()
    assert timer.latency_block(op, 7) > 0
    assert (step.calls, step.out_ids) == (7, {None})


def test_the_first_call_is_one_call_and_its_result_is_kept_to_write_into():
    timer, op, step = timer_and_operation()
    first = timer.first_call(op)
    assert step.calls == 1
    assert set(first.singles) == {COLD_START, AS_WRITTEN, SYNCED}
    assert first.singles[AS_WRITTEN] == first.singles[SYNCED] == (first.elapsed_ns,)
    assert torch.equal(first.result, op.inputs[0] @ op.inputs[1])
    samples = timer.device_samples(op, 3)
    assert len(samples.elapsed_ns) == 3
    assert step.out_ids == {None, id(op.out)}
    assert COLD_START not in timer.first_call(op).singles


def test_publication_2s_total_is_of_ten_calls_after_ten_that_make_their_inputs(monkeypatch):
    case = Case("vector-dot", 8, threads=1, variant="matmul")
    timer, op, step = timer_and_operation(case)
    report: Any = None
    written: list[tuple[Any, ...]] = []

    def note(*arguments):
        written.append(arguments)
        return {}

    monkeypatch.setattr(op.workload, "written", note)
    assert set(timer.first_call(op).singles) == {COLD_START}, "the first call is not what P2 timed"
    singles = time_written(case, "cpu", report, None, 0.0)
    assert step.calls == 1
    assert written == [("matmul", 8, torch.float32, "cpu", report)] * 20
    assert set(singles) == {AS_WRITTEN, SYNCED}


@pytest.mark.parametrize(("threads", "in_force"), [(1, 1), (0, 2)])
def test_the_cases_threads_are_in_force_whenever_it_is_called(threads, in_force):
    timer, op, step = timer_and_operation(Case("matmul", 8, threads=threads))

    def half_round(op):
        timer.ready(op, 1)
        timer.latency_block(op, 1)
        timer.device_samples(op, 1)

    for call in (timer.first_call, half_round):
        torch.set_num_threads(3)  # another case ran in between
        call(op)
    assert step.threads == {in_force}
    assert timer.threads() == in_force


def test_cold_caches_are_flushed_before_each_sample_and_warm_ones_are_not():
    for cold, walks in ((True, 3), (False, 0)):
        timer, op, _ = timer_and_operation(cold=cold)
        timer.device_samples(op, 3)
        buffer = timer._flush_buffer
        assert (0 if buffer is None else int(buffer[0]) - 1) == walks


def test_inputs_that_the_step_changes_are_restored_before_each_call():
    timer, op, step = timer_and_operation()
    restored: list[int] = []
    op.restore = lambda: restored.append(step.calls)
    for timed in (timer.latency_block, timer.singles, timer.device_samples):
        restored.clear()
        step.calls = 0
        timed(op, 3)
        assert (restored, step.calls) == ([0, 1, 2], 3), timed


def test_out_is_used_only_where_a_step_takes_it():
    timer = CpuTimer(CPU, 0, 1, 1, cold=False, fresh=True)
    case = Case("vector-dot", 8, threads=1, variant="dot")
    op = operation(case, find("vector-dot").inputs(8, torch.float32, torch.Generator()), "cpu")
    assert not op.takes_out
    timer.first_call(op)
    assert op.out is None
    assert len(timer.device_samples(op, 2).elapsed_ns) == 2


def test_a_product_is_timed_as_torchs_own_function_without_a_method_around_it():
    """A Python method takes 0.25 us, which `torch.utils.benchmark` does not see."""
    timer = CpuTimer(CPU, 0, 1, 1, cold=False, fresh=True)
    case = Case("matmul", 8, threads=1)
    op = timer.load(case, find("matmul").inputs(8, torch.float32, torch.Generator()))
    assert op.step is torch.matmul
    timer.first_call(op)
    assert op.out is not None


# ------------------------------------------------------------------ planted faults are named


def test_one_thread_on_many_cores_is_named():
    timer, op, _ = timer_and_operation(cores=16)
    assert timer.ready(op, 1).marks == ("one-thread",)
    timer, op, _ = timer_and_operation(cores=1)
    assert timer.ready(op, 1).marks == ()


def test_denormals_are_named_where_they_are_not_flushed():
    timer, op, _ = timer_and_operation(cores=1)
    op.host_inputs = (torch.full((8, 8), 1e-40), op.host_inputs[1])
    try:
        assert torch.set_flush_denormal(False)
        assert timer.ready(op, 1).marks == ("denormals",)
        op.marks = None
        torch.set_flush_denormal(True)
        assert timer.ready(op, 1).marks == ()
    finally:
        torch.set_flush_denormal(False)


class Buffer:
    """Memory whose flushes record torch's threads."""

    def __init__(self):
        self.threads = []

    def add_(self, _one):
        self.threads.append(torch.get_num_threads())


@pytest.mark.parametrize(("runs_torch", "threads"), [(True, 2), (False, 1)])
def test_beside_code_without_torch_one_thread_flushes_the_caches(monkeypatch, runs_torch, threads):
    timer, op, step = timer_and_operation(Case("matmul", 8, threads=2), cold=True)
    op.runs_torch, buffer = runs_torch, Buffer()
    monkeypatch.setattr(torch, "ones", lambda *_args, **_keywords: buffer)
    timer.device_samples(op, 2)
    assert (buffer.threads, step.threads) == ([threads, threads], {2})


def test_asked_threads_are_those_of_numpy_too():
    workload = typed_workload("x @ x", "x = np.random.rand(n, n)")
    timer = CpuTimer(CPU, 0, 2, 2, cold=False, fresh=True)
    inputs = workload.inputs(8, torch.float32, torch.Generator().manual_seed(1))
    found = []
    for threads in (1, 2):
        op = timer.load(Case(workload.name, 8, threads=threads), inputs)
        op.runs_torch = False
        timer.latency_block(op, 1)
        found.append({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
        assert (timer.on_one_thread(op) is None) == (threads == 1)
    assert found == [{1}, {2}]
