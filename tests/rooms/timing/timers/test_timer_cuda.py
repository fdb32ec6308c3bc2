"""The GPU timer's decisions, without a GPU: length of the spin, and handling of starved batches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cpugpu_tui.model import Case, Device
from cpugpu_tui.timing.timers import CaseError, DeviceSamples
from cpugpu_tui.timing.timers import cuda as cuda_module
from cpugpu_tui.timing.timers.cuda import SPIN_CAP_NS, SPIN_MARGIN_NS, CudaTimer, require_memory
from cpugpu_tui.timing.timers.timed_operation import Operation, copier
from cpugpu_tui.workloads import find
from cpugpu_tui.workloads.containers import tensors

GPU = Device("cuda:0", "H200")
"""(count, spin) → whether the stream ran dry."""

OP: Any = SimpleNamespace(waits_for_all=False)


def timer(enqueue_ns, starves):
    """Return a timer with fake batches, and the list of its requests."""
    made = CudaTimer.__new__(CudaTimer)  # __init__ creates a CUDA context
    made.device = GPU
    made._enqueue_ns = enqueue_ns
    asked: list[tuple[int, float]] = []

    def batch(op, count, spin_ns):
        asked.append((count, spin_ns))
        return DeviceSamples((), ("launch-bound",)) if starves(count, spin_ns) else DeviceSamples((5000.0,) * count)

    made._batch = batch  # type: ignore[method-assign]
    return made, asked


def test_a_backlog_that_holds_gives_all_samples_unmarked():
    made, asked = timer(10_000.0, lambda count, spin_ns: False)
    assert made.device_samples(OP, 20) == DeviceSamples((5000.0,) * 20)
    assert asked == [(20, 1.5 * 10_000 + SPIN_MARGIN_NS)]


def test_a_starved_batch_is_redone_behind_twice_the_spin_and_then_forgotten():
    made, asked = timer(10_000.0, lambda count, spin_ns: spin_ns < 200_000)
    samples = made.device_samples(OP, 20)
    assert [spin_ns for _, spin_ns in asked] == [65_000, 130_000, 260_000]
    assert samples == DeviceSamples((5000.0,) * 20)


def test_what_starves_behind_the_longest_spin_is_launch_bound_and_has_no_sample():
    made, asked = timer(10_000.0, lambda count, spin_ns: True)
    assert made.device_samples(OP, 20) == DeviceSamples((), ("launch-bound",))
    spins = [spin_ns for _, spin_ns in asked]
    assert spins == sorted(spins)
    assert max(spins) == SPIN_CAP_NS
    assert len(asked) < 12


# ------------------------------------------------------------------ a stream that is made up


class FakeEvent:
    """An event of a fake stream; it occurs once the stream's spin has ended."""

    def __init__(self, stream):
        self.stream = stream
        self.at_ns = 0.0

    def record(self):
        self.stream.log.append("event")
        self.at_ns = self.stream.busy_until_ns

    def query(self):
        return self.at_ns <= self.stream.now_ns

    def elapsed_time(self, end):
        return (end.at_ns - self.at_ns) / 1e6


class FakeStream:
    """A fake stream with host and GPU clocks: queueing takes 10 µs on the host, a kernel 5 µs on the GPU."""

    def __init__(self):
        self.now_ns = self.busy_until_ns = 0.0
        self.log: list[str] = []

    def queue(self, what, kernel_ns):
        self.log.append(what)
        self.now_ns += 10_000
        self.busy_until_ns = max(self.busy_until_ns, self.now_ns) + kernel_ns

    def synchronize(self):
        self.now_ns = max(self.now_ns, self.busy_until_ns)

    def query(self):
        return self.busy_until_ns <= self.now_ns


class FakeBuffer:
    def __init__(self, stream):
        self.stream = stream

    def zero_(self):
        self.stream.queue("flush", 20_000)


@pytest.fixture
def streamed(monkeypatch):
    """A timer on a fake stream with cold caches, and an operation of 5 µs."""
    stream = FakeStream()
    made = CudaTimer.__new__(CudaTimer)
    made.device, made._stream, made._cycles_per_ns, made._enqueue_ns = GPU, stream, 2.0, 60_000.0  # type: ignore[assignment]
    made._flush_bytes, made._flush_buffer = 1, FakeBuffer(stream)
    monkeypatch.setattr(cuda_module, "timing_event", lambda: FakeEvent(stream))
    monkeypatch.setattr(cuda_module, "spin", lambda cycles: stream.queue("spin", cycles / 2.0))
    monkeypatch.setattr(cuda_module, "perf_counter_ns", lambda: int(stream.now_ns))
    monkeypatch.setattr(torch.cuda, "set_device", lambda name: None)

    def step():
        stream.queue("call", 5_000)

    return made, Operation(Case("matmul", 1), find("matmul"), step, (), ()), stream


