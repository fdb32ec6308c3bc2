"""Why the GPU takes as long as it does: one call taken apart into what moving, launching, computing and waiting cost.

T = copy to the GPU + launch + kernels + wait + copy back + rest (measurement.md §5), each term measured by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeGuard

TO_GPU, LAUNCH, KERNELS, WAIT, BACK = "copy to the GPU", "launch", "kernels", "wait", "copy back"

UNEXPLAINED = 0.1
"""A rest above this share of the measured time is called unexplained."""

CAUSES = {
    TO_GPU: "copying to the GPU",
    LAUNCH: "launching",
    KERNELS: "the GPU's own work",
    WAIT: "waiting for the GPU to answer",
    BACK: "copying back",
}
"""The terms as a sentence names them."""


@dataclass(frozen=True)
class Decomposition:
    """One call's time in parts."""

    measured_ns: float
    """The whole, measured as one."""
    parts: tuple[tuple[str, float], ...]
    """(term, ns), in the order in which they happen."""

    @property
    def rest_ns(self) -> float:
        """What the parts do not explain; below 0 where they overlap."""
        return self.measured_ns - sum(part_ns for _, part_ns in self.parts)

    @property
    def is_explained(self) -> bool:
        """Whether the rest is small."""
        return abs(self.rest_ns) <= UNEXPLAINED * self.measured_ns

    def share(self, part_ns: float) -> float:
        """Return a part's share of the whole."""
        return part_ns / self.measured_ns

    @property
    def largest(self) -> tuple[str, float]:
        """The largest part with its share of the whole."""
        name, part_ns = max(self.parts, key=lambda part: part[1])
        return name, self.share(part_ns)


def decompose(
    measured_ns: float | None, launch_ns: float | None, device_ns: float | None, wait_ns: float | None,
    to_gpu_ns: float | None = None, back_ns: float | None = None, kernels: int = 1,
) -> Decomposition | None:  # fmt: skip
    """Return one call taken apart; None where a term was not measured. Without copies it is a resident call.

    `kernels` is how many the call queues: they run while later ones are still being queued, so what a caller waits
    for is only what of `device_ns` that does not hide, at least the last one.
    """
    if not (_is_time(measured_ns) and _is_time(launch_ns) and _is_time(device_ns) and _is_time(wait_ns)):
        return None
    count = max(kernels, 1)
    visible_ns = max(device_ns / count, device_ns - launch_ns * (count - 1) / count)
    parts = [(LAUNCH, launch_ns), (KERNELS, visible_ns), (WAIT, wait_ns)]
    if to_gpu_ns is not None and back_ns is not None:
        if not (_is_time(to_gpu_ns) and _is_time(back_ns)):
            return None
        parts = [(TO_GPU, to_gpu_ns), *parts, (BACK, back_ns)]
    return Decomposition(measured_ns, tuple(parts))


def _is_time(value_ns: float | None) -> TypeGuard[float]:
    return value_ns is not None and 0 < value_ns < math.inf
