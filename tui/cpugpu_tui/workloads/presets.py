"""Presets: a workload with the sizes of a publication, or of a first look; each also in small."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Some cases of one workload: every size with every variant."""

    workload: str
    sizes: tuple[int, ...]
    variants: tuple[str, ...] = ("default",)


@dataclass(frozen=True)
class Small:
    """What `--scale small` makes of a preset: it finishes in seconds on two cores."""

    parts: tuple[Part, ...]
    says: str
    """What was scaled, in one line: the run prints it."""


@dataclass(frozen=True)
class Preset:
    """A named experiment."""

    name: str
    parts: tuple[Part, ...]
    """What it runs, in order."""
    summary: str
    """What it runs, one line."""
    claim: str
    """What the publication claimed, one line; empty for our own."""
    small: Small | None = None
    """Its small scale; None where the full one takes seconds."""
    budget_s: float = 5.0
    """Time for one device and case."""
    is_search: bool = False
    """Whether its sizes are only where a search begins and ends."""
    is_profiled: bool = True
    """Whether one call of each case is profiled at the end; loading the profiler alone takes 4 s on an H200."""
    dtypes: tuple[str, ...] = ()
    """Element types; empty for float32."""
    threads: tuple[int, ...] = ()
    """CPU threads, 0 for all; empty for all."""


def tens(low: int, high: int) -> tuple[int, ...]:
    """Return the powers of ten from 10^low to 10^high."""
    return tuple(10**k for k in range(low, high + 1))


TRANSFERS = tuple(sorted([*(4 * 4**k for k in range(15)), 400, 400_000_000]))
"""4 B … 1 GiB in steps of 4, and P4's two tensors: 10×10 and 100×1000×1000 floats."""

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "quick",
            (Part("matmul", (16, 2048)),),
            "matrix product, n = 16 … 2048: from which size on is the GPU faster?",
            "",
            # 20 s on two cores without a GPU, 10 s on a GPU server, are the limits.
            budget_s=0.4,
            is_search=True,
            is_profiled=False,
        ),
        Preset(
            "matmul-sweep",
            (Part("matmul", tuple(range(1, 10_000, 50))),),
            "P1's matrix products, n = 1, 51 … 9951",
            "P1: CPU time rises to 11.3 s, GPU time stays at about 0.001 s",
            Small((Part("matmul", tuple(range(1, 502, 100))),), "n = 1, 101 … 501 instead of 1, 51 … 9951"),
            # method.md, step 7: one second for sweeps of over 20 sizes.
            budget_s=1.0,
        ),
        Preset(
            "vector-dot",
            (Part("vector-dot", tens(2, 8), ("matmul", "dot")),),
            "P2's dot products, n = 10² … 10⁸, and the same with `dot`",
            "P2: on large data CPU time grows markedly, GPU time hardly",
            Small((Part("vector-dot", tens(2, 5), ("matmul", "dot")),), "n up to 10⁵ instead of 10⁸"),
        ),
        Preset(
            "jacobian",
            (Part("jacobian", (1, 10, 100, 1000), ("loop", "vectorized", "per-sample")),),
            "P3's full Jacobian of a small network, batch 1 … 1000: row by row, vectorized, per sample",
            "P3: batch 100: CPU 11.1 s, GPU 19.5 s; 1000: CPU 524 s, GPU 192 s",
            Small(
                (Part("jacobian", (1, 2, 4), ("loop", "vectorized", "per-sample")),),
                "batch 1, 2, 4 instead of 1 … 1000",
            ),
        ),
        Preset(
            "elementwise",
            (Part("elementwise", tens(2, 8), ("fresh", "out", "add", "add-out")),),
            "P4's multiply-add on 10² … 10⁸ numbers, and addition alone; fresh results and preallocated ones",
            "P4: 1000 multiply-adds of 10⁸ numbers: CPU 178.3 s, GPU 4.02 s; P1: addition gains nothing",
            Small(
                (Part("elementwise", tens(2, 5), ("fresh", "out", "add", "add-out")),),
                "up to 10⁵ numbers instead of 10⁸, 100 iterations instead of 1000",
            ),
        ),
        Preset(
            "transfer",
            (
                Part(
                    "transfer",
                    TRANSFERS,
                    ("h2d-pageable", "h2d-pinned", "d2h-pageable", "d2h-pinned", "d2d"),
                ),
                Part("transfer-model", (1,), ("h2d", "d2h")),
            ),
            "P4's copies host to GPU, back, and within the GPU, 4 B … 1 GiB, pageable and pinned; and a small model",
            "P4 lists the calls and times none of them",
            Small(
                (
                    Part(
                        "transfer",
                        tuple(sorted((400, *(4 * 16**k for k in range(6))))),
                        ("h2d-pageable", "h2d-pinned", "d2h-pageable", "d2h-pinned", "d2d"),
                    ),
                    Part("transfer-model", (1,), ("h2d", "d2h")),
                ),
                "up to 4 MiB instead of 1 GiB",
            ),
            budget_s=1.0,
        ),
        Preset(
            "mnist-mlp",
            (
                Part("mnist-mlp", (32,), ("pageable", "pinned", "eager", "cuda-graph")),
                Part("mnist-mlp-wide", (32,), ("pageable", "pinned", "eager", "cuda-graph")),
            ),
            "P5's training of a small and a wide network, 10 epochs of 60 000 images at batch 32",
            "P5: small: CPU 52.4 s, GPU 122.8 s; wide: CPU 390 s, GPU 224.4 s; because copying costs much",
            Small(
                (
                    Part("mnist-mlp", (32,), ("pageable", "pinned", "eager", "cuda-graph")),
                    Part("mnist-mlp-wide", (32,), ("pageable", "pinned", "eager", "cuda-graph")),
                ),
                "1 epoch of 2 000 images instead of 10 of 60 000, evaluation on 500 instead of 10 000",
            ),
        ),
        Preset(
            "mnist-batch",
            (Part("mnist-mlp", tuple(32 * 2**k for k in range(8)), ("eager", "cuda-graph")),),
            "one training step of P5's small network at batch 32 … 4096",
            "",
            Small((Part("mnist-mlp", (32, 256), ("eager", "cuda-graph")),), "batch 32 and 256 instead of 32 … 4096"),
        ),
        Preset(
            "mnist-width",
            (Part("mnist-mlp-width", tuple(32 * 2**k for k in range(8)), ("eager", "cuda-graph")),),
            "one training step of P5's network with 32 … 4096 hidden units, at batch 32",
            "",
            Small(
                (Part("mnist-mlp-width", (32, 256), ("eager", "cuda-graph")),), "width 32 and 256 instead of 32 … 4096"
            ),
        ),
    )
}
"""Every preset by name; the first is what the app opens on."""
