"""Two implementations of one calculation as a workload, one for the CPU and one for the GPU; with torch or without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import OwnCode, WorkloadInfo
from cpugpu_tui.workloads.code_workload import CodeInputs, CodeWorkload
from cpugpu_tui.workloads.contract import REGISTRY, SOURCES, Step, Workload
from cpugpu_tui.workloads.own_code import CommandWorkload, info_of

if TYPE_CHECKING:
    import torch

    from cpugpu_tui.workloads.outline import Outline


WAIT = "block_until_ready"
"""Method of a result whose call returns before its work is done, as in JAX."""


class TwoImplementations(Workload):
    """Code of two libraries. Each has its own set-up, run with the same seeds, and makes its inputs where it wants."""

    has_end_to_end = False

    def __init__(self, code: OwnCode) -> None:
        self.code = code
        self.name = code.name
        self._loaded: dict[bool, CodeWorkload] = {}
        self.waits: dict[str, bool] = {}
        """Device → whether a call there returns before its work is queued, so that its result is waited for."""
        self.on("cpu")

    def code_on(self, device: str) -> OwnCode:
        """Return the code of a device."""
        return self.code.sides[device.startswith("cuda")]

    def on(self, device: str) -> CodeWorkload:
        """Return the implementation of a device; its libraries are imported now, because the other may lack them."""
        is_gpu = device.startswith("cuda")
        if is_gpu not in self._loaded:
            self._loaded[is_gpu] = CodeWorkload(self.code.sides[is_gpu])
        return self._loaded[is_gpu]

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Any, ...]:
        """Return what each side makes its own inputs from: size, dtype and seed."""
        return n, dtype, generator.initial_seed()

    def place(self, variant: str, inputs: tuple[Any, ...], device: str) -> CodeInputs:
        """Run the set-up of a device's code; tensors of torch are moved to the device, other arrays lie where made."""
        n, dtype, seed = inputs
        side = self.on(device)
        placed = side.place(variant, side.made(n, dtype, seed), device)
        if self.waits.get(device):
            placed.function = waiting(placed.function)
        return placed

    def step_for(self, variant: str, placed: tuple[Any, ...]) -> Step:
        """Return the statement or function for these inputs."""
        assert isinstance(placed, CodeInputs)
        return placed.function

    def outline(self, n: int, itemsize_bytes: int, variant: str = "default") -> Outline | None:
        """Return what the shapes of torch's tensors tell, of the side that has any; None without one."""
        for device in ("cpu", "cuda"):
            try:
                found = self.on(device).outline(n, itemsize_bytes)
            except UsageError:  # a library that this machine lacks
                continue
            if found is not None and found.bytes_moved:
                return found
        return None

    def info(self) -> WorkloadInfo:
        """Return the facts for the catalogue."""
        return info_of(self.code)


def waiting(function: Step) -> Step:
    """Return a function that waits until its result is there, for a library whose calls return before."""

    def run(*placed: Any) -> Any:
        result = function(*placed)
        if hasattr(result, WAIT):  # one array: no list is made, because this is timed, too
            result.block_until_ready()
            return result
        for each in leaves(result):
            if hasattr(each, WAIT):
                each.block_until_ready()
        return result

    vars(run)["__wrapped__"] = function
    return run


def leaves(result: Any) -> list[Any]:
    """Return all that is in the dicts, lists and tuples of a result."""
    if isinstance(result, dict):
        result = list(result.values())
    return [leaf for each in result for leaf in leaves(each)] if isinstance(result, (list, tuple)) else [result]


def register(codes: tuple[OwnCode, ...], *, is_alone: bool = False) -> None:
    """Make workloads of typed code, in this process. `is_alone`: it is not compared with other code."""
    for code in codes:
        kind = CommandWorkload if code.argv else TwoImplementations if code.sides else None
        REGISTRY[code.name] = kind(code) if kind is not None else CodeWorkload(code, is_alone=is_alone)
        SOURCES[code.name] = "typed code"
