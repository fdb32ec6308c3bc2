"""Functions and values of the caller's process: kept for one run, and for no other process."""

import random

import pytest
import torch

from cpugpu_tui.errors import UsageError
from cpugpu_tui.workloads.code_target import CALLER, CallerCode, caller_code, held
from cpugpu_tui.workloads.code_workload import CodeWorkload
from cpugpu_tui.workloads.own_code import own_code

CODE = own_code("double", target=(CALLER, "a lambda cannot be imported"))


def test_a_run_leaves_torch_and_random_numbers_as_they_were():
    before = torch.get_float32_matmul_precision(), torch.get_default_dtype(), random.getstate()
    with held(CODE, CallerCode(lambda x: x), is_simulated=False):
        torch.set_float32_matmul_precision("medium")
        torch.set_default_dtype(torch.float64)
        random.seed(1)
    assert (torch.get_float32_matmul_precision(), torch.get_default_dtype(), random.getstate()) == before


def test_functions_are_called_with_the_size_and_modules_are_values():
    net = torch.nn.Linear(2, 2)
    own = CallerCode(lambda x: x, None, {"x": lambda n: n * 2, "net": net, "k": 3})
    assert own.values_at(4) == {"x": 8, "net": net, "k": 3}


def test_code_that_another_process_held_is_refused():
    with held(CODE, CallerCode(lambda x: x, None, {"x": torch.ones(2)}), is_simulated=False):
        assert CodeWorkload(CODE).name == CODE.name
    with pytest.raises(UsageError, match="existed only in the Python process"):
        caller_code(CODE)
