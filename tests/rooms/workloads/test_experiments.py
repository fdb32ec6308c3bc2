"""Properties of all other experiments: correct variants, and costs known before a run."""

import pytest
import torch
from tests.helpers.runs.errors import error_of

from cpugpu_tui.model import ITEMSIZE_BYTES, Case, torch_dtype
from cpugpu_tui.workloads import PRESETS, Setting, Workload, find
from cpugpu_tui.workloads.containers import combined, doubled, numbers

SIZES = {"elementwise": 1000, "jacobian": 3, "transfer": 4096, "transfer-model": 2, "mnist-mlp": 32,
         "mnist-mlp-wide": 32, "mnist-mlp-width": 64}  # fmt: skip
EVERY = [(name, variant, dtype) for name in SIZES for variant in find(name).steps() for dtype in find(name).dtypes]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(Workload, "setting", Setting("small"))


def placed(name, variant, dtype="float32", n=None):
    item = find(name)
    size = n or SIZES[name]
    inputs = item.inputs(size, getattr(torch, torch_dtype(dtype)), torch.Generator().manual_seed(1))
    return inputs, item.place(variant, inputs, "cpu")


@pytest.mark.parametrize(("name", "variant", "dtype"), EVERY)
def test_every_variant_gives_the_float64_result(name, variant, dtype):
    item = find(name)
    inputs, given = placed(name, variant, dtype)
    doubles = tuple(doubled(tensor) for tensor in inputs)
    reference = item.reference(variant, doubles)
    assert combined(numbers(reference)).isfinite().all()
    assert combined(numbers(reference)).count_nonzero() > 0
    assert error_of(item, item.checked(variant, given), reference, doubles) <= item.tolerance(dtype)


@pytest.mark.parametrize(("name", "variant"), sorted({(name, variant) for name, variant, _ in EVERY}))
def test_costs_are_known_before_anything_is_made(name, variant):
    costs = find(name).costs(variant, SIZES[name], ITEMSIZE_BYTES["float32"])
    assert costs.bytes_moved > 0
    assert costs.memory_bytes >= costs.bytes_moved / 4
    assert costs.flops >= 0


def test_every_case_of_a_small_scale_is_affordable():
    for preset in PRESETS.values():
        for part in preset.small.parts if preset.small else ():
            for variant in part.variants:
                for size in part.sizes:
                    case = Case(part.workload, size, variant=variant)
                    assert find(case.workload).costs(variant, size, 4).memory_bytes < 2e8, case.key
