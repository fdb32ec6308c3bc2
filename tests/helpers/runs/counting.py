"""Counts what torch really runs, to compare with what a workload says it costs; keeps what a workload reports."""

from collections import Counter
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Operations(TorchDispatchMode):
    """While active, counts operations by name, their FLOPs, and the elements that they read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()
        self.flops: Counter[str] = Counter()
        self.devices: dict[str, set[str]] = {}
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        self.names[name] += 1
        self.flops[name] += flops(name, args, result)
        if hasattr(result, "device"):
            self.devices.setdefault(name, set()).add(result.device.type)
            self.elements += result.numel() + sum(arg.numel() for arg in args if hasattr(arg, "numel"))
        return result

    def product_flops(self) -> int:
        """Return those of matrix products alone."""
        return sum(self.flops[name] for name in ("mm", "addmm", "bmm"))


def flops(name: str, args: Any, result: Any) -> int:
    if name in ("mul", "add"):
        return int(result.numel())
    if name == "addcmul":
        return 2 * int(result.numel())
    if name in ("mm", "bmm"):
        return 2 * int(result.numel()) * int(args[0].shape[-1])
    if name == "addmm":
        return 2 * int(result.numel()) * int(args[1].shape[-1])
    return 0


class Told:
    """A `Report` that records its calls; its clock advances by 1 ms per reading."""

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
