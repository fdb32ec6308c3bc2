"""Agents that send false data, flood or die, in a fleet beside a good host and in local runs.

BENCH_SEED sets the seed of the random mutations of a recorded stream; the default is random. BENCH_SECONDS limits the
time of each kind.
"""

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.helpers.bench.ratios import table
from tests.helpers.fleet.hostile_agent import BAD, HARMLESS, LOCAL_CRASHES, SPECIAL
from tests.helpers.fleet.hostile_run import FAST, GOOD, SIZES, Ended, fleet_of, python_of, record, watch

from cpugpu_tui.errors import EXIT_CASES_FAILED
from cpugpu_tui.session.fleet_state import OVER, TROUBLES
from cpugpu_tui.transport.agent_command import MISBEHAVING

DEADLINE_S, MOST_BYTES = 60.0, 200_000_000
MUTATIONS = 200

Try = Callable[[str], tuple[Ended, str]]
"""Runs a variant; returns the end of the command and its failure."""


def main() -> None:
    """Print a row per kind; exit 1 after a failure."""
    seed = int(os.environ.get("BENCH_SEED", random.SystemRandom().randrange(10**6)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = Bench(folder, record(folder / "recorded.ndjson"))
        mutations = [f"mutation:{seed + number}" for number in range(MUTATIONS)]
        # A local run skips any amount of output of its agent.
        printing = [each for each in BAD if each.startswith("stderr")]
        here = [each for each in BAD if each not in SPECIAL and each not in printing]
        kinds: list[tuple[str, Iterable[str], Try]] = [
            ("a host that misbehaves", BAD, bench.bad_host),
            ("a host that is odd", HARMLESS, bench.odd_host),
            ("a host with random faults", mutations, bench.mutated_host),
            ("an agent here that misbehaves", here, bench.bad_agent),
            ("an agent here that is odd", [*HARMLESS, *printing], bench.odd_agent),
            ("an agent here with random faults", mutations, bench.mutated_agent),
        ]
        header = ("kind", "tried", "as designed", "failed", "longest", "most memory")
        table(f"Hostile agents, seed {seed}", header, (bench.row(*kind) for kind in kinds))
    for failure in bench.failures:
        print(f"\n{failure}")
    if bench.failures:
        sys.exit(1)


class Bench:
    """Runs variants and collects failures."""

    def __init__(self, folder: Path, recorded: Path) -> None:
        self._folder, self._recorded = folder, recorded
        self.failures: list[str] = []

    def row(self, kind: str, variants: Iterable[str], play: Try) -> tuple[str, ...]:
        """Run all variants within the time limit; return the row of the table."""
        longest_s = peak_bytes = 0.0
        tried = failed = 0
        for variant in _in_time(variants):
            started_s = time.monotonic()
            ended, wrong = play(variant)
            longest_s = max(longest_s, time.monotonic() - started_s)
            peak_bytes = max(peak_bytes, ended.peak_bytes)
            wrong = wrong or _common(ended)
            tried, failed = tried + 1, failed + bool(wrong)
            if wrong:
                self.failures.append(f"{kind}, {variant}: {wrong}\n{ended.err[-2000:]}")
        memory = f"{peak_bytes / 1e6:.0f} MB"
        return kind, str(tried), str(tried - failed), str(failed), f"{longest_s:.1f} s", memory

    # ---------------------------------------------------------------- in a fleet

    def _fleet(self, variant: str) -> tuple[Ended, str, dict[str, object]]:
        words = fleet_of(self._folder, (variant,), self._recorded)
        ended = watch(words, self._folder / "fleet.db", DEADLINE_S)
        if _common(ended):
            return ended, _common(ended), {}
        good, other = ended.hosts[GOOD], ended.hosts[variant.replace(":", "-")]
        if (good["state"], good["settled"], good["failed"]) != ("done", 2, 0):
            return ended, f"the good host is {good['state']}: {good['message']}", other
        return ended, "", other

    def bad_host(self, variant: str) -> tuple[Ended, str]:
        """It misbehaves, the other one is done."""
        ended, wrong, host = self._fleet(variant)
        if not wrong and (ended.code, host["state"]) != (EXIT_CASES_FAILED, MISBEHAVING):
            wrong = f"exit code {ended.code}, {host['state']}: {host['message']}"
        if not wrong and not (host["message"] and host["remedy"]):
            wrong = "no cause or remedy"
        return ended, wrong

    def odd_host(self, variant: str) -> tuple[Ended, str]:
        """Both are done."""
        ended, wrong, host = self._fleet(variant)
        if not wrong and (ended.code, host["state"], host["settled"]) != (0, "done", 2):
            wrong = f"exit code {ended.code}, {host['state']}: {host['message']}"
        return ended, wrong

    def mutated_host(self, variant: str) -> tuple[Ended, str]:
        """It is done with all its cases, or has a cause and a remedy."""
        ended, wrong, host = self._fleet(variant)
        if wrong:
            return ended, wrong
        if host["state"] == "done":
            wrong = "" if host["settled"] == host["cases"] == 2 else f"{host['settled']} of {host['cases']} cases"
        elif host["state"] not in OVER or (host["state"] in TROUBLES and not (host["message"] and host["remedy"])):
            wrong = f"{host['state']}: {host['message']} {host['remedy']}"
        failed = bool(host["state"] != "done" or host["failed"])
        if not wrong and (ended.code == EXIT_CASES_FAILED) != failed:
            wrong = f"exit code {ended.code}, {host['state']}"
        return ended, wrong

    # ---------------------------------------------------------------- in a run

    def _run(self, variant: str) -> Ended:
        python = python_of(self._folder, variant, self._recorded)
        words = ["run", "matmul", "--size", SIZES, "--simulate", FAST, "--json", "--python", str(python)]
        return watch(words, self._folder / "run.db", DEADLINE_S)

    def bad_agent(self, variant: str) -> tuple[Ended, str]:
        """The run fails with a sentence."""
        ended = self._run(variant)
        if wrong := _common(ended):
            return ended, wrong
        last = ended.last
        is_right = ended.code == EXIT_CASES_FAILED and (last["status"] == "failed" or variant in LOCAL_CRASHES)
        if not is_right or (last["status"] == "failed" and not (last["message"] and last["remedy"])):
            return ended, f"exit code {ended.code}, {last['status']}: {last['message']} {last['remedy']}"
        return ended, ""

    def odd_agent(self, variant: str) -> tuple[Ended, str]:
        """The run is done."""
        ended = self._run(variant)
        wrong = _common(ended)
        if not wrong and (ended.code, ended.last["status"]) != (0, "done"):
            wrong = f"exit code {ended.code}, {ended.last['status']}: {ended.last['message']}"
        return ended, wrong

    def mutated_agent(self, variant: str) -> tuple[Ended, str]:
        """The run is done, or has failed with a sentence."""
        ended = self._run(variant)
        if wrong := _common(ended):
            return ended, wrong
        last = ended.last
        if last["status"] == "done":
            return ended, "" if ended.code in (0, EXIT_CASES_FAILED) else f"done, exit code {ended.code}"
        is_right = ended.code in (3, 4) and last["status"] == "failed" and last["message"] and last["remedy"]
        return ended, "" if is_right else f"exit code {ended.code}, {last['status']}: {last['message']}"


def _in_time(variants: Iterable[str]) -> Iterator[str]:
    limit_s, started_s = float(os.environ.get("BENCH_SECONDS", "inf")), time.monotonic()
    for variant in variants:
        if time.monotonic() - started_s > limit_s:
            return
        yield variant


def _common(ended: Ended) -> str:
    """Return failures that are common to all kinds, or an empty text."""
    if ended.code < 0:
        return f"no end within {DEADLINE_S:g} s"
    if ended.has_traceback:
        return "a traceback"
    if ended.peak_bytes > MOST_BYTES:
        return f"{ended.peak_bytes / 1e6:.0f} MB"
    if "\x1b" in ended.out + ended.err:
        return "an escape sequence came through"
    return "" if ended.out else "nothing on stdout"
