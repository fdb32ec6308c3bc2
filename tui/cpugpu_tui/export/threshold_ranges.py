"""The ranges of a file of thresholds: where the upper bound of what a choice costs is at most 10 %.

They are judged from all sizes of a file, those of the run that made it and those that were added.

A file also answers variables of other programs. SCILIB-Accel sends a matrix product to the GPU unless ∛(m·n·k) <
`SCILIB_MATRIX_OFFLOAD_SIZE` (default 500). For square products that is n, so the value is the smallest n from which the
GPU wins float64 products. Its offload mode 1 copies in every call. Mode 3, for Grace Hopper, keeps the matrices on the
GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from cpugpu_tui.decide.comparison import MOST_COST, TOO_FEW, WIDEST_GAP, Comparison, SweepPoint, cheap_between
from cpugpu_tui.report.conditions import judged_sizes
from cpugpu_tui.report.segments import CPU as CPU_WINS
from cpugpu_tui.report.segments import GPU as GPU_WINS
from cpugpu_tui.report.segments import UNKNOWN, Size
from cpugpu_tui.thresholds import CPU, GPU, Part, Span, Threshold

DEVICES = {CPU_WINS: CPU, GPU_WINS: GPU}
EITHER = ""
_OTHER = {CPU: GPU, GPU: CPU}

NOT_COMPARED = Comparison(1.0, None, None, 0, TOO_FEW)
"""Of a size that failed."""


class Ranges(NamedTuple):
    """The ranges of one sweep, each kind in order of size."""

    faster: tuple[Part, ...]
    """Where one device costs little."""
    equal: tuple[Span, ...]
    """Where either device does."""


def points_of(threshold: Threshold) -> list[SweepPoint]:
    """Return the sizes of a threshold with what was found at each by itself."""
    return [SweepPoint(size, Comparison(*row)) for size, row in zip(threshold.timed, threshold.compared, strict=False)]


def judged_again(threshold: Threshold, sizes: Sequence[Size]) -> Threshold:
    """Return a threshold with further sizes, judged from all of them.

    Of a size that was timed twice the comparison with most rounds counts. If no device can be named any more, or the
    file does not say what it found, the threshold stays as it is.
    """
    new = [SweepPoint(size.size, size.own) for size in sizes if size.is_timed and size.own is not None]
    if not new or not threshold.compared:
        return threshold
    found = with_sizes(threshold, judged_sizes([*points_of(threshold), *new]))
    return found if found.answered else threshold


def with_sizes(threshold: Threshold, sizes: Sequence[Size]) -> Threshold:
    """Return a threshold that holds these sizes, in rising order, and the ranges that are judged from them."""
    timed = [(size.size, size.own) for size in sizes if size.is_timed and size.own is not None]
    compared = (
        (*(end and float(f"{end:.5g}") for end in found[:3]), found.rounds, found.verdict, found.starts, found.degrees)
        for _, found in timed
    )
    faster, equal = ranges_of(sizes)
    return threshold._replace(
        timed=tuple(size for size, _ in timed), faster=faster, equal=equal, compared=tuple(compared)
    )


def ranges_of(sizes: Sequence[Size]) -> Ranges:
    """Return the ranges of the sizes of a sweep, which are in rising order.

    A device is named between two neighbouring sizes if it costs little at both, or by both together. A size with a
    winner names that device.
    """
    known = [size for size in sizes if size.reason not in UNKNOWN]
    ranges = []
    for device, group in groupby(_pieces(known), lambda piece: piece[0]):
        spans = [piece[1:] for piece in group]
        if device is not None:
            ranges.append((device, spans[0][0], spans[-1][1]))
    equal = tuple((first, last) for device, first, last in ranges if device == EITHER)
    return Ranges(tuple(part for part in ranges if part[0] != EITHER), equal)


def _pieces(sizes: list[Size]) -> Iterator[tuple[str | None, int, int]]:
    """Yield each size and the numbers between two of them, with the device that is named there; None for no device.

    A size that names none takes the only device of the gaps beside it, at which it was not observed to cost more. One
    without a winner whose gaps both name the other device names none: the two contradict each other.
    """
    points = [SweepPoint(size.size, size.comparison or NOT_COMPARED) for size in sizes]
    gaps = [_between(*pair, several) for pair, several in zip(pairwise(sizes), cheap_between(points), strict=True)]
    for index, size in enumerate(sizes):
        name, both = _named(size), gaps[max(0, index - 1) : index + 1]
        beside = {*both} - {None}
        if name is None and len(beside) == 1:
            name = beside.pop()
        elif size.winner is None and name and len(both) == 2 and beside == {_OTHER[name]} and None not in both:
            name = None
        yield name, size.size, size.size
        if index < len(gaps) and size.size + 1 < (above := sizes[index + 1]).size:
            yield gaps[index], size.size + 1, above.size - 1


def _named(size: Size) -> str | None:
    return DEVICES[size.winner] if size.winner is not None else _only(_cheap(size))


def _between(low: Size, high: Size, several: set[str]) -> str | None:
    if high.size > WIDEST_GAP * low.size:
        return None
    same = _named(low) if _named(low) == _named(high) else None
    if same or (both := _cheap(low) & _cheap(high)):
        return same or _only(both)
    return _only({DEVICES[device] for device in several})


def _cheap(size: Size) -> set[str]:
    return {name for device, name in DEVICES.items() if size.cost(device) <= MOST_COST}


def _only(cheap: set[str]) -> str | None:
    """Return the only device of a set, `EITHER` for both, None for none."""
    return EITHER if len(cheap) > 1 else next(iter(cheap), None)


PRODUCT, DOUBLE = "matmul", "float64"
"""Operation and element type of the products that count."""

VARIABLE = "SCILIB_MATRIX_OFFLOAD_SIZE"


def variables(entries: Sequence[Threshold]) -> Iterator[str]:
    """Yield lines with the variables of other programs, and comments; nothing without float64 products."""
    products = [
        each for each in entries if each.best and (each.operation, each.dtype, each.threads) == (PRODUCT, DOUBLE, 0)
    ]
    if not products:
        return
    yield "# SCILIB-Accel offloads products from this (m*n*k)^(1/3) on. Its mode 1 copies in every call:"
    yield _line(products, resident=False)
    yield "# Its mode 3 (Grace Hopper) keeps the matrices on the GPU, which is measured here by resident inputs:"
    line = _line(products, resident=True)
    yield line if line.startswith("#") else f"# {line}"


def _line(products: Sequence[Threshold], *, resident: bool) -> str:
    """Return the variable, or a comment if the largest sizes are not the GPU's."""
    parts = next((each.faster for each in products if each.resident is resident), ())
    if not parts or parts[-1][0] != GPU:
        return f"# {VARIABLE} has no value: the GPU is not named for the largest products that were timed."
    return f"{VARIABLE}={parts[-1][1]}"
