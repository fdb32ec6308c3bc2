"""The sentences of a survey: each workload in one class, with the inputs on the GPU and including copies."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.model.quantities import joined, size_text
from cpugpu_tui.render.crossover_words import bracket_text, exceptions, is_wide, point_text, ranges_text, where
from cpugpu_tui.report.conditions import Condition
from cpugpu_tui.report.report import SweepReport
from cpugpu_tui.report.segments import (
    ALL_EQUAL,
    ALWAYS,
    FALLS,
    FROM,
    NEVER,
    NONE_TIMED,
    NOT_DECIDED,
    SEVERAL,
    UP_TO,
    WITHIN,
)

Named = Sequence[tuple[str, SweepReport]]
"""Workloads of a survey with their names."""

CLASS_WORDS = {
    ALWAYS: "faster at every size timed", FROM: "faster from a size on",
    WITHIN: "faster in a range, unclear beyond it", SEVERAL: "faster in several ranges",
    FALLS: "faster up to a size", NEVER: "not faster at any size timed",
    UP_TO: "slower in a range, otherwise unclear", ALL_EQUAL: "not faster because both are equal",
    NOT_DECIDED: "unclear", NONE_TIMED: "not timed",
}  # fmt: skip
"""Class → its words, most important first."""


def classes_of(found: Named, key: str) -> dict[str, list[str]]:
    """Return class → names of the workloads in it, without empty classes."""
    classes: dict[str, list[str]] = {}
    for name, each in found:
        classes.setdefault(each.under(key).kind, []).append(name)
    return classes


def survey_sentences(found: Named, *, is_recorded: bool = False) -> tuple[str, str]:
    """Return which workloads are faster on the GPU, and which not; and the same including copies."""
    gpu = "the recorded" if is_recorded else "this"
    return f"On {gpu} GPU, {_classes_text(found, RESIDENT)}.", f"Including copies, {_classes_text(found, END_TO_END)}."


def _classes_text(found: Named, key: str) -> str:
    """Return each class with its workloads, and these with the sizes that the class leaves open."""
    texts: dict[str, list[str]] = {}
    for name, each in found:
        condition = each.under(key)
        texts.setdefault(condition.kind, []).append(f"{name}{_sizes(condition)}")
    return "; ".join(f"{words}: {joined(texts[kind])}" for kind, words in CLASS_WORDS.items() if kind in texts)


def _sizes(found: Condition) -> str:
    """Return the sizes of a class in brackets: ` (≈ 2,870)`, ` (500)`; empty for classes without a size."""
    if found.kind in (ALWAYS, NEVER, ALL_EQUAL, NOT_DECIDED, NONE_TIMED):
        return ""
    if found.kind == UP_TO:
        return f" ({ranges_text(found)})"
    if found.kind != FROM:
        return f" ({where(found, with_above=False)})"
    change = found.crossover
    if change is None:
        first = found.ranges[-1].first
        at = size_text(first) if first == found.timed[0].size else f"≤ {size_text(first)}"  # below it is unclear
    else:
        at = bracket_text(change) if is_wide(change) else point_text(change)
    return f" ({at}{exceptions(found)})"
