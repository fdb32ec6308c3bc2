"""Time to compute the answer, which panes need after every event of a live run."""

from __future__ import annotations

import time

from tests.helpers.bench.large_run import ROWS, fresh, large_run, samples_of, with_a_round_more
from tests.helpers.bench.ratios import table

from cpugpu_tui.decide.stats import percentile
from cpugpu_tui.render.answers import answers
from cpugpu_tui.state.state import RunState

REPEATS = 30


def main() -> None:
    """Print one row per way of computing the answer of the same run."""
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
