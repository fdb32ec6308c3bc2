"""The comparison of CPU and GPU at one size, and changes of the winner: what is judged, without the judging.

Rooms above the report take these types and codes, and leave the judging to the report.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

EQUIVALENCE = 0.02
"""Differences inside ±2 % are a tie (method.md, step 8)."""

GPU_WINS, CPU_WINS, TIE, UNDECIDED, TOO_FEW = "GPU", "CPU", "tie", "undecided", "too few rounds"
GPU_OBSERVED, CPU_OBSERVED = "GPU, no interval", "CPU, no interval"
"""No interval decides, but all rounds of one device are clearly shorter than all of the other."""

OBSERVED_ROUNDS, OBSERVED_RATIO = 2, 1.5
"""Least rounds of each device, and least ratio of their medians, for such an observation."""

DECISIVE_ROUNDS = 3
"""Least rounds of an observation on which a crossover rests. Simulated equal devices with 9 % noise and one mode were
called different in at most 3 %, recorded rounds of a GPU server in 2 of 1,003; two rounds up to 11 % (figures.md)."""


SURE_ROUNDS, SURE_RATIO = 7, 3.0
"""What a sweep asks of one size of each device that it names: so many rounds, or so large a ratio. Fewer rounds often
lie in one of two modes: of simulated searches with equal devices of two modes, 1.2 times apart, 14 to 74 % named a
winner from 6 rounds, and at most 2 % from 7."""

LOOKS = 2
"""Divides the shared level, because a search looks at a size after each round and stops when it has a winner. Without
it, 4.8 % of simulated searches with equal devices named a winner at a correlation of 0.8, with it 3.2 %."""

WIDEST_GAP = 2.5
"""Largest ratio of two neighbouring sizes of a full grid: nothing is known of the sizes in a wider gap (method.md)."""

MOST_COST = 0.1
"""Largest upper bound of the cost of a wrong choice at a size without a winner inside a segment."""


class Comparison(NamedTuple):
    """Speedup of the GPU over the CPU: time(CPU) / time(GPU)."""

    speedup: float
    """Quotient of the two times that `typical_ns` gives; above 1 the GPU is faster."""
    low: float | None
    """Lower end of the 95 % interval; None with too few rounds."""
    high: float | None
    """Upper end of the 95 % interval."""
    rounds: int
    """Rounds in which both devices were timed."""
    verdict: str
    """One of `GPU`, `CPU`, `tie`, `undecided`, `GPU, no interval`, `CPU, no interval`, `too few rounds`."""
    starts: int = 1
    """Starts of the process in which both devices were timed. With one, the interval holds within this start only,
    unless `earlier` is above 0."""
    degrees: int = 0
    """Degrees of freedom of an interval that covers starts; 0 for an interval within one start."""
    within_low: float | None = None
    """If earlier starts gave the interval of one start: the lower end of what was seen within this start."""
    within_high: float | None = None

    @property
    def plus_minus(self) -> float | None:
        """Relative half-width of the interval, 0.01 for ±1 %.

        The geometric mean of both sides, because the longer side alone could show `± 10 %` beside a winner at 1.09×.
        """
        if self.low is None or self.high is None:
            return None
        return math.sqrt(self.high / self.low) - 1

    @property
    def half_width(self) -> float:
        """Half-width of the interval of ln(speedup); infinite without one."""
        if self.low is None or self.high is None or not 0 < self.low <= self.high < math.inf:
            return math.inf
        return (math.log(self.high) - math.log(self.low)) / 2

    @property
    def faster(self) -> str | None:
        """`GPU` or `CPU`, judged or observed; None without a winner."""
        return _FASTER.get(self.verdict)

    @property
    def winner(self) -> str | None:
        """`GPU` or `CPU` if it may end a crossover's bracket: judged, or observed in at least `DECISIVE_ROUNDS`."""
        return self.faster if self.is_judged or self.rounds >= DECISIVE_ROUNDS else None

    @property
    def covers_starts(self) -> bool:
        """Whether the interval is about other starts of the process too, not only about the one that was timed."""
        return self.degrees > 0 or self.starts > 1

    @property
    def is_judged(self) -> bool:
        """Whether an interval decided."""
        return self.verdict in (GPU_WINS, CPU_WINS, TIE)

    @property
    def cheap(self) -> set[str]:
        """The winner, or else the devices that cost at most `MOST_COST` more."""
        if self.winner is not None:
            return {self.winner}
        return {device for device in (CPU_WINS, GPU_WINS) if self.cost(device) <= MOST_COST}

    def cost(self, device: str) -> float:
        """Return the upper bound of what choosing `GPU` or `CPU` costs, as a share of the other's time.

        Infinite without an interval.
        """
        if self.low is None or self.high is None or self.low <= 0:
            return math.inf
        return max(0.0, (self.high if device == CPU_WINS else 1 / self.low) - 1)


