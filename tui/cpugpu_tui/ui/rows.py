"""What the timing table says of a row: its name, its signs with their legend, and its cells. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import takewhile
from typing import NamedTuple

from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.analysis.slow_gpus import Standing
from cpugpu_tui.decide.comparison import CPU_OBSERVED, CPU_WINS, GPU_OBSERVED, GPU_WINS, TIE, TOO_FEW, UNDECIDED
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import NO_CORE, Case
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.render import verdicts
from cpugpu_tui.render.columns import COLUMNS, IMPOSSIBLE, NONE, Key, is_of_one_start, time_text_on
from cpugpu_tui.render.gpus import row_standings
from cpugpu_tui.render.rows import table_rows, thread_columns, threads_key, with_threads
from cpugpu_tui.report.report import is_column, judged
from cpugpu_tui.state.condition import WORD as NO_CORE_WORD
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.folding import once
from cpugpu_tui.state.packed import same
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.glyphs import Glyphs, trend_text
from cpugpu_tui.ui.keys import Keymap
from cpugpu_tui.ui.panes.lines import Spans, spelled

NOT_SAVED = "*"
"""Mark before the name of a finished case that is not in the history."""


LEAST_VARIANT = 3
"""Fewest cells of a variant behind workload and size; a shorter one is left out."""


def is_typed(run: RunState) -> bool:
    """Whether all rows are of one typed code, whose internal name says nothing."""
    return bool(run.plan.codes) and "workload" not in varying_of(run)


@once
def varying_of(run: RunState) -> frozenset[str]:
    """Return the fields that differ between the cases of a run."""
    fields = ("workload", "size", "variant", "dtype")
    names = {name for name in fields if len({getattr(case, name) for case in run.plan.cases}) > 1}
    # Sweeps that differ only in threads are columns of one row, so their rows need no name for it.
    if len({sweep[-1] for sweep in run.sweeps if not is_column(run, sweep)}) > 1:
        names.add("threads")
    return frozenset(names)


def telling(run: RunState, case: Case) -> frozenset[str]:
    """Return the fields in a row's name; also the threads if the row exists only with fewer threads."""
    return varying_of(run) | ({"threads"} if is_column(run, case.sweep) else frozenset())


def shared_start(run: RunState) -> str:
    """Return the common first words of all workload names: `mnist-mlp` for itself and `mnist-mlp-wide`."""
    names = {sweep[0] for sweep in run.sweeps}
    words = takewhile(lambda same: len(set(same)) == 1, zip(*(name.split("-") for name in names), strict=False))
    return "-".join(word for word, *_ in words) if len(names) > 1 else ""


def name_widths(run: RunState, glyphs: Glyphs) -> tuple[int, int]:
    """Return the cells of the longest full name and of the longest short name."""
    shared, named = shared_start(run), _longest_named(run)
    short = max((len(_joined(*_short_parts(case, names, shared, glyphs))) for case, names in named), default=0)
    full = short if is_typed(run) else max((len(case_text(case, names)) for case, names in named), default=0)
    mark = 0 if all(row.saved for row in run.rows.values()) else len(NOT_SAVED)
    return full + mark, short + mark


@once
def _longest_named(run: RunState) -> list[tuple[Case, frozenset[str]]]:
    """Return the case with the longest size in each sweep, and the fields in its name."""
    cases = ([row.case for row in rows] for rows in run.sweeps.values())
    longest = [max(each, key=lambda case: len(size_text(case.size))) for each in cases]
    return [(case, telling(run, case)) for case in longest]


def case_text(case: Case, varying: frozenset[str]) -> str:
    """Return the full name of a case: `matmul 512`, `vector-dot 1M dot`."""
    return " ".join([case.workload, *_beside_name(case, varying)])


def _short_parts(case: Case, varying: frozenset[str], shared: str, glyphs: Glyphs) -> tuple[str, str, str]:
    """Return workload, size and the rest of a short name (`1000 add-out`, `…-wide cuda-graph`); empty if shared."""
    size, *others = _beside_name(case, varying)
    name = case.workload.removeprefix(shared) if "workload" in varying else ""
    is_needed = "size" in varying or not others
    return spelled("…", glyphs) + name if shared and name else name, size if is_needed else "", " ".join(others)


def _beside_name(case: Case, varying: frozenset[str]) -> list[str]:
    """Return the size and the other fields that differ between the cases."""
    parts = [size_text(case.size)]
    if "variant" in varying and case.variant != "default":
        parts.append(case.variant)
    if "dtype" in varying:
        parts.append(case.dtype)
    if "threads" in varying:
        parts.append(f"{case.threads or 'all'} thread{'' if case.threads == 1 else 's'}")
    return parts


