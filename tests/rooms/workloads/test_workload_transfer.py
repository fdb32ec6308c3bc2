"""Copies: correct bytes, source and target memory of each variant, and counted bytes."""

import pytest
import torch
from tests.helpers.runs.errors import error_of

from cpugpu_tui.workloads import PRESETS, find
from cpugpu_tui.workloads.containers import copied, numbers

COPY = find("transfer")
MODEL = find("transfer-model")
VARIANTS = tuple(COPY.steps())


def inputs(item, n):
    return item.inputs(n, torch.float32, torch.Generator().manual_seed(1))


def error(item, variant, result, host):
    doubles = tuple(tensor.double() for tensor in host)
    return error_of(item, result, item.reference(variant, doubles), doubles)


@pytest.fixture
def pinned(monkeypatch):
    """Addresses of tensors that would be pinned; torch cannot pin memory without a GPU."""
    addresses: list[int] = []
    zeros = torch.zeros

    def pin_memory(tensor):
        copy = tensor.clone()
        addresses.append(copy.data_ptr())
        return copy

    def pinned_zeros(*args, pin_memory=False, **keywords):
        made = zeros(*args, **keywords)
        if pin_memory:
            addresses.append(made.data_ptr())
        return made

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(torch, "zeros", pinned_zeros)
    return addresses


@pytest.mark.parametrize(("item", "variant"), [(item, name) for item in (COPY, MODEL) for name in item.steps()])
def test_a_copy_is_exact_and_a_single_wrong_bit_is_noticed(item, variant):
    host = inputs(item, 1000)
    result = copied(numbers(item.checked(variant, item.place(variant, host, "cpu"))))
    assert error(item, variant, result, host) <= item.tolerance("float32")
    result[-1].view(torch.int32)[-1] ^= 1
    assert error(item, variant, result, host) > item.tolerance("float32")


@pytest.mark.parametrize(
    ("variant", "ways", "is_pinned"),
    [
        ("h2d-pageable", ("cpu", "meta"), False),
        ("h2d-pinned", ("cpu", "meta"), True),
        ("d2h-pageable", ("meta", "cpu"), False),
        ("d2h-pinned", ("meta", "cpu"), True),
        ("d2d", ("meta", "meta"), False),
    ],
)
def test_source_and_target_lie_where_the_variant_says(variant, ways, is_pinned, pinned):
    # The meta device replaces a GPU: it tracks devices of tensors but copies nothing.
    placed = COPY.place(variant, inputs(COPY, 4096), "meta")
    assert tuple(tensor.device.type for tensor in placed) == ways
    on_host = [tensor.data_ptr() for tensor in placed if tensor.device.type == "cpu"]
    assert pinned == (on_host if is_pinned else [])


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_copies_from_or_to_pinned_memory_are_not_waited_for(variant):
    class Target:
        def copy_(self, source, *, non_blocking=False):
            return source, non_blocking

    assert COPY.variant(variant)("source", Target()) == ("source", variant.endswith("pinned"))


@pytest.mark.parametrize(("n", "size_bytes"), [(1, 4), (4, 4), (10, 12), (400, 400), (4096, 4096)])
def test_sizes_are_bytes_in_whole_numbers_and_no_number_is_zero(n, size_bytes):
    (host,) = inputs(COPY, n)
    assert host.numel() * host.element_size() == size_bytes
    assert host.count_nonzero() == host.numel()
    assert COPY.costs("h2d-pinned", n, 4).bytes_moved == size_bytes


def test_what_crosses_the_cable_counts_once_and_within_a_memory_twice():
    moved = {variant: COPY.costs(variant, 4096, 4).bytes_moved for variant in (*VARIANTS, "default")}
    assert moved == dict.fromkeys(moved, 4096) | {"d2d": 8192}
    costs = COPY.costs("d2h-pageable", 4096, 4)
    assert (costs.flops, costs.memory_bytes) == (0, 8192)
    assert not COPY.has_end_to_end


def test_transfers_cover_4_bytes_to_a_gibibyte_and_publication_4s_tensors():
    sizes = PRESETS["transfer"].parts[0].sizes
    assert (sizes[0], sizes[-1], len(sizes)) == (4, 2**30, 17)
    assert {400, 400_000_000} <= set(sizes)
    assert list(sizes) == sorted(sizes)


# ------------------------------------------------------------------ a model


def test_a_model_moves_parameter_by_parameter_there_and_back():
    host = inputs(MODEL, 2)
    assert [tuple(parameter.shape) for parameter in host] == [(30, 100), (30,)] * 2
    there = MODEL.variant("h2d")(*MODEL.place("h2d", host, "meta"))
    assert [parameter.device.type for parameter in there] == ["meta"] * 4
    target, *started = MODEL.place("d2h", host, "meta")
    assert target == "cpu"
    assert {parameter.device.type for parameter in started} == {"meta"}
