"""The real machine on a host without a GPU: comparison of results, memory, devices, explained errors."""

import math

import pytest
import torch
from tests.helpers.runs.typed_code import operation_of, typed_workload

from cpugpu_tui.agent.main import facts
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.model import Case, Plan
from cpugpu_tui.timing import torch_devices, torch_machine
from cpugpu_tui.timing.result_check import check_results
from cpugpu_tui.timing.timers import CaseError
from cpugpu_tui.timing.torch_devices import resolve, tensors_in, why_no_gpu
from cpugpu_tui.timing.torch_machine import TorchMachine
from cpugpu_tui.workloads import find

MATMUL = Case("matmul", 32)


@pytest.fixture
def machine():
    return TorchMachine(Plan("test", (MATMUL,), devices=("cpu",)), {"threads": 1, "cpu": "Xeon"})


def told(failure):
    """Return message and remedy, as a row shows them."""
    return f"{failure.message} {failure.remedy}"


def results_of(machine, case=MATMUL):
    inputs = machine.make_inputs(case)
    return inputs, find(case.workload).variant(case.variant)(*inputs)


# ------------------------------------------------------------------ where tensors lie


def test_each_tensor_says_where_it_lies(machine):
    operation = machine.timer("cpu").load(MATMUL, machine.make_inputs(MATMUL))
    inputs, results = machine.placement(operation, torch.zeros(3, dtype=torch.float64), "cpu")
    assert inputs == ("[32, 32] float32 on cpu",) * 2
    assert results == ("[3] float64 on cpu",)


def test_a_model_says_where_its_parameters_lie():
    network = torch.nn.Linear(100, 30)
    placed = (network, torch.zeros(2, 2), "no tensor")
    assert tensors_in(placed) == ("2 parameters, 3,030 numbers, on cpu", "[2, 2] float32 on cpu")


# ------------------------------------------------------------------ the check


def test_equal_results_pass_and_say_against_what(machine):
    inputs, result = results_of(machine)
    check = machine.check(MATMUL, inputs, {"cpu": result, "cuda:0": result.clone()}, exact=True)
    assert check.against == "float64 on the CPU"
    assert 0 < check.error < 1e-5
    assert check.tolerance == 1e-3


def wrong_by_half(result):
    return result * 1.5


def one_nan(result):
    broken = result.clone()
    broken[0, 0] = math.nan
    return broken


def infinite(result):
    return result + math.inf


@pytest.mark.parametrize("spoil", [wrong_by_half, one_nan, infinite])
@pytest.mark.parametrize("exact", [True, False])
def test_a_wrong_result_is_a_mismatch_on_whatever_device(machine, spoil, exact):
    inputs, result = results_of(machine)
    with pytest.raises(CaseError) as caught:
        machine.check(MATMUL, inputs, {"cpu": result, "cuda:0": spoil(result)}, exact=exact)
    assert caught.value.kind == "mismatch"
    assert "allowed: 0.001" in caught.value.message
    assert caught.value.remedy


def test_without_a_float64_reference_the_devices_are_compared(machine):
    inputs, result = results_of(machine)
    check = machine.check(MATMUL, inputs, {"cpu": result, "cuda:0": result.clone()}, exact=False)
    assert (check.against, check.error) == ("cpu", 0.0)
    assert machine.check(MATMUL, inputs, {"cpu": result}, exact=False) is None


def test_a_reference_that_takes_too_long_is_not_made(machine, monkeypatch):
    monkeypatch.setattr(torch_machine, "EXACT_FLOPS", find("matmul").flops(32) - 1)
    inputs, result = results_of(machine)
    assert machine.check(MATMUL, inputs, {"cpu": result}, exact=True) is None


def test_a_dot_product_near_zero_is_no_mismatch(machine):
    """The sum may be near zero, but its rounding error is not."""
    case = Case("vector-dot", 100_001, variant="dot")
    row = torch.randn(1, 100_001)
    row[0, -1] = 0.0
    column = torch.ones(100_001, 1)
    column[-1] = 1.0
    row[0, -1] = -float(row.double().sum())
    result = find("vector-dot").variant("dot")(row, column)
    check = machine.check(case, (row, column), {"cpu": result}, exact=True)
    assert check.error < 1e-6


@pytest.fixture
def ordered(machine):
    """What checks a result of typed code on an input in which three numbers are equal."""
    made, other = (typed_workload(each, "x = torch.tensor([3.0, 1.0, 1.0, 1.0, 2.0])")
                   for each in ("x.sort()", "x.argsort()"))  # fmt: skip

    def check(result):
        workload = other if isinstance(result, torch.Tensor) else made
        inputs = workload.inputs(1, torch.float32, torch.Generator().manual_seed(1))
        return machine.check(Case(workload.name, 1), inputs, {"cuda:0": result}, exact=True)

    return check


RIGHT, PLACES = torch.tensor([1.0, 1.0, 1.0, 2.0, 3.0]), torch.tensor([2, 1, 3, 4, 0])


def test_equal_numbers_may_be_sorted_in_any_order(ordered):
    """As on an H100, which sorts stably, beside a CPU with AVX-512, which does not."""
    for places in (PLACES, torch.tensor([3, 2, 1, 4, 0])):
        assert ordered(torch.return_types.sort((RIGHT, places))).error == 0.0
    with pytest.raises(CaseError) as caught:
        ordered(torch.return_types.sort((RIGHT.flip(0), PLACES)))
    assert caught.value.kind == "mismatch"


