"""Overhead of the tool: time around an empty call, its own CPU time, and bytes of events."""

import json
import tempfile
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from tests.helpers.bench.figures import record
from tests.helpers.bench.ratios import cap_seconds, table

from cpugpu_tui.agent.main import facts, make_machine, quiet_interpreter
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import KERNELS, METRICS, Case, Plan
from cpugpu_tui.thresholds import FORMAT, VERSION, Thresholds
from cpugpu_tui.timing.channel import Control, LineEmitter
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.timing.timers import Stopwatch
from cpugpu_tui.timing.warm_up import block_calls
from cpugpu_tui.workloads import Workload, workload

NOTHING_NS = 100.0
LEAST_CALLS = 30
OWN_SHARE = 0.05
ROUND_BYTES = 4096
CHOICE_NS = 1000.0
"""Budgets (method.md, "What is promised")."""

SIZES = (16, 64, 256, 512, 1024)


class Nothing(Workload):
    """A step that returns its input, so that only the overhead of timing is measured."""

    name = "bench-nothing"

    def inputs(self, n: int, dtype: Any, generator: Any) -> tuple[Any, ...]:
        """Return one tensor."""
        import torch

        return (torch.ones(n, dtype=dtype),)

    def step(self, tensor: Any) -> Any:
        """Return the input."""
        return tensor

    def flops(self, n: int) -> float:
        """Return 0."""
        return 0.0

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return 0."""
        return 0.0


@dataclass
class Work:
    """CPU time of this thread in the actual work of a run: inputs, check, warm-up, timed blocks."""

    inside_ns: int = 0
    _depth: int = 0

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call` with its CPU time counted; nested calls count once."""

        def counting(*arguments: Any, **keywords: Any) -> Any:
            self._depth += 1
            started_ns = time.thread_time_ns()
            try:
                return call(*arguments, **keywords)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.inside_ns += time.thread_time_ns() - started_ns

        return counting


class CountedTimer:
    """A timer whose calls are counted."""

    def __init__(self, timer: Any, work: Work) -> None:
        self._timer = timer
        self._work = work

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._timer, name)
        return self._work.counted(found) if callable(found) else found


def main() -> None:
    """Print one row per cost."""
    rows = [nothing_row(), choice_row(), *run_rows(cap_seconds(60.0))]
    table("Costs of the tool", ("what", "measured", "budget", "holds"), rows)
    for what, found, budget, _ in rows:
        record(what, f"{found} (budget {budget})")


def nothing_row() -> tuple[str, ...]:
    """Time an empty step as the protocol does; the least of five medians, because other processes only add time."""
    workload(Nothing)
    machine = make_machine(Plan("cost", (), ("cpu",)), facts(simulated=False))
    timer, case = machine.timer("cpu"), Case(Nothing.name, 1)
    operation = timer.load(case, machine.make_inputs(case))
    timer.first_call(operation)
    with quiet_interpreter():
        calls = block_calls(min(timer.latency_block(operation, 1000) for _ in range(20)))
        elapsed_ns, few_ns = (
            min(median([timer.latency_block(operation, count) for _ in range(blocks)]) for _ in range(5))
            for count, blocks in ((calls, 10), (LEAST_CALLS, 200))
        )
    return (
        "Time that our loop adds to a call, in blocks of 2 ms / of 30 calls", f"{elapsed_ns:.0f} / {few_ns:.0f} ns",
        f"≤ {NOTHING_NS:.0f} ns", holds(max(elapsed_ns, few_ns) <= NOTHING_NS),
    )  # fmt: skip


def choice_row() -> tuple[str, ...]:
    """Time a call of `Thresholds.choose` among fifty operations; the least of five."""
    faster = [["cpu", 16, 162], ["cuda", 177, 2048]]
    form = {"variant": "default", "dtype": "float32", "threads": 0, "resident": False, "best": True, "faster": faster,
            "timed": [16, 2048], "equal": []}  # fmt: skip
    entries = [{**form, "operation": f"operation-{index}"} for index in range(50)]
    document = {"format": FORMAT, "version": VERSION, "made": "", "machine": {}, "thresholds": entries}
    code = "choose('operation-7', n=300, dtype='float32', resident=False)"
    names = {"choose": Thresholds(document, {}).choose}
    choice_ns = min(timeit.repeat(code, globals=names, number=100_000, repeat=5)) / 100_000 * 1e9
    return (
        "A choice by a file of thresholds",
        f"{choice_ns:.0f} ns",
        f"≤ {CHOICE_NS:.0f} ns",
        holds(choice_ns <= CHOICE_NS),
    )


def run_rows(cap_s: float) -> list[tuple[str, ...]]:
    """Run a sweep as the agent does; return rows of its own CPU share and the bytes of a round."""
    metrics = tuple(metric for metric in METRICS if metric != KERNELS)
    plan = Plan("cost", tuple(Case("matmul", size) for size in SIZES), metrics=metrics, max_seconds=cap_s)
    machine: Any = make_machine(plan, facts(simulated=False))
    work = Work()
    timers = {device.name: CountedTimer(machine.timer(device.name), work) for device in machine.devices}
    machine.timer = timers.__getitem__
    machine.make_inputs, machine.check = work.counted(machine.make_inputs), work.counted(machine.check)
    with tempfile.TemporaryFile() as stream, quiet_interpreter():
        watch, started_ns = Stopwatch(), time.thread_time_ns()
        Scheduler(plan, machine, LineEmitter(stream.fileno()), Control()).run()
        own_s = (time.thread_time_ns() - started_ns - work.inside_ns) / 1e9
        run_s = watch.elapsed_s()
        rounds = bytes_of_rounds(stream)
    most = max(rounds)
    return [
        (
            "The agent's own CPU time, share of a run", f"{100 * own_s / run_s:.1f} % of {run_s:.0f} s",
            f"≤ {100 * OWN_SHARE:g} %", holds(own_s <= OWN_SHARE * run_s),
        ),
        (
            "Events of a round, median / most", f"{median(rounds):.0f} / {most} bytes of {len(rounds)} rounds",
            f"≤ {ROUND_BYTES} bytes", holds(most <= ROUND_BYTES),
        ),
    ]  # fmt: skip


def bytes_of_rounds(stream: IO[bytes]) -> list[int]:
    """Return the bytes of each case's rounds: announcements and samples of all devices."""
    stream.seek(0)
    found: dict[tuple[str, int], int] = {}
    for line in stream:
        event = json.loads(line)
        if event["event"] == "HalfRoundTimed" or event.get("phase") == "round":
            place = (event["case"], event["round_index"])
            found[place] = found.get(place, 0) + len(line)
    return [size for (_, index), size in found.items() if index > 0]


def holds(kept: bool) -> str:
    """Return `yes` or `no`."""
    return "yes" if kept else "no"
