"""Export formats, by name and by suffix of the file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from cpugpu_tui.decide.stats import median
from cpugpu_tui.errors import UsageError, did_you_mean
from cpugpu_tui.export.json_document import utc
from cpugpu_tui.export.stream import DeviceResult, ExportedRun, case_results, ndjson
from cpugpu_tui.model import DeviceSampled, PeerMeasured

SUFFIXES = {
    "json": ".json", "ndjson": ".ndjson", "csv": ".csv", "markdown": ".md", "html": ".html", "svg": ".svg",
    "png": ".png",
}  # fmt: skip
"""Formats written to one file, with its suffix."""

PICTURES = ("svg", "png")
"""Formats that hold only the charts."""

TENSORBOARD = "tensorboard"
"""The format written to a folder."""

THRESHOLDS = "thresholds"
"""The format of a file whose name ends in `thresholds.json`: the crossovers alone, for programs."""

FORMATS = (*SUFFIXES, TENSORBOARD)

_BY_SUFFIX = {
    **{suffix: name for name, suffix in SUFFIXES.items()}, ".jsonl": "ndjson", ".markdown": "markdown", ".htm": "html",
}  # fmt: skip


def checked(name: str) -> str:
    """Return the full name of a format; a suffix like `md` is accepted too.

    Raises:
        UsageError: the format is unknown.
    """
    known = name.lower()
    known = _BY_SUFFIX.get(f".{known}", known)
    if known not in FORMATS:
        raise UsageError(f"Unknown format {name!r}.", did_you_mean(known, FORMATS))
    return known


def required_format_of(path: Path) -> str:
    """Return the format by the suffix of a file.

    Raises:
        UsageError: the suffix is unknown.
    """
    is_thresholds = path.name.lower().endswith("thresholds.json")
    found = THRESHOLDS if is_thresholds else _BY_SUFFIX.get(path.suffix.lower())
    if found is None:
        *most, last = SUFFIXES.values()
        if not path.name:
            raise UsageError("The name of the file is empty.", f"Give a name that ends in {', '.join(most)} or {last}.")
        raise UsageError(f"Unknown format of {path}.", f"Use a name that ends in {', '.join(most)} or {last}.")
    return found


def need(name: str) -> None:
    """Check that the packages of a format are installed.

    Raises:
        UnfitError: a package is missing.
    """
    modules = {"html": "html_report", **dict.fromkeys(PICTURES, "chart"), TENSORBOARD: "tensorboard"}
    if name in modules:
        import_module(f"cpugpu_tui.export.{modules[name]}").need()


def rendered(name: str, runs: Sequence[ExportedRun], *, samples: bool = False) -> Iterable[bytes]:
    """Return the content of a file of these runs. `samples` selects one CSV row per sample.

    Raises:
        UnfitError: a package is missing.
    """
    from cpugpu_tui.export import json_document, markdown

    if name == "csv":
        return csv_table(runs, samples=samples)
    if name == "html":
        from cpugpu_tui.export.html_report import report

        return report(runs)
    if name in PICTURES:
        from cpugpu_tui.export.chart import picture

        return picture(runs, name)
    if name == THRESHOLDS:
        from cpugpu_tui.export import thresholds

        first, *others = {run.started.series_id: run.state for run in runs}.values()  # of a series, the last run
        found = reduce(lambda file, run: thresholds.thresholds_of(run, file), others, thresholds.thresholds_of(first))
        return [thresholds.rendered("json", found).encode()]
    plain = {"json": json_document.json_document, "ndjson": ndjson, "markdown": markdown.markdown}
    return plain[name](runs)


RUN_COLUMNS = ("run_id", "series_id", "started", "name", "simulated", "hostname", "torch")
CASE_COLUMNS = ("workload", "variant", "size", "dtype", "threads")
DEVICE_COLUMNS = ("device", "device_label", "metric")
SETTING_COLUMNS = ("cache", "tf32", "worker")
"""Settings of a run that affect its times."""
SUMMARY_COLUMNS = (
    *RUN_COLUMNS, *CASE_COLUMNS, "status", "message", *DEVICE_COLUMNS, "threads_in_force", "samples", "median_ns",
    "min_ns", "max_ns", "marks", "speedup", "speedup_low", "speedup_high", "verdict", "flops", "bytes_moved",
    "over_model", "slow", "peer_access", "energy_j", *SETTING_COLUMNS,
)  # fmt: skip
"""One row per metric. Rows of a GPU's latency have speedup and verdict. Unknown values are empty, never 0.

