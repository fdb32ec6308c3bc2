"""The presets: workloads at the sizes of a publication or of a first look, each with a small scale.

They are named tuples like all plain values of the first frame: making a dataclass takes ten times as long.
"""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """Cases of one workload: every size with every variant."""

    workload: str
    sizes: tuple[int, ...]
    variants: tuple[str, ...] = ("default",)


class Small(NamedTuple):
    """A preset at `--scale small`: it finishes in seconds on two cores."""

    parts: tuple[Part, ...]
    says: str
    """The reduction, in one line that the run prints."""


class Preset(NamedTuple):
    """A named experiment: parts, options and summary."""

    name: str
    parts: tuple[Part, ...]
    """Its cases, in run order."""
    summary: str
    """Its content in one line."""
    claim: str = ""
    """The publication's result in one line; empty without a publication."""
    small: Small | None = None
    """Its small scale; None for a search, which ends in time."""
    budget_s: float = 5.0
    """Time budget for one device in one case, seconds."""
    is_search: bool = False
    """Whether the sizes are only the limits of a crossover search."""
    limit_s: float | None = None
    """Wall time of the whole search, seconds, shared by its parts; None for no limit."""
    dtypes: tuple[str, ...] = ()
    """Element types; empty for float32."""
    threads: tuple[int, ...] = ()
    """CPU threads, 0 for all; empty for all."""


def tens(highest: int) -> tuple[int, ...]:
    """Return the powers of ten from 100 to 10^highest."""
    return tuple(10**k for k in range(2, highest + 1))


TRANSFERS = tuple(sorted([*(4 * 4**k for k in range(15)), 400, 400_000_000]))
"""4 B … 1 GiB in steps of 4, and P4's two tensors: 10×10 and 100×1000×1000 floats."""

COPIES = ("h2d-pageable", "h2d-pinned", "d2h-pageable", "d2h-pinned", "d2d")
MODEL_COPIES = Part("transfer-model", (1,), ("h2d", "d2h"))

TRAININGS = tuple(
    Part(name, (32,), ("pageable", "pinned", "eager", "cuda-graph")) for name in ("mnist-mlp", "mnist-mlp-wide")
)

SURVEY = "survey"
"""Name of the preset of every workload."""

SURVEYED = (
    Part("matmul", (16, 2048)),
    Part("vector-dot", (100, 10_000_000), ("dot",)),
    Part("elementwise", (100, 10_000_000)),
    Part("mnist-mlp", (32, 4096)),
    Part("conv2d", (4, 256)),
    Part("attention", (16, 2048)),
    Part("transformer", (1, 1024)),
    Part("transformer-decode", (1, 64)),
    Part("softmax", (1, 16_384)),
    Part("layernorm", (1, 16_384)),
    Part("embedding", (1, 65_536)),
    Part("solve", (8, 2048)),
    Part("batched-solve", (1, 32_768)),
    Part("cholesky", (8, 2048)),
    Part("svd", (8, 512)),
    Part("sparse-matmul", (16, 65_536)),
    Part("fft", (1, 4096)),
    Part("sort", (100, 4_000_000)),
    Part("knn", (1, 1024)),
    Part("random", (1000, 10_000_000)),
)
"""The work of `survey`. Every size needs less than 1 GB on each device, also in float64."""

SURVEY_ALL = "survey-all"
"""Name of the preset of both sets."""

