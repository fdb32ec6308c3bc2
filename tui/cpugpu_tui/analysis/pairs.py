"""Cases in two series: their medians of runs, and how the time changed with its interval. Pure functions.

Each run gives one number for a case and a device, because samples of one process are not independent: on identical
runs, a rank test on raw samples called 78-85 % of pairs different. In a duet the runs of both sides belong together,
and each pair of agents gives one ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

from cpugpu_tui.decide.stats import quantile, two_sided_p
from cpugpu_tui.model import DEVICE, LATENCY, SweepKey

SINGLE = 0.05
"""Level where it is not divided among the cases: for SAME, PASSED, and intervals without a verdict."""


@dataclass(frozen=True)
class Pair:
    """One case on one device in two series."""

    case: str
    """`Case.key`."""
    device: str
    """`CPU`, `GPU` or `GPU 2`, independent of torch's names on each machine."""
    base_ns: Mapping[str, float]
    """Run → its median, ns; runs without one are left out. In a duet the key is a pair of agents, for both sides."""
    new_ns: Mapping[str, float]
    sweep: SweepKey | tuple[()] = ()
    """What the case shares with other sizes of its sweep; groups stay within one sweep."""
    size: int = 0
    trouble: str = ""
    """Why it cannot be compared, one clause; empty if it can."""
    only_in: str = ""
    """`base` or `new` if only that series has the case, because a search chose its sizes. Empty otherwise."""
    is_lost: bool = False
    """Whether the base has times but the case failed in the new series; in a duet, whether it failed on a side."""
    differs: bool = False
    """Whether its two codes gave different results."""
    is_unreached: bool = False
    """Whether the base has times but the new series stopped before the case."""
    is_chosen: bool = False
    """Whether a search chose the case, so that runs of one series may lack it."""
    is_starved: bool = False
    """Whether its threads had no free core in some run; that run has no median."""
    metric: str = LATENCY
    """`LATENCY`, or `DEVICE` for the kernel time of a GPU."""
    code: str = ""
    """The new side's typed code, up to 40 characters; empty for a workload or if the side has several codes."""

    @property
    def label(self) -> str:
        """`CPU`, `GPU`, or `GPU kernels` for kernel time."""
        return f"{self.device} kernels" if self.metric == DEVICE else self.device

    def first(self, count: int) -> Pair:
        """Return it with its first runs only."""
        base_ns, new_ns = (dict(islice(side.items(), count)) for side in (self.base_ns, self.new_ns))
        return replace(self, base_ns=base_ns, new_ns=new_ns)


@dataclass(frozen=True)
class Change:
    """How the time changed from one series to the other."""

    ratio: float
    """Time of the new series / time of the base; above 1 is slower."""
    low: float | None
    """Lower end of the interval; None with fewer than two runs on a side."""
    high: float | None
    base_runs: int
    """Number of runs; identical runs count once."""
    new_runs: int
    is_copied: bool = False
    """Whether all runs of a side are identical."""
    error: float = 0.0
    """Standard error of ln(ratio)."""
    is_duet: bool = False
    """Whether the runs of both sides belong together in pairs."""
    lent: float = 0.0
    """Degrees of freedom that other cases lend to `error`, see `stats.moderated`."""

    @property
    def degrees(self) -> float:
        """Degrees of freedom of `error`."""
        return self.lent + (self.base_runs - 1 if self.is_duet else self.base_runs + self.new_runs - 2)

    @property
    def variance_factor(self) -> float:
        """Ratio of `error`² to the variance of a single run; in a duet, of a single pair."""
        return 1 / self.base_runs + (0.0 if self.is_duet else 1 / self.new_runs)

    def ends(self, below: float, above: float) -> tuple[float, float]:
        """Return the ends of the interval that misses the truth at most this often on each side."""
        down, up = (math.exp(quantile(2 * level, self.degrees) * self.error) for level in (below, above))
        return self.ratio / down, self.ratio * up

    def within(self, low: float, high: float) -> Change:
        """Return the change with this interval."""
        return replace(self, low=low, high=high)

    def p_above(self, bound: float) -> float:
        """Return the one-sided p-value of the hypothesis that the true ratio is at most `bound`."""
        distance = math.log(self.ratio / bound)
        p = two_sided_p(distance / self.error, self.degrees) / 2
        return p if distance > 0 else 1 - p


