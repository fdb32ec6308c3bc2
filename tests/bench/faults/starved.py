"""Waiting of the timing threads for a core, on this machine as it is and with one busy core.

The limit for repeating half-rounds is based on this: on an idle machine hardly any half-round exceeds it, with a busy
core every run has some. Each run is `quick` in its own process; runs without and with the busy core alternate.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.helpers.bench.ratios import cap_seconds, table

from cpugpu_tui.decide.stats import median, percentile
from cpugpu_tui.timing.host_watch import STARVED_SHARE
from cpugpu_tui.timing.timers import Stopwatch

RUNS = int(os.environ.get("BENCH_TRIALS", "50"))
SMALL = 50
"""The size whose time is shown: about 10 µs, but 16 ms was measured beside a busy core."""

LIMITS = (0.005, 0.01, STARVED_SHARE, 0.05, 0.1)
SPIN = "import os, sys\nos.sched_setaffinity(0, [int(sys.argv[1])])\nprint('on', flush=True)\nwhile True: pass"


@dataclass
class Seen:
    """Results of the runs of one kind."""

    shares: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Device → share of the time that threads waited, for each half-round including repeated ones."""
    runs: int = 0
    with_mark: int = 0
    with_repeat: int = 0
    small_us: list[float] = field(default_factory=list)
    small_one_thread_us: list[float] = field(default_factory=list)


def main() -> None:
    """Print the distribution of the shares, the marks of the runs, and the time of a small size."""
    seen = {"as it is": Seen(), "one core busy": Seen()}
    watch, cap_s = Stopwatch(), cap_seconds(900.0)
    for run in range(RUNS):
        if run >= 1 and watch.elapsed_s() > cap_s * run / (run + 1):
            print(f"\nStopped after {run} of {RUNS} runs of each kind: time limit of {cap_s:g} s.")
            break
        add(seen["as it is"], one_run())
        with busy([max(os.sched_getaffinity(0))]):
            add(seen["one core busy"], one_run())
    table(
        "share of the time that threads waited for a core, by half-round",
        ("machine", "device", "p50", "p90", "p99", "p99.9", "largest", *(f"> {limit:.1%}" for limit in LIMITS), "n"),
        (row(kind, device, shares) for kind, each in seen.items() for device, shares in each.shares.items()),
    )
    table(
        f"runs of `quick`, limit {STARVED_SHARE:.0%}",
        ("machine", "runs", "with mark no-core", "with repeats", f"n = {SMALL}, us", "range", "one thread, us"),
        (marks_row(kind, each) for kind, each in seen.items()),
    )


def row(kind: str, device: str, shares: list[float]) -> tuple[str, ...]:
    """Return a line of the first table."""
    points = [percentile(shares, p) for p in (50, 90, 99, 99.9)]
    above = [sum(share > limit for share in shares) for limit in LIMITS]
    return (kind, device, *(f"{share:.2%}" for share in (*points, max(shares))), *map(str, above), str(len(shares)))


def marks_row(kind: str, each: Seen) -> tuple[str, ...]:
    """Return a line of the second table."""
    small = (f"{median(each.small_us):.2f}", f"{min(each.small_us):.2f} to {max(each.small_us):.2f}")
    single = f"{median(each.small_one_thread_us):.2f}" if each.small_one_thread_us else "-"
    of = f"of {each.runs}"
    return kind, str(each.runs), f"{each.with_mark} {of}", f"{each.with_repeat} {of}", *small, single


def add(seen: Seen, told: dict[str, object]) -> None:
    """Add the result of one run."""
    seen.runs += 1
    seen.with_mark += bool(told["marked"])
    seen.with_repeat += bool(told["repeated"])
    for device, share in told["shares"]:  # type: ignore[attr-defined]
        seen.shares[device].append(share)
    seen.small_us += told["small_us"]  # type: ignore[operator]
    seen.small_one_thread_us += told["one_thread_us"]  # type: ignore[operator]


def one_run() -> dict[str, object]:
    """Run `quick` in a new process; return its result."""
    command = [sys.executable, "-m", "tests.bench.faults.starved"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def busy(cores: Collection[int]) -> Iterator[None]:
    """Keep each of these cores busy with a process of normal priority."""
    spinners = [subprocess.Popen([sys.executable, "-c", SPIN, str(core)], stdout=subprocess.PIPE) for core in cores]
    try:
        for spinner in spinners:
            spinner.stdout.readline()
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
            spinner.stdout.close()


# ------------------------------------------------------------------ the process of a run


def run_once() -> None:
    """Run `quick` on this thread and print the waiting in every half-round as JSON."""
    from cpugpu_tui.agent.main import facts, work
    from cpugpu_tui.model import LATENCY, NO_CORE, DeviceSampled, Event, MachineRead
    from cpugpu_tui.session.planning import PlanRequest, build_plan
    from cpugpu_tui.timing.channel import CallEmitter, Control
    from cpugpu_tui.timing.device_run import DeviceRun

    shares: list[tuple[str, float]] = []
    honest = DeviceRun.take

    def take(run: DeviceRun, *arguments: object) -> object:
        taken = honest(run, *arguments)  # type: ignore[arg-type]
        if run.waited is not None and not run.is_timed_once:
            shares.append((run.name, run.waited.share))
        return taken

    DeviceRun.take = take  # type: ignore[assignment,method-assign]
    events: list[Event] = []
    plan = build_plan(PlanRequest(("quick",)))
    if not work(
        plan, {**facts(simulated=False), "controller_pid": os.getppid()}, CallEmitter(events.append), Control()
    ):
        sys.exit("The run failed.")
    small = f"matmul/default/{SMALL}/"
    timed = [e for e in events if isinstance(e, DeviceSampled) and e.device == "cpu" and e.case.startswith(small)]
    told = [e for e in events if isinstance(e, MachineRead) and e.cores is not None]
    latencies = [ns for event in timed if event.round_index for ns in event.samples.get(LATENCY, ())]
    single = [e.cores.one_thread_ns for e in told if e.cores and e.case.startswith(small) and e.cores.one_thread_ns]
    print(
        json.dumps(
            {
                "shares": shares,
                "marked": sum(NO_CORE in e.marks for e in events if isinstance(e, DeviceSampled)),
                "repeated": sum(len(e.cores.discarded) for e in told if e.cores),
                "small_us": [median(latencies) / 1e3] if latencies else [],
                "one_thread_us": [median(each) / 1e3 for each in single],
            }
        )
    )


if __name__ == "__main__":
    run_once()
