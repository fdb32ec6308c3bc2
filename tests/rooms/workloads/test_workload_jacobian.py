"""The Jacobian of publication P3's network: three variants, counted FLOPs, the notebook's cell."""

from typing import Any

import pytest
import torch
from tests.helpers.runs.counting import Operations, Told
from torch import nn
from torch.autograd import functional

from cpugpu_tui.model import MOVING, torch_dtype
from cpugpu_tui.timing.result_check import relative_error
from cpugpu_tui.workloads import find
from cpugpu_tui.workloads.contract import CLOCK_FAIR, SCOPE
from cpugpu_tui.workloads.jacobian import network

ITEM = find("jacobian")
VARIANTS = tuple(ITEM.steps())


def written(n, told):
    report: Any = told
    return ITEM.written("loop", n, torch.float32, "cpu", report)


def inputs(n, dtype=torch.float32):
    return ITEM.inputs(n, dtype, torch.Generator().manual_seed(1))


@pytest.fixture
def backward_passes(monkeypatch):
    """One entry for each call of `torch.autograd.grad`."""
    calls: list[int] = []
    real = torch.autograd.grad

    def counted(*args, **keywords):
        calls.append(1)
        return real(*args, **keywords)

    monkeypatch.setattr(torch.autograd, "grad", counted)
    return calls


@pytest.mark.parametrize("dtype", ITEM.dtypes)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_right_in_every_dtype_and_another_networks_result_is_not(variant, dtype):
    tensors = inputs(2, getattr(torch, torch_dtype(dtype)))
    doubles = tuple(tensor.double() for tensor in tensors)
    reference = ITEM.reference(variant, doubles)
    result = ITEM.checked(variant, ITEM.place(variant, tensors, "cpu"))
    assert result.shape == ((2, 400, 1) if variant == "per-sample" else (2, 400, 2, 1))
    assert result.dtype == tensors[0].dtype
    assert result.is_contiguous()
    assert not result.requires_grad
    scale, tolerance = ITEM.scale(reference, *doubles), ITEM.tolerance(dtype)
    assert relative_error(result, reference, scale) <= tolerance
    other = ITEM.reference(variant, (doubles[0] + 0.5, *doubles[1:]))
    assert relative_error(result, other, scale) > tolerance


def test_the_loop_is_torchs_own_bit_by_bit_with_as_many_backward_passes(backward_passes):
    x, *parameters = inputs(2)
    result = ITEM.step(x, *parameters)
    ours = len(backward_passes)
    torchs = functional.jacobian(network(tuple(parameters)), x)
    assert torch.equal(result, torchs)
    assert (ours, len(backward_passes) - ours) == (800, 800)
    assert not x.requires_grad, "the inputs are left as they were"


def test_per_sample_is_the_block_diagonal_and_the_rest_of_the_full_tensor_is_zero():
    tensors = inputs(5, torch.float64)
    full, diagonal = ITEM.variant("vectorized")(*tensors), ITEM.reference("per-sample", tensors)
    each = torch.arange(5)
    assert torch.allclose(full[each, :, each], diagonal, rtol=1e-12)
    full[each, :, each] = 0
    assert full.count_nonzero() == 0


def test_the_network_is_publication_3s():
    model = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 400), nn.Tanh())
    x, *parameters = inputs(7)
    assert [p.shape for p in parameters] == [p.shape for p in model.parameters()]
    with torch.no_grad():
        for own, drawn in zip(model.parameters(), parameters, strict=True):
            # The same law: equal bounds, and equal spread where there are enough numbers to tell.
            assert drawn.abs().max() <= own.shape[-1] ** -0.5 if own.ndim == 2 else True
            if own.numel() >= 400:
                assert drawn.std() == pytest.approx(float(own.std()), rel=0.1)
            own.copy_(drawn)
        assert torch.allclose(model(x), network(tuple(parameters))(x))
    assert x.shape == (7, 1)
    assert 0 <= float(x.min()) < float(x.max()) < 1


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("variant", VARIANTS)
def test_flops_are_those_of_the_matrix_products_that_torch_runs(variant, n):
    tensors = inputs(n)
    with Operations() as ran:
        ITEM.variant(variant)(*tensors)
    assert ITEM.costs(variant, n, 4).flops == ran.product_flops()


def test_memory_is_what_was_measured():
    """Peaks read from the kernel on a CPU, float32, MB: 33.9 and 76.6; 1650; 38.0 and 250.8."""
    megabytes = {
        (variant, n): ITEM.costs(variant, n, 4).memory_bytes / 2**20
        for variant, n in (("loop", 50), ("loop", 100), ("vectorized", 30), ("per-sample", 30), ("per-sample", 200))
    }
    assert list(megabytes.values()) == pytest.approx([33.9, 76.6, 1650, 38.0, 250.8], rel=0.1)


# ------------------------------------------------------------------ publication P3


def test_the_cell_reports_each_samples_rows_and_moves_once_more(backward_passes):
    told = Told()
    with Operations() as ran:
        assert written(2, told) == {MOVING: 1e6}
    assert [part[:2] for part in told.parts] == [(400, 800), (800, 800)]
    assert len(backward_passes) == 800
    assert ran.product_flops() == ITEM.flops(2)


def test_publication_3_ran_two_batches_with_imports_inside_and_cpu_seconds_beside():
    facts = ITEM.as_written
    assert (facts.publication, set(facts.classes), facts.whole) == ("P3", {SCOPE, CLOCK_FAIR}, True)
    assert (facts.imports, facts.cpu_seconds) == (True, True)
    assert [facts.covers("loop", n, "full") for n in (100, 1000, 10)] == [True, True, False]
    assert facts.covers("loop", 4, "small")
    assert not facts.covers("vectorized", 100, "full")
    assert ITEM.written_operations(100) == 1
