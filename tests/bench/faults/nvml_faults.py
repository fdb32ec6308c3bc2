"""A driver with random false values, hangs and crashes.

BENCH_SEED sets the first seed; the default is random. A failure is printed with the command that repeats it.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.helpers.bench.ratios import table
from tests.helpers.command_line import ROOT

from cpugpu_tui.doctor.collect import CHECKS
from cpugpu_tui.machine.limits import LIMITS
from cpugpu_tui.machine.text import REASONS

SOURCE = ROOT / "tests" / "helpers" / "bench" / "hostile_nvml.c"
VARIANTS = ("", "-DLACKING=1", "-DLACKING=2", "-DLACKING=3")
FUNCTIONS = (
    "nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetName",
    "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetPersistenceMode", "nvmlSystemGetDriverVersion",
    "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetCurrPcieLinkWidth",
)  # fmt: skip
"""Functions that hang or crash in one of seven trials."""
TELEMETRY, DOCTOR, DEVICES, RUN = 104, 16, 8, 6
LIMIT_S = 120.0
"""Time limit of one command, seconds; a hanging driver may take 40 s of it."""
WORKERS = 2


@dataclass(frozen=True)
class Try:
    """A command, and the faults of the driver."""

    kind: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    variant: int = 0

    def __str__(self) -> str:
        facts = " ".join(f"{name}={value}" for name, value in self.environment.items())
        return f"{VARIANTS[self.variant]} {facts} cpugpu-tui {' '.join(map(ascii, self.arguments))}".strip()


def main() -> None:
    """Print a row per kind; exit 1 after a failure."""
    seed = int(os.environ.get("BENCH_SEED", random.SystemRandom().randrange(10**6)))
    chance = random.Random(seed)
    tries = list(driver_tries(chance))
    with tempfile.TemporaryDirectory() as folder:
        libraries = [built(Path(folder), number) for number in range(len(VARIANTS))]
        with ThreadPoolExecutor(WORKERS) as pool:
            outcomes = list(pool.map(lambda each: outcome(each, libraries[each.variant], Path(folder)), tries))
    tried, failed = Counter(each.kind for each in tries), Counter[str]()
    for each, why in zip(tries, outcomes, strict=True):
        if why:
            failed[each.kind] += 1
            print(f"{why}\n    {each}", flush=True)
    rows = [(kind, str(n), str(n - failed[kind]), str(failed[kind])) for kind, n in tried.items()]
    total = ("all", str(len(tries)), str(len(tries) - failed.total()), str(failed.total()))
    table(f"BENCH_SEED={seed}", ("class", "tried", "as designed", "failed"), iter([*rows, total]))
    sys.exit(1 if failed else 0)


def built(folder: Path, number: int) -> Path:
    """Build a variant of the library; return its folder."""
    library = folder / f"library{number}" / "libnvidia-ml.so.1"
    library.parent.mkdir()
    compiler = shutil.which("cc") or sys.exit("Missing: a C compiler (cc).")
    options = [each for each in (VARIANTS[number],) if each]
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", *options, "-o", library, SOURCE, "-lpthread"], check=True)
    return library.parent


def driver_tries(chance: random.Random) -> Iterator[Try]:
    """Yield the commands under a hostile driver."""
    watch = ("telemetry", "--json", "--count", "2", "--interval", "0.1")
    kinds = [
        *[("telemetry", (*watch, *(("--gpm",) if number % 2 else ()))) for number in range(TELEMETRY)],
        *[("doctor", ("doctor", "--json"))] * DOCTOR,
        *[("devices", ("devices", "--json"))] * DEVICES,
        *[("run", ("run", "quick", "--simulate", "default", "--json", "--no-save"))] * RUN,
    ]
    for kind, arguments in kinds:
        environment = {
            "HOSTILE_SEED": str(chance.randrange(1, 10**6)),
            "HOSTILE_FAIL": str(chance.choice((0, 5, 30))),
            "HOSTILE_GARBAGE": str(chance.choice((0, 5, 30, 70))),
            "HOSTILE_COUNT": str(chance.choice((0, 1, 2, 8, 64, 65, 2_000_000_000))),
        }
        if chance.random() < 0.15:
            # Only doctor calls the driver in a child process. Elsewhere a crash of the library ends our own process.
            word = "HOSTILE_CRASH" if kind == "doctor" and chance.random() < 0.5 else "HOSTILE_HANG"
            environment[word] = chance.choice(FUNCTIONS)
        yield Try(kind, arguments, environment, chance.randrange(len(VARIANTS)))


def outcome(each: Try, library: Path, folder: Path) -> str:
    """Run one trial; return its failure, or an empty text."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CPUGPU_", "HOSTILE_"))}
    environment = {**inherited, **each.environment, "CPUGPU_DB": str(folder / "history.db")}
    environment |= dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), str(folder))
    environment["LD_LIBRARY_PATH"] = str(library)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cpugpu_tui", *each.arguments],
            cwd=folder, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT_S:g} s"
    error = done.stderr.decode("utf-8", "surrogateescape")
    if "Traceback" in error:
        return f"a traceback: {error.strip().splitlines()[-1]}"
    if done.returncode < 0:
        return f"ended by signal {-done.returncode}"
    try:
        return _CHECKS[each.kind](done.returncode, done.stdout, error)
    except ValueError as wrong:
        return f"no valid JSON: {wrong}"


def _objects(out: bytes) -> list[dict[str, Any]]:
    def refused(word: str) -> None:
        raise ValueError(word)

    return [json.loads(line, parse_constant=refused) for line in out.splitlines()]


def _telemetry(code: int, out: bytes, _error: str) -> str:
    sweeps = _objects(out)
    if code or len(sweeps) != 2:
        return f"exit {code}, {len(sweeps)} sweeps of 2"
    for sweep in sweeps:
        readings = [*sweep["host"].items(), *(item for gpu in sweep["gpus"] for item in gpu["readings"].items())]
        for key, reading in readings:
            value, reason = reading["value"], reading["reason"]
            if value is None and reason not in REASONS:
                return f"{key} has no reason: {reason!r}"
            if value is not None and not LIMITS[key][0] <= value <= LIMITS[key][1]:
                return f"{key} is {value}"
        if not sweep["gpus"] and not sweep["problem"]:
            return "neither a GPU nor a reason why there is none"
    return ""


def _doctor(code: int, out: bytes, _error: str) -> str:
    found = _objects(out)
    if [each["check"] for each in found] != [check.name for check in CHECKS]:
        return "checks are missing"
    failed = [each for each in found if each["verdict"] == "fail"]
    if (code == 1) != bool(failed) or code not in (0, 1):
        return f"exit {code} with {len(failed)} failed checks"
    mute = [each["check"] for each in failed if not each["cause"] or not each["remedy"]]
    own = [each["cause"] for each in failed if each["found"] == "The check itself failed."]
    return f"without a cause or a remedy: {mute}" if mute else f"a check failed itself: {own}" if own else ""


def _devices(code: int, out: bytes, _error: str) -> str:
    return "" if code == 0 and _objects(out) else f"exit {code}"


def _run(code: int, out: bytes, _error: str) -> str:
    last = _objects(out)[-1]
    return "" if (code, last.get("status")) == (0, "done") else f"exit {code}, {last.get('status')}"


_CHECKS = {"telemetry": _telemetry, "doctor": _doctor, "devices": _devices, "run": _run}


if __name__ == "__main__":
    main()
