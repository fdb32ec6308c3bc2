"""NVBench's cold time of torch operations, through its Python package `cuda-bench`, where that is installed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TAG = "nv/cold/time/gpu/mean"
"""Summary of the GPU time of single calls with flushed L2, in seconds."""


def is_installed() -> bool:
    """Whether NVBench can be imported."""
    try:
        return find_spec("cuda.bench") is not None
    except ModuleNotFoundError:
        return False


def cold_us(calls: Mapping[str, Callable[[], object]], seconds_each: float) -> dict[str, float]:
    """Return name → mean GPU time of one call, us; calls must not allocate, for NVBench holds the stream meanwhile."""
    import torch

    bench: Any = import_module("cuda.bench")

    def measured(state: Any) -> None:
        call = calls[state.get_string("case")]
        # Once beforehand: libraries allocate what they need per stream at their first call on it.
        with torch.cuda.stream(torch.cuda.ExternalStream(state.get_stream().addressof())):
            call()
        torch.cuda.synchronize()

        def launch(given: Any) -> None:
            with torch.cuda.stream(torch.cuda.ExternalStream(given.get_stream().addressof())):
                call()

        state.exec(launch, sync=False)

    bench.register(measured).add_string_axis("case", list(calls))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nvbench.json"
        bench.run_all_benchmarks(["nvbench", "--quiet", "--timeout", f"{seconds_each:g}", "--json", str(path)])
        return cold_of(json.loads(path.read_text()))


def cold_of(report: Any) -> dict[str, float]:
    """Return case → us from NVBench's JSON; cases that it skipped are left out."""
    found = {}
    for state in report["benchmarks"][0]["states"]:
        name = next(axis["value"] for axis in state["axis_values"] if axis["name"] == "case")
        for summary in state.get("summaries") or ():
            if summary["tag"] == TAG:
                found[name] = float(summary["data"][0]["value"]) * 1e6
    return found
