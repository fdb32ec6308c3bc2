"""The app while a real run is live: share of a core, key to paint, bytes a second (budgets: UX.md)."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import psutil

from cpugpu_tui.analysis.stats import percentile
from tests.bench.ratios import table
from tests.ui.pty_app import PtyApp

SIZES = ((80, 24), (120, 40), (200, 60))
WINDOW_S = 10.0


def main() -> None:
    """Print one row per terminal size."""
    table(
        "The app during `vector-dot` on this machine",
        (
            "terminal",
            "CPU of one core (≤ 5 %)",
            "bytes/s (≤ 2300 at 120×40)",
            "key to paint, median / p99 / max, ms (≤ 100)",
        ),
        (row(*size) for size in SIZES),
    )


def row(columns: int, rows: int) -> tuple[str, ...]:
    """Measure one size."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cpugpu_tui", "--db", str(Path(folder) / "results.db")]
        with PtyApp(command, columns=columns, rows=rows) as app:
            app.until_text("ress r")
            app.send("jj")  # vector-dot: minutes long
            app.until_text("vector-dot")
            app.bytes_during(3.0)
            app.send("r")
            app.until(lambda a: "of 8" in a.text, 60)
            process = psutil.Process(app.pid)
            before, started = process.cpu_times(), time.monotonic()
            written = app.bytes_during(WINDOW_S)
            after, elapsed_s = process.cpu_times(), time.monotonic() - started
            share_pct = 100 * (after.user + after.system - before.user - before.system) / elapsed_s
            delays_ms = [key_to_paint_ms(app, key) for key in "jk" * 50]
            app.send("q")
    return (
        f"{columns}×{rows}", f"{share_pct:.1f} %", f"{written / elapsed_s:.0f}",
        f"{percentile(delays_ms, 50):.0f} / {percentile(delays_ms, 99):.0f} / {max(delays_ms):.0f}",
    )  # fmt: skip


def key_to_paint_ms(app: PtyApp, key: str) -> float:
    """Return the milliseconds from a key to the first bytes after it; gaps paint too, so wait for silence first."""
    app.bytes_until_quiet(0.06)
    seen, started = len(app.output), time.monotonic()
    app.send(key)
    app.until(lambda a: len(a.output) > seen)
    return 1000 * (time.monotonic() - started)
