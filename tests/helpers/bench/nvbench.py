"""NVBench's cold time of torch operations, through its Python package `cuda-bench`, where that is installed."""

import json
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TAG = "nv/cold/time/gpu/mean"
"""Summary of the GPU time of single calls with flushed L2, in seconds."""

MEDIAN_TAG = "nv/cold/time/gpu/median"


def is_installed() -> bool:
    """Whether NVBench can be imported."""
    try:
        return find_spec("cuda.bench") is not None
    except ModuleNotFoundError:
        return False


def cold_us(calls: Mapping[str, Callable[[], object]], seconds_each: float) -> dict[str, float]:
    """Return name → mean GPU time of one call, us; calls must not allocate, for NVBench holds the stream meanwhile."""
    return {name: values[0] for name, values in cold_of(cold_report(calls, seconds_each)).items()}


def cold_report(
    calls: Mapping[str, Callable[[], object]],
    seconds_each: float,
    passes: int = 1,
    beside: Callable[[str], object] = lambda _name: None,
) -> Any:
    """Return NVBench's JSON of all calls, each measured in several passes. Possible once per process.

    `beside(name)` is called before and after each measurement, to time the same call in other ways.
    """
    import torch

    bench: Any = import_module("cuda.bench")

    def measured(state: Any) -> None:
        name = state.get_string("case")
        call = calls[name]
        # Once beforehand: libraries allocate what they need per stream at their first call on it.
        with torch.cuda.stream(torch.cuda.ExternalStream(state.get_stream().addressof())):
            call()
        torch.cuda.synchronize()

        def launch(given: Any) -> None:
            with torch.cuda.stream(torch.cuda.ExternalStream(given.get_stream().addressof())):
                call()

        beside(name)
        state.exec(launch, sync=False, batched=False)
        beside(name)

    bench.register(measured).add_string_axis("case", list(calls)).add_int64_axis("pass", list(range(passes)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nvbench.json"
        bench.run_all_benchmarks(["nvbench", "--quiet", "--timeout", f"{seconds_each:g}", "--json", str(path)])
        return json.loads(path.read_text())


def cold_of(report: Any, tag: str = TAG) -> dict[str, list[float]]:
    """Return case → us of each pass from NVBench's JSON; cases that it skipped are left out."""
    found: dict[str, list[float]] = {}
    for state in report["benchmarks"][0]["states"]:
        name = next(axis["value"] for axis in state["axis_values"] if axis["name"] == "case")
        for summary in state.get("summaries") or ():
            if summary["tag"] == tag:
                found.setdefault(name, []).append(float(summary["data"][0]["value"]) * 1e6)
    return found
