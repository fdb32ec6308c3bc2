"""The answers of a run with several sweeps as a table, one line each, for the app and for stdout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cpugpu_tui.analysis.answer import is_wide, not_judged, speedup_text, where
from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.decide.crossover import ALWAYS, NEVER, RISES, TIES, Crossover
from cpugpu_tui.decide.verdict import CPU_WINS
from cpugpu_tui.model.quantities import factor, percent, size_text
from cpugpu_tui.render.answers import Answer, has_sweeps, leading_answers, named_on
from cpugpu_tui.render.insight import row_limit
from cpugpu_tui.state.state import RunState

NAME, FROM, BRACKET, LARGEST, COPIES, LIMIT = (
    "workload", "GPU wins from", "bracket", "speedup at the largest", "including copies", "limited by"
)  # fmt: skip

OPTIONAL = (LARGEST, COPIES, BRACKET, LIMIT)
"""Columns that narrow terminals may omit, most important first."""

NONE, GAP = "–", 2


def table_lines(run: RunState, width: int, spell: Callable[[str], str] = str) -> tuple[str, ...]:
    """Return the answers as lines of at most `width` cells, headings first; empty for a run with one answer.

    The lines are in the order of `leading_answers`. `spell` converts a text to the terminal's characters.
    """
    if not has_sweeps(run) or len(found := leading_answers(run)) < 2:
        return ()
    rows = [{name: spell(text) for name, text in _cells(run, answer).items()} for answer in found]
    names = _fitting(rows, width)
    live = ", so far" if run.status == "running" else ""
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    widths[NAME] = max(widths[NAME], len(NAME + live))
    head = {name: name for name in names} | {NAME: NAME + live}
    return tuple(_line(row, widths)[:width] for row in (head, *rows))


def _line(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    return (" " * GAP).join(f"{cells[name]:<{width}}" for name, width in widths.items()).rstrip()


def _fitting(rows: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """Return the columns that fit, without empty ones. Whole columns are omitted, because a cut number misleads."""
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) + GAP for name in rows[0]}
    chosen = {NAME, FROM}
    for name in OPTIONAL:
        holds_something = any(row[name] not in (NONE, "-") for row in rows)
        if holds_something and sum(widths[each] for each in (*chosen, name)) - GAP <= width:
            chosen.add(name)
    return [name for name in rows[0] if name in chosen]


def _cells(run: RunState, answer: Answer) -> dict[str, str]:
    found, moved = answer.evidence.measured, answer.evidence.worlds.get(END_TO_END)
    is_named = found.low is not None
    return {
        NAME: named_on(answer),
        FROM: _from(found),
        BRACKET: f"{_size(found.low or 0)}–{_size(found.high or 0)}" if is_named else NONE,
        LARGEST: _at_largest(found),
        COPIES: NONE if moved is None or not moved.points else _moved(moved),
        LIMIT: _limit(run, answer),
    }


def _size(size: int) -> str:
    return size_text(size) if size >= 100_000 else f"{size:,}"


def _from(found: Crossover) -> str:
    """Return where the GPU wins, in a few words."""
    if found.kind == RISES and is_wide(found):
        return "somewhere in"
    if found.kind in (ALWAYS, RISES):
        return where(found).removeprefix("from ").removeprefix("at every size from ")
    if found.kind == NEVER:
        return _nowhere(found)
    if found.low is not None:
        return where(found)
    if found.kind == TIES:
        return "equally fast"
    return "not judged" if all(not_judged(point.comparison) for point in found.points) else "too close to call"


def _nowhere(found: Crossover, up_to: str = "not up to") -> str:
    """Return `no size`, or the largest judged size: `not up to 500`."""
    winners = [point.size for point in found.points if point.comparison.winner == CPU_WINS]
    return "no size" if winners[-1] == found.points[-1].size else f"{up_to} {_size(winners[-1])}"


def _at_largest(found: Crossover) -> str:
    """Return `95.4× ± 0.4 % at 100M`, with the reason if it was not judged: `40.5× at 9,951 (1 round)`."""
    largest = found.points[-1]
    text, reason = speedup_text(largest.comparison), not_judged(largest.comparison)
    aside = "" if not reason else f" ({'not judged' if reason in text else reason})"
    return f"{text} at {_size(largest.size)}{aside}"


def _moved(moved: Crossover) -> str:
    """Return where the GPU wins including copies, and its speedup at the largest size."""
    largest = moved.points[-1].comparison
    reason = not_judged(largest)
    if is_wide(moved):
        place = f"{_size(moved.low or 0)}–{_size(moved.high or 0)}"
    else:  # `not up to 100` would seem to contradict a speedup above 1 that was not judged
        place = _nowhere(moved, "CPU up to") if moved.kind == NEVER else _from(moved)
    return f"{place}, {factor(largest.speedup)}{f' ({reason})' if reason else ''}"


def _limit(run: RunState, answer: Answer) -> str:
    """Return what limits the largest size, with the share of that peak rate."""
    state = run.on(answer.gpu.name) if answer.gpu is not None else run
    timed = [row for row in answer.rows if row.comparison is not None]
    found = row_limit(state, max(timed, key=lambda row: row.case.size)) if timed else None
    if found is None:
        return NONE
    return found.kind if found.share is None else f"{found.kind} {percent(found.share)} %"