def fitted_case(case: Case, look: Look, varying: frozenset[str], width: int) -> str:
    """Return the name of a row. If even the short name is too long, workload and variant are cut, never the size.

    `vector-dot 44740 dot` was once cut to `…4740 dot`. The end of the variant stays as long as possible, so that
    `1000 add` and `10000 add-out` differ at every width.
    """
    if not look.has_short_names:
        return case_text(case, varying)
    glyphs = look.glyphs
    name, size, rest = _short_parts(case, varying, look.shared, glyphs)
    if not size:
        return _ending(_joined(name, rest), width, glyphs)
    if rest:
        room = width - len(size) - 1 - (min(len(name), len(glyphs.ellipsis)) + 1 if name else 0)
        rest = _ending(rest, room, glyphs) if room >= min(len(rest), LEAST_VARIANT) or not name else ""
    end = _joined(size, rest)
    return f"{_ending(name, width - len(end) - 1, glyphs)} {end}" if name else end


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _ending(text: str, width: int, glyphs: Glyphs) -> str:
    """Return the end of a text that is longer than `width` cells."""
    return text if len(text) <= width else glyphs.ellipsis + text[len(text) - max(width - len(glyphs.ellipsis), 0) :]


ODD, BAD, OPEN = "~", "!", "?"
"""Signs of a disturbed time, of a problem, and of a row without a winner."""


def is_odd(row: Row, times: DeviceTimes) -> bool:
    """Whether a device's time has any mark; the detail page lists them."""
    return bool(verdicts.all_marks(row, times))


def is_impossible(run: RunState, row: Row) -> bool:
    """Whether the paper's clock shows a rate above this machine's peak."""
    times = row.gpu or row.cpu
    judged = verdicts.written(run, row, times) if times is not None else None
    return judged is not None and judged.impossible_factor is not None


BARS = "CPU left, GPU right; tall is slow"
"""Meaning of the two groups of bars, which the pane adds where their heading has no room for it."""

LESS_CERTAIN = "less certain ({open} shows why)"

ONE_START = "holds within one start"
NO_WINNER_MOVED = "unclear with copies"
FASTER_THAN_PEAK = "paper's time is too short for this GPU"
"""Meanings of the signs of three columns, which the pane omits without the column."""

MEANINGS: tuple[tuple[str, str, Callable[[RunState, Row, str], bool]], ...] = (
    (ODD, LESS_CERTAIN,
     lambda _, row, __: row.status != "mismatch" and any(is_odd(row, times) for times in row.times.values())),
    (OPEN, "unclear", lambda _, __, verdict: verdict in (UNDECIDED, TOO_FEW)),
    (OPEN, NO_WINNER_MOVED, lambda run, row, _: judged(run, row, END_TO_END).is_open),
    (BAD, "threads waited for a core", lambda _, row, __: row.is_starved),
    (BAD, "slower than equal GPUs",
     lambda run, row, _: any(standing.is_slow for standing in row_standings(run, row).values())),
    (BAD, FASTER_THAN_PEAK, lambda run, row, _: is_impossible(run, row)),
    (NOT_SAVED, "not saved yet", lambda _, row, __: not row.saved),
    ("( )", ONE_START, lambda run, row, _: is_of_one_start(run, row)),
    ("rounds:", BARS, lambda *_: False),
)  # fmt: skip
"""Sign, meaning, and whether a row with this outcome has it; in the order of the line."""


def signs_of(run: RunState, row: Row) -> frozenset[str]:
    """Return the meanings of the signs in a row."""
    code = verdicts.outcome(run, row).code
    found: frozenset[str] = same(frozenset(words for _, words, has in MEANINGS if has(run, row, code)))
    return found


def legend(meanings: Collection[str], width: int, keymap: Keymap) -> Spans:
    """Return `~ less certain, enter says why  ? unclear`: those of `meanings` that fit."""
    spans: list[tuple[str, str]] = []
    signs_so_far: list[str] = []
    for drawn, words, _ in MEANINGS:
        if words not in meanings:
            continue
        # A sign with two meanings is written once: `? unclear or unclear with copies`.
        words = keymap.with_keys(words)
        is_again = signs_so_far[-1:] == [drawn]
        text = f" or {words}" if is_again else f"{'   ' if signs_so_far else ''}{drawn} {words}"
        if sum(len(part) for part, _ in spans) + len(text) > width:
            break
        spans.append((text, "muted"))
        signs_so_far.append(drawn)
    return tuple(spans)


