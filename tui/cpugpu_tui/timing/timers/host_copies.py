"""Copies of results back to the host, into memory whose pages are mapped before a call is timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cpugpu_tui.workloads.containers import tensors


def copier(result: Any, *, pinned: bool) -> Callable[..., Any]:
    """Return what copies results like this one into host buffers of their own, and returns these.

    The results of data-dependent code (`nms`, a boolean mask) have another size for other inputs, so a buffer grows
    when a result does not fit.
    """
    import torch

    def copy_one(at: int, each: Any, non_blocking: bool) -> Any:
        if targets[at].shape != each.shape:
            targets[at] = reshaped(targets[at], each, pinned=pinned)
        return targets[at].copy_(each, non_blocking=non_blocking)

    def copy_only(found: Any, *, non_blocking: bool = False) -> Any:
        if found.shape == shape:  # 0.1 µs, and a walk through containers would add 2 µs to a call
            return copy_first(found, non_blocking)
        return copy_one(0, found, non_blocking)

    def copy_all(found: Any, *, non_blocking: bool = False) -> list[Any]:
        return [copy_one(at, each, non_blocking) for at, each in enumerate(tensors(found))]

    targets = [torch.zeros(each.shape, dtype=each.dtype, pin_memory=pinned) for each in tensors(result)]
    if not isinstance(result, torch.Tensor):
        return copy_all
    shape, copy_first = result.shape, targets[0].copy_
    return copy_only


def reshaped(buffer: Any, result: Any, *, pinned: bool) -> Any:
    """Return a host buffer in the shape of a result: this buffer's memory if it suffices, else twice what is needed."""
    import torch

    if buffer.untyped_storage().nbytes() < result.nbytes:
        buffer = torch.zeros(2 * result.numel(), dtype=result.dtype, pin_memory=pinned)
    made: Any = torch.empty(0, dtype=result.dtype)
    return made.set_(buffer.untyped_storage(), 0, result.shape)