def test_each_pair_spans_one_call_alone(streamed):
    """The flush and the launch are hidden behind the spin, so they are not included."""
    made, op, stream = streamed
    samples = made.device_samples(op, 4)
    assert (samples.elapsed_ns, samples.marks) == (pytest.approx((5_000.0,) * 4), ())
    assert stream.log == ["spin", "flush", "event", "call", "event"] * 4


def test_the_spin_is_made_from_what_queueing_really_took(streamed):
    made, op, _ = streamed
    made.device_samples(op, 4)
    assert made._enqueue_ns == pytest.approx(30_000)


def test_a_stream_that_runs_dry_is_noticed(streamed, monkeypatch):
    """Without a spin, the start event occurs before its call is queued, so the pair would time the launch."""
    made, op, stream = streamed
    monkeypatch.setattr(cuda_module, "spin", lambda cycles: stream.queue("spin", 0.0))
    made._flush_bytes = 0
    assert made.device_samples(op, 4) == DeviceSamples((), ("launch-bound",))


def test_a_call_that_waits_for_the_gpu_by_itself_is_blocking(streamed):
    """A pageable copy of 400 MB was called launch-bound on an H200: the longest spin ends before it returns."""
    made, op, stream = streamed
    op.step = lambda: (stream.queue("call", 5_000), stream.synchronize())
    assert made.device_samples(op, 4) == DeviceSamples((), ("blocking",))


def test_inputs_that_the_step_changes_are_restored_before_each_call(streamed):
    made, op, stream = streamed
    op.restore = lambda: stream.log.append("restore")
    for timed in (made.latency_block, made.singles, made.device_samples):
        stream.log.clear()
        timed(op, 3)
        order = [word for word in stream.log if word in ("restore", "call")]
        assert order == ["restore", "call"] * 3, timed
    assert made.throughput_block(op, 3) is None


def test_results_of_every_form_and_size_are_copied_into_buffers_of_their_own():
    small, large = torch.ones(3), torch.arange(12.0).reshape(4, 3)
    for results in ((small, large, small[:2], small), ((small, [large]), (large, [small]), (small[:1], [large]))):
        copy_back = copier(results[0], pinned=False)
        for result in results:
            copied = list(tensors(copy_back(result, non_blocking=False)))
            assert [target.tolist() for target in copied] == [each.tolist() for each in tensors(result)]
            assert all(target is not each for target, each in zip(copied, tensors(result), strict=True))


@pytest.mark.parametrize("name", ["layernorm", "transformer", "conv2d", "matmul"])
def test_weights_stay_on_the_device_while_the_other_inputs_are_copied(name):
    """With the host as device, where a copy of a plain tensor is the tensor itself."""
    item, made = find(name), timer(0.0, lambda count, spin_ns: False)[0]
    made.device = Device("cpu", "host")
    variant = next(iter(item.steps()))
    first, later = (item.inputs(8, torch.float32, torch.Generator().manual_seed(seed)) for seed in (1, 2))
    op = Operation(Case(name, 8, variant=variant), item, item.step, item.place(variant, first, "cpu"), first)
    placed = made._copy_inputs(op, later)
    assert [each is kept for each, kept in zip(placed, op.inputs, strict=True)] == [
        at < item.stays for at in range(len(first))
    ]
    assert torch.equal(placed[-1], later[-1])


# ------------------------------------------------------------------ memory


def test_what_does_not_fit_on_the_gpu_is_refused_before_it_is_tried(monkeypatch, words):
    """12 GB are free, and 4 GB more once torch has freed its cached blocks."""

    free = [12e9]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda name: (free[0], 16e9))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: free.__setitem__(0, 16e9))
    require_memory(GPU, 15.9e9)
    with pytest.raises(CaseError) as caught:
        require_memory(GPU, 18.4e9)
    assert caught.value.kind == "oom"
    words(caught.value.message)
