"""The sizes of a sweep judged under one condition: inputs on the GPU, with copies, without launch overhead, …"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT, WHAT_IFS
from cpugpu_tui.decide.comparison import DECISIVE_ROUNDS, EQUIVALENCE, TIE, Change, Comparison, SweepPoint
from cpugpu_tui.decide.correlation import Correlation
from cpugpu_tui.decide.crossover import changes_of, judged, placed, usable
from cpugpu_tui.decide.next_size import next_size
from cpugpu_tui.decide.verdict import compare
from cpugpu_tui.model import LATENCY
from cpugpu_tui.report import segments
from cpugpu_tui.report.segments import Range, Segment, Size, class_of, ranges_of, segments_of
from cpugpu_tui.state.row import Row

BY_KEY = {what_if.key: what_if for what_if in WHAT_IFS}

NEAR_ONE = 1.1
"""An interval within 1/1.1 to 1.1 is too close to call; a wider one that contains 1 is too noisy to judge."""


@dataclass(frozen=True, eq=False)
class Condition:
    """The judgement of a sweep under one condition."""

    key: str
    """Key of a `WhatIf`."""
    segments: tuple[Segment, ...]
    """All its sizes, in rising order."""
    changes: tuple[Change, ...]
    """Each change of winner, with its bracket."""
    kind: str
    """Class of the sweep, one of `segments.CLASSES`."""
    rows: tuple[Row, ...] = field(repr=False)
    """In order of size."""
    judgements: tuple[tuple[str, str, Comparison | None], ...] = field(repr=False)
    """Judgement and reason of each row, and the comparison that the sweep gave it."""

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """Its sizes with times and ratio. Made on access and then kept: a table of answers reads them 20 times."""
        return tuple(map(self._size, range(len(self.rows))))

    @property
    def timed(self) -> tuple[Size, ...]:
        """Its sizes that were timed on both devices."""
        return tuple(size for size in self.sizes if size.is_timed)

    @property
    def decided(self) -> tuple[Size, ...]:
        """Its sizes with a winner."""
        return tuple(size for size in self.sizes if size.winner is not None)

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The ranges between its changes of winner."""
        return ranges_of(self.sizes, self.changes)

    @property
    def outside(self) -> tuple[Size, ...]:
        """Its sizes without a winner that lie in no bracket, without those that were never reached."""
        return tuple(size for size in self._open if not self._is_inside(size))

    @property
    def inside(self) -> tuple[Size, ...]:
        """The same of those that lie in a bracket, where no size has a winner."""
        return tuple(size for size in self._open if self._is_inside(size))

    @property
    def _open(self) -> Iterator[Size]:
        return (size for size in self.sizes if size.winner is None and size.reason not in segments.UNKNOWN)

    def _is_inside(self, size: Size) -> bool:
        return any(change.low < size.size < change.high for change in self.changes)

    @property
    def crossover(self) -> Change | None:
        """The last change of winner."""
        return self.changes[-1] if self.changes else None

    def not_below(self, base: Condition) -> Condition:
        """Return it with its first change no lower than that of `base`, the same work without copies.

        Copies only add time, so a lower one is noise. Then its bracket ends at the next size that the GPU wins here,
        and no point inside is named; nor one below the smallest size at which the GPU wins without copies, if nothing
        is known below that.
        """
        if not (self.changes and self.changes[0].rises):
            return self
        first, *others = self.changes
        least = base.changes[0] if base.changes else None
        if least is None or not least.rises:
            win = min((size.size for size in base.decided if size.winner == segments.GPU), default=math.inf)
            least = first._replace(point=win)
        most = others[0].low if others else math.inf
        wins = (size.size for size in self.decided if size.winner == segments.GPU and least.high <= size.size <= most)
        high = max(first.high, min(wins, default=0))
        raised = Change(first.low, high, min(max(first.point, least.point), high), rises=True)
        return self if raised[:3] == first[:3] else replace(self, changes=(raised, *others))

    def can_be_narrowed(self, tried: Collection[int], ratio: float) -> bool:
        """Whether a search that tried these sizes would narrow a bracket further, to ends within `ratio`."""
        points = [SweepPoint(size.size, size.comparison) for size in self.timed if size.comparison is not None]
        return bool(self.changes) and next_size(points, tried, ratio) is not None

    def at(self, row: Row) -> Size | None:
        """Return the judged size of a row; None if it is not one of these."""
        index = bisect_left(self.rows, row.case.size, key=lambda own: own.case.size)
        is_known = index < len(self.rows) and self.rows[index].case == row.case
        return self._size(index) if is_known else None

    def _size(self, index: int) -> Size:
        row, (judgement, reason, taken) = self.rows[index], self.judgements[index]
        known = taken or (_comparison(self.key, row) if judgement != segments.NOT_TIMED else None)
        return _size(self.key, row, known, judgement, reason)


def condition_of(key: str, rows: Sequence[Row]) -> Condition:
    """Judge rows of one sweep under the condition with this key."""
    ordered = tuple({row.case.size: row for row in sorted(rows, key=lambda row: row.case.size)}.values())
    found = [_comparison(key, row) for row in ordered]
    points = judged(SweepPoint(row.case.size, own) for row, own in zip(ordered, found, strict=True) if own is not None)
    sure = {point.size: point.comparison for point in points}
    over_starts = any(own is not None and own.covers_starts for own in found)
    judgements, sizes = [], []
    for row, own in zip(ordered, found, strict=True):
        known = sure.get(row.case.size)
        judgement, reason = _judgement(key, row, own, known, over_starts=over_starts)
        judgements.append((judgement, reason, known if known is not own else None))
        sizes.append(_size(key, row, known, judgement, reason))
    changes = tuple(placed(change, points) for change in changes_of(points))
    return Condition(key, segments_of(sizes), changes, class_of(sizes), ordered, tuple(judgements))


