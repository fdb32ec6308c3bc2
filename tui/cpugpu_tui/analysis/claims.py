"""The claims of the five publications, each with a function that judges it by the numbers measured here.

The wording of the claims is ours, their numbers are the publications'. Our times are latencies with the inputs on the
GPU unless a sentence says otherwise (method.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cpugpu_tui import model
from cpugpu_tui.analysis.ceilings import COMPUTE, limit
from cpugpu_tui.analysis.claim_numbers import (
    DEPENDS,
    FAILS,
    GAIN,
    HOLDS,
    LITTLE,
    MAIN_SHARE,
    OUTDATED,
    UNDECIDED,
    UNMEASURED,
    Judgement,
    Numbers,
    TimedCase,
    flatness,
    gaining,
    gpu_work_ns,
    main_reason,
    needs_size,
    one_winner,
    relation_text,
    rising,
    share_text,
    speedup,
    unmeasured,
    winner,
)
from cpugpu_tui.decide.comparison import CPU_WINS, GPU_WINS
from cpugpu_tui.model.quantities import factor, faster, named, of_peak, significant, time_text

Judge = Callable[[Numbers], Judgement]

P1_LARGE, P2_LARGE, P2_SMALL, P4_SIZE, BATCH = 9_000, 10_000_000, 10_000, 10**8, 32
"""About P1's largest n and a large size for P2; P2's limit of small data; length of P4's vectors; P5's batch."""

MATMUL_AXIS, DOT_AXIS, ADDITION_AXIS = "n", "elements", "numbers"
"""Names of sizes in sentences, as of the workloads' axes."""

MATMUL_CURVE = ("matmul", "default", P1_LARGE, MATMUL_AXIS, "matmul at three or more sizes")
DOT_CURVE = ("vector-dot", "matmul", P2_LARGE, DOT_AXIS, "vector-dot matmul at three or more sizes")
"""Workload, variant, a large size, its axis, and what a judgement of the curve needs."""

LARGEST = {"matmul": 11_000, "vector-dot": 110_000_000}
"""Workload → a size a little above the publication's largest, 9,951 and 10⁸."""

SAME_FLOPS = 0.05
"""Two cases within this share of each other's FLOPs count as the same amount of arithmetic."""

SMALL, WIDE = "mnist-mlp", "mnist-mlp-wide"
"""P5's networks."""

ADDITION_LARGE = 1_000_000
"""Shorter vectors are too little work for a GPU to judge addition by."""

MILLISECOND_NS, MOVING_NS = 1e6, 2e6
"""P1's flat time on the GPU, and P3's time to move model and input."""


class Claim(NamedTuple):
    """One sentence of a publication."""

    id: str
    """Stable identifier."""
    publication: str
    """`P1` to `P5`, or `P1-P5`."""
    sentence: str
    """The claim in our words, with the publication's numbers."""
    judge: Judge
    """Judges it by the numbers measured here."""
    outdated: bool = False
    """Whether it is out of date, so that nothing has to be measured."""
    reason: str = ""
    """Why it is outdated."""


def _of_sweep(
    judge: Callable[..., Judgement], workload: str, variant: str, *facts: object, device: str = "both"
) -> Judge:
    """Return a function that judges the cases of a workload over the publication's sizes; `facts` follow them."""
    return lambda numbers: judge(_published(numbers.sweep(workload, variant, device)), *facts)


def _published(points: Sequence[TimedCase]) -> list[TimedCase]:
    """Return the cases up to about the largest size of the publication: larger ones say nothing of its sentence."""
    return [point for point in points if point.size <= LARGEST.get(point.workload, point.size)]


# ------------------------------------------------------------------ P1: matrix products


def _p1_millisecond(numbers: Numbers) -> Judgement:
    points = _published(numbers.sweep("matmul", "default"))
    if not points or (large := points[-1]).size < P1_LARGE:
        return unmeasured(f"matmul at {named(MATMUL_AXIS, '=', 9_951)}")
    found_ns, printed_ns = large.gpu_ns[model.LATENCY], large.gpu_ns.get(model.AS_WRITTEN)
    text = f"{time_text(found_ns)} at {named(MATMUL_AXIS, '=', large.size)}."
    if printed_ns is not None and printed_ns * LITTLE < found_ns:
        text += f" The paper's clock shows {time_text(printed_ns)}, because it does not wait for the GPU."
    return Judgement(HOLDS if found_ns <= LITTLE * MILLISECOND_NS else FAILS, text, (large,))


