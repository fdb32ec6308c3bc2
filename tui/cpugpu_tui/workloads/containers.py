"""Tensors wherever they lie in what a step takes or returns: alone, in lists, tuples, dictionaries and modules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
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
    """Return the value on a device. Tensors that lie there are shared, modules are always copied."""
    import torch

    def move(each: Any) -> Any:
        if isinstance(each, torch.nn.Module):
            return copy.deepcopy(each).to(device)
        # Copies to a GPU are queued in order with the kernels that read them; pageable memory is staged by the driver.
        return each.to(device, non_blocking=True)

    return mapped(value, move)


def doubled(value: Any) -> Any:
    """Return the value with floating-point tensors and modules in float64, labels and bytes as they are."""
    import torch

    def double(each: Any) -> Any:
        if isinstance(each, torch.nn.Module):
            return copy.deepcopy(each).double()
        return each.double() if each.is_floating_point() else each

    return mapped(value, double)


def pinned(value: Any) -> Any:
    """Return the value with its tensors in pinned memory."""
    import torch

    return mapped(value, lambda each: each.pin_memory() if isinstance(each, torch.Tensor) else each)


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
    return sum(each.numel() * each.element_size() for each in tensors(value))
