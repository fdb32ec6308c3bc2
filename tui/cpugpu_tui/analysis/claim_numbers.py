"""What was measured here that publications say something about, and the questions that several claims share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cpugpu_tui.analysis.answer import not_judged
from cpugpu_tui.decide.verdict import GPU_WINS, TIE, Comparison
from cpugpu_tui.model import DEVICE, KERNELS, LATENCY, Ceilings
from cpugpu_tui.model.quantities import factor, faster, percent, time_text

HOLDS, FAILS, DEPENDS, UNDECIDED, UNMEASURED, OUTDATED = (
    "holds", "does not hold here", "depends on size", "undecided here", "not measured yet", "outdated"
)  # fmt: skip
"""What can come of a claim. `undecided here`: it was measured, in too few rounds or with an interval that holds 1."""

LITTLE = 2.0
"""Times within this factor differ little, and a curve within it is flat."""

MARKED = 10.0
"""A time that grows by this factor grows markedly."""

GAIN = 1.2
"""A speed-up that grows by this factor has gained something."""

MAIN_SHARE = 0.5
"""A reason is the reason where it is at least this share of the GPU's time."""

LEAST_SIZES, LEAST_SPAN = 3, 10
"""A curve has at least so many sizes, the largest so many times the smallest."""


@dataclass(frozen=True)
class TimedCase:
    """One case that was timed here: float32, all CPU threads."""

    workload: str
    variant: str
    size: int
    cpu_ns: Mapping[str, float] = field(default_factory=dict)
    """Metric → median on the CPU, ns; empty without a CPU."""
    gpu_ns: Mapping[str, float] = field(default_factory=dict)
    """The same on the first GPU; `KERNELS` is the summed time of one call's kernels."""
    comparison: Comparison | None = None
    """CPU against GPU with the inputs on the device."""
    flops: float = 0.0
    """Of one call."""
    bytes_moved: float = 0.0
    """Least memory traffic of one call."""
    operations: int = 0
    """Calls' worth of work inside the publication's clock."""
    source: str = ""
    """Where it comes from, like `run 12`."""

    @property
    def key(self) -> tuple[str, str, int]:
        """What it is a measurement of."""
        return self.workload, self.variant, self.size


@dataclass(frozen=True)
class Numbers:
    """All that a claim can be judged by."""

    points: tuple[TimedCase, ...] = ()
    """Each case once."""
    cpu: Ceilings | None = None
    """What this machine's CPU reached when it was last measured."""
    gpu: Ceilings | None = None

    def sweep(self, workload: str, variant: str, device: str = "both") -> tuple[TimedCase, ...]:
        """Return the points of one way of doing one thing, sizes rising: timed on `both` devices, or on the `cpu`."""
        found = [p for p in self.points if (p.workload, p.variant) == (workload, variant)]
        usable = [p for p in found if p.comparison is not None or (device == "cpu" and p.cpu_ns.get(LATENCY))]
        return tuple(sorted(usable, key=lambda point: point.size))

    def at(self, workload: str, variant: str, size: int) -> TimedCase | None:
        """Return one size of it, timed on both devices."""
        return next((point for point in self.sweep(workload, variant) if point.size == size), None)


@dataclass(frozen=True)
class Judgement:
    """What came of a claim here."""

    outcome: str
    """One of the words above."""
    here: str
    """One sentence or two, with the numbers measured here."""
    used: tuple[TimedCase, ...] = ()
    """What they were measured on."""
    wants_ceilings: bool = False
    """Whether measuring the machine (not a workload) is what is missing."""


def unmeasured(what: str) -> Judgement:
    """Return that a claim needs what nobody has timed on both devices yet."""
    return Judgement(UNMEASURED, f"Needs {what}, on CPU and GPU.")


def winner(comparison: Comparison) -> str | None:
    """Return `GPU`, `CPU` or `tie`, judged or observed in few rounds; None where it is not decided."""
    return TIE if comparison.verdict == TIE else comparison.faster


def both_text(point: TimedCase) -> str:
    """Return `GPU 6.85 s, CPU 4.23 s: the GPU is 1.62× slower (1 round)`; the reason where it was not judged."""
    assert point.comparison is not None
    reason = not_judged(point.comparison)
    relation = f"the GPU is {faster(point.comparison.speedup)}{f' ({reason})' if reason else ''}"
    return f"GPU {time_text(point.gpu_ns[LATENCY])}, CPU {time_text(point.cpu_ns[LATENCY])}: {relation}"


