"""The sentences of a survey: what always belongs on the GPU, what never does and what depends on the size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cpugpu_tui.analysis.answer import Evidence, decided_points
from cpugpu_tui.analysis.survey import DEPENDS, UNCLEAR, by_kind, copied
from cpugpu_tui.decide.crossover import ALWAYS, NEVER, Crossover
from cpugpu_tui.model.quantities import joined, size_text
from cpugpu_tui.render.crossover_words import where


def _as_far_as(names: Sequence[str], found: Mapping[str, Crossover]) -> list[str]:
    """Return names of workloads with a winner, each with the largest size that has one if larger ones have none."""
    last = {name: decided_points(found[name])[-1].size for name in names}
    return [
        name if last[name] == found[name].points[-1].size else f"{name} up to {size_text(last[name])}" for name in names
    ]


def survey_sentences(found: Sequence[tuple[str, Evidence]]) -> tuple[str, str, str]:
    """Return what always belongs on the GPU, what never does, and what depends on the size. Takes (name, evidence)."""
    resident_found = {name: each.measured for name, each in found}
    moved_found = {name: copied(each) for name, each in found}
    resident, moved = by_kind(resident_found.items()), by_kind(moved_found.items())
    first = "No workload is faster on this GPU at every size"
    if always := resident[ALWAYS]:
        first = f"Always faster on this GPU: {joined(_as_far_as(always, resident_found))}"
        untimed = [name for name in always if not moved_found[name].points]
        if untimed != always:
            won = [name for name in always if name in moved[ALWAYS]]
            which = "all of them" if won == always else f"only {joined(won)}" if won else "none of them"
            first += f"; including copies, {which}{f' (not timed: {joined(untimed)})' if untimed else ''}"
    never = resident[NEVER]
    second = "No workload is slower on it at every size"
    if never:
        second = f"Never faster on it: {joined(_as_far_as(never, resident_found))}"
    if lost := [name for name in moved[NEVER] if name not in never]:
        second += f"; never faster including copies: {joined(_as_far_as(lost, moved_found))}"
    sizes = [f"{name} {where(resident_found[name])}" for name in resident[DEPENDS]]
    later = [f"{name} {where(moved_found[name])}" for name in moved[DEPENDS] if name in always]
    third = f"Depends on the size: {joined(sizes)}" if sizes else "Nothing depends on the size"
    if later:
        third += f"; including copies, also {joined(later)}" if sizes else f", but including copies {joined(later)}"
    third += f"; no winner: {joined(resident[UNCLEAR])}" if resident[UNCLEAR] else ""
    return f"{first}.", f"{second}.", f"{third}."
