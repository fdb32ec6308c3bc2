"""The host's clock around calls: medians, so that one interruption does not become a ceiling."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from time import perf_counter_ns

from cpugpu_tui.decide.stats import median

TRIES = 3
"""Runs of each measurement; their median stands."""


def timed_ns(call: Callable[[], object], tries: int = TRIES) -> float:
    """Return the median wall time of single calls, once warm."""
    call()
    samples = []
    for _ in range(tries):
        started = perf_counter_ns()
        call()
        samples.append(float(perf_counter_ns() - started))
    return median(samples)


def block_ns(call: Callable[[], object], calls: int) -> float:
    """Return the time of one call: the median over blocks of so many, once warm."""

    def block() -> None:
        for _ in repeat(None, calls):
            call()

    return timed_ns(block) / calls