def one_winner(point: TimedCase | None, claimed: str, what: str, more: str = "") -> Judgement:
    """Judge that one device is the faster one at one size; `more` follows the numbers."""
    if point is None or point.comparison is None:
        return unmeasured(what)
    found = winner(point.comparison)
    outcome = UNDECIDED if found is None else HOLDS if found == claimed else FAILS
    tie = " A tie." if found == TIE else ""
    return Judgement(outcome, f"{both_text(point)}.{tie}{more}", (point,))


def is_curve(points: Sequence[TimedCase]) -> bool:
    """Whether there are enough sizes to speak of a curve."""
    return len(points) >= LEAST_SIZES and points[-1].size >= LEAST_SPAN * points[0].size


def flatness(points: Sequence[TimedCase], large: int, what: str) -> Judgement:
    """Judge that the GPU's time stays flat up to `large`, by how far it stays within a factor of `LITTLE`."""
    if not is_curve(points):
        return unmeasured(what)
    times = [point.gpu_ns[LATENCY] for point in points]
    flat = 1
    while flat < len(times) and max(times[: flat + 1]) <= LITTLE * min(times[: flat + 1]):
        flat += 1
    first, last, level = points[0], points[-1], f"{time_text(times[0])} at {points[0].size:,}"
    if flat == len(times):
        said = f"Flat so far: {level}, {time_text(times[-1])} at {last.size:,}."
        if last.size < large:
            return Judgement(UNMEASURED, f"{said} It takes {large:,} and more to tell.", tuple(points))
        return Judgement(HOLDS, said, (first, last))
    risen = f"{time_text(times[-1])} at {last.size:,}, {factor(times[-1] / times[0])}"
    if flat == 1:
        return Judgement(FAILS, f"It rises from the start: {level}, {risen}.", (first, last))
    return Judgement(
        DEPENDS,
        f"Flat up to {points[flat - 1].size:,} ({level}), then it rises: {risen}. {_why_flat(first)}",
        (first, points[flat - 1], last),
    )


def _why_flat(first: TimedCase) -> str:
    """Return what the flat part consists of: a launch, unless the GPU's own work was measured to be most of it."""
    own_ns = gpu_work_ns(first)
    if own_ns is None:
        return "It is flat as long as starting the work costs more than the work."
    share = own_ns / first.gpu_ns[LATENCY]
    rest = "; the rest is launching and waiting, whatever the size" if share < MAIN_SHARE else ""
    return f"At {first.size:,} the GPU itself works {share_text(share)} of that time{rest}."


def share_text(share: float) -> str:
    """Return a share in percent: `14%`, `under 0.1%`. Noise can bring a part above the whole."""
    share = min(share, 1.0)
    return "under 0.1%" if share < 0.001 else f"{percent(share)}%"


def gpu_work_ns(point: TimedCase) -> float | None:
    """Return how long the GPU itself works in one call; None where that was not measured."""
    return point.gpu_ns.get(KERNELS) or point.gpu_ns.get(DEVICE)


def rising(points: Sequence[TimedCase], large: int, what: str) -> Judgement:
    """Judge that the CPU's time grows markedly up to `large`."""
    if not is_curve(points):
        return Judgement(UNMEASURED, f"Needs {what}.")
    first, last = points[0], points[-1]
    start_ns, end_ns = first.cpu_ns[LATENCY], last.cpu_ns[LATENCY]
    said = (
        f"CPU {time_text(start_ns)} at {first.size:,}, {time_text(end_ns)} at {last.size:,}: "
        f"{factor(end_ns / start_ns)}."
    )
    if last.size < large:
        return Judgement(UNMEASURED, f"{said} It takes {large:,} and more to tell.", (first, last))
    return Judgement(HOLDS if end_ns >= MARKED * start_ns else FAILS, said, (first, last))


def gaining(points: Sequence[TimedCase], axis: str, what: str) -> Judgement:
    """Judge that the GPU gains with size."""
    usable = [point for point in points if point.comparison is not None]
    if len(usable) < 2 or usable[-1].size < 4 * usable[0].size:
        return unmeasured(what)
    first, last = usable[0], usable[-1]
    assert first.comparison is not None
    assert last.comparison is not None
    low, high = first.comparison.speedup, last.comparison.speedup
    outcome = HOLDS if high >= GAIN * low else FAILS
    said = f"Speedup of the GPU {factor(low)} at {first.size:,} {axis}, {factor(high)} at {last.size:,}."
    return Judgement(outcome, said, (first, last))


def main_reason(share: float, said: str, used: tuple[TimedCase, ...]) -> Judgement:
    """Judge that something is why the GPU loses the first of these cases, by its share of the GPU's time there."""
    lost = used[0].comparison
    if lost is not None and winner(lost) == GPU_WINS:
        return Judgement(FAILS, f"Here the GPU is not slower. {said}", used)
    return Judgement(HOLDS if share >= MAIN_SHARE else FAILS, said, used)
