"""The columns of the timing table, their widths for the width of the pane, and the sort order of the rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.model import DEVICE, ENERGY, RECORDED
from cpugpu_tui.render.columns import COLD, COLUMNS, Key, is_words, kernels_heading
from cpugpu_tui.render.rows import threads_key
from cpugpu_tui.render.verdicts import row_limit
from cpugpu_tui.report.report import has_paper, is_column, judged
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.app_state import Order
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.timing_table import Column
from cpugpu_tui.ui.rows import INTERVAL_CELLS, name_widths, varying_of

PADDING = 2
"""Cells of padding per column."""
TIME_WIDTH = 8
"""Cells of a time with its unit and a mark before it: `~12.8 µs`."""
GPU_WIDTH = TIME_WIDTH + 1
"""Cells of each of several GPUs, with room for the mark of a slow one: `!~12.8 µs`."""
FEWEST_ROUNDS, LEAST_ROUNDS, MOST_ROUNDS = 6, 9, 41
"""Cells of the sparkline, which is never dropped: where names need the room, otherwise, and at most."""

NUMBERS = {Key.CPU: TIME_WIDTH, Key.GPU: TIME_WIDTH, Key.SPEEDUP: 7}
"""Columns that are always shown."""
JUDGED = {Key.PLUS_MINUS: INTERVAL_CELLS, Key.VERDICT: 10}
"""Interval and winner, `(0.0352–0.0480)` and `✗ mismatch`. With 16, 120 columns had no room for kernel times."""
LIMITED, COPIES, PAPER, KERNELS = {Key.LIMIT: 13}, {Key.MOVED: 11}, {Key.WRITTEN: 13}, {Key.KERNEL: 12}
RATES, ENERGIES, TAILS = (
    {Key.GFLOPS: 9, Key.GBS: 9}, {Key.CPU_ENERGY: 10, Key.GPU_ENERGY: 10}, {Key.CPU_P99: 8, Key.GPU_P99: 8}
)  # fmt: skip


def _poorer(whole: dict[str, int], *groups: Collection[str]) -> Iterator[dict[str, int]]:
    """Yield a set of columns, then the same without each of these groups, one after the other."""
    yield whole
    for group in groups:
        whole = {key: cells for key, cells in whole.items() if key not in group}
        yield whole


TIERS: tuple[dict[str, int], ...] = tuple(_poorer(
    {**NUMBERS, **JUDGED, **COPIES, **LIMITED, **PAPER, **KERNELS, **RATES, **ENERGIES, **TAILS},
    TAILS, ENERGIES, RATES, KERNELS, PAPER, COPIES, LIMITED, (Key.PLUS_MINUS,), (Key.CPU, Key.GPU),
))  # fmt: skip
"""Sets of columns beside case and sparkline, with their widths, richest first.

The last one is for names so long that they take the room of the times.
"""

SPREAD_WIDTH = 9
"""Cells of two spreads in percent: `0.8, 12.1`."""
CHANGES = {Key.CHANGE, Key.CHANGE_CPU, Key.CHANGE_GPU}
"""Columns of a comparison with another run."""
WORDS_WIDTH = 23
"""Cells of a change with the longest verdict, `+14.0% no clear change`."""

CHANGE_TIERS: tuple[dict[str, int], ...] = (
    *_poorer({**NUMBERS, **JUDGED, Key.CHANGE_CPU: WORDS_WIDTH, Key.CHANGE_GPU: WORDS_WIDTH, Key.SPREAD: SPREAD_WIDTH,
              **COPIES, **LIMITED, **PAPER, **KERNELS, **RATES}, (*PAPER, *KERNELS, *RATES), COPIES),
    *_poorer({**NUMBERS, **JUDGED, Key.CHANGE_CPU: 15, Key.CHANGE_GPU: 15, Key.SPREAD: SPREAD_WIDTH},
             (Key.PLUS_MINUS,)),
    *_poorer({**NUMBERS, **JUDGED, Key.CHANGE: 15}, (Key.PLUS_MINUS,)),
)  # fmt: skip
"""The sets for rows with a comparison, which matters more than `limited by` or the paper's clock."""

