"""One axis of a chart: the cell of each value, and the labels beside the axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cpugpu_tui.model.quantities import size_text, tick_text

FEW_DECADES = 3
"""A logarithmic axis over few decades also has numbers at 2 and 5."""

MARGIN = 0.03
"""Share of the axis left free at either end, so that no sign covers the frame."""


MOST_SIZES = 16
"""More timed sizes than this are not labelled one by one."""


class Axis(NamedTuple):
    """A range of positive values over a row of cells, the first cell for the lowest value."""

    low: float
    high: float
    cells: int
    linear: bool = False

    def scaled(self, value: float) -> float:
        """Return a value in the axis' scale: itself, or its logarithm."""
        return value if self.linear else math.log10(value)

    def cell(self, value: float) -> int:
        """Return the cell of a value; values outside get the nearest end."""
        return math.floor(self.place(value))

    def place(self, value: float) -> float:
        """Return where a value is, in cells from the axis' beginning; values outside get the nearest end.

        The ends are at the middle of the first and the last cell.
        """
        low, high = self.scaled(self.low), self.scaled(self.high)
        share = (self.scaled(min(max(value, self.low), self.high)) - low) / (high - low)
        return share * (self.cells - 1) + 0.5


def axis_over(values: Iterable[float], cells: int, *, linear: bool, least_ratio: float = 1.0) -> Axis:
    """Return an axis that holds all these positive values; a linear one starts at 0.

    A logarithmic one spans at least `least_ratio`, so that noise of 1 % does not fill it.
    """
    known = list(values)
    low, high = min(known), max(known)
    if linear:
        return Axis(0.0, high * (1 + MARGIN), cells, linear=True)
    if high == low or high < least_ratio * low:  # put them into the middle
        low, high = low / 1.5, high * 1.5
    margin = (high / low) ** MARGIN
    return Axis(low / margin, high * margin, cells)


def round_numbers(axis: Axis, most: int) -> list[float]:
    """Return round values within an axis, ascending: about `most`, or every decade that has a cell of its own.

    Where decades would share cells, only every second, third and so on is returned.
    """
    if axis.linear:
        return _even_steps(axis.low, axis.high, most)
    first, last = math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high))
    for digits in ((1, 2, 5), (1, 3), (1,)) if last - first <= 2 * FEW_DECADES else ((1,),):
        found = [d * 10.0**power for power in range(first, last + 1) for d in digits]
        found = [value for value in found if axis.low <= value <= axis.high]
        if len(found) <= most:
            break
    else:
        steps = (found[::step] for step in range(1, len(found) + 1))
        found = next(each for each in steps if len(set(map(axis.cell, each))) == len(each))
    return found if len(found) > 1 else _even_steps(axis.low, axis.high, most) or found


def _even_steps(low: float, high: float, most: int) -> list[float]:
    rough = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [index * step for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def time_labels(axis: Axis) -> dict[int, str]:
    """Return cell → label of an axis of times in ns: every decade that has room, and numbers between them."""
    return {axis.cell(value): tick_text(value) for value in round_numbers(axis, max(2, axis.cells // 2))}


Label = tuple[float, str, str]
"""A size, its text and its role."""


def size_labels(axis: Axis, wanted: Iterable[Label]) -> list[tuple[str, str]]:
    """Return the line below an axis of sizes as spans: the labels that fit, most important first.

    Each is centred below its size, with at least two free cells between two labels. Those in a role of their own may
    also stand aside, as long as they reach the cell of their size.
    """
    line, placed = " " * axis.cells, dict[int, Label]()
    for size, text, role in wanted:
        centre, last = axis.cell(size) - (len(text) - 1) // 2, axis.cells - len(text)
        reach = 0 if role == "muted" else len(text) // 2
        for aside in sorted(range(-reach, reach + 1), key=abs):
            start = min(max(centre + aside, 0), last)
            if text and start >= 0 and not line[max(start - 2, 0) : start + len(text) + 2].strip():
                line = line[:start] + "#" * len(text) + line[start + len(text) :]
                placed[start] = (size, text, role)
                break
    spans, end = list[tuple[str, str]](), 0
    for start, (_, text, role) in sorted(placed.items()):
        spans += [(" " * (start - end), "muted"), (text, role)]
        end = start + len(text)
    return spans


def sizes_to_label(axis: Axis, sizes: Sequence[int]) -> list[Label]:
    """Return labels of the largest size, the smallest, every decade, then of the other sizes, or of round numbers."""
    decades = [] if axis.linear else [10**power for power in range(20) if axis.low <= 10**power <= axis.high]
    others = sizes if len(sizes) <= MOST_SIZES else map(round, round_numbers(axis, max(2, axis.cells // 10)))
    wanted = dict.fromkeys([sizes[-1], sizes[0], *decades, *others])
    return [(size, size_text(size), "muted") for size in wanted if size >= 0]
