"""Fields of a form as typed code and back, and completions of paths."""

from contextlib import closing
from dataclasses import replace

import pytest
from tests.helpers.app.saved_runs import stream

from cpugpu_tui.config.parsing import FieldError
from cpugpu_tui.model import typed_name
from cpugpu_tui.session.own_workloads import completions
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.session.repeat import code_sizes
from cpugpu_tui.session.typed_code import CodeFields, check_use_of_lets, fields_of, request_of
from cpugpu_tui.store import Store
from cpugpu_tui.workloads.own_code import own_code

FIELDS = [
    CodeFields("x @ x", "x = torch.rand(n, n)", "16:1024"),
    CodeFields("x * k", "a = 1; x = torch.rand(n)", "64,128", "k=1,2; shape=(3, 4)", "yes"),
    CodeFields("math.cos(1.0)"),
    CodeFields("f(x)", "x = torch.rand(n)↵def f(x):↵    return x + 1", "64"),
]


def plan_of(fields):
    return build_plan(request_of(fields, PlanRequest()))


@pytest.mark.parametrize("fields", FIELDS)
def test_fields_become_a_plan_that_gives_them_again(fields):
    plan = plan_of(fields)
    assert fields_of(plan, fields.sizes) == fields
    assert {case.workload for case in plan.cases} == {code.name for code in plan.codes}


def test_a_file_is_named_by_its_path_where_its_name_means_another_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("def f(n): return n\n")
    plan = plan_of(CodeFields("own.py:f", sizes="64"))
    assert fields_of(plan, "64") == CodeFields("own.py:f", sizes="64")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert fields_of(plan, "64") == CodeFields(f"{tmp_path}/own.py:f", sizes="64")


def test_codes_that_share_a_statement_are_named_with_their_parameters():
    """Two notes about `x * k` did not say which k."""
    for lets, names in (("k=2,3", ["x * k (k = 2)", "x * k (k = 3)"]), ("k=2", ["x * k"])):
        codes = plan_of(CodeFields("x * k", "x = torch.rand(n)", "64", lets)).codes
        assert [typed_name(code.name, codes) for code in codes] == names


FUNCTIONS = """
def inputs(n): ...
def takes_n(n): ...
def needs_input(x, *, eps=1e-5): ...
def needs_keyword(*, x): ...
def takes_nothing(): ...
def has_defaults(x=1, *, y=2): ...
def on_device(device, x=1): ...
"""


@pytest.mark.parametrize(
    ("name", "lets", "is_needed"),
    [
        ("takes_n", "", True), ("needs_input", "", True), ("needs_keyword", "", True), ("takes_nothing", "", True),
        ("needs_input", "x=torch.rand(9)", False), ("has_defaults", "", False), ("on_device", "", False),
    ],
)  # fmt: skip
def test_a_function_that_takes_n_or_inputs_needs_sizes(tmp_path, monkeypatch, name, lets, is_needed):
    """It was timed at n = 1 without a word, and the form forgot the sizes of an earlier run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(FUNCTIONS)
    if is_needed:
        with pytest.raises(FieldError, match="uses n"):
            plan_of(CodeFields(f"own.py:{name}", lets=lets))
        assert code_sizes(plan_of(CodeFields(f"own.py:{name}", sizes="1", lets=lets))) == "1"
    else:
        assert code_sizes(plan_of(CodeFields(f"own.py:{name}", lets=lets))) is None
    assert code_sizes(plan_of(CodeFields(f"own.py:{name}", sizes="16:64", lets=lets))) == "16:64"


def test_code_that_its_fields_would_not_give_again_is_not_offered():
    plan = plan_of(FIELDS[2])
    block = replace(plan.codes[0], setup=("for i in '↵':", "    pass"))
    hidden = replace(plan.codes[0], target=("os", "getcwd"))
    newer = replace(plan.codes[0], setup=("syntax of a newer Python",))
    for code in (block, hidden, newer):
        assert fields_of(replace(plan, codes=(code,)), None) is None
    assert fields_of(build_plan(PlanRequest(("matmul",))), None) is None


def test_parameters_in_the_form_are_assignments():
    for text in ("k", "k=", "k==3", "k=1 m=2", "import os", "k.a=3"):
        with pytest.raises(FieldError) as caught:
            request_of(CodeFields("1", lets=text), PlanRequest())
        assert caught.value.field == "lets"


def test_only_plans_with_code_are_read_from_the_history_the_newest_first():
    with closing(Store.in_memory()) as store:
        for number, plan in enumerate([plan_of(FIELDS[2]), build_plan(PlanRequest(("matmul",))), plan_of(FIELDS[0])]):
            store.import_run(stream(f"run{number}", plan))
        assert [plan.codes[0].statement for plan in store.code_plans(10)] == ["x @ x", "math.cos(1.0)"]
        assert len(store.code_plans(2)) == 1


@pytest.mark.parametrize("codes", [
    ("own.py:any_named",), ("own.py:wrapped",), ("own.py:unseen",), ("own.py:one", "own.py:two"), ("1", "own.py:two"),
    ("len(str(k))",), ("[k for _ in 'a']",), ("own.py:one", "eval('k')"), ("math:sin",),
])  # fmt: skip
def test_a_parameter_that_one_of_the_codes_may_use_is_no_mistake(tmp_path, monkeypatch, codes):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(KINDS)
    check_use_of_lets([own_code(each, "", (("k", "3"),)) for each in codes])
    check_use_of_lets([own_code("own.py:one", "x = k", (("k", "3"),))])


KINDS = """
def one(x): ...
def two(x, *, k): ...
def any_named(x, **more): ...
@changed
def wrapped(x): ...
from elsewhere import unseen
"""


# ------------------------------------------------------------------ completions


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_model.py").write_text("raise SystemExit\ndef forward(x): ...\nclass A: ...\ndef _own(): ...\n")
    for name in ("broken.py", ".hidden.py", "my notes.py", "data.csv"):
        (tmp_path / name).write_text("def f(:\n\0")
    (tmp_path / "my_folder").mkdir()
    (tmp_path / "my_folder" / "deep.py").write_text("def g(): '\\d'\n")
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", ["broken.py:", "my_model.py:", "my_folder/"]),
        ("my", ["my_model.py:", "my_folder/"]),
        (".", [".hidden.py:"]),
        ("my_folder/", ["my_folder/deep.py:"]),
        ("my_folder/deep.py:", ["my_folder/deep.py:g"]),
        ("my_model.py:", ["my_model.py:forward", "my_model.py:_own"]),
        ("my_model.py:f", ["my_model.py:forward"]),
        ("broken.py:", []),
        ("nowhere/my", []),
        ("x @ x", []),
        ("my\0", []),
    ],
)
def test_paths_and_functions_are_completed(folder, typed, offered):
    assert completions(typed) == offered


def test_a_path_may_begin_anywhere(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    assert completions("~/my_m") == ["~/my_model.py:"]
    assert completions(f"{folder}/my_model.py:f") == [f"{folder}/my_model.py:forward"]
    assert own_code("~/my_model.py:forward").target == (f"{folder}/my_model.py", "forward")