Copies between GPUs have the variant `peer` and devices like `cuda:0>cuda:1`.
"""

SAMPLE_COLUMNS = (
    *RUN_COLUMNS, *CASE_COLUMNS, *DEVICE_COLUMNS,
    "start", "round_index", "sample_index", "elapsed_ns", "calls_per_block", "marks", *SETTING_COLUMNS,
)  # fmt: skip
"""One row per sample. Start 0 is the first one of the process, as in JSON. Both indices count from 1; round 0 holds
samples taken once before the rounds."""


Row = Mapping[str, Any]
"""Column → its value."""


def csv_table(runs: Sequence[ExportedRun], *, samples: bool) -> Iterator[bytes]:
    """Yield the table with its header: RFC 4180 with line feeds, UTF-8, unrounded numbers with a decimal point."""
    columns = SAMPLE_COLUMNS if samples else SUMMARY_COLUMNS
    yield _line(columns)
    for run in runs:
        about = _about(run)
        for row in _sample_rows(run) if samples else _summary_rows(run):
            yield _line({**about, **row}.get(column) for column in columns)


def _summary_rows(run: ExportedRun) -> Iterator[Row]:
    for result in case_results(run.state, run.differing):
        status = run.status if result.status == "pending" else result.status
        case = {**_case_cells(result), "status": status, "message": result.message}
        named = [(name, found, metric) for name, found in result.devices.items() for metric in found.metrics]
        if not named:
            yield case
        for name, found, metric in named:
            slow = None if found.over_model is None else found.is_slow
            yield {
                **case, **_metric_cells(name, found, metric), "flops": result.flops, "bytes_moved": result.bytes_moved,
                "over_model": found.over_model, "slow": slow, "energy_j": found.energy_j,
            }  # fmt: skip
    for pair in run.state.peers.values():
        yield from _peer_rows(pair)


def _peer_rows(pair: PeerMeasured) -> Iterator[Row]:
    """Yield two rows for copies from one GPU to another: the smallest ones and the large ones."""
    for metric, size_bytes, samples in (
        ("peer_latency", 4, pair.latencies_ns), ("peer_copy", pair.size_bytes, pair.elapsed_ns)
    ):  # fmt: skip
        numbers = (median(samples), min(samples), max(samples)) if samples else ()
        yield {
            "workload": "transfer", "variant": "peer", "size": size_bytes, "dtype": "float32",
            "status": "error" if pair.problem else "ok", "message": pair.problem,
            "device": f"{pair.source.name}>{pair.target.name}",
            "device_label": f"{pair.source.label} > {pair.target.label}", "metric": metric, "samples": len(samples),
            **dict(zip(("median_ns", "min_ns", "max_ns"), numbers, strict=False)), "marks": "",
            "bytes_moved": float(size_bytes), "peer_access": pair.has_access,
        }  # fmt: skip


def _metric_cells(name: str, found: DeviceResult, metric: str) -> Row:
    short = found.metrics[metric]
    leads = {"latency": found.lead, "end_to_end_pageable": found.lead_pageable, "end_to_end_pinned": found.lead_pinned}
    lead = leads.get(metric)
    comparison = {} if lead is None else {
        "speedup": lead.speedup, "speedup_low": lead.low, "speedup_high": lead.high, "verdict": lead.verdict,
    }  # fmt: skip
    return {
        "device": name, "device_label": found.label, "metric": metric, "threads_in_force": found.threads,
        **asdict(short), "marks": " ".join(found.marks), **comparison,
    }  # fmt: skip


def _sample_rows(run: ExportedRun) -> Iterator[Row]:
    labels = {device.name: device.label for device in run.state.devices}
    for event in run.events:
        if not isinstance(event, DeviceSampled) or (row := run.state.rows.get(event.case)) is None:
            continue
        half_round = {
            **_case_cells(row.case), "device": event.device, "device_label": labels.get(event.device, event.device),
            "start": event.start, "round_index": event.round_index,
            "calls_per_block": event.calls_per_block, "marks": " ".join(event.marks),
        }  # fmt: skip
        for metric, values in event.samples.items():
            for index, elapsed_ns in enumerate(values, 1):
                yield {**half_round, "metric": metric, "sample_index": index, "elapsed_ns": elapsed_ns}


def _about(run: ExportedRun) -> Row:
    """Return the facts and settings of a run."""
    started, facts = run.started, run.started.environment
    return {
        "run_id": started.run_id, "series_id": started.series_id, "started": utc(started.wall_ns), "name": run.name,
        "simulated": run.state.simulated, "hostname": facts.get("hostname"), "torch": facts.get("torch"),
        "cache": started.plan.cache, "tf32": facts.get("tf32_matmul"), "worker": facts.get("worker"),
    }  # fmt: skip


def _case_cells(case: Any) -> Row:
    return {name: getattr(case, name) for name in CASE_COLUMNS}


def _line(cells: Iterable[Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_cell(cell) for cell in cells])
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    """Return a cell: floats by `repr`, and text that a spreadsheet does not treat as a formula."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return repr(value) if isinstance(value, float) else value
