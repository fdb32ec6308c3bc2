"""A comparison of two series in sentences, for the terminal and the app."""

from __future__ import annotations

from collections import Counter
from statistics import geometric_mean

from cpugpu_tui.analysis.change_words import VERDICT_WORDS, interval_text, percent_text
from cpugpu_tui.analysis.compare import (
    FASTER,
    MIN_RUNS,
    NOT_COMPARABLE,
    SAME,
    SLOWER,
    TOO_FEW,
    UNDECIDED,
    Change,
    Judged,
)
from cpugpu_tui.compare.comparison import SeriesComparison
from cpugpu_tui.compare.series import Series
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.quantities import time_text

NOTHING_DIFFERS = "Nothing that is known of machine and settings differs."

COPIED = "Runs that agree to the last digit are copies of one and count once: they tell nothing of chance."


def left_out(series: Series) -> str:
    """Return how many cases of a series are no baseline, in a sentence; empty where all are."""
    starved, count = series.starved_cases
    if not starved:
        return ""
    return f"{starved} of {count} cases lacked a core in some run; those times are left out."


def said(series: Series) -> str:
    """Return a series as it was named, fit for a terminal."""
    return printable(series.text)


def times(each: Judged) -> tuple[str, str]:
    """Return the times of both sides, geometric means over their runs; dashes for a group, which has many.

    The change is the ratio of just these: of medians, five runs that scatter read 46.0 and 45.6 µs beside -6.6 %.
    """
    if each.is_group:
        return "–", "–"
    base, new = (time_text(geometric_mean(side.values())) for side in (each.pairs[0].base_ns, each.pairs[0].new_ns))
    return base, new


def verdict_text(each: Judged) -> str:
    """Return the verdict, with why there is none where nothing can be compared."""
    return f"{each.verdict}: {each.trouble}" if each.trouble else each.verdict


def mean_text(device: str, mean: Change) -> str:
    """Return the geometric mean of a device in words."""
    interval = f" ({interval_text(mean)})" if mean.low is not None else ""
    return f"{device}, geometric mean of all cases: {percent_text(mean.ratio)}{interval}"


def summary(found: SeriesComparison) -> list[str]:
    """Return what is said below the verdicts."""
    lines = [mean_text(device, mean) for device, mean in found.means.items()]
    counts = Counter(each.verdict for each in found.judged)
    if counts[TOO_FEW]:
        lines.append(
            f"Too few runs for {counts[TOO_FEW]} of {len(found.judged)} verdicts: {MIN_RUNS} on each side are needed, "
            "five are better. That is not `no change`."
        )
    if any(each.change is not None and each.change.is_copied for each in found.judged):
        lines.append(COPIED)
    if counts[UNDECIDED]:
        lines.append(f"{counts[UNDECIDED]} undecided: more runs in each series would narrow the intervals.")
    if any(each.is_group for each in found.judged):
        lines.append("Many cases: neighbours in size share a verdict.")
    if counts[NOT_COMPARABLE] == len(found.judged):
        lines.append("Nothing here can be compared.")
    return lines


def in_short(found: SeriesComparison) -> str:
    """Return the verdicts counted: `2 slower, 1 faster of 28`; with too few runs the geometric means of the devices."""
    counts = Counter(each.verdict for each in found.judged)
    judged = sum(counts.values()) - counts[TOO_FEW] - counts[NOT_COMPARABLE]
    if not judged:
        means = ", ".join(
            f"{device} {percent_text(mean.ratio).replace(' ', '')}" for device, mean in found.means.items()
        )
        return f"{means}, too few runs" if means else "nothing comparable"
    told = [f"{counts[word]} {VERDICT_WORDS[word]}" for word in (SLOWER, FASTER) if counts[word]]
    if told:
        return f"{', '.join(told)} of {judged}"
    return VERDICT_WORDS[SAME if counts[SAME] == judged else UNDECIDED]
