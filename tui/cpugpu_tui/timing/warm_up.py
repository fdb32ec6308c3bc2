"""Warm-up, size of a block, and numbers of blocks and rounds that fit the budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from cpugpu_tui.decide.comparison import DECISIVE_ROUNDS
from cpugpu_tui.decide.stats import median

if TYPE_CHECKING:
    from cpugpu_tui.model import Plan
    from cpugpu_tui.timing.channel import Control

BLOCK_NS = 2e6
"""Length of a block of calls, ns. Reading the clock takes less than 0.01 % of it."""

FIRST_WARMUP_NS = 250e6
"""Least warm-up in a device's first case, ns: clocks rise from 345 to 1,980 MHz on an H200."""

WARMUP_NS = 100e6
"""Least warm-up in later cases, ns."""

SEARCH_WARMUP_NS = 10e6
"""The same in a search, ns. Its rounds are spread over the whole search, each after a discarded block: with 40 ms, the
first round of a recorded survey differed from the later ones by 1.6 % (CPU) and 0.2 % (GPU) at the median. With 100 ms,
warm-up was half of a search of 19 sizes on an H200 (5.7 s of 11 s)."""

WARMUP_CAP_NS = 3e9
"""Longest warm-up, ns; with a small budget 60 % of the budget, with a time limit a tenth of what is left of it."""

ALONE = 0.4
"""Part of a survey's time that one device alone gets: it has no crossovers to narrow."""

STABLE = 0.01
"""Relative difference between two windows of blocks below which warm-up ends."""


def warm_up(
    block: Callable[[int], float], blocks: int, least_ns: float, cap_ns: float, control: Control, *,
    is_brief: bool = False,
) -> tuple[float, bool]:  # fmt: skip
    """Call `block(calls)` → ns per call until two windows of blocks agree; return (ns per call, whether they agree).

    If `is_brief`, times need only no longer fall: with noise of some per cent, windows agree by chance. Beside other
    work on two cores the median warm-up was 39 ms with agreement and 26 ms without, and the windows after it were 0.3
    and 0.2 % slower than those from 70 to 140 ms.

    A stop takes effect after a window; after a suspension, warm-up starts again.
    """
    spent_ns, calls, before = 0.0, 1, 0.0
    while True:
        window: list[float] = []
        while len(window) < blocks and (spent_ns < cap_ns or not window):
            window.append(block(calls))
            # At least 1 µs per call, so that the loop ends even if a simulated call takes no time.
            spent_ns += max(window[-1], 1e3) * calls
        if control.suspended_meanwhile():
            spent_ns, calls, before = 0.0, 1, 0.0
            control.was_suspended = False
            continue
        current = median(window)
        difference = before - current if is_brief else abs(before - current)
        agreed = before > 0 and difference < STABLE * before
        if agreed and spent_ns >= least_ns:
            return current, True
        if spent_ns >= cap_ns or control.stopping:
            return current, agreed
        before, calls = current, block_calls(current)


def shortest_ns(plan: Plan, *, is_first: bool) -> float:
    """Return the least warm-up of a case on one device, ns; `is_first`: it is the device's first case."""
    if is_first:  # in a repeat, other processes have just used the device
        return WARMUP_NS if plan.is_repeat else FIRST_WARMUP_NS
    return SEARCH_WARMUP_NS if plan.is_brief else WARMUP_NS


def longest_ns(plan: Plan) -> float:
    """Return the longest warm-up of a case on one device, ns."""
    left_ns = math.inf if plan.max_seconds is None else 1e9 * plan.max_seconds
    return min(WARMUP_CAP_NS, 0.6 * plan.budget_ns, 0.1 * left_ns)


def block_calls(estimate_ns: float) -> int:
    """Return the number of calls in a block of 2 ms (method.md, step 4)."""
    return max(1, math.ceil(BLOCK_NS / max(estimate_ns, 1.0)))


def sizing(estimate_ns: float, plan: Plan) -> tuple[int, int, int]:
    """Return (calls per block, blocks per half-round, least rounds) that fit the budget.

    A call longer than the budget is timed once: (1, 1, 1), unless the number of rounds is exact. Other calls,
    outside a search, have at least the three rounds that a winner needs; these may exceed the budget.
    """
    calls = block_calls(estimate_ns)
    affordable = int(plan.budget_ns / (calls * estimate_ns))
    if affordable < 1:
        return 1, 1, plan.rounds if plan.has_exact_rounds else 1
    blocks = min(plan.blocks, max(1, affordable // plan.rounds))
    least = DECISIVE_ROUNDS if plan.search is None else 1
    return calls, blocks, plan.rounds if plan.has_exact_rounds else min(plan.rounds, max(least, affordable // blocks))


def limit_s(plan: Plan, devices: int) -> float:
    """Return the time limit of a plan's cases on so many devices, seconds; infinite without one."""
    limits = [math.inf if plan.max_seconds is None else plan.max_seconds]
    if plan.search is not None:
        wall_s = (plan.search.limit_s or math.inf) * (1.0 if devices > 1 else ALONE)
        limits += [wall_s, (plan.search.device_s or math.inf) * devices]
    return min(limits)


def least_device_ns(estimate_ns: float, plan: Plan) -> float:
    """Return the least time of a case on one device, ns: first call, warm-up and least rounds."""
    calls, blocks, rounds = sizing(estimate_ns, plan)
    warm_ns = min((SEARCH_WARMUP_NS if plan.is_repeat else WARMUP_NS) + 2 * estimate_ns, longest_ns(plan))
    return estimate_ns + warm_ns + rounds * (blocks + 1) * calls * estimate_ns


def most_device_ns(estimate_ns: float, plan: Plan) -> float:
    """Return the approximate longest time of a case on one device, ns: rounds until the budget is spent.

    A call longer than the budget counts three times: first call, possible repetition, and check of its result.
    """
    if estimate_ns > plan.budget_ns:
        return 3 * estimate_ns
    return max(least_device_ns(estimate_ns, plan), estimate_ns + longest_ns(plan) + plan.budget_ns)
