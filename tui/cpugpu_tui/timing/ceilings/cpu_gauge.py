"""The processor's gauge: wall time of torch operations on all threads."""

from __future__ import annotations

from cpugpu_tui.machine import procfs
from cpugpu_tui.model import Device, torch_dtype
from cpugpu_tui.timing.ceilings.clock import block_ns, timed_ns

CALLS = 5_000
"""Calls of the smallest operation in a block: 5 ms."""


class CpuGauge:
    """Times torch on the host."""

    directions: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16", "float64")

    def __init__(self, device: Device) -> None:
        self.device = device

    def threads(self) -> int:
        """Return the intra-op threads in force."""
        import torch

        return torch.get_num_threads()

    def free_bytes(self) -> float:
        """Return the host's available memory."""
        return float(procfs.available_memory_bytes() or (1 << 30))

    def matmul_ns(self, dtype: str, n: int) -> float:
        """Time a product of normals into a preallocated result."""
        import torch

        kind = getattr(torch, torch_dtype(dtype))
        a, b = (torch.randn(n, n).to(kind) for _ in range(2))
        out = torch.empty(n, n, dtype=kind)
        return timed_ns(lambda: torch.matmul(a, b, out=out))

    def copy_ns(self, size_bytes: int) -> float:
        """Time a copy into memory that is mapped already."""
        import torch

        source, target = (torch.full((size_bytes // 4,), value) for value in (1.5, 0.5))
        return timed_ns(lambda: target.copy_(source))

    def launch_ns(self) -> float:
        """Time an addition of two numbers into a given one: what the framework costs."""
        import torch

        a, b, out = torch.ones(1), torch.ones(1), torch.ones(1)
        return block_ns(lambda: torch.add(a, b, out=out), CALLS)

    def synchronize_ns(self) -> float | None:
        """Return None: a call on a CPU returns when it is done."""
        return None

    def round_trip_ns(self) -> float | None:
        """Return None, as above."""
        return None

    def transfer_ns(self, direction: str, size_bytes: int) -> float:
        """There is no cable between a CPU and itself."""
        raise NotImplementedError(f"{direction} of {size_bytes} bytes on a CPU")

    def release(self) -> None:
        """Python has freed it all."""
