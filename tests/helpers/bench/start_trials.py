"""Trials of intervals on a machine whose starts differ: what they hold of its mean and of the next run."""

import math
import random
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from tests.helpers.runs.crossovers import Crossover, crossover
from tests.helpers.runs.planted_crossover import REAL_DRIFTS, REAL_RHO, machine, search_plan, true_crossings
from tests.helpers.runs.scripted import session_of, well

from cpugpu_tui.decide.comparison import SweepPoint
from cpugpu_tui.decide.starts import earlier_spread
from cpugpu_tui.decide.stats import median
from cpugpu_tui.decide.verdict import compare, start_logs
from cpugpu_tui.model import Event, Plan
from cpugpu_tui.state.folding import folded

FIRST_ROUNDS, LATER_ROUNDS = 12, 4
"""Rounds of the start that searches, and of each further one."""


@dataclass(frozen=True)
class Machine:
    """How much a machine's times differ, as standard deviations of ln(time)."""

    cpu_start: float = 0.0
    gpu_start: float = 0.0
    slow_share: float = 0.0
    """Share of starts in which the CPU takes twice as long."""
    rounds: float = 0.12
    """Of ln(cpu/gpu) from round to round within a start."""
    correlation: float = 0.3

    @property
    def mean(self) -> float:
        """The mean of ln(cpu/gpu) over starts; the devices are equal but for slow starts."""
        return self.slow_share * math.log(2)

    def start(self, noise: random.Random, count: int) -> tuple[dict[int, float], dict[int, float]]:
        """Return the rounds of one start on both devices."""
        at = noise.gauss(0, self.cpu_start) - noise.gauss(0, self.gpu_start)
        at += math.log(2) if noise.random() < self.slow_share else 0.0
        wander, rho = noise.gauss(0, self.rounds), self.correlation
        cpu: dict[int, float] = {}
        for index in range(1, count + 1):
            cpu[index] = 1e6 * math.exp(at + wander)
            wander = rho * wander + math.sqrt(1 - rho**2) * noise.gauss(0, self.rounds)
        return cpu, dict.fromkeys(cpu, 1e6)


class Held(NamedTuple):
    """Shares of intervals, and their size."""

    mean: float
    """That contain the machine's mean."""
    next_run: float
    """That contain the speedup of the next run, which is as long."""
    half_width: float
    """Median of exp(half-width) − 1."""
    named: float
    """That name a winner, which is wrong unless starts are slow: the devices are equal."""


def held(machine: Machine, *, starts: int, earlier: int, trials: int, seed: int) -> Held:
    """Run pairs of runs of `starts` starts each, with so many `earlier` starts in the history."""
    noise, means, nexts, named, halves = random.Random(seed), 0, 0, 0, []
    # An observed winner has no interval, which is not counted as one that holds.
    for _ in range(trials):
        past = start_logs([machine.start(noise, LATER_ROUNDS) for _ in range(earlier)])
        run, following = (
            [machine.start(noise, LATER_ROUNDS if index else FIRST_ROUNDS) for index in range(starts)] for _ in range(2)
        )
        found = compare(*run[0], later=run[1:], earlier=earlier_spread(past))
        after = compare(*following[0], later=following[1:])
        named += found.winner is not None
        if found.low is not None and found.high is not None:
            means += found.low <= math.exp(machine.mean) <= found.high
            nexts += found.low <= after.speedup <= found.high
            halves.append(math.sqrt(found.high / found.low) - 1)
    return Held(means / trials, nexts / trials, median(halves), named / trials)


# ------------------------------------------------------------------ brackets


class Brackets(NamedTuple):
    """What the brackets of searches held."""

    held: int
    """Those that contain the crossover of the mean machine."""
    next_inside: int
    """Those that contain the point of the next search."""
    disjoint: int
    """Those that have no size in common with the next one."""
    median_ratio: float
    """Upper end / lower end."""
    missing: int
    """Searches without a bracket."""


def brackets(*, starts: int, searches: int, slow_share: float = 0.0) -> Brackets:
    """Search for a planted crossover, each time in fresh starts, through the whole session."""
    found: list[Crossover] = []
    held = 0
    for seed in range(searches):
        simulation = replace(
            machine(seed, REAL_RHO, REAL_DRIFTS), cpu_start=0.14, gpu_start=0.10, slow_starts=slow_share,
            drift_seed=seed + 1,
        )  # fmt: skip
        plan = replace(search_plan(simulation), starts=starts)
        slower = 2.0**slow_share
        mean = replace(
            simulation, cpu_overhead_ns=slower * simulation.cpu_overhead_ns,
            cpu_ns_per_flop=slower * simulation.cpu_ns_per_flop,
        )  # fmt: skip
        each = _bracket(plan)
        if each.low is not None and each.high is not None:
            held += any(each.low <= size <= each.high for size in true_crossings(replace(plan, simulation=mean)))
            found.append(each)
    ends = [(each.low or 0, each.high or 0, each.point or 0.0) for each in found]
    return Brackets(
        held, sum(low <= point <= high for (low, high, _), (_, _, point) in pairwise(ends)),
        sum(a[0] > b[1] or a[1] < b[0] for a, b in pairwise(ends)), median([high / low for low, high, _ in ends]),
        searches - len(found),
    )  # fmt: skip


def _bracket(plan: Plan) -> Crossover:
    events: list[Event] = []
    session, _ = session_of(plan, *[well] * plan.starts)
    session.run(events.append)
    rows = folded(events).rows.values()
    return crossover([SweepPoint(row.case.size, row.own_comparison) for row in rows if row.own_comparison is not None])
