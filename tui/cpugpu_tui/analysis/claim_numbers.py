"""The measured numbers that claims are judged by, and the judgements that several claims share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from cpugpu_tui.decide.comparison import EQUIVALENCE, GPU_WINS, TIE, Comparison
from cpugpu_tui.model import DEVICE, KERNELS, LATENCY, Ceilings
from cpugpu_tui.model.quantities import count_of, factor, faster, named, percent, significant, time_text

HOLDS, FAILS, DEPENDS, UNDECIDED, UNMEASURED, OUTDATED = (
    "holds", "does not hold here", "depends on size", "undecided here", "not measured yet", "outdated"
)  # fmt: skip
"""Outcomes of a claim. `undecided here`: measured, but with too few rounds or with an interval that reaches 1."""

LITTLE = 2.0
"""Times within this factor "differ little", and a curve within it is "flat"."""

MARKED = 10.0
"""A time that grows by this factor "grows markedly"."""

GAIN = 1.2
"""A speedup that grows by this factor counts as a gain."""

MAIN_SHARE = 0.5
"""A stated reason holds if it takes at least this share of the GPU's time."""

LEAST_SIZES, LEAST_SPAN = 3, 10
"""A curve needs this many sizes, and this ratio between the largest and the smallest."""


@dataclass(frozen=True)
class TimedCase:
    """One case that was timed here: float32, all CPU threads."""

    workload: str
    variant: str
    size: int
    cpu_ns: Mapping[str, float] = field(default_factory=dict)
    """Metric → median on the CPU, ns; empty without a CPU."""
    gpu_ns: Mapping[str, float] = field(default_factory=dict)
    """Metric → median on the first GPU, ns; `KERNELS` is the summed time of one call's kernels."""
    comparison: Comparison | None = None
    """CPU against GPU with the inputs on the GPU."""
    flops: float = 0.0
    """Of one call."""
    bytes_moved: float = 0.0
    """Least memory traffic of one call."""
    operations: int = 0
    """Number of calls inside the paper's clock."""
    source: str = ""
    """The run that it comes from, like `run 12`."""
    is_starved: bool = False
    """Whether its threads had no free core, so that another run's time of the same case is better."""


@dataclass(frozen=True)
class Numbers:
    """All numbers that claims can be judged by."""

    points: tuple[TimedCase, ...] = ()
    """The cases of every run; of those that are the same, the one to judge by comes first."""
    cpu: Ceilings | None = None
    """This machine's last calibration of the CPU."""
    gpu: Ceilings | None = None

    @cached_property
    def _series(self) -> Mapping[tuple[str, str], list[TimedCase]]:
        """(workload, variant) → its points. A hundred saved runs have thousands, and each claim looks for a few."""
        series: dict[tuple[str, str], list[TimedCase]] = {}
        for point in self.points:
            series.setdefault((point.workload, point.variant), []).append(point)
        return series

    def sweep(self, workload: str, variant: str, device: str = "both") -> tuple[TimedCase, ...]:
        """Return the points of one workload and variant in order of size: timed on `both` devices, or on the `cpu`."""
        found = self._series.get((workload, variant), ())
        usable = [p for p in found if p.comparison is not None or (device == "cpu" and p.cpu_ns.get(LATENCY))]
        best = {point.size: point for point in reversed(usable)}
        return tuple(best[size] for size in sorted(best))

    def at(self, workload: str, variant: str, size: int, beside: TimedCase | None = None) -> TimedCase | None:
        """Return one size, if it was timed on both devices, from the run of `beside` if that has it, too."""
        found = [p for p in self._series.get((workload, variant), ()) if p.size == size and p.comparison is not None]
        same_run = [p for p in found if beside is not None and p.source == beside.source]
        return next(iter(same_run or found), None)


class Judgement(NamedTuple):
    """The outcome of a claim on this machine."""

    outcome: str
    """One of the outcomes above."""
    here: str
    """A few sentences with the numbers measured here."""
    used: tuple[TimedCase, ...] = ()
    """The cases that the numbers come from."""
    wants_ceilings: bool = False
    """Whether a machine card is missing, not a run of a workload."""


def unmeasured(what: str) -> Judgement:
    """Return the judgement of a claim whose cases have not been timed on both devices yet."""
    return Judgement(UNMEASURED, f"Needs {what}, on CPU and GPU.")


def needs_size(axis: str, size: int) -> str:
    """Return `Needs n = 9,000 or more.`."""
    return f"Needs {named(axis, '=', size)} or more."


def compared(point: TimedCase) -> Comparison:
    """Return the comparison of a case that was timed on both devices."""
    assert point.comparison is not None
    return point.comparison


def winner(point: TimedCase) -> str | None:
    """Return `GPU`, `CPU` or `tie`, judged or observed in few rounds; None if undecided."""
    return TIE if compared(point).verdict == TIE else compared(point).faster


def speedup(point: TimedCase) -> float:
    """Return CPU time divided by GPU time of a case that was timed on both devices."""
    return compared(point).speedup


def both_text(point: TimedCase) -> str:
    """Return `GPU 6.85 s, CPU 4.23 s: the GPU is 1.62× slower (1 round)`."""
    return f"GPU {time_text(point.gpu_ns[LATENCY])}, CPU {time_text(point.cpu_ns[LATENCY])}: {relation_text(point)}"


