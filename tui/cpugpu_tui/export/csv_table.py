"""The CSV export: one row per case, device and metric, or one row per sample."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cpugpu_tui.decide.stats import median
from cpugpu_tui.export.json_document import utc
from cpugpu_tui.export.stream import DeviceResult, ExportedRun, case_results
from cpugpu_tui.model import DeviceSampled, PeerMeasured

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
    "round_index", "sample_index", "elapsed_ns", "calls_per_block", "marks", *SETTING_COLUMNS,
)  # fmt: skip
"""One row per sample. Both indices count from 1; round 0 holds samples taken once before the rounds."""


def csv_table(runs: Sequence[ExportedRun], *, samples: bool) -> Iterator[bytes]:
    """Yield the table with its header: RFC 4180 with line feeds, UTF-8, unrounded numbers with a decimal point."""
    yield _line(SAMPLE_COLUMNS if samples else SUMMARY_COLUMNS)
    for run in runs:
        for row in _sample_rows(run) if samples else _summary_rows(run):
            yield _line(row)


def _summary_rows(run: ExportedRun) -> Iterator[list[Any]]:
    about, settings = _about(run), _settings(run)
    for result in case_results(run.state):
        case = [*about, *_case_cells(result), result.status, result.message]
        named = [(name, found, metric) for name, found in result.devices.items() for metric in found.metrics]
        if not named:
            yield [*case, *[None] * (len(SUMMARY_COLUMNS) - len(case) - len(settings)), *settings]
        for name, found, metric in named:
            cells = _metric_cells(name, found, metric)
            slow = None if found.over_model is None else found.is_slow
            work = [result.flops, result.bytes_moved, found.over_model, slow, None, found.energy_j]
            yield [*case, *cells, *work, *settings]
    for pair in run.state.peers.values():
        yield from ([*row, None, *settings] for row in _peer_rows(about, pair))


def _peer_rows(about: list[Any], pair: PeerMeasured) -> Iterator[list[Any]]:
    """Yield two rows for copies from one GPU to another: the smallest ones and the large ones."""
    device = [f"{pair.source.name}>{pair.target.name}", f"{pair.source.label} > {pair.target.label}"]
    status = "error" if pair.problem else "ok"
    for metric, size_bytes, samples in (
        ("peer_latency", 4, pair.latencies_ns), ("peer_copy", pair.size_bytes, pair.elapsed_ns)
    ):  # fmt: skip
        case = ["transfer", "peer", size_bytes, "float32", None, status, pair.problem]
        numbers = [len(samples), median(samples), min(samples), max(samples)] if samples else [0, None, None, None]
        rest = [None, *numbers, "", None, None, None, None, None, float(size_bytes), None, None, pair.has_access]
        yield [*about, *case, *device, metric, *rest]


def _metric_cells(name: str, found: DeviceResult, metric: str) -> list[Any]:
    short = found.metrics[metric]
    leads = {
        "latency": found.lead,
        "end_to_end_pageable": found.lead_pageable,
        "end_to_end_pinned": found.lead_pinned,
    }
    lead = leads.get(metric)
    comparison = [None] * 4 if lead is None else [lead.speedup, lead.low, lead.high, lead.verdict]
    numbers = [short.samples, short.median_ns, short.min_ns, short.max_ns]
    return [name, found.label, metric, found.threads, *numbers, " ".join(found.marks), *comparison]


def _sample_rows(run: ExportedRun) -> Iterator[list[Any]]:
    about, labels = _about(run), {device.name: device.label for device in run.state.devices}
    for event in run.events:
        row = run.state.rows.get(event.case) if isinstance(event, DeviceSampled) else None
        if row is None or not isinstance(event, DeviceSampled):
            continue
        case = [*about, *_case_cells(row.case), event.device, labels.get(event.device, event.device)]
        tail = [event.calls_per_block, " ".join(event.marks), *_settings(run)]
        for metric, values in event.samples.items():
            for index, elapsed_ns in enumerate(values, 1):
                yield [*case, metric, event.round_index, index, elapsed_ns, *tail]


def _about(run: ExportedRun) -> list[Any]:
    started = run.started
    facts = started.environment
    head = [started.run_id, started.series_id, utc(started.wall_ns), run.name, run.state.simulated]
    return [*head, facts.get("hostname"), facts.get("torch")]


def _settings(run: ExportedRun) -> list[Any]:
    facts = run.started.environment
    return [run.started.plan.cache, facts.get("tf32_matmul"), facts.get("worker")]


def _case_cells(case: Any) -> list[Any]:
    return [getattr(case, name) for name in CASE_COLUMNS]


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
