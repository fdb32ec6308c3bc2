"""The first two workloads, all presets, and the contract of user-defined workloads."""

from typing import Any

import pytest
import torch

from cpugpu_tui.model import ITEMSIZE_BYTES, torch_dtype
from cpugpu_tui.workloads import PRESETS, Workload, find, workload
from cpugpu_tui.workloads.containers import moved

NAMES = ["matmul", "vector-dot"]


def inputs(name, n, seed=1, dtype=torch.float32):
    return find(name).inputs(n, dtype, torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------ every workload keeps the contract


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bytes_and_never_zeros(name):
    first, again, other = inputs(name, 37), inputs(name, 37), inputs(name, 37, seed=2)
    for a, b, c in zip(first, again, other, strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
        assert a.count_nonzero() > 0.9 * a.numel()
        assert a.device.type == "cpu"


def test_the_table_of_all_sizes_is_drawn_once_and_the_tokens_are_those_after_it():
    table, tokens = inputs("embedding", 37)
    drawn = torch.Generator().manual_seed(1)
    assert torch.equal(table, torch.randn(table.shape, generator=drawn))
    assert torch.equal(tokens, torch.randint(len(table), (37,), generator=drawn))
    assert inputs("embedding", 5)[0] is table
    assert not torch.equal(inputs("embedding", 5, seed=2)[0], table)


@pytest.mark.parametrize("name", NAMES)
def test_all_variants_claim_the_same_number_and_it_is_right(name):
    tensors = inputs(name, 53)
    doubles = tuple(tensor.double() for tensor in tensors)
    reference = doubles[0] @ doubles[1]
    for step in find(name).steps().values():
        result = step(*tensors)
        assert result.dtype == torch.float32
        error = float((result.double() - reference).norm())
        assert error <= 1e-5 * find(name).scale(reference, *doubles)


@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name in NAMES for dtype in find(name).dtypes])
def test_memory_is_estimated_from_what_is_really_made(name, dtype):
    item = find(name)
    tensors = inputs(name, 100, dtype=getattr(torch, torch_dtype(dtype)))
    result = item.step(*tensors)
    real = sum(t.numel() * t.element_size() for t in (*tensors, result))
    assert item.memory_bytes(100, ITEMSIZE_BYTES[dtype]) == pytest.approx(real, rel=0.01)


# ------------------------------------------------------------------ the publications


def test_matmul_is_publication_1s():
    a, b = inputs("matmul", 200)
    assert a.shape == b.shape == (200, 200)
    for tensor in (a, b):
        assert float(tensor.min()) >= 0.0
        assert float(tensor.max()) < 1.0
        assert float(tensor.mean()) == pytest.approx(0.5, abs=0.01)
    assert find("matmul").flops(100) == 2e6
    out = torch.empty(200, 200)
    assert find("matmul").step(a, b, out=out) is out
    written = find("matmul").as_written
    assert (written.publication, written.classes) == ("P1", ("clock wrong",))
    assert (written.calls, written.whole) == (1, False)
    assert written.covers("default", 9951, "full")


def test_vector_dot_is_publication_2s():
    row, column = inputs("vector-dot", 10_000)
    assert row.shape == (1, 10_000)
    assert column.shape == (10_000, 1)
    for tensor in (row, column):
        assert float(tensor.mean()) == pytest.approx(0.0, abs=0.05)
        assert float(tensor.std()) == pytest.approx(1.0, abs=0.05)
    item = find("vector-dot")
    assert {step(row, column).shape for step in item.steps().values()} == {(1, 1)}
    assert item.flops(10) == 20
    written = item.as_written
    assert (written.publication, written.variants) == ("P2", ("matmul",))
    assert (written.classes, written.calls_before, written.calls, written.whole) == (
        ("clock wrong", "scope"), 10, 10, True,
    )  # fmt: skip
    assert item.written_operations(1000) == 10
    torch.manual_seed(1)
    report: Any = None
    assert item.written("matmul", 1000, torch.float32, "cpu", report) == {}
    drawn = torch.rand(1)
    torch.manual_seed(1)
    torch.randn(1, 1000), torch.randn(1000, 1)
    assert torch.equal(torch.rand(1), drawn), "both vectors are made inside the clock"


def test_a_dot_products_error_is_not_measured_against_a_sum_near_zero():
    row, column = torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0], [-1.0]])
    assert find("vector-dot").scale(row @ column, row, column) == pytest.approx(2.0)


def test_presets_have_the_publications_sizes():
    assert next(iter(PRESETS)) == "quick"
    assert PRESETS["matmul-sweep"].parts[0].sizes == tuple(range(1, 9952, 50))
    assert len(PRESETS["matmul-sweep"].parts[0].sizes) == 200
    assert PRESETS["vector-dot"].parts[0].sizes == (10**2, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_every_preset_names_what_there_is_and_says_what_its_small_scale_leaves_out(preset):
    assert preset.summary
    assert preset.small is not None or preset.is_search
    for part in (*preset.parts, *(preset.small.parts if preset.small else ())):
        assert all(find(part.workload).variant(variant) for variant in part.variants)
        assert len(set(part.sizes)) == len(part.sizes) > 0
    assert preset.small is None or "instead of" in preset.small.says


# ------------------------------------------------------------------ a person's own


def test_a_workload_of_two_functions_is_enough():
    @workload
    class Negate(Workload):
        """Minus.

        Long explanation.
        """

        name = "negate"

        def inputs(self, n, dtype, generator):
            return (torch.rand(n, dtype=dtype, generator=generator),)

        def step(self, tensor):
            return -tensor

    info = find("negate").info()
    assert (info.name, info.summary, info.variants) == ("negate", "Minus.", ("default",))
    assert find("negate").variant("default")(torch.ones(1)).item() == -1


@pytest.mark.parametrize(("device", "waits"), [("cpu", True), ("cuda:0", False), ("cuda", False), ("meta", True)])
def test_only_a_copy_to_a_gpu_goes_on_without_waiting(device, waits):
    """A copy to the host must have arrived when it is read: torch makes it in recycled pinned memory."""
    asked: list[bool] = []

    class Spy(torch.Tensor):
        def to(self, *_, non_blocking=False, **__):
            asked.append(not non_blocking)
            return self

    moved([torch.zeros(1).as_subclass(Spy)], device)
    assert asked == [waits]
