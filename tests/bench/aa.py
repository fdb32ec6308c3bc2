"""A/A test: verdicts for one real operation against itself, and against itself slowed by up to 20 %.

Both lanes are this CPU. The protocol is that of CPU and GPU: 8 to 40 rounds in alternating order, until the interval is
narrow. Promised (method.md): at most 5 % of the trials call one of two equal lanes faster. The other rows are the power
curve of CPU times, with one and with all threads.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.helpers.bench.figures import record
from tests.helpers.bench.ratios import cap_seconds, table
from tests.helpers.bench.trust_trials import clopper_pearson

from cpugpu_tui.agent.main import facts, make_machine, quiet_interpreter
from cpugpu_tui.decide.comparison import CPU_WINS, GPU_WINS, Comparison
from cpugpu_tui.decide.stats import median
from cpugpu_tui.decide.verdict import compare
from cpugpu_tui.model import LATENCY, Case, Device, Plan
from cpugpu_tui.timing.case_run import CaseRun
from cpugpu_tui.timing.channel import CallEmitter, Control
from cpugpu_tui.timing.timers import Machine, Stopwatch, Watcher
from cpugpu_tui.timing.timers.cpu import CpuTimer
from cpugpu_tui.timing.timers.timed_operation import Operation

TRIALS = int(os.environ.get("BENCH_TRIALS", "200"))
SIZE = 256
FACTORS = (1.0, 1.02, 1.05, 1.1, 1.2)
MOST_WRONG = 0.05


class SlowedTimer(CpuTimer):
    """A CPU timer that multiplies latencies by `factor`."""

    factor = 1.0

    def latency_block(self, op: Operation, calls: int) -> float:
        """Return the mean wall time of calls, ns, times the factor."""
        return self.factor * super().latency_block(op, calls)


class TwoLanes:
    """The real machine with its CPU as two devices, of which the second is slower by `factor`."""

    def __init__(self, machine: Machine, threads: int, factor: float) -> None:
        self._machine = machine
        (cpu,) = machine.devices
        self.devices = (cpu, Device("again", cpu.label))
        self._timers = {
            each.name: SlowedTimer(each, 0, threads, threads, cold=False, fresh=False) for each in self.devices
        }
        self._timers["again"].factor = factor

    def timer(self, device: str) -> CpuTimer:
        """Return the timer of a lane."""
        return self._timers[device]

    def watcher(self, device: str) -> Watcher:
        """Return the watcher of the CPU, for both lanes."""
        return self._machine.watcher(self.devices[0].name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)


@dataclass
class Tally:
    """Verdicts and numbers of rounds of the trials."""

    words: Counter[str]
    rounds: list[int]

    @property
    def count(self) -> int:
        """Return the number of trials."""
        return len(self.rounds)


def main() -> None:
    """Print a row for each planted difference, with one and with all threads."""
    environment = facts(simulated=False)
    every = environment["threads"]
    cases = [Case("matmul", SIZE, threads=threads) for threads in dict.fromkeys((1, every))]
    cap_s = cap_seconds(600.0) / (len(cases) * len(FACTORS))
    rows, equal = [], Counter[str]()
    for case in cases:
        plan = Plan("aa", (case,), ("cpu",), metrics=(LATENCY,))
        machine = make_machine(plan, environment)
        with quiet_interpreter():
            for factor in FACTORS:
                found = tally(plan, TwoLanes(machine, every, factor), cap_s)
                rows.append(line(case, factor, found))
                equal += found.words if factor == 1.0 else Counter()
    table(
        f"matmul {SIZE} against itself, each trial alone, with Clopper–Pearson bounds",
        ("threads", "one lane is slower by", "trials", "called slower", "called faster", "rounds, median"),
        [*rows, ("required", "0 %", "", f"≤ {100 * MOST_WRONG:g} % with faster", "", "")],
    )
    record(
        "The same CPU on both sides, called faster or slower", f"{equal[CPU_WINS] + equal[GPU_WINS]} of {equal.total()}"
    )


def tally(plan: Plan, machine: Any, cap_s: float) -> Tally:
    """Compare the two lanes `TRIALS` times, or until the time limit."""
    result, watch = Tally(Counter(), []), Stopwatch()
    while result.count < TRIALS and (watch.elapsed_s() < cap_s or not result.count):
        comparison = trial(plan, machine)
        result.words[comparison.verdict] += 1
        result.rounds.append(comparison.rounds)
    return result


def trial(plan: Plan, machine: Any) -> Comparison:
    """Run the case from its first call to its last round; return the comparison."""
    case_run = CaseRun(plan.cases[0], plan, machine, CallEmitter(lambda event: None), Control())
    case_run.begin(check=False, warmed={device.name for device in machine.devices})
    while not case_run.done:
        for _ in case_run.half_rounds():
            pass
    first, second = case_run.runs
    comparison = compare(first.round_ns, second.round_ns)
    assert comparison is not None
    case_run.finish()
    return comparison


def line(case: Case, factor: float, found: Tally) -> tuple[str, ...]:
    """Return a line of the table."""
    slower, faster = (found.words[word] for word in (CPU_WINS, GPU_WINS))
    low, high = clopper_pearson(slower, found.count)
    return (
        str(case.threads), f"{100 * (factor - 1):.0f} %", str(found.count),
        f"{100 * slower / found.count:.0f} % ({100 * low:.0f}–{100 * high:.0f})", f"{100 * faster / found.count:.0f} %",
        f"{median(found.rounds):g}",
    )  # fmt: skip