PLAIN = (
    Key.PLUS_MINUS, Key.KERNEL, Key.MOVED, Key.LIMIT, Key.GFLOPS, Key.GBS, Key.CPU_ENERGY, Key.GPU_ENERGY, Key.CPU_P99,
    Key.GPU_P99,
)  # fmt: skip
"""Columns with the same text as in every other face."""

INTERVAL_CELLS = 15
"""Cells of an interval. One in brackets, `(0.0352–0.0480×)`, may lack the cell of its sign."""

ROUND_RANGE = 0.1
"""Bars of rounds span ± 10 % about the device's median, so that a quiet machine draws a level line."""


class Look(NamedTuple):
    """Settings shared by all rows of a run."""

    varying: frozenset[str]
    """Fields of `Case` that differ between the cases; rows show only these."""
    glyphs: Glyphs
    rounds_width: int
    """Cells of the sparkline column."""
    cpu_only: bool = False
    gpu_only: bool = False
    case_width: int = 0
    """Cells of the case column; 0 for unlimited."""
    has_short_names: bool = False
    """Whether names lack their shared parts, because some would not fit."""
    shared: str = ""
    """Common beginning of the names of all workloads."""


def look_of(run: RunState, glyphs: Glyphs, rounds_width: int, case_width: int = 0) -> Look:
    """Return the settings for a run's rows, whose names have `case_width` cells; 0 for unlimited."""
    is_short = 0 < case_width < name_widths(run, glyphs)[0] or is_typed(run)
    only = cpu_only(run), gpu_only(run)
    return Look(varying_of(run), glyphs, rounds_width, *only, case_width, is_short, shared_start(run))


def gpu_only(run: RunState) -> bool:
    """Whether a run has GPUs but no CPU."""
    return bool(run.devices) and not any(device.is_cpu for device in run.devices)


def cpu_only(run: RunState) -> bool:
    """Whether a run has no GPU."""
    return bool(run.devices) and run.gpu is None


def cells(row: Row, look: Look, run: RunState) -> dict[str, Spans]:
    """Return all cells of a row by column key, as text with roles."""
    glyphs = look.glyphs
    stand = row_standings(run, row)
    mark = "" if row.saved else NOT_SAVED
    name = fitted_case(row.case, look, telling(run, row.case), look.case_width - len(mark))
    comparison = judged(run, row).comparison
    is_judged = comparison is not None and comparison.is_judged
    return {
        Key.CASE: ((mark, "warn"), (name, {"active": "strong", "ok": "text"}.get(row.status, "muted"))),
        # A size that was timed only with fewer threads has its time in their column.
        Key.CPU: ((glyphs.none, "muted"),) if is_column(run, row.case.sweep) else _latency(row, row.cpu, look, "cpu"),
        **{threads_key(count): _beside(run, row, count, look) for count in thread_columns(run)},
        Key.GPU: _gpu(row, row.gpu, look, stand),
        **{gpu_key(gpu.name): _gpu(row, row.times.get(gpu.name), look, stand) for gpu in run.gpus[1:]},
        Key.GPUS: gpu_bars(run, row, stand, glyphs),
        **{key: _cell(key, run, row, glyphs, "muted" if key == Key.PLUS_MINUS else "text") for key in PLAIN},
        Key.SPEEDUP: _cell(Key.SPEEDUP, run, row, glyphs, "strong" if is_judged else "muted"),
        Key.VERDICT: verdict(run, row, look),
        Key.WRITTEN: _cell(Key.WRITTEN, run, row, glyphs, "warn" if is_impossible(run, row) else "text"),
        Key.ROUNDS: rounds(row, look),
    }


def _cell(key: str, run: RunState, row: Row, glyphs: Glyphs, role: str) -> Spans:
    """Return a column's text in the signs of this terminal; missing values are dimmed."""
    text = COLUMNS[key].text(run, row)
    text = text if len(text) <= INTERVAL_CELLS else text.replace("×)", ")")
    return ((spelled(text.replace(IMPOSSIBLE, f"{BAD} "), glyphs), "muted" if text == NONE else role),)


def gpu_key(name: str) -> str:
    """Return the column key of one GPU's times; that of the first GPU is `GPU`."""
    return f"{Key.GPU}-{name}"


def _gpu(row: Row, times: DeviceTimes | None, look: Look, stand: Mapping[str, Standing]) -> Spans:
    """Return a GPU's time, with `!` before it if it is slower than equal GPUs."""
    is_slow = times is not None and times.device in stand and stand[times.device].is_slow
    return (((BAD, "bad"),) if is_slow else ()) + _latency(row, times, look, "gpu")


