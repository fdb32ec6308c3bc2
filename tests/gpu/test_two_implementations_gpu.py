"""A different implementation on each device, on a real GPU: times agree with those by hand, wrong results are refused.

NumPy against CuPy, NumPy against JAX, and eager torch against a Triton kernel. What is not installed is skipped.
"""

import importlib
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import pytest
import torch

from cpugpu_tui.decide.stats import median
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK
from cpugpu_tui.model import Case as PlannedCase
from cpugpu_tui.model import CaseFailed, KernelsProfiled, Plan
from cpugpu_tui.timing.result_check import check_sides
from cpugpu_tui.timing.torch_machine import TorchMachine
from cpugpu_tui.workloads.contract import REGISTRY
from cpugpu_tui.workloads.own_code import own_code, two_sides
from cpugpu_tui.workloads.two_implementations import TwoImplementations

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

GPU = "cuda:0"
WITHIN = 0.03
TURNS = 61
BLOCK_NS = 4e6
"""Length of a block of calls, ns."""

TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def scaled(source, target, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(source + place, mask=place < count)
    tl.store(target + place, tl.maximum(x * 3 - 1, 0), mask=place < count)


def inputs(n):
    return torch.rand(n)


def eager(x):
    return (x * 3 - 1).relu()


def fused(x):
    target = torch.empty_like(x)
    scaled[(triton.cdiv(x.numel(), 1024),)](x, target, x.numel(), BLOCK=1024)
    return target


def wrong(x):
    return fused(x) * 1.1
"""

NUMPY = "x = np.random.rand(n, n).astype('float32')"
PAIRS = {
    "cupy": (("x @ x", NUMPY), ("y @ y", f"{NUMPY}\nimport cupy\ny = cupy.asarray(x)"), (256, 512, 1024)),
    "jax": (("x @ x", NUMPY), ("product(y)", f"{NUMPY}\nimport jax\ny = jax.device_put(x)\n"
                               "product = jax.jit(lambda a: a @ a)"), (256, 512, 1024)),
    "triton": (("FILE:eager", ""), ("FILE:fused", ""), (1 << 22, 1 << 24, 1 << 26)),
}  # fmt: skip
"""Library on the GPU → code and set-up of the CPU, those of the GPU, and sizes."""


def wait_for(library):
    """Return how a person waits for a call."""
    stream: Any = torch.cuda.current_stream()
    device: Any = importlib.import_module("cupy").cuda.Device() if library == "cupy" else None
    waits: dict[str, Callable[[Any], object]] = {
        "cupy": lambda _result: device.synchronize(),
        "jax": lambda result: result.block_until_ready(),
        "triton": lambda _result: stream.synchronize(),
        "cpu": lambda _result: None,
    }
    return waits[library]


@pytest.fixture
def pair(request, tmp_path, monkeypatch):
    """The workload of a pair, the name of the library and the sizes; skipped if the library is not installed."""
    library = request.param
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    pytest.importorskip(library, reason=f"{library} is not installed")
    file = tmp_path / "kernels.py"
    file.write_text(TRITON)
    cpu, gpu, sizes = PAIRS[library]
    codes = (own_code(text.replace("FILE", str(file)), setup) for text, setup in (cpu, gpu))
    workload = TwoImplementations(two_sides(*codes))
    REGISTRY[workload.name] = workload
    return workload, library, sizes


def by_hand_ns(step, inputs, wait, calls):
    """Return the time of a call as a person would take it, ns."""
    started = perf_counter_ns()
    for _ in range(calls):
        wait(step(*inputs))
    return (perf_counter_ns() - started) / calls


def ratio_of(timer, op, bare, wait, calls, turn):
    """Return our time of a call over the time by hand; which is first alternates."""
    if turn % 2:
        ours = timer.latency_block(op, calls)
        return ours / by_hand_ns(bare, op.inputs, wait, calls)
    theirs = by_hand_ns(bare, op.inputs, wait, calls)
    return float(timer.latency_block(op, calls)) / theirs


@pytest.mark.parametrize("pair", list(PAIRS), indirect=True)
def test_each_call_takes_what_it_takes_by_hand_and_results_agree(pair):
    workload, library, sizes = pair
    environment: dict[str, Any] = {"threads": torch.get_num_threads(), "physical_cores": torch.get_num_threads()}
    for size in sizes:
        case = PlannedCase(workload.name, size)
        machine = TorchMachine(Plan("", (case,), devices=("cpu", GPU)), environment)
        inputs, results = machine.make_inputs(case), {}
        for device in ("cpu", GPU):
            timer = machine.timer(device)
            op = timer.load(case, inputs)
            results[device] = timer.first_call(op).result
            bare = getattr(op.step, "__wrapped__", op.step)
            traced = machine.examine(op, device)
            wait = wait_for("cpu" if device == "cpu" else library)
            timer.ready(op, 20)
            timer.latency_block(op, 20)  # the first calls take longer: blocks of JAX had 10 calls instead of 54
            calls = max(1, round(BLOCK_NS / timer.latency_block(op, 20)))
            ratio = median([ratio_of(timer, op, bare, wait, calls, turn) for turn in range(TURNS)])
            print(f"{library} {size} {device} ({traced.library}): {ratio:.4f} of the time by hand")
            assert abs(ratio - 1) <= WITHIN, (library, size, device)
        assert check_sides(case, workload, results) is not None


def test_a_wrong_result_is_refused_by_name_and_the_right_one_has_kernels(cpugpu, tmp_path):
    pytest.importorskip("triton", reason="triton is not installed")
    file = tmp_path / "kernels.py"
    file.write_text(TRITON)
    command = ("time", "--on-cpu", f"{file}:eager", "--n", "1000000", "--json", "--on-gpu")
    right = cpugpu.here(*command, f"{file}:fused", code=EXIT_OK)
    assert [event.count for event in right.events if isinstance(event, KernelsProfiled)] == [1]
    wrong = cpugpu.here(*command, f"{file}:wrong", code=EXIT_CASES_FAILED)
    (failed,) = (event for event in wrong.events if isinstance(event, CaseFailed))
    assert failed.message.startswith(f"The results of {file}:wrong differ from {file}:eager by 0.1 of their scale")


def test_an_implementation_that_never_uses_the_gpu_is_refused_by_name(cpugpu):
    done = cpugpu.here("time", "--setup", "x = np.random.rand(n)", "--on-cpu", "x + 1", "--on-gpu", "np.add(x, 1)",
                       "--n", "1000", "--json", code=EXIT_CASES_FAILED)  # fmt: skip
    failed = next((event for event in done.events if isinstance(event, CaseFailed)), None)
    assert failed is not None, (done.err, done.out[-2000:])
    assert failed.message == "np.add(x, 1) never used the GPU: no kernel ran in a call."
