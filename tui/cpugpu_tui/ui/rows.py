"""What the timing table says of a row: its signs with their legend, and its cells. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.analysis.slow_gpus import Standing
from cpugpu_tui.decide.comparison import CPU_OBSERVED, CPU_WINS, GPU_OBSERVED, GPU_WINS, TIE, TOO_FEW, UNDECIDED
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import NO_CORE
from cpugpu_tui.render import verdicts
from cpugpu_tui.render.columns import COLUMNS, IMPOSSIBLE, NONE, Key, is_of_one_start, time_text_on
from cpugpu_tui.render.gpus import row_standings
from cpugpu_tui.render.rows import table_rows, thread_columns, threads_key, with_threads
from cpugpu_tui.report.report import is_column, judged
from cpugpu_tui.state.condition import WORD as NO_CORE_WORD
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.packed import same
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.ui import row_names
from cpugpu_tui.ui.glyphs import Glyphs, trend_text
from cpugpu_tui.ui.keys import Keymap
from cpugpu_tui.ui.panes.lines import Spans, spelled

if TYPE_CHECKING:
    from cpugpu_tui.compare.changes import Changes

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
    (row_names.NOT_SAVED, "not saved yet", lambda _, row, __: not row.saved),
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
    names: row_names.Names = row_names.NAMES_IN_FULL


def look_of(run: RunState, glyphs: Glyphs, rounds_width: int, case_width: int = 0) -> Look:
    """Return the settings for a run's rows."""
    names = row_names.names_of(run, case_width, glyphs)
    return Look(row_names.varying_of(run), glyphs, rounds_width, cpu_only(run), gpu_only(run), case_width, names)


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
    mark = "" if row.saved else row_names.NOT_SAVED
    name = row_names.fitted_case(
        row.case, look.names, row_names.telling(run, row.case), look.case_width - len(mark), glyphs
    )
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
    text = COLUMNS[key].text(run, row).replace("×)", ")")  # an interval in brackets would need another cell
    return ((spelled(text.replace(IMPOSSIBLE, f"{BAD} "), glyphs), "muted" if text == NONE else role),)


def change_cells(changes: Changes | None, row: Row, run: RunState, glyphs: Glyphs, *, wide: bool) -> dict[str, Spans]:
    """Return the comparison columns' cells, with long words if `wide`; empty without a comparison."""
    if changes is None:
        return {}
    from cpugpu_tui.render.comparison import SHORT_WORDS, VERDICT_WORDS
    from cpugpu_tui.ui.panes import change_cells

    found = changes.of(run, row)
    words = VERDICT_WORDS if wide else SHORT_WORDS
    return {
        Key.CHANGE: change_cells.both(found, glyphs),
        Key.CHANGE_CPU: change_cells.whole(found, "CPU", words, glyphs),
        Key.CHANGE_GPU: change_cells.whole(found, "GPU", words, glyphs),
        Key.SPREAD: change_cells.spread_cell(found, glyphs),
    }


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
    words = [row_names.case_text(row.case, varying), row.case.key, row.status, *row.marks]
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
