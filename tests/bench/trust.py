"""Share of simulated intervals that cover the truth: candidates for the interval of a case, and what was chosen."""

from __future__ import annotations

import math
import os

from tests.helpers.bench.interval_study import (
    METHODS,
    NO_CORRECTION,
    OWN,
    POOLED,
    RHOS,
    SHAPES,
    agreement,
    study,
)
from tests.helpers.bench.ratios import table

from cpugpu_tui.demo.recording import shipped
from cpugpu_tui.state.folding import folded

CASES = int(os.environ.get("BENCH_TRIALS", "2000"))
FIXED = (5, 8, 12, 20, 40)
LEAST_RECORDED = 12


def main() -> None:
    """Print the tables."""
    candidates()
    recorded()


def candidates() -> None:
    """Compare candidates for the interval, at the stopping time and after a fixed number of rounds."""
    for together, correction, noise in (
        (1, NO_CORRECTION, 1.0), (1, OWN, 1.0), (1, POOLED, 1.0), (20, POOLED, 1.0), (1, POOLED, 0.3), (20, POOLED, 0.3)
    ):  # fmt: skip
        rows = [
            (shape, f"{rho:g}", *(study(shape, rho, name, correction, together=together, cases=CASES, noise=noise).text()
                                  for name in METHODS))
            for shape in SHAPES for rho in RHOS
        ]  # fmt: skip
        table(
            f"Coverage and median half-width at the stopping time (8 to 40 rounds, until ± 1 %), noise of {3 * noise:g} %, "
            f"{together} at once, correction for autocorrelation: {correction}",
            ("rounds", "ρ", *METHODS), rows,
        )  # fmt: skip
    rows = [
        (f"{count} normal", f"{rho:g}", *(
            study("normal", rho, name, POOLED, together=20, stops=(count,), cases=CASES).text() for name in METHODS
        ))
        for count in FIXED for rho in RHOS
    ]  # fmt: skip
    table("After a fixed number of rounds, 20 at once, pooled", ("rounds", "ρ", *METHODS), rows)


def recorded() -> None:
    """Compare the halves of the longest series of the recording of a GPU server that the demo plays."""
    rows = []
    for device in ("cpu", "cuda:0"):
        series = [
            [math.log(ns) for _, ns in sorted(row.times[device].round_ns.items())]
            for run in shipped().runs for row in folded(run.events).rows.values() if device in row.times
        ]  # fmt: skip
        long = [each for each in series if len(each) >= LEAST_RECORDED]
        results = (agreement(long, name) for name in METHODS)
        rows.append((device, *(f"{agreed} of {count}, ± {100 * half:.1f} %" for agreed, count, half in results)))
    table("Recorded series of 12 and more rounds: both halves agree, median half-width", ("device", *METHODS), rows)
