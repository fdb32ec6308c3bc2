"""Sentences about a whole run: heading, progress, answers as a table, early ends, energies, settings that matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from cpugpu_tui.analysis import survey
from cpugpu_tui.analysis.answer import is_wide, not_judged
from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.analysis.energy import SCOPE_WORDS, energy
from cpugpu_tui.analysis.event_clock import clock_sentences
from cpugpu_tui.decide.crossover import ALWAYS, NEVER, RISES, Crossover
from cpugpu_tui.decide.next_size import next_size
from cpugpu_tui.decide.verdict import CPU_WINS
from cpugpu_tui.machine.text import REASONS, printable
from cpugpu_tui.model import ENERGY, Search, work_name
from cpugpu_tui.model.quantities import count_of, factor, percent, size_text
from cpugpu_tui.render.answers import (
    Answer,
    answer_lines,
    has_sweeps,
    is_survey,
    leading_answers,
    named_on,
    usable,
    world,
)
from cpugpu_tui.render.columns import COLUMNS, NONE, Key
from cpugpu_tui.render.crossover_words import open_sweep_words, speedup_text, where
from cpugpu_tui.render.gpus import device_texts
from cpugpu_tui.render.verdicts import mark_lines
from cpugpu_tui.session.planning import scale_text
from cpugpu_tui.state.state import Row, RunState

WORLDS = {RESIDENT: "", END_TO_END: "including copies "}
"""Crossovers that a search narrows → words before their bracket."""


# ------------------------------------------------------------------ above a table


def heading(run: RunState) -> str:
    """Return processors, threads, torch and unusual settings; simulated runs are marked first."""
    host = run.facts.get("fleet_host")
    parts = [*([f"on {printable(str(host))}"] if host else []), *device_texts(run)]
    if run.threads:
        parts.append(count_of(run.threads, "CPU thread"))
    if run.facts.get("torch"):
        parts.append(f"torch {run.facts['torch']}")
    text = " · ".join([*parts, *settings(run)])
    own = ", and your code was not run" if run.plan.codes or run.plan.own_files else ""
    return f"SIMULATED: no number here was measured{own}. {text}" if run.simulated else text


def settings(run: RunState) -> list[str]:
    """Return the settings of a run that differ from the defaults: TF32, caches, the worker."""
    parts = ["TF32 on"] if run.facts.get("tf32_matmul") else []
    parts += [f"caches {run.plan.cache}"] if run.plan.cache != "cold" else []
    return [*parts, *(["worker: thread"] if run.facts.get("worker") == "thread" else [])]


def when(run: RunState) -> str:
    """Return when the run began and how it ended."""
    if run.run is None:
        return ""
    began = f"{datetime.fromtimestamp(run.run.wall_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{began}, {run.finished.status if run.finished is not None else 'unfinished'}"


# ------------------------------------------------------------------ below it


def sentences(run: RunState) -> list[str]:
    """Return the sentences about a run in a file, most important first, without the meanings of marks."""
    lines = [*answer_lines(run), cut_short(run), *notes(run), *energy_lines(run)]
    return [line for line in lines if line]


def notes(run: RunState) -> list[str]:
    """Return warnings about a run: small scale, failure, variables that slow the CPU down."""
    lines = [starts_sentence(run), small_scale(run), inherited(run), *clock_sentences(run.clocks)]
    if run.finished is not None and run.finished.message:
        status = "" if run.finished.status == "done" else f"{run.finished.status}: "
        lines.insert(1, f"{status}{run.finished.message} {run.finished.remedy}".strip())
    return [line for line in lines if line]


def starts_sentence(run: RunState) -> str:
    """Return how many starts of the process the intervals cover; empty for a run of one start."""
    if run.starts < 2:
        return ""
    rest = sum(row.starts < 2 for row in run.rows.values() if row.status == "ok")
    once = f" {count_of(rest, 'row')} of one start: ± holds within this start." if rest else ""
    return f"{run.starts} starts of the process: ± holds for the mean of other starts too.{once}"


def small_scale(run: RunState) -> str:
    """Return what the small scale of a run changes; empty for the full scale."""
    return f"Small scale: {scale_text(run.plan)}." if run.plan.scale == "small" else ""


def inherited(run: RunState) -> str:
    """Return the environment variables that may slow the CPU down; empty without any."""
    names = ", ".join(f"{name}={value}" for name, value in (run.facts.get("inherited") or {}).items())
    return f"Warning: inherited {names}, which can slow the CPU down." if names else ""


def conditions(run: RunState) -> list[str]:
    """Return unusual settings, marks and warnings of a run of a fleet."""
    unusual = ", ".join(settings(run))
    lines = [
        f"With {unusual}." if unusual else "",
        *mark_lines(run),
        *clock_sentences(run.clocks),
        small_scale(run),
        inherited(run),
    ]
    return [line for line in lines if line]


def energy_lines(run: RunState) -> list[str]:
    """Return the error of the energies, or why a run with --energy has none."""
    lines = []
    rows = run.rows.values()
    for name, found_on in (("CPU", [row.cpu for row in rows]), ("GPU", [row.gpu for row in rows])):
        found = [energy(times.energy) for times in found_on if times is not None]
        known = [each for each in found if each.joules_per_call.value is not None]
        if known:
            off = percent(max(each.plus_minus or 0.0 for each in known))
            scope = SCOPE_WORDS.get(known[0].scope, "")
            lines.append(f"{name} energy: per call, ± {off} % (one counter step){f'; {scope}' if scope else ''}.")
            disputed = sum(each.is_disputed for each in known)
            if disputed:
                lines.append(f"In {disputed} of these rows the polled power differs from the counter by over 10 %.")
        elif found and ENERGY in run.plan.metrics:
            reasons = dict.fromkeys(REASONS.get(each.joules_per_call.reason or "", "unknown") for each in found)
            lines.append(f"No {name} energy: {', '.join(reasons)}.")
    return lines


def cut_short(run: RunState) -> str:
    """Return what a search did not reach within its time limit, as a sentence; empty if it finished."""
    plan = run.plan
    if plan.search is None or run.status != "done":
        return ""
    if plan.max_seconds is None and not plan.search.is_survey:
        return ""
    several = len(run.sweeps) > 1
    wide, skipped = [], 0
    for sweep, rows in run.sweeps.items():
        skipped += sum(row.status == "skipped" for row in rows)
        name = f"{work_name(sweep)} " if several else ""
        start = sum(case.sweep == sweep for case in plan.cases)
        wide += [f"{name}{bracket}" for bracket in _wide_brackets(run, plan.search, rows, start)]
    parts = [f"{skipped} of {len(run.rows)} sizes were not reached"] if skipped else []
    parts += [f"brackets still wide: {', '.join(wide)}"] if wide else []
    return f"The time limit ended the search early: {'; '.join(parts)}." if parts else ""


def _wide_brackets(run: RunState, search: Search, rows: Sequence[Row], start: int) -> list[str]:
    """Return the brackets that a search, begun with `start` sizes, would have narrowed further."""
    tried = [row.case.size for row in rows]
    found = []
    for key, words in WORLDS.items():
        most = search.most_cases if key == END_TO_END else min(search.most_cases, start + search.most_steps)
        crossing = world(run, usable(rows), key)
        if len(tried) < most and next_size(crossing.points, tried, search.ratio) is not None:
            found.append(f"{words}{crossing.low:,}–{crossing.high:,}")
    return found


# ------------------------------------------------------------------ answer table


NAME, FROM, BRACKET, LARGEST, COPIES, LIMIT = (
    "workload", "GPU wins from", "bracket", "speedup at the largest", "with copies, at the largest", "limited by"
)  # fmt: skip

SIGNS = {survey.CPU: "░", survey.OPEN: "│", survey.RESIDENT: "▓", survey.BOTH: "█"}
"""Part of a workload's axis → its sign in the picture of a survey."""

