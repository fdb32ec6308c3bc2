"""The receipt of a row as sentences: what a call of own code executed, and what compiling cost and when it pays."""

from __future__ import annotations

from dataclasses import replace

from cpugpu_tui.analysis.costs import NEVER, calls_to_pay
from cpugpu_tui.errors import shown
from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import CodeCompiled, CodeTraced, CommandUse, LineCost, LinesProfiled, OwnCode, line_costs
from cpugpu_tui.model.quantities import count_of, faster, percent, significant, size_text, time_text
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.workloads.code_target import CALLER


def code_lines(run: RunState) -> list[str]:
    """Return the typed code of a run, a line for each statement, the first after the run's other workloads."""
    lines = list(dict.fromkeys(map(code_text, run.plan.codes)))
    typed = {code.name for code in run.plan.codes}
    others = [name for name in run.plan.name.split("+") if name not in typed]
    return [" + ".join([*others, lines[0]]), *lines[1:]] if lines else []


def code_text(code: OwnCode) -> str:
    """Return a statement, its parameters and its setup on one line."""
    lets = "".join(f" · {name} = {value}" for name, value in code.lets)
    return f"{code.statement}{lets}{' · setup: ' if code.setup else ''}{'; '.join(code.setup)}"


def run_receipt(run: RunState) -> list[str]:
    """Return the receipt of the largest row of each workload, with its size; nothing of code that was not run."""
    if run.simulated and run.plan.codes:
        return caller_lines(run)
    largest: dict[str, Row] = {}
    for row in run.rows.values():
        if any(times.traced is not None for times in row.times.values()):
            known = largest.get(row.case.workload)
            largest[row.case.workload] = row if known is None or row.case.size > known.case.size else known
    found = [*caller_lines(run), *compiled_receipt(run)]
    for name, row in largest.items():
        where = f"{f' ({name})' if len(largest) > 1 else ''} at n = {size_text(row.case.size)}"
        found += [f"Where it ran{where}, {line}" for line in receipt_lines(row)]
        for profiled in slow_lines(row):
            found.append(f"Slowest lines on {profiled.device}{where} ({profiled_words(profiled)}):")
            found += [f"  {line_words(cost, profiled.device)}" for cost in profiled.lines[:MOST_PRINTED]]
    return found


def caller_lines(run: RunState) -> list[str]:
    """Return why code ran in the process that asked for the run; nothing for the usual process of its own."""
    return [
        f"Ran in the caller's process: {code.target[1]}." for code in run.plan.codes if code.target[:1] == (CALLER,)
    ]


def receipt_lines(row: Row) -> list[str]:
    """Return one sentence for each device, the CPU last: what ran, what was copied, who waited."""
    return [_line(times, times.traced) for times in _cpu_last(row) if times.traced is not None]


def _cpu_last(row: Row) -> list[DeviceTimes]:
    return sorted(row.times.values(), key=lambda times: times.device == "cpu")


MOST_PRINTED = 3
"""Most lines of code below a table."""


LOOP_PASSES = 8
"""From so many passes of a line on, a sentence says that they are a loop."""


def slow_lines(row: Row) -> list[LinesProfiled]:
    """Return the profiles of a row, the CPU last, without those that say no more than the code itself."""
    found = [times.lines for times in _cpu_last(row) if times.lines is not None]
    return [each for each in found if len(each.lines) > 1 or any(c.reason != line_costs.WORK for c in each.lines)]


def profiled_words(profiled: LinesProfiled) -> str:
    """Return what the profiler cost: the times of its calls are not those of the row."""
    return f"profiled call: {time_text(profiled.profiled_ns)} against {time_text(profiled.unprofiled_ns)} unprofiled"


