"""Figures of benches as data: a JSON object a line, from which the docs are made.

A bench prints each figure in the words of the docs. BENCH_FIGURES names the file that it appends them to.
"""

import hashlib
import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.helpers.bench.surroundings import gpu_names

from cpugpu_tui.agent.main import facts

ROOT = Path(__file__).resolve().parents[3]


PART = "BENCH_PART"
"""Variable that names the part of `make bench` that runs."""

OPTIONS = ("PART", "BENCH_TRIALS", "BENCH_SECONDS", "BENCH_ITEMS")
"""Variables that change what a bench measures: its command names them."""


def record(figure: str, value: str, **more: str) -> None:
    """Print a figure, and append it with its provenance and a hash of the files that it speaks of.

    `figure` says what was measured: a constant text, which the docs repeat. `more` goes to the line as it is.
    """
    print(f"\n{figure}: {value}", flush=True)
    path, part = os.environ.get("BENCH_FIGURES", ""), os.environ.get(PART, "")
    if not path:
        return
    files = spoken_of(part)
    options = " ".join(f"{name}={os.environ[name]}" for name in OPTIONS if name in os.environ)
    found = {
        "figure": figure, "value": value, "command": f"{options} make bench ONLY={part}".strip(), **provenance(),
        **more, "files": files, "code_sha256": hash_of(files),
    }  # fmt: skip
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(found, ensure_ascii=False) + "\n")


def spoken_of(part: str) -> list[str]:
    """Return the files that the figures of a part speak of: its own, and what it imports of the program."""
    (path,) = (ROOT / "tests" / "bench").rglob(f"{part}.py")
    origin = r"^from (cpugpu_tui[\w.]*|tests\.helpers\.bench) import \(?([\w, ]*)"
    imports = re.findall(origin, path.read_text(), re.MULTILINE)
    found = [path]
    for room, names in imports:
        place = ROOT / ("tui" if room.startswith("cpugpu_tui") else "") / room.replace(".", "/")
        found += [place.with_suffix(".py"), *(place / f"{name.strip()}.py" for name in names.split(","))]
    return sorted(str(each.relative_to(ROOT)) for each in set(found) if each.exists())


def hash_of(files: Sequence[str], root: Path = ROOT) -> str:
    """Return a hash of files of the repository; a file that is gone counts as empty."""
    found = hashlib.sha256()
    for file in files:
        path = root / file
        found.update(file.encode() + b"\0" + (path.read_bytes() if path.exists() else b"") + b"\0")
    return found.hexdigest()[:16]


def provenance() -> dict[str, Any]:
    """Return what a figure of this moment needs to be repeated."""
    return {
        "cpu": facts(simulated=True)["cpu"], "cores": len(os.sched_getaffinity(0)), "gpu": ", ".join(gpu_names()),
        "torch": version("torch"), "python": platform.python_version(), "date": time.strftime("%Y-%m-%d"),
        "commit": os.environ.get("BENCH_COMMIT", "") or _commit(),
    }  # fmt: skip


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()
