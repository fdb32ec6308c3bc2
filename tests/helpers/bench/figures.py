"""Figures of benches as data: a JSON object a line, from which the docs are made.

BENCH_FIGURES names the file that a bench appends to; without it nothing is written.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.helpers.bench.surroundings import gpu_names

from cpugpu_tui.agent.main import facts

ROOT = Path(__file__).resolve().parents[3]


def record(
    figure: str, value: str, *, command: str, files: Sequence[str],
    low: float | None = None, high: float | None = None,
) -> None:  # fmt: skip
    """Append a figure with its provenance, and a hash of the files that it speaks of.

    `low` and `high` are its interval, percent.
    """
    path = os.environ.get("BENCH_FIGURES", "")
    if not path:
        return
    found = {"figure": figure, "value": value, "low_pct": low, "high_pct": high, "command": command,
             "files": list(files), "code_sha256": hash_of(files), **provenance()}  # fmt: skip
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(found, ensure_ascii=False) + "\n")


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
