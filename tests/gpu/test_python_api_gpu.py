"""The Python API on a real GPU: in a process of its own, and in the caller's."""

import pytest
import torch

from cpugpu_tui import time_on

pytestmark = pytest.mark.gpu


def test_a_closure_takes_its_model_to_the_gpu_and_leaves_the_callers_where_it_is():
    model, x = torch.nn.Linear(64, 64), torch.rand(64, 64)
    state = torch.get_rng_state()
    found = time_on(lambda x: model(x).relu(), 64, let={"x": x}, rounds=5)
    (row,) = found.rows
    assert row.failure == ""
    assert row.cpu_ns is not None
    assert row.gpu_ns is not None
    assert any("cuda:0: " in line for line in found.receipt)
    assert {each.device.type for each in (*model.parameters(), x)} == {"cpu"}
    assert bool((torch.get_rng_state() == state).all())


def test_values_on_the_gpu_are_timed_on_both_devices():
    (row,) = time_on("x @ x", 64, let={"x": torch.rand(64, 64, device="cuda")}, rounds=5).rows
    assert row.failure == ""
    assert row.cpu_ns is not None
    assert row.gpu_ns is not None


def test_an_importable_function_is_timed_in_a_process_of_its_own():
    found = time_on(torch.nn.functional.gelu, 1 << 16, let={"input": "torch.rand(n)"}, rounds=5)
    assert found.where == "Ran in a process of its own."
    assert found.rows[0].gpu_ns is not None


def test_a_function_that_never_uses_the_gpu_is_refused():
    (row,) = time_on(lambda: sum(range(1000)), 64, rounds=5).rows
    assert "Never used the GPU" in row.failure
