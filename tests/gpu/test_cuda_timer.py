"""On a real GPU: kernel time is below latency, the paper's clock is wrong, memory is freed."""

import gc
from dataclasses import dataclass

import pytest
from tests.helpers.runs.read_back import naive_factor

from cpugpu_tui import model
from cpugpu_tui.agent.main import facts, work
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState
from cpugpu_tui.timing.channel import CallEmitter, Control
from cpugpu_tui.timing.timers.cuda import CudaTimer
from cpugpu_tui.transport.agent_pool import Agents

pytestmark = [pytest.mark.gpu, pytest.mark.alone]
SMALL, MIDDLE, LARGE = model.Case("matmul", 64), model.Case("matmul", 1024), model.Case("matmul", 8192)


@dataclass(frozen=True)
class Timed:
    """A run on the GPU alone, in this process."""

    events: list[model.Event]
    state: RunState

    def gpu(self, case):
        row = self.state.rows[case.key]
        assert row.status == "ok", row.failure
        assert row.gpu is not None
        return row.gpu


def timed(*cases, **more):
    """Run cases on the first GPU."""
    plan = model.Plan("gpu", cases, devices=("cuda:0",), rounds=5, budget_s=1.0, **more)
    events: list[model.Event] = [model.RunStarted(run_id="r", series_id="s", plan=plan, environment={})]
    assert work(plan, facts(simulated=False), CallEmitter(events.append), Control())
    return Timed(events, folded(events))


@pytest.fixture(scope="module")
def run():
    return timed(SMALL, MIDDLE, LARGE)


def median_ns(times, metric):
    return times.median_ns(metric)


def test_a_large_products_hardware_time_is_most_of_the_wait(run):
    times = run.gpu(MIDDLE)
    assert (
        0.4 * median_ns(times, model.LATENCY) < median_ns(times, model.DEVICE) < 1.1 * median_ns(times, model.LATENCY)
    )


def test_a_small_products_wait_is_mostly_launch(run):
    """A plain pair of events would measure the launch, 23 µs on an H200, although the kernel takes 7 µs."""
    times = run.gpu(SMALL)
    assert median_ns(times, model.DEVICE) < 0.7 * median_ns(times, model.LATENCY)
    # What the machine's neighbours do, and how narrow the interval gets, is not this test's business.
    assert not {"starved", "launch-bound", "tf32-on", "clock-unsettled"} & set(times.marks)


def test_the_publications_clock_is_far_off_for_a_large_product(run):
    row = run.state.rows[LARGE.key]
    assert naive_factor(row) > 5
    assert median_ns(run.gpu(LARGE), model.SYNCED) > 0.5 * median_ns(run.gpu(LARGE), model.LATENCY)


def test_the_clock_that_waits_never_reads_less(run):
    for case in (SMALL, MIDDLE, LARGE):
        assert median_ns(run.gpu(case), model.SYNCED) >= median_ns(run.gpu(case), model.AS_WRITTEN)


def test_the_cold_start_is_taken_once_and_is_long(run):
    cold = [
        e.samples[model.COLD_START][0]
        for e in run.events
        if isinstance(e, model.DeviceSampled) and model.COLD_START in e.samples
    ]
    assert len(cold) == 1
    assert cold[0] > 100 * median_ns(run.gpu(SMALL), model.LATENCY)


def test_kernels_are_counted_and_agree_with_the_hardwares_time(run):
    kernels = run.gpu(LARGE).kernels
    assert kernels.elapsed_ns == pytest.approx(median_ns(run.gpu(LARGE), model.DEVICE), rel=0.03)
    assert 1 <= kernels.count <= 3


def test_queued_calls_hide_launches_that_a_caller_waits_for(run):
    assert median_ns(run.gpu(SMALL), model.THROUGHPUT) < median_ns(run.gpu(SMALL), model.LATENCY)


def test_from_host_to_host_costs_more_and_pageable_memory_most(run):
    times = run.gpu(MIDDLE)
    assert median_ns(times, model.LATENCY) < median_ns(times, model.PINNED) < median_ns(times, model.PAGEABLE)


def test_tf32_is_a_precision_of_its_own_and_is_switched_off_again():
    import torch

    tf32, plain = model.Case("matmul", 4096, "tf32"), model.Case("matmul", 4096)
    result = timed(tf32, plain)
    assert median_ns(result.gpu(tf32), model.DEVICE) < 0.6 * median_ns(result.gpu(plain), model.DEVICE)
    assert "tf32-on" not in result.gpu(plain).marks
    assert not torch.backends.cuda.matmul.allow_tf32


