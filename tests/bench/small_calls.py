"""Which step of the protocol makes a short CPU call read longer here than in `torch.utils.benchmark`.

Product of two 64×64 matrices. Each way alternates with the Timer in one process, the most important ways first; a row
is printed as soon as it is known. BENCH_SECONDS limits the time (default 100) of one thread and of four together.
"""

import gc
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from statistics import fmean
from time import perf_counter_ns
from typing import Any

from tests.helpers.bench.ratios import cap_seconds, ratio_of, table

from cpugpu_tui.agent.main import facts, make_machine, work
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import LATENCY, Case, DeviceSampled, Event, Plan
from cpugpu_tui.timing.channel import CallEmitter, Control
from cpugpu_tui.timing.timers import Machine, Stopwatch
from cpugpu_tui.timing.timers.timed_operation import Operation
from cpugpu_tui.timing.warm_up import block_calls

SIZE = 64
CAP_S = cap_seconds(100.0)
THEIRS = "Timer.blocked_autorange, 50 ms"
LEAST_PAIRS, MOST_SHARES = 8, 4.0
"""Pairs of a way, unless they take so many shares of the time: an interval needs eight."""
BUSY_S = 0.02
"""Length of other work before a block, seconds: about that of a half-round."""

Way = Callable[[], float]


def main() -> None:
    """Print one table per number of threads."""
    environment, watch = facts(simulated=False), Stopwatch()
    counts = sorted({1, min(4, int(environment["threads"]))})
    for place, count in enumerate(counts):
        machine = make_machine(Plan("small calls", (), ("auto",)), environment)
        ways = Ways(machine, environment, count).all()
        left_s = (CAP_S - watch.elapsed_s()) / (len(counts) - place)
        table(
            f"matmul {SIZE}, {count} threads: ratio to the Timer, alternated with it",
            ("way", "us", "ratio to the Timer"),
            rows(ways, left_s),
        )


def rows(ways: dict[str, Way], most_s: float) -> Iterator[tuple[str, ...]]:
    """Yield the row of each way as soon as its share of the time is over. One that is not reached has no row."""
    watch, theirs = Stopwatch(), ways[THEIRS]
    for place, (name, way) in enumerate(ways.items()):
        share_s = (most_s - watch.elapsed_s()) / (len(ways) - place)
        if share_s <= 0:
            return
        own, seen = Stopwatch(), list[tuple[float, float]]()
        while own.elapsed_s() < share_s or (len(seen) < LEAST_PAIRS and own.elapsed_s() < MOST_SHARES * share_s):
            gc.collect()
            gc.disable()
            both = [way, theirs] if len(seen) % 2 else [theirs, way]
            found = {each: each() for each in both}
            seen.append((found[way], found[theirs]))
            gc.enable()
        ratio, few = ratio_of(seen), f"{len(seen)} pairs, too few for an interval"
        yield name, f"{median([ours for ours, _ in seen]):.3f}", ratio.text() if len(seen) >= LEAST_PAIRS else few


