"""Typed code on a real GPU: what the receipt says, what is refused, and that times agree with a built-in workload."""

import pytest
import torch
from tests.helpers.runs.typed_code import operation_of, typed_workload
from tests.rooms.timing.test_own_code import SQUARE, VECTOR

from cpugpu_tui.decide.stats import median
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK
from cpugpu_tui.model import LATENCY, CaseFailed, DeviceSampled
from cpugpu_tui.timing.own_code import examine
from cpugpu_tui.timing.timers import CaseError

pytestmark = pytest.mark.gpu

GPU = "cuda:0"
SIDE = (
    SQUARE, "s = torch.cuda.Stream()", "def side(x):", "    if not x.is_cuda: return x @ x",
    "    with torch.cuda.stream(s): return x @ x",
)  # fmt: skip


def traced(statement, *setup, n=256):
    workload = typed_workload(statement, *setup)
    op = operation_of(workload, n, GPU)
    op.step(*op.inputs)
    return examine(op, workload, GPU, torch.cuda.synchronize), op


@pytest.mark.parametrize(
    ("statement", "setup", "reason"),
    [
        ("f(x)", ("import functools", "f = functools.lru_cache(lambda x: x @ x)", SQUARE), "cached"),
        # Filled by the calls on the CPU, whose result it returns here.
        ("f(len(x))", ("import functools", SQUARE, "f = functools.lru_cache(lambda n: torch.ones(n, n) + 1)"),
         "cached|ran on the CPU"),
        ("x.t()", (SQUARE,), "view of an input"),
        ("x[1:]", (SQUARE,), "view of an input"),
    ],
)  # fmt: skip
def test_what_computes_nothing_is_refused_for_what_it_is(statement, setup, reason):
    with pytest.raises(CaseError, match=reason) as error:
        traced(statement, *setup)
    assert error.value.kind == "refused"


def test_a_buffer_that_is_kept_and_written_again_is_timed():
    setup = (SQUARE, "kept = {}", "def f(x):", "    if x.device not in kept: kept[x.device] = torch.empty_like(x)",
             "    return torch.mm(x, x, out=kept[x.device])")  # fmt: skip
    found, _ = traced("f(x)", *setup)
    assert found.operators == 1


def test_copies_and_waits_are_counted_with_their_bytes():
    found, _ = traced("(x * 2).cpu().to(x.device).sum().item()", SQUARE)
    size_bytes = 256 * 256 * 4
    assert (found.copies_to_host, found.bytes_to_host) == (1, size_bytes)
    assert (found.copies_to_gpu, found.bytes_to_gpu) == (1, size_bytes)
    assert found.synchronisations == 2
    assert found.peak_bytes > size_bytes


def test_an_operator_that_falls_back_to_the_cpu_is_named():
    found, _ = traced("(x @ x).sum() + x.cpu().sort().values.to(x.device).sum()", SQUARE)
    assert "sort" in found.on_cpu


@pytest.mark.parametrize("statement", ["torch.rand(n, device='cpu').sum()", "np.dot(a, a)"])
def test_code_that_never_used_the_gpu_is_refused(statement):
    with pytest.raises(CaseError, match="Never used the GPU") as error:
        traced(statement, "a = np.random.rand(n, n)")
    assert error.value.kind == "refused"


def test_code_that_makes_its_tensors_makes_them_on_the_gpu():
    found, _ = traced("torch.rand(n, n).sum().item()")
    assert found.sets_default_device
    assert not found.on_cpu


def test_work_on_a_side_stream_is_waited_for():
    _, ordinary = traced("x @ x", SQUARE)
    _, side = traced("side(x)", *SIDE)
    assert (ordinary.waits_for_all, side.waits_for_all) == (False, True)


@pytest.mark.alone
def test_an_expression_agrees_with_the_same_workload(cpugpu):
    """Latency at 2,048, where the kernel is nearly all of it: both within 3 %."""
    words = ("--device", "cuda", "--rounds", "10", "--no-ceilings", "--json", "--no-save")
    typed = cpugpu("time", "x @ y", "-s", "x = torch.rand(n, n)", "-s", "y = torch.rand(n, n)", "--n", "2048", *words)
    built_in = cpugpu("run", "matmul", "--size", "2048", *words)
    assert typed.code == built_in.code == EXIT_OK

    def latency_ns(done):
        events = done.events
        return median(
            [ns for event in events if isinstance(event, DeviceSampled) for ns in event.samples.get(LATENCY, ())]
        )

    assert latency_ns(typed) == pytest.approx(latency_ns(built_in), rel=0.03)


def test_a_refusal_exits_with_3(cpugpu):
    done = cpugpu("time", "np.dot(a, a)", "-s", "a = np.random.rand(n, n)", "--n", "64", "--json", "--no-save")
    assert done.code == EXIT_CASES_FAILED
    (failed,) = (event for event in done.events if isinstance(event, CaseFailed))
    assert failed.kind == "refused"


def test_an_input_that_changes_is_restored():
    workload = typed_workload("x.mul_(2)", VECTOR, in_place=True)
    op = operation_of(workload, 64, GPU)
    examine(op, workload, GPU, torch.cuda.synchronize)
    op.restore()
    first = op.step(*op.inputs).clone()
    op.restore()
    assert torch.equal(op.step(*op.inputs), first)


def test_a_result_whose_size_depends_on_the_inputs_is_copied_back(cpugpu):
    done = cpugpu("time", "x[x > 0.5]", "--setup", "x = torch.rand(n)", "--n", "10,100000", "--no-save", "--json")
    assert done.code == EXIT_OK