def test_a_convolution_in_float32_does_not_use_tf32():
    """As torch allows it by default; the CPU has no such thing."""
    import torch

    x, weight = torch.rand(8, 64, 64, 64, device="cuda"), torch.rand(64, 64, 3, 3, device="cuda")
    exact = torch.nn.functional.conv2d(x.double(), weight.double())
    errors = {}
    for dtype in ("float32", "tf32"):
        timer = CudaTimer(model.Device("cuda:0", "GPU"), cold=False, fresh=False)
        timer._use_precision(model.Case("matmul", 16, dtype))
        errors[dtype] = float(((torch.nn.functional.conv2d(x, weight) - exact) / exact).abs().max())
        timer.close()
    assert errors["float32"] < 1e-5 < errors["tf32"]
    assert torch.backends.cudnn.allow_tf32


def test_an_inherited_tf32_is_named():
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        assert "tf32-on" in timed(MIDDLE).gpu(MIDDLE).marks
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def test_the_clock_is_read_at_each_half_round(run):
    rounds = [event for event in run.events if isinstance(event, model.DeviceSampled) and event.round_index > 0]
    assert all(event.sm_clock_mhz is not None and event.sm_clock_mhz > 300 for event in rounds)


def test_results_were_compared_with_float64(run):
    check = run.state.rows[MIDDLE.key].check
    assert "float64" in check.against
    assert 0 < check.error < 1e-4


def test_cold_caches_cost_the_hardware_time(run):
    """Two 1024² matrices, 8 MB, fit into the L2 cache of known GPUs; after a flush they come from memory."""
    warm = timed(SMALL, MIDDLE, cache="warm")
    assert median_ns(warm.gpu(MIDDLE), model.DEVICE) < median_ns(run.gpu(MIDDLE), model.DEVICE)


@pytest.fixture
def nearly_full_gpu():
    """Leaves 2 GB free."""
    import torch

    torch.cuda.empty_cache()
    free_bytes, _ = torch.cuda.mem_get_info("cuda:0")
    ballast = torch.empty(int(free_bytes - 2e9), dtype=torch.int8, device="cuda:0")
    yield
    del ballast
    torch.cuda.empty_cache()


def test_what_does_not_fit_is_a_row_and_the_rest_goes_on(nearly_full_gpu):
    """Three matrices of 16384² are 3.2 GB."""
    too_large = model.Case("matmul", 16384)
    result = timed(too_large, SMALL)
    failure = result.state.rows[too_large.key].failure
    assert failure.kind == "oom"
    assert "3.22 GB" in failure.message
    assert "cuda:0" in failure.message
    result.gpu(SMALL)
    end = result.events[-1]
    assert end.status == "done"


def test_memory_is_returned_when_a_run_is_over():
    import torch

    gc.collect()
    before_bytes = torch.cuda.memory_allocated("cuda:0")
    timed(MIDDLE, LARGE)
    gc.collect()
    assert torch.cuda.memory_allocated("cuda:0") == before_bytes


def test_an_agent_times_both_and_holds_no_gpu_afterwards():
    import pynvml

    agents = Agents()
    events: list[model.Event] = []
    plan = model.Plan("gpu", (SMALL, MIDDLE), rounds=5, budget_s=0.5)
    try:
        finished = Session(plan, agents).run(events.append)
        pids = agents.pids()
    finally:
        agents.close()
    assert (finished.status, finished.exit_code) == ("done", 0)
    assert not [event for event in events if isinstance(event, model.CaseFailed)]
    devices = {event.device for event in events if isinstance(event, model.DeviceSampled)}
    assert devices == {"cpu", "cuda:0"}
    pynvml.nvmlInit()
    try:
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        on_gpu = {process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)}
    finally:
        pynvml.nvmlShutdown()
    assert not on_gpu & pids


def test_a_gpu_beyond_the_last_is_said():
    plan = model.Plan("gpu", (SMALL,), devices=("cuda:77",))
    events: list[model.Event] = []
    assert work(plan, facts(simulated=False), CallEmitter(events.append), Control())
    (end,) = events
    assert "cuda:77" in end.message
    assert "cuda:0" in end.remedy
