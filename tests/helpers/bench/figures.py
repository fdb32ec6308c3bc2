"""Figures of benches as data: a JSON object a line, from which the docs are made.

BENCH_FIGURES names the file that a bench appends to; without it nothing is written.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.helpers.bench.surroundings import gpu_names

from cpugpu_tui.agent.main import facts


def record(figure: str, value: str, *, command: str, low: float | None = None, high: float | None = None) -> None:
    """Append a figure with its provenance. `low` and `high` are its interval, percent."""
    path = os.environ.get("BENCH_FIGURES", "")
    if not path:
        return
    found = {"figure": figure, "value": value, "low_pct": low, "high_pct": high, "command": command, **provenance()}
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(found, ensure_ascii=False) + "\n")


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
