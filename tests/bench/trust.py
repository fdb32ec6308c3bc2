"""Share of simulated intervals that cover the truth, of false winners at a tie, and of words without an interval.

PART=ties runs one of the parts `covered`, `ties`, `brackets`, `over_starts`, `brackets_over_starts`, `observations`
and `statements`; together they take 20 minutes.
"""

import math
import os
from collections import Counter
from itertools import product

from tests.helpers.bench.figures import record as record_figure
from tests.helpers.bench.interval_study import RHOS, SHAPES
from tests.helpers.bench.ratios import table
from tests.helpers.bench.start_trials import Machine, held
from tests.helpers.bench.start_trials import brackets as start_brackets
from tests.helpers.bench.trust_trials import clopper_pearson, coverage, false_winners, observed, wrongly_observed
from tests.helpers.runs.drawn_machines import CONDITIONS, SPOKEN, judged
from tests.helpers.runs.planted_crossover import DRIFT, NOISE, REAL_DRIFTS, REAL_RHO, record

from cpugpu_tui.decide.stats import median
from cpugpu_tui.demo.recording import shipped
from cpugpu_tui.report.segments import CLASSES, NOT_DECIDED
from cpugpu_tui.state.folding import folded

CASES = int(os.environ.get("BENCH_TRIALS", "1000"))
SIZES = (7, 20)
"""Sizes of a search: the grid of `quick`, the most of any search."""
FEW = (2, 3, 4, 5, 6, 9)
DEVICES = ("cpu", "cuda:0")
SIMULATED = "simulated"


def main() -> None:
    """Print the tables."""
    parts = (covered, ties, brackets, over_starts, brackets_over_starts, observations, statements)
    for part in parts:
        if os.environ.get("PART") in (None, part.__name__):
            part()


def covered() -> None:
    """Measure the intervals of the product at the stopping time."""
    shares, rows = [], []
    for shape, rho, noise in product(SHAPES, RHOS, (0.3, 1.0)):
        both = [coverage(shape, rho, together=each, cases=CASES, noise=noise) for each in (1, 20)]
        shares += [100 * found.coverage for found in both]
        rows.append((shape, f"{rho:g}", f"{3 * noise:g} %", *(f"{each.text()} %, {each.rounds:g}" for each in both)))
    table(
        f"Intervals at the stopping time: share that covers the truth, median half-width, median rounds; {CASES} cases",
        ("rounds", "ρ", "noise", "one case alone", "twenty at once"), [*rows, ("required", "", "", "≥ 93 %", "≥ 93 %")],
    )  # fmt: skip
    record_figure(
        "95 % intervals within a start that cover the truth, for 60 kinds of noise",
        f"{min(shares):.1f} to {max(shares):.1f} %, median {median(shares):.1f} % of {CASES:,} each",
        machine=SIMULATED,
    )