def _p1_addition(numbers: Numbers) -> Judgement:
    points = numbers.sweep("elementwise", "add")
    what = f"elementwise add with {named(ADDITION_AXIS, '=', ADDITION_LARGE)} or more"
    if not points:
        return unmeasured(what)
    last = points[-1]
    wins = [p for p in points if winner(p) == GPU_WINS]
    text = f"At {named(ADDITION_AXIS, '=', last.size)} the GPU is {faster(speedup(last))}."
    win = named(ADDITION_AXIS, "=", wins[0].size) if wins else ""
    if wins and wins[-1] is last:
        return Judgement(FAILS, f"{text} It wins from {win}." if len(points) > 1 else text, (wins[0], last))
    if last.size < ADDITION_LARGE:
        return Judgement(UNMEASURED, f"{text} {needs_size(ADDITION_AXIS, ADDITION_LARGE)}", (last,))
    if wins:
        return Judgement(DEPENDS, f"{text} It wins at {win}.", (wins[0], last))
    return Judgement(UNDECIDED if winner(last) is None else HOLDS, text, (last,))


# ------------------------------------------------------------------ P2: dot products


def _p2_small(numbers: Numbers) -> Judgement:
    points = [p for p in numbers.sweep("vector-dot", "matmul") if p.size <= P2_SMALL]
    if not points:
        return unmeasured(f"vector-dot with {named(DOT_AXIS, '=', P2_SMALL)} or fewer")
    factors = [max(speedup(p), 1 / speedup(p)) for p in points]
    alike = sum(factor <= LITTLE for factor in factors)
    outcome = HOLDS if alike == len(points) else DEPENDS if alike else FAILS
    first = points[0]
    cpu_ns, gpu_ns = first.cpu_ns[model.LATENCY], first.gpu_ns[model.LATENCY]
    slower = "GPU" if gpu_ns > cpu_ns else "CPU"
    text = (
        f"At {named(DOT_AXIS, '=', first.size)}: CPU {time_text(cpu_ns)}, GPU {time_text(gpu_ns)}. The {slower} is "
        f"{factor(factors[0])} slower, a difference of {time_text(abs(gpu_ns - cpu_ns))}."
    )
    return Judgement(outcome, text, tuple(points))


# ------------------------------------------------------------------ P3: the Jacobian


def _loop(numbers: Numbers, batch: int = 100) -> TimedCase | None:
    return numbers.at("jacobian", "loop", batch)


def _p3(batch: int, claimed: str) -> Judge:
    def judge(numbers: Numbers) -> Judgement:
        point = _loop(numbers, batch)
        return one_winner(point, claimed, f"jacobian loop at batch {batch:,}", _by_papers_clock(point))

    return judge


def _by_papers_clock(point: TimedCase | None, calls: str = "calls") -> str:
    """Return the times by the paper's clock; empty if they were not measured."""
    if point is None or model.AS_WRITTEN not in point.cpu_ns or model.AS_WRITTEN not in point.gpu_ns:
        return ""
    gpu, cpu = time_text(point.gpu_ns[model.AS_WRITTEN]), time_text(point.cpu_ns[model.AS_WRITTEN])
    counted = f" ({point.operations:,} {calls})" if point.operations > 1 else ""
    return f" By the paper's clock{counted}: GPU {gpu}, CPU {cpu}."


def _p3_moving(numbers: Numbers) -> Judgement:
    point = _loop(numbers)
    if point is None or model.MOVING not in point.gpu_ns:
        return unmeasured("jacobian loop at batch 100 by the paper's clock")
    found_ns = point.gpu_ns[model.MOVING]
    alike = MOVING_NS / LITTLE <= found_ns <= MOVING_NS * LITTLE
    text = f"The paper's cell takes {time_text(found_ns)}, but model and input are on the GPU already."
    moved = numbers.at("transfer-model", "h2d", 1)
    if moved is not None:
        text += f" Copying a small model to the GPU takes {time_text(moved.gpu_ns[model.LATENCY])}."
    return Judgement(HOLDS if alike else FAILS, text, (point,) if moved is None else (point, moved))


