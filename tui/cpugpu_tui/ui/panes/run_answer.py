"""What a run answers, for the answer pane and the chart: sentences, a table for several sweeps, and what-ifs."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.analysis.costs import END_TO_END, ONE_THREAD, PINNED, RESIDENT, WHAT_IFS
from cpugpu_tui.model import RECORDED_GPU, SweepKey, work_name
from cpugpu_tui.render.answers import answer_lines, answers, leading_answers, lines_beside_table
from cpugpu_tui.render.crossover_words import where
from cpugpu_tui.render.curves import BY_KEY, finished_rows
from cpugpu_tui.render.gpus import beside_words
from cpugpu_tui.render.sentences import NARROW_PICTURE, PICTURE, cut_short, table_lines
from cpugpu_tui.report.conditions import Condition
from cpugpu_tui.report.report import is_column, sweep_in
from cpugpu_tui.report.segments import ALL_EQUAL, NONE_TIMED, NOT_DECIDED, TOO_FEW, UP_TO
from cpugpu_tui.session.planning import scale_text
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Spans, plain, spelled

MEASURED = (RESIDENT, END_TO_END, PINNED, ONE_THREAD)
"""What-ifs that were timed; the others are derived from them."""

WITHOUT_WINNER = {
    NONE_TIMED: "not timed",
    ALL_EQUAL: "as fast as the CPU",
    NOT_DECIDED: "neither clearly faster nor slower",
}
"""Class of a sweep in which no device wins → what follows `the GPU is`."""


def shown_row(run: RunState, cursor: str | None) -> Row | None:
    """Return the row for chart and what-if: the highlighted one, else the last finished one."""
    row = run.rows.get(cursor or "")
    if row is not None:
        return row
    rows = list(run.rows.values())
    return next((row for row in reversed(rows) if row.status == "ok"), rows[0] if rows else None)


def marked_row(run: RunState, sweep: SweepKey, cursor: str | None) -> Row | None:
    """Return the highlighted row of a sweep if it has finished, else the largest finished one."""
    row = run.rows.get(cursor or "")
    if row is not None and row.status == "ok" and row.case.sweep == sweep:
        return row
    return next(reversed(finished_rows(run, sweep)), None)


def next_what_if(run: RunState, now: str) -> str:
    """Return the next what-if that a run can answer.

    That against one CPU thread is always offered: without its times, the sentence says how to get them.
    """
    known = {key for answer in answers(run) for key in answer.report.conditions} | {RESIDENT, ONE_THREAD}
    cycle = [what_if.key for what_if in WHAT_IFS if what_if.key in known]
    return cycle[(cycle.index(now) + 1) % len(cycle)] if now in cycle else RESIDENT


def what_if_sentence(run: RunState, sweep: SweepKey, rows: Sequence[Row], key: str) -> str:
    """Return the crossover under one what-if beside that of its base; empty without a comparison.

    `rows` are the finished ones of the sweep. The resident what-if is the measured one.
    """
    found = sweep_in(run, sweep)
    measured, axis = found.resident, found.axis
    if measured.kind == NONE_TIMED:
        return ""
    several = len([other for other in run.sweeps if not is_column(run, other)]) > 1
    prefix = f"{work_name(sweep)}: " if several else ""
    gpu = RECORDED_GPU if beside_words(run) else "GPU"
    if key == RESIDENT:
        return f"{prefix}With {BY_KEY[key].label}, the {gpu} {_outcome(measured, axis)}."
    if key == ONE_THREAD and {row.cpu.calibrated.threads for row in rows if row.cpu and row.cpu.calibrated} == {1}:
        return f"{prefix}These CPU times already use one thread: the {gpu} {_outcome(measured, axis)}."
    head = f"{prefix}{BY_KEY[key].question}"
    other = found.under(key)
    if other.kind == NONE_TIMED:
        remedy = " Set threads to 1,all (enter on the workload, or --threads 1,all)." if key == ONE_THREAD else ""
        return f"{head} Not measured.{remedy}"
    head += f" The {gpu} {_outcome(other, axis, is_measured=key in MEASURED)}"
    base = found.under(BY_KEY[key].base)
    if where(other) == where(base):
        return f"{head}, so this changes nothing."
    copies = "" if base is measured else "with pageable copies"
    if {base.kind, other.kind} & {*WITHOUT_WINNER, UP_TO}:
        return f"{head}. {copies.capitalize() or 'In the table'}, it {_outcome(base, axis)}."
    return f"{head} instead of {where(base, axis)}{f' ({copies})' if copies else ''}."


def _outcome(found: Condition, axis: str, *, is_measured: bool = True) -> str:
    """Return `wins from n ≈ 205`, `would win from n ≈ 205` or why nobody does, to follow `the GPU`."""
    if found.kind in WITHOUT_WINNER:
        is_few = found.timed and all(size.reason == TOO_FEW for size in found.timed)
        why = " (too few rounds)" if is_few else ""
        return f"{'is' if is_measured else 'would be'} {WITHOUT_WINNER[found.kind]}{why}"
    if found.kind == UP_TO:
        return f"{'does' if is_measured else 'would'} not win {where(found, axis).removeprefix('not ')}"
    return f"{'wins' if is_measured else 'would win'} {where(found, axis)}"


def table(state: AppState, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return the answers of several sweeps as a heading and a line each; empty for a run with one sweep."""
    head, *rows = table_lines(state.run, width, lambda text: spelled(text, glyphs)) or ("",)
    is_narrow = spelled(PICTURE, glyphs) not in head and spelled(NARROW_PICTURE, glyphs) in head
    legend: list[Spans] = [((spelled(PICTURE, glyphs), "muted"),)] if is_narrow else []
    return [((head, "muted"),), *(((row, "strong"),) for row in rows), *legend] if rows else []


