"""A saved run in one line of a list, and in the lines below it."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from cpugpu_tui.compare.outcomes import Outcome, change_text
from cpugpu_tui.model.quantities import counted, duration, size_text
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.live.saved_runs import age_text
from cpugpu_tui.ui.panes.lines import Spans, cut, spelled, wrapped
from cpugpu_tui.ui.panes.status import status_sign
from cpugpu_tui.ui.panes.telemetry.wording import stranger

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary

NUMBER, DTYPE, SIZES, CASES, TOOK = 5, 4, 9, 7, 7
"""Cells of the columns with a fixed width."""
MARK = "*"
"""Before a run that is marked to be compared."""
AGE, DATE = 6, 16
"""Cells of `59 min` and of `2026-01-31 14:05`."""
DATE_WIDTH = 100
"""Columns from which dates are shown instead of ages, and the cases and the duration of each run."""

SHORT = {"float64": "f64", "float32": "f32", "bfloat16": "bf16", "float16": "f16"}
"""Dtype → its short name, which a filter also accepts."""

SPACIOUS = 140
"""Columns from which two cells separate the columns."""


@dataclass(frozen=True)
class Widths:
    """Cells of the columns at one width of the terminal."""

    gap: str
    """Between two columns."""
    when: int
    what: int
    answer: int
    change: int
    tags: int
    """The rest of the line; tags come before the devices."""
    is_wide: bool
    """Whether there is room for cases and duration."""

    @classmethod
    def of(cls, width: int) -> Widths:
        """Return the columns for a line of `width` cells."""
        is_wide = width >= DATE_WIDTH
        when, gap = DATE if is_wide else AGE, "  " if width >= SPACIOUS else " "
        fixed = 2 + NUMBER + when + DTYPE + SIZES + (CASES + TOOK if is_wide else 0)
        left = max(width - fixed - (9 if is_wide else 7) * len(gap), 40)
        what, change = min(max(left // 5, 11), 24), 10
        answer = min(max((left - what - change) // 2, 19), 32)
        return cls(gap, when, what, answer, change, max(left - what - change - answer, 0), is_wide)


def heads(width: int) -> Spans:
    """Return the headings."""
    widths = Widths.of(width)
    wide = (f"{'cases':>{CASES}}", f"{'took':>{TOOK}}") if widths.is_wide else ()
    cells = (
        f"{'run':>{NUMBER}}", f"{'started' if widths.is_wide else 'age':<{widths.when}}", f"{'what':<{widths.what}}",
        f"{'type':<{DTYPE}}", f"{'sizes':<{SIZES}}", f"{'answer':<{widths.answer}}", f"{'change':>{widths.change}}",
        *wide, "tags, devices",
    )  # fmt: skip
    return ((f"  {widths.gap.join(cells)}"[:width], "muted"),)


def run_line(
    run: RunSummary, outcome: Outcome | None, width: int, glyphs: Glyphs, now_ns: int, *, chosen: bool, marked: bool
) -> Spans:  # fmt: skip
    """Return a run in one line of the list; its outcome is None until it was read."""
    widths = Widths.of(width)
    pad = widths.gap
    sign, role = status_sign(run.status, glyphs)
    total = run.cases_ok + run.cases_failed + run.cases_skipped
    cases = str(run.cases_ok) if run.cases_ok == total else f"{run.cases_ok}/{total}"
    took = glyphs.none if run.duration_ns is None else duration(run.duration_ns / 1e9)
    wide = [(f"{cases:>{CASES}}{pad}", "warn" if run.cases_failed else "text"), (f"{took:>{TOOK}}{pad}", "text")]
    change = spelled(outcome.widest, glyphs) if outcome is not None else ""
    devices = cut(f"{_tags_text(run, glyphs)} {_short_devices(run, glyphs)}".strip(), widths.tags, glyphs)
    parts: list[tuple[str, str]] = [
        (glyphs.cursor if chosen else " ", "text"),
        (MARK if marked else " ", "strong"),
        (f"{run.number:>{NUMBER}}{pad}", "text"),
        (f"{_when(run, now_ns, is_wide=widths.is_wide):<{widths.when}}{pad}", "muted"),
        (f"{cut(named(run.name, glyphs), widths.what, glyphs):<{widths.what}}{pad}", "text"),
        (f"{cut(dtypes_text(run, glyphs), DTYPE, glyphs):<{DTYPE}}{pad}", "text"),
        (f"{cut(sizes_text(run, glyphs), SIZES, glyphs):<{SIZES}}{pad}", "text"),
        (f"{sign} ", role),
        (f"{cut(_answer(run, outcome, glyphs), widths.answer - 2, glyphs):<{widths.answer - 2}}{pad}",
         "text" if run.status == "done" else role),
        (f"{cut(change, widths.change, glyphs):>{widths.change}}{pad}", "text"),
        *(wide if widths.is_wide else ()),
        (devices, "muted"),
    ]  # fmt: skip
    return (("".join(text for text, _ in parts), "chosen"),) if chosen else tuple(parts)


def dtypes_text(run: RunSummary, glyphs: Glyphs) -> str:
    """Return the dtype of a run in short, or how many it has."""
    if len(run.dtypes) > 1:
        return f"{len(run.dtypes)}x"
    return named(SHORT.get(run.dtypes[0], run.dtypes[0]), glyphs) if run.dtypes else glyphs.none


def sizes_text(run: RunSummary, glyphs: Glyphs) -> str:
    """Return the range of a run's sizes: `64-2048`."""
    if not run.sizes:
        return glyphs.none
    ends = dict.fromkeys((run.sizes[0], run.sizes[-1]))
    exact = "-".join(size_text(size) for size in ends)
    return exact if len(exact) <= SIZES else "-".join(f"{size:.0e}".replace("e+0", "e") for size in ends)


