"""The sort order of a run's rows: pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.model import DEVICE
from cpugpu_tui.render.columns import COLUMNS, Key
from cpugpu_tui.render.verdicts import row_limit
from cpugpu_tui.report.report import judged
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.ui.app_state import Order

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