def judged_sizes(points: Iterable[SweepPoint]) -> list[Size]:
    """Judge sizes of which only the comparisons are known."""
    known, judgements = usable(points), {TIE: segments.EQUAL}
    return [
        Size(size, found.winner or judgements.get(found.verdict, segments.UNDECIDED), "", found, own=own.comparison)
        for own, (size, found) in zip(known, judged(known), strict=True)
    ]


def _comparison(key: str, row: Row) -> Comparison | None:
    """Return the comparison of a row that counts: finished or in progress, and not starved, which has none."""
    if row.status not in ("active", "ok"):
        return None
    # `in_worlds` computes every condition of a row: 10,000 rows took 7.9 s.
    return row.own_comparison if key == RESIDENT else row.in_worlds.get(key)


def _size(key: str, row: Row, found: Comparison | None, judgement: str, reason: str) -> Size:
    if found is None or row.cpu is None or row.cpu.latency_ns is None:
        return Size(row.case.size, judgement, reason)
    cpu_ns = row.cpu.latency_ns
    spread = _spread(key, row, found.speedup) if found.low is None else None
    own = _comparison(key, row)
    return Size(row.case.size, judgement, reason, found, cpu_ns, cpu_ns / found.speedup, spread, own)


def _spread(key: str, row: Row, speedup: float) -> tuple[float, float]:
    """Return the smallest and the largest ratio of a row's rounds under a condition, extended to contain its speedup.

    One device may have more rounds than both together: of a single one the speedup is shown, so that it is that of the
    times beside it.
    """
    ratios = [cpu_ns / gpu_ns for cpu_ns, gpu_ns in _rounds(key, row)]
    ends = (speedup, *(ratios if len(ratios) > 1 else ()))
    return min(ends), max(ends)


def _rounds(key: str, row: Row) -> tuple[tuple[float, float], ...]:
    """Return the times of both devices in each round under a condition, in order of time."""
    assert row.cpu is not None
    assert row.gpu is not None
    cpu_ns = row.cpu.round_ns
    gpu_ns = row.gpu.rounds_under(BY_KEY[key], {LATENCY: row.gpu.round_ns, **row.gpu.other_round_ns})
    both = sorted(index for index in cpu_ns if cpu_ns[index] > 0 and gpu_ns.get(index, 0) > 0)
    return tuple((cpu_ns[index], gpu_ns[index]) for index in both)


@lru_cache(maxsize=4096)
def _named_a_winner(rounds: tuple[tuple[float, float], ...], others: Correlation) -> bool:
    """Whether the first of these rounds named a winner at some time, by themselves."""
    cpu_ns, gpu_ns = (dict(enumerate(times)) for times in zip(*rounds, strict=True)) if rounds else ({}, {})
    for count in range(DECISIVE_ROUNDS, len(rounds)):
        first = [{index: times[index] for index in range(count)} for times in (cpu_ns, gpu_ns)]
        found = compare(first[0], first[1], others)
        if found is not None and found.winner is not None:
            return True
    return False


def _judgement(
    key: str, row: Row, own: Comparison | None, sure: Comparison | None, *, over_starts: bool
) -> tuple[str, str]:  # fmt: skip
    """Return judgement and reason of a row, from its own comparison and from that which the whole sweep leaves it.

    `over_starts`: other sizes of the sweep have several starts of the process.
    """
    if own is None or sure is None:
        return segments.NOT_TIMED, _missing(row)
    if sure.winner is not None:
        return sure.winner, ""
    if sure.verdict == TIE:
        return segments.EQUAL, ""
    if own.winner is not None:
        return segments.UNDECIDED, segments.ONE_START if over_starts and not own.covers_starts else segments.UNSURE
    if key in (RESIDENT, END_TO_END) and not own.covers_starts and _named_a_winner(_rounds(key, row), row.others):
        return segments.UNDECIDED, segments.CONTRADICTED
    if own.low is None or own.high is None:
        return segments.UNDECIDED, segments.TOO_FEW
    if 1 < own.low <= 1 + EQUIVALENCE or 1 / (1 + EQUIVALENCE) <= own.high < 1:
        return segments.UNDECIDED, segments.MARGIN
    if own.low >= 1 / NEAR_ONE and own.high <= NEAR_ONE:
        return segments.UNDECIDED, segments.CLOSE
    return segments.UNDECIDED, segments.NOT_CONVERGED if _ran_out(row) else segments.NOISY


def _missing(row: Row) -> str:
    """Return why a row has no times of both devices under a condition."""
    if row.failure is not None:
        return row.failure.kind
    if row.is_starved:
        return segments.NO_CORE
    if row.own_comparison is not None:
        return segments.NOT_MEASURED
    if row.status in (segments.PENDING, segments.ACTIVE):
        return row.status
    return segments.ONE_DEVICE if row.cpu is None or row.gpu is None else segments.NOT_MEASURED


def _ran_out(row: Row) -> bool:
    """Whether time ran out before a row had the rounds that it may have."""
    calibrated = [times.calibrated for times in row.times.values() if times.calibrated is not None]
    most = max((each.max_rounds or each.rounds for each in calibrated), default=0)
    return "not-converged" in row.marks and any(len(times.round_ns) < most for times in row.times.values())
