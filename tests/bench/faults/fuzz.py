"""Fuzz test of all surfaces: texts, options, Python objects, files, agents, and the app. Nothing may crash or hang.

- Inside this process: sizes and other values, own code, the Python API by type, config files, thresholds, the lines of
  an agent, command lines, imports with exports. Then own code that runs, and hostile agents, in processes.
- The app: 10,000 random keys and 500 sizes. It must not crash, lose a run or refuse to quit. Then 10,000 random bytes,
  sequences and pastes on a pseudo-terminal, in every place of the app.

BENCH_SEED sets the first seed; the default is random. BENCH_TRY=NAME:NUMBER repeats one try of the first part. A
failure of the app is printed with the shortest part of its script that still fails. Of BENCH_SECONDS (usually ten
minutes) half belongs to the first part, a quarter to the keys and a quarter to the bytes. PART=quick leaves out the
app.
"""

import asyncio
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

from tests.helpers.app.byte_fuzz import PLACES, inputs, prepare, visit
from tests.helpers.app.byte_fuzz import FuzzError as PlaceError
from tests.helpers.app.byte_fuzz import Outcome as Bytes
from tests.helpers.app.fuzz import FuzzError, Outcome, Step, play, script, shortest
from tests.helpers.bench.ratios import cap_seconds, table
from tests.helpers.fleet.hostile_run import GOOD, Ended, fleet_of, record, run_of, watch
from tests.helpers.fuzz import trying
from tests.helpers.fuzz.command_lines import try_one
from tests.helpers.fuzz.surfaces import Files

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK, EXIT_UNFIT
from cpugpu_tui.session.fleet_state import OVER, TROUBLES

PARTS, KEYS, RESIZES = 10, 1_000, 50
BYTE_INPUTS = 10_000
Part = TypeVar("Part")


SHARES = {"sizes": 1, "own code": 1, "types": 1, "config": 1, "thresholds": 1, "agent lines": 1, "options": 2,
          "imports": 2, "runs": 3, "command lines": 3, "hostile agents": 3}  # fmt: skip
"""Surface → its part of the time, in relation to the others."""
USUAL_S, DEADLINE_S = 600.0, 60.0


def main() -> None:
    """Print a row for each surface, thousand keys and place of the app; exit 1 after a failure."""
    first = int(os.environ.get("BENCH_SEED", random.SystemRandom().randrange(10**6)))
    failures: list[str] = []
    began_s, most_s = time.monotonic(), cap_seconds(USUAL_S)
    print(f"\nSeed {first}", flush=True)
    only, is_quick = os.environ.get("BENCH_TRY", ""), os.environ.get("PART") == "quick"
    surfaces_part(first, failures, most_s if is_quick else most_s / 2, only)
    if not only and not is_quick:
        ends_s = began_s + 0.75 * most_s
        seeds = before(ends_s, range(first, first + PARTS))
        header = ("seed", "inputs", "visits", "ended by a key", "runs, all saved", "screens seen", "seconds of CPU",
                  "outcome")  # fmt: skip
        table(f"{KEYS} keys and {RESIZES} sizes a row", header, (row(seed, failures, ends_s) for seed in seeds))
        byte_part(first, failures, began_s + most_s)
    for failure in failures:
        print(f"\n{failure}")
    if failures:
        sys.exit(1)


def surfaces_part(seed: int, failures: list[str], most_s: float, only: str) -> None:
    """Print a row for each surface; with `only`, a name and a number, make that try alone."""
    trying.adopt_orphans()
    with tempfile.TemporaryDirectory() as name:
        folder, before = Path(name), Path.cwd()
        homes = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), name)
        os.chdir(folder)
        try:
            with patch.dict(os.environ, homes):
                recorded = record(folder / "recorded.ndjson")
                surfaces = (*Files(folder, recorded).surfaces(), lines(folder), agents(folder, recorded))
                header = ("surface", "tries", "outcomes", "failed", "seconds")
                table("Tries of each surface", header, surface_rows(surfaces, seed, failures, most_s, only))
        finally:
            os.chdir(before)


def surface_rows(
    surfaces: Sequence[trying.Surface], seed: int, failures: list[str], most_s: float, only: str
) -> Iterator[tuple[str, ...]]:
    """Yield the row of each surface, and of all together."""
    name, _, number = only.rpartition(":")
    total, total_failed, total_s = 0, 0, 0.0
    for surface in surfaces:
        if only and surface.name != name:
            continue
        tally = trying.Tally(tries=1)
        with nullcontext() if surface.starts_processes else trying.limited_memory():
            if only:
                trying.one_try(surface, seed, int(number), tally)
            else:
                share_s = most_s * SHARES[surface.name] / sum(SHARES.values())
                tally = trying.tries_of(surface, seed, time.monotonic() + share_s)
        failures += [f"{surface.name}: {text}" for text in list(tally.failures.values())[: trying.MOST_EXAMPLES]]
        total, total_failed, total_s = total + tally.tries, total_failed + tally.failed, total_s + tally.elapsed_s
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(tally.outcomes.items()))
        yield surface.name, f"{tally.tries:,}", outcomes, f"{tally.failed:,}", f"{tally.elapsed_s:.0f}"
    yield "all", f"{total:,}", "", f"{total_failed:,}", f"{total_s:.0f}"


