"""What the further starts of a run time, how many there are, and for how long."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.decide.starts import sizes_to_repeat
from cpugpu_tui.machine import procfs
from cpugpu_tui.state.state import Row, RunState

LEAST_STARTS = 3
"""Starts that are timed even if the time is short: with two, Student's t is 12.7."""

MORE_TIME = 0.5
"""Time for the further starts, as a share of the time until the first one has ended."""

LEAST_EXTRA_S = 15.0
"""The same at least, on a machine with cores for all starts to import torch at once, seconds."""

SEARCH_ROUNDS, FIXED_ROUNDS = 4, 2
"""Rounds of a case in a further start. More starts narrow the interval more than more rounds do."""

METRICS = (model.LATENCY, model.END_TO_END, model.DEVICE)
"""Metrics that further starts take, if the plan takes them: those that are compared between devices."""

LONGEST_SHARE = 0.5
"""A case is not repeated if its calls would take more than this share of the time for a further start."""

OTHER_NOISE = 1_000_000
"""Distance between the seeds of two simulated starts."""


def drifting(plan: model.Plan, seed: str) -> model.Plan:
    """Return the plan with a seed of how a simulated machine differs from run to run, unless it has one."""
    simulation = plan.simulation
    if simulation is None or simulation.drift_seed:
        return plan
    return replace(plan, simulation=replace(simulation, drift_seed=zlib.crc32(seed.encode()) or 1))


class Visits:
    """Plans the further starts of a run whose first start has ended."""

    def __init__(self, plan: model.Plan, state: RunState, first_s: float) -> None:
        """`first_s` is the time that the first start took."""
        self._plan = plan
        self._first_s = first_s
        self._rounds = FIXED_ROUNDS if plan.search is None and len(plan.cases) > LEAST_STARTS * 2 else SEARCH_ROUNDS
        cores = len(procfs.affinity_cores())
        self._has_cores = cores > plan.starts
        self._extra_s = max(MORE_TIME * first_s, LEAST_EXTRA_S if self._has_cores else 0.0)
        if plan.simulation is not None and not plan.simulation.pace:  # whose time is virtual
            self._extra_s = math.inf
        self.cases: tuple[model.Case, ...] = tuple(row.case for row in self._rows(state))
        """Cases that every further start times."""

    def left_s(self, elapsed_s: float, start: int) -> float:
        """Return the time for the start of this number, from 1, seconds after the begin of the run; 0 for none.

        Each further start may take as long as those before it took on average.
        """
        limit_s = math.inf if self._plan.max_seconds is None else self._plan.max_seconds - elapsed_s
        used_s = elapsed_s - self._first_s
        if start >= LEAST_STARTS and used_s * (1 + 1 / (start - 1)) > self._extra_s:
            return 0.0
        return limit_s

    def together(self, start: int) -> int:
        """Return how many processes to start before the start of this number is timed."""
        if self._has_cores or self._plan.simulation is not None:
            return 1 if self._plan.parallel else self._plan.starts - start
        return max(1, LEAST_STARTS - start)

    def plan(self, start: int, left_s: float) -> model.Plan:
        """Return the plan of a further start, which begins with another case each time."""
        shift = len(self.cases) * (start - 1) // max(1, self._plan.starts - 1)
        simulation = self._plan.simulation
        if simulation is not None:
            simulation = replace(simulation, seed=simulation.seed + OTHER_NOISE * start, start=start)
        return replace(
            self._plan, cases=self.cases[shift:] + self.cases[:shift], search=None, calibrate=False,
            metrics=tuple(metric for metric in METRICS if metric in self._plan.metrics), rounds=self._rounds,
            max_rounds=self._rounds, max_seconds=left_s if left_s < math.inf else None, starts=1,
            simulation=simulation,
        )  # fmt: skip

    def _rows(self, state: RunState) -> Iterator[Row]:
        for rows in state.sweeps.values():
            usable = [row for row in rows if self._is_repeated(row)]
            sizes = [row.case.size for row in usable] if self._plan.search is None else _sizes(usable)
            yield from (row for row in usable if row.case.size in sizes)

    def _is_repeated(self, row: Row) -> bool:
        """Return whether a case has times and is short. Compiling it again would take longer than its times.

        The name of the variant decides: a person's own workload is registered in the agents, and not here.
        """
        if row.status != "ok" or row.is_starved or row.case.variant == model.COMPILED:
            return False
        each_ns = [times.latency_ns or 0.0 for times in row.times.values() if not times.timed_once]
        calls = self._rounds * (self._plan.blocks + 1) + self._plan.blocks
        spent_s = sum(each_ns) * calls / 1e9
        return len(each_ns) == len(row.times) > 0 and spent_s <= max(1.0, LONGEST_SHARE * self._extra_s)


def _sizes(rows: Sequence[Row]) -> list[int]:
    """Return the sizes of a search that decide its answer."""
    found = sorted((row for row in rows), key=lambda row: row.case.size)
    resident = [(row.case.size, _log(row.comparison.speedup)) for row in found if row.comparison is not None]
    copied = [(row.case.size, _log(row.in_worlds[END_TO_END].speedup)) for row in found if END_TO_END in row.in_worlds]
    return sizes_to_repeat(resident or [(row.case.size, 1.0) for row in found], copied)


def _log(speedup: float) -> float:
    return math.log(speedup) if 0 < speedup < math.inf else 0.0
