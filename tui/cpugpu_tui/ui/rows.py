"""From a row of the run to the cells of the table: pure functions, no widget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpugpu_tui.analysis.alike import Standing
from cpugpu_tui.analysis.quantities import US, Unit, half_width, percent, significant, size_text, unit_for
from cpugpu_tui.analysis.stats import median
from cpugpu_tui.analysis.verdict import CPU_WINS, GPU_WINS, TIE, TOO_FEW, UNDECIDED
from cpugpu_tui.model import DEVICE, PAGEABLE, Case
from cpugpu_tui.runs.columns import is_column, table_rows, thread_columns, with_threads
from cpugpu_tui.runs.device_times import DeviceTimes
from cpugpu_tui.runs.gpus import row_standings
from cpugpu_tui.runs.insight import end_to_end, row_limit, written
from cpugpu_tui.runs.no_core import WORD as NO_CORE_WORD
from cpugpu_tui.runs.state import Row, RunState
from cpugpu_tui.ui.glyphs import Glyphs, trend_text
from cpugpu_tui.ui.roles import Spans

if TYPE_CHECKING:
    from cpugpu_tui.runs.changes import Changes

CASE, CPU, GPU, SPEEDUP, PLUS_MINUS, VERDICT, KERNEL, MOVED, LIMIT, WRITTEN, ROUNDS = (
    "case", "cpu", "gpu", "speedup", "plus_minus", "verdict", "kernel", "moved", "limit", "written", "rounds"
)  # fmt: skip
"""Keys of the columns."""
GPUS = "gpus"
"""Key of the column of a bar for each GPU, where there is no room for a column each."""
CHANGE, CHANGE_CPU, CHANGE_GPU, SPREAD = "change", "change-cpu", "change-gpu", "spread"
"""Keys of those that tell of other runs: on both devices, on one, and how far apart the runs of the series are."""

NOT_SAVED = "*"
"""Mark before the name of a case that is over and not in the history."""

MOST_DIGITS = 9_999_000.0
"""The longest number that `significant` writes out."""

LEAST_NAME = 6
"""Cells of a name that tells rows apart, before what stands behind the size is cut."""

ROUND_RANGE = 0.1
"""A round's bar spans ±10 % about the median of its device: quiet machines draw a level line."""

VERDICT_WORDS = {GPU_WINS: "GPU", CPU_WINS: "CPU", TIE: "tie", UNDECIDED: "undecided", TOO_FEW: "few rounds"}
FAILURE_WORDS = {"oom": "no memory", "unsupported": "not here", "mismatch": "mismatch", "error": "error",
                 "timeout": "timeout", "crashed": "crashed", "skipped": "skipped"}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """What is the same for every row of a run."""

    unit: Unit
    """Of all latency columns, so that CPU and GPU can be compared by eye."""
    varying: frozenset[str]
    """Fields of `Case` that differ between the cases; the others are not repeated in every row."""
    glyphs: Glyphs
    rounds_width: int
    """Cells of the sparkline column."""
    cpu_only: bool = False
    gpu_only: bool = False
    case_width: int = 0
    """Cells of the case column; 0 for as many as its text takes."""


def look_of(run: RunState, unit: Unit, glyphs: Glyphs, rounds_width: int, case_width: int = 0) -> Look:
    """Return how a run's rows look."""
    if "varying" not in run.derived:
        run.derived["varying"] = _varying(run)
    return Look(
        unit=unit,
        varying=run.derived["varying"],
        glyphs=glyphs,
        rounds_width=rounds_width,
        cpu_only=bool(run.devices) and run.gpu is None,
        gpu_only=gpu_only(run),
        case_width=case_width,
    )


def _varying(run: RunState) -> frozenset[str]:
    """Return the fields that differ between the cases of a run."""
    cases = run.run.plan.cases if run.run is not None else ()
    names = {name for name in ("workload", "variant", "dtype") if len({getattr(case, name) for case in cases}) > 1}
    # Sweeps that differ in threads alone are columns of one row, which need not be told.
    if len({sweep[-1] for sweep in run.sweeps if not is_column(run, sweep)}) > 1:
        names.add("threads")
    return frozenset(names)


def gpu_only(run: RunState) -> bool:
    """Whether a run has GPUs and no CPU."""
    return bool(run.devices) and not any(device.is_cpu for device in run.devices)