def lines(folder: Path) -> trying.Surface:
    """Return the surface of command lines with odd values, streams, configs and folders, in processes."""
    (folder / "history.db").write_bytes((folder / "results.db").read_bytes())

    def attempt(chance: random.Random) -> str:
        if wrong := try_one(chance, folder):
            raise trying.WrongError(wrong)
        return "as designed"

    return trying.Surface("command lines", attempt, starts_processes=True)


def agents(folder: Path, recorded: Path) -> trying.Surface:
    """Return the surface of agents whose stream has random faults, in a run and in a fleet."""

    def attempt(chance: random.Random) -> str:
        variant, in_fleet = f"mutation:{chance.randrange(10**9)}", chance.random() < 0.5
        words = fleet_of(folder, (variant,), recorded) if in_fleet else run_of(folder, variant, recorded)
        ended = watch(words, folder / f"{words[0]}.db", DEADLINE_S)
        if ended.fault or not (is_fleet_right(ended, variant) if in_fleet else is_run_right(ended)):
            raise trying.WrongError(f"{ended.fault}, exit {ended.code}: {ended.out[-1000:]}\n{ended.err[-1000:]}")
        return f"exit {ended.code}"

    return trying.Surface("hostile agents", attempt, starts_processes=True)


def is_fleet_right(ended: Ended, variant: str) -> bool:
    """Whether the good host is done, and the other one done with all its cases or ended with a cause and a remedy."""
    good, host = ended.hosts[GOOD], ended.hosts[variant.replace(":", "-")]
    state, is_done = host["state"], host["state"] == "done"
    is_told = state in OVER and (state not in TROUBLES or bool(host["message"] and host["remedy"]))
    failed = bool(not is_done or host["failed"])
    return (
        (good["state"], good["settled"], good["failed"]) == ("done", 2, 0)
        and (host["settled"] == host["cases"] == 2 if is_done else is_told)
        and (ended.code == EXIT_CASES_FAILED) == failed
    )


def is_run_right(ended: Ended) -> bool:
    """Whether the run is done, or has failed with a sentence."""
    last = ended.last
    if last["status"] == "done":
        return ended.code in (EXIT_OK, EXIT_CASES_FAILED)
    is_told = last["status"] == "failed" and last["message"] and last["remedy"]
    return bool(is_told) and ended.code in (EXIT_CASES_FAILED, EXIT_UNFIT)


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


def shared(parts: Collection[Part], end_s: float) -> Iterator[tuple[Part, float]]:
    """Yield each part with the end of its share of the time that is left."""
    for left, part in zip(range(len(parts), 0, -1), parts, strict=True):
        now_s = time.monotonic()
        yield part, now_s + max(0.0, end_s - now_s) / left


def byte_part(seed: int, failures: list[str], end_s: float) -> None:
    """Print a row per place in which bytes are typed; only bytes that were read count."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        header = ("place", "inputs", "bytes", "sizes", "starts", "ended by an input", "screens seen", "outcome")
        rows = (place_row(place, seed, Path(folder), failures, ends_s) for place, ends_s in shared(PLACES, end_s))
        table(f"{BYTE_INPUTS // len(PLACES)} inputs at each place", header, rows)


def place_row(place: str, seed: int, folder: Path, failures: list[str], ends_s: float) -> tuple[str, ...]:
    """Type in one place; return the row of its outcome."""
    chance, outcome, held = random.Random(f"{seed} {place}"), Bytes(), "held"
    try:
        visit(place, inputs(chance, BYTE_INPUTS // len(PLACES), RESIZES), folder, outcome, chance, ends_s)
    except PlaceError as error:
        failures.append(f"Seed {seed}, {error}")
        held = "failed"
    found = (outcome.inputs, outcome.bytes, outcome.resizes, outcome.starts, outcome.quits, len(outcome.screens))
    return (place, *(f"{number:,}" for number in found), held)


def row(seed: int, failures: list[str], ends_s: float) -> tuple[str, ...]:
    """Run one script; return the row of its outcome."""
    steps, started_s = script(seed, KEYS, RESIZES), time.process_time()
    outcome = played(steps, seed, ends_s)
    cpu_s = time.process_time() - started_s
    if isinstance(outcome, FuzzError):
        least = shortest(steps[: outcome.steps], lambda some: time.monotonic() < ends_s and failed(some, seed))
        failures.append(f"Seed {seed}, after {outcome.steps} steps: {outcome}\n{json.dumps(least)}")
        return (str(seed), str(outcome.steps), "", "", "", "", f"{cpu_s:.0f}", "failed")
    found = (outcome.steps, outcome.visits, outcome.quits, outcome.runs, len(outcome.screens))
    return (str(seed), *map(str, found), f"{cpu_s:.0f}", "held")


def failed(steps: Sequence[Step], seed: int) -> bool:
    """Return whether a script fails."""
    return isinstance(played(steps, seed, math.inf), FuzzError)


def played(steps: Sequence[Step], seed: int, ends_s: float) -> Outcome | FuzzError:
    """Return the outcome of a script, run in its own folders until this time of the monotonic clock."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # file names that are typed lie there, too
        os.environ.update(dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), folder))
        try:
            return asyncio.run(play(steps, Path(folder), seed, ends_s))
        except FuzzError as error:
            return error
        finally:
            os.chdir(before)