def ties() -> None:
    """Measure how often a search names a winner although the devices are equal at every size."""
    searches = max(1, 2 * CASES // 5)

    counts = []

    def named(shape: str, rho: float, noise: float, sizes: int) -> str:
        count = false_winners(shape, rho, sizes=sizes, searches=searches, noise=noise)
        counts.append(count)
        low, high = clopper_pearson(count, searches)
        return f"{100 * count / searches:.1f} % ({100 * low:.1f}–{100 * high:.1f})"

    rows = [
        (shape, f"{rho:g}", f"{3 * noise:g} %", *(named(shape, rho, noise, sizes) for sizes in SIZES))
        for shape in SHAPES for rho in RHOS for noise in (1.0, 5.0)
    ]  # fmt: skip
    table(
        f"Searches with equal devices at all sizes that name a winner, with Clopper–Pearson bounds; {searches} each",
        ("rounds", "ρ", "noise", *(f"{sizes} sizes" for sizes in SIZES)), [*rows, ("required", "", "", "≤ 5 %")],
    )  # fmt: skip
    record_figure(
        "Searches that name a winner although the devices are equal, for 60 kinds of noise and sizes",
        f"{100 * min(counts) / searches:.1f} to {100 * max(counts) / searches:.1f} % of {searches} each",
        machine=SIMULATED,
    )


def brackets() -> None:
    """Measure how often the bracket of a search contains the planted crossover, through the whole protocol."""
    searches, held = max(1, CASES // 10), 0
    rows = []
    for rho, drifts in (*((rho, (DRIFT, DRIFT)) for rho in RHOS), (REAL_RHO, REAL_DRIFTS)):
        found = record(rho, range(searches), drifts)
        held += round(found.covered * searches)
        rows.append(
            (f"{rho:g}", f"{drifts[0]:.1%}, {drifts[1]:.1%}", f"{100 * found.covered:.1f} %",
             f"{found.median_ratio:.3f}", f"{100 * found.error_p95:.1f} %", str(found.most_cases))
        )  # fmt: skip
    table(
        f"{searches} searches each, noise {NOISE:.0%}; the last row as noisy as a GPU server",
        (
            "autocorrelation",
            "drift of CPU, GPU",
            "bracket contains crossover",
            "median U/L",
            "|error| p95",
            "most cases",
        ),
        [*rows, ("required", "", "≥ 95 %", "≤ 1.15, last row 1.25", "≤ 3 %", "≤ 20")],
    )
    record_figure(
        "Brackets of one start that hold the crossover, where devices drift",
        f"{held} of {searches * len(rows)}",
        machine=SIMULATED,
    )


def over_starts() -> None:
    """Measure what intervals hold of a machine whose starts differ, and of its next run."""
    machines = {
        "none": Machine(), "5 %": Machine(0.05, 0.05), "14 % CPU, 10 % GPU": Machine(0.14, 0.10),
        "the same, CPU 2× in 30 %": Machine(0.14, 0.10, 0.3),
    }  # fmt: skip
    kinds = ((1, 0), (3, 0), (5, 0), (1, 10), (5, 20))
    rows = [
        (name, *(f"{100 * found.mean:.1f} %, {100 * found.next_run:.1f} %, ± {100 * found.half_width:.0f} %"
                 for found in (held(machine, starts=k, earlier=e, trials=CASES, seed=3) for k, e in kinds)))
        for name, machine in machines.items()
    ]  # fmt: skip
    equal = Machine(0.14, 0.10)
    rows.append(("14 % CPU, 10 % GPU: named a winner", *(
        f"{100 * held(equal, starts=k, earlier=e, trials=CASES, seed=4).named:.1f} %" for k, e in kinds
    )))  # fmt: skip
    table(
        f"Machines whose starts differ: intervals that hold the mean, that contain the next run, half-width; {CASES}",
        ("starts differ by", *(f"{k} starts, {e} earlier" for k, e in kinds)),
        [*rows, ("required", "", "", "≥ 93 %, ≥ 80 %", "", "")],
    )
    one, five = (held(equal, starts=starts, earlier=0, trials=CASES, seed=3) for starts in (1, 5))
    record_figure(
        "Intervals there that hold the next run's speedup, of five starts",
        f"{100 * five.next_run:.0f} % of {CASES:,}, of one start {100 * one.next_run:.0f} %",
        machine=SIMULATED,
    )


def brackets_over_starts() -> None:
    """Measure the brackets of searches on such machines, through the whole session."""
    searches = max(2, CASES // 25)
    rows = []
    kept = []
    for name, slow_share in (("14 % CPU, 10 % GPU", 0.0), ("the same, CPU 2× in 30 %", 0.3)):
        for starts in (1, 5):
            found = start_brackets(starts=starts, searches=searches, slow_share=slow_share)
            kept.append(found.held)
            rows.append((name, str(starts), f"{found.held} of {searches}", str(found.next_inside),
                         str(found.disjoint), f"{found.median_ratio:.2f}"))  # fmt: skip
    table(
        f"{searches} searches each on machines whose starts differ, rounds by 12 %",
        ("starts differ by", "starts", "hold the crossover", "next point inside", "disjoint from the next", "U/L"),
        [*rows, ("required", "5", "≥ 95 %", "", "", "")],
    )
    record_figure(
        "Brackets of five starts that hold the crossover, where starts differ by 14 and 10 %",
        f"{kept[1]} of {searches}, of one start {kept[0]}",
        machine=SIMULATED,
    )


def observations() -> None:
    """Measure how often few rounds show a winner without an interval although the devices are equal."""
    rows = [
        (shape, f"{rho:g}", f"{3 * noise:g} %", *(
            f"{100 * wrongly_observed(shape, rho, count=count, trials=2 * CASES, noise=noise):.1f} %" for count in FEW
        ))
        for shape in SHAPES for rho in (0.0, 0.8) for noise in (1.0, 3.0)
    ]  # fmt: skip
    series = [each for device in DEVICES for each in _recorded(device)]
    real = []
    for count in FEW:
        pairs = [
            (each[start : start + 2 * count : 2], each[start + 1 : start + 2 * count : 2])
            for each in series for start in range(len(each) - 2 * count + 1)
        ]  # fmt: skip
        real.append(f"{sum(observed(*pair) for pair in pairs)} of {len(pairs)}")
    table(
        f"Equal devices of which one is shown as faster without an interval; {2 * CASES} pairs each",
        ("rounds", "ρ", "noise", *(f"{count} rounds" for count in FEW)),
        [*rows, ("recorded, every other round of a device", "", "", *real), ("required", "", "", "", "≤ 5 %", "", "")],
    )  # fmt: skip
    record_figure(
        "Equal devices of which one is shown as faster after 3 rounds, in recorded rounds of an H200 and its host",
        real[FEW.index(3)],
        machine=SIMULATED,
    )


def statements() -> None:
    """Measure how many of "always", "never" and "from N" are wrong on drawn machines, and what cannot be said."""
    searches = max(1, CASES // 2)
    counts, wrong = judged(range(searches))
    kinds = [kind for kind in CLASSES if any(counts[key, kind] for key in CONDITIONS)]
    rows = []
    for key in (*CONDITIONS, "all"):
        own: Counter[str] = Counter()
        for (condition, kind), count in counts.items():
            own[kind] += count if key in (condition, "all") else 0
        spoken = sum(own[kind] for kind in SPOKEN)
        false = sum(len(each) for (condition, _), each in wrong.items() if key in (condition, "all"))
        share = f"{false} of {spoken} ({100 * false / max(1, spoken):.1f} %)"
        rows.append((key, share, *(str(own[kind]) for kind in kinds)))
    table(
        f"{searches} searches on drawn machines: wrong statements, and classes",
        ("condition", "wrong", *kinds), [*rows, ("required", "≤ 2 %", *("" for _ in kinds))],
    )  # fmt: skip
    record_figure(
        "Statements “always”, “never” and “from n” that are wrong on machines drawn at random",
        rows[-1][1],
        machine=SIMULATED,
    )
    left_open = sum(count for (_, kind), count in counts.items() if kind == NOT_DECIDED)
    print(f"\nNo statement at all in {left_open} of {counts.total()}.")
    for (key, kind), texts in wrong.items():
        for text in texts:
            print(f"{key}, {kind}: {text}")


def _recorded(device: str) -> list[list[float]]:
    """Return ln(time) of the rounds of each recorded case, in order of time."""
    return [
        [math.log(ns) for _, ns in sorted(row.times[device].round_ns.items())]
        for run in shipped().runs for row in folded(run.events).rows.values() if device in row.times
    ]  # fmt: skip