MORE = (
    Part("cnn", (1, 512)),
    Part("cnn-training", (1, 256)),
    Part("lstm", (1, 1024)),
    Part("einsum", (1, 4096)),
    Part("sampling", (1, 512)),
    Part("int8-layer", (32, 8192)),
    Part("group-by", (1000, 10_000_000)),
    Part("join", (100, 10_000_000)),
    Part("row-sums", (1, 65_536)),
    Part("topk", (1, 4096)),
)
"""The second set of work, of `survey --all`."""

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "quick",
            (Part("matmul", (16, 2048)),),
            "Matrix product: where does the GPU start to win?",
            # Keeps the whole run below 20 s on two cores without a GPU, and below 10 s on a GPU server.
            budget_s=0.4,
            is_search=True,
        ),
        Preset(
            SURVEY,
            SURVEYED,
            "What belongs on the GPU? The crossover of every workload, in at most 5 minutes",
            budget_s=1.2,
            is_search=True,
            limit_s=280.0,  # with the start of the agent below 5 minutes
        ),
        Preset(
            SURVEY_ALL,
            (*SURVEYED, *MORE),
            "The survey, and ten more workloads: networks, tables, sampling; in at most 8 minutes",
            budget_s=1.2,
            is_search=True,
            limit_s=460.0,
        ),
        Preset(
            "matmul-sweep",
            (Part("matmul", tuple(range(1, 10_000, 50))),),
            "P1's matrix products, n = 1 to 9,951 in steps of 50",
            "P1: CPU time rises to 11.3 s, GPU time stays at about 0.001 s",
            Small(
                (Part("matmul", tuple(range(1, 502, 100))),),
                "n = 1 to 501 in steps of 100, instead of 1 to 9,951 in steps of 50",
            ),
            # method.md, step 7: one second for sweeps of over 20 sizes.
            budget_s=1.0,
        ),
        Preset(
            "vector-dot",
            (Part("vector-dot", tens(8), ("matmul", "dot")),),
            "P2's dot products as matrix products, n = 10² to 10⁸, and the same with `dot`",
            "P2: on large data, CPU time grows, GPU time hardly does",
            Small((Part("vector-dot", tens(5), ("matmul", "dot")),), "n up to 10⁵ instead of 10⁸"),
        ),
        Preset(
            "jacobian",
            (Part("jacobian", (1, 10, 100, 1000), ("loop", "vectorized", "per-sample")),),
            "P3's full Jacobian of a small network, batch 1 to 1,000: row by row, vectorized, per sample",
            "P3: Jacobian of 100 samples: CPU 11.1 s, GPU 19.5 s; of 1,000: CPU 524 s, GPU 192 s",
            Small(
                (Part("jacobian", (1, 2, 4), ("loop", "vectorized", "per-sample")),),
                "batch 1 to 4 instead of 1 to 1,000",
            ),
        ),
        Preset(
            "elementwise",
            (Part("elementwise", tens(8), ("fresh", "out", "add", "add-out")),),
            "P4's multiply-add of 10² to 10⁸ numbers, and addition alone; into new and preallocated memory",
            "P4: 10⁸ numbers × 1,000 multiply-adds: CPU 178.3 s, GPU 4.02 s; P1: addition gains nothing",
            Small(
                (Part("elementwise", tens(5), ("fresh", "out", "add", "add-out")),),
                "up to 10⁵ numbers instead of 10⁸, 100 iterations instead of 1,000",
            ),
        ),
        Preset(
            "transfer",
            (Part("transfer", TRANSFERS, COPIES), MODEL_COPIES),
            "P4's copies between host and GPU and within the GPU, 4 B to 1 GiB, pageable and pinned; and a small model",
            "P4 lists these calls but does not time them",
            Small(
                (Part("transfer", tuple(sorted((400, *(4 * 16**k for k in range(6))))), COPIES), MODEL_COPIES),
                "up to 4 MiB instead of 1 GiB",
            ),
            budget_s=1.0,
        ),
        Preset(
            "mnist-mlp",
            TRAININGS,
            "P5's training of a small and a wide network, 10 epochs of 60,000 images at batch 32",
            "P5: small network: CPU 52.4 s, GPU 122.8 s; wide: CPU 390 s, GPU 224.4 s; because copies are slow",
            Small(TRAININGS, "1 epoch of 2,000 images instead of 10 of 60,000, evaluation on 500 instead of 10,000"),
        ),
        Preset(
            "mnist-batch",
            (Part("mnist-mlp", tuple(32 * 2**k for k in range(8)), ("eager", "cuda-graph")),),
            "One training step of P5's small network, batch 32 to 4,096",
            small=Small(
                (Part("mnist-mlp", (32, 256), ("eager", "cuda-graph")),), "batch 32 and 256 instead of 32 to 4,096"
            ),
        ),
        Preset(
            "mnist-width",
            (Part("mnist-mlp-width", tuple(32 * 2**k for k in range(8)), ("eager", "cuda-graph")),),
            "One training step of P5's network with 32 to 4,096 hidden units, at batch 32",
            small=Small(
                (Part("mnist-mlp-width", (32, 256), ("eager", "cuda-graph")),),
                "width 32 and 256 instead of 32 to 4,096",
            ),
        ),
    )
}
"""All presets by name; the app opens on the first."""
