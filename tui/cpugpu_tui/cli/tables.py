"""Tables on stdout, from the same state that the panes show."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from cpugpu_tui.analysis.quantities import duration, significant, time_text
from cpugpu_tui.analysis.verdict import CPU_WINS, GPU_WINS
from cpugpu_tui.model import DEVICE
from cpugpu_tui.runs.state import DeviceTimes, Row, RunState

if TYPE_CHECKING:
    from cpugpu_tui.runs.store import RunSummary

FASTER = {GPU_WINS: "GPU faster", CPU_WINS: "CPU faster"}


def console() -> Console:
    """Return a console on stdout that never cuts a table that goes into a pipe."""
    return Console(highlight=False, markup=False, soft_wrap=False, width=None if sys.stdout.isatty() else 160)


def new_table() -> Table:
    """Return an empty table in the house style."""
    unicode = "utf" in (sys.stdout.encoding or "").lower()
    return Table(box=box.SIMPLE_HEAD if unicode else box.ASCII, pad_edge=False, safe_box=True)


def run_table(state: RunState) -> Table:
    """Return one row per case: times, speed-up with its interval, verdict, what the publication's clock says."""
    table = new_table()
    several = len({(r.case.workload, r.case.variant) for r in state.rows.values()}) > 1
    table.add_column("case" if several else "size", justify="left" if several else "right")
    table.add_column("CPU", justify="right")
    has_gpu = state.gpu is not None
    if has_gpu:
        for name in ("GPU", "GPU device", "speed-up", "±"):
            table.add_column(name, justify="right")
        table.add_column("verdict")
        table.add_column("as written", justify="right")
    table.add_column("marks")
    for row in state.rows.values():
        table.add_row(*_cells(row, several=several, has_gpu=has_gpu))
    return table


def _cells(row: Row, *, several: bool, has_gpu: bool) -> list[str]:
    case = row.case
    threads = f" t{case.threads}" if case.threads else ""
    name = f"{case.workload} {case.variant} {case.size:,}{threads}" if several else f"{case.size:,}{threads}"
    cells = [name, _latency(row.cpu, row)]
    if has_gpu:
        device_ns = None if row.gpu is None or row.status == "mismatch" else row.gpu.median_ns(DEVICE)
        cells += [_latency(row.gpu, row), "–" if device_ns is None else time_text(device_ns), *_comparison(row)]
        cells.append("–" if row.naive_factor is None else f"off ×{significant(row.naive_factor)}")
    return [*cells, _remark(row)]


def _latency(times: DeviceTimes | None, row: Row) -> str:
    if times is None or times.latency_ns is None or row.status == "mismatch":
        return "–"
    return time_text(times.latency_ns)


def _comparison(row: Row) -> tuple[str, str, str]:
    comparison = row.comparison
    if comparison is None:
        return "–", "–", "–"
    plus_minus = comparison.plus_minus
    return (
        f"×{significant(comparison.speedup)}",
        "–" if plus_minus is None else f"{100 * plus_minus:.1f} %",
        FASTER.get(comparison.verdict, comparison.verdict),
    )


def _remark(row: Row) -> str:
    """Return why there is no time, or what was odd about it."""
    if row.failure is not None:
        return f"{row.failure.kind}: {row.failure.message}"
    remarks = list(row.marks)
    if any(times.timed_once for times in row.times.values()):
        remarks.append("1 sample")
    unstable = [t.device for t in row.times.values() if t.calibrated is not None and not t.calibrated.stable]
    if unstable:
        remarks.append(f"warm-up not stable on {', '.join(unstable)}")
    return ", ".join(remarks)


def heading(state: RunState) -> str:
    """Return the line that names both processors, torch and the precision."""
    if state.run is None:
        return ""
    facts = state.run.environment
    parts = [device.label for device in state.devices]
    if state.threads:
        parts.append(f"{state.threads} CPU thread{'s' if state.threads != 1 else ''}")
    if facts.get("torch"):
        parts.append(f"torch {facts['torch']}")
    if facts.get("tf32_matmul"):
        parts.append("TF32 on")
    if facts.get("worker") == "thread":
        parts.append("worker: thread")
    text = " · ".join(parts)
    return f"SIMULATED: no number here was measured. {text}" if state.simulated else text


def summary(state: RunState, notice: str | None) -> list[str]:
    """Return the lines under the table: answer, failures, where the run is kept, and how to repeat it."""
    lines = [state.answer] if state.answer else []
    finished = state.finished
    if finished is not None and finished.message:
        lines.append(f"{finished.status}: {finished.message} {finished.remedy}".strip())
    inherited = (state.run.environment.get("inherited") if state.run else None) or {}
    if inherited:
        names = ", ".join(f"{name}={value}" for name, value in inherited.items())
        lines.append(f"Warning: inherited {names}; such variables can make the CPU side slow.")
    if notice:
        lines.append(notice)
    if state.run is not None and state.run.number is not None:
        lines.append(f"Saved as run {state.run.number}: cpugpu-tui show {state.run.number}")
    return lines


def print_state(state: RunState, notice: str | None = None) -> None:
    """Print heading, table and summary of a run."""
    out = console()
    if state.rows:
        out.print(heading(state), soft_wrap=True)
        out.print(run_table(state))
    for line in summary(state, notice):
        out.print(line, soft_wrap=True)


def history_table(runs: Sequence[RunSummary]) -> Table:
    """Return one row per run, newest first."""
    table = new_table()
    for name, justify in (("run", "right"), ("started", "left"), ("what", "left"), ("status", "left"),
                          ("cases", "right"), ("took", "right"), ("devices", "left")):  # fmt: skip
        table.add_column(name, justify="right" if justify == "right" else "left")
    for run in runs:
        started = datetime.fromtimestamp(run.started_wall_ns / 1e9)
        cases = f"{run.cases_ok} ok" + (f", {run.cases_failed} failed" if run.cases_failed else "")
        table.add_row(
            str(run.number), f"{started:%Y-%m-%d %H:%M:%S}", run.name, run.status, cases,
            "–" if run.duration_ns is None else duration(run.duration_ns / 1e9),
            " · ".join(run.devices),
        )  # fmt: skip
    return table
