"""What a search would have gone on with, had --max-seconds not ended it: its answer is said beside that."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.decide.crossover import Crossover, next_size
from cpugpu_tui.model import Search
from cpugpu_tui.render.answers import usable, world
from cpugpu_tui.state.state import Row, RunState

WORLDS = {RESIDENT: "", END_TO_END: "including copies "}
"""Crossovers that a search narrows, and what is said before their bracket."""


def cut_short(run: RunState) -> str:
    """Return what --max-seconds left undone of a search, as a sentence; empty where it came to its own end."""
    plan = run.run.plan if run.run is not None else None
    if plan is None or plan.search is None or plan.max_seconds is None or run.status != "done":
        return ""
    several = len(run.sweeps) > 1
    wide, skipped = [], 0
    for sweep, rows in run.sweeps.items():
        skipped += sum(row.status == "skipped" for row in rows)
        name = f"{' '.join([sweep[0], *([] if sweep[1] == 'default' else [sweep[1]])])} " if several else ""
        start = sum(case.sweep == sweep for case in plan.cases)
        wide += [f"{name}{bracket}" for bracket in _wide_brackets(run, plan.search, rows, start)]
    said = [f"{skipped} of {len(run.rows)} sizes were not reached"] if skipped else []
    said += [f"brackets still wide: {', '.join(wide)}"] if wide else []
    return f"--max-seconds ended the search early: {'; '.join(said)}." if said else ""


def _wide_brackets(run: RunState, search: Search, rows: Sequence[Row], start: int) -> list[str]:
    """Return the brackets of a sweep that its search, begun with `start` sizes, would have narrowed further."""
    tried = [row.case.size for row in rows]
    found = []
    for key, words in WORLDS.items():
        most = search.most_cases if key == END_TO_END else min(search.most_cases, start + search.most_steps)
        crossing = world(run, usable(rows), key)
        if len(tried) < most and _would_go_on(crossing, tried, search.ratio):
            found.append(f"{words}{crossing.low:,}–{crossing.high:,}")
    return found


def _would_go_on(crossing: Crossover, tried: Sequence[int], ratio: float) -> bool:
    return next_size(crossing.points, tried, ratio) is not None