LEAST_CASE = 4
"""Fewest cells of the case column: those of its heading."""

OF_BOTH = {Key.SPEEDUP, Key.MOVED}
"""Columns of a comparison of CPU and GPU."""
WITHOUT_CPU = {*OF_BOTH, Key.CPU, Key.CPU_ENERGY, Key.CPU_P99}
WITHOUT_GPU = {*OF_BOTH, Key.GPU, Key.KERNEL, Key.WRITTEN, Key.CHANGE_GPU, Key.GPU_ENERGY, Key.GPU_P99}
"""Columns without content if one device is not timed."""


def tiers_beside(comparisons: frozenset[str]) -> tuple[dict[str, int], ...]:
    """Return the sets of columns with comparisons, richest first; `comparisons` holds `CHANGE`, `SPREAD` or both."""
    if Key.CHANGE not in comparisons:
        return (*({**tier, Key.SPREAD: SPREAD_WIDTH} for tier in TIERS if Key.SPREAD in comparisons), *TIERS)
    hidden = frozenset({Key.SPREAD}) - comparisons
    return (*({key: cells for key, cells in tier.items() if key not in hidden} for tier in CHANGE_TIERS), *TIERS)


class Shape(NamedTuple):
    """Properties of a run that decide the columns."""

    gpus: tuple[str, ...] = ()
    """Names of several GPUs; empty for one or none."""
    without: frozenset[str] = frozenset()
    """Columns that would be empty."""
    names: tuple[int, int] = (0, 0)
    """Cells of the longest full name and of the longest short name."""
    is_of_sizes: bool = False
    """Whether short names are only sizes."""
    kernels: str = COLD
    """Heading of the kernel time."""
    gpu: str = COLUMNS[Key.GPU].heading
    """Heading of the GPU's time."""


ANY_SHAPE = Shape()
"""The shape of a run without properties that matter."""


def shape_of(run: RunState, glyphs: Glyphs) -> Shape:
    """Return the properties of a run that decide its columns."""
    gpus = tuple(gpu.name for gpu in run.gpus)
    without = frozenset() if has_paper(run) or run.run is None else frozenset({Key.WRITTEN})
    if ENERGY not in run.plan.metrics:
        without |= frozenset(ENERGIES)
    if rows.gpu_only(run):
        without |= WITHOUT_CPU | ({Key.PLUS_MINUS} if len(gpus) > 1 else set())  # each would have its own
    elif rows.cpu_only(run):
        without |= WITHOUT_GPU
    is_of_sizes = varying_of(run) <= {"size"} and not any(is_column(run, sweep) for sweep in run.sweeps)
    gpu = RECORDED if RECORDED in gpus else Shape().gpu
    several = gpus if len(gpus) > 1 else ()
    return Shape(several, without, name_widths(run, glyphs), is_of_sizes, kernels_heading(run), gpu)