def unit_of(rows: Iterable[Row]) -> Unit:
    """Return the unit that the first row with a time asks for, which stays for the run; microseconds before."""
    for row in rows:
        for times in row.times.values():
            if times.latency_ns is not None:
                return unit_for(times.latency_ns)
    return US


def time_width(run: RunState, unit: Unit) -> int:
    """Return the cells of the longest time, and of the mark before it."""
    if "longest time" not in run.derived:  # it is asked for with every key
        every = (times.latency_ns for row in run.rows.values() for times in row.times.values())
        run.derived["longest time"] = max((ns for ns in every if ns is not None), default=0.0)
    longest = run.derived["longest time"] / unit.ns
    return len("~" + significant(min(longest, MOST_DIGITS)))  # from 1e7 on it is `1.04e7`, and others are longer


def case_text(case: Case, varying: frozenset[str]) -> str:
    """Return what tells a case from its neighbours: `matmul 512`, `vector-dot 1M dot`."""
    return " ".join([case.workload, *_beside_name(case, varying)])


def _beside_name(case: Case, varying: frozenset[str]) -> list[str]:
    """Return the size, and what else differs between the cases."""
    parts = [size_text(case.size)]
    if "variant" in varying:
        parts.append(case.variant)
    if "dtype" in varying:
        parts.append(case.dtype)
    if "threads" in varying:
        parts.append(f"{case.threads or 'all'} thread{'' if case.threads == 1 else 's'}")
    return parts


def fitted_case(case: Case, varying: frozenset[str], width: int, glyphs: Glyphs) -> str:
    """Return `case_text` in `width` cells, its size whole: rows of a sweep differ in nothing else.

    The name is cut at its end where all rows share it, else at its start: `mnist-mlp` and `mnist-mlp-wide` end apart.
    """
    name, sign = case.workload, glyphs.ellipsis
    size, *others = _beside_name(case, varying)
    rest = " ".join([size, *others])
    is_shared = "workload" not in varying
    if width <= 0 or len(name) + 1 + len(rest) <= width:
        return case_text(case, varying)
    cut_cells = len(sign) if others else 0  # behind the size: `102…` is another size than 1024
    least = max(min(0 if is_shared else LEAST_NAME, width - len(size) - 1 - cut_cells, len(name)), 0)
    room = max(width - len(rest) - 1, least)
    if room <= len(sign):
        return _cut(rest, width, sign)
    if room < len(name):
        kept = room - len(sign)
        name = name[:kept] + sign if is_shared else sign + name[len(name) - kept :]
    return _cut(f"{name} {rest}", width, sign)


def _cut(text: str, width: int, sign: str) -> str:
    return text if len(text) <= width else text[: max(width - len(sign), 0)] + sign


def cells(row: Row, look: Look, run: RunState) -> dict[str, Spans]:
    """Return all cells of a row of a run by column key, as text with roles."""
    glyphs = look.glyphs
    comparison = row.comparison
    known = comparison is not None
    speedup = significant(comparison.speedup) if comparison is not None else glyphs.none
    half = comparison.plus_minus if comparison is not None else None
    role = "strong" if known and _decided(row) else "muted"
    stand = row_standings(run, row)
    telling = look.varying | ({"threads"} if is_column(run, row.case.sweep) else frozenset())
    mark = "" if row.saved else NOT_SAVED
    name = fitted_case(row.case, telling, look.case_width - len(mark) if look.case_width else 0, glyphs)
    return {
        CASE: ((mark, "warn"), (name, {"active": "strong", "ok": "text"}.get(row.status, "muted"))),
        # The time of a size that fewer threads alone have stands in their column.
        CPU: ((glyphs.none, "muted"),) if is_column(run, row.case.sweep) else _latency(row, row.cpu, look, "cpu"),
        **{beside_key(count): _beside(run, row, count, look) for count in thread_columns(run)},
        GPU: _gpu(row, row.gpu, look, stand),
        **{gpu_key(gpu.name): _gpu(row, row.times.get(gpu.name), look, stand) for gpu in run.gpus[1:]},
        GPUS: gpu_bars(run, row, stand, glyphs),
        SPEEDUP: (((glyphs.times + speedup) if known else speedup, role),),
        PLUS_MINUS: ((f"{half_width(half)}%" if half is not None else glyphs.none, "muted"),),
        VERDICT: verdict(row, look),
        KERNEL: _single(row.gpu, DEVICE, look.unit, glyphs),
        MOVED: _moved(row, glyphs),
        LIMIT: _limit(run, row, glyphs),
        WRITTEN: _written(run, row, glyphs),
        ROUNDS: rounds(row, look),
    }


