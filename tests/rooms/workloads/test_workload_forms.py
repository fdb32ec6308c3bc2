"""Forms of a workload class: what it need not define, and that a wrong result of each form is noticed."""

import pytest
import torch
from tests.helpers.command_line import ROOT

from cpugpu_tui.model import Case, CaseFinished, Plan
from cpugpu_tui.timing.timers import CaseError
from cpugpu_tui.timing.torch_machine import TorchMachine
from cpugpu_tui.workloads import Costs, find
from cpugpu_tui.workloads.containers import bytes_in
from cpugpu_tui.workloads.own_files import load_file

FILE = ROOT / "tests" / "helpers" / "runs" / "workload_forms.py"


@pytest.fixture(autouse=True)
def _forms():
    load_file(str(FILE))


def checked(name, spoil=lambda result: result, *, exact=True, devices=1):
    """Call a workload as a case does and check its result; `spoil` changes that of the last device."""
    item = find(name)
    case = Case(name, item.sizes[-1])
    machine = TorchMachine(Plan("test", (case,), devices=("cpu",)), {"threads": 1, "cpu": "Xeon"})
    inputs, timer = machine.make_inputs(case), machine.timer("cpu")
    results = {}
    for index in range(devices):
        op = timer.load(case, inputs)
        results[f"device {index}"] = op.to_check(op.step(*op.inputs))
    last = f"device {devices - 1}"
    return machine.check(case, inputs, results | {last: spoil(results[last])}, exact=exact)


FORMS = ("softmax", "sort", "fft", "embedding", "sparse", "perceptron", "solve", "random")
NAMES = tuple(f"form-{name}" for name in FORMS)


def test_every_form_is_placed_checked_and_timed(cpugpu):
    run = ("run", *NAMES, "--workloads", FILE, "--device", "cpu", "--scale", "small", "--rounds", 2, "--json")
    done = cpugpu(*run)
    assert (done.code, done.err) == (0, "")
    checks = {event.case.split("/")[0]: event.check for event in done.events if isinstance(event, CaseFinished)}
    assert set(checks) == set(NAMES)
    assert all(check is not None and check.error <= check.tolerance for check in checks.values())


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("form-softmax", lambda result: result * 1.01),
        ("form-sort", lambda result: (result[0] * 1.01, result[1])),
        ("form-sort", lambda result: (result[0], result[1].flip(0))),
        ("form-fft", lambda result: result.conj()),
        ("form-embedding", lambda result: result.roll(1, 0)),
        ("form-sparse", lambda result: result + 1),
        ("form-perceptron", lambda result: result * 1.01),
        ("form-solve", lambda result: result * 1.01),
        ("form-solve", lambda result: result * float("nan")),
        ("form-random", lambda result: result * 1.1),
    ],
)
@pytest.mark.parametrize("devices", [1, 2])
def test_a_wrong_result_is_noticed_on_any_device(name, spoil, devices):
    assert checked(name, devices=devices) is not None
    with pytest.raises(CaseError) as error:
        checked(name, spoil, devices=devices)
    assert error.value.kind == "mismatch"


def test_devices_are_compared_without_a_reference_unless_their_results_may_differ():
    assert checked("form-sort", exact=False) is None
    assert checked("form-sort", exact=False, devices=2).against == "device 0"
    assert checked("form-solve", exact=False, devices=2) is None


def test_an_own_measure_is_told_apart_from_a_comparison(words):
    with pytest.raises(CaseError) as error:
        checked("form-solve", lambda result: result * float("inf"))
    words(error.value.message)
    assert checked("form-solve").against == "the inputs"


def test_a_reference_makes_its_tensors_in_float64(monkeypatch):
    seen: list[torch.dtype] = []
    monkeypatch.setattr(type(find("form-softmax")), "reference", lambda *_: (seen.append(torch.ones(1).dtype), 0)[1:])
    with pytest.raises(CaseError, match="shape"):
        checked("form-softmax")
    assert seen == [torch.float64]
    assert torch.get_default_dtype() == torch.float32


def test_counts_come_from_shapes_where_they_are_not_defined():
    assert find("form-sort").costs("default", 1000, 4) == Costs(0.0, 4000 + 4000 + 8000, 4000 + 4000 + 8000 + 12000)
    assert find("form-perceptron").costs("default", 8, 4).flops == 2 * 8 * (32 * 32 + 32 * 4)
    assert find("form-softmax").costs("default", 2, 4) == Costs(5 * 2048, 2 * 2048 * 4, 2 * 2048 * 4)


def test_a_sparse_tensor_has_the_bytes_that_it_stores():
    diagonal = torch.eye(100)
    assert bytes_in(diagonal.to_sparse()) == 100 * (2 * 8 + 4)
    assert bytes_in(diagonal.to_sparse_csr()) == 101 * 8 + 100 * (8 + 4)


def test_a_model_is_not_copied_in_each_call_and_lists_are():
    item = find("form-perceptron")
    machine = TorchMachine(Plan("test", (), devices=("cpu",)), {"threads": 1, "cpu": "Xeon"})
    for name, is_copied in (("form-perceptron", False), ("form-sort", True)):
        case = Case(name, 64)
        assert machine.timer("cpu").load(case, machine.make_inputs(case)).has_end_to_end is is_copied
    assert torch.equal(*(item.inputs(4, torch.float32, torch.Generator().manual_seed(1))[1]["x"] for _ in range(2)))
