"""Duets of this interpreter with itself twice, equal and 2 % slower, timed on a GPU if there is one.

Both new sides are compared with the same base, so each duet gives two verdicts. The slower side works on 2 % more
numbers. First a plain clock measures that plant; if it is not half to twice the plan, nothing is judged. Promised on a
GPU, for latencies of 300 µs and more: +2 % is found in 90 % of duets. BENCH_TRIALS sets the number of duets (default
5), BENCH_PLANT_PERCENT the plant, BENCH_SECONDS the time of all (default 250).
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.bench import planted_step
from tests.helpers.bench.figures import record
from tests.helpers.bench.plant import plant_elsewhere, require_plant
from tests.helpers.bench.ratios import cap_seconds, table
from tests.helpers.machine.fake_interpreters import interpreter

from cpugpu_tui.analysis.compare import FASTER, SLOWER
from cpugpu_tui.model.quantities import time_text
from cpugpu_tui.render.comparison import percent_text
from cpugpu_tui.timing.timers import Stopwatch

TRIALS = int(os.environ.get("BENCH_TRIALS", "5"))
USUAL_S, LEAST_S = 250.0, 20.0
"""Time of all duets, and without so much left none begins, seconds."""
SIZES = {"cuda": 25_000_000, "cpu": 250_000}
"""Device → numbers: 0.2 GB read and written by a GPU in a pass, beyond its cache; a millisecond or more of one core."""
WORK = {"cuda": (), "cpu": ("--threads", "1")}
PERCENT = float(os.environ.get("BENCH_PLANT_PERCENT", "2"))
SIDES = {"plain": 0.0, "slower": PERCENT, "again": 0.0}
"""Name of a side → percent of more work; the first is the base."""
KINDS = (f"+{PERCENT:g} %", "equal")


@dataclass(frozen=True)
class Played:
    """A finished duet."""

    told: list[dict[str, Any]]
    """What `run --json` says of each comparison; empty without one."""
    elapsed_s: float


def main() -> None:
    """Print every duet as it ends, and how often each kind was called different."""
    watch, device = Stopwatch(), "cuda" if has_gpu() else "cpu"
    plant = plant_elsewhere(SIZES[device], PERCENT, device)
    require_plant(plant, PERCENT)
    words: dict[str, list[set[str]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        pythons = [  # this one, with so many percent more work
            interpreter(Path(folder) / name, f'BENCH_PLANT_PERCENT={percent:g} exec "{sys.executable}" "$@"')
            for name, percent in SIDES.items()
        ]

        def duets() -> Iterator[tuple[str, ...]]:
            for number in range(TRIALS):
                left_s = cap_seconds(USUAL_S) - watch.elapsed_s()
                if number and left_s < LEAST_S:
                    return
                duet = play(pythons, device, left_s / (TRIALS - number))
                for kind, told in zip(KINDS, duet.told or [{}] * len(KINDS), strict=True):
                    words[kind].append({each["verdict"] for each in told.get("verdicts", ())})
                    yield from lines(kind, told, duet.elapsed_s)

        table(
            f"`planted-step --size {SIZES[device]}` on {device}, the same interpreter on three sides",
            ("new side", "time", "base", "change", "interval", "verdict", "pairs", "timing", "start-up", "wall"),
            duets(),
        )
    found, equal = words.values()
    judged = [each for each in equal if each]
    record(
        "Duets of equal sides with a word FASTER or SLOWER",
        f"{sum(bool({SLOWER, FASTER} & each) for each in judged)} of {len(judged)}",
    )
    record(
        "Duets that call a side with more work SLOWER",
        f"{sum(SLOWER in each for each in found)} of {len(found)} with +{PERCENT:g} %",
    )


def has_gpu() -> bool:
    """Return whether torch can use a GPU."""
    import torch

    return bool(torch.cuda.is_available())


def play(pythons: Sequence[str], device: str, most_s: float) -> Played:
    """Run one duet, in which no pair of agents begins after `most_s`; its notices go to stderr."""
    command = [
        sys.executable, "-m", "cpugpu_tui", "run", "planted-step", "--size", str(SIZES[device]),
        *WORK[device], "--device", device, "--no-ceilings", "--workloads", planted_step.__file__,
        *(word for python in pythons for word in ("--python", str(python))), "--json", "--no-save",
        "--max-seconds", f"{most_s:.1f}",
    ]  # fmt: skip
    watch = Stopwatch()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines() if b'"Comparison"' in line]
    return Played(found, watch.elapsed_s())


def lines(kind: str, told: dict[str, Any], elapsed_s: float) -> Iterator[tuple[str, ...]]:
    """Yield a line of the table for each time of a comparison."""
    took = told.get("duet", {})
    seconds = (f"{took.get('timing_s', 0):.1f} s", f"{took.get('start_up_s', 0):.1f} s", f"{elapsed_s:.1f} s")
    for each in told.get("verdicts", ()):
        base_ns = each["cases"][0]["base_ns"]
        low, high = (f"{100 * (each[end] - 1):+.2f} %" if each[end] else "–" for end in ("low", "high"))
        yield (
            kind, f"{each['device']} {each['metric']}", time_text(sum(base_ns) / len(base_ns)) if base_ns else "–",
            percent_text(each["ratio"]) if each["ratio"] else "–", f"{low} to {high}", each["verdict"],
            str(each["base_runs"]), *seconds,
        )  # fmt: skip
    if not told:
        yield (kind, *["–"] * 4, "no comparison", "–", *seconds)
