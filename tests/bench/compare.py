"""False verdicts of `compare`: 20 pairs of equal series, each of five real runs on this machine.

The runs of a pair alternate in flipped order, as with two interpreters, so that slow changes of a shared machine do not
count. Promised: at most one of 20 pairs has the verdict FASTER or SLOWER.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

from tests.helpers.bench.ratios import cap_seconds, table

from cpugpu_tui.analysis.compare import FASTER, SAME, SLOWER, UNDECIDED
from cpugpu_tui.cli.running.modes import turns
from cpugpu_tui.compare.comparison import Series, compare_series
from cpugpu_tui.compare.gate import gate_series
from cpugpu_tui.state.folding import MeasuredRun, measured
from cpugpu_tui.timing.timers import Stopwatch
from cpugpu_tui.transport.wire import decode

PAIRS, RUNS = 20, 5
MOST_ALARMS = 1
LIMIT = 0.05
COMMAND = [sys.executable, "-m", "cpugpu_tui", "run", "matmul", "--size", "64,256,1024", "--scale", "small",
           "--json", "--no-save"]  # fmt: skip


def main() -> None:
    """Print the number of pairs with each verdict."""
    watch, cap_s = Stopwatch(), cap_seconds(1500.0)
    words: Counter[str] = Counter()
    gates: Counter[str] = Counter()
    pairs = alarms = 0
    while pairs < PAIRS and (not pairs or watch.elapsed_s() * (pairs + 1) / pairs < cap_s):
        base, new = pair()
        found = compare_series(base, new)
        verdicts = [each.verdict for each in found.judged]
        words.update(verdicts)
        alarms += bool({FASTER, SLOWER} & set(verdicts))
        gates[gate_series(base, new, LIMIT).verdict] += 1
        pairs += 1
    table(
        f"`cpugpu-tui {' '.join(COMMAND[3:])}`, {RUNS} runs against {RUNS}",
        ("pairs", "called different", "verdicts same", "undecided", "gate of 5 %", "promised", "holds"),
        [(
            str(pairs), str(alarms), str(words[SAME]), str(words[UNDECIDED]),
            ", ".join(f"{count} {word}" for word, count in gates.items()), f"≤ {MOST_ALARMS} of {PAIRS}",
            ("yes" if pairs == PAIRS else f"so far, {pairs} pairs") if alarms <= MOST_ALARMS else "no",
        )],
    )  # fmt: skip


def pair() -> tuple[Series, Series]:
    """Run two series of the same command, alternating."""
    runs: tuple[list[MeasuredRun], list[MeasuredRun]] = ([], [])
    for turn in turns(2, RUNS):
        runs[turn].append(run_once())
    return Series("first", tuple(runs[0])), Series("second", tuple(runs[1]))


def run_once() -> MeasuredRun:
    """Run the command in a process of its own."""
    done = subprocess.run(COMMAND, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    events = (decode(line) for line in done.stdout.splitlines())
    found = measured(event for event in events if event is not None)
    assert found is not None
    return found
