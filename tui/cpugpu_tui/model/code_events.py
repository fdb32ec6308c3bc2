"""Events about the code of a case: what a person's own code executed, and what compiling a step cost."""

from __future__ import annotations

from dataclasses import dataclass

from cpugpu_tui.model.devices import CommandUse
from cpugpu_tui.model.event import Event


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeTraced(Event):
    """What one call of a person's own code executed on a device, operator by operator. It is not a timed call."""

    case: str
    device: str
    operators: int
    """Operators that ran on this device."""
    on_cpu: tuple[str, ...] = ()
    """Operators that ran on the CPU although the device is a GPU, each name once."""
    copies_to_gpu: int = 0
    bytes_to_gpu: int = 0
    copies_to_host: int = 0
    bytes_to_host: int = 0
    synchronisations: int = 0
    """Operators that made the host wait for the GPU, such as `item`."""
    peak_bytes: int | None = None
    """Most memory that torch held on the GPU during the call; None for the CPU."""
    peak_host_bytes: int | None = None
    """Most memory that the process has had on the host so far."""
    sets_default_device: bool = False
    """The code makes tensors without naming a device, so the device was made torch's default one."""
    not_compared: str = ""
    """Why results are not compared between devices; empty if they are."""
    used: CommandUse | None = None
    """What the processes of a command used, which has no operators; None for other code."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeCompiled(Event):
    """`torch.compile` has compiled a case on one device, in an empty cache and before all timed rounds."""

    case: str
    device: str
    elapsed_ns: float
    """Cost: time of the first compiled call without that of a later one, ns."""
    variant: str
    """Variant of the workload that was compiled."""
    has_kernels: bool = True
    """Whether the compiler made code of its own; if not, a call runs nothing but torch's own operators."""
