"""Copies between host and GPU and within each: the calls that publication P4 lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cpugpu_tui.workloads.contract import Costs, Step, Workload, normals, uniforms, workload

if TYPE_CHECKING:
    import torch

FEATURES = (100, 30)
"""Inputs and outputs of P4's model, a single `Linear`."""

NUMBER_BYTES = 4
"""Size of the float32 numbers that are copied, as in P4."""


class Copy(Workload):
    """A copy. Nothing is computed, and the copy must be exact."""

    dtypes = ("float32",)
    has_end_to_end = False

    def reference(self, variant: str, doubles: tuple[Any, ...]) -> Any:
        """Return what is copied."""
        return doubles

    def tolerance(self, dtype: str) -> float:
        """Return 0."""
        return 0.0

    def flops(self, n: int) -> float:
        """Return 0."""
        return 0.0


@workload
class Transfer(Copy):
    """Copy of n bytes: host to GPU (h2d), GPU to host (d2h), within the GPU (d2d); on the CPU within host memory.

    The CPU times of all variants are therefore the same: copies that do not cross PCIe. n is rounded up to whole
    float32 numbers.
    """

    name = "transfer"
    axis = "bytes"
    sizes = tuple(4 * 4**k for k in range(15))

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return n bytes of float32 numbers, uniform in (0, 1]. Zeros would hide a missing copy."""
        return (1 - uniforms(dtype, generator, (numbers(n),))[0],)

    def step(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Copy and wait until host memory can be reused; pageable memory does not allow anything else."""
        return target.copy_(source)

    def queued(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Queue the copy without waiting for it."""
        return target.copy_(source, non_blocking=True)

    def steps(self) -> Mapping[str, Step]:
        """Return the variants: the same bytes, with source and target in different memory."""
        return {
            "h2d-pageable": self.step,
            "h2d-pinned": self.queued,
            "d2h-pageable": self.step,
            "d2h-pinned": self.queued,
            "d2d": self.step,
        }

    def place(self, variant: str, inputs: tuple[torch.Tensor, ...], device: str) -> tuple[Any, ...]:
        """Return source and target in the memory of the variant; for the CPU both are pageable host memory."""
        import torch

        (host,) = inputs
        if device == "cpu":
            return host, torch.zeros_like(host)
        is_pinned = variant.endswith("pinned")
        if variant.startswith("d2h"):
            # Filled with zeros, so that its pages exist before the first copy.
            return host.to(device), torch.zeros(host.shape, dtype=host.dtype, pin_memory=is_pinned)
        target = torch.zeros_like(host, device=device)
        if variant == "d2d":
            return host.to(device), target
        return host.pin_memory() if is_pinned else host, target

    def costs(self, variant: str, n: int, itemsize_bytes: int) -> Costs:
        """Return the bytes that cross PCIe, to which rates in GB/s refer; for `d2d`, those read plus written.

        Memory counts source and target, which on the CPU are on the same device.
        """
        copied_bytes = float(NUMBER_BYTES * numbers(n))
        return Costs(0.0, 2 * copied_bytes if variant == "d2d" else copied_bytes, 2 * copied_bytes)


@workload
class TransferModel(Copy):
    """Copy of n models of one Linear 100→30 to the GPU (h2d) or to the host (d2h); on the CPU within host memory."""

    name = "transfer-model"
    axis = "models"
    sizes = (1,)

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return weight [30, 100] and bias [30] of each model, standard normals."""
        wide, narrow = FEATURES
        return normals(dtype, generator, *[(narrow, wide), (narrow,)] * n)

    def step(self, target: str, *parameters: torch.Tensor) -> list[torch.Tensor]:
        """Return the parameters on `target`, copied one by one as `model.to(target)` does."""
        # copy=True: on the CPU they are there already, and `to` alone would do nothing.
        return [parameter.to(target, copy=True) for parameter in parameters]

    def steps(self) -> Mapping[str, Step]:
        """Return both directions."""
        return {"h2d": self.step, "d2h": self.step}

    def place(self, variant: str, inputs: tuple[torch.Tensor, ...], device: str) -> tuple[Any, ...]:
        """Return the target device and the parameters on the source device."""
        return ("cpu", *super().place(variant, inputs, device)) if variant == "d2h" else (device, *inputs)

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of all parameters, copied once."""
        wide, narrow = FEATURES
        return float(n) * (wide + 1) * narrow * itemsize_bytes

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of the parameters and their copies."""
        return 2 * self.bytes_moved(n, itemsize_bytes)


def numbers(size_bytes: int) -> int:
    """Return the number of float32 numbers in so many bytes, rounded up."""
    return -(-size_bytes // NUMBER_BYTES)


def link_of(variant: str) -> str | None:
    """Return the variant's key in `Ceilings.transfers`; None if it does not copy between host and GPU."""
    return variant.replace("-", "_") if variant.startswith(("h2d", "d2h")) else None
