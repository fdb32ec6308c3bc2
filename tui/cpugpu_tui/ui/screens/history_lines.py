"""Lines of the history page; pure functions without widgets or store."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from cpugpu_tui.model.quantities import counted, duration
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.live.saved_runs import ago
from cpugpu_tui.ui.panes.lines import Spans, cut, spelled, wrapped
from cpugpu_tui.ui.panes.status import status_sign
from cpugpu_tui.ui.panes.telemetry.wording import stranger

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary

NUMBER, STATUS, CASES, TOOK = 5, 13, 7, 7
"""Cells of the columns with a fixed width."""
AGE, DATE = 10, 16
"""Cells of `59 min ago` and of `2026-01-31 14:05`."""
DATE_WIDTH = 100
"""Columns from which dates are shown instead of ages."""


@dataclass(frozen=True)
class Widths:
    """Cells of the columns at one width of the terminal."""

    gap: str
    """Between two columns."""
    when: int
    what: int
    devices: int
    """The rest of the line; tags come before the devices."""

    @classmethod
    def of(cls, width: int) -> Widths:
        """Return the columns for a line of `width` cells."""
        when, gap = (DATE, "  ") if width >= DATE_WIDTH else (AGE, " ")
        left = max(width - 2 - NUMBER - when - STATUS - CASES - TOOK - 6 * len(gap), 12)
        what = min(left // 2, 24)
        return cls(gap, when, what, left - what)


def heads(width: int) -> Spans:
    """Return the headings."""
    widths = Widths.of(width)
    cells = (
        f"{'run':>{NUMBER}}", f"{'started':<{widths.when}}", f"{'what':<{widths.what}}", f"{'end':<{STATUS}}",
        f"{'cases':>{CASES}}", f"{'took':>{TOOK}}", f"{'tags, devices':<{widths.devices}}",
    )  # fmt: skip
    return ((f"  {widths.gap.join(cells)}"[:width], "muted"),)


def run_line(run: RunSummary, width: int, glyphs: Glyphs, now_ns: int, *, chosen: bool) -> Spans:
    """Return a run in one line of the list."""
    widths = Widths.of(width)
    pad = widths.gap
    sign, role = status_sign(run.status, glyphs)
    failed = run.cases_failed > 0
    total = run.cases_ok + run.cases_failed + run.cases_skipped
    cases = str(run.cases_ok) if run.cases_ok == total else f"{run.cases_ok}/{total}"
    took = glyphs.none if run.duration_ns is None else duration(run.duration_ns / 1e9)
    devices = cut(f"{_tags_text(run, glyphs)} {_short_devices(run, glyphs)}".strip(), widths.devices, glyphs)
    what = cut(named(run.name, glyphs), widths.what, glyphs)
    parts: list[tuple[str, str]] = [
        (f"{glyphs.cursor if chosen else ' '} {run.number:>{NUMBER}}{pad}", "text"),
        (f"{_when(run, width, now_ns):<{widths.when}}{pad}", "muted"),
        (f"{what}{pad}", "text"),
        (f"{f'{sign} {run.status}':<{STATUS}}{pad}", role),
        (f"{cases:>{CASES}}{pad}", "warn" if failed else "text"),
        (f"{took:>{TOOK}}{pad}", "text"),
        (devices, "muted"),
    ]
    return (("".join(text for text, _ in parts), "chosen"),) if chosen else tuple(parts)


def about(run: RunSummary, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return two lines about a run with the facts that its line has no room for."""
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
    parts = [cases, *(named(device, glyphs) for device in counted(run.devices)), _tags_text(run, glyphs)]
    second = f" {glyphs.dot} ".join(part for part in parts if part)
    return [*wrapped(first + simulated, width, lines=1), *wrapped(second, width, "muted", lines=1)]


def haystack(run: RunSummary) -> str:
    """Return the text that a filter searches, in lower case."""
    started = datetime.fromtimestamp(run.started_wall_ns / 1e9)
    words = [
        str(run.number), run.run_id, run.name, run.status, run.hostname, f"{started:%Y-%m-%d}", *run.devices,
        *(f"#{tag}" for tag in run.tags), *(f"baseline {name}" for name in run.baselines),
        "simulated" if run.simulated else "",
    ]  # fmt: skip
    return " ".join(words).lower()


def matching(runs: Sequence[RunSummary], haystacks: Mapping[int, str], wanted: str) -> list[RunSummary]:
    """Return the runs whose text has every word, ignoring case; `haystacks` maps run number → text."""
    words = wanted.lower().split()
    return [run for run in runs if all(word in haystacks[run.number] for word in words)]


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


def _when(run: RunSummary, width: int, now_ns: int) -> str:
    if width >= DATE_WIDTH:
        return f"{datetime.fromtimestamp(run.started_wall_ns / 1e9):%Y-%m-%d %H:%M}"
    return ago(run.started_wall_ns, now_ns)


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
