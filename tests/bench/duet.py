"""Duets of this interpreter with itself: equal, and with one side 2 % slower, timed on a GPU if there is one.

The slower side works on 2 % more numbers. First a plain clock measures that plant; if it is not half to twice the
plan, nothing is judged. Promised on a GPU, for latencies of 300 µs and more: +2 % is found in 90 % of duets, within
60 s without start-up. BENCH_TRIALS sets the number of duets of each kind (default 1), BENCH_PLANT_PERCENT the plant.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.bench import planted_step
from tests.helpers.bench.figures import record
from tests.helpers.bench.plant import plant_elsewhere, require_plant
from tests.helpers.bench.ratios import cap_seconds, table

from cpugpu_tui.analysis.compare import FASTER, SLOWER
from cpugpu_tui.model.quantities import time_text
from cpugpu_tui.render.comparison import percent_text
from cpugpu_tui.timing.timers import Stopwatch

TRIALS = int(os.environ.get("BENCH_TRIALS", "1"))
MOST_S = 60.0
SIZES = {"cuda": 100_000_000, "cpu": 1_000_000}
"""Device → numbers: 0.8 GB read and written by a GPU, beyond its cache; a millisecond or more of one core."""
WORK = {"cuda": (), "cpu": ("--threads", "1")}
PERCENT = float(os.environ.get("BENCH_PLANT_PERCENT", "2"))


@dataclass(frozen=True)
class Played:
    """A finished duet."""

    told: dict[str, Any]
    """What `run --json` says of the comparison; empty without one."""
    elapsed_s: float

    @property
    def words(self) -> dict[str, str]:
        """Metric → verdict."""
        return {each["metric"]: each["verdict"] for each in self.told.get("verdicts", ())}


def main() -> None:
    """Print every duet, and how often each kind was called different."""
    device = "cuda" if has_gpu() else "cpu"
    plant = plant_elsewhere(SIZES[device], PERCENT, device)
    require_plant(plant, PERCENT)
    with tempfile.TemporaryDirectory() as folder:
        plain, slower = (
            interpreter(Path(folder) / name, percent) for name, percent in (("plain", 0.0), ("slower", PERCENT))
        )
        again = interpreter(Path(folder) / "again", 0.0)
        kinds = {f"+{PERCENT:g} %": slower, "equal": again}
        found = {kind: [play(plain, other, device) for _ in range(TRIALS)] for kind, other in kinds.items()}
    table(
        f"`planted-step --size {SIZES[device]}` on {device}, the same interpreter on both sides",
        ("planted", "time", "base", "change", "interval", "verdict", "pairs", "timing", "start-up", "wall"),
        (line for kind, duets in found.items() for duet in duets for line in lines(kind, duet)),
    )
    table(
        f"{TRIALS} duets of each kind", ("planted", "time", "called different", "timing, longest"),
        (
            (kind, metric, f"{sum(duet.words.get(metric) in (SLOWER, FASTER) for duet in duets)} of {len(duets)}",
             f"{max(duet.told.get('duet', {}).get('timing_s', 0.0) for duet in duets):.1f} s (at most {MOST_S:g} s)")
            for kind, duets in found.items() for metric in ("latency", "device") if metric in duets[0].words
        ),
    )  # fmt: skip
    equal = [duet for duet in found["equal"] if duet.words]
    different = sum(bool({SLOWER, FASTER} & {*duet.words.values()}) for duet in equal)
    record("Duets of equal sides with a word FASTER or SLOWER", f"{different} of {len(equal)}")


def has_gpu() -> bool:
    """Return whether torch can use a GPU."""
    import torch

    return bool(torch.cuda.is_available())


def interpreter(path: Path, percent: float) -> Path:
    """Write a script that is this interpreter with so many percent more work."""
    path.write_text(f'#!/bin/sh\nBENCH_PLANT_PERCENT={percent:g} exec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
    return path


def play(base: Path, new: Path, device: str) -> Played:
    """Run one duet; its notices go to stderr."""
    command = [
        sys.executable, "-m", "cpugpu_tui", "run", "planted-step", "--size", str(SIZES[device]),
        *WORK[device], "--device", device, "--no-ceilings",
        "--workloads", planted_step.__file__, "--python", str(base), "--python", str(new), "--json", "--no-save",
        *(["--max-seconds", str(cap_seconds(0))] if "BENCH_SECONDS" in os.environ else []),
    ]  # fmt: skip
    watch = Stopwatch()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    lines = [line for line in done.stdout.splitlines() if b'"Comparison"' in line]
    return Played(json.loads(lines[-1]) if lines else {}, watch.elapsed_s())


def lines(kind: str, duet: Played) -> Iterator[tuple[str, ...]]:
    """Yield a line of the table for each time of a duet."""
    took = duet.told.get("duet", {})
    seconds = (f"{took.get('timing_s', 0):.1f} s", f"{took.get('start_up_s', 0):.1f} s", f"{duet.elapsed_s:.1f} s")
    for each in duet.told.get("verdicts", ()):
        base_ns = each["cases"][0]["base_ns"]
        low, high = (f"{100 * (each[end] - 1):+.2f} %" if each[end] else "–" for end in ("low", "high"))
        yield (
            kind, f"{each['device']} {each['metric']}", time_text(sum(base_ns) / len(base_ns)) if base_ns else "–",
            percent_text(each["ratio"]) if each["ratio"] else "–", f"{low} to {high}", each["verdict"],
            str(each["base_runs"]), *seconds,
        )  # fmt: skip
    if not duet.told:
        yield (kind, *["–"] * 4, "no comparison", "–", *seconds)
