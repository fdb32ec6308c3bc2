"""The app's budgets at 120×40 with all panes: bytes, CPU, keys, and a second `r`.

Bytes are measured on a simulated machine with a GPU in real time, so that every pane has content; CPU and keys with a
real `vector-dot`, which keeps all cores busy.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.helpers.app.pty_app import REAL_APP, PtyApp
from tests.helpers.bench.figures import record
from tests.helpers.bench.ratios import table

from cpugpu_tui.decide.stats import median, percentile
from cpugpu_tui.model import CaseStarted, RunStarted
from cpugpu_tui.store import Store
from cpugpu_tui.workloads.presets import PRESETS

COLUMNS, ROWS = 120, 40
WINDOW_S = 10.0
KEYS = 200
SECOND_RUNS = 8
PACE = 2.0
"""Real seconds per virtual second, so that simulated runs take as long as real ones."""
IDLE_TRACE = Path(__file__).parents[1] / "traces" / "idle.ndjson"
LIVE = re.compile(r" \d+ of (at most )?\d+ cases")
"""The status line of a live run: finished cases of all."""
FINISHED = re.compile(r"^(?!.*\b(stopped|done)\b).* [1-9]\d* of (at most )?\d+ cases")
"""The same with a finished case, and not of the run before, which has ended."""
LIVE_B, IDLE_B, PAUSED_B = 1400.0, 500.0, 0.0
CPU_PCT, KEY_MS, BURNING_KEY_MS, AGAIN_MS = 3.0, 50.0, 100.0, 150.0


@dataclass(frozen=True)
class Line:
    """A budget and its measured value."""

    what: str
    found: float
    most: float
    unit: str
    remark: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table's row."""
        kept = "kept" if self.found <= self.most else "missed"
        return (self.what, f"≤ {self.most:g} {self.unit}", self.value(), kept, self.remark)

    def value(self) -> str:
        """Return the measured value with its unit."""
        return f"{self.found:,.{0 if self.found >= 10 or self.found == 0 else 1}f} {self.unit}"


def main() -> None:
    """Print a row per budget."""
    header = ("what", "goal", "found", "", "conditions, load of the machine")
    found = []
    for line in lines():
        record(line.what, f"{line.value()} (budget ≤ {line.most:g} {line.unit})")
        found.append(line.cells())
    table(f"Budgets of the app at {COLUMNS}×{ROWS}", header, found)


def lines() -> Iterator[Line]:
    """Measure all budgets in turn."""
    yield from paced_lines()
    yield idle_line()
    yield from busy_lines()
    yield from second_run_lines()


def load() -> str:
    """Return the current load of the machine."""
    return f"load {os.getloadavg()[0]:.1f}"


def app(folder: str, *options: str) -> PtyApp:
    """Start the app with its own history."""
    command = [sys.executable, "-m", "cpugpu_tui", "--db", str(Path(folder) / "results.db"), *options]
    return PtyApp(command, columns=COLUMNS, rows=ROWS, env={"PYTHONDONTWRITEBYTECODE": None})


def endless_app(folder: str) -> PtyApp:
    """Start the app on a simulated machine, with a plan that outlasts the bench."""
    command = [sys.executable, str(REAL_APP), folder, str(PACE), "endless"]
    return PtyApp(command, columns=COLUMNS, rows=ROWS, env={"PYTHONDONTWRITEBYTECODE": None})


def paced_lines() -> Iterator[Line]:
    """Yield the bytes per second of a live and of a paused run."""
    with tempfile.TemporaryDirectory() as folder, endless_app(folder) as paced:
        paced.until_text("ready")
        paced.send("r")
        paced.until(lambda a: re.search(r"[1-9] of \d", a.text) is not None)
        live = paced.bytes_during(WINDOW_S) / WINDOW_S
        yield Line(
            "Bytes to the terminal, simulated run with all panes",
            live,
            LIVE_B,
            "B/s",
            f"simulated GPU, {WINDOW_S:g} s, {load()}",
        )
        paced.send(" ")
        paced.until_text("paused")
        paced.bytes_until_quiet(1.5)
        yield Line(
            "Bytes to the terminal, paused run", paced.bytes_during(5.0) / 5.0, PAUSED_B, "B/s", f"5 s, {load()}"
        )


def idle_line() -> Line:
    """Return the bytes per second of the idle app, with telemetry recorded on an idle H200."""
    with tempfile.TemporaryDirectory() as folder, app(folder, "--replay", str(IDLE_TRACE)) as idle:
        idle.until_text("REPLAY")
        idle.bytes_during(2.0)
        written = idle.bytes_during(WINDOW_S) / WINDOW_S
    return Line(
        "Bytes to the terminal, idle app", written, IDLE_B, "B/s", f"trace of an idle H200, {WINDOW_S:g} s, {load()}"
    )