def _answer(run: RunSummary, outcome: Outcome | None, glyphs: Glyphs) -> str:
    """Return how a run ended unless it is done, then its answer."""
    answer = spelled(outcome.answer, glyphs) if outcome is not None else ""
    if run.status == "running":
        return f"running {run.cases_ok}"
    return " ".join(filter(None, ("" if run.status == "done" and answer else run.status, answer)))


def about(run: RunSummary, outcome: Outcome | None, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return lines about a run with the facts that its line has no room for."""
    started = datetime.fromtimestamp(run.started_wall_ns / 1e9)
    elsewhere = "" if run.hostname == socket.gethostname() else f" on {named(run.hostname, glyphs)}"
    simulated = f" {glyphs.dot} SIMULATED" if run.simulated else ""
    parts = [f"run {run.number}", named(run.run_id, glyphs), f"{started:%Y-%m-%d %H:%M:%S}{elsewhere}"]
    first = f" {glyphs.dot} ".join(parts)
    cases = ", ".join(
        f"{count} {word}"
        for count, word in ((run.cases_ok, "ok"), (run.cases_failed, "failed"), (run.cases_skipped, "skipped"))
        if count or word == "ok"
    )
    took = "" if run.duration_ns is None else f"took {duration(run.duration_ns / 1e9)}"
    parts = [cases, took, *(named(device, glyphs) for device in counted(run.devices)), _tags_text(run, glyphs)]
    second = f" {glyphs.dot} ".join(part for part in parts if part)
    lines = [*wrapped(first + simulated, width, lines=1), *wrapped(second, width, "muted", lines=1)]
    return [*lines, *wrapped(spelled(_result(run, outcome), glyphs), width, lines=1)]


def _result(run: RunSummary, outcome: Outcome | None) -> str:
    """Return sizes, dtypes, answer and change in words."""
    if outcome is None:
        return "reading its result"
    sizes = f"{run.sizes[0]:,} to {run.sizes[-1]:,}" if len(run.sizes) > 1 else "".join(f"{n:,}" for n in run.sizes)
    changes = ", ".join(f"{name} {change_text(ratio)}" for name, ratio in outcome.changes.items())
    against = f"time vs run {outcome.before}: {changes}" if changes else "no earlier run to compare with"
    answer = f"{outcome.answer}{f' (first of {outcome.sweeps} sweeps)' if outcome.sweeps > 1 else ''}"
    return "; ".join(filter(None, (", ".join(run.dtypes), sizes and f"sizes {sizes}", answer, against)))


def with_baseline(runs: Sequence[RunSummary], name: str, series_id: str) -> list[RunSummary]:
    """Return the runs that change when series `series_id` becomes baseline `name`, with the change."""
    changed = []
    for run in runs:
        others = {each for each in run.baselines if each != name}
        baselines = tuple(sorted(others | {name} if run.series_id == series_id else others))
        if baselines != run.baselines:
            changed.append(replace(run, baselines=baselines))
    return changed


def named(text: str, glyphs: Glyphs) -> str:
    """Return a name from the database, which may not be trusted, as this terminal can show it."""
    return stranger(spelled(text, glyphs), 200, glyphs)


def _when(run: RunSummary, now_ns: int, *, is_wide: bool) -> str:
    if is_wide:
        return f"{datetime.fromtimestamp(run.started_wall_ns / 1e9):%Y-%m-%d %H:%M}"
    return age_text(run.started_wall_ns, now_ns) or "now"


def _tags_text(run: RunSummary, glyphs: Glyphs) -> str:
    """Return a run's baselines and tags."""
    baselines = (f"baseline {named(name, glyphs)}" for name in run.baselines)
    return " ".join((*baselines, *(f"#{named(tag, glyphs)}" for tag in run.tags)))


def _short_devices(run: RunSummary, glyphs: Glyphs) -> str:
    """Return the devices, GPUs first, because all runs of a machine share its CPU."""
    if run.simulated:
        return "SIMULATED"
    names = counted(named(device, glyphs).removeprefix("NVIDIA ") for device in reversed(run.devices))
    return f" {glyphs.dot} ".join(names)