@pytest.mark.parametrize(
    "statement", ["x.flatten().sort()", "x.topk(3)", "x.max(dim=0)", "(x.sort(), x)", "x.sort()[1]"]
)
def test_typed_code_with_values_and_indices_agrees_with_its_float64_reference(statement):
    """What was kept of the result had lost its names, and its indices were compared with nothing."""
    op = operation_of(typed_workload(statement, "x = torch.rand(n, n)"), 8)
    check = check_results(op.case, op.inputs, {"cuda:0": op.to_check(op.step(*op.inputs))}, exact=True)
    assert check.error <= check.tolerance


def test_indices_alone_that_differ_say_how_to_define_them(ordered, words):
    with pytest.raises(CaseError) as caught:
        ordered(PLACES)
    words(told(caught.value))


# ------------------------------------------------------------------ memory


def test_what_does_not_fit_is_refused_with_need_and_free(machine, monkeypatch, words):
    monkeypatch.setattr(torch_machine.procfs, "available_memory_bytes", lambda: 24_700_000_000)
    with pytest.raises(CaseError) as caught:
        machine.make_inputs(Case("matmul", 10_000_000))
    assert caught.value.kind == "oom"
    words(told(caught.value))


def test_a_workload_that_underestimates_its_memory_is_told_so(machine, monkeypatch, words):
    """`Needs 0.0000 GB on the host, 24.7 GB free.` does not explain the failure."""
    monkeypatch.setattr(torch_machine.procfs, "available_memory_bytes", lambda: 24_700_000_000)
    words(told(machine.explain(MemoryError(), MATMUL)))
    monkeypatch.setattr(torch_machine.procfs, "available_memory_bytes", lambda: None)
    assert "1.20 GB" in machine.explain(MemoryError(), Case("matmul", 10_000)).message


@pytest.mark.parametrize(
    ("error", "kind", "fatal", "cause"),
    [
        (MemoryError(), "oom", False, "GB"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "oom", False, "GB"),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB"), "oom", False, "GB"),
        (RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with"), "error", True, "illegal"),
        (
            RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'"),
            "unsupported",
            False,
            "float32 is not supported",
        ),
        (NotImplementedError("Could not run 'aten::x'"), "unsupported", False, "aten::x"),
        (ZeroDivisionError("division by zero"), "error", False, "ZeroDivisionError: division by zero"),
        (ValueError(), "error", False, "ValueError: ValueError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_torch_raises_becomes_a_row_with_a_remedy(machine, error, kind, fatal, cause):
    failure = machine.explain(error, MATMUL)
    assert (failure.kind, failure.fatal) == (kind, fatal)
    assert cause in failure.message
    assert "\n" not in failure.message
    assert failure.remedy


# ------------------------------------------------------------------ devices


@pytest.fixture
def two_gpus(monkeypatch):
    """A machine whose torch can use two GPUs."""
    monkeypatch.setattr(torch_devices, "gpu_problem", lambda: None)
    monkeypatch.setattr(torch_devices, "gpu_names", lambda: ["cuda:0", "cuda:1"])


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (("auto",), ("cpu", "cuda:0")),
        (("all",), ("cpu", "cuda:0", "cuda:1")),
        (("cpu",), ("cpu",)),
        (("cuda",), ("cuda:0", "cuda:1")),
        (("cuda", "cpu"), ("cpu", "cuda:0", "cuda:1")),
        (("cuda:1", "cpu", "cuda:1"), ("cpu", "cuda:1")),
    ],
)
def test_names_become_torchs_names_with_the_cpu_first(two_gpus, asked, names):
    assert resolve(asked) == (names, None)


def test_a_gpu_beyond_the_last_is_named_with_those_there_are(two_gpus, words):
    with words.of(UnfitError):
        resolve(("cpu", "cuda:7"))


def test_without_a_gpu_auto_is_the_cpu_and_the_reason(monkeypatch, words):
    monkeypatch.setattr(torch_devices, "gpu_problem", lambda: ("no driver.", "Install one."))
    assert resolve(("auto",)) == (("cpu",), "No driver. Install one.")
    with pytest.raises(UnfitError) as caught:
        resolve(("cuda:0",))
    assert caught.value.remedy == "Install one."
    words(str(caught.value))


@pytest.mark.parametrize(
    ("cuda", "hip", "visible", "has_one"),
    [
        pytest.param(None, None, None, True, id="CPU build"),
        pytest.param(None, None, None, None, id="CPU build, hardware unknown"),
        pytest.param(None, "6.0", None, True, id="ROCm build"),
        pytest.param("13.0", None, "", True, id="hidden"),
        pytest.param("13.0", None, "7", True, id="wrong number"),
        pytest.param("13.0", None, None, True, id="no driver"),
        pytest.param(None, None, None, False, id="CPU build without a GPU"),
        pytest.param("13.0", None, "", False, id="hidden without a GPU"),
    ],
)
def test_why_there_is_no_gpu_is_said_with_a_remedy(monkeypatch, cuda, hip, visible, has_one, words):
    monkeypatch.setattr(torch_devices, "has_nvidia_gpu", lambda: has_one)
    monkeypatch.setattr(torch, "__version__", "2.11.0")
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    words(why_no_gpu() or "")


def test_an_old_driver_is_told_apart_from_none(monkeypatch, words):
    def warn():
        import warnings

        warnings.warn("The NVIDIA driver on your system is too old (found version 11040).", UserWarning, stacklevel=1)
        return False

    monkeypatch.setattr(torch_devices, "has_nvidia_gpu", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", warn)
    words(why_no_gpu() or "")


# ------------------------------------------------------------------ facts that ride with a result


def test_the_environment_is_plain_data_with_what_was_measured_on_what(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = facts(simulated=False)
    assert found["torch"] == torch.__version__
    assert found["torch_error"] is None
    assert found["inherited"]["OMP_NUM_THREADS"] == "1"
    assert 1 <= found["threads"] <= found["affinity_cores"]
    assert facts(simulated=True)["torch"] is None
