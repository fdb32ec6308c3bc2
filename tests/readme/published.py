"""What others published, and which figure of our recordings stands beside it: the table of docs/crossovers.md.

Links with a name, such as `[mlx]`, are defined at the end of that page.
"""

from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import groupby
from typing import NamedTuple

from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.session.repeat import repeat_commands

from .found import DEMO, SURVEY, Crossover, Gain, GpuTime, Pinned, Place, Query, Speedup, runs

HEADER = ("workload", "published", "hardware and software", "source", "found here", "agree?")


class Row(NamedTuple):
    """A published result, and what it is set beside."""

    workload: str
    published: str
    hardware: str
    source: str
    queries: tuple[Query, ...] = ()
    """How to find each of its figures here; empty if nothing here is like it."""
    variant: str = ""
    unlike: str = ""
    """Why its figures are not compared: another type, work or kind of GPU."""
    remark: str = ""
    """What else differs in the work; its figures are compared."""
    of: str = SURVEY

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells after the workload."""
        place = Place(self.of, self.workload, self.variant)
        found = [query.finding(place) for query in self.queries]
        text = "; ".join(filter(None, [*dict.fromkeys(each.text for each in found), self.remark]))
        here = "".join([f"`{self.variant}`, " if self.variant else "", text, " (demo)" if self.of == DEMO else ""])
        # A figure that disagrees decides, then one that agrees.
        agrees = min((each.agrees for each in found), key=lambda word: "ny–".index(word[0]), default="–")
        return self.published, self.hardware, self.source, here or "–", f"– ({self.unlike})" if self.unlike else agrees


def compared() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table; a workload is named in its first one."""
    for workload, rows in groupby(ROWS, key=lambda row: row.workload):
        for number, row in enumerate(rows):
            yield ("" if number else f"`{workload}`", *row.cells)


def recordings() -> str:
    """Return what each recording is: machine, dates, versions and commands."""
    lines = []
    for name, title in ((SURVEY, "The survey"), (DEMO, "The demo's recording, marked (demo)")):
        found = runs(name)
        facts, gpu = found[0].started.environment, found[0].state.gpu
        assert gpu is not None
        machine = f"{gpu.label}, {facts['cpu']}, {facts['threads']} threads, torch {facts['torch']}"
        lines.append(f"- {title}: {machine}.")
        for (day, version), some in groupby(sorted(found, key=lambda run: run.started.wall_ns), key=_made):
            # Version 0.2 saved no command with a search.
            named = [repeat_commands(run.started) or (f"cpugpu-tui run {run.started.plan.name}",) for run in some]
            commands = "; ".join(f"`{command}`" for each in named for command in each)
            lines.append(f"  - {day}, version {version}: {commands}")
    return "\n".join(lines)


def _made(run: ExportedRun) -> tuple[str, str]:
    day = datetime.fromtimestamp(run.started.wall_ns / 1e9, tz=timezone.utc)
    return f"{day:%Y-%m-%d}", str(run.started.environment["version"])


