"""Copies between host and GPU, and within each: publication P4's list of calls, timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cpugpu_tui.workloads.contract import Costs, Step, Workload, workload

if TYPE_CHECKING:
    import torch

FEATURES = (100, 30)
"""P4's model is one Linear from 100 to 30."""


def copied(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Copy `source` into `target` and return it; pinned memory is copied without waiting, as on any stream."""
    return target.copy_(source, non_blocking=True)


@workload
class Transfer(Workload):
    """Copy of n bytes: host to GPU, GPU to host, within the GPU. In the CPU's column: within the host's memory."""

    name = "transfer"
    axis = "bytes"
    sizes = tuple(4 * 4**k for k in range(15))
    dtypes = ("float32",)
    has_end_to_end = False

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return n random bytes, whatever the dtype."""
        del dtype
        import torch

        return (torch.randint(1, 256, (n,), dtype=torch.uint8, generator=generator),)

    def step(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Copy."""
        return copied(source, target)

    def steps(self) -> Mapping[str, Step]:
        """All variants are one call; they differ in where source and target lie."""
        names = ("h2d-pageable", "h2d-pinned", "d2h-pageable", "d2h-pinned", "d2d")
        return dict.fromkeys(names, self.step)

    def place(self, variant: str, inputs: tuple[torch.Tensor, ...], device: str) -> tuple[Any, ...]:
        """Return source and target where the variant says; for the CPU both are ordinary host memory."""
        import torch

        (host,) = inputs
        if device == "cpu":
            return host, torch.zeros_like(host)
        pinned = variant.endswith("pinned")
        source = host.pin_memory() if pinned and variant.startswith("h2d") else host
        if not variant.startswith("h2d"):
            source = source.to(device)
        if variant.startswith("d2h"):
            return source, torch.zeros(host.shape, dtype=host.dtype, pin_memory=pinned)
        return source, torch.zeros_like(host, device=device)

    def flops(self, n: int) -> float:
        """Nothing is computed."""
        del n
        return 0.0

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Bytes read plus bytes written within one memory."""
        del itemsize_bytes
        return 2.0 * n

    def costs(self, variant: str, n: int, itemsize_bytes: int) -> Costs:
        """Return the bytes that cross the cable, once; within one memory each is read and written."""
        del itemsize_bytes
        return Costs(0.0, 2.0 * n if variant in ("d2d", "default") else float(n), 2.0 * n)


@workload
class TransferModel(Workload):
    """Move n models of one Linear 100→30, parameter by parameter, to the GPU and back; on the CPU a copy."""

    name = "transfer-model"
    axis = "models"
    sizes = (1,)
    dtypes = ("float32",)
    has_end_to_end = False

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return weight and bias of each model, standard normals."""
        import torch

        wide, narrow = FEATURES
        shapes = [(narrow, wide), (narrow,)] * n
        return tuple(torch.randn(*shape, generator=generator, dtype=dtype) for shape in shapes)

    def step(self, parameters: tuple[torch.Tensor, ...], target: str) -> Any:
        """Return all parameters on `target`, each copied on its own, as `model.to(device)` does."""
        # copy=True, so that the CPU's column is work too: a move to where a tensor lies does nothing.
        return [parameter.to(target, copy=True) for parameter in parameters][-1]

    def steps(self) -> Mapping[str, Step]:
        """To the GPU and back."""
        return {"h2d": self.step, "d2h": self.step}

    def place(self, variant: str, inputs: tuple[torch.Tensor, ...], device: str) -> tuple[Any, ...]:
        """Return the parameters where the copy starts, and the name of where it ends."""
        if variant == "d2h":
            return tuple(parameter.to(device) for parameter in inputs), "cpu"
        return inputs, device

    def flops(self, n: int) -> float:
        """Nothing is computed."""
        del n
        return 0.0

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Every parameter crosses once."""
        wide, narrow = FEATURES
        return float(n) * (wide + 1) * narrow * itemsize_bytes

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Parameters and their copy."""
        return 2 * self.bytes_moved(n, itemsize_bytes)
