"""What compiling a row cost, and after how many calls it pays, as sentences."""

from __future__ import annotations

from dataclasses import replace

from cpugpu_tui.analysis.costs import NEVER, calls_to_pay
from cpugpu_tui.model import CodeCompiled
from cpugpu_tui.model.quantities import count_of, faster, time_text
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import Row, RunState


def compiled_lines(run: RunState, row: Row) -> list[str]:
    """Return one sentence for each device, the CPU last."""
    ordered = sorted(row.times.values(), key=lambda times: times.device == "cpu")
    return [_line(run, row, times, times.compiled) for times in ordered if times.compiled is not None]


def compiled_receipt(run: RunState) -> list[str]:
    """Return the sentences of the largest compiled row of each sweep."""
    largest = {
        sweep: max(done, key=lambda row: row.case.size)
        for sweep, rows in run.sweeps.items()
        if (done := [row for row in rows if row.status == "ok" and any(each.compiled for each in row.times.values())])
    }
    return [
        f"Compiled {row.case.workload} at n = {row.case.size:,}, {line}"
        for row in largest.values()
        for line in compiled_lines(run, row)
    ]


def eager_ns(run: RunState, row: Row, times: DeviceTimes) -> float | None:
    """Return the latency of the same work in eager mode on the same device, ns; None if this run has no valid one."""
    eager = _eager(run, row, times.compiled) if times.compiled is not None else None
    found = eager.times.get(times.device) if eager is not None and eager.status == "ok" else None
    return None if found is None or found.is_starved or times.is_starved else found.latency_ns


def _eager(run: RunState, row: Row, compiled: CodeCompiled) -> Row | None:
    return run.rows.get(replace(row.case, variant=compiled.variant).key)


def _line(run: RunState, row: Row, times: DeviceTimes, compiled: CodeCompiled) -> str:
    parts = [f"{time_text(compiled.elapsed_ns)} to compile"]
    if not compiled.has_kernels:
        parts.append("no code of its own (a call runs torch's operators)")
    was_ns = eager_ns(run, row, times)
    calls = calls_to_pay(compiled.elapsed_ns, was_ns, times.latency_ns)
    if _eager(run, row, compiled) is None:
        parts.append(f"time the variant {compiled.variant} in the same run to see when it pays")
    elif was_ns is None or times.latency_ns is None or calls is None:
        parts.append("whether it pays is unknown")
    else:
        parts.append(f"{faster(was_ns / times.latency_ns)} than eager")
        parts.append("never pays" if calls == NEVER else f"pays after {count_of(float(f'{calls:.3g}'), 'call')}")
    return f"{times.device}: {', '.join(parts)}."