def line_words(cost: LineCost, device: str) -> str:
    """Return a line of code, why it takes its time, and how much that is."""
    place = {"statement": "statement", "setup": f"setup line {cost.line}"}.get(cost.file, f"{cost.file}:{cost.line}")
    share = f"{percent(cost.share)} % of the call"
    on_gpu = " on the GPU" if cost.device_ns > cost.elapsed_ns else ""
    time = f"{time_text(max(cost.elapsed_ns, cost.device_ns))}{on_gpu}"
    if cost.reason == line_costs.WAIT and device != "cpu":
        loop = " of a Python loop" if cost.visits >= LOOP_PASSES else ""
        return f"{shown(place)} `{shown(cost.source_line)}`: waits {time} for the GPU{_visits(cost)}{loop}, {share}."
    return f"{shown(place)} `{shown(cost.source_line)}`: {_reason(cost)}, {time}, {share}."


def _reason(cost: LineCost) -> str:
    operators = count_of(cost.operators, "operator")
    match cost.reason:
        case line_costs.WAIT:
            return f"reads results on the host{_visits(cost)} (a GPU would have to finish first)"
        case line_costs.COPY:
            sides = ((cost.bytes_to_gpu, "to the GPU"), (cost.bytes_to_host, "to the host"))
            moved = " and ".join(f"{_bytes(count_bytes)} {where}" for count_bytes, where in sides if count_bytes)
            waits = "waits for the GPU and " if cost.bytes_to_host else ""
            return f"{waits}copies {moved or 'nothing'}{_visits(cost)}"
        case line_costs.FALLBACK:
            return f"{count_of(cost.on_cpu, 'operator')} on the CPU although the device is a GPU"
        case line_costs.LOOP:
            reads = f", {count_of(cost.synchronisations, 'result')} read on the host" if cost.synchronisations else ""
            return f"Python loop, {f'{operators} in ' if cost.operators else ''}{cost.visits:,} passes{reads}"
        case line_costs.SMALL:
            return f"{cost.operators:,} small operators"
        case line_costs.OUTSIDE:
            return "Python or a library outside torch"
    return f"{operators}{_visits(cost)}"


def _visits(cost: LineCost) -> str:
    return f" in {cost.visits:,} passes" if cost.visits > 1 else ""


def _line(times: DeviceTimes, traced: CodeTraced) -> str:
    if traced.used is not None:
        return f"{traced.device}: {', '.join(_of_command(times, traced, traced.used))}."
    parts = [traced.library or count_of(traced.operators, "operator")]
    if times.kernels is not None:
        parts.append(f"{count_of(times.kernels.count, 'kernel')} in {time_text(times.kernels.elapsed_ns)}")
    if traced.device != "cpu" and not traced.library:
        parts += _copies(traced)
        parts.append(count_of(traced.synchronisations, "synchronisation") if traced.synchronisations else "no waits")
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
    parts = [count_of(used.processes, "process", "processes")]
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
        f"{count_of(number, 'copy', 'copies')} {where} ({_bytes(count_bytes)})"
        for number, count_bytes, where in (
            (traced.copies_to_gpu, traced.bytes_to_gpu, "to the GPU"),
            (traced.copies_to_host, traced.bytes_to_host, "to the host"),
        )
        if number
    ]
    return found or ["no copies"]


def _bytes(count_bytes: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count_bytes >= scale:
            return f"{significant(count_bytes / scale)} {unit}"
    return f"{count_bytes:.0f} B"


# ------------------------------------------------------------------ compiling


def compiled_lines(run: RunState, row: Row) -> list[str]:
    """Return one sentence for each device, the CPU last."""
    return [_compile_line(run, row, times, times.compiled) for times in _cpu_last(row) if times.compiled is not None]


def compiled_receipt(run: RunState) -> list[str]:
    """Return the sentences of the largest compiled row of each sweep."""
    largest = {
        sweep: max(done, key=lambda row: row.case.size)
        for sweep, rows in run.sweeps.items()
        if (done := [row for row in rows if row.status == "ok" and any(each.compiled for each in row.times.values())])
    }
    return [
        f"Compiled {row.case.workload} at n = {size_text(row.case.size)}, {line}"
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


def _compile_line(run: RunState, row: Row, times: DeviceTimes, compiled: CodeCompiled) -> str:
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