def change_cells(changes: Changes | None, row: Row, run: RunState, glyphs: Glyphs, *, wide: bool) -> dict[str, Spans]:
    """Return the cells that tell of other runs; `wide`: with whole words. None without anything to tell."""
    if changes is None:
        return {}
    from cpugpu_tui.analysis.change_words import VERDICT_WORDS
    from cpugpu_tui.ui import change_cells as beside

    found = changes.of(run, row)
    words = VERDICT_WORDS if wide else beside.SHORT_WORDS
    return {
        CHANGE: beside.both(found, glyphs),
        CHANGE_CPU: beside.whole(found, "CPU", words, glyphs),
        CHANGE_GPU: beside.whole(found, "GPU", words, glyphs),
        SPREAD: beside.spread_cell(found, glyphs),
    }


def beside_key(threads: int) -> str:
    """Return the key of the column of the CPU's times with so many threads."""
    return f"{CPU}-{threads}"


def gpu_key(name: str) -> str:
    """Return the key of the column of one GPU's times; the first one's is `GPU`."""
    return f"{GPU}-{name}"


def _gpu(row: Row, times: DeviceTimes | None, look: Look, stand: Mapping[str, Standing]) -> Spans:
    """Return a GPU's time, with `!` before it where it is slow beside its like."""
    is_slow = times is not None and times.device in stand and stand[times.device].is_slow
    return ((("!", "bad"),) if is_slow else ()) + _latency(row, times, look, "gpu")


def gpu_bars(run: RunState, row: Row, stand: Mapping[str, Standing], glyphs: Glyphs) -> Spans:
    """Return a bar for each GPU, its time about the median of its model; `!` for a slow one, a dot for one alone."""
    spans: list[tuple[str, str]] = []
    for gpu in run.gpus if row.times else ():
        found = stand.get(gpu.name)
        if found is None:
            spans.append((glyphs.dot, "muted"))
        elif found.is_slow:
            spans.append(("!", "bad"))
        else:
            spans.append((trend_text([found.ratio - 1], 1, -ROUND_RANGE, ROUND_RANGE, glyphs), "gpu"))
    return tuple(spans)


def is_time(key: str) -> bool:
    """Whether a column holds times that a caller waits for."""
    return key in (CPU, GPU) or key.startswith(f"{CPU}-")


def _beside(run: RunState, row: Row, threads: int, look: Look) -> Spans:
    other = with_threads(run, row, threads)
    if other is None:
        return ((look.glyphs.none, "muted"),)
    if other.failure is not None:
        return ((FAILURE_WORDS.get(other.failure.kind, other.failure.kind), "bad"),)
    return _latency(other, other.cpu, look, "cpu")


def verdict(row: Row, look: Look) -> Spans:
    """Return who wins, or what became of the row, by word and glyph."""
    glyphs = look.glyphs
    if row.failure is not None:
        word = FAILURE_WORDS.get(row.failure.kind, row.failure.kind)
        if row.failure.kind == "skipped":
            return ((f"{glyphs.dot} {word}", "muted"),)
        return ((f"{glyphs.no} {word}", "bad"),)
    if row.is_starved:
        return ((f"! {NO_CORE_WORD}", "warn"),)
    comparison = row.comparison
    if comparison is None or comparison.low is None:
        if row.status == "active":
            return _progress(row)
        if row.status == "pending":
            return ((glyphs.dot, "muted"),)
        if comparison is None:
            return ((f"{glyphs.yes} timed", "text"),)
    assert comparison is not None
    word = VERDICT_WORDS.get(comparison.verdict, comparison.verdict)
    if comparison.verdict == GPU_WINS:
        return ((f"{glyphs.up} {word}", "gpu"),)
    if comparison.verdict == CPU_WINS:
        return ((f"{glyphs.down} {word}", "cpu"),)
    return ((f"{'=' if comparison.verdict == TIE else '?'} {word}", "muted"),)


def _progress(row: Row) -> Spans:
    """Return `3 of 8`: rounds that every device has had."""
    calibrated = [times.calibrated for times in row.times.values() if times.calibrated is not None]
    had = min((len(times.round_ns) for times in row.times.values()), default=0)
    wanted = max((c.rounds for c in calibrated), default=0)
    if had >= wanted:  # the interval decides from here on
        wanted = max((c.max_rounds or c.rounds for c in calibrated), default=0)
    return ((f"{had} of {wanted}" if wanted else "warm-up", "muted"),)