def _p3_cores(numbers: Numbers) -> Judgement:
    point = _loop(numbers)
    same = numbers.at("jacobian", "vectorized", 100, beside=point)
    if point is None:
        return unmeasured("jacobian loop and vectorized at batch 100")
    whole_ns, work_ns = point.gpu_ns[model.LATENCY], gpu_work_ns(point)
    if work_ns is not None:
        share = work_ns / whole_ns
        rest = "; the rest of the time the GPU waits for launches" if share < MAIN_SHARE else ""
        text = f"Kernel time is {share_text(share)} of {time_text(whole_ns)}{rest}."
        return main_reason(share, text, (point,))
    if same is None:
        return unmeasured("jacobian vectorized at batch 100")
    # An upper bound of the time that the cores need: they compute the same tensor in it with fewer launches.
    least_ns = same.gpu_ns[model.LATENCY]
    text = (
        f"Vectorized, the same cores compute the same tensor in {time_text(least_ns)} instead of "
        f"{time_text(whole_ns)}. The many launches are the reason."
        if least_ns < whole_ns / LITTLE
        else f"Vectorized, with few launches, the same cores still need {time_text(least_ns)} instead of "
        f"{time_text(whole_ns)}."
    )
    return main_reason(least_ns / whole_ns, text, (point, same))


def _p3_copies(numbers: Numbers) -> Judgement:
    point = _loop(numbers)
    others = (point, numbers.at("jacobian", "vectorized", 100, beside=point))
    moved = next(
        (p for p in others if p is not None and {model.H2D_PAGEABLE, model.D2H_PAGEABLE} <= p.gpu_ns.keys()), None
    )
    if point is None or moved is None:
        return unmeasured("jacobian loop and vectorized at batch 100")
    copies_ns, whole_ns = (
        moved.gpu_ns[model.H2D_PAGEABLE] + moved.gpu_ns[model.D2H_PAGEABLE],
        point.gpu_ns[model.LATENCY],
    )
    share = copies_ns / (copies_ns + whole_ns)
    times = f"{time_text(copies_ns)}, the work {time_text(whole_ns)}"
    text = f"Copying inputs and result takes {times}. Copies are {share_text(share)} of the total."
    return main_reason(share, text, (point, moved))


def _p3_waiting(numbers: Numbers) -> Judgement:
    point = _loop(numbers)
    if point is None:
        return unmeasured("jacobian loop at batch 100")
    known = [p for p in numbers.points if p.workload == "jacobian" and model.SYNCHRONISE in p.gpu_ns]
    wait_ns = known[0].gpu_ns[model.SYNCHRONISE] if known else numbers.gpu.synchronize_ns if numbers.gpu else None
    if wait_ns is None:
        return Judgement(UNMEASURED, "Needs the machine card, for the time of a synchronise.", (point,),
                         wants_ceilings=True)  # fmt: skip
    whole_ns = point.gpu_ns[model.LATENCY]
    text = f"The only synchronise takes {time_text(wait_ns)} of {time_text(whole_ns)}."
    return main_reason(wait_ns / whole_ns, text, (point, *known[:1]))


def _p3_convolutions(numbers: Numbers) -> Judgement:
    """Compare convolutions with matrix products of as many FLOPs, so that only the kind of work differs."""
    dense, layers = numbers.sweep("matmul", "default"), numbers.sweep("conv2d", "channels-last")
    pairs = [(layer, product) for layer in layers for product in dense
             if layer.flops and abs(product.flops / layer.flops - 1) <= SAME_FLOPS]  # fmt: skip
    if not pairs:
        return unmeasured("conv2d and matmul with as many FLOPs")
    gains = [speedup(layer) >= GAIN * speedup(product) for layer, product in pairs]
    layer, product = pairs[-1]
    text = (
        f"At {named(MATMUL_AXIS, '=', layer.size)} {relation_text(layer)} at conv2d. At a matrix product of as "
        f"many FLOPs {relation_text(product)}."
    )
    outcome = HOLDS if all(gains) else DEPENDS if any(gains) else FAILS
    return Judgement(outcome, text, tuple(point for pair in pairs for point in pair))


