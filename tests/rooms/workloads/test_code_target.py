"""A function of a file or module: how it is found, where its arguments come from, what is wrong with it."""

import pytest
import torch

from cpugpu_tui.errors import UsageError
from cpugpu_tui.workloads.code_target import parse_target
from cpugpu_tui.workloads.code_workload import CodeWorkload
from cpugpu_tui.workloads.own_code import own_code, place_of

FILE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)

net = Net()

def inputs(n):
    return torch.ones(n, 8), torch.ones(8)

def weighted(x, w, scale=2.0):
    return x @ w * scale

def sized(n, device):
    return torch.zeros(n, device=device)

def broken(x):
    return x / None

constant = 3
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_model.py"
    path.write_text(FILE)
    return path


def made(target, *lets, n=4):
    workload = CodeWorkload(own_code(target, lets=lets))
    return workload, workload.inputs(n, torch.float32, torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("my_model.py:forward", ("my_model.py", "forward")),
        ("~/a b/m.py:f", ("~/a b/m.py", "f")),
        ("torch.nn.functional:softmax", ("torch.nn.functional", "softmax")),
        ("x[1:n]", None),
        ("x @ x", None),
    ],
)
def test_a_target_is_told_from_an_expression(text, parts):
    assert parse_target(text) == parts


def test_arguments_come_from_the_function_inputs_beside_it(file):
    _, inputs = made(f"{file}:weighted")
    assert [tuple(each.shape) for each in inputs[0]] == [(4, 8), (8,)]
    assert inputs.function(*inputs).tolist() == [16.0] * 4


def test_the_size_and_the_device_are_passed_by_name(file):
    workload, inputs = made(f"{file}:sized", n=3)
    assert workload.place("default", inputs, "cpu")[-1] == "cpu"
    assert inputs.function(*inputs).shape == (3,)


def test_a_function_of_a_package_takes_lets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hive" / "inner").mkdir(parents=True)
    (tmp_path / "hive" / "inner" / "comb.py").write_text("def cell(n): return n")
    with pytest.raises(UsageError, match=r"Name the file that defines cell: hive/inner/comb\.py:cell\."):
        made("hive.inner:cell")
    _, inputs = made("torch.nn.functional:softmax", ("input", "torch.ones(n)"), ("dim", "0"))
    assert inputs.function(*inputs).tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("function", "named"), [("missing", "'missing'"), ("constant", "int"), ("broken", "x")], ids=lambda text: text[:9]
)
def test_what_cannot_be_called_is_named(tmp_path, function, named):
    path = tmp_path / "other.py"
    path.write_text(FILE.replace("def inputs", "def no_inputs"))
    with pytest.raises(UsageError) as error:
        made(f"{path}:{function}")
    assert named in error.value.message
    assert error.value.remedy


def test_a_misspelt_argument_is_named_and_a_name_that_other_code_uses_is_not(file):
    with pytest.raises(UsageError, match=r"weighted takes no argument scael\. Did you mean 'scale'\?"):
        made(f"{file}:weighted", ("scael", "3.0"))
    file.write_text(f"{FILE}\ndef free(w, scale=1.0, **more):\n    return w * more['scael']\n")
    made(f"{file}:free", ("scael", "3.0"), ("w", "torch.ones(n)"))
    made(f"{file}:weighted", ("scal", "3.0"), ("scale", "scal * 2"))
    made(f"{file}:weighted", ("k", "3.0"))
    file.write_text(f"{FILE}\nimport functools\ntwice = functools.partial(weighted, scale=2.0)\n")
    with pytest.raises(UsageError, match=r"twice takes no argument k\. It takes x, w, scale: remove --let k\."):
        CodeWorkload(own_code(f"{file}:twice", lets=(("k", "3.0"),)), is_alone=True)


@pytest.mark.parametrize(
    ("text", "named"), [("x = (", "line 1"), ("raise SystemExit(9)", "9"), ("import nowhere", "nowhere")]
)
def test_a_file_that_cannot_be_imported_is_named_with_its_line(tmp_path, text, named):
    path = tmp_path / "bad.py"
    path.write_text(f"{text}\ndef f(): return 1")
    with pytest.raises(UsageError) as error:
        made(f"{path}:f")
    assert str(path) in error.value.message
    assert named in error.value.message


def test_an_error_in_the_file_names_its_line(file):
    code = own_code(f"{file}:broken", lets=(("x", "torch.ones(n)"),))
    inputs = CodeWorkload(code).made(4, torch.float32, 1)
    with pytest.raises(TypeError) as error:
        inputs.function(*inputs)
    assert place_of(error.value, code) == "my_model.py, line 24: "


def test_a_changed_file_is_other_code(file):
    before = own_code(f"{file}:sized")
    file.write_text(FILE + "\n# changed\n")
    assert own_code(f"{file}:sized").sha256 != before.sha256


def test_what_a_file_draws_while_it_is_imported_is_the_same_each_time(tmp_path):
    """Two agents of one file had other weights, and were told that their results differ."""
    path = tmp_path / "drawn.py"
    path.write_text("import torch\nW = torch.rand(3)\ndef f(): return W")
    workload = [CodeWorkload(own_code(f"{path}:f")) for _ in range(2)]
    first, second = (each.made(4, torch.float32, 1) for each in workload)
    assert first.function(*first).tolist() == second.function(*second).tolist()


def test_a_file_that_was_edited_since_it_was_shown_does_not_run(file):
    code = own_code(f"{file}:forward")
    file.write_text(f"raise RuntimeError\n{file.read_text()}")
    with pytest.raises(UsageError, match="has changed since this run was started"):
        CodeWorkload(code)
