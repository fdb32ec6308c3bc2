"""Spread of the medians of ten agents, which the interval of a single run does not include.

Each process has its own addresses, thread placement and clocks, so medians of processes differ by more than the
interval within one (measured: 6 to 20 % on a shared host, method.md, "Comparing runs").
"""

import subprocess
import sys
from collections import defaultdict

from tests.helpers.bench.ratios import cap_seconds, spread_of, table

from cpugpu_tui.model import LATENCY
from cpugpu_tui.state.state import RunState
from cpugpu_tui.timing.timers import Stopwatch
from cpugpu_tui.transport.agent_output import decode

RUNS = 10
SIZES = "64,256,1024"
COMMAND = [sys.executable, "-m", "cpugpu_tui", "run", "matmul", "--size", SIZES, "--json", "--no-save"]


def main() -> None:
    """Print one row per case and device."""
    medians: dict[tuple[str, str], list[float]] = defaultdict(list)
    watch, cap_s = Stopwatch(), cap_seconds(300.0)
    for run in range(RUNS):
        if run >= 2 and watch.elapsed_s() > cap_s * run / (run + 1):
            print(f"\nStopped after {run} of {RUNS} runs: time limit of {cap_s:g} s.")
            break
        for place, us in medians_us().items():
            medians[place].append(us)
    table(
        f"`cpugpu-tui {' '.join(COMMAND[3:])}`, repeated",
        ("size", "device", "median, us", "deviation", "largest / smallest", "runs"),
        (row(*place, values) for place, values in medians.items() if len(values) > 1),
    )


def row(size: str, device: str, values: list[float]) -> tuple[str, ...]:
    """Return a line of the table from the medians of the runs."""
    spread = spread_of(values)
    return (
        size, device, f"{spread.middle:.2f}", f"{spread.deviation_pct:.1f} %", f"+{spread.range_pct:.1f} %",
        str(spread.count),
    )  # fmt: skip


def medians_us() -> dict[tuple[str, str], float]:
    """Run the command once; return (size, device) → median latency, us."""
    done = subprocess.run(COMMAND, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    state = RunState()
    for line in done.stdout.splitlines():
        event = decode(line)
        state = state if event is None else state.apply(event)
    return {
        (str(row.case.size), device): (times.median_ns(LATENCY) or 0.0) / 1e3
        for row in state.rows.values()
        for device, times in row.times.items()
    }
