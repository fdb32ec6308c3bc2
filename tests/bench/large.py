"""The app after 10,000 finished cases: memory, latency of keys, time to compute the answer (budgets: issue 7)."""

import sys
import time

import psutil
from tests.bench.interface import key_to_paint_ms
from tests.helpers.app.pty_app import PtyApp
from tests.helpers.bench.figures import record
from tests.helpers.bench.large_run import ROWS, fresh, large_run, samples_of, with_a_round_more
from tests.helpers.bench.ratios import table
from tests.helpers.command_line import ROOT

from cpugpu_tui.decide.stats import percentile
from cpugpu_tui.render.answers import answers
from cpugpu_tui.state.state import RunState

KEYS = {
    "line by line": ("\x1b[A", "\x1b[B"),
    "page by page": ("\x1b[5~", "\x1b[6~"),
    "first to last": ("\x1b[H", "\x1b[F"),
}
"""Movement → its two keys, which alternate."""
TIMES = 20
RUN_S = 900.0
REPEATS = 30


def main() -> None:
    """Print a row per number of cases."""
    header = ("finished cases", "resident memory (≤ 150 MB)", *(f"{name}, median / max, ms (≤ 100)" for name in KEYS))
    rows = [row(cases) for cases in (100, 10_000)]
    table("A run's table at 120×40", header, rows)
    record("Memory of the app after 10,000 finished cases", f"{rows[-1][1]} (budget 150 MB)")
    answer_times()


def row(cases: int) -> tuple[str, ...]:
    """Load a run of so many cases, then move through its rows."""
    with PtyApp(
        [sys.executable, "-m", "tests.helpers.app.large_app", str(cases), "100"], columns=120, rows=40, cwd=ROOT
    ) as app:
        app.until_text("Press r")
        app.send("r")
        app.until(lambda a: f"done, {cases:,} cases" in a.text or f"done, {cases} cases" in a.text, RUN_S)
        app.bytes_until_quiet(1.0)
        delays = [[key_to_paint_ms(app, key) for _ in range(TIMES) for key in keys] for keys in KEYS.values()]
        memory_mb = psutil.Process(app.pid).memory_info().rss / 1e6
        app.send("q")
    return (f"{cases:,}", f"{memory_mb:.0f} MB", *(f"{percentile(ms, 50):.0f} / {max(ms):.0f}" for ms in delays))


def answer_times() -> None:
    """Print one row per way of computing the answer of the same run, which panes need after every event."""
    run, first_ms, again_ms, next_ms = large_run(), [], [], []
    for _ in range(REPEATS):
        new = fresh(run)
        first_ms.append(elapsed_ms(new))
        again_ms.append(elapsed_ms(new))
        next_ms.append(elapsed_ms(with_a_round_more(new)))
    table(
        f"Answer of {samples_of(run):,} samples in {ROWS} rows",
        ("computed", "median, ms", "longest, ms", "limit"),
        (
            (name, f"{percentile(values, 50):.2f}", f"{max(values):.2f}", asked)
            for name, values, asked in (
                ("first", first_ms, "≤ 100"),
                ("same run again", again_ms, ""),
                ("after one more half-round", next_ms, ""),
            )
        ),
    )


def elapsed_ms(run: RunState) -> float:
    """Return the time to compute the answer, ms."""
    started = time.perf_counter()
    answers(run)
    return 1e3 * (time.perf_counter() - started)