# ------------------------------------------------------------------ P4: multiply-add


def _p4_times(numbers: Numbers) -> Judgement:
    point = numbers.at("elementwise", "fresh", P4_SIZE)
    more = _by_papers_clock(point, "calls, and making and copying the inputs")
    if point is not None and more and model.SYNCED in point.gpu_ns:
        more += f" With a wait for the GPU: {time_text(point.gpu_ns[model.SYNCED])}."
    return one_winner(point, GPU_WINS, f"elementwise fresh with {named(ADDITION_AXIS, '=', P4_SIZE)}", more)


def _p4_units(numbers: Numbers) -> Judgement:
    rates = [found.flops.get("float32") for found in (numbers.cpu, numbers.gpu) if found is not None]
    if len(rates) < 2 or not all(rates):
        return Judgement(UNMEASURED, "Needs the machine card, with CPU and GPU.", wants_ceilings=True)
    cpu, gpu = (rate or 0.0 for rate in rates)
    text = (
        f"In float32 the GPU reaches {significant(gpu / 1e12)} TFLOP/s, {factor(gpu / cpu)} the CPU's "
        f"{significant(cpu / 1e12)}. Timing cannot show how much of a chip is control logic."
    )
    return Judgement(HOLDS if gpu > cpu else FAILS, text)


def _p4_reason(numbers: Numbers) -> Judgement:
    point = numbers.at("elementwise", "fresh", P4_SIZE)
    if point is None:
        return unmeasured(f"elementwise fresh with {named(ADDITION_AXIS, '=', P4_SIZE)}")
    if numbers.gpu is None:
        return Judgement(UNMEASURED, "Needs the machine card, with the GPU.", (point,), wants_ceilings=True)
    latency_ns = point.gpu_ns[model.LATENCY]
    hardware_ns = point.gpu_ns.get(model.DEVICE, latency_ns)
    found = limit(point.flops, point.bytes_moved, "float32", None, hardware_ns, latency_ns, numbers.gpu)
    if found is None:
        return Judgement(UNDECIDED, "Its FLOPs and bytes are not known.", (point,))
    share = "" if found.share is None else f" ({of_peak(found.share, ' of the peak')})"
    text = f"On the GPU this multiply-add is limited by {found.kind}{share}."
    if found.kind != COMPUTE:
        text += " More arithmetic units would not make it faster."
    if winner(point) != GPU_WINS:
        return Judgement(FAILS, f"Here the GPU does not win. {text}", (point,))
    return Judgement(HOLDS if found.kind == COMPUTE else FAILS, text, (point,))


# ------------------------------------------------------------------ P5: training


def _p5(workload: str, claimed: str) -> Judge:
    def judge(numbers: Numbers) -> Judgement:
        point = numbers.at(workload, "pageable", BATCH)
        what = f"{workload} pageable at batch {BATCH}"
        return one_winner(point, claimed, what, _by_papers_clock(point, "steps"))

    return judge


def _p5_reason(numbers: Numbers) -> Judgement:
    copied = numbers.at("mnist-mlp", "pageable", BATCH)
    resident = numbers.at("mnist-mlp", "eager", BATCH, beside=copied)
    if copied is None or resident is None:
        return unmeasured(f"mnist-mlp pageable and eager at batch {BATCH}")
    copied_ns, resident_ns = copied.gpu_ns[model.LATENCY], resident.gpu_ns[model.LATENCY]
    share = max(0.0, 1 - resident_ns / copied_ns)
    text = (
        f"A step on the GPU takes {time_text(copied_ns)} with copies and {time_text(resident_ns)} without. "
        f"Copies are {share_text(share)} of the step."
    )
    if winner(resident) == CPU_WINS:
        text += " Even without copies the GPU is slower than the CPU."
    return main_reason(share, text, (copied, resident))


