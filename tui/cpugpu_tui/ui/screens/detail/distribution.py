"""The distribution of a device's samples: a histogram in text, and outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import LATENCY, SINGLE
from cpugpu_tui.model.quantities import percent, time_text
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.ui.glyphs import Glyphs, trend_lines
from cpugpu_tui.ui.panes.lines import Spans, paragraph

OUTLYING = 14.826
"""Median absolute deviations from the median beyond which a sample is an outlier: ten standard deviations of a
normal distribution."""

FEWEST = 10
"""Fewest samples for a histogram."""

HEIGHT = 3
"""Lines of the histogram, which show 24 heights."""


@dataclass(frozen=True)
class Distribution:
    """Samples sorted into bins of equal width; outliers are counted beside them."""

    low_ns: float
    """Lower edge of the first bin: the smallest sample without outliers."""
    high_ns: float
    """Upper edge of the last bin."""
    bins: tuple[int, ...]
    """Samples in each bin; one bin if all samples are equal."""
    median_ns: float
    """Of all samples."""
    outliers: tuple[float, ...]
    """Samples further than `OUTLYING` deviations from the median, ns."""
    can_tell: bool
    """Whether outliers can be found: not if more than half of the samples are equal."""


def distribution(values: Sequence[float]) -> Distribution:
    """Sort samples in ns into bins; the number of bins follows Rice's rule.

    Raises:
        ValueError: `values` is empty.
    """
    middle = median(values)
    deviation = median([abs(value - middle) for value in values])
    outliers = tuple(value for value in values if deviation > 0 and abs(value - middle) > OUTLYING * deviation)
    inner = [value for value in values if deviation == 0 or abs(value - middle) <= OUTLYING * deviation]
    low, high = min(inner), max(inner)
    count = min(max(round(2 * len(inner) ** (1 / 3)), 8), 24) if high > low else 1
    bins = [0] * count
    for value in inner:
        share = (value - low) / (high - low) if high > low else 0.0
        bins[min(int(share * count), count - 1)] += 1
    return Distribution(low, high, tuple(bins), middle, outliers, deviation > 0)


def single_calls(times: DeviceTimes) -> tuple[float, ...]:
    """Return the times of calls that were timed separately, ns: blocks of one call, or single calls."""
    calibrated = times.calibrated
    if calibrated is not None and calibrated.calls_per_block == 1:
        return times.samples.get(LATENCY, ())
    return times.samples.get(SINGLE, ())


def distribution_lines(times: DeviceTimes, width: int, glyphs: Glyphs, series: str) -> list[Spans]:
    """Return the histogram and the outliers of single calls, or of blocks if no call was timed alone."""
    singles = single_calls(times)
    values, noun = (singles, "single calls") if singles else (times.samples.get(LATENCY, ()), "blocks of calls")
    if len(values) < FEWEST:
        return []
    found = distribution(values)
    if len(found.bins) == 1:
        same = f"all {len(values) - len(found.outliers)} {noun} took {time_text(found.low_ns)}"
        return [*paragraph(same, width), *_outlying(found, width)]
    title = f"distribution of {len(values)} {noun}, fastest left (highest bar: {max(found.bins)})"
    return [
        *paragraph(title, width, "muted"),
        *(((f"    {line}", series),) for line in _histogram(found, width, glyphs)),
        ((f"    {_axis(found, width)}", "muted"),),
        *_outlying(found, width),
    ]


def _cell(found: Distribution, width: int) -> int:
    """Return the cells of one bar: one is hard to read, and more than three do not fit into 80 columns."""
    return 3 if 3 * len(found.bins) <= width // 2 else 2


def _histogram(found: Distribution, width: int, glyphs: Glyphs) -> tuple[str, ...]:
    """Return the bars, top line first; a bin without samples is empty."""
    cell = _cell(found, width)
    heights = [float(count) if count else None for count in found.bins for _ in range(cell)]
    return trend_lines(heights, len(heights), HEIGHT, 0.0, max(found.bins), glyphs)


def _axis(found: Distribution, width: int) -> str:
    """Return the times under the first and last bar, and their distance."""
    left, right = time_text(found.low_ns), time_text(found.high_ns)
    axis = f"{left}{right:>{_cell(found, width) * len(found.bins) - len(left)}}"
    spread = (found.high_ns - found.low_ns) / found.median_ns if found.median_ns > 0 else 0.0
    return f"{axis}  {percent(spread)} % of the median apart"


def _outlying(found: Distribution, width: int) -> list[Spans]:
    """Return the number of outliers and the furthest; all numbers include them."""
    if not found.can_tell:
        return paragraph("outliers unknown: more than half of the samples are equal", width, "muted")
    count = len(found.outliers)
    beyond = f"further than {OUTLYING:.1f} median deviations from the median"
    if not count:
        return paragraph(f"no outliers ({beyond})", width, "muted")
    least, most = min(found.outliers), max(found.outliers)
    far = f"the slowest {time_text(most)}" if most > found.median_ns else f"the fastest {time_text(least)}"
    text = f"{count} outlier{'s' if count != 1 else ''} ({beyond}), {far}; included in all numbers, but not drawn"
    return paragraph(text, width)