def rounds(row: Row, look: Look) -> Spans:
    """Return the sparkline of the rounds' latencies: CPU left, GPU right, each about its own median."""
    width = look.rounds_width
    if look.cpu_only or not row.times:
        return ((_round_bars(row.cpu, width, look.glyphs), "cpu"),)
    if look.gpu_only:
        return ((_round_bars(row.gpu, width, look.glyphs), "gpu"),)
    half = (width - 1) // 2
    return (
        (_round_bars(row.cpu, half, look.glyphs), "cpu"),
        (" " * (width - 2 * half), "text"),
        (_round_bars(row.gpu, half, look.glyphs), "gpu"),
    )


def _round_bars(times: DeviceTimes | None, width: int, glyphs: Glyphs) -> str:
    values = list(times.round_ns.values()) if times is not None else []
    if not values:
        return " " * width
    middle = median(values)
    relative = [value / middle - 1 for value in values] if middle > 0 else [0.0] * len(values)
    # Filling from the left shows at a glance how far the case is; newest right only once it is full.
    bars = trend_text(relative, width, -ROUND_RANGE, ROUND_RANGE, glyphs)
    return bars.strip().ljust(width)


def _latency(row: Row, times: DeviceTimes | None, look: Look, role: str) -> Spans:
    """Return a device's time, with `~` before it when something about it was odd (the detail says what)."""
    if times is None or times.latency_ns is None or row.status == "mismatch":
        return ((look.glyphs.none, "muted"),)
    mark = "~" if times.marks or not (times.calibrated is None or times.calibrated.stable) else ""
    return ((mark, "warn"), (significant(times.latency_ns / look.unit.ns), role))


def _single(times: DeviceTimes | None, metric: str, unit: Unit, glyphs: Glyphs) -> Spans:
    value = times.median_ns(metric) if times is not None else None
    return ((significant(value / unit.ns), "text") if value is not None else (glyphs.none, "muted"),)


def _moved(row: Row, glyphs: Glyphs) -> Spans:
    """Return the speed-up with data that starts and ends in the host's ordinary memory."""
    found = end_to_end(row, PAGEABLE)
    return ((glyphs.times + significant(found.speedup), "text"),) if found is not None else ((glyphs.none, "muted"),)


def _limit(run: RunState, row: Row, glyphs: Glyphs) -> Spans:
    """Return what limits the row, with the share of that ceiling."""
    found = row_limit(run, row)
    if found is None:
        return ((glyphs.none, "muted"),)
    share = "" if found.share is None else f" {percent(found.share)}%"
    return ((f"{found.kind}{share}", "text"),)


def _written(run: RunState, row: Row, glyphs: Glyphs) -> Spans:
    """Return how far the publication's clock is off: `×53` too short, `!` where what it shows is impossible."""
    times = row.gpu or row.cpu
    judged = written(run, row, times) if times is not None else None
    if judged is None:
        return ((glyphs.none, "muted"),)
    factor = judged.clock_factor
    wrong = factor > 1.5 or judged.impossible_factor is not None
    mark = "!" if judged.impossible_factor is not None else ""
    return ((mark + glyphs.times + significant(factor), "warn" if wrong else "text"),)


def _decided(row: Row) -> bool:
    return row.comparison is not None and row.comparison.verdict in (GPU_WINS, CPU_WINS, TIE)


def matches(row: Row, wanted: str, varying: frozenset[str]) -> bool:
    """Return whether a row's name, verdict, failure or marks hold every word of a filter, in any case."""
    words = [case_text(row.case, varying), row.case.key, row.status, *row.marks]
    if row.is_starved:
        words.append(NO_CORE_WORD)
    if row.comparison is not None:
        words.append(row.comparison.verdict)
    haystack = " ".join(words).lower()
    return all(word in haystack for word in wanted.lower().split())


def shown_keys(run: RunState, wanted: str, varying: frozenset[str]) -> list[str]:
    """Return the keys of the rows that are no columns of others and that a filter lets through, in the plan's order."""
    rows = {row.case.key: row for row in table_rows(run)}
    if not wanted.strip():
        return list(rows)
    return [key for key, row in rows.items() if matches(row, wanted, varying)]