PICTURE = "{cpu} CPU {open} ? {resident} GPU {both} with copies".format_map(SIGNS)
"""Heading of the picture, which explains its signs."""

OPTIONAL = (LARGEST, COPIES, BRACKET, LIMIT)
"""Columns that narrow terminals may omit, most important first."""

OPTIONAL_IN_SURVEY = (PICTURE, COPIES, BRACKET, LARGEST, LIMIT)
"""The same for a survey, which alone has the picture."""

GAP = 2


def table_lines(run: RunState, width: int, spell: Callable[[str], str] = str) -> tuple[str, ...]:
    """Return the answers as lines of at most `width` cells, headings first; empty for a run with one answer.

    The lines are in the order of `leading_answers`. `spell` converts a text to the terminal's characters.
    """
    rows = [{name: spell(text) for name, text in cells.items()} for cells in answer_cells(run)]
    if not rows:
        return ()
    names = _fitting(rows, width)
    live = ", so far" if run.status == "running" else ""
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    widths[NAME] = max(widths[NAME], len(NAME + live))
    head = {name: spell(name) for name in names} | {NAME: NAME + live}
    lines = (_line(row, widths) for row in (head, *rows))
    # The range of `every size (1–1,024)` goes as a whole, because a cut number misleads.
    return tuple(line if len(line) <= width else line.partition(" (")[0][:width] for line in lines)