def change(base: Sequence[float], new: Sequence[float]) -> Change | None:
    """Return the change between the numbers of independent runs, each above 0; None if a side has none.

    Student's t on the difference of the mean logarithms, with a pooled variance. Welch's test finds a slowdown of 10 %
    in only 90 instead of 96 % of trials with 5 runs on each side and 25 cases, and with equal numbers of runs the
    pooled test tolerates unequal variances. The interval is that of `SINGLE`, not shared with other cases.
    """
    if not base or not new:
        return None
    return _change([math.log(ns) for ns in base], [math.log(ns) for ns in new])


def _change(base: Sequence[float], new: Sequence[float]) -> Change:
    """Return `change` of times given as logarithms."""
    difference, count = fmean(new) - fmean(base), len(base) + len(new)
    base, new = _without_copies(base), _without_copies(new)
    found = Change(math.exp(difference), None, None, len(base), len(new), is_copied=len(base) + len(new) < count)
    if min(len(base), len(new)) < 2:
        return found
    squares = sum(math.fsum((value - fmean(side)) ** 2 for value in side) for side in (base, new))
    error = math.sqrt(squares / found.degrees * (1 / len(base) + 1 / len(new)))
    found = replace(found, error=error)
    return found.within(*found.ends(SINGLE / 2, SINGLE / 2))


def _paired(log_ratios: Sequence[float]) -> Change:
    """Return the change from the ln(ratio) of each pair of agents: Student's t on their mean."""
    count, mean = len(log_ratios), fmean(log_ratios)
    distinct = _without_copies(log_ratios)
    is_copied = len(distinct) < count
    found = Change(math.exp(mean), None, None, len(distinct), len(distinct), is_copied=is_copied, is_duet=True)
    if len(distinct) < 2:
        return found
    variance = math.fsum((each - mean) ** 2 for each in log_ratios) / (count - 1)
    found = replace(found, error=math.sqrt(variance / count))
    return found.within(*found.ends(SINGLE / 2, SINGLE / 2))


def _without_copies(side: Sequence[float]) -> Sequence[float]:
    """Return the logarithms of one side's runs; only one of them if all are the same.

    Measured runs differ in some digit, but simulated runs with one seed or without noise do not. Their interval would
    have no width, so that any difference would seem certain. 1e-12 covers the rounding of logarithms.
    """
    return side if max(side) - min(side) > 1e-12 else side[:1]


def together(pairs: Sequence[Pair]) -> Change | None:
    """Return the geometric mean of the changes of several cases; None without any.

    The cases of a run share its process, so each run counts once, with the mean of its logarithms over all cases.
    Runs that lack a case are left out; if none is left, the result is the mean ratio without an interval. Sides with
    runs in common are a duet.
    """
    timed = [pair for pair in pairs if pair.base_ns and pair.new_ns]
    if not timed:
        return None
    base, new = (_means([getattr(pair, side) for pair in timed]) for side in ("base_ns", "new_ns"))
    if both := base.keys() & new.keys():
        return _paired([new[run] - base[run] for run in base if run in both])
    if base and new:
        return _change(list(base.values()), list(new.values()))
    ratios = [change(list(pair.base_ns.values()), list(pair.new_ns.values())) for pair in timed]
    difference = fmean(math.log(each.ratio) for each in ratios if each is not None)
    return Change(math.exp(difference), None, None, len(base), len(new))


def _means(sides: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean logarithm of each run that has all cases."""
    return {run: fmean(math.log(side[run]) for side in sides) for run in sides[0] if all(run in side for side in sides)}
