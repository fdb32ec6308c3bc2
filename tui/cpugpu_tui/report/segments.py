"""The sizes of a sweep in segments of one judgement, the changes of winner between them, and the class of the sweep.

Sizes are judged one by one. Whatever speaks about several sizes is a view of the segments (method.md, "Segments").
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from cpugpu_tui.decide.comparison import CPU_WINS, GPU_WINS, MOST_COST, WIDEST_GAP, Change, Comparison

CPU, GPU, EQUAL, UNDECIDED, NOT_TIMED = CPU_WINS, GPU_WINS, "equal", "undecided", "not timed"
"""Judgements of a size: a device wins, both are equally fast, or no statement is possible."""

TOO_FEW, UNSURE, ONE_START, CLOSE, NOISY, NOT_CONVERGED = (
    "too few rounds", "few rounds", "one start", "close", "noise", "time ran out"
)  # fmt: skip
"""Reasons of `UNDECIDED`. `TOO_FEW`: there is no interval. `UNSURE`: the winner is not sure enough among all sizes of
the search. `ONE_START`: another start of the process could refute the winner. `CLOSE`: the interval is near 1. `NOISY`:
it is wide and contains 1 after all rounds. `NOT_CONVERGED`: the same, because time ran out before all rounds."""

MARGIN = "margin"
"""Why an interval that excludes 1 names no winner: it includes a tie, a difference below 2 %."""

CONTRADICTED = "contradicted"
"""Why a size has no winner although its first rounds named one: all rounds together do not."""

PENDING, ACTIVE, SKIPPED, ONE_DEVICE, NOT_MEASURED, NO_CORE = (
    "pending", "active", "skipped", "one device", "not measured", "no core"
)  # fmt: skip
"""Reasons of `NOT_TIMED`; the others are the kinds of `model.CaseFailed`. `one device`: the other was not timed.
`not measured`: the condition's metric was not. `no core`: threads waited for a core, so the times are no result."""

LEAD = 2.5
"""A device wins between two sizes if the product of its speedups there reaches the ratio of the sizes to this power."""

UNKNOWN = frozenset({PENDING, ACTIVE, SKIPPED, ONE_DEVICE, NOT_MEASURED})
"""Reasons that do not split a segment: the size counts as if it had never been planned."""


class Size(NamedTuple):
    """One size of a sweep under a condition, judged."""

    size: int
    judgement: str
    """`CPU`, `GPU`, `EQUAL`, `UNDECIDED` or `NOT_TIMED`."""
    reason: str = ""
    """Code of the reason, for `UNDECIDED` and `NOT_TIMED`."""
    comparison: Comparison | None = None
    """Ratio of the two times with both ends; None if the size was not timed."""
    cpu_ns: float | None = None
    gpu_ns: float | None = None
    rounds: tuple[float, float] | None = None
    """Smallest and largest ratio of a round, where the rounds are too few for an interval."""
    own: Comparison | None = None
    """Ratio of the size alone, before the whole sweep may widen its interval or take its winner."""

    @property
    def is_timed(self) -> bool:
        """Whether both devices have usable times."""
        return self.judgement != NOT_TIMED

    @property
    def is_open(self) -> bool:
        """Whether it was timed, and nothing can be said about it."""
        return self.judgement == UNDECIDED

    @property
    def winner(self) -> str | None:
        """`CPU` or `GPU`, or None."""
        return self.judgement if self.judgement in (CPU, GPU) else None

    def cost(self, device: str) -> float:
        """Return the upper bound of what choosing `device` costs, as a share of the other's time; infinite if unknown.

        It is 0 where the device was judged to win.
        """
        if self.judgement == device:
            return 0.0
        return self.comparison.cost(device) if self.comparison is not None else math.inf


class Segment(NamedTuple):
    """Neighbouring sizes with one judgement."""

    judgement: str
    reason: str
    sizes: tuple[int, ...]
    """Its sizes that were timed; of `NOT_TIMED` its sizes."""
    inside: tuple[int, ...]
    """Those of them without a winner: choosing the segment's device costs little there."""
    cost: float
    """Upper bound of what choosing the segment's device costs at its sizes; without one, the better of the two."""

    @property
    def first(self) -> int:
        """Its smallest size."""
        return self.sizes[0]

    @property
    def last(self) -> int:
        """Its largest size."""
        return self.sizes[-1]

    @property
    def winner(self) -> str | None:
        """`CPU` or `GPU`, or None."""
        return self.judgement if self.judgement in (CPU, GPU) else None


def segments_of(sizes: Sequence[Size]) -> tuple[Segment, ...]:
    """Return the segments of sizes in rising order."""
    known = [size for size in sizes if size.reason not in UNKNOWN]
    found: list[Segment] = []
    start = 0
    while start < len(known):
        end = _end(known, start)
        found.append(_segment(known[start:end]))
        start = end
    firsts = [part.first for part in found]

    def place(size: Size) -> int:
        return bisect(firsts, size.size)

    outside = [size for size in sizes if size.reason in UNKNOWN and not _holds(found, place(size), size.size)]
    for _, group in groupby(outside, lambda size: (place(size), size.reason)):
        found.append(_segment(list(group)))
    return tuple(sorted(found, key=lambda part: part.first))


