"""The chart of a sweep drawn with matplotlib: for the HTML report, as an SVG or PNG picture, and for notebooks.

Curves differ in colour, mark and dash. All texts are drawn as they are, so that names may contain `$` or markup.
"""

from __future__ import annotations

import io
import os
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cpugpu_tui.config.installing import packages_of
from cpugpu_tui.errors import UsageError
from cpugpu_tui.export import chart_looks as looks
from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.quantities import size_text, time_text
from cpugpu_tui.render.crossover_words import bracket_text, is_wide, point_text
from cpugpu_tui.render.curves import SurveyChart, SweepChart, charts, crossing_point, survey_chart
from cpugpu_tui.render.sentences import heading, when
from cpugpu_tui.report.conditions import Condition

WIDE, NARROW, SLIDE = (8.6, 4.8), (4.3, 4.4), (9.6, 5.4)
"""Inches: for wide and narrow pages, and a picture of one chart, which is 1920 x 1080 pixels."""

PIXELS_PER_INCH = 200
MOST_PANELS = 30
"""Most charts in one picture; more would be too small to read."""

LONGEST_NAME = 62
"""Letters of a line of a title above a chart."""

LONGEST_ANSWER = 6000
"""Characters of the answer above a chart. Below it, that of a survey ended within `100,000`."""

LINE_POINTS = 12.5
"""Height of a line of small text, points."""

ROOM_FOR_WORDS = 0.14
"""Share of the height below the curves for the words about crossovers."""

ROOM_FOR_WIDER_FONTS = 0.03
"""Share of a page's chart that stays empty on the right: its texts are in the page's font, which may be wider."""


def need() -> None:
    """Check that matplotlib is installed.

    Raises:
        UnfitError: it is missing.
    """
    chosen = os.environ.pop("MPLBACKEND", None)  # an unknown backend makes the import fail
    try:
        with packages_of("plot", "Charts need"):
            import matplotlib  # noqa: F401
    finally:
        if chosen is not None:
            os.environ["MPLBACKEND"] = chosen


# ------------------------------------------------------------------ one chart


def draw(axes: Any, chart: SweepChart | SurveyChart, *, is_narrow: bool = False) -> None:
    """Draw a chart on matplotlib's axes: a survey, curves over sizes in seconds, or bars if there is one size."""
    if isinstance(chart, SurveyChart):
        _draw_survey(axes, chart, is_narrow=is_narrow)
    elif chart.is_sweep:
        _draw_curves(axes, chart, is_narrow=is_narrow)
    else:
        _draw_bars(axes, chart)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom") and not isinstance(chart, SurveyChart))
        spine.set_color(looks.BAND)
    for text in axes.findobj(lambda artist: hasattr(artist, "set_parse_math")):  # after all texts exist
        text.set_parse_math(False)


def _draw_curves(axes: Any, chart: SweepChart, *, is_narrow: bool) -> None:
    drawn = [point for curve in (*chart.curves, *chart.others) for point in curve.points]
    for curve in chart.curves:
        marker, dash, colour = looks.LOOKS.get(curve.role, looks.LOOKS["key"])
        size = 5 if len(curve.points) <= looks.MANY_POINTS else 0
        label = printable(curve.label)
        axes.plot(*_xy(curve.points), marker=marker, linestyle=dash, color=colour, markersize=size, label=label)
    for index, curve in enumerate(chart.others):
        label = "_" if index else f"{chart.others_label} (thin)"
        axes.plot(*_xy(curve.points), "-", color=looks.GPU, linewidth=0.7, alpha=0.7, label=label, zorder=1.9)
    axes.set_xscale("log")
    axes.set_yscale("log")
    looks.label_sizes(axes.xaxis, sorted({size for size, _ in drawn}), 0.16 if is_narrow else 0.07)
    looks.label_times(axes.yaxis, [ns / 1e9 for _, ns in drawn])
    axes.set_xlabel(printable(chart.axis) or "size", color=looks.MUTED)
    axes.set_ylabel("time of one call", color=looks.MUTED)
    axes.grid(visible=True, axis="y", which="major", color=looks.LINE, linewidth=0.8)
    axes.tick_params(which="both", color=looks.BAND, labelcolor=looks.TEXT)
    low, high = axes.get_ylim()
    first = next((curve.label for curve in chart.curves if curve.role == "gpu"), "GPU")  # its crossover is marked
    marked = [
        _mark(axes, chart, found, look, is_narrow=is_narrow)
        for found, look in (
            (chart.resident, (f"{first} wins", "X", looks.GPU, 0.02)),
            (chart.with_copies, ("with copies", "*", looks.COPIES, 0.09)),
        )
    ]
    if any(marked):
        axes.set_ylim(low / (high / low) ** ROOM_FOR_WORDS, high)
    looks.legend(axes, is_narrow=is_narrow)