class Ways:
    """All ways to time the same product."""

    def __init__(self, machine: Machine, environment: dict[str, Any], threads: int) -> None:
        import torch
        from torch.utils.benchmark import Timer as TorchTimer

        self._machine, self._environment = machine, environment
        self._case = Case("matmul", SIZE, threads=threads)
        self._timer = machine.timer("cpu")
        self._op: Operation = self._timer.load(self._case, machine.make_inputs(self._case))
        self._timer.first_call(self._op)
        self._gpus = [device.name for device in machine.devices[1:]]
        self._gpu: Operation | None = None
        if self._gpus:
            self._gpu = machine.timer(self._gpus[0]).load(self._case, machine.make_inputs(self._case))
        a, b = self._op.inputs
        self._pair = a, b
        names = {"torch": torch, "a": a, "b": b}
        self._theirs = TorchTimer("torch.matmul(a, b)", globals=names, num_threads=threads)
        self._copy = TorchTimer(
            "torch.matmul(a, b)", globals={**names, "a": a.clone(), "b": b.clone()}, num_threads=threads
        )
        self._method = TorchTimer("a.matmul(b)", globals=names, num_threads=threads)
        estimates = [self._timer.latency_block(self._op, 100) for _ in range(50)]
        self._calls = block_calls(estimates[-1])

    def all(self) -> dict[str, Way]:
        """Return all ways by name, the most important first."""
        ways: dict[str, Way] = {
            "a whole run, CPU alone": lambda: self._run(("cpu",)),
            "half-round: a discarded block, median of 5 of 2 ms": lambda: self._blocks(5),
            "plain loop of torch.matmul(a, b)": self._plain,
            THEIRS: lambda: self._theirs.blocked_autorange(min_run_time=0.05).median * 1e6,
            "the same again": lambda: self._theirs.blocked_autorange(min_run_time=0.05).median * 1e6,
            "Timer, 200 ms": lambda: self._theirs.blocked_autorange(min_run_time=0.2).median * 1e6,
            "Timer, mean instead of median": lambda: self._theirs.blocked_autorange(min_run_time=0.05).mean * 1e6,
            "Timer on copies of the inputs": lambda: self._copy.blocked_autorange(min_run_time=0.05).median * 1e6,
            "Timer of a.matmul(b)": lambda: self._method.blocked_autorange(min_run_time=0.05).median * 1e6,
            "Timer in another thread": lambda: in_thread(
                lambda: self._theirs.blocked_autorange(min_run_time=0.05).median * 1e6
            ),
            "median of 25 blocks": lambda: self._blocks(25),
            "mean of 25 blocks": lambda: self._blocks(25, fmean),
            "the same without a discarded block": lambda: self._blocks(5, discarded=0),
            "half-round of blocks of 20 ms": lambda: self._blocks(5, length=10),
            "half-round in another thread": lambda: in_thread(lambda: self._blocks(5)),
            "half-round after a rest of 50 ms": lambda: self._after(lambda: time.sleep(0.05)),
            "half-round after flushing the caches": lambda: self._after(self._flushed),
            "half-round after a product of 1024": lambda: self._after(self._large),
            "half-round on new inputs": self._new_inputs,
            "plain loop of step(*inputs)": self._plain_step,
            "plain loop of a Python function that calls a.matmul(b)": self._plain_function,
            "a whole run in another thread": lambda: in_thread(lambda: self._run(("cpu",))),
        }
        if self._gpus:
            ways["half-round after 20 ms of calls on the GPU"] = lambda: self._after(self._on_gpu)
            ways["a whole run, CPU and GPU"] = lambda: self._run(("cpu", self._gpus[0]))
            ways["a whole run, CPU and GPU, only latency"] = lambda: self._run(("cpu", self._gpus[0]), (LATENCY,))
        return ways

    def _blocks(
        self, count: int, summary: Callable[[list[float]], float] = median, *, discarded: int = 1, length: int = 1,
        op: Operation | None = None,
    ) -> float:  # fmt: skip
        """Return the summary of blocks as a half-round times them, us."""
        operation = op or self._op
        self._timer.ready(operation, self._calls)
        blocks = [self._timer.latency_block(operation, self._calls * length) for _ in range(discarded + count)]
        return summary(blocks[discarded:]) / 1e3

    def _after(self, other: Callable[[], object]) -> float:
        other()
        return self._blocks(5)

    def _flushed(self) -> None:
        self._timer.device_samples(self._op, 1)

    def _large(self) -> None:
        import torch

        square = torch.ones(1024, 1024)
        ends = time.monotonic() + BUSY_S
        while time.monotonic() < ends:
            square.matmul(square)

    def _on_gpu(self) -> None:
        timer, ends = self._machine.timer(self._gpus[0]), time.monotonic() + BUSY_S
        while time.monotonic() < ends:
            timer.latency_block(self._gpu, 20)

    def _new_inputs(self) -> float:
        """Keep the new inputs until the block is over, so that they lie elsewhere than the old ones."""
        op = self._timer.load(self._case, tuple(each.clone() for each in self._pair))
        return self._blocks(5, op=op)

    def _plain(self) -> float:
        from torch import matmul

        a, b = self._pair
        return self._loops(lambda: matmul(a, b))

    def _plain_step(self) -> float:
        step, inputs = self._op.step, self._op.inputs
        return self._loops(lambda: step(*inputs))

    def _plain_function(self) -> float:
        inputs = self._pair
        return self._loops(lambda: product(*inputs))

    def _loops(self, call: Callable[[], object]) -> float:
        """Return the median of 25 plain loops of 2 ms after one, us; the lambda costs about 0.05 us."""
        self._timer.ready(self._op, self._calls)
        found = []
        for _ in range(26):
            started = perf_counter_ns()
            for _ in repeat(None, self._calls):
                call()
            found.append((perf_counter_ns() - started) / self._calls)
        return median(found[1:]) / 1e3

    def _run(self, devices: tuple[str, ...], metrics: tuple[str, ...] | None = None) -> float:
        """Return the median over rounds of a whole run in this process, us."""
        more: dict[str, Any] = {} if metrics is None else {"metrics": metrics}
        plan = Plan("small calls", (self._case,), devices, rounds=8, max_rounds=8, budget_s=0.5, gaps=False, **more)
        events: list[Event] = []
        assert work(plan, self._environment, CallEmitter(events.append), Control())
        gc.disable()  # the run has enabled it
        return median(
            [
                median(event.samples[LATENCY])
                for event in events
                if isinstance(event, DeviceSampled) and event.device == "cpu" and event.round_index > 0
            ]
        ) / 1e3  # fmt: skip


def product(a: Any, b: Any, *, out: Any = None) -> Any:
    """Return a·b, with the arguments that the workload's step has."""
    del out
    return a.matmul(b)


WORKER = ThreadPoolExecutor(1)
"""One thread for all calls, as in an agent: a new one would have a new pool of OpenMP threads."""


def in_thread(call: Way) -> float:
    """Return what a call returns in another thread."""
    return WORKER.submit(call).result()


if __name__ == "__main__":
    main()