def columns(
    width: int, threads: tuple[int, ...] = (), comparisons: frozenset[str] = frozenset(), shape: Shape = ANY_SHAPE
) -> list[Column]:
    """Return the richest set of columns that fits into `width` cells beside distinct names.

    `threads` are thread counts with their own column beside the CPU's, if the poorest set leaves room for them.
    `comparisons` holds `CHANGE` and `SPREAD` if rows are compared with other runs. Several GPUs have a column each if
    the poorest set leaves room, else a bar each in one column. The sparkline takes the cells that are left,
    up to `MOST_ROUNDS`.
    """

    def room(tier: dict[str, int]) -> int:
        """Return the cells left for case and sparkline, including the last cell of padding."""
        return width + 1 - sum(tier.values()) - PADDING * (len(tier) + 2)

    full, short = (max(cells, LEAST_CASE) for cells in shape.names)
    extra = {threads_key(count): TIME_WIDTH for count in threads}
    if room({**TIERS[-2], **extra}) < LEAST_CASE + LEAST_ROUNDS:
        extra = {}
    tiers = [{Key.CPU: TIME_WIDTH, **extra, **tier} if Key.CPU in tier else tier for tier in tiers_beside(comparisons)]
    tiers = with_gpus(tiers, shape, width)
    tiers = [{key: n for key, n in tier.items() if key not in shape.without} for tier in tiers]
    chosen = next((tier for tier in tiers if room(tier) >= short + LEAST_ROUNDS), None)
    chosen = chosen or next((tier for tier in tiers if room(tier) >= short + FEWEST_ROUNDS), tiers[-1])
    case = min(full, room(chosen) - LEAST_ROUNDS)
    case = case if case >= full else max(min(short, room(chosen) - FEWEST_ROUNDS), LEAST_CASE)
    left = room(chosen) - case
    sparkline = min(max(left - 1, min(left, LEAST_ROUNDS), FEWEST_ROUNDS), MOST_ROUNDS)
    widths = {Key.CASE: case, **chosen, Key.ROUNDS: sparkline}
    is_alone = Key.SPEEDUP in shape.without
    headings = {key: COLUMNS[key].heading for key in widths if key in COLUMNS}
    headings |= {Key.KERNEL: shape.kernels, Key.GPU: shape.gpu}
    if shape.is_of_sizes and case <= short:
        headings[Key.CASE] = COLUMNS[Key.SIZE].heading
    if sparkline >= 15 and not shape.gpus and not is_alone:
        headings[Key.ROUNDS] = "rounds CPU, GPU"
    headings |= {threads_key(count): f"{count or 'all'} thr." for count in threads}
    if shape.gpus:
        headings |= {rows.gpu_key(gpu): f"{gpu}" for gpu in shape.gpus[1:]} | {Key.GPU: shape.gpus[0]}
    if is_alone:
        headings |= {Key.VERDICT: "state"}
    return [Column(key, headings[key], cells, "left" if is_words(key) else "right") for key, cells in widths.items()]


BESIDE_WIDTHS = (56, 42)
"""Cells of a chart beside the table: comfortable, and least."""
CHART_SHARES = (0.4, 0.25)
"""The same as shares of a wide pane."""

OPTIONAL = {*COPIES, *LIMITED, *PAPER, *KERNELS, *RATES, *ENERGIES, *TAILS, Key.CHANGE_GPU, Key.SPREAD}
"""Columns that may make room for a chart beside the table; the whole table is one key away (zoom)."""


@lru_cache(16)
def width_beside(width: int, threads: tuple[int, ...], comparisons: frozenset[str], shape: Shape) -> int:
    """Return the cells of a chart beside a table in a pane of `width` cells; 0 if it does not fit beside.

    The table keeps its times, change and winner, and its interval unless there is a change. The chart is as wide as
    possible beside as many of its other columns as possible.
    """

    def keys(cells: int) -> set[str]:
        return {column.key for column in columns(cells - 1, threads, comparisons, shape)}

    widest, narrowest = (max(n, round(width * share)) for n, share in zip(BESIDE_WIDTHS, CHART_SHARES, strict=True))
    changes, whole = {Key.CHANGE, Key.CHANGE_CPU}, keys(width)
    kept = whole - OPTIONAL - changes - ({Key.PLUS_MINUS} if whole & changes else set())
    best, most = 0, 0
    for cells in range(widest, narrowest - 1, -2):
        found = keys(width - cells)
        keeps = kept <= found and bool(found & changes) == bool(whole & changes)
        if keeps and len(found) > most:
            best, most = cells, len(found)
    return best


