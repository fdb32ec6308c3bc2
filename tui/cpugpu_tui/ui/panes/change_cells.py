"""Comparisons of a row with other runs (the previous one, and those of its series): cells, title and detail."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.analysis.compare import FASTER, MIN_RUNS, SAME, SLOWER, TOO_FEW, UNDECIDED, Judged
from cpugpu_tui.analysis.pairs import Change, change
from cpugpu_tui.compare.changes import Changes, DeviceChange
from cpugpu_tui.model.quantities import factor, time_text
from cpugpu_tui.render.columns import Key
from cpugpu_tui.render.comparison import SHORT_WORDS, VERDICT_WORDS, interval_text, percent_text
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Spans, spelled, wrapped

ROLES = {FASTER: "good", SLOWER: "bad"}
"""Role of each verdict; the word says the same without colour."""

CLEAR = (SLOWER, FASTER)
"""Clear verdicts, worst first: a cell with room for one device shows the worst."""


def cells(changes: Changes, row: Row, run: RunState, glyphs: Glyphs, *, wide: bool) -> dict[str, Spans]:
    """Return the comparison columns' cells, with long words if `wide`."""
    found, words = changes.of(run, row), VERDICT_WORDS if wide else SHORT_WORDS
    return {
        Key.CHANGE: both(found, glyphs),
        Key.CHANGE_CPU: whole(found, "CPU", words, glyphs),
        Key.CHANGE_GPU: whole(found, "GPU", words, glyphs),
        Key.SPREAD: spread_cell(found, glyphs),
    }


def percent_cell(ratio: float) -> str:
    """Format a change in at most seven cells: `+10.2%`, or `2.34×` beyond twice or half."""
    return percent_text(ratio).replace(" ", "")


def whole(found: Sequence[DeviceChange], device: str, words: dict[str, str], glyphs: Glyphs) -> Spans:
    """Return the change on one device with its verdict, ` +14.0% slower`; a dash if there is none."""
    each = next((each for each in found if each.device == device), None)
    ratio = each.ratio if each is not None else None
    if each is None or ratio is None:
        return ((f"{glyphs.none:>7}", "muted"),)
    word = words.get(each.verdict, "")
    role = ROLES.get(each.verdict, "text")
    return ((f"{spelled(percent_cell(ratio), glyphs):>7}{f' {word}' if word else ''}", role),)


def both(found: Sequence[DeviceChange], glyphs: Glyphs) -> Spans:
    """Return the changes on both devices, in 15 cells.

    Without verdicts these are both numbers, `+0.4%  -12.1%`; with them the worst one, `GPU +14% slower`.
    """
    known = [(each, each.ratio) for each in found]
    timed = [(each, ratio) for each, ratio in known if ratio is not None]
    if not timed:
        return ((glyphs.none, "muted"),)
    for verdict in CLEAR:
        clear = [(each, ratio) for each, ratio in timed if each.verdict == verdict]
        if clear:
            each, ratio = max(clear, key=lambda pair: abs(pair[1] - 1))
            rounded = f"{100 * (ratio - 1):+.0f}%" if 0.5 < ratio < 2 else factor(ratio)  # the column is narrow
            text = f"{each.device} {rounded} {VERDICT_WORDS[verdict]}"
            return ((spelled(text, glyphs), ROLES[verdict]),)
    verdicts = {each.verdict for each, _ in timed}
    if verdicts <= {SAME, UNDECIDED}:
        return ((VERDICT_WORDS[SAME if verdicts == {SAME} else UNDECIDED], "muted"),)
    spans: list[tuple[str, str]] = []
    for each, ratio in timed:
        spans += [(" " if spans else "", "text"), (f"{spelled(percent_cell(ratio), glyphs):>7}", each.device.lower())]
    return tuple(spans)


def spread_cell(found: Sequence[DeviceChange], glyphs: Glyphs) -> Spans:
    """Return the spread of the series' runs on CPU and GPU, in percent: `0.8, 3.1`."""
    known = [(each.device.lower(), each.spread) for each in found]
    spans: list[tuple[str, str]] = []
    for role, spread in known:
        if spread is not None:
            spans += [(", " if spans else "", "muted"), (f"{100 * spread:.1f}", role)]
    return tuple(spans) or ((glyphs.none, "muted"),)


# ------------------------------------------------------------------ title


def title_parts(changes: Changes, run: RunState, *, alone: bool, has_change: bool = True) -> list[str]:
    """Return the parts of the pane's title, most important first.

    They name the compared run, the spread of the series, and the number of runs that a verdict needs. `has_change`
    tells whether the table has room for changes.
    """
    parts = ["one row re-run", "esc back to all"] if alone else []
    base = changes.base if has_change else None
    if base is not None:
        parts.append(f"change: {changes.against}")
    if changes.is_over and (widest := changes.widest(run)) is not None:
        parts.append(f"spread of {len(changes.new)} runs up to {100 * widest:.1f} %")
    if changes.is_over and base is not None and min(len(base.runs), len(changes.new)) < MIN_RUNS:
        parts.append(f"may be noise: verdicts need {MIN_RUNS} runs each")
    return parts


# ------------------------------------------------------------------ detail


def change_lines(changes: Changes, run: RunState, row: Row, width: int) -> list[Spans]:
    """Return sentences about earlier runs and this series; empty if there is only this run."""
    told = (sentence for each in changes.of(run, row) for sentence in _sentences(each))
    lines = [line for text, role in told for line in wrapped(text, width, role)]
    if not lines:
        return []
    heading = changes.heading if changes.base is not None else "Runs of this series"
    return [*wrapped(heading, width, "title"), *lines]


def _sentences(each: DeviceChange) -> list[tuple[str, str]]:
    sentences = []
    if each.spread is not None:
        low, high = time_text(min(each.new_ns)), time_text(max(each.new_ns))
        runs = f"{each.device}: {len(each.new_ns)} runs of this series, {low} to {high} (min to max)"
        sentences.append((f"{runs}, spread {100 * each.spread:.1f} %.", "text"))
    found = change(each.base_ns, each.new_ns)
    if found is not None and each.judged is None:
        interval = f", 95 % interval {interval_text(found)}" if found.low is not None else ", may be noise"
        sentences.append((f"{each.device} time {percent_text(found.ratio)}{interval} ({_runs(found)}).", "text"))
    named = ((each.judged, f"{each.device} time"), (each.kernels, f"{each.device} kernel time"))
    return sentences + [_verdict(judged, name) for judged, name in named if judged is not None and judged.change]


def _verdict(judged: Judged, name: str) -> tuple[str, str]:
    """Return a verdict with the interval that decided it."""
    found = judged.change
    assert found is not None
    interval = f", interval {interval_text(found)}" if judged.verdict != TOO_FEW else ""
    sizes = f" over {len(judged.pairs)} sizes" if judged.is_group else ""
    word = VERDICT_WORDS[judged.verdict] + (" to judge" if judged.verdict == TOO_FEW else "")
    text = f"{name}{sizes} {percent_text(found.ratio)}{interval}: {word} ({_runs(found)})."
    return text, ROLES.get(judged.verdict, "text")


def _runs(found: Change) -> str:
    return f"{found.base_runs} {'run' if found.base_runs == 1 else 'runs'} earlier, {found.new_runs} now"
