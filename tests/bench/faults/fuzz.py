"""Fuzz test of the app: 10,000 random keys and 500 sizes. It must not crash, lose a run or refuse to quit.

Then 10,000 random bytes, sequences and pastes on a pseudo-terminal, in every place of the app.

BENCH_SEED sets the first of ten seeds; the default is random. A failure is printed with its seed and the shortest part
of its script that still fails. After half of BENCH_SECONDS no further thousand keys starts, after all of it no further
place; the first of each always runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tests.helpers.app.byte_fuzz import PLACES, inputs, prepare, visit
from tests.helpers.app.byte_fuzz import FuzzError as PlaceError
from tests.helpers.app.byte_fuzz import Outcome as Bytes
from tests.helpers.app.fuzz import FuzzError, Outcome, Step, play, script, shortest
from tests.helpers.bench.ratios import cap_seconds, table

PARTS, KEYS, RESIZES = 10, 1_000, 50
BYTE_INPUTS = 10_000
Part = TypeVar("Part")


def main() -> None:
    """Print a row per thousand keys; exit 1 after a failure."""
    first = int(os.environ.get("BENCH_SEED", random.SystemRandom().randrange(10**6)))
    failures: list[str] = []
    began_s, most_s = time.monotonic(), cap_seconds(float("inf"))
    seeds = before(began_s + most_s / 2, range(first, first + PARTS))
    header = ("seed", "visits", "ended by a key", "runs, all saved", "screens seen", "seconds of CPU", "outcome")
    table(f"{KEYS} keys and {RESIZES} sizes a row", header, (row(seed, failures) for seed in seeds))
    byte_part(first, failures, began_s + most_s)
    for failure in failures:
        print(f"\n{failure}")
    if failures:
        sys.exit(1)


def before(end_s: float, parts: Iterable[Part]) -> Iterator[Part]:
    """Yield the first part, and further ones until this time of the monotonic clock; print how many were left out."""
    left = 0
    for number, part in enumerate(parts):
        if number == 0 or time.monotonic() < end_s:
            yield part
        else:
            left += 1
    if left:
        print(f"(time limit reached: {left} not run)")


def byte_part(seed: int, failures: list[str], end_s: float) -> None:
    """Print a row per place in which bytes are typed; only bytes that were read count."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        header = ("place", "inputs", "bytes", "sizes", "starts", "ended by an input", "screens seen", "outcome")
        rows = (place_row(place, seed, Path(folder), failures) for place in before(end_s, PLACES))
        table(f"{BYTE_INPUTS // len(PLACES)} inputs at each place", header, rows)


def place_row(place: str, seed: int, folder: Path, failures: list[str]) -> tuple[str, ...]:
    """Type in one place; return the row of its outcome."""
    chance, outcome, held = random.Random(f"{seed} {place}"), Bytes(), "held"
    try:
        visit(place, inputs(chance, BYTE_INPUTS // len(PLACES), RESIZES), folder, outcome, chance)
    except PlaceError as error:
        failures.append(f"Seed {seed}, {error}")
        held = "failed"
    found = (outcome.inputs, outcome.bytes, outcome.resizes, outcome.starts, outcome.quits, len(outcome.screens))
    return (place, *(f"{number:,}" for number in found), held)


def row(seed: int, failures: list[str]) -> tuple[str, ...]:
    """Run one script; return the row of its outcome."""
    steps, started_s = script(seed, KEYS, RESIZES), time.process_time()
    outcome = played(steps, seed)
    cpu_s = time.process_time() - started_s
    if isinstance(outcome, FuzzError):
        least = shortest(steps[: outcome.steps], lambda some: isinstance(played(some, seed), FuzzError))
        failures.append(f"Seed {seed}, after {outcome.steps} steps: {outcome}\n{json.dumps(least)}")
        return (str(seed), "", "", "", "", f"{cpu_s:.0f}", "failed")
    seen = str(len(outcome.screens))
    return (str(seed), str(outcome.visits), str(outcome.quits), str(outcome.runs), seen, f"{cpu_s:.0f}", "held")


def played(steps: Sequence[Step], seed: int) -> Outcome | FuzzError:
    """Return the outcome of a script, run in its own folders."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # file names that are typed lie there, too
        os.environ.update(dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), folder))
        try:
            return asyncio.run(play(steps, Path(folder), seed))
        except FuzzError as error:
            return error
        finally:
            os.chdir(before)
