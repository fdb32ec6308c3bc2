"""Why the GPU takes as long as it does: one call taken apart into what moving, launching, computing and waiting cost.

T = copy to the GPU + launch + kernels + wait + copy back + rest (method.md), each term measured by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    to_gpu_ns: float | None = None, back_ns: float | None = None,
) -> Decomposition | None:  # fmt: skip
    """Return one call taken apart; None where a term was not measured. Without copies it is a resident call.

    `launch_ns` is the time until the call returned, `wait_ns` what an answer takes beyond the kernel; with copies
    `to_gpu_ns` is the time until they returned, and `back_ns` fetching the result, which waits for the kernels too.
    Kernels run while later ones are being queued, so what a caller waits for is what the other terms leave of
    `device_ns`, and no more than that.
    """
    moved = to_gpu_ns is not None and back_ns is not None
    others = [(TO_GPU, to_gpu_ns), (LAUNCH, launch_ns), (BACK, back_ns)] if moved else [
        (LAUNCH, launch_ns), (WAIT, wait_ns)
    ]  # fmt: skip
    if any(term is None or not 0 < term < math.inf for term in (measured_ns, device_ns, *(ns for _, ns in others))):
        return None
    known = [(name, ns) for name, ns in others if ns is not None]
    assert measured_ns is not None
    assert device_ns is not None
    visible_ns = min(device_ns, max(0.0, measured_ns - sum(ns for _, ns in known)))
    *first, last = known
    return Decomposition(measured_ns, (*first, (KERNELS, visible_ns), last))
