"""The ranges of a file of thresholds: where the upper bound of what a choice costs is at most 10 %."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import NamedTuple

from cpugpu_tui.decide.comparison import MOST_COST, WIDEST_GAP, cheap_together
from cpugpu_tui.report.conditions import Condition
from cpugpu_tui.report.segments import CPU as CPU_WINS
from cpugpu_tui.report.segments import GPU as GPU_WINS
from cpugpu_tui.report.segments import UNKNOWN, Size
from cpugpu_tui.thresholds import CPU, GPU, Part, Span

DEVICES = {CPU_WINS: CPU, GPU_WINS: GPU}
EITHER = ""


class Ranges(NamedTuple):
    """The ranges of one sweep, each kind in order of size."""

    faster: tuple[Part, ...]
    """Where one device costs little."""
    equal: tuple[Span, ...]
    """Where either device does."""


def ranges_of(found: Condition) -> Ranges:
    """Return the ranges of a sweep under a condition.

    A device is named between two neighbouring sizes if it costs little at both, or by both together. A size with a
    winner names that device.
    """
    known = [size for size in found.sizes if size.reason not in UNKNOWN]
    ranges = []
    for device, group in groupby(_pieces(known), lambda piece: piece[0]):
        spans = [piece[1:] for piece in group]
        if device is not None:
            ranges.append((device, spans[0][0], spans[-1][1]))
    equal = tuple((first, last) for device, first, last in ranges if device == EITHER)
    return Ranges(tuple(part for part in ranges if part[0] != EITHER), equal)


def _pieces(sizes: list[Size]) -> Iterator[tuple[str | None, int, int]]:
    """Yield each size and the numbers between two of them, with the device that is named there; None for no device.

    A size that names none takes the only device of the gaps beside it, at which it was not observed to cost more.
    """
    gaps = [_between(low, high) for low, high in pairwise(sizes)]
    for index, size in enumerate(sizes):
        name, beside = _named(size), {*gaps[max(0, index - 1) : index + 1]} - {None}
        yield (beside.pop() if name is None and len(beside) == 1 else name), size.size, size.size
        if index < len(gaps) and size.size + 1 < (above := sizes[index + 1]).size:
            yield gaps[index], size.size + 1, above.size - 1


def _named(size: Size) -> str | None:
    return DEVICES[size.winner] if size.winner is not None else _only(_cheap(size))


def _between(low: Size, high: Size) -> str | None:
    if high.size > WIDEST_GAP * low.size:
        return None
    same = _named(low) if _named(low) == _named(high) else None
    if same or (both := _cheap(low) & _cheap(high)):
        return same or _only(both)
    return _only({DEVICES[device] for device in cheap_together(low.comparison, high.comparison)})


def _cheap(size: Size) -> set[str]:
    return {name for device, name in DEVICES.items() if size.cost(device) <= MOST_COST}


def _only(cheap: set[str]) -> str | None:
    """Return the only device of a set, `EITHER` for both, None for none."""
    return EITHER if len(cheap) > 1 else next(iter(cheap), None)