ROWS = (
    Row("matmul", "n ≈ 128",
        "not stated; CuPy against NumPy",
        "[TU Berlin, CuPy chapter][tu]",
        (Crossover(128),), of=DEMO),
    Row("matmul", "at 128 the CPU wins, 164 against 89 GFLOP/s",
        "Quadro K4000, Xeon E5-2650 v2 (16 threads, MKL); ArrayFire 3.3, float32",
        "[arrayfire#1338](https://github.com/arrayfire/arrayfire/issues/1338)",
        (Speedup(128, 89 / 164),), of=DEMO),
    Row("matmul", "about 11,300× at 9,951",
        "RTX 4060, Ryzen 9 7940H; torch",
        "[P1](publications.md#the-experiments)",
        (Speedup(9951, 11_300),), of=DEMO),
    Row("vector-dot", "little difference on small data",
        "not stated; TensorFlow",
        "[P2](publications.md#the-experiments)",
        (Speedup(100, 1),), variant="matmul", of=DEMO),
    Row("vector-dot", "with copies at no size, up to 2.7·10⁸ doubles",
        "not stated, PCIe 3.0 ×16 (at most 12.6 GB/s); AVX, several threads",
        "[cowfreedom.de](https://cowfreedom.de/dot_product/cuda/)",
        (Crossover(270_000_000, copies=True),), variant="dot", unlike="float64"),
    Row("jacobian", "batch 100: GPU 1.76× slower",
        "not stated; torch",
        "[P3](publications.md#the-experiments)",
        (Speedup(100, 1 / 1.76),), variant="loop", of=DEMO),
    Row("jacobian", "batch 1,000: GPU 2.73× faster",
        "the same",
        "[P3](publications.md#the-experiments)",
        (Speedup(1000, 2.73),), variant="loop", of=DEMO),
    Row("elementwise", "10,000 to 100,000 numbers (`byteswap`, int16)",
        "A100, CPU not stated; CuPy against NumPy",
        "[cupy#9860](https://github.com/cupy/cupy/pull/9860)",
        (Crossover(10_000, 100_000),), variant="fresh", unlike="int16"),
    Row("elementwise", "44× at 10⁸ numbers",
        "GTX 1060; torch",
        "[P4](publications.md#the-experiments)",
        (Speedup(10**8, 44),), variant="fresh", of=DEMO),
    Row("elementwise", "addition gains nothing, no size given",
        "RTX 4060, Ryzen 9 7940H; torch",
        "[P1](publications.md#the-experiments)",
        (Speedup(10**6, 1), Speedup(10**8, 1), Speedup(10**8, copies=True)), variant="add", of=DEMO),
    Row("transfer", "32 MiB to the GPU: pinned 11.3 GB/s, pageable 9.1",
        "Tesla K80, Xeon E5-2630 v3; CUDA 8",
        "[jungfrau-photoncounter][photoncounter]",
        (Pinned(2**25, 11.3 / 9.1),), of=DEMO),
    Row("transfer", "1 GiB to the GPU: pinned 105 GB/s, pageable 99.8",
        "GH200; driver API",
        "[vortex#7815](https://github.com/vortex-data/vortex/pull/7815)",
        (Pinned(2**30, 105 / 99.8),), of=DEMO),
    Row("transfer-model", "model and input: 2 ms",
        "not stated; torch",
        "[P3](publications.md#the-experiments)",
        (GpuTime(2e6),), variant="h2d", of=DEMO),
    Row("mnist-mlp", "batch 32: GPU 2.34× slower",
        "GeForce 940M, i5-6200U; TensorFlow",
        "[P5](publications.md#the-experiments)",
        (Speedup(32, 1 / 2.34),), variant="pageable", of=DEMO),
    Row("mnist-mlp", "reinforcement learning: GPU 2.5× slower (2,000 and 5,000 frames/s)",
        "RTX 4090, i9-13900KS; JAX",
        "[sbx#35](https://github.com/araffin/sbx/issues/35)",
        (Speedup(32),), variant="pageable", unlike="other work", of=DEMO),
    Row("mnist-mlp-wide", "batch 32: GPU 1.74× faster",
        "GeForce 940M, i5-6200U; TensorFlow",
        "[P5](publications.md#the-experiments)",
        (Speedup(32, 1.74),), variant="pageable", of=DEMO),
    Row("mnist-mlp-width", "larger networks gain more, no size given",
        "not stated; torch",
        "[P3](publications.md#the-experiments)",
        (Gain(32, 4096),), variant="eager", of=DEMO),
    Row("conv2d", "256×256 pixels, 128 to 8 channels: 23×",
        "RTX 4090, i9-10940X; torch",
        "[mlx-benchmark][mlx]",
        (Speedup(256, 23),), remark="64 to 64 channels"),
    Row("conv2d", "the same: 35×",
        "V100 PCIe, Xeon Gold 5120; torch",
        "[mlx-benchmark][mlx]",
        (Speedup(256, 35),), remark="64 to 64 channels"),
    Row("conv2d", "the same: 121×",
        "A100, Xeon Gold 6254; torch",
        "[mlx-benchmark][mlx]",
        (Speedup(256, 121),), remark="64 to 64 channels"),
    Row("attention", "12 heads, 1 query, 128 keys: 1.1×. 32 heads of 512 tokens: 108×",
        "NVIDIA, not stated; torch, operator by operator, 100 queued calls",
        "[llaisys, self-attention][llaisys]",
        (Speedup(512),), unlike="fused here"),
    Row("attention", "64 × 8 heads, 16 queries, 64 keys, width 1,024: 4.5×",
        "M1 Ultra (MPS); torch 2.8, fused",
        "[mlx-benchmark][mlx]",
        unlike="Apple GPU"),
    Row("transformer", "1,500 tokens: 12.9×",
        "RTX 4080, Ryzen 9 7950X (16 threads); 100M parameters of 2 bits",
        "[ik_llama.cpp, 18][ik]",
        (Speedup(1500),), unlike="2-bit weights"),
    Row("transformer", "one short text: 1.02 to 1.14× (GPU 9.98 to 11.1 ms, CPU 11.4 ms)",
        "RTX 4090, CPU not stated; MiniLM-L6, torch 2.13, eager",
        "[synthorg#2743][synthorg]",
        (Crossover(),), unlike="other network"),
    Row("transformer", "172 to 320 tokens, but the CPU wins again at 1,289",
        "Xbox Series S; SmolLM2-360M, int4 on the CPU, fp16 on the GPU",
        "[xllama, §5b][xllama]",
        (Crossover(172, 320),), unlike="other types"),
    Row("transformer-decode", "1 sequence: equally fast (1,496 ± 37 and 1,510 ± 10 tokens/s)",
        "RTX 4080, Ryzen 9 7950X (16 threads); 100M parameters of 2 bits",
        "[ik_llama.cpp, 18][ik]",
        (Speedup(1),), unlike="2-bit weights"),
    Row("transformer-decode", "1 sequence: CPU 1.33× faster (17 and 12.8 tokens/s)",
        "iPhone 15 Pro (2 threads); 1B parameters, fp16, llama.cpp",
        "[arXiv 2505.06461](https://arxiv.org/abs/2505.06461)",
        (Speedup(1),), unlike="float16"),
    Row("softmax", "32,768 rows of 1,024: 46×",
        "RTX 4090, i9-10940X; torch",
        "[mlx-benchmark][mlx]",
        (Speedup(32_768, 46),)),
    Row("softmax", "the same: 386×",
        "V100 PCIe, Xeon Gold 5120; torch",
        "[mlx-benchmark][mlx]",
        (Speedup(32_768, 386),)),
    Row("layernorm", "RMS norm, five operators: 1 to 128 rows of 1,536",
        "NVIDIA, not stated; torch, 100 queued calls",
        "[llaisys, RMS norm][llaisys]",
        (Crossover(1, 128),), unlike="one operator here"),
    Row("layernorm", "8,192 rows of 1,024: 1.8×",
        "M1 Ultra (MPS); torch 2.8",
        "[mlx-benchmark][mlx]",
        (Speedup(8192),), unlike="Apple GPU"),
    Row("embedding", "10 to 1,000 vectors of 256, from a table of 64",
        "RTX 4090, i9-10940X; torch",
        "[mlx-benchmark][mlx]",
        (Crossover(10, 1000),), remark="table of 50,000"),
    Row("embedding", "1 to 128 vectors of 1,536, from a table of 151,936",
        "NVIDIA, not stated; torch, 100 queued calls",
        "[llaisys, embedding][llaisys]",
        (Crossover(1, 128),), remark="vectors of 256"),
    Row("solve", "with copies 256 to 512 equations, float64; 3.5× at 512, 1.2× at 2,048, 2.1× at 8,192",
        "V100 PCIe, EPYC 9354 (29 BLAS threads); Julia, best of three CPU solvers",
        "[SciMLBenchmarks][sciml]",
        (Crossover(256, 512, copies=True), Speedup(2048, copies=True)), unlike="float64"),
    Row("solve", "32 to 64 equations",
        "GV100, CPU not stated; CuPy of 2020 against NumPy",
        "[cupy#3936][gesv]",
        (Crossover(32, 64),)),
    Row("solve", "n ≈ 256",
        "not stated; CuPy against NumPy",
        "[TU Berlin, CuPy chapter][tu]",
        (Crossover(256),)),
    Row("batched-solve", "10 to 100 systems of 16 equations; 12× at 1,000",
        "GV100, CPU not stated; cuBLAS's batched solver against NumPy",
        "[cupy#3936][gesv]",
        (Crossover(10, 100), Speedup(1000, 12))),
    Row("batched-solve", "1,000 systems of 16 equations, one after the other: GPU 49× slower",
        "the same, with CuPy of 2020",
        "[cupy#3936][gesv]",
        (Speedup(1000, 1 / 49),)),
    Row("batched-solve", "10,000 systems of 2 equations: GPU 792× slower",
        "GTX 1080; CuPy 7.8 against NumPy",
        "[cupy#3931](https://github.com/cupy/cupy/issues/3931)",
        (Speedup(10_000, 1 / 792),), remark="16 equations each"),
    Row("cholesky", "Gaussian process: ≈ 300 points",
        "not stated; GPyTorch",
        "[gpytorch#585](https://github.com/cornellius-gp/gpytorch/pull/585)",
        (Crossover(300),), unlike="other work"),
    Row("cholesky", "10 matrices of 16×16: GPU 20× slower",
        "GTX 1080 Ti; torch of 2019",
        "[pytorch#20700](https://github.com/pytorch/pytorch/issues/20700)",
        (Speedup(16),), unlike="one matrix here"),
    Row("svd", "n ≈ 256 in float32, 500 in float64",
        "not stated; CuPy against NumPy",
        "[TU Berlin, CuPy linear algebra][tu-svd]",
        (Crossover(256),)),
    Row("svd", "100 matrices of 10×10: GPU 71× slower",
        "GTX 1050; torch 1.5",
        "[pytorch#41306](https://github.com/pytorch/pytorch/issues/41306)",
        (Speedup(10),), unlike="one matrix here"),
    Row("svd", "the same: GPU 6.4× faster",
        "V100, 1 CPU thread; torch of 2022",
        "[pytorch#41306](https://github.com/pytorch/pytorch/issues/41306)",
        (Speedup(10),), unlike="one matrix here"),
    Row("sparse-matmul", "sparse times sparse, 98 % zeros: 18.6×. No readable figure for sparse times dense",
        "RTX 8000, Threadripper 2970WX (1 thread); torch of 2021",
        "[pytorch#51647](https://github.com/pytorch/pytorch/pull/51647)",
        (Crossover(),), unlike="other work"),
    Row("sparse-matmul", "graph attention over 6 neighbours: 10 to 100 nodes",
        "not stated; Julia",
        "[GraphNeuralNetworks.jl#8](https://github.com/JuliaGraphs/GraphNeuralNetworks.jl/pull/8)",
        (Crossover(10, 100),), unlike="other work"),
    Row("fft", "100 signals of 1,024 complex numbers: 3.8×, with a new plan for each call",
        "GTX 1080 Ti, i7-8700K; CuPy 4.4 against NumPy with MKL, complex64",
        "[Qiita, not522](https://qiita.com/not522/items/003b06d7081b05a52f89)",
        (Speedup(100, 3.8),)),
    Row("sort", "≈ 1,000 numbers with their places, on the GPU (below: copied to the host and sorted there)",
        "Summit (V100, POWER9); Thrust against one thread",
        "[ArborX#278](https://github.com/arborx/ArborX/pull/278)",
        (Crossover(1000),)),
    Row("sort", "8,192 rows of 1,024: 102×",
        "RTX 4090, i9-10940X; torch",
        "[mlx-benchmark][mlx]",
        unlike="one row here"),
    Row("knn", "n points against n others, 2 dimensions, copied to the GPU each time: 1,350 to 1,432; "
        "still 1.1× at 500,000",
        "H100 PCIe, EPYC 9124 (1 thread); cuML, all pairs, against SciPy's tree",
        "[GPUPhot][gpuphot]",
        (Crossover(1350, 1432),), unlike="other work"),
    Row("knn", "the same: 1,645 to 2,454, but the CPU wins again at 200,000; at most 4.3×",
        "A100, Xeon Gold 6354 (1 thread); the same",
        "[GPUPhot][gpuphot]",
        (Crossover(1645, 2454),), unlike="other work"),
    Row("knn", "searches one by one in 23,600 vectors of 128: GPU 4.4× slower (90 and 400 s, the whole script)",
        "not stated, several GPUs; faiss",
        "[faiss#375](https://github.com/facebookresearch/faiss/issues/375)",
        (Speedup(1, 90 / 400),), remark="10,000 points of 64"),
    Row("random", "normal numbers: 4.6× at 4,096, 552× at 1.05 million, 1,434× at 16.8 million. "
        "The CPU's time includes the copy to the GPU",
        "RTX 5070 Ti, i7-13700K (1 thread); own code, Mersenne Twister against Philox",
        "[Bee, B7][bee]",
        (Speedup(4096, 4.6), Speedup(1_050_000, 552), Speedup(16_800_000, 1434))),
    Row("random", "a permutation of 30,000: equally fast (473 and 480 µs)",
        "not stated; torch of 2018, the clock does not wait",
        "[pytorch#7606](https://github.com/pytorch/pytorch/pull/7606)",
        (Speedup(30_000),), unlike="other work"),
    Row("torch.compile", "pays after 5,900 to 12,900 calls of a text embedder on a CPU",
        "CPU not stated; MiniLM-L6, torch 2.13",
        "[synthorg#2743][synthorg]",
        unlike="not compiled here"),
)  # fmt: skip
