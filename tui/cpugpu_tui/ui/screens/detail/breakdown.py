"""Where the time of one call on the GPU goes: its parts as bars."""

from __future__ import annotations

from cpugpu_tui.analysis.costs import BACK, KERNELS, LAUNCH, TO_GPU, WAIT, Decomposition
from cpugpu_tui.model import DEVICE_WARM, ENQUEUE, PAGEABLE, SYNCHRONISE
from cpugpu_tui.model.quantities import joined, percent, time_text
from cpugpu_tui.render.answers import taken_apart
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import paragraph
from cpugpu_tui.ui.roles import Spans

REMARKS = {
    TO_GPU: "inputs copied to the GPU",
    LAUNCH: "the host queues the call",
    KERNELS: "the GPU's own work",
    WAIT: "until the host sees the end",
    BACK: "result copied to the host",
}
"""Part → meaning, in at most 28 cells, which fit beside the bar at 80 columns."""

HIDDEN = "without the overlapping part"
"""Meaning of kernels that partly run while the host queues, copies or waits; the bar shows the rest."""
REST = "not accounted for"

MEASURES = ((ENQUEUE, "launch"), (SYNCHRONISE, "wait"), (DEVICE_WARM, "kernels"))
"""Metric → part; all of them are needed to take a call apart."""

NAME, TIME, SHARE, REMARK = 16, 9, 7, 28
"""Cells of the columns; the bar takes the rest."""


def breakdown_lines(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return the parts of one call, resident and with copies, or why they are unknown."""
    if row.status == "pending" or (row.failure is not None and row.gpu is None):
        return []  # the row already tells its state
    times = row.gpu
    which = f" ({times.device})" if times is not None and len(run.devices) > 2 else ""
    title: Spans = ((f"Where the GPU's time goes{which}", "title"),)
    if times is None or row.status == "mismatch":
        return [title, *paragraph(_why_nothing(run, row), width, "muted")]
    kernels_ns = times.kernels_ns or times.median_ns(DEVICE_WARM) or 0.0
    resident, moved = taken_apart(row, moved=False), taken_apart(row, moved=True)
    if resident is None and moved is None:
        return [title, *paragraph(_why_not(row, times), width, "muted")]
    lines = [title]
    if resident is not None:
        lines += _taken_apart("resident (the inputs are on the GPU)", resident, kernels_ns, width, glyphs)
    if moved is not None:
        return [*lines, *_taken_apart("with copies (from and to the host)", moved, kernels_ns, width, glyphs)]
    what = "the copies were not timed separately" if times.samples.get(PAGEABLE) else "not timed"
    when = "yet" if row.status == "active" else "in this run"
    return [*lines, *paragraph(f"with copies: {what} {when}", width, "muted")]


def _why_nothing(run: RunState, row: Row) -> str:
    """Return why no call on a GPU can be taken apart."""
    if row.status == "mismatch":
        return "Not shown: the results differ, so the times of this row do not count."
    return "No GPU in this run." if run.gpu is None else "Nothing has been timed on the GPU yet."


def _why_not(row: Row, times: DeviceTimes) -> str:
    """Return which parts were not timed separately."""
    missing = [part for metric, part in MEASURES if not _has(times, metric)] or ["some part"]
    return (
        f"Parts unknown: {joined(missing)} {'was' if len(missing) == 1 else 'were'} not timed separately"
        f"{' yet' if row.status == 'active' else ' in this run'}."
    )


def _has(times: DeviceTimes, metric: str) -> bool:
    return bool(times.median_ns(metric)) or (metric == DEVICE_WARM and bool(times.kernels_ns))


def _taken_apart(how: str, found: Decomposition, kernels_ns: float, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a heading with the total, a line for each part, and the rest or the overlap."""
    lines: list[Spans] = [((f"  {how}: ", "text"), (f"{time_text(found.measured_ns)} a call", "strong"))]
    for name, part_ns in found.parts:
        remark = HIDDEN if name == KERNELS and part_ns < 0.95 * kernels_ns else REMARKS[name]
        lines.append(_part(name, part_ns, found, remark, "gpu", width, glyphs))
    rest_ns = found.rest_ns
    if rest_ns >= 0:
        name, role = ("rest", "muted") if found.is_explained else ("unexplained", "warn")
        return [*lines, _part(name, rest_ns, found, REST, role, width, glyphs)]
    text = f"the parts overlap by {time_text(-rest_ns)}, {percent(found.share(-rest_ns))} % of the call"
    if not found.is_explained:
        text += ": each was timed separately, and in a call they run at the same time"
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
