"""In which order the rows of a run stand: pure functions of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cpugpu_tui.model import DEVICE, PAGEABLE
from cpugpu_tui.render.columns import COLUMNS, Key
from cpugpu_tui.render.insight import end_to_end, row_limit
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import Row, RunState

Value = tuple[str, float] | None
"""What rows are compared by, a word, then a number; None where a row has none yet: it stands last either way."""


@dataclass(frozen=True)
class Order:
    """What the rows are sorted by."""

    by: str = ""
    """Key of `MEASURES`; empty for the order of the run."""
    is_reversed: bool = False


AS_RAN = Order()
"""The order of the run."""


def _number(value: float | None) -> Value:
    return None if value is None else ("", value)


def _latency(row: Row, times: DeviceTimes | None) -> Value:
    return _number(times.latency_ns) if times is not None and row.status != "mismatch" else None


def _limit(run: RunState, row: Row) -> Value:
    found = row_limit(run, row)
    return None if found is None else (found.kind, found.share or 0.0)


def _speedup(_: RunState, row: Row) -> Value:
    return _number(row.comparison.speedup if row.comparison is not None else None)


def _kernel(_: RunState, row: Row) -> Value:
    return _number(row.gpu.median_ns(DEVICE) if row.gpu is not None else None)


def _moved(_: RunState, row: Row) -> Value:
    found = end_to_end(row, PAGEABLE)
    return _number(found.speedup if found is not None else None)


MEASURES: dict[str, tuple[Callable[[RunState, Row], Value], str, str]] = {
    "size": (lambda _, row: _number(row.case.size), "smallest first", "largest first"),
    COLUMNS[Key.SPEEDUP].heading: (_speedup, "smallest first", "largest first"),
    "CPU": (lambda _, row: _latency(row, row.cpu), "fastest first", "slowest first"),
    "GPU": (lambda _, row: _latency(row, row.gpu), "fastest first", "slowest first"),
    COLUMNS[Key.LIMIT].heading: (_limit, "a to z", "z to a"),
    "kernels": (_kernel, "fastest first", "slowest first"),
    COLUMNS[Key.MOVED].heading: (_moved, "smallest first", "largest first"),
    "name": (lambda _, row: (f"{row.case.workload} {row.case.variant}", 0.0), "a to z", "z to a"),
}
"""What rows can be sorted by, in the order in which a key goes through it: value, and the names of both directions."""


def next_order(order: Order) -> Order:
    """Return the order by the next measure; after the last one comes the order of the run."""
    names = ["", *MEASURES]
    return replace(order, by=names[(names.index(order.by) + 1) % len(names)])


def reverse_order(order: Order) -> Order:
    """Return the order turned round."""
    return replace(order, is_reversed=not order.is_reversed)


def order_text(order: Order) -> str:
    """Return what the rows are sorted by, `by speedup, largest first`; empty for the order of the run."""
    if not order.by:
        return "last first" if order.is_reversed else ""
    _, forward, backward = MEASURES[order.by]
    return f"by {order.by}, {backward if order.is_reversed else forward}"


def in_order(run: RunState, row_keys: Sequence[str], order: Order) -> list[str]:
    """Return row keys, given in the order of the run, in this order; rows of equal value stay as they ran."""
    if not order.by:
        return list(reversed(row_keys)) if order.is_reversed else list(row_keys)
    measure = MEASURES[order.by][0]
    found = {key: measure(run, run.rows[key]) for key in row_keys}
    known = {key: value for key, value in found.items() if value is not None}
    return [*sorted(known, key=known.__getitem__, reverse=order.is_reversed), *(k for k in found if k not in known)]
