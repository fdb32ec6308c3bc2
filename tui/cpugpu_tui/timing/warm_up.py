"""How long to warm up, how many calls make a block, how many blocks and rounds fit the budget."""

from __future__ import annotations

import math
from collections.abc import Callable

from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import Plan
from cpugpu_tui.timing.control import Control

BLOCK_NS = 2e6
"""A block of calls lasts about this long, so that reading the clock costs under 0.01 % of it."""

FIRST_WARMUP_NS = 250e6
"""Least warm-up at a device's first case: clocks ramp from 345 to 1980 MHz on an H200."""

WARMUP_NS = 100e6
"""Least warm-up at later cases."""

SEARCH_WARMUP_NS = 40e6
"""The same in a search, whose rounds are spread over all of it, each after a block that is thrown away: with 100 ms
half of a search of 19 sizes on an H200 was warm-up (5.7 s of 11)."""

WARMUP_CAP_NS = 3e9
"""Longest warm-up; for presets with a small budget it is 60 % of that."""

STABLE = 0.01
"""Warm-up is over when two windows of blocks differ by less than this."""


def warm_up(
    block: Callable[[int], float], blocks: int, least_ns: float, cap_ns: float, control: Control
) -> tuple[float, bool]:
    """Call `block(calls)` → ns per call until two windows of blocks agree; return (ns per call, whether they agreed).

    A stop ends it after a window; a suspension makes it begin anew.
    """
    spent_ns, calls, before = 0.0, 1, 0.0
    while True:
        window: list[float] = []
        while len(window) < blocks and (spent_ns < cap_ns or not window):
            window.append(block(calls))
            # At least a microsecond a call: a simulated operation may take none, and this must end.
            spent_ns += max(window[-1], 1e3) * calls
        if control.suspended_meanwhile():
            spent_ns, calls, before = 0.0, 1, 0.0
            control.was_suspended = False
            continue
        current = median(window)
        agreed = before > 0 and abs(current / before - 1) < STABLE
        if agreed and spent_ns >= least_ns:
            return current, True
        if spent_ns >= cap_ns or control.stopping:
            return current, False
        before, calls = current, block_calls(current)


def block_calls(estimate_ns: float) -> int:
    """Return how many calls make a block of 2 ms (method.md, step 4)."""
    return max(1, math.ceil(BLOCK_NS / max(estimate_ns, 1.0)))


def sizing(estimate_ns: float, plan: Plan) -> tuple[int, int, int]:
    """Return (calls per block, blocks per half-round, least rounds) that fit the budget of a device and case.

    A call longer than the budget is timed once: (1, 1, 1).
    """
    budget_ns = plan.budget_s * 1e9
    calls = block_calls(estimate_ns)
    affordable = int(budget_ns / (calls * estimate_ns))
    if affordable < 1:
        return 1, 1, 1
    blocks = min(plan.blocks, max(1, affordable // plan.rounds))
    return calls, blocks, min(plan.rounds, max(1, affordable // blocks))


def least_device_ns(estimate_ns: float, plan: Plan) -> float:
    """Return the least time, ns, that a case takes on one device: first call, warm-up, and the rounds it must have."""
    calls, blocks, rounds = sizing(estimate_ns, plan)
    warm_ns = min(WARMUP_NS + 2 * estimate_ns, 0.6 * plan.budget_s * 1e9)
    return estimate_ns + warm_ns + rounds * (blocks + 1) * calls * estimate_ns


def most_device_ns(estimate_ns: float, plan: Plan) -> float:
    """Return about the most time, ns, that a case takes on one device: rounds go on until the budget is spent.

    What a call longer than the budget takes is its first call, once more where that may have loaded libraries, and the
    comparison of its result.
    """
    budget_ns = plan.budget_s * 1e9
    if estimate_ns > budget_ns:
        return 3 * estimate_ns
    return estimate_ns + min(WARMUP_CAP_NS, 0.6 * budget_ns) + budget_ns
