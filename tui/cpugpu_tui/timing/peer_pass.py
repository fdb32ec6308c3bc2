"""Copies from each GPU to each other one, once the cases of an experiment about copies are over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

from cpugpu_tui.model import Case, Device, PeerMeasured, Progressed
from cpugpu_tui.timing.emitter import Emit
from cpugpu_tui.timing.timers import Machine
from cpugpu_tui.timing.torch_devices import first_line

WORKLOAD = "transfer"
"""The experiment that they belong to."""

PHASE = "peers"


def measure_peers(cases: Sequence[Case], machine: Machine, emit: Emit, between: Callable[[], bool]) -> None:
    """Time both directions between all GPUs; a pair that fails says why, and costs no case its times.

    `between` is called before each pair, and returns whether the run is to end.
    """
    if not any(case.workload == WORKLOAD for case in cases):
        return
    for source, target in permutations(machine.peers(), 2):
        if between():
            return
        emit(Progressed(case="", device=source.name, phase=PHASE, note=f"copies {source.name} to {target.name}"))
        emit.flush()
        emit(_measured(machine, source, target))
        emit.flush()


def _measured(machine: Machine, source: Device, target: Device) -> PeerMeasured:
    access: bool | None = None
    try:
        link = machine.peer_link(source, target)
        access = link.has_access
        latencies_ns = link.latencies_ns()
        size_bytes, elapsed_ns = link.large_ns()
    except Exception as error:  # noqa: BLE001 - no memory, or what the driver says of this pair: its own cell alone
        machine.release()
        return PeerMeasured(
            source=source, target=target, has_access=access, problem=f"{first_line(error).rstrip('.')}."
        )
    return PeerMeasured(
        source=source, target=target, has_access=access,
        latencies_ns=latencies_ns, size_bytes=size_bytes, elapsed_ns=elapsed_ns,
    )  # fmt: skip
