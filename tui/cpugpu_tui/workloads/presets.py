"""Presets: a workload with the sizes of a publication, or of a first look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """A named experiment."""

    name: str
    workload: str
    sizes: tuple[int, ...]
    summary: str
    """What it runs, one line."""
    claim: str
    """What the publication claimed, one line; empty for our own."""
    variants: tuple[str, ...] = ("default",)
    budget_s: float = 5.0
    """Time for one device and case."""


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "quick",
            "matmul",
            (16, 32, 64, 128, 256, 512, 1024, 2048),
            "matrix product, eight sizes: from which one on is the GPU faster?",
            "",
            # 20 s on two cores without a GPU, 10 s on a GPU server, are UX.md's limits.
            budget_s=1.0,
        ),
        Preset(
            "matmul-sweep",
            "matmul",
            tuple(range(1, 10_000, 50)),
            "P1's matrix products, n = 1, 51 … 9951",
            "P1: the CPU's time rises to 11.3 s, the GPU stays flat at about 0.001 s",
            # METHOD.md, step 7: one second for sweeps of over 20 sizes.
            budget_s=1.0,
        ),
        Preset(
            "vector-dot",
            "vector-dot",
            tuple(10**k for k in range(2, 9)),
            "P2's dot products, n = 10² … 10⁸, and the same with `dot`",
            "P2: little difference on small data; then the CPU grows markedly, the GPU hardly",
            variants=("matmul", "dot"),
        ),
    )
}
"""Every preset by name; the first is what the app opens on."""