def busy_lines() -> Iterator[Line]:
    """Yield CPU use and key latency while the kernels of a real run keep all cores busy."""
    with tempfile.TemporaryDirectory() as folder, app(folder) as busy:
        busy.until_text("ready")
        busy.send("j" * list(PRESETS).index("vector-dot"))
        busy.until_text("▸vector-dot")
        keep_running(busy)
        process = psutil.Process(busy.pid)
        before, started_s = process.cpu_times(), time.monotonic()
        busy.bytes_during(WINDOW_S)
        after, elapsed_s = process.cpu_times(), time.monotonic() - started_s
        share_pct = 100 * (after.user + after.system - before.user - before.system) / elapsed_s
        yield Line(
            "CPU of the app beside a real run, of one core", share_pct, CPU_PCT, "%", f"real vector-dot, {load()}"
        )
        yield key_line(busy, "Key to paint during that run, p99 of 200 keys", KEY_MS)
        burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
        try:
            yield key_line(busy, "Key to paint with all cores busy, p99 of 200 keys", BURNING_KEY_MS)
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()
        busy.send("qy")


def key_line(busy: PtyApp, what: str, most_ms: float) -> Line:
    """Return how long keys take to reach the screen during a run."""
    delays_ms: list[float] = []
    while len(delays_ms) < KEYS:
        keep_running(busy)
        delays_ms += [key_to_paint_ms(busy, key) for key in "jk" * 10]
    told = f"{KEYS} keys, median {percentile(delays_ms, 50):.0f}, longest {max(delays_ms):.0f} ms, {load()}"
    return Line(what, percentile(delays_ms, 99), most_ms, "ms", told)


def keep_running(busy: PtyApp) -> None:
    """Press r unless a run is live: a fast machine finishes a run before the bench ends."""
    if LIVE.search(busy.lines[0]) is None:
        busy.send("r")
        busy.until(lambda a: LIVE.search(a.lines[0]) is not None)


def key_to_paint_ms(busy: PtyApp, key: str) -> float:
    """Return the time from a key to the first bytes after it, ms. Wait for silence first, because gaps paint too."""
    busy.bytes_until_quiet(0.06)
    seen, started_s = len(busy.output), time.monotonic()
    busy.send(key)
    busy.until(lambda a: len(a.output) > seen)
    return 1000 * (time.monotonic() - started_s)


def second_run_lines() -> Iterator[Line]:
    """Yield the time from a second `r` to the first case in its agent, which had seconds to start before.

    Each run is stopped after its first case. Both times are on this machine's monotonic clock.
    """
    starts_ms: list[float] = []
    handed_ms: list[float] = []
    with tempfile.TemporaryDirectory() as folder, app(folder) as again:
        again.until_text("ready")
        for number in range(1, SECOND_RUNS + 2):
            again.bytes_during(8.0)  # time to read, in which the next agent imports torch
            pressed_ns = time.monotonic_ns()
            again.send("r")
            ended = re.compile(rf"\b(stopped|done)\b.*run {number}\b")  # a fast machine may finish before the x
            # A run that is stopped before the end of its first case saves no start of a case.
            again.until(lambda a, ended=ended: (FINISHED.search(a.lines[0]) or ended.search(a.lines[0])) is not None)  # type: ignore[misc]
            again.send("x")
            again.until(lambda a, ended=ended: ended.search(a.lines[0]) is not None)  # type: ignore[misc]
            events = events_of(Path(folder) / "results.db")
            if number > 1:
                handed_ms.append(first_ms(events, RunStarted, pressed_ns))
                starts_ms.append(first_ms(events, CaseStarted, pressed_ns))
        again.send("q")
    told = f"{SECOND_RUNS} runs, longest {max(starts_ms):.0f} ms, plan sent after {median(handed_ms):.0f} ms, {load()}"
    yield Line("From a second `r` to the first case, median of 8", median(starts_ms), AGAIN_MS, "ms", told)


def events_of(database: Path) -> list[object]:
    """Return the events of the newest run."""
    with closing(Store.open(database)) as store:
        return list(store.load(store.find("latest")))


def first_ms(events: list[object], kind: type[RunStarted | CaseStarted], since_ns: int) -> float:
    """Return the time of the first event of a kind, ms after `since_ns`."""
    return next((event.mono_ns - since_ns) / 1e6 for event in events if isinstance(event, kind))
