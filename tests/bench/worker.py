"""The thread against the process: the same run in two apps that live together and are visited in turn.

Both apps paint only in gaps, once a second. One run is paused while the other goes on, in the order ABBA. After some
visits come fresh apps, because each process has a deviation of its own. BENCH_SECONDS limits the time (default 180).
"""

import json
import math
import signal
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import fmean, stdev

from tests.helpers.app.pty_app import PtyApp
from tests.helpers.bench.driver import SETTLE_S
from tests.helpers.bench.ratios import Ratio, cap_seconds, ratio_of, table

from cpugpu_tui.decide.interval import LEVEL
from cpugpu_tui.decide.stats import median, quantile
from cpugpu_tui.model import LATENCY, DeviceSampled
from cpugpu_tui.store import Store
from cpugpu_tui.timing.timers import GAP_MS

CAP_S = cap_seconds(180.0)
WORKERS = ("process", "thread")
VISITS = 6
"""Visits of each pair of apps."""
VISIT_S = 1.2
WARM_S = 3.0
"""Time in which both runs warm up, before the first visit."""
KNOWN_PCT = 1.0

Pairs = dict[str, list[tuple[float, float]]]
"""Case and device → (thread, process) medians of neighbouring visits, ns."""


def main() -> None:
    """Print one row per case and device."""
    started = time.monotonic()
    starts: list[Pairs] = []
    late: dict[str, list[float]] = {worker: [] for worker in WORKERS}
    took_s = 0.0
    while time.monotonic() - started + took_s <= CAP_S or not starts:
        began = time.monotonic()
        starts.append(one_start(late))
        took_s = time.monotonic() - began
        for case, ratio in pooled(starts).items():
            print(f"After {len(starts)} pairs of apps, {case}: {ratio.text()}", flush=True)
        if all(ratio.half_width_pct <= KNOWN_PCT for ratio in pooled(starts).values()):
            break
    table(
        f"Latency in a thread / in a process, both painting in gaps only, {time.monotonic() - started:.0f} s",
        ("case", "pairs of visits", f"known to {KNOWN_PCT:g} %", "fresh pairs of apps (t-interval)"),
        (
            (
                case,
                ratio.text(),
                "yes" if ratio.half_width_pct <= KNOWN_PCT else "no (time limit)",
                by_start(starts, case),
            )
            for case, ratio in pooled(starts).items()
        ),
    )
    for worker, ends_ms in late.items():
        outside = [ms for ms in ends_ms if ms > GAP_MS]
        print(
            f"\nPaints with the worker as a {worker}: {len(ends_ms)}, of them {len(outside)} ended after their gap of "
            f"{GAP_MS:g} ms, the latest {max(ends_ms, default=0.0):.0f} ms after it began."
        )


def one_start(late: dict[str, list[float]]) -> Pairs:
    """Start both apps, visit them in turn, and return the pairs of neighbouring visits."""
    with tempfile.TemporaryDirectory() as folder:
        databases = {worker: Path(folder) / f"{worker}.db" for worker in WORKERS}
        driver = [sys.executable, "-m", "tests.helpers.bench.driver"]
        with (
            PtyApp([*driver, WORKERS[0], "600", str(databases[WORKERS[0]])]) as first,
            PtyApp([*driver, WORKERS[1], "600", str(databases[WORKERS[1]])]) as second,
        ):
            apps = dict(zip(WORKERS, (first, second), strict=True))
            for app in apps.values():
                app.until(lambda a: ("64" in a.text and "running" in a.text) or "round" in a.text)
            read_both(apps, WARM_S)
            visits = visit(apps)
            for app in apps.values():
                app.signal(signal.SIGUSR2)
                app.signal(signal.SIGTERM)
                app.exit_code()
        seen = {worker: medians(databases[worker], visits[worker]) for worker in WORKERS}
        for worker, database in databases.items():
            late[worker] += after_gaps(json.loads(database.with_suffix(".json").read_text()), visits[worker])
    process, thread = (seen[worker] for worker in WORKERS)
    return {
        case: [(thread[case][k], process[case][k]) for k in sorted(thread[case].keys() & process[case].keys())]
        for case in thread.keys() & process.keys()
    }


def visit(apps: dict[str, PtyApp]) -> dict[str, list[tuple[float, float]]]:
    """Let one run at a time go on; return each worker's visits, start and end in monotonic seconds."""
    visits: dict[str, list[tuple[float, float]]] = {worker: [] for worker in WORKERS}
    for app in apps.values():
        app.signal(signal.SIGUSR1)
    read_both(apps, SETTLE_S)
    for number in range(VISITS):
        for worker in WORKERS if number % 2 else WORKERS[::-1]:
            apps[worker].signal(signal.SIGUSR2)
            started = time.monotonic()
            read_both(apps, SETTLE_S + VISIT_S)
            visits[worker].append((started + SETTLE_S, time.monotonic()))
            apps[worker].signal(signal.SIGUSR1)
            read_both(apps, SETTLE_S)  # the half-round in flight ends
    return visits


def read_both(apps: dict[str, PtyApp], seconds: float) -> None:
    """Read both terminals, which would block their apps once full."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for app in apps.values():
            app.bytes_during(min(0.1, max(0.0, ends - time.monotonic())))


def medians(database: Path, visits: list[tuple[float, float]]) -> dict[str, dict[int, float]]:
    """Return case and device → visit → median latency, ns."""
    store = Store.open(database)
    events = store.load(store.find("latest"))
    store.close()
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        if isinstance(event, DeviceSampled) and event.round_index > 0:
            for number, (start_s, end_s) in enumerate(visits):
                if start_s <= event.started_mono_ns / 1e9 and event.ended_mono_ns / 1e9 <= end_s:
                    found[f"{event.case} {event.device}"][number] += event.samples[LATENCY]
    return {
        case: {number: median(values) for number, values in by_visit.items() if len(values) >= 5}
        for case, by_visit in found.items()
    }


def after_gaps(noted: dict[str, list[int]], visits: list[tuple[float, float]]) -> list[float]:
    """Return for each paint in a visit how long after the beginning of a gap it was written, ms."""
    gaps = noted["gaps"]
    return [
        (paint - max(gap for gap in gaps if gap <= paint)) / 1e6
        for paint in noted["paints"]
        if gaps[0] <= paint and any(start_s <= paint / 1e9 <= end_s for start_s, end_s in visits)
    ]


def pooled(starts: list[Pairs]) -> dict[str, Ratio]:
    """Return the ratio thread / process over all pairs of visits."""
    cases = sorted({case for start in starts for case in start})
    return {case: ratio_of(pair for start in starts for pair in start.get(case, [])) for case in cases}


def by_start(starts: list[Pairs], case: str) -> str:
    """Return the ratio with the pair of apps as the unit, which includes what differs between processes."""
    logs = [median([math.log(a / b) for a, b in start[case]]) for start in starts if start.get(case)]
    count = len(logs)
    if count < 2:
        return f"too few ({count})"
    half_width = quantile(LEVEL, count - 1) * stdev(logs) / math.sqrt(count)
    return f"{100 * math.expm1(fmean(logs)):+.2f} % ± {100 * math.expm1(half_width):.2f} % ({count})"


if __name__ == "__main__":
    main()
