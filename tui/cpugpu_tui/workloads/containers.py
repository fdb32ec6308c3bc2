"""Tensors wherever they lie in what a step takes or returns: alone, in lists, tuples, dictionaries and modules."""

from __future__ import annotations

import copy
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the value with `change` applied to each tensor and module in it; everything else stays as it is."""
    import torch

    if isinstance(value, (torch.Tensor, torch.nn.Module)):
        return change(value)
    if isinstance(value, dict):
        return type(value)((key, mapped(each, change)) for key, each in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(each, change) for each in value))
    if isinstance(value, (list, tuple)):
        found = type(value)(mapped(each, change) for each in value)
        if hasattr(value, "__dict__"):  # a subclass with attributes, such as the inputs of typed code
            vars(found).update(vars(value))
        return found
    return value


def moved(value: Any, device: str) -> Any:
    """Return the value on a device. Tensors that lie there are shared, modules are always copied.

    A tensor that a GPU held comes to the host in pageable memory, which is what the harness calls it.
    """
    import torch

    is_gpu = torch.device(device).type == "cuda"

    def move(each: Any) -> Any:
        if isinstance(each, torch.nn.Module):
            return copy.deepcopy(each).to(device)
        # Copies to a GPU are queued in order with the kernels that read them; pageable memory is staged by the driver.
        # A copy to the host waits: torch makes it in recycled pinned memory, and who reads that early reads what lay
        # there before. On an H200, 9 of 10 right results of sort failed the check so.
        return each.to(device, non_blocking=is_gpu)

    return mapped(value, move)


def copied(value: Any) -> Any:
    """Return the value with memory of its own."""
    import torch

    def duplicate(each: Any) -> Any:
        if isinstance(each, torch.nn.Module):
            return copy.deepcopy(each)
        return each.detach().clone().requires_grad_(each.requires_grad)

    return mapped(value, duplicate)


def fill(target: Any, source: Any) -> None:
    """Copy the numbers of a value into the tensors of another one that is built alike; skip those of another shape."""
    import torch

    with torch.no_grad():
        for each, other in zip(tensors(target), tensors(source), strict=True):
            if each.shape == other.shape:
                each.copy_(other)


def doubled(value: Any) -> Any:
    """Return the value with floating-point and complex tensors and modules in 64 bits, labels and bytes as they are."""
    import torch

    def double(each: Any) -> Any:
        if isinstance(each, torch.nn.Module):
            return copy.deepcopy(each).double()
        if each.is_complex():
            return each.to(torch.complex128)
        return each.double() if each.is_floating_point() else each

    return mapped(value, double)


def pinned(value: Any) -> Any:
    """Return the value with its dense tensors in pinned memory."""
    import torch

    return mapped(value, lambda each: each.pin_memory() if getattr(each, "layout", None) is torch.strided else each)


def holds_tensors(value: Any) -> bool:
    """Whether there is a tensor or module in the value."""
    return bool(_leaves(value))


def holds_modules(value: Any) -> bool:
    """Whether there is a module in the value."""
    import torch

    return any(isinstance(each, torch.nn.Module) for each in _leaves(value))


def _leaves(value: Any) -> list[Any]:
    found: list[Any] = []
    mapped(value, found.append)
    return found


def tensors(value: Any) -> Iterator[Any]:
    """Yield each tensor in the value, those of modules included."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from value.parameters()
        yield from value.buffers()
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors(each)


def bytes_in(value: Any) -> int:
    """Return the bytes of all tensors in the value."""
    return sum(part.numel() * part.element_size() for each in tensors(value) for part in stored(each))


def stored(tensor: Any) -> tuple[Any, ...]:
    """Return the dense tensors in which a tensor is stored: indices and values of a sparse one, else itself."""
    import torch

    if tensor.layout is torch.strided:
        return (tensor,)
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout is torch.sparse_csr:
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    return (tensor.to_dense(),)


def numbers(result: Any) -> tuple[Any, ...]:
    """Return every number of a result, in its order, as tensors; empty if it holds none."""
    return _numbers(result, lambda each: each)


def defined_numbers(result: Any) -> tuple[Any, ...]:
    """Return the numbers of a result without the indices that torch gives beside values, as of `sort` and `topk`.

    Equal values may have theirs in any order. Of 262,144 numbers of `torch.rand`, 2,061 equal the one before, a GPU
    sorts them stably and AVX-512 does not: the indices differ by 0.0629 of their norm, and both are right.
    """
    return _numbers(result, lambda each: each.values if _has_indices(each) else each)


def _has_indices(value: Any) -> bool:
    return type(value).__module__ == "torch.return_types" and hasattr(value, "values") and hasattr(value, "indices")


def _numbers(result: Any, wanted: Callable[[Any], Any]) -> tuple[Any, ...]:
    import torch

    result = wanted(result)
    if isinstance(result, torch.Tensor):
        return ((result if result.layout is torch.strided else result.to_dense()).resolve_conj(),)
    if isinstance(result, (bool, int, float)):
        return (torch.tensor(float(result), dtype=torch.float64),)
    if (found := as_tensor(result)) is not None:
        return (found,)
    if isinstance(result, dict):
        result = tuple(result.values())
    if not isinstance(result, (list, tuple)):
        return ()
    return tuple(number for each in result for number in _numbers(each, wanted))


def as_tensor(value: Any) -> Any:
    """Return an array of any library as a tensor, by DLPack, as NumPy's or by its buffer; None for other values."""
    import torch
    from torch.utils.dlpack import from_dlpack

    def by_buffer() -> Any:
        with memoryview(value) as view:
            return torch.tensor(view.tolist(), dtype=torch.float64)

    ways: dict[str, Callable[[], Any]] = {
        "__dlpack__": lambda: from_dlpack(value), "__array__": lambda: torch.from_numpy(value.__array__().copy()),
        "__buffer__": by_buffer,
    }  # fmt: skip
    if isinstance(value, (str, bytes)):
        return None
    for protocol, convert in ways.items():
        if hasattr(value, protocol) or (protocol == "__buffer__" and isinstance(value, (array, memoryview))):
            with suppress(Exception):  # a dtype that torch lacks, memory that cannot be written
                return convert()
    return None


def combined(parts: Sequence[Any]) -> Any:
    """Return tensors as one, in float64 on the host: a single one keeps its shape, others become a row."""
    import torch

    if not parts:
        return torch.empty(0, dtype=torch.float64)
    real = [torch.view_as_real(each) if each.is_complex() else each for each in (part.detach().cpu() for part in parts)]
    return real[0].double() if len(real) == 1 else torch.cat([each.double().reshape(-1) for each in real])
