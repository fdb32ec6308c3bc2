"""The experiments beside matmul and vector-dot: every variant is right, costs are counted, clocks report."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cpugpu_tui.bench.torch_machine import as_double, relative_error
from cpugpu_tui.model import ITEMSIZE_BYTES, MOVING, Case, torch_dtype
from cpugpu_tui.workloads import PRESETS, Setting, Workload, find
from cpugpu_tui.workloads.contract import CLOCK_FAIR, CLOCK_WRONG, SCOPE

SIZES = {"elementwise": 1000, "jacobian": 3, "transfer": 4096, "transfer-model": 2, "mnist-mlp": 32,
         "mnist-mlp-wide": 32, "mnist-mlp-width": 64}  # fmt: skip
EVERY = [(name, variant, dtype) for name in SIZES for variant in find(name).steps() for dtype in find(name).dtypes]


class Told:
    """A report that listens; its clock steps by a millisecond."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, int, str]] = []
        self.epochs: list[tuple[Any, ...]] = []
        self.now_ns = 0.0

    def __call__(self, done: int, of: int, note: str = "") -> None:
        self.parts.append((done, of, note))

    def epoch(self, *facts: Any) -> None:
        self.epochs.append(facts)

    def stopwatch_ns(self) -> float:
        self.now_ns += 1e6
        return self.now_ns


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workload, "setting", Setting("small"))


def placed(name: str, variant: str, dtype: str = "float32", n: int | None = None) -> tuple[Any, ...]:
    item = find(name)
    size = n or SIZES[name]
    inputs = item.inputs(size, getattr(torch, torch_dtype(dtype)), torch.Generator().manual_seed(1))
    return inputs, item.place(variant, inputs, "cpu")


@pytest.mark.parametrize(("name", "variant", "dtype"), EVERY)
def test_every_variant_gives_the_float64_result(name: str, variant: str, dtype: str) -> None:
    item = find(name)
    inputs, given = placed(name, variant, dtype)
    doubles = tuple(as_double(tensor) for tensor in inputs)
    reference = item.reference(variant, doubles).double()
    assert reference.isfinite().all()
    assert reference.count_nonzero() > 0
    error = relative_error(item.checked(variant, given), reference, item.scale(reference, *doubles))
    assert error <= item.tolerance(dtype)


@pytest.mark.parametrize(("name", "variant"), sorted({(name, variant) for name, variant, _ in EVERY}))
def test_costs_are_known_before_anything_is_made(name: str, variant: str) -> None:
    costs = find(name).costs(variant, SIZES[name], ITEMSIZE_BYTES["float32"])
    assert costs.bytes_moved > 0
    assert costs.memory_bytes >= costs.bytes_moved / 4
    assert costs.flops >= 0


# ------------------------------------------------------------------ elementwise


def test_results_go_into_given_memory_only_where_the_variant_says_so() -> None:
    for variant, given in (("fresh", 3), ("add", 3), ("out", 4), ("add-out", 4)):
        tensors = placed("elementwise", variant)[1]
        assert len(tensors) == given
        result = find("elementwise").variant(variant)(*tensors)
        assert (result is tensors[-1]) == (given == 4)


def test_traffic_is_what_each_variant_really_reads_and_writes() -> None:
    costs = {variant: find("elementwise").costs(variant, 100, 4).bytes_moved for variant in find("elementwise").steps()}
    assert costs == {"fresh": 2400, "out": 1600, "add": 1200, "add-out": 1200}


@pytest.mark.parametrize(("scale", "iterations"), [("small", 100), ("full", 1000)])
def test_publication_4s_loop_runs_and_reports(scale: str, iterations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workload, "setting", Setting(scale))
    item, told = find("elementwise"), Told()
    assert item.written("fresh", 50, torch.float32, "cpu", told) == {}
    assert told.parts[0][1] == iterations
    assert len(told.parts) == iterations // 10
    assert item.written_operations(50) == iterations
    assert item.as_written is not None
    assert item.as_written.classes == (CLOCK_WRONG, SCOPE)
    assert item.as_written.covers("fresh", 10**8, "full")
    assert not item.as_written.covers("fresh", 10**7, "full")
    assert item.as_written.covers("fresh", 10**5, "small")


# ------------------------------------------------------------------ jacobian


def test_per_sample_is_the_block_diagonal_of_the_full_jacobian() -> None:
    tensors = placed("jacobian", "loop", "float64", 5)[1]
    item = find("jacobian")
    full, diagonal = item.variant("vectorized")(*tensors), item.variant("per-sample")(*tensors)
    assert full.shape == (5, 400, 5, 1)
    assert diagonal.shape == (5, 400, 1)
    assert torch.allclose(full[torch.arange(5), :, torch.arange(5)], diagonal)
    off = full.clone()
    off[torch.arange(5), :, torch.arange(5)] = 0
    assert off.abs().max() == 0, "what is off the diagonal is zero: 4/5 of the work is for nothing"


def test_publication_3s_cell_reports_each_row_and_moves_once_more() -> None:
    item, told = find("jacobian"), Told()
    assert item.written("loop", 2, torch.float32, "cpu", told) == {MOVING: 1e6}
    assert told.parts[-1][:2] == (800, 800)
    assert len(told.parts) == 800
    written = item.as_written
    assert written is not None
    assert (written.classes, written.imports, written.cpu_seconds) == ((SCOPE, CLOCK_FAIR), True, True)
    assert written.sizes == (100, 1000)


def test_a_jacobian_that_cannot_fit_says_so_before_it_is_tried() -> None:
    """Vectorized at b = 1000: 400 000 unit rows of 400 000 numbers."""
    assert find("jacobian").costs("vectorized", 1000, 4).memory_bytes > 1e12
    assert find("jacobian").costs("loop", 1000, 4).memory_bytes == pytest.approx(3.2e9)


# ------------------------------------------------------------------ transfer


@pytest.mark.parametrize("variant", find("transfer").steps())
def test_a_copy_is_a_copy(variant: str) -> None:
    (host,), (source, target) = placed("transfer", variant)
    assert target.data_ptr() != source.data_ptr()
    result = find("transfer").variant(variant)(source, target)
    assert result is target
    assert torch.equal(result, host)
    assert host.numel() == 4096
    assert host.count_nonzero() == 4096


def test_a_model_moves_parameter_by_parameter() -> None:
    item = find("transfer-model")
    assert item.bytes_moved(1, 4) == (100 * 30 + 30) * 4
    parameters, _ = placed("transfer-model", "h2d")[1]
    assert [tuple(p.shape) for p in parameters] == [(30, 100), (30,)] * 2


def test_transfers_cover_4_bytes_to_a_gibibyte_and_publication_4s_tensors() -> None:
    sizes = PRESETS["transfer"].parts[0].sizes
    assert (sizes[0], sizes[-1]) == (4, 2**30)
    assert {400, 400_000_000} <= set(sizes)
    assert list(sizes) == sorted(sizes)


def test_every_case_of_a_small_scale_is_affordable() -> None:
    for preset in PRESETS.values():
        for part in preset.small.parts if preset.small else ():
            for variant in part.variants:
                for size in part.sizes:
                    case = Case(part.workload, size, variant=variant)
                    assert find(case.workload).costs(variant, size, 4).memory_bytes < 2e8, case.key
