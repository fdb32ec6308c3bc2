"""The chart: times over sizes on both devices, with the crossover and the chosen what-if.

Each curve has a letter at every size that was timed, so that the chart also reads in ASCII and without colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from cpugpu_tui.analysis.costs import RESIDENT
from cpugpu_tui.model import RECORDED, RECORDED_GPU, SweepKey, work_name
from cpugpu_tui.model.quantities import count_of, named, size_text, tick_text, time_text
from cpugpu_tui.render.crossover_words import bracket_text, is_wide, point_text, where
from cpugpu_tui.render.curves import BY_KEY, Curve, crossing_point, curves, finished_rows
from cpugpu_tui.report.conditions import Condition
from cpugpu_tui.report.report import axis_of, is_column, sweep_in
from cpugpu_tui.state.row import Row, threads_of
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import ASCII, Glyphs
from cpugpu_tui.ui.panes.lines import Spans, fitted, packed, spelled, width_of, wrapped
from cpugpu_tui.ui.panes.run_answer import marked_row, what_if_sentence
from cpugpu_tui.ui.panes.status import run_name

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


LEAST_CELLS = (30, 6)
"""Fewest columns and rows in which curves can be read."""

SIZE = "size"
"""Name of the axis of sizes."""

LOW = 14
"""A chart of fewer lines has one line of legend and no title, unless its sweep needs a name."""

NARROW, MOST_LEGEND = 80, 4
"""In a chart of fewer columns, a legend of more lines names the selected row in brief: at 60x16 its line was lost."""

CROSSING, HIGHLIGHT, SEVERAL = "X", ":", "*"
"""Signs of the crossover, the highlighted size, and several curves in one cell."""

Cell = tuple[str, str]
"""Sign and role."""


def chart_lines(
    state: AppState, sweep: SweepKey, width: int, height: int, glyphs: Glyphs, *, in_words: bool = True
) -> list[Spans]:
    """Return the chart of one sweep as at most `height` lines, which may be wider than `width` cells.

    With `in_words`, a sentence below states the crossover. Leave it out where the answer pane is right below.
    Only finished rows are drawn, so that the curves stay the same until the next one has finished.
    """
    run = state.run
    rows = finished_rows(run, sweep)
    found = [curve for curve in curves(run, rows, state.what_if) if curve.points]
    is_low = not in_words and height < LOW
    title = [] if is_low else [_title((run_name(run, sweep[0], glyphs), *sweep[1:]), rows, state, width, glyphs)]
    sentence = what_if_sentence(run, sweep, rows, state.what_if) if in_words else ""
    role = "strong" if state.what_if != RESIDENT else "text"
    below = wrapped(spelled(sentence, glyphs), width, role, lines=2)
    if not found:
        return [*title, *wrapped("The chart appears when the first size has finished.", width, "muted")][:height]
    crossing = sweep_in(run, sweep).under(state.what_if)
    marked = marked_row(run, sweep, state.cursor) or rows[-1]
    legend = _legend(found, axis_of(run, rows), crossing, marked, state, width, glyphs)
    if is_low:
        legend = [_short_legend(state, sweep, found, crossing, marked, width, glyphs)]
    room = height - len(title) - len(legend) - len(below) - 1
    if room < LEAST_CELLS[1]:
        legend = legend[: max(1, len(legend) - (LEAST_CELLS[1] - room))]
        room = height - len(title) - len(legend) - len(below) - 1
    if room < LEAST_CELLS[1] or width < LEAST_CELLS[0] + 10:
        needs = "Not enough room for the chart. It needs a terminal of at least 60x16."
        return [*title, *wrapped(needs, width, "muted"), *wrapped(spelled(sentence, glyphs), width, role)][:height]
    return [*title, *legend, *_field(found, crossing, marked, width, room, state, glyphs), *below]


def _title(sweep: SweepKey, rows: Sequence[Row], state: AppState, width: int, glyphs: Glyphs) -> Spans:
    *_, dtype, threads = sweep
    known = threads_of(rows) or threads
    rival = count_of(known, "CPU thread")
    against = "" if not known else f": GPU against {rival}" if any(row.gpu for row in rows) else f" on {rival}"
    axes = [word for word, on in (("linear sizes", state.linear_sizes), ("linear times", state.linear_times)) if on]
    scale = f", {' and '.join(axes) or 'both axes logarithmic'}"
    title: Spans = ((work_name(sweep), "title"), (f" {dtype}{against}", "text"), (scale, "muted"))
    return fitted(title if width_of(title) <= width else title[:-1], width, glyphs)


def _legend(
    found: Sequence[Curve], axis: str, crossing: Condition, marked: Row, state: AppState, width: int, glyphs: Glyphs
) -> list[Spans]:
    """Return the meaning of each sign, on as few lines as possible."""
    items: list[Spans] = [((curve.sign, curve.role), (f" {curve.label}", "text")) for curve in found]
    several: Spans = ((SEVERAL, "muted"), (" curves overlap", "text"))
    items += [several] if len(found) > 1 else []
    items += _crossing_items(crossing, f": {spelled(where(crossing, axis), glyphs)}", " crossover", state, glyphs)
    which, known = _which(marked, state), _highlighted(marked, axis, glyphs)
    size = known.partition(", ")[0]
    text = f"{which} row (dotted line): {known}"
    items.append(((text if len(text) <= width else f"{which} row (dotted line): {size}", "text"),))
    lines = packed(items, width)
    if len(lines) > MOST_LEGEND and width < NARROW:  # the field needs the lines
        items[-1] = ((HIGHLIGHT, "strong"), (f" {which} {size}", "text"))
        lines = packed(items, width)
    return lines


def _short_legend(
    state: AppState, sweep: SweepKey, found: Sequence[Curve], crossing: Condition, marked: Row, width: int,
    glyphs: Glyphs,
) -> Spans:  # fmt: skip
    """Return the meaning of the signs in one line: the most important ones that fit, since the answer is near."""
    run = state.run
    several = len([other for other in run.sweeps if not is_column(run, other)]) > 1
    items: list[Spans] = [((f"{work_name(sweep)} {sweep[2]}", "strong"),)] if several else []
    items += [((curve.sign, curve.role), (f" {curve.label}", "text")) for curve in found]
    items += _crossing_items(crossing, "", "", state, glyphs)
    size = spelled(named(axis_of(run, [marked]), "=", marked.case.size), glyphs)
    items.append(((HIGHLIGHT, "strong"), (f" {_which(marked, state)} {size}", "text")))
    items += [((SEVERAL, "strong"), (" overlap", "text"))] if len(found) > 1 else []
    line: Spans = items[0]
    for item in items[1:]:
        if width_of(line) + 3 + width_of(item) <= width:
            line = (*line, ("   ", "text"), *item)
    return line


def _crossing_items(crossing: Condition, place: str, noun: str, state: AppState, glyphs: Glyphs) -> list[Spans]:
    """Return the meaning of the signs of a crossover, with its `place`, and of its bracket; nothing without one."""
    last = crossing.crossover
    if last is None:
        return []
    condition = "" if state.what_if == RESIDENT else f" ({BY_KEY[state.what_if].label})"
    several = ", the last" if len(crossing.changes) > 1 else ""
    bracket = f"{noun}{several} between {bracket_text(last).replace('–', ' and ')}"
    point = [((CROSSING, "warn"), (f" crossover{condition}{place}", "text"))]
    return [*([] if is_wide(last) else point), ((glyphs.empty * 2, "muted"), (bracket, "text"))]


def _which(marked: Row, state: AppState) -> str:
    """Return why a row is marked: the one under the cursor may not have finished yet."""
    return "selected" if marked.case.key == state.cursor else "largest finished"


def _highlighted(row: Row, axis: str, glyphs: Glyphs) -> str:
    size, times_text = spelled(named(axis, "=", row.case.size), glyphs), []
    gpu = RECORDED_GPU if row.gpu is not None and row.gpu.device == RECORDED else "GPU"
    for name, times in (("CPU", row.cpu), (gpu, row.gpu)):
        if times is not None and times.latency_ns is not None:
            times_text.append(f"{name} {spelled(time_text(times.latency_ns), glyphs)}")
    return ", ".join((size, *times_text))


def _field(
    found: Sequence[Curve], crossing: Condition, marked: Row, width: int, height: int, state: AppState, glyphs: Glyphs
) -> list[Spans]:
    """Return the field with its axes: `height` lines, and one below for the sizes."""
    times = [ns for curve in found for _, ns in curve.points]
    vertical = axis_over(times, height, linear=state.linear_times, least_ratio=2.0)
    labels = {cell: spelled(text, glyphs) for cell, text in time_labels(vertical).items()}
    gutter = max(len(SIZE), *(len(text) for text in labels.values()))
    sizes = sorted({size for curve in found for size, _ in curve.points})
    horizontal = axis_over(sizes, width - gutter - 2, linear=state.linear_sizes)
    cells = _drawn(found, crossing, marked.case.size, horizontal, vertical, glyphs)
    lines: list[Spans] = []
    for row in range(height):
        label = labels.get(height - 1 - row, "")
        edge = glyphs.tick if label else glyphs.edge
        same_roles = groupby(cells[row], key=itemgetter(1))
        joined: Spans = tuple(("".join(sign for sign, _ in same), role) for role, same in same_roles)
        lines.append(((f"{label:>{gutter}} ", "muted"), (edge, "muted"), *joined))
    below = size_labels(horizontal, _labels(horizontal, sizes, crossing, marked.case.size, glyphs))
    return [*lines, ((f"{SIZE:>{gutter}}  ", "muted"), *below)]


def _labels(horizontal: Axis, sizes: Sequence[int], crossing: Condition, marked: int, glyphs: Glyphs) -> list[Label]:
    """Return the labels below the axis of sizes: its ends, the crossover, the highlighted size, then the others."""
    known = sizes_to_label(horizontal, sizes)
    important = known[:2]
    for change in reversed(crossing.changes):
        if horizontal.low <= change.point <= horizontal.high and not is_wide(change):
            at = spelled(point_text(change), glyphs)
            important += [(change.point, f"{word} {at}", "warn") for word in ("crossover", CROSSING)]
    return [*important, (marked, size_text(marked), "strong"), *known[2:]]


def _drawn(
    found: Sequence[Curve], crossing: Condition, marked: int, horizontal: Axis, vertical: Axis, glyphs: Glyphs
) -> list[list[Cell]]:
    """Return every cell of the field, top row first. The most important signs are drawn last."""
    cells: list[list[Cell]] = [[(" ", "text")] * horizontal.cells for _ in range(vertical.cells)]
    for change in crossing.changes:
        for column in range(horizontal.cell(change.low), horizontal.cell(change.high) + 1):
            for row in cells:
                row[column] = (glyphs.empty, "muted")
    for row in cells:
        row[horizontal.cell(marked)] = (HIGHLIGHT, "strong")
    for curve in found:
        if len(curve.points) == 1:
            continue
        marker = curve.sign.lower() if glyphs is ASCII else "braille"
        thinned = curve._replace(points=tuple(_thinned(curve.points, horizontal)))
        for row, signs in zip(cells, _line(thinned, horizontal, vertical, marker), strict=True):
            for column, sign in enumerate(signs):
                if not sign.isspace():
                    row[column] = (_overlaid(row[column][0], sign), curve.role)
    placed: dict[tuple[int, int], Cell] = {}
    for curve in found:
        for size, ns in curve.points:
            at = vertical.cells - 1 - vertical.cell(ns), horizontal.cell(size)
            shared = at in placed and placed[at][0] != curve.sign
            placed[at] = (SEVERAL, "strong") if shared else (curve.sign, curve.role)
    is_linear = {"linear_sizes": horizontal.linear, "linear_times": vertical.linear}
    for change in crossing.changes:
        if not is_wide(change) and (point := crossing_point(found, change, **is_linear)) is not None:
            placed[vertical.cells - 1 - vertical.cell(point[1]), horizontal.cell(point[0])] = (CROSSING, "warn")
    for (y, x), cell in placed.items():
        cells[y][x] = cell
    return cells


@lru_cache(maxsize=16)
def _line(curve: Curve, horizontal: Axis, vertical: Axis, marker: str) -> tuple[str, ...]:
    """Draw a curve's line: rows of cells of braille dots, or of a letter in ASCII.

    Cached, because a move of the selected row changes no line. Give it a thinned curve: those of 10,000 cases would
    keep 16 MB.
    """
    columns, rows = (2, 4) if marker == "braille" else (1, 1)
    points = [(horizontal.place(size) * columns, vertical.place(ns) * rows) for size, ns in curve.points]
    dots: set[tuple[int, int]] = set()
    for (left, low), (right, high) in pairwise(points):
        steps = max(1, math.ceil(max(abs(right - left), abs(high - low))))
        for step in range(steps + 1):
            share = step / steps
            dots.add((int(left + share * (right - left)), int(low + share * (high - low))))
    cells = [[0] * horizontal.cells for _ in range(vertical.cells)]
    for x, y in dots:
        cells[vertical.cells - 1 - y // rows][x // columns] |= _DOTS[rows - 1 - y % rows][x % columns]
    signs = {bits: marker if marker != "braille" else chr(_BRAILLE + bits) for row in cells for bits in row} | {0: " "}
    return tuple("".join(signs[bits] for bits in row) for row in cells)


def _thinned(points: Sequence[tuple[int, float]], horizontal: Axis) -> list[tuple[int, float]]:
    """Return the points that matter in each column of cells."""
    columns: dict[int, list[tuple[int, float]]] = {}
    for point in points:
        columns.setdefault(horizontal.cell(point[0]), []).append(point)
    return [
        point
        for column in columns.values()
        for point in sorted({column[0], column[-1], min(column, key=itemgetter(1)), max(column, key=itemgetter(1))})
    ]


_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the dots of a braille sign, from its upper left."""


def _overlaid(below: str, sign: str) -> str:
    """Return a cell with the dots of both if both are braille, else the upper one."""
    if ord(sign) & ~0xFF == _BRAILLE and ord(below) & ~0xFF == _BRAILLE:
        return chr(ord(sign) | ord(below))
    return sign
