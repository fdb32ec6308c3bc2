"""What all charts share: colours, marks, labels of axes, the legend, and how wide a text is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cpugpu_tui.model.quantities import size_text, tick_text
from cpugpu_tui.report import bars

TEXT, MUTED, LINE, BAND = "#1b1b1b", "#5c5c5c", "#d4d4d4", "#9a9a9a"
CPU, GPU, COPIES, GPU_2, COPIES_2, OTHER = "#1f5fa8", "#c0530a", "#00795a", "#7a3d8f", "#8a6d00", "#b03060"

VARIABLES = {
    TEXT: "text", MUTED: "muted", LINE: "line", BAND: "band", CPU: "cpu", GPU: "gpu", COPIES: "copies",
    GPU_2: "gpu2", COPIES_2: "copies2", OTHER: "other",
}  # fmt: skip
"""Colour → the CSS variable that replaces it in the report, which has a light and a dark theme."""

LOOKS = {
    "cpu": ("o", "-", CPU), "gpu": ("s", "--", GPU), "copies": ("^", ":", COPIES), "key": ("D", "-.", OTHER),
    "gpu 2": ("v", "--", GPU_2), "copies 2": ("P", ":", COPIES_2),
}  # fmt: skip
"""Role of a curve → marker, dash and colour."""

SURVEY_LOOKS = {
    bars.CPU: ("CPU wins", CPU, ""), bars.OPEN: ("unclear", LINE, ""), bars.GAP: ("unknown", "none", ""),
    bars.RESIDENT: ("GPU wins", GPU, "///"), bars.BOTH: ("GPU wins with copies too", COPIES, ""),
}  # fmt: skip
"""Part of a workload's axis → words, colour and hatch."""

MANY_POINTS = 60
"""Curves of more points have no marker at each of them."""

FEW_DECADES = 2.0
"""An axis over fewer decades is also labelled at 2 and 5."""

MOST_NAME, MOST_WORDS, LEAST_SIZE = 0.3, 0.6, 3.0
"""Largest share of a chart's width for names, and for words beside bars; smallest size of a font."""

WIDER_FONT = 1.1
"""How much wider a page's font may be than ours."""


def size_label(value: float) -> str:
    """Return a size beside an axis."""
    return size_text(round(value))


def time_label(seconds: float) -> str:
    """Return a time beside an axis."""
    return tick_text(seconds * 1e9)


def label_sizes(axis: Any, sizes: Sequence[int], gap: float) -> None:
    """Label the ends, the decades and then the other sizes; `gap` is the least share of the axis between two."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    whole = math.log(sizes[-1] / sizes[0])
    decades = [10**power for power in range(20) if sizes[0] < 10**power < sizes[-1]]
    chosen: list[int] = []
    for size in [sizes[-1], sizes[0], *decades, *sizes[:MANY_POINTS]]:
        if all(abs(math.log(size / other)) >= gap * whole for other in chosen):
            chosen.append(size)
    axis.set_major_locator(FixedLocator(sorted(chosen)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: size_label(value)))
    axis.set_minor_formatter(NullFormatter())


def label_times(axis: Any, seconds: Sequence[float]) -> None:
    """Label the decades, over few of them also 2 and 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    is_short = max(seconds) < 10**FEW_DECADES * min(seconds)
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if is_short else (1.0,), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: time_label(value)))
    axis.set_minor_formatter(NullFormatter())


def legend_columns(*, is_narrow: bool) -> int:
    """Return the number of columns of a legend."""
    return 2 if is_narrow else 4


def legend(axes: Any, *, is_narrow: bool, left: float = -0.02, **more: Any) -> None:
    """Draw the legend above a chart, beginning at `left` of its width."""
    axes.legend(
        loc="lower left", bbox_to_anchor=(left, 1.0), ncols=legend_columns(is_narrow=is_narrow), frameon=False,
        labelcolor=TEXT, borderaxespad=0.0, columnspacing=1.4, handletextpad=0.5, **more,
    )  # fmt: skip


def points(text: str, size: float) -> float:
    """Return the width of a text, points, with room for a page's font."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=size), False)
    return WIDER_FONT * float(width)


def fitting(text: str, size: float, width: float) -> float:
    """Return the size at which a text fits into a width, points; at most `size`."""
    return max(min(size, size * width / points(text, size)), LEAST_SIZE) if text else size


def width_of(axes: Any) -> float:
    """Return the width of a chart with all that stands beside it, points."""
    columns = axes.get_subplotspec().get_gridspec().ncols
    return float(72 * axes.figure.get_size_inches()[0] / columns - 40)