def shortened(state: AppState, table: list[Spans], room: int, *, is_zoomed: bool) -> list[Spans]:
    """Return a table in at most `room` lines, from its start or with the highlighted sweep, and the number hidden."""
    if len(table) <= room or room < 2:
        return table[:room]
    sweeps = [answer.rows[0].case.sweep for answer in leading_answers(state.run)]
    row, end = state.run.rows.get(state.cursor or ""), len(sweeps) + 1
    head, rows, legend = table[0], table[1:end], table[end:]
    first = sweeps.index(row.case.sweep) if row is not None and row.case.sweep in sweeps else 0
    count = max(room - 2, 1)
    first = max(first - count + 1, 0)
    hint = "Move to a row of another workload to see it." if is_zoomed else "Press {zoom} to enlarge the pane."
    more = state.keymap.with_keys(f"{len(rows) - count} more. {hint}")
    if legend:
        more = f"{plain(legend[0])}   {len(rows) - count} more, {state.keymap.of('zoom')} enlarges"
    return [head, *rows[first : first + count], ((more, "muted"),)][:room]


def sentences(state: AppState, *, has_table: bool) -> list[tuple[str, str]]:
    """Return the answer and what limits it, most important first; beside a table, only what it does not show."""
    run = state.run
    shown = lines_beside_table(run) if has_table else answer_lines(run)
    if not (has_table or shown):
        return []
    found = [(text, "key") for text in (_what_if(state),) if text]
    # Room is scarce at 80x24, so notices come right after the first sentence.
    in_file, contradiction = _in_file(state)
    first = " ".join(filter(None, (*shown[:1], in_file)))
    notices = [(text, "warn") for text in (cut_short(run), contradiction) if text]
    found += [*([(first, "strong")] if first else []), *notices, *((text, "muted") for text in shown[1:])]
    if run.plan.scale == "small":
        found.append((f"Small scale: {scale_text(run.plan)}.", "muted"))
    return found


def _in_file(state: AppState) -> tuple[str, str]:
    """Return whether the file of thresholds has the run's plan, and whether the run contradicts it, each or nothing."""
    if state.thresholds is None:
        return "", ""
    from cpugpu_tui.export.thresholds import standing  # loads msgspec, which the first frame does not need

    is_in_file, moves = standing(state.run, state.thresholds)
    if not moves:
        return ("thresholds.json covers this run." if is_in_file else ""), ""
    remedy = state.keymap.with_keys("Press {export} to update the file.")
    return "", f"This run contradicts thresholds.json. {remedy} {moves[0]}"


def _what_if(state: AppState) -> str:
    """Return the crossover of the highlighted sweep under the chosen what-if; empty without one."""
    row = shown_row(state.run, state.cursor)
    if state.what_if == RESIDENT or row is None:
        return ""
    sweep = row.case.sweep
    return what_if_sentence(state.run, sweep, finished_rows(state.run, sweep), state.what_if)