# ------------------------------------------------------------------ outdated claims


def _outdated(id_: str, sentence: str, reason: str) -> Claim:
    return Claim(id_, "P1-P5", sentence, lambda _: Judgement(OUTDATED, reason), outdated=True, reason=reason)


CLAIMS: tuple[Claim, ...] = (
    Claim("p1-cpu-rises", "P1", "The CPU's time rises with n, from 0 to 11.3 s at n = 9951.",
          _of_sweep(rising, *MATMUL_CURVE, device="cpu")),
    Claim("p1-gpu-flat", "P1", "The GPU's time is flat over n = 1 to 9951.", _of_sweep(flatness, *MATMUL_CURVE)),
    Claim("p1-gpu-millisecond", "P1", "The GPU's time is about 0.001 s, also at n = 9951.", _p1_millisecond),
    Claim("p1-addition", "P1", "Addition is too little work to show a GPU's advantage.", _p1_addition),
    Claim("p2-small", "P2", "On small data CPU and GPU differ little.", _p2_small),
    Claim("p2-cpu-grows", "P2", "With more data, up to 100 million numbers, the CPU's time grows markedly.",
          _of_sweep(rising, *DOT_CURVE, device="cpu")),
    Claim("p2-gpu-hardly", "P2", "With more data the GPU's time hardly grows.", _of_sweep(flatness, *DOT_CURVE)),
    Claim("p3-batch-100", "P3", "Batch 100: the GPU is slower, 19.5 s against 11.1 s.", _p3(100, CPU_WINS)),
    Claim("p3-batch-1000", "P3", "Batch 1000: the GPU is faster, 192 s against 524 s.", _p3(1000, GPU_WINS)),
    Claim("p3-moving", "P3", "Moving model and input to the GPU costs 2 ms.", _p3_moving),
    Claim("p3-cores", "P3", "It is slower at batch 100 because a GPU's cores are weaker.", _p3_cores),
    Claim("p3-copies", "P3", "It is slower at batch 100 because copies are costly.", _p3_copies),
    Claim("p3-synchronise", "P3", "It is slower at batch 100 because of synchronisation.", _p3_waiting),
    Claim("p3-networks", "P3", "Bigger networks gain more from a GPU.", _of_sweep(
        gaining, "mnist-mlp-width", "eager", "hidden units", "mnist-mlp-width at two widths, at least 4× apart")),
    Claim("p3-convolutions", "P3", "Convolutions gain more from a GPU.", _p3_convolutions),
    Claim("p3-batches", "P3", "Bigger batches gain more from a GPU.", _of_sweep(
        gaining, "mnist-mlp", "eager", "batch", "mnist-mlp at two batches, at least 4× apart")),
    Claim("p4-times", "P4", "1000 multiply-adds of 100 million numbers: CPU 178.3 s, GPU 4.02 s.", _p4_times),
    Claim("p4-units", "P4", "A GPU has more arithmetic units and less control logic.", _p4_units),
    Claim("p4-reason", "P4", "Those arithmetic units are why it wins at multiply-add.", _p4_reason),
    Claim("p5-small", "P5", "Small network: the GPU is slower, 122.8 s against 52.4 s.", _p5(SMALL, CPU_WINS)),
    Claim("p5-wide", "P5", "Wide network: the GPU is faster, 224.4 s against 390.0 s.", _p5(WIDE, GPU_WINS)),
    Claim("p5-copies", "P5", "It is slower on the small one because copying data costs much.", _p5_reason),
    _outdated(
        "old-static-graphs", "A graph is built first and run afterwards.",
        "torch runs each operation as it is called; a captured graph is an option (mnist-mlp, variant cuda-graph).",
    ),
    _outdated(
        "old-variables", "Tensors must be wrapped in Variables to be differentiated.",
        "Since torch 0.4 every tensor can be differentiated; Variable is an old name for Tensor.",
    ),
    _outdated(
        "old-one-vendor", "Only one vendor's GPUs can do this.",
        "torch has builds for other vendors' GPUs too. This program measures NVIDIA's only.",
    ),
)  # fmt: skip
"""Every claim, in the order of the publications."""
