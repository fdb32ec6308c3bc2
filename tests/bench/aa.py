"""A/A test: verdicts for one real operation against itself, and against itself slowed by up to 20 %.

Both lanes are this CPU. The protocol is that of CPU and GPU: 8 to 40 rounds in alternating order, until the interval is
narrow. Promised (method.md): at most 5 % of the trials call one of two equal lanes faster. The other rows are the power
curve of CPU times, with one and with all threads. Then each trial of equal lanes becomes a start of the process, whose
lanes differ by a drawn factor as they do on a GPU server: five of them must not name a winner either, one does.
"""

import math
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
STARTS = (1, 5)
LANE_STARTS = (0.14, 0.10)
"""Standard deviation of ln(time) between starts on a GPU server, of the CPU and of the GPU."""
SLOW_SHARE = 0.3
"""Share of starts in which the CPU is twice as slow, in the second kind of machine."""


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


Lanes = tuple[Mapping[int, float], Mapping[int, float]]
"""Rounds of both lanes in a trial: index → ns."""


@dataclass
class Tally:
    """Verdicts, numbers of rounds, and rounds of the trials."""

    words: Counter[str] = field(default_factory=Counter)
    rounds: list[int] = field(default_factory=list)
    lanes: list[Lanes] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Return the number of trials."""
        return len(self.rounds)


def main() -> None:
    """Print a row for each planted difference, with one and with all threads."""
    environment = facts(simulated=False)
    every = environment["threads"]
    cases = [Case("matmul", SIZE, threads=threads) for threads in dict.fromkeys((1, every))]
    equal, watch = Tally(), Stopwatch()

    def rows() -> Iterator[tuple[str, ...]]:
        for case in cases:
            plan = Plan("aa", (case,), ("cpu",), metrics=(LATENCY,))
            machine = make_machine(plan, environment)
            with quiet_interpreter():
                for place, factor in enumerate(FACTORS):
                    left_s = cap_seconds(600.0) - watch.elapsed_s()
                    if left_s <= 0:
                        return
                    rest = len(FACTORS) * (len(cases) - cases.index(case)) - place
                    found = tally(plan, TwoLanes(machine, every, factor), left_s / rest)
                    if factor == 1.0:
                        equal.words.update(found.words)
                        equal.lanes += found.lanes
                    yield line(case, factor, found)
        yield "required", "0 %", "", f"≤ {100 * MOST_WRONG:g} % with faster", "", ""

    table(
        f"matmul {SIZE} against itself, each trial alone, with Clopper–Pearson bounds",
        ("threads", "one lane is slower by", "trials", "called slower", "called faster", "rounds, median"),
        rows(),
    )
    record(
        "The same CPU on both sides, called faster or slower",
        f"{equal.words[CPU_WINS] + equal.words[GPU_WINS]} of {equal.words.total()}",
    )
    table(
        "The same trials as starts of a process whose lanes differ from start to start",
        ("starts differ by", "starts", "runs", "called different"),
        [*start_lines(equal.lanes), ("required", "5", "", f"≤ {100 * MOST_WRONG:g} %, not with 2×")],
    )


def tally(plan: Plan, machine: Any, cap_s: float) -> Tally:
    """Compare the two lanes `TRIALS` times, or until the time limit."""
    result, watch = Tally(), Stopwatch()
    while result.count < TRIALS and (watch.elapsed_s() < cap_s or not result.count):
        comparison, lanes = trial(plan, machine)
        result.lanes.append(lanes)
        result.words[comparison.verdict] += 1
        result.rounds.append(comparison.rounds)
    return result


def trial(plan: Plan, machine: Any) -> tuple[Comparison, Lanes]:
    """Run the case from its first call to its last round; return the comparison, and the rounds that it compares."""
    case_run = CaseRun(plan.cases[0], plan, machine, CallEmitter(lambda event: None), Control())
    case_run.begin(check=False, warmed={device.name for device in machine.devices})
    while not case_run.done:
        for _ in case_run.half_rounds():
            pass
    first, second = case_run.runs
    comparison = compare(first.round_ns, second.round_ns)
    assert comparison is not None
    case_run.finish()
    return comparison, (first.round_ns, second.round_ns)


def start_lines(trials: Sequence[Lanes]) -> Iterator[tuple[str, ...]]:
    """Yield how often equal lanes are called different in runs of so many trials, whose starts differ."""
    for slow_share in (0.0, SLOW_SHARE):
        name = " and ".join(f"{100 * each:.0f} %" for each in LANE_STARTS)
        name += f", one 2× in {100 * slow_share:.0f} %" if slow_share else ""
        for starts in STARTS:
            words = start_words(trials, starts, slow_share)
            count = words.total()
            wrong = words[CPU_WINS] + words[GPU_WINS]
            yield name, str(starts), str(count), f"{100 * wrong / count:.0f} %" if count else "–"


def start_words(trials: Sequence[Lanes], starts: int, slow_share: float, draws: int = 20) -> Counter[str]:
    """Return the verdicts of runs of `starts` trials, each with a drawn factor for each lane; `draws` for each run."""
    draw, words = random.Random(starts), Counter[str]()
    for first in range(0, len(trials) - starts + 1, starts):
        for _ in range(draws):
            runs = [_started(each, draw, slow_share) for each in trials[first : first + starts]]
            comparison = compare(*runs[0], later=runs[1:])
            words[comparison.verdict if comparison is not None else ""] += 1
    return words


def _started(lanes: Lanes, draw: random.Random, slow_share: float) -> Lanes:
    """Return the rounds of a start in which each lane has a factor; over all starts the lanes are equal."""
    mean = 2**slow_share
    factors = [math.exp(draw.gauss(0, deviation)) for deviation in LANE_STARTS]
    factors[0] *= (2.0 if draw.random() < slow_share else 1.0) / mean
    cpu, gpu = ({index: ns * factor for index, ns in each.items()} for each, factor in zip(lanes, factors, strict=True))
    return cpu, gpu


def line(case: Case, factor: float, found: Tally) -> tuple[str, ...]:
    """Return a line of the table."""
    slower, faster = (found.words[word] for word in (CPU_WINS, GPU_WINS))
    low, high = clopper_pearson(slower, found.count)
    return (
        str(case.threads), f"{100 * (factor - 1):.0f} %", str(found.count),
        f"{100 * slower / found.count:.0f} % ({100 * low:.0f}–{100 * high:.0f})", f"{100 * faster / found.count:.0f} %",
        f"{median(found.rounds):g}",
    )  # fmt: skip