def gpu_bars(run: RunState, row: Row, stand: Mapping[str, Standing], glyphs: Glyphs) -> Spans:
    """Return a bar for each GPU: its time about the median of its model; `!` if slow, a dot if the only one."""
    spans: list[tuple[str, str]] = []
    for gpu in run.gpus if row.times else ():
        found = stand.get(gpu.name)
        if found is None:
            spans.append((glyphs.dot, "muted"))
        elif found.is_slow:
            spans.append((BAD, "bad"))
        else:
            spans.append((trend_text([found.ratio - 1], 1, -ROUND_RANGE, ROUND_RANGE, glyphs), "gpu"))
    return tuple(spans)


def _beside(run: RunState, row: Row, threads: int, look: Look) -> Spans:
    other = with_threads(run, row, threads)
    if other is None:
        return ((look.glyphs.none, "muted"),)
    if other.failure is not None:
        return ((verdicts.failure_word(other.failure.kind), "bad"),)
    return _latency(other, other.cpu, look, "cpu")


def verdict(run: RunState, row: Row, look: Look) -> Spans:
    """Return the verdict, or the state of an unfinished row, as word and glyph."""
    glyphs, found = look.glyphs, verdicts.outcome(run, row)
    signs = {
        verdicts.FAILED: (glyphs.no, "bad"), verdicts.SKIPPED: (glyphs.dot, "muted"), NO_CORE: (BAD, "warn"),
        verdicts.ACTIVE: ("", "muted"), verdicts.PENDING: (glyphs.dot, "muted"), TIE: ("=", "muted"),
        verdicts.TIMED: (glyphs.yes, "text"), GPU_WINS: (glyphs.up, "gpu"), GPU_OBSERVED: (glyphs.up, "gpu"),
        CPU_WINS: (glyphs.down, "cpu"), CPU_OBSERVED: (glyphs.down, "cpu"),
    }  # fmt: skip
    sign, role = signs.get(found.code, (OPEN, "muted"))
    return ((f"{sign} {found.word}".strip(), role),)


def rounds(row: Row, look: Look) -> Spans:
    """Return the sparkline of latencies per round: CPU left, GPU right, each about its own median."""
    width = look.rounds_width
    if look.cpu_only or not row.times:
        return ((_round_bars(row.cpu, width, look.glyphs), "cpu"),)
    if look.gpu_only:
        return ((_round_bars(row.gpu, width, look.glyphs), "gpu"),)
    half = (width - 1) // 2
    cpu, gpu = (_round_bars(times, half, look.glyphs) for times in (row.cpu, row.gpu))
    return ((cpu, "cpu"), (" " * (width - 2 * half), "text"), (gpu, "gpu"))


def _round_bars(times: DeviceTimes | None, width: int, glyphs: Glyphs) -> str:
    values = list(times.round_ns.values()) if times is not None else []
    if not values:
        return " " * width
    middle = median(values)
    relative = [value / middle - 1 for value in values] if middle > 0 else [0.0] * len(values)
    # Filled from the left, so that it shows the progress of the case.
    bars = trend_text(relative, width, -ROUND_RANGE, ROUND_RANGE, glyphs)
    return bars.strip().ljust(width)


def _latency(row: Row, times: DeviceTimes | None, look: Look, role: str) -> Spans:
    """Return a device's time with its unit, and `~` before it if it has a mark."""
    text = spelled(time_text_on(row, times), look.glyphs)
    if times is None or text == look.glyphs.none:
        return ((look.glyphs.none, "muted"),)
    return ((ODD if is_odd(row, times) else "", "warn"), (text, role))


def matches(run: RunState, row: Row, wanted: str, varying: frozenset[str]) -> bool:
    """Whether a row's name, verdict, status or marks contain every word of a filter, ignoring case."""
    words = [case_text(row.case, varying), row.case.key, row.status, *row.marks]
    words += [NO_CORE_WORD] if row.is_starved else []
    words += verdicts.open_marks(run, row)
    found = judged(run, row).comparison
    words += [found.verdict, verdicts.winner(found)] if found is not None else []
    haystack = " ".join(words).lower()
    return all(word in haystack for word in wanted.lower().split())


def shown_keys(run: RunState, wanted: str, varying: frozenset[str]) -> list[str]:
    """Return the keys of the table's rows that match a filter, in plan order."""
    rows = {row.case.key: row for row in table_rows(run)}
    if not wanted.strip():
        return list(rows)
    return [key for key, row in rows.items() if matches(run, row, wanted, varying)]
