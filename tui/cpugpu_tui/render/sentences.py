"""Sentences about a whole run: heading, progress, early ends, energies, settings that change what numbers mean."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.analysis.energy import SCOPE_WORDS, energy
from cpugpu_tui.decide.crossover import next_size
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import CALIBRATION, ENERGY, Search
from cpugpu_tui.model.quantities import duration, micro, percent
from cpugpu_tui.render.answers import answer_lines, usable, world
from cpugpu_tui.render.gpus import device_texts
from cpugpu_tui.render.verdicts import mark_lines
from cpugpu_tui.session.planning import scale_text
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.telemetry.reasons import REASONS

WORLDS = {RESIDENT: "", END_TO_END: "including copies "}
"""Crossovers that a search narrows → words before their bracket."""


# ------------------------------------------------------------------ above a table


def heading(run: RunState) -> str:
    """Return processors, threads, torch and unusual settings; simulated runs are marked first."""
    facts = run.run.environment if run.run is not None else {}
    host = facts.get("fleet_host")
    parts = [*([f"on {printable(str(host))}"] if host else []), *device_texts(run)]
    if run.threads:
        parts.append(f"{run.threads} CPU thread{'s' if run.threads != 1 else ''}")
    if facts.get("torch"):
        parts.append(f"torch {facts['torch']}")
    text = " · ".join([*parts, *settings(run)])
    return f"SIMULATED: no number here was measured. {text}" if run.simulated else text


def settings(run: RunState) -> list[str]:
    """Return the settings of a run that differ from the defaults: TF32, caches, the worker."""
    if run.run is None:
        return []
    parts = ["TF32 on"] if run.run.environment.get("tf32_matmul") else []
    parts += [f"caches {run.run.plan.cache}"] if run.run.plan.cache != "cold" else []
    return [*parts, *(["worker: thread"] if run.run.environment.get("worker") == "thread" else [])]


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
    return [micro(line) for line in lines if line]


def notes(run: RunState) -> list[str]:
    """Return warnings about a run: small scale, failure, variables that slow the CPU down."""
    lines = [small_scale(run), inherited(run)]
    if run.finished is not None and run.finished.message:
        lines.insert(1, f"{run.finished.status}: {run.finished.message} {run.finished.remedy}".strip())
    return [line for line in lines if line]


def small_scale(run: RunState) -> str:
    """Return what the small scale of a run changes; empty for the full scale."""
    is_small = run.run is not None and run.run.plan.scale == "small"
    return f"Small scale: {scale_text(run.run.plan)}." if is_small and run.run is not None else ""


def inherited(run: RunState) -> str:
    """Return the environment variables that may slow the CPU down; empty without any."""
    found = (run.run.environment.get("inherited") if run.run is not None else None) or {}
    names = ", ".join(f"{name}={value}" for name, value in found.items())
    return f"Warning: inherited {names}, which can slow the CPU down." if names else ""


def conditions(run: RunState) -> list[str]:
    """Return unusual settings, marks and warnings of a run of a fleet."""
    unusual = ", ".join(settings(run))
    lines = [f"With {unusual}." if unusual else "", *mark_lines(run), small_scale(run), inherited(run)]
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
        elif found and run.run is not None and ENERGY in run.run.plan.metrics:
            reasons = dict.fromkeys(REASONS.get(each.joules_per_call.reason or "", "unknown") for each in found)
            lines.append(f"No {name} energy: {', '.join(reasons)}.")
    return lines


def cut_short(run: RunState) -> str:
    """Return what a search did not reach because of --max-seconds, as a sentence; empty if it finished."""
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
    parts = [f"{skipped} of {len(run.rows)} sizes were not reached"] if skipped else []
    parts += [f"brackets still wide: {', '.join(wide)}"] if wide else []
    return f"--max-seconds ended the search early: {'; '.join(parts)}." if parts else ""


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


# ------------------------------------------------------------------ progress


BAR_CELLS = 10

SOON_S = 1.0
"""Shorter times left are not shown, to avoid "0:00 left" while cases are still to come."""


def most_cases_of(run: RunState) -> int:
    """Return the number of cases of the run, or the largest number that a search may reach."""
    plan = run.run.plan if run.run is not None else None
    if plan is None or plan.search is None or _is_over(run):
        return len(run.rows)
    return max(plan.search.most_cases * len(run.sweeps), len(run.rows))


def done_text(run: RunState) -> str:
    """Return `3 of 8 cases`, during a search `3 of at most 20 cases`, and at the end `14 cases`."""
    if _is_over(run):
        done = f"{run.settled} of {len(run.rows)}" if run.settled < len(run.rows) else f"{run.settled}"
        return f"{done} case{'' if len(run.rows) == 1 else 's'}"
    most = most_cases_of(run)
    if _is_search(run):
        return f"{run.settled} of at most {most} cases"
    return f"{run.settled} of {most} case{'' if most == 1 else 's'}"


def left_text(run: RunState, seconds_left: float | None) -> str:
    """Return `0:12 left`, during a search `at most 0:12 left`; empty if unknown."""
    if seconds_left is None or seconds_left < SOON_S or _is_over(run):
        return ""
    return f"{'at most ' if _is_search(run) else ''}{duration(seconds_left)} left"


def bar(run: RunState, full: str, rest: str) -> tuple[str, str]:
    """Return the bar's two parts, done and rest, of `BAR_CELLS` together."""
    cells = round(BAR_CELLS * run.settled / most_cases_of(run)) if run.rows else 0
    return full * cells, rest * (BAR_CELLS - cells)


def _is_search(run: RunState) -> bool:
    return run.run is not None and run.run.plan.search is not None


def _is_over(run: RunState) -> bool:
    """Whether all cases are done: the run has ended, or calibrates the machine after its cases."""
    return run.finished is not None or (run.current is not None and run.current.phase == CALIBRATION)