def relation_text(point: TimedCase) -> str:
    """Return `the GPU is 1.62× slower (1 round)`, with the reason if it was not judged."""
    found, reason = compared(point), ""
    if winner(point) == TIE:
        return f"equally fast (within {EQUIVALENCE * 100:.0f} %)"
    if found.low is None or found.high is None:
        reason = f" ({count_of(found.rounds, 'round')})"
    elif winner(point) is None:
        reason = f" ({significant(found.low)}–{significant(found.high)}×, no winner)"
    return f"the GPU is {faster(found.speedup)}{reason}"


def one_winner(point: TimedCase | None, claimed: str, what: str, more: str) -> Judgement:
    """Judge whether the claimed device is faster at one size; `more` follows the numbers."""
    if point is None:
        return unmeasured(what)
    found = winner(point)
    outcome = UNDECIDED if found is None else HOLDS if found == claimed else FAILS
    return Judgement(outcome, f"{both_text(point)}.{more}", (point,))


def is_curve(points: Sequence[TimedCase]) -> bool:
    """Whether there are enough sizes for a curve."""
    return len(points) >= LEAST_SIZES and points[-1].size >= LEAST_SPAN * points[0].size


def flatness(points: Sequence[TimedCase], large: int, axis: str, what: str) -> Judgement:
    """Judge whether the GPU's time stays within a factor of `LITTLE` up to `large`."""
    if not is_curve(points):
        return unmeasured(what)
    times = [point.gpu_ns[LATENCY] for point in points]
    flat = 1
    while flat < len(times) and max(times[: flat + 1]) <= LITTLE * min(times[: flat + 1]):
        flat += 1
    first, last = points[0], points[-1]
    level = f"{time_text(times[0])} at {named(axis, '=', first.size)}"
    there = f"{named(axis, '=', points[flat - 1].size)} ({level}, {time_text(times[flat - 1])} there)"
    end = f"{time_text(times[-1])} at {named(axis, '=', last.size)}"
    if flat == len(times):
        text = f"Flat within {LITTLE:g}× so far: {level}, {end}."
        if last.size < large:
            return Judgement(UNMEASURED, f"{text} {needs_size(axis, large)}", tuple(points))
        return Judgement(HOLDS, text, (first, last))
    risen = f"{end}, {factor(times[-1] / times[0])} as long"
    if flat == 1:
        return Judgement(FAILS, f"It rises from the start: {level}, {risen}.", (first, last))
    return Judgement(
        DEPENDS,
        f"Flat within {LITTLE:g}× up to {there}, then it rises: {risen}. {_why_flat(first, axis)}",
        (first, points[flat - 1], last),
    )


def _why_flat(first: TimedCase, axis: str) -> str:
    """Return the share of kernel time in the flat part, if it was measured."""
    own_ns = gpu_work_ns(first)
    if own_ns is None:
        return "It is flat as long as launch overhead is longer than kernel time."
    share = own_ns / first.gpu_ns[LATENCY]
    rest = "; the rest is launch overhead and waiting" if share < MAIN_SHARE else ""
    how = "profiled" if KERNELS in first.gpu_ns else "cold"  # the table's columns include the two events
    part = f"{how} kernels take {time_text(own_ns)}, {share_text(share)} of the latency"
    return f"At {named(axis, '=', first.size)} {part}{rest}."


def share_text(share: float) -> str:
    """Return a share in percent: `14 %`, `under 0.1 %`; at most 100 %, because noise can make a part exceed it."""
    share = min(share, 1.0)
    return "under 0.1 %" if share < 0.001 else f"{percent(share)} %"


def gpu_work_ns(point: TimedCase) -> float | None:
    """Return the kernel time of one call, ns; None if it was not measured."""
    return point.gpu_ns.get(KERNELS) or point.gpu_ns.get(DEVICE)


def rising(points: Sequence[TimedCase], large: int, axis: str, what: str) -> Judgement:
    """Judge whether the CPU's time grows markedly up to `large`."""
    if not is_curve(points):
        return Judgement(UNMEASURED, f"Needs {what}.")
    first, last = points[0], points[-1]
    start_ns, end_ns = first.cpu_ns[LATENCY], last.cpu_ns[LATENCY]
    text = (
        f"CPU {time_text(start_ns)} at {named(axis, '=', first.size)}, {time_text(end_ns)} at "
        f"{named(axis, '=', last.size)}: {factor(end_ns / start_ns)} as long."
    )
    if last.size < large:
        return Judgement(UNMEASURED, f"{text} {needs_size(axis, large)}", (first, last))
    return Judgement(HOLDS if end_ns >= MARKED * start_ns else FAILS, text, (first, last))


def gaining(points: Sequence[TimedCase], axis: str, what: str) -> Judgement:
    """Judge whether the GPU's speedup grows with size."""
    if len(points) < 2 or points[-1].size < 4 * points[0].size:
        return unmeasured(what)
    first, last = points[0], points[-1]
    outcome = HOLDS if speedup(last) >= GAIN * speedup(first) else FAILS
    small, large = (f"{named(axis, '=', point.size)} {relation_text(point)}" for point in (first, last))
    text = f"At {small}, and at {large}."
    return Judgement(outcome, text, (first, last))


def main_reason(share: float, text: str, used: tuple[TimedCase, ...]) -> Judgement:
    """Judge whether something is the reason why the GPU loses the first case, by its share of the GPU's time."""
    if winner(used[0]) == GPU_WINS:
        return Judgement(FAILS, f"Here the GPU is not slower. {text}", used)
    return Judgement(HOLDS if share >= MAIN_SHARE else FAILS, text, used)
