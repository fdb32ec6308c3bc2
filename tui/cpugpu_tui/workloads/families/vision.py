"""Vision: a convolution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cpugpu_tui.workloads.contract import Step, Workload, normals, workload

if TYPE_CHECKING:
    import torch

CHANNELS, WINDOW = 64, 3


@workload
class Conv2d(Workload):
    """Convolution of one n×n image with 64 channels by 64 3×3 filters; channels last (faster on a CPU) or first."""

    name = "conv2d"
    axis = "n of n×n pixels"
    sizes = (4, 8, 16, 32, 64, 128, 256)
    stays = 1
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the filters and an image, both normal."""
        return normals(dtype, generator, (CHANNELS, CHANNELS, WINDOW, WINDOW), (1, CHANNELS, n, n))

    def step(self, filters: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        """Return the image convolved, at its size."""
        import torch

        return torch.nn.functional.conv2d(image, filters, padding=WINDOW // 2)

    def steps(self) -> Mapping[str, Step]:
        """Return the same step for both layouts, which `place` makes."""
        return {"channels-last": self.step, "channels-first": self.step}

    def place(self, variant: str, inputs: tuple[torch.Tensor, ...], device: str) -> tuple[torch.Tensor, ...]:
        """Return filters and image on the device, in the layout of the variant. A GPU converts copies itself."""
        import torch

        layout = torch.contiguous_format if variant == "channels-first" else torch.channels_last
        return tuple(each.to(device, memory_format=layout, non_blocking=True) for each in inputs)

    def flops(self, n: int) -> float:
        """Return a multiplication and an addition for each channel, filter, place in the filter, and pixel."""
        return 2.0 * CHANNELS**2 * WINDOW**2 * n * n

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of image and filters read and the result written."""
        return (2.0 * CHANNELS * n * n + CHANNELS**2 * WINDOW**2) * itemsize_bytes

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the same and the windows of all pixels, which some algorithms store: float64 on a CPU does."""
        return self.bytes_moved(n, itemsize_bytes) + WINDOW**2 * CHANNELS * n * n * itemsize_bytes
