"""Typed code as data and as a workload: what is compiled, what becomes an input, what shapes alone tell."""

import os
import sys

import pytest
import torch

from cpugpu_tui.errors import UsageError
from cpugpu_tui.workloads import outline
from cpugpu_tui.workloads.code_workload import CodeWorkload
from cpugpu_tui.workloads.containers import combined, doubled, numbers
from cpugpu_tui.workloads.own_code import LONGEST, LONGEST_FILE, own_code, place_of


def made(statement, *setup, n=8, dtype=torch.float32):
    workload = CodeWorkload(own_code(statement, "\n".join(setup)))
    return workload, workload.inputs(n, dtype, torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("statement", "setup", "named"),
    [("x @", "", "x @"), ("x", "y = (", "setup"), ("", "", "statement"), ("x\ny", "", "one line"),
     ("x", "#" * (LONGEST + 1), f"{LONGEST:,}"), ("x\0", "", "statement"),
     ("~\0x:f", "", "statement"), ("~\0.py", "", "statement")],
)  # fmt: skip
def test_bad_code_is_refused_before_anything_runs(statement, setup, named):
    with pytest.raises(UsageError) as error:
        own_code(statement, setup)
    assert named in str(error.value)
    assert error.value.remedy


@pytest.mark.parametrize("kind", ["pipe", "folder", "large", "null"])
def test_what_is_no_python_file_is_refused_without_reading_it(kind, tmp_path, monkeypatch):
    """Opening a pipe would wait for ever, in the form at a key press."""
    monkeypatch.chdir(tmp_path)
    if kind == "pipe":
        os.mkfifo("own.py")
    elif kind == "folder":
        os.mkdir("own.py")
    else:
        os.truncate(os.open("own.py", os.O_CREAT | os.O_WRONLY), LONGEST_FILE + 1)
    with pytest.raises(UsageError) as error:
        own_code("own\0.py:f" if kind == "null" else "own.py:f")
    assert error.value.remedy


def test_long_parameters_leave_each_row_a_name_of_its_own():
    """Cut after 60 characters, both would have the same name, and one would replace the other."""
    lets = [(("the_first_of_several_long_parameters", "16"), ("another_long_one", value)) for value in ("1", "2")]
    names = {own_code("x", lets=each).name for each in lets}
    assert len(names) == 2
    assert max(map(len, names)) <= 60


def test_the_setup_draws_from_the_seed_in_the_dtype_of_the_case():
    _, first = made("x.sum()", "x = torch.rand(n)", dtype=torch.float64)
    _, again = made("x.sum()", "x = torch.rand(n)", dtype=torch.float64)
    assert first[0].dtype == torch.float64
    assert torch.equal(first[0], again[0])
    assert torch.get_default_dtype() == torch.float32


def test_lists_dictionaries_and_modules_are_placed():
    setup = ("xs = [torch.rand(n)]", "d = {'a': torch.rand(n)}", "m = torch.nn.Linear(n, n)")
    workload, inputs = made("m(xs[0] + d['a'])", *setup)
    placed = workload.place("default", inputs, "cpu")
    assert torch.allclose(placed.function(*placed), inputs.function(*inputs))
    assert {id(each) for each in placed}.isdisjoint(id(each) for each in inputs)


def test_shapes_tell_flops_bytes_and_memory():
    workload, _ = made("x @ x", "x = torch.rand(n, n)")
    costs = workload.costs("default", 100, 4)
    assert (costs.flops, costs.bytes_moved) == (2e6, 80_000.0)
    assert costs.memory_bytes >= costs.bytes_moved


def test_what_looks_at_numbers_has_unknown_costs():
    workload, _ = made("x.sum().item()", "x = torch.rand(n)")
    assert workload.costs("default", 1000, 4).flops == 0.0


def test_the_setup_may_not_change_torch_for_everybody():
    before = torch.get_num_threads()
    with pytest.raises(UsageError, match="threads"):
        made("x.sum()", f"torch.set_num_threads({before + 1})", "x = torch.rand(n)")
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("result", "every"),
    [(2, [2.0]), ([torch.ones(2), {"a": torch.zeros(1)}], [1.0, 1.0, 0.0]), ("text", []), (None, []),
     (torch.tensor([1 + 2j]), [1.0, 2.0]), (torch.eye(2).to_sparse(), [1.0, 0.0, 0.0, 1.0])],
)  # fmt: skip
def test_every_number_of_a_result_is_compared(result, every):
    assert combined(numbers(result)).reshape(-1).tolist() == every


def test_an_error_names_its_line():
    code = own_code("x.sum()", "x = torch.rand(n)\ny = 1 / 0")
    with pytest.raises(ZeroDivisionError) as error:
        made("x.sum()", *code.setup)
    assert place_of(error.value, code) == "setup, line 2: "


def test_functions_of_the_setup_take_their_models_along():
    workload, inputs = made("f(x)", "m = torch.nn.Linear(n, n)", "f = lambda x: m(x)", "x = torch.rand(n)")
    exact = workload.reference("default", doubled(inputs))
    assert exact.dtype == torch.float64
    assert torch.allclose(exact.float(), inputs.function(*inputs), atol=1e-5)


def test_constants_of_a_module_that_the_setup_imports_are_plain(tmp_path, monkeypatch):
    """Costs ask for shapes first, on the meta device: torchdiffeq's tables stayed there."""
    (tmp_path / "own_constants.py").write_text("import torch\nTABLE = torch.tensor([1.0, 2.0])\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    outline.install_plain_imports()
    workload = CodeWorkload(own_code("x * TABLE", "from own_constants import TABLE\nx = torch.rand(2)"))
    workload.costs("default", 2, 8)
    inputs = workload.inputs(2, torch.float64, torch.Generator().manual_seed(1))
    table = sys.modules.pop("own_constants").TABLE
    assert (table.device.type, table.dtype) == ("cpu", torch.float32)
    assert inputs.function(*inputs).shape == (2,)


@pytest.mark.parametrize(
    ("statement", "makes"),
    [("x + torch.arange(n, device=device)", False), ("x + torch.arange(n)", True), ("x + torch.ones_like(x)", False),
     ("torch.nn.Linear(n, n)(x)", True), ("x.new_zeros(n) + torch.as_tensor(x)", False)],
)  # fmt: skip
def test_a_default_device_is_set_only_for_tensors_without_a_device(statement, makes):
    """The default device doubled the time of code such as gaussian_blur, which names its device."""
    workload, _ = made(statement, "x = torch.rand(n)")
    assert workload.makes_tensors is makes