def _xy(curve_points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [size for size, _ in curve_points], [ns / 1e9 for _, ns in curve_points]


def _mark(
    axes: Any, chart: SweepChart, found: Condition, look: tuple[str, str, str, float], *, is_narrow: bool
) -> bool:
    """Shade the bracket of each change of winner and name the last above the axis; False without a change.

    `look` holds words, marker, colour, and the height of the words as a share of the axis.
    """
    words, marker, colour, height = look
    if not found.changes:
        return False
    for change in found.changes:
        axes.axvspan(change.low, change.high, color=colour, alpha=0.16, linewidth=0)
        on_curve = crossing_point([curve for curve in chart.curves if curve.role == "cpu"], change)
        if on_curve is not None and not is_wide(change):
            axes.plot([on_curve[0]], [on_curve[1] / 1e9], marker, color=looks.TEXT, markersize=9, zorder=5, label="_")
    last = found.changes[-1]
    text = f"{words} {'from' if last.rises else 'up to'} {point_text(last, chart.axis)}"
    text += "" if is_narrow or is_wide(last) else f" ({bracket_text(last)})"
    low, high = axes.get_xlim()
    is_left = last.point < (low * high) ** 0.5
    axes.annotate(
        text, (last.point, height), xycoords=("data", "axes fraction"), xytext=(7 if is_left else -7, 0),
        textcoords="offset points", ha="left" if is_left else "right", va="bottom", color=looks.TEXT,
        fontsize=8 if is_narrow else 9,
    )  # fmt: skip
    return True


def _draw_bars(axes: Any, chart: SweepChart) -> None:
    """Draw the times at one size as bars."""
    shown = [*chart.curves, *chart.others]
    longest = max(curve.points[0][1] for curve in shown)
    for place, curve in enumerate(shown):
        ns = curve.points[0][1]
        colour = looks.LOOKS.get(curve.role, looks.LOOKS["key"])[2]
        axes.barh(place, ns / 1e9, color=colour, height=0.6)
        axes.annotate(
            time_text(ns), (ns / 1e9, place), xytext=(5, 0), textcoords="offset points", va="center", color=looks.TEXT
        )
    axes.set_yticks(range(len(shown)), [printable(curve.label) for curve in shown])
    axes.invert_yaxis()
    axes.set_xlim(0, longest / 1e9 * 1.18)
    axes.xaxis.set_major_formatter(lambda value, _: looks.time_label(value))
    axes.set_xlabel(
        f"time of one call, {printable(chart.axis) or 'size'} = {size_text(shown[0].points[0][0])}", color=looks.MUTED
    )
    axes.grid(visible=True, axis="x", color=looks.LINE, linewidth=0.8)
    axes.tick_params(color=looks.BAND, labelcolor=looks.TEXT)


def _draw_survey(axes: Any, chart: SurveyChart, *, is_narrow: bool) -> None:
    """Draw a bar for each workload over its own axis, with the sizes at its ends and, if there is room, the words.

    Names and words that are too long for their share of the width are smaller, never cut.
    """
    size, pad = (7, 26) if is_narrow else (9, 34)
    whole = looks.width_of(axes)
    names = [printable(bar.name) for bar in chart.bars]
    name_sizes = [looks.fitting(name, size, looks.MOST_NAME * whole) for name in names]
    width = whole - pad - max(looks.points(name, each) for name, each in zip(names, name_sizes, strict=True))
    words = [looks.size_label(bar.ends[1]) + ("" if is_narrow else f" · {bar.words}") for bar in chart.bars]
    word_sizes = [looks.fitting(text, size, looks.MOST_WORDS * width) for text in words]
    share = max(looks.points(text, each) for text, each in zip(words, word_sizes, strict=True)) / width
    for place, bar in enumerate(chart.bars):
        for part in bar.parts:
            _, colour, hatch = looks.SURVEY_LOOKS[part.kind]
            axes.barh(place, part.end - part.start, left=part.start, height=0.62, color=colour, hatch=hatch,
                      edgecolor="#ffffff", linewidth=0)  # fmt: skip
        for x, side, text, own in (
            (-0.012, "right", looks.size_label(bar.ends[0]), size),
            (1.012, "left", words[place], word_sizes[place]),
        ):
            axes.annotate(text, (x, place), ha=side, va="center", color=looks.TEXT, fontsize=own, annotation_clip=False)
    axes.set_yticks(range(len(names)), names)
    for label, own in zip(axes.get_yticklabels(), name_sizes, strict=True):
        label.set_fontsize(own)
    axes.tick_params(axis="y", length=0, pad=pad, labelcolor=looks.TEXT)
    axes.set_xlim(0, 1.03 / (1 - share))
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xticks([])
    axes.set_xlabel(
        "sizes from the smallest to the largest timed, logarithmic", color=looks.MUTED, fontsize=size, loc="left"
    )
    for label, colour, hatch in looks.SURVEY_LOOKS.values():
        edge, line = ("#ffffff", 0.0) if colour != "none" else (looks.BAND, 0.6)
        axes.bar(0, 0, width=0, color=colour, hatch=hatch, edgecolor=edge, linewidth=line, label=label)
    looks.legend(axes, is_narrow=is_narrow, left=-0.4 if is_narrow else -0.02, fontsize=size + 1, handlelength=1.2)


# ------------------------------------------------------------------ pictures


@contextmanager
def _own_style(**settings: Any) -> Iterator[None]:
    """Draw in our own style: the same bytes for the same run, and no use of programs that a user's style may need."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names may have letters that the font lacks
        matplotlib.rcdefaults()
        chosen: Any = {"font.size": 10, "text.color": looks.TEXT, "axes.edgecolor": looks.BAND, **settings}
        matplotlib.rcParams.update(chosen)
        yield


def inline_svg(chart: SweepChart | SurveyChart, salt: str, *, is_narrow: bool = False) -> str:
    """Return a chart for a page, in the colours and the font of the page. `salt` makes its ids unique there."""
    from matplotlib.figure import Figure

    with _own_style(**{"svg.hashsalt": salt, "svg.fonttype": "none"}):
        figure = Figure(figsize=_lower(NARROW if is_narrow else WIDE, chart), layout="constrained")
        engine: Any = figure.get_layout_engine()
        engine.set(rect=(0, 0, 1 - ROOM_FOR_WIDER_FONTS, 1))
        draw(figure.add_subplot(facecolor="none"), chart, is_narrow=is_narrow)
        figure.set_facecolor("none")
        text = _svg(figure)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # nothing refers to them, and several charts have the same
    return re.sub("|".join(looks.VARIABLES), lambda found: f"var(--{looks.VARIABLES[found[0]]})", text)


def _lower(size: tuple[float, float], chart: SweepChart | SurveyChart) -> tuple[float, float]:
    """Return the size of a figure; bars need less height than curves."""
    if isinstance(chart, SurveyChart):
        return size[0], 0.7 + 0.25 * len(chart.bars)
    return size if chart.is_sweep else (size[0], 1.2 + 0.4 * len((*chart.curves, *chart.others)))


def _svg(figure: Any) -> str:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    drawn = io.StringIO()
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(drawn, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = drawn.getvalue()
    return text[text.index("<svg") :]


_Panel = tuple[str, SweepChart | SurveyChart]
"""Title and chart."""


def picture(runs: Sequence[ExportedRun], name: str) -> Iterator[bytes]:
    """Yield the charts of the runs as one SVG or PNG file with titles, answers and what was measured.

    Raises:
        UnfitError: matplotlib is not installed.
        UsageError: nothing was timed, or there are too many charts for one picture.
    """
    need()
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    panels = _panels(runs)
    # In a picture, letters are drawn as paths, so that it looks the same wherever it is shown.
    with _own_style(**{"svg.hashsalt": "cpugpu-tui", "svg.fonttype": "path"}):
        figure = _slide(panels, runs)
        if name == "svg":
            yield f'<?xml version="1.0" encoding="utf-8"?>\n{_svg(figure)}'.encode()
            return
        drawn = io.BytesIO()
        figure.set_dpi(PIXELS_PER_INCH)
        canvas: Any = FigureCanvasAgg(figure)
        canvas.print_png(drawn, metadata={"Software": "cpugpu-tui"})
    yield drawn.getvalue()


def _panels(runs: Sequence[ExportedRun]) -> list[_Panel]:
    panels: list[_Panel] = []
    for run in runs:
        prefix, whole = "SIMULATED: " if run.state.simulated else "", survey_chart(run.state)
        drawn = [chart for _, chart in charts(run.state)] if whole is None else [whole]
        panels += [(f"{prefix}{chart.name}", chart) for chart in drawn]
    if not panels:
        raise UsageError("Cannot draw a chart: no case of this run has a time.", "Export another run, or use .html.")
    if len(panels) > MOST_PANELS:
        message = f"{len(panels)} charts do not fit into one picture, which holds at most {MOST_PANELS}."
        raise UsageError(message, "Use .html, or give one run.")
    return panels


def _slide(panels: Sequence[_Panel], runs: Sequence[ExportedRun]) -> Any:
    """Return a figure with all panels in two columns, or in one if there is only one panel."""
    from matplotlib.figure import Figure

    columns = 2 if len(panels) > 1 else 1
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(SLIDE[0] * columns, SLIDE[1] * lines), layout="constrained", facecolor="white")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.15, h_pad=0.12)
    for place, (title, chart) in enumerate(panels, 1):
        axes = figure.add_subplot(lines, columns, place, facecolor="white")
        draw(axes, chart)
        _entitle(axes, printable(title), chart)
    foot = "\n".join(textwrap.fill(_foot(run), 150 * columns) for run in runs)
    figure.supxlabel(foot, fontsize=8, color=looks.MUTED, parse_math=False)
    return figure


def _entitle(axes: Any, title: str, chart: SweepChart | SurveyChart) -> None:
    """Write name and answer above a panel's legend."""
    entries = len(axes.get_legend_handles_labels()[1]) if axes.get_legend() is not None else 0
    above = 6.0 + LINE_POINTS * 1.3 * -(-entries // looks.legend_columns(is_narrow=False))
    width = 96 if isinstance(chart, SurveyChart) else 122  # beside the names of the workloads there is less room
    answer = textwrap.wrap(printable("".join(chart.sentences[:1]), LONGEST_ANSWER), width)
    heading = textwrap.wrap(title, LONGEST_NAME)
    for text, size, weight, lines in (
        ("\n".join(answer), 9.5, "normal", len(answer)), ("\n".join(heading), 13, "bold", 1.4 * len(heading)),
    ):  # fmt: skip
        axes.annotate(
            text, (0, 1), xycoords="axes fraction", xytext=(0, above), textcoords="offset points", va="bottom",
            fontsize=size, fontweight=weight, color=looks.TEXT, parse_math=False,
        )  # fmt: skip
        above += LINE_POINTS * lines + (4 if lines else 0)


def _foot(run: ExportedRun) -> str:
    """Return the machine, the versions and the time of a run."""
    return " · ".join(
        filter(None, (printable(heading(run.state), 300), printable(when(run.state, run.status)), "cpugpu-tui"))
    )
