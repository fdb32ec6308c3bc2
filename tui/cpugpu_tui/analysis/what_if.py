"""Where the crossover would be if one cost were different: counterfactuals from times that were measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Rounds = Mapping[int, float]
"""Round index → ns."""

RESIDENT, END_TO_END, PINNED, TEN_CALLS, HUNDRED_CALLS, NO_LAUNCH, ONE_THREAD = (
    "resident", "end to end", "pinned", "10 calls", "100 calls", "no launch cost", "one thread"
)  # fmt: skip


@dataclass(frozen=True)
class WhatIf:
    """A world with other costs."""

    key: str
    label: str
    """What it is called beside a chart."""
    condition: str
    """How a sentence begins that says where the crossover would be."""


WHAT_IFS: tuple[WhatIf, ...] = (
    WhatIf(RESIDENT, "inputs on the device", "with the inputs on the device"),
    WhatIf(END_TO_END, "data starts and ends on the host", "with data that starts and ends on the host"),
    WhatIf(PINNED, "the same from pinned memory", "from pinned memory"),
    WhatIf(TEN_CALLS, "moved once for 10 calls", "if data is moved once for 10 calls"),
    WhatIf(HUNDRED_CALLS, "moved once for 100 calls", "if data is moved once for 100 calls"),
    WhatIf(NO_LAUNCH, "no launch cost", "if launching and waiting cost nothing"),
    WhatIf(ONE_THREAD, "one CPU thread", "against one CPU thread"),
)
"""In the order in which a key cycles through them; the first is what was measured."""


@dataclass(frozen=True)
class GpuRounds:
    """What one GPU took for one case, round by round, ns per call."""

    latency: Rounds
    pageable: Rounds
    pinned: Rounds
    device: Rounds


def gpu_rounds(key: str, measured: GpuRounds) -> Rounds:
    """Return the rounds that the GPU would have taken in a world; empty where what it needs was not measured."""
    match key:
        case "resident" | "one thread":
            return measured.latency
        case "end to end":
            return measured.pageable
        case "pinned":
            return measured.pinned
        case "10 calls":
            return _amortised(measured, 10)
        case "100 calls":
            return _amortised(measured, 100)
        case "no launch cost":
            return measured.device
        case _:
            return {}


def _amortised(measured: GpuRounds, calls: int) -> Rounds:
    """Return latency plus the n-th part of what moving adds to it, in rounds that have both."""
    both = [index for index in measured.pageable if index in measured.latency]
    return {
        index: measured.latency[index] + max(0.0, measured.pageable[index] - measured.latency[index]) / calls
        for index in both
    }
