"""The sentences of a survey: each workload in one class, with the inputs on the GPU and including copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.model.quantities import joined, size_text
from cpugpu_tui.render.sweep_words import bracket_text, exceptions, is_wide, point_size, where
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

FASTER = {
    ALWAYS: "at every size timed", FROM: "from a size on", WITHIN: "in a range, beyond it not decided",
    SEVERAL: "in several ranges", FALLS: "up to a size",
}  # fmt: skip
NOT_FASTER = {
    NEVER: "at any size timed", UP_TO: "up to a size, beyond it not decided", ALL_EQUAL: "because both are equal",
}  # fmt: skip
"""Class → its words, after `Faster` and `Not faster`."""


def classes_of(found: Named, key: str) -> dict[str, list[str]]:
    """Return class → names of the workloads in it, without empty classes."""
    classes: dict[str, list[str]] = {}
    for name, each in found:
        classes.setdefault(each.under(key).kind, []).append(name)
    return classes


def survey_sentences(found: Named) -> tuple[str, str, str]:
    """Return where the GPU is faster, where it is not, and the same including copies."""
    resident, moved = _texts(found, RESIDENT), _texts(found, END_TO_END)
    first = _listed(resident, FASTER) or ["at no size"]
    second = [f"Not faster on it {text}." for text in ("; ".join(_listed(resident, NOT_FASTER)),) if text]
    second += [f"Not decided: {resident[NOT_DECIDED]}."] if NOT_DECIDED in resident else []
    copies = [f"faster {text}" for text in _listed(moved, FASTER)]
    copies += [f"not faster {text}" for text in _listed(moved, NOT_FASTER)]
    copies += [f"{words}: {moved[kind]}" for kind, words in ((NOT_DECIDED, "not decided"), (NONE_TIMED, "not timed"))
               if kind in moved]  # fmt: skip
    return (
        f"Faster on this GPU {'; '.join(first)}.",
        " ".join(second) or "Every workload is faster on it at some size.",
        f"Including copies, {'; '.join(copies)}.",
    )


def _listed(texts: Mapping[str, str], words: Mapping[str, str]) -> list[str]:
    return [f"{words[kind]}: {texts[kind]}" for kind in words if kind in texts]


def _texts(found: Named, key: str) -> dict[str, str]:
    """Return class → its workloads, each with the sizes that the class leaves open."""
    texts: dict[str, list[str]] = {}
    for name, each in found:
        condition = each.under(key)
        texts.setdefault(condition.kind, []).append(f"{name}{_sizes(condition)}")
    return {kind: joined(names) for kind, names in texts.items()}


def _sizes(found: Condition) -> str:
    """Return the sizes of a class in brackets: ` (≈ 2,870)`, ` (500)`; empty for classes without a size."""
    if found.kind in (ALWAYS, NEVER, ALL_EQUAL, NOT_DECIDED, NONE_TIMED):
        return ""
    if found.kind == UP_TO:
        return f" ({size_text(found.ranges[-1].last)})"
    if found.kind != FROM:
        return f" ({where(found)})"
    change = found.crossover
    if change is None:
        at = size_text(found.ranges[-1].first)  # below it is not decided
    else:
        at = bracket_text(change) if is_wide(change) else f"≈ {size_text(point_size(change))}"
    return f" ({at}{exceptions(found)})"
