"""A/A test: verdicts for one real operation against itself, and against itself slowed by 5 %.

Both lanes are this CPU. The protocol is that of CPU and GPU: 8 to 40 rounds in alternating order, until the interval is
narrow. Promised (method.md): at most 5 % of the trials call one of two equal lanes faster, and at least 80 % find a
lane that is 5 % slower.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.helpers.bench.ratios import cap_seconds, table

from cpugpu_tui.agent.main import facts, make_machine, quiet_interpreter
from cpugpu_tui.decide.stats import median
from cpugpu_tui.decide.verdict import CPU_WINS, GPU_WINS, TIE, UNDECIDED, Comparison, compare
from cpugpu_tui.model import LATENCY, Case, Device, Plan
from cpugpu_tui.timing.case_run import CaseRun
from cpugpu_tui.timing.channel import CallEmitter, Control
from cpugpu_tui.timing.timers import Machine, Stopwatch, Watcher
from cpugpu_tui.timing.timers.cpu import CpuTimer
from cpugpu_tui.timing.timers.timed_operation import Operation

TRIALS = int(os.environ.get("BENCH_TRIALS", "200"))
CASE = Case("matmul", 256, threads=1)
SLOWER = 1.05
MOST_WRONG, LEAST_FOUND = 0.05, 0.8


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

    def share(self, *words: str) -> float:
        """Return the share of trials with one of these verdicts."""
        return sum(self.words[word] for word in words) / self.count


def main() -> None:
    """Print one row for equal lanes and one for a planted difference."""
    environment = facts(simulated=False)
    plan = Plan("aa", (CASE,), ("cpu",), metrics=(LATENCY,))
    machine = make_machine(plan, environment)
    cap_s = cap_seconds(600.0)
    with quiet_interpreter():
        equal = tally(plan, TwoLanes(machine, environment["threads"], 1.0), 0.7 * cap_s)
        slower = tally(plan, TwoLanes(machine, environment["threads"], SLOWER), 0.3 * cap_s)
    wrong, found = equal.share(GPU_WINS, CPU_WINS), slower.share(CPU_WINS)
    table(
        f"{CASE.workload} {CASE.size}, {CASE.threads} thread, against itself",
        ("lanes", "trials", "one is faster", "tie", "undecided", "rounds, median", "promised", "holds"),
        (
            line("equal", equal, f"{100 * wrong:.1f} %", f"≤ {100 * MOST_WRONG:g} %", wrong <= MOST_WRONG),
            line("5 % slower", slower, f"{100 * found:.0f} %", f"≥ {100 * LEAST_FOUND:g} %", found >= LEAST_FOUND),
        ),
    )  # fmt: skip


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
    case_run = CaseRun(CASE, plan, machine, CallEmitter(lambda event: None), Control())
    case_run.begin(check=False, exact=False, warmed={device.name for device in machine.devices})
    while not case_run.done:
        for _ in case_run.half_rounds():
            pass
    first, second = case_run.runs
    comparison = compare(first.round_ns, second.round_ns)
    assert comparison is not None
    case_run.finish()
    return comparison


def line(lanes: str, tally: Tally, faster: str, promised: str, kept: bool) -> tuple[str, ...]:
    """Return a line of the table."""
    return (
        lanes, str(tally.count), faster, f"{100 * tally.share(TIE):.0f} %", f"{100 * tally.share(UNDECIDED):.0f} %",
        f"{median(tally.rounds):g}", promised, "yes" if kept else "no",
    )  # fmt: skip
