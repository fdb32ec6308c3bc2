"""What a call of a person's own code executed, as sentences: the receipt of a row."""

from __future__ import annotations

from cpugpu_tui.model import CodeTraced, CommandUse, OwnCode
from cpugpu_tui.model.quantities import significant, time_text
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.telemetry.reasons import REASONS


def code_lines(run: RunState) -> list[str]:
    """Return the typed code of a run, a line for each statement and one for the setup."""
    codes = run.run.plan.codes if run.run is not None else ()
    return list(dict.fromkeys(code_text(code) for code in codes))


def code_text(code: OwnCode) -> str:
    """Return a statement, its parameters and its setup on one line."""
    lets = "".join(f" · {name} = {value}" for name, value in code.lets)
    return f"{code.statement}{lets}{' · setup: ' if code.setup else ''}{'; '.join(code.setup)}"


def run_receipt(run: RunState) -> list[str]:
    """Return the receipt of the largest row of each workload, with its size."""
    largest: dict[str, Row] = {}
    for row in run.rows.values():
        if any(times.traced is not None for times in row.times.values()):
            known = largest.get(row.case.workload)
            largest[row.case.workload] = row if known is None or row.case.size > known.case.size else known
    return [
        f"Where it ran{f' ({name})' if len(largest) > 1 else ''} at n = {row.case.size:,}, {line}"
        for name, row in largest.items()
        for line in receipt_lines(row)
    ]


def receipt_lines(row: Row) -> list[str]:
    """Return one sentence for each device, the CPU last: what ran, what was copied, who waited."""
    ordered = sorted(row.times.values(), key=lambda times: times.device == "cpu")
    return [_line(times, times.traced) for times in ordered if times.traced is not None]


def _line(times: DeviceTimes, traced: CodeTraced) -> str:
    if traced.used is not None:
        return f"{traced.device}: {', '.join(_of_command(times, traced, traced.used))}."
    parts = [_count(traced.operators, "operator")]
    if times.kernels is not None:
        parts.append(f"{_count(times.kernels.count, 'kernel')} in {time_text(times.kernels.elapsed_ns)}")
    if traced.device != "cpu":
        parts += _copies(traced)
        parts.append(_count(traced.synchronisations, "synchronisation") if traced.synchronisations else "no waits")
    if traced.on_cpu:
        parts.append(f"on the CPU although it was given a GPU: {', '.join(traced.on_cpu)}")
    if traced.peak_bytes is not None:
        parts.append(f"peak {_bytes(traced.peak_bytes)} on the GPU")
    elif traced.peak_host_bytes is not None:
        parts.append(f"peak {_bytes(traced.peak_host_bytes)} in the process")
    if traced.sets_default_device:
        parts.append("with this device as torch's default")
    if traced.not_compared:
        parts.append(f"results not compared: {traced.not_compared}")
    return f"{traced.device}: {', '.join(parts)}."


def _of_command(times: DeviceTimes, traced: CodeTraced, used: CommandUse) -> list[str]:
    parts = [_count(used.processes, "process", "processes")]
    if used.hides_gpus:
        parts.append("GPUs hidden by an empty CUDA_VISIBLE_DEVICES")
    if used.gpu_reason is not None:
        why = REASONS.get(used.gpu_reason, "unknown")
        parts.append(f"cannot know whether they used the GPU ({why})")
    if traced.peak_bytes is not None:
        parts.append(f"peak {_bytes(traced.peak_bytes)} on the GPU")
    if used.utilisation_pct is not None:
        parts.append(f"up to {used.utilisation_pct:.0f} % GPU utilisation")
    if traced.peak_host_bytes is not None:
        parts.append(f"peak {_bytes(traced.peak_host_bytes)} on the host")
    whole_ns = times.latency_ns
    if used.startup_ns is not None and whole_ns:
        share = min(100.0, 100 * used.startup_ns / whole_ns)
        parts.append(f"start-up takes {time_text(used.startup_ns)}, {share:.0f} % of {time_text(whole_ns)}")
    return parts


def _copies(traced: CodeTraced) -> list[str]:
    found = [
        f"{_count(number, 'copy', 'copies')} {where} ({_bytes(count_bytes)})"
        for number, count_bytes, where in (
            (traced.copies_to_gpu, traced.bytes_to_gpu, "to the GPU"),
            (traced.copies_to_host, traced.bytes_to_host, "to the host"),
        )
        if number
    ]
    return found or ["no copies"]


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def _bytes(count_bytes: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count_bytes >= scale:
            return f"{significant(count_bytes / scale)} {unit}"
    return f"{count_bytes:.0f} B"