def cheap_between(points: Sequence[SweepPoint]) -> list[set[str]]:
    """Return, for each two neighbouring sizes, the devices that cost at most `MOST_COST` more between them, by several.

    There ln(speedup) is taken as the mean of these two and of as many more on both sides as lie within `WIDEST_GAP`,
    with the half-width of a mean of independent values. Neither of the two may have been observed to cost more. On an
    H100 server whose CPU rounds varied by 23 %, thresholds stayed open on 8 % of their ranges, between sizes whose own
    intervals were ± 13 % around 1.
    """
    logs = [_logs(point.comparison) for point in points]
    return [
        set().union(*(
            _cheap_together(logs[index - more : index + 2 + more], more)
            for more in range(min(index + 1, len(points) - 1 - index))
            if points[index + 1 + more].size <= WIDEST_GAP * points[index - more].size
        ))
        for index in range(len(points) - 1)
    ]  # fmt: skip


def _cheap_together(logs: Sequence[tuple[float, float, float] | None], more: int) -> set[str]:
    """Return the devices that are cheap between the middle two of these sizes."""
    known = [each for each in logs if each is not None]
    if len(known) < len(logs):
        return set()
    most, found = math.log1p(MOST_COST), set()
    for device, sign, end in ((CPU_WINS, 1, 2), (GPU_WINS, -1, 0)):
        costs = [sign * each[1] for each in known]
        above = math.hypot(*(each[end] - each[1] for each in known))
        if max(costs[more : more + 2]) <= most and (sum(costs) + above) / len(costs) <= most:
            found.add(device)
    return found


def _logs(comparison: Comparison) -> tuple[float, float, float] | None:
    """Return the logarithms of the lower end, the speedup and the upper end; None without an interval."""
    low, high = comparison.low, comparison.high
    if low is None or high is None or not 0 < low <= high < math.inf:
        return None
    return math.log(low), math.log(comparison.speedup), math.log(high)


_FASTER = {GPU_WINS: GPU_WINS, GPU_OBSERVED: GPU_WINS, CPU_WINS: CPU_WINS, CPU_OBSERVED: CPU_WINS}


class SweepPoint(NamedTuple):
    """One size of a sweep with its comparison."""

    size: int
    comparison: Comparison


class Change(NamedTuple):
    """A change of winner between two neighbouring decided sizes."""

    low: int
    """Lower end of its bracket: the largest size at which the device below still wins."""
    high: int
    """Upper end: the smallest size above it at which the other one wins."""
    point: float
    """Size within the bracket at which the speedup is 1."""
    rises: bool
    """Whether the GPU wins above it."""
    gap: tuple[int, int] | None = None
    """The sizes beside the point, as `placed` finds them: up to it all read for the device below, above it all for the
    other one."""

    @property
    def known_point(self) -> float | None:
        """Its point; None if sizes inside its bracket contradict every point."""
        return self.point if self.gap is not None else None

    @property
    def ratio(self) -> float:
        """Upper end / lower end."""
        return self.high / self.low
