"""Multiply-add and addition: four variants, counted operations, publication P4's loop."""

import pytest
import torch
from tests.helpers.runs.counting import Operations, Told

from cpugpu_tui.model import torch_dtype
from cpugpu_tui.timing.result_check import relative_error
from cpugpu_tui.workloads import Setting, Workload, find
from cpugpu_tui.workloads.contract import CLOCK_WRONG, SCOPE

ITEM = find("elementwise")
VARIANTS = tuple(ITEM.steps())


def inputs(n, dtype=torch.float32):
    return ITEM.inputs(n, dtype, torch.Generator().manual_seed(1))


@pytest.fixture
def at_scale(monkeypatch):
    return lambda scale: monkeypatch.setattr(Workload, "setting", Setting(scale))


@pytest.mark.parametrize("n", [1, 7, 1000])
@pytest.mark.parametrize("dtype", ITEM.dtypes)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_right_in_every_dtype_and_the_other_operation_is_not(variant, dtype, n):
    tensors = inputs(n, getattr(torch, torch_dtype(dtype)))
    doubles = tuple(tensor.double() for tensor in tensors)
    result = ITEM.checked(variant, ITEM.place(variant, tensors, "cpu"))
    assert result.dtype == tensors[0].dtype

    def error(claimed):
        reference = ITEM.reference(claimed, doubles)
        return relative_error(result, reference, ITEM.scale(reference, *doubles))

    assert error(variant) <= ITEM.tolerance(dtype)
    assert error("fresh" if variant.startswith("add") else "add") > ITEM.tolerance(dtype)


@pytest.mark.parametrize("variant", VARIANTS)
def test_flops_and_traffic_are_those_of_the_operations_that_run(variant):
    placed = ITEM.place(variant, inputs(100), "cpu")
    with Operations() as ran:
        ITEM.variant(variant)(*placed)
    costs = ITEM.costs(variant, 100, 4)
    assert (costs.flops, costs.bytes_moved) == (ran.flops.total(), 4 * ran.elements)


@pytest.mark.parametrize("variant", VARIANTS)
def test_results_go_into_given_memory_only_where_the_variant_says_so(variant):
    placed = ITEM.place(variant, inputs(100), "cpu")
    first, second = (ITEM.variant(variant)(*placed) for _ in range(2))
    assert (first.data_ptr() == second.data_ptr()) == variant.endswith("out")
    assert all(first.data_ptr() != tensor.data_ptr() for tensor in inputs(100))


# ------------------------------------------------------------------ publication P4


@pytest.mark.parametrize(("scale", "iterations"), [("small", 100), ("full", 1000)])
def test_the_loop_is_publication_4s(scale, iterations, at_scale):
    at_scale(scale)
    told = Told()
    # The meta device replaces a GPU: it tracks shapes and devices but computes nothing.
    with Operations() as ran:
        assert ITEM.written("fresh", 50, torch.float32, "meta", told) == {}  # type: ignore[arg-type]
    assert (ran.names["randn"], ran.names["mul"], ran.names["add"]) == (2, iterations + 1, iterations)
    assert (ran.devices["randn"], ran.devices["mul"], ran.devices["add"]) == ({"cpu"}, {"meta"}, {"meta"})
    assert [part[:2] for part in told.parts] == [(done, iterations) for done in range(10, iterations + 1, 10)]
    assert ITEM.written_operations(50) == iterations + 1


def test_publication_4_ran_one_size_and_did_not_wait():
    written = ITEM.as_written
    assert (written.publication, written.classes, written.whole) == ("P4", (CLOCK_WRONG, SCOPE), True)
    assert written.covers("fresh", 10**8, "full")
    assert written.covers("fresh", 10**5, "small")
    assert not written.covers("fresh", 10**7, "full")
    assert not written.covers("out", 10**8, "full")
