"""Effect of the user interface on the times. In each run it is active every other second.

Pairs are neighbouring windows, so drift of the machine cancels. method.md promises for an agent in its own process at
most +1 % in the median and +3 % in the mean. The thread without gaps must be clearly worse, or this bench would not be
sensitive enough.
"""

import os
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from tests.helpers.app.pty_app import PtyApp
from tests.helpers.bench.driver import SETTLE_S, WINDOW_S, is_live
from tests.helpers.bench.figures import record
from tests.helpers.bench.ratios import Ratio, cap_seconds, ratio_of, table

from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import LATENCY, DeviceSampled
from cpugpu_tui.store import Store

SECONDS = cap_seconds(75.0)
"""Time limit of each run, seconds."""

ARRANGEMENTS = (("process", 1.0), ("process", 4.0), ("gated", 1.0), ("gated", 4.0), ("ungated", 4.0), ("ungated", 30.0))

Windows = dict[str, dict[int, list[float]]]


def main() -> None:
    """Print one row per arrangement and case."""
    found = [row for arrangement in ARRANGEMENTS for row in rows(*arrangement)]
    table(
        f"Times with / without the active interface, 120×40, at most {SECONDS:g} s each, windows of {WINDOW_S:g} s",
        ("worker", "paints per second", "case", "median", "mean", "known to 1 %"),
        found,
    )
    on_gpu = [row for row in found if "cuda" in row[2]]
    for figure, worker, rate_hz, column in (
        ("Effect of the app's repaints on the median GPU latency", "process", "1", 3),
        ("Effect of the app's repaints on the mean GPU latency", "process", "1", 4),
        ("The same effect in a thread of the app without gaps, 30 paints a second", "thread, no gaps", "30", 4),
    ):
        texts = [row[column] for row in on_gpu if row[:2] == (worker, rate_hz)]
        if texts:
            record(figure, "; ".join(texts))


def rows(arrangement: str, rate_hz: float) -> list[tuple[str, ...]]:
    """Run one arrangement and return its rows."""
    names = {"process": "process", "gated": "thread, gated", "ungated": "thread, no gaps"}
    found: list[tuple[str, ...]] = []
    for case, windows in measure(arrangement, rate_hz).items():
        medians, means = pairs(windows, median), pairs(windows, fmean)
        known = "yes" if max(medians.half_width_pct, means.half_width_pct) <= 1 else "no (time limit)"
        found.append(
            (
                names[arrangement],
                f"{rate_hz:g}",
                case.removeprefix("matmul/default/").replace("tall", "all threads"),
                medians.text(),
                means.text(),
                known,
            )
        )
    return found


def measure(arrangement: str, rate_hz: float) -> Windows:
    """Run the app and return case → window → latencies of the blocks within that window, ns."""
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "results.db"
        command = [
            sys.executable,
            "-m",
            "tests.helpers.bench.driver",
            arrangement,
            str(rate_hz),
            str(SECONDS),
            str(database),
        ]
        with PtyApp(command, columns=120, rows=40) as app:
            if arrangement == "process":
                toggle(app, SECONDS + 10)
            app.signal(signal.SIGCONT)
            app.exit_code(10 * SECONDS + 600)
        store = Store.open(database)
        events = store.load(store.find("latest"))
        store.close()
    windows: Windows = defaultdict(lambda: defaultdict(list))
    for event in events:
        if isinstance(event, DeviceSampled) and event.round_index > 0:
            start_s, end_s = event.started_mono_ns / 1e9, event.ended_mono_ns / 1e9
            window = int(start_s / WINDOW_S)
            if start_s - window * WINDOW_S >= SETTLE_S and end_s <= (window + 1) * WINDOW_S:
                windows[f"{event.case} {event.device}"][window] += event.samples[LATENCY]
    return windows


def toggle(app: PtyApp, seconds: float) -> None:
    """Suspend the app in windows without interface; its agent has its own session and continues."""
    app.until(lambda a: ("64" in a.text and "running" in a.text) or "round" in a.text)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        try:
            app.signal(signal.SIGCONT if is_live(time.monotonic()) else signal.SIGSTOP)
        except ProcessLookupError:
            return
        app.bytes_during(WINDOW_S - time.monotonic() % WINDOW_S)
        if "done" in app.text or os.waitid(os.P_PID, app.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return


def pairs(windows: dict[int, list[float]], statistic: Callable[[list[float]], float]) -> Ratio:
    """Return the ratio with / without interface over neighbouring windows."""
    found = []
    for window, samples in sorted(windows.items()):
        after = windows.get(window + 1)
        if is_live((window + 0.5) * WINDOW_S) and after and len(samples) >= 5 and len(after) >= 5:
            found.append((statistic(samples), statistic(after)))
    return ratio_of(found) if found else Ratio(1.0, 1e-4, 1e4, 0)