def answer_cells(run: RunState) -> list[dict[str, str]]:
    """Return the answers as cells by heading, in the order of `leading_answers`; empty for a run with one answer."""
    found = leading_answers(run) if has_sweeps(run) else ()
    return [_cells(run, answer) for answer in found] if len(found) > 1 else []


def _line(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    return (" " * GAP).join(f"{cells[name]:<{width}}" for name, width in widths.items()).rstrip()


def _fitting(rows: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """Return the columns that fit, without empty ones. Whole columns are omitted, because a cut number misleads."""
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) + GAP for name in rows[0]}
    chosen = {NAME, FROM}
    for name in OPTIONAL_IN_SURVEY if PICTURE in rows[0] else OPTIONAL:
        holds_something = any(row[name] not in (NONE, "-") for row in rows)
        if holds_something and sum(widths[each] for each in (*chosen, name)) - GAP <= width:
            chosen.add(name)
    return [name for name in rows[0] if name in chosen]


def _cells(run: RunState, answer: Answer) -> dict[str, str]:
    found, moved = answer.evidence.measured, answer.evidence.worlds.get(END_TO_END)
    picture = {PICTURE: _picture(survey.parts(answer.evidence))} if is_survey(run) else {}
    return {
        NAME: named_on(answer), **picture, FROM: _from(found, answer.evidence.axis if picture else ""),
        BRACKET: _bracket(found), LARGEST: _at_largest(found),
        COPIES: NONE if moved is None or not moved.points else _moved(moved), LIMIT: _limit(run, answer),
    }  # fmt: skip


def _picture(parts: Sequence[survey.Part]) -> str:
    """Return a workload's axis in cells. A bracket is seen however narrow it is; else a cell's first part counts."""
    cells = len(PICTURE)
    inside = (
        [part.kind for part in parts if part.start * cells < cell + 1 and part.end * cells > cell]
        for cell in range(cells)
    )
    return "".join(SIGNS[survey.OPEN if survey.OPEN in kinds else kinds[0]] for kinds in inside if kinds)


def _size(size: int) -> str:
    return size_text(size) if size >= 100_000 else f"{size:,}"


def _bracket(found: Crossover) -> str:
    return NONE if found.low is None else f"{_size(found.low)}–{_size(found.high or 0)}"


def _from(found: Crossover, axis: str = "") -> str:
    """Return where the GPU wins, in a few words."""
    if found.kind == RISES and is_wide(found):
        return f"within {_bracket(found)}"  # the column of brackets may have no room
    if found.kind in (ALWAYS, RISES):
        return where(found, axis, brief=True).removeprefix("from ")
    if found.kind == NEVER:
        return _nowhere(found)
    return where(found, axis) if found.low is not None else open_sweep_words(found)


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
    return COLUMNS[Key.LIMIT].text(state, max(timed, key=lambda row: row.case.size)) if timed else NONE