def with_gpus(tiers: list[dict[str, int]], shape: Shape, width: int) -> list[dict[str, int]]:
    """Return the sets of columns with the columns of several GPUs added."""
    if not shape.gpus:
        return tiers
    each = {rows.gpu_key(gpu): GPU_WIDTH for gpu in shape.gpus[1:]}
    poorest = [cells for key, cells in tiers[-2].items() if key not in shape.without]
    needed = sum((*poorest, *each.values())) + PADDING * (len(poorest) + len(each) + 2)
    extra = each if needed + LEAST_CASE + LEAST_ROUNDS <= width else {Key.GPUS: max(len(shape.gpus), len("GPUs"))}
    found = []
    for tier in tiers[:-1]:
        keys = list(tier)
        after = keys.index(Key.GPU) + 1
        found.append({**{key: tier[key] for key in keys[:after]}, **extra, **{key: tier[key] for key in keys[after:]}})
    return found


Value = tuple[str, float] | None
"""Sort key: a word, then a number. Rows without one (None) come last in both directions."""


def _number(value: float | None) -> Value:
    return None if value is None else ("", value)


def _latency(row: Row, times: DeviceTimes | None) -> Value:
    return _number(times.latency_ns) if times is not None and row.status != "mismatch" else None


def _limit(run: RunState, row: Row) -> Value:
    found = row_limit(run, row)
    return None if found is None else (found.kind, found.share or 0.0)


def _speedup(run: RunState, row: Row, key: str = RESIDENT) -> Value:
    found = judged(run, row, key).comparison
    return _number(found.speedup if found is not None else None)


def _kernel(_: RunState, row: Row) -> Value:
    return _number(row.gpu.median_ns(DEVICE) if row.gpu is not None else None)


MEASURES: dict[str, tuple[Callable[[RunState, Row], Value], str, str]] = {
    "size": (lambda _, row: _number(row.case.size), "smallest first", "largest first"),
    COLUMNS[Key.SPEEDUP].heading: (_speedup, "smallest first", "largest first"),
    "CPU": (lambda _, row: _latency(row, row.cpu), "fastest first", "slowest first"),
    "GPU": (lambda _, row: _latency(row, row.gpu), "fastest first", "slowest first"),
    COLUMNS[Key.LIMIT].heading: (_limit, "a to z", "z to a"),
    "kernels": (_kernel, "fastest first", "slowest first"),
    COLUMNS[Key.MOVED].heading: (lambda run, row: _speedup(run, row, END_TO_END), "smallest first", "largest first"),
    "name": (lambda _, row: (f"{row.case.workload} {row.case.variant}", 0.0), "a to z", "z to a"),
}
"""Columns to sort by, in the order of the sort key: value, and the names of both directions."""


BY_COLUMN = {
    Key.CASE: "size", Key.CPU: "CPU", Key.GPU: "GPU", Key.KERNEL: "kernels",
    **{key: COLUMNS[key].heading for key in (Key.SPEEDUP, Key.LIMIT, Key.MOVED)},
}  # fmt: skip
"""Column of the table → the measure that a click on its heading sorts by."""


def next_order(order: Order) -> Order:
    """Return the order by the next measure; after the last one, run order."""
    names = ["", *MEASURES]
    return order._replace(by=names[(names.index(order.by) + 1) % len(names)])


def order_text(order: Order) -> str:
    """Return the order in words, `by speedup, largest first`; empty for run order."""
    if not order.by:
        return "in reverse run order" if order.is_reversed else ""
    _, forward, backward = MEASURES[order.by]
    return f"by {order.by}, {backward if order.is_reversed else forward}"


def in_order(run: RunState, row_keys: Sequence[str], order: Order) -> list[str]:
    """Sort row keys, given in run order; rows of equal value stay in run order."""
    if not order.by:
        return list(reversed(row_keys)) if order.is_reversed else list(row_keys)
    measure = MEASURES[order.by][0]
    found = {key: measure(run, run.rows[key]) for key in row_keys}
    known = {key: value for key, value in found.items() if value is not None}
    return [*sorted(known, key=known.__getitem__, reverse=order.is_reversed), *(k for k in found if k not in known)]
