"""Texts of a person that are read as Python: whatever they hold, the answer is one error with a remedy, or code."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from cpugpu_tui.errors import UsageError
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.session.typed_code import CodeFields, parameters, request_of
from cpugpu_tui.workloads.code_target import parse_target
from cpugpu_tui.workloads.own_code import own_code, own_command

DEEP = "x" + "-" * 9_000 + "1"
"""MemoryError of Python's parser."""
LONG = "1" + "+1" * 4_000
"""RecursionError of its compiler."""

HOSTILE = ("#", "# x", ";", "(" * 300, DEEP, LONG, "\0", "'\ud800'", "1" * 5_000, "return", "yield", "await x",
           "nonlocal x", "x: ", "lambda", "é = ", "\\", "'''", "f'{'", "class = 1", "*", "x y", "%x")  # fmt: skip

READERS: dict[str, Callable[[str], Any]] = {
    "statement": own_code,
    "setup": lambda text: own_code("x", text),
    "value": lambda text: [own_code("x", "", lets) for lets in parameters([f"k={text}"])],
    "values": lambda text: [own_code("x", "", lets) for lets in parameters([f"k=1,{text}"])],
    "name": lambda text: parameters([f"{text}=1"]),
    "form": lambda text: request_of(CodeFields(text, sizes="8"), PlanRequest(())),
    "form's setup": lambda text: request_of(CodeFields("x", text, sizes="8"), PlanRequest(())),
    "form's parameters": lambda text: request_of(CodeFields("x", lets=text, sizes="8"), PlanRequest(())),
}


def refusal(call):
    try:
        call()
    except UsageError as error:
        return error
    return None


@pytest.mark.parametrize("reader", READERS)
def test_no_text_ends_the_program(reader):
    """`#` was an IndexError that ended the app while it was typed; deep nesting is a MemoryError."""
    for text in HOSTILE:
        error = refusal(partial(READERS[reader], text))
        assert error is None or error.remedy
        assert len(str(error)) < 500, "the reason must not be cut off"


@pytest.mark.parametrize("name", ["class", "None", "__debug__", "n", "device", "_function", "1k", "a.b"])
def test_a_parameter_has_a_name_that_code_can_use(name):
    with pytest.raises(UsageError) as error:
        parameters([f"{name}=1"])
    assert name in error.value.message


def test_a_command_takes_a_word_of_python_as_a_parameter():
    lets = parameters(["class=a"], is_python=False)
    assert own_command(("echo", "{class}"), lets[0]).lets == (("class", "a"),)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("f.py:ünïcödé", ("f.py", "ünïcödé")),
        ("f.py:u\u0308", ("f.py", "ü")),  # as macOS writes it, and as Python keeps it
        ("päket.modul:größe", ("päket.modul", "größe")),
        ("my files/f.py:forward", ("my files/f.py", "forward")),
        ("f.py:1st", None),
        ("x[1:2]", None),
    ],
)
def test_a_function_may_have_any_name_of_python(text, target):
    """`f.py:ünïcödé` was taken for an expression, and a threshold of it was written."""
    assert parse_target(text) == target


def test_a_mistyped_function_is_refused_before_anything_runs(tmp_path):
    """A run with no time in it was saved, and the error did not say what was meant."""
    file = tmp_path / "f.py"
    file.write_text("def forward(x):\n    return x\n")
    with pytest.raises(UsageError) as error:
        own_code(f"{file}:forwrad")
    assert "'forward'" in error.value.remedy
    for text in ("from torch import *", "globals()['forwrad'] = abs", "def ("):  # its text does not tell
        file.write_text(text)
        assert own_code(f"{file}:forwrad").target == (str(file), "forwrad")


@pytest.mark.parametrize(
    ("kind", "named"), [("folder", "folder"), ("file", "executable"), ("missing", "no such program")]
)
def test_a_command_that_cannot_be_run_has_the_true_reason(kind, named, tmp_path):
    program = tmp_path / "program"
    if kind == "folder":
        os.mkdir(program)
    elif kind == "file":
        program.touch()
    with pytest.raises(UsageError) as error:
        own_command((str(program),))
    assert named in error.value.message
    assert error.value.remedy


def test_a_command_in_quotes_is_advised_without_them():
    """`-- 'sleep 0.1'` was "no such program. Give its path, or correct the name"."""
    with pytest.raises(UsageError) as error:
        own_command(("sleep 0.1",))
    assert "Write its words without quotes: -- sleep 0.1." in str(error.value)