def _end(sizes: Sequence[Size], start: int) -> int:
    """Return the index behind the segment that begins at `start`.

    A size without a winner lies inside a device's segment if the device wins again above it and costs little there.
    """
    first, end = sizes[start], start + 1
    for index in range(start + 1, len(sizes)):
        size = sizes[index]
        if not _are_near(sizes[index - 1], size, first.winner):
            break
        if (size.judgement, size.reason) == (first.judgement, first.reason):
            end = index + 1
        elif first.winner is None or size.winner is not None or size.cost(first.winner) > MOST_COST:
            break
    return end


def _are_near(low: Size, high: Size, winner: str | None) -> bool:
    """Whether something can be said of the sizes between two neighbours.

    A device wins between them if it takes no longer at the upper size than the other one at the lower size, because
    times grow with size. It also does if the geometric mean of its speedups exceeds the ratio of the sizes to the power
    of 1.25: tiles and ripples change times by about as much. Of 1,514 statements about simulated searches 5 were wrong,
    8 with the ratio alone as the limit (without launch overhead 0 and 4 of 192).
    """
    gap = high.size / low.size
    if winner is None or gap > WIDEST_GAP:
        return gap <= WIDEST_GAP
    own, other = (high.gpu_ns, low.cpu_ns) if winner == GPU else (high.cpu_ns, low.gpu_ns)
    if own is not None and other is not None and own <= other:
        return True
    product = math.prod(size.comparison.speedup if size.comparison is not None else 1.0 for size in (low, high))
    return (product if winner == GPU else 1 / product) >= math.pow(gap, LEAD)


def _holds(found: Sequence[Segment], place: int, size: int) -> bool:
    """Whether the segment before this place reaches beyond a size."""
    return place > 0 and size < found[place - 1].last


def _segment(group: Sequence[Size]) -> Segment:
    first = group[0]
    devices = (CPU, GPU) if first.winner is None else (first.winner,)
    cost = min(max(size.cost(device) for size in group) for device in devices)
    inside = tuple(size.size for size in group if size.winner is None) if first.winner is not None else ()
    return Segment(first.judgement, first.reason, tuple(size.size for size in group), inside, cost)


class Range(NamedTuple):
    """Sizes between two changes of winner: the same device wins at all of them that are decided."""

    winner: str
    first: int
    """Smallest decided size."""
    last: int
    """Largest decided size."""
    start: Change | None
    """The change at its lower end; None if no other device wins below it."""
    end: Change | None


def ranges_of(sizes: Sequence[Size], changes: Sequence[Change]) -> tuple[Range, ...]:
    """Return the ranges of sizes in rising order, from the `changes` between them."""
    groups = [
        (str(winner), [size.size for size in group])
        for winner, group in groupby((size for size in sizes if size.winner is not None), lambda size: size.winner)
    ]
    bounds = [None, *changes, None] if groups else []
    return tuple(
        Range(winner, group[0], group[-1], start, end)
        for (winner, group), (start, end) in zip(groups, pairwise(bounds), strict=True)
    )


# ------------------------------------------------------------------ the class of a sweep

ALWAYS, FROM, WITHIN, UP_TO, NEVER, FALLS, SEVERAL, ALL_EQUAL, NOT_DECIDED, NONE_TIMED = (
    "faster at every size timed", "faster from a size on", "faster in a range", "slower up to a size",
    "not faster at any size timed", "faster up to a size", "several changes", "equal at every size timed",
    "not decided", "not timed",
)  # fmt: skip
"""Classes of a sweep, exhaustive and exclusive. `FROM` reaches the largest size timed. `WITHIN`: beyond the range it is
not decided. `UP_TO`: the CPU wins at every decided size, and some are not decided. `FALLS`: the CPU wins above."""

CLASSES = (ALWAYS, FROM, WITHIN, SEVERAL, FALLS, UP_TO, NEVER, ALL_EQUAL, NOT_DECIDED, NONE_TIMED)
"""All classes, those of the GPU first."""


def class_of(sizes: Sequence[Size]) -> str:
    """Return the class of sizes in rising order. What was not judged counts for no device."""
    timed = [size for size in sizes if size.is_timed]
    decided = [size for size in timed if size.winner is not None]
    if not decided:
        is_equal = timed and all(size.judgement == EQUAL for size in timed)
        return ALL_EQUAL if is_equal else NOT_DECIDED if timed else NONE_TIMED
    winners = [winner for winner, _ in groupby(size.winner for size in decided)]
    if len(winners) > 2:
        return SEVERAL
    is_whole = len(decided) == len(timed)
    if winners[-1] == GPU:
        return ALWAYS if is_whole and len(winners) == 1 else FROM if decided[-1] is timed[-1] else WITHIN
    return FALLS if len(winners) == 2 else NEVER if is_whole else UP_TO
