"""Is a planted change what it says? Measured by plain clocks of its own before a bench judges by it."""

import json
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from tests.helpers.bench.planted_step import ROOM_PERCENT, step_of
from tests.helpers.bench.ratios import Ratio, ratio_of

PAIRS = 60
CALLS = 10
"""Calls between two readings of the clock."""


def measured(plain: Callable[[], float], planted: Callable[[], float], pairs: int = PAIRS) -> Ratio:
    """Return how much longer the planted work takes than the plain one, in alternated pairs."""
    found = []
    for number in range(pairs + 1):
        if number % 2:
            first = plain()
            found.append((planted(), first))
        else:
            last = planted()
            found.append((last, plain()))
    return ratio_of(found[1:])  # the first pair warms up


def is_as_planned(found: Ratio, percent: float) -> bool:
    """Whether the change is there for certain, and half to twice what was planned."""
    return found.low > 1.0 and percent / 2 <= 100 * (found.value - 1) <= 2 * percent


def require_plant(found: Ratio, percent: float) -> None:
    """Print what was planted; leave the program unless it is as planned.

    Raises:
        SystemExit: it is not, with what it is.
    """
    low, high = 100 * (found.low - 1), 100 * (found.high - 1)
    text = f"{100 * (found.value - 1):+.2f} % ({low:+.2f} to {high:+.2f} %, {found.pairs} pairs)"
    if not is_as_planned(found, percent):
        sys.exit(f"The plant of +{percent:g} % takes {text} by a plain clock. No duet is judged by it.")
    print(f"\nThe plant of +{percent:g} %, by a plain clock: {text}.", flush=True)


def plant_of_step(n: int, percent: float, device: str) -> Ratio:
    """Measure the planted step: by events on a GPU, by the monotonic clock and one thread on the CPU."""
    import torch

    torch.set_num_threads(1)
    row = torch.rand(round(n * (1 + ROOM_PERCENT / 100)), device=device)
    block = _by_events if device == "cuda" else _by_clock
    for _ in range(CALLS):
        step_of(row, n, percent)
    return measured(lambda: block(lambda: step_of(row, n, 0.0)), lambda: block(lambda: step_of(row, n, percent)))


def plant_elsewhere(n: int, percent: float, device: str) -> Ratio:
    """Measure the planted step in a process that then ends, so that no context of it stands beside an agent's."""
    words = [sys.executable, "-m", "tests.helpers.bench.plant", str(n), str(percent), device]
    return Ratio(*json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout))


def _by_clock(call: Callable[[], Any]) -> float:
    started = perf_counter_ns()
    for _ in range(CALLS):
        call()
    return float(perf_counter_ns() - started)


def _by_events(call: Callable[[], Any]) -> float:
    import torch

    cuda: Any = torch.cuda  # its events have no annotations
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record()
    for _ in range(CALLS):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e6


if __name__ == "__main__":
    seen = plant_of_step(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
    print(json.dumps([seen.value, seen.low, seen.high, seen.pairs]))
