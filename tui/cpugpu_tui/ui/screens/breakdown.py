"""Where the time of one call on the GPU goes: its parts as bars, with what each of them is."""

from __future__ import annotations

from cpugpu_tui.analysis.costs import BACK, KERNELS, LAUNCH, TO_GPU, WAIT, Decomposition
from cpugpu_tui.analysis.quantities import percent, time_text
from cpugpu_tui.model import DEVICE, ENQUEUE, PAGEABLE, SYNCHRONISE
from cpugpu_tui.runs.answers import taken_apart
from cpugpu_tui.runs.state import DeviceTimes, Row, RunState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.roles import Spans
from cpugpu_tui.ui.screens.paragraph import paragraph

REMARKS = {
    TO_GPU: "the inputs cross the cable",
    LAUNCH: "the host queues the call",
    KERNELS: "the GPU's own work",
    WAIT: "the host learns it is done",
    BACK: "the result crosses the cable",
}
"""What each part is, in at most 28 cells: at 80 columns it stands beside its bar."""

HIDDEN = "what launching does not hide"
"""The kernels' part of a call that queues several: the first ones run while the host queues the next."""
REST = "what no part accounts for"

MEASURES = ((ENQUEUE, "launch"), (SYNCHRONISE, "wait"), (DEVICE, "kernels"))
"""What a call can only be taken apart with, and the part that it is."""

NAME, TIME, SHARE, REMARK = 16, 9, 7, 28
"""Cells of the columns; the bar takes the rest."""


def breakdown_lines(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return one call taken apart, with inputs on the GPU and end to end; or one sentence why it is not."""
    if row.status == "pending" or (row.failure is not None and row.gpu is None):
        return []  # the row says already what became of it
    times = row.gpu
    which = f" ({times.device})" if times is not None and len(run.devices) > 2 else ""
    title: Spans = ((f"Where the GPU's time goes{which}", "title"),)
    resident, moved = taken_apart(row, moved=False), taken_apart(row, moved=True)
    if times is None or resident is None:
        return [title, *paragraph(_why_not(run, row), width, "muted")]
    several = times.kernels is not None and times.kernels.count > 1
    lines = [title, *_taken_apart("resident (the inputs are on the GPU)", resident, several, width, glyphs)]
    if moved is not None:
        how = "end to end (data from and to the host)"
        return [*lines, *_taken_apart(how, moved, several, width, glyphs)]
    what = "the copies were not timed by themselves" if times.samples.get(PAGEABLE) else "not timed"
    return [*lines, *paragraph(f"end to end: {what} {_when(row)}", width, "muted")]


def _when(row: Row) -> str:
    return "yet" if row.status == "active" else "in this run"


def _why_not(run: RunState, row: Row) -> str:
    """Return why a call is not taken apart."""
    if row.status == "mismatch":
        return "Not shown: the results differ, so that no time of this row counts."
    if row.gpu is None:
        return "No GPU in this run." if run.gpu is None else "Nothing has been timed on the GPU yet."
    missing = " and ".join(part for metric, part in MEASURES if not _has(row.gpu, metric))
    return f"Not taken apart: {missing or 'a part'} not measured by itself {_when(row)}."


def _has(times: DeviceTimes, metric: str) -> bool:
    return bool(times.samples.get(metric)) or (metric == DEVICE and times.kernels is not None)


def _taken_apart(how: str, found: Decomposition, several: bool, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a heading with the whole, a line for each part, and what the parts leave or have too much."""
    lines: list[Spans] = [((f"  {how}: ", "text"), (f"{time_text(found.measured_ns)} a call", "strong"))]
    for name, part_ns in found.parts:
        remark = HIDDEN if several and name == KERNELS else REMARKS[name]
        lines.append(_part(name, part_ns, found, remark, "gpu", width, glyphs))
    rest_ns = found.rest_ns
    if rest_ns >= 0:
        name, role = ("rest", "muted") if found.is_explained else ("unexplained", "warn")
        return [*lines, _part(name, rest_ns, found, REST, role, width, glyphs)]
    text = f"the parts overlap by {time_text(-rest_ns)}, {percent(found.share(-rest_ns))} % of the call"
    if not found.is_explained:
        text += ": each was timed by itself, and together they hide behind one another"
    return [*lines, *paragraph(text, width, "muted" if found.is_explained else "warn")]


def _part(name: str, part_ns: float, found: Decomposition, remark: str, role: str, width: int, glyphs: Glyphs) -> Spans:
    """Return `launch  ###.........  10.5 us   50 %  the host queues the call`."""
    share = found.share(part_ns)
    cells = min(max(width - 2 - NAME - TIME - SHARE - 2 - REMARK, 12), 40)
    full = min(max(round(share * cells), 0), cells)
    bar = glyphs.full * full + glyphs.empty * (cells - full)
    text = f"{time_text(part_ns):>{TIME}}{percent(share) + ' %':>{SHARE}}"
    fits = 2 + NAME + cells + TIME + SHARE + 2 + len(remark) <= width
    return (
        (f"  {name:<{NAME}}", "warn" if role == "warn" else "text"),
        (bar, role),
        (text, "strong"),
        (f"  {remark}" if fits else "", "muted"),
    )
