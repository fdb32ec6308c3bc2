"""The answer of a run: sentences, what-ifs, or a table for several sweeps. Before a run, how to start one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.geometry import Size
from textual.widget import Widget

from cpugpu_tui.analysis.answer import where
from cpugpu_tui.analysis.costs import END_TO_END, ONE_THREAD, PINNED, RESIDENT, WHAT_IFS
from cpugpu_tui.decide.crossover import NO_WINNER, NOTHING, TIES, TOO_FEW_ROUNDS, Crossover
from cpugpu_tui.model import SweepKey, work_name
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.render.answers import (
    answer_lines,
    answers,
    axis_of,
    leading_answers,
    lines_beside_table,
    survey_lines,
    world,
)
from cpugpu_tui.render.curves import BY_KEY, finished_rows
from cpugpu_tui.render.rows import is_column
from cpugpu_tui.render.sentences import cut_short, table_lines
from cpugpu_tui.session.planning import scale_text
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Spans, StatePane, spelled, wrapped
from cpugpu_tui.ui.panes.status import run_name

if TYPE_CHECKING:
    from cpugpu_tui.transport.interpreter_search import Interpreter

MEASURED = (RESIDENT, END_TO_END, PINNED, ONE_THREAD)
"""What-ifs that were timed; the others are derived from them."""

WITHOUT_WINNER = {
    NOTHING: "not timed",
    TOO_FEW_ROUNDS: "not judged (too few rounds)",
    TIES: "as fast as the CPU",
    NO_WINNER: "neither clearly faster nor slower",
}
"""What follows `the GPU is` where no device wins."""


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


def next_world(run: RunState, now: str) -> str:
    """Return the next what-if that a run can answer.

    That against one CPU thread is always offered: without its times, the sentence says how to get them.
    """
    known = {key for answer in answers(run) for key in answer.evidence.worlds} | {RESIDENT, ONE_THREAD}
    cycle = [what_if.key for what_if in WHAT_IFS if what_if.key in known]
    return cycle[(cycle.index(now) + 1) % len(cycle)] if now in cycle else RESIDENT


def what_if_sentence(run: RunState, sweep: SweepKey, rows: Sequence[Row], key: str) -> str:
    """Return the crossover under one what-if beside the measured one; empty without a comparison.

    `rows` are the finished ones of the sweep. The resident what-if is the measured one.
    """
    measured = world(run, rows, RESIDENT)
    if not measured.points:
        return ""
    several = len([other for other in run.sweeps if not is_column(run, other)]) > 1
    prefix = f"{work_name(sweep)}: " if several else ""
    axis = axis_of(run, rows)
    if key == RESIDENT:
        return f"{prefix}With {BY_KEY[key].label}, the GPU {_outcome(measured, axis)}."
    if key == ONE_THREAD and {row.cpu.calibrated.threads for row in rows if row.cpu and row.cpu.calibrated} == {1}:
        return f"{prefix}These CPU times already use one thread: the GPU {_outcome(measured, axis)}."
    head = f"{prefix}{BY_KEY[key].question}"
    found = world(run, rows, key)
    if not found.points:
        remedy = " Set threads to 1,all (enter on the workload, or --threads 1,all)." if key == ONE_THREAD else ""
        return f"{head} Not measured.{remedy}"
    head += f" The GPU {_outcome(found, axis, is_measured=key in MEASURED)}"
    if where(found) == where(measured):
        return f"{head}, so this changes nothing."
    if {measured.kind, found.kind} & WITHOUT_WINNER.keys():
        return f"{head}. In the table, it {_outcome(measured, axis)}."
    return f"{head} instead of {where(measured, axis)}."


def _outcome(found: Crossover, axis: str, *, is_measured: bool = True) -> str:
    """Return `wins from n ≈ 205`, `would win from n ≈ 205` or why nobody does, to follow `the GPU`."""
    if found.kind in WITHOUT_WINNER:
        return f"{'is' if is_measured else 'would be'} {WITHOUT_WINNER[found.kind]}"
    return f"{'wins' if is_measured else 'would win'} {where(found, axis)}"


_SENTENCE_END = re.compile(r"(?<=\.) (?=[A-Z])")

LONG_NOTICE = 24
"""The status line shows notices up to this length in full at 80 columns."""


SMALL_WIDTH, SMALL_MOST = 60, 3
"""Below this width an answer in sentences takes at most this many lines, so that rows stay in sight, and one more for
each warning; failures may take more."""


class AnswerPane(StatePane):
    """One to three lines under the table; more if a failure needs them, so that its remedy is not cut."""

    _live: tuple[str, int] | None = None
    """Run in progress and width of the pane."""
    _height = 0
    """Lines that were needed so far in that run: each change of the height would draw the whole chart again."""

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the lines that the pane's height allows. During a run it does not shrink."""
        run = state.run.run
        live = (run.run_id, size.width) if run is not None and state.situation.live else None
        if live is None or live != self._live:
            self._live, self._height = live, 0
        around = self.parent.size.height if isinstance(self.parent, Widget) else 0
        is_zoomed = isinstance(self.parent, Widget) and self.parent.has_class("-zoom")
        least, most = (None if limit is None else limit.cells or int(limit.value * around / 100)
                       for limit in (self.styles.min_height, self.styles.max_height))  # fmt: skip
        most = most or least or 1
        least = max(least or 1, min(self._height, most))
        lines = pane_lines(state, size.width, least, most, self.glyphs, is_zoomed=is_zoomed)
        self._height = len(lines)
        return lines


def pane_lines(
    state: AppState, width: int, least: int, most: int, glyphs: Glyphs, *, is_zoomed: bool = False
) -> list[Spans]:
    """Return failures, answer and hints: `least` lines, or up to `most` for failures and long answers."""
    lines: list[Spans] = []
    for text, role in _failures(state, glyphs):
        if len(lines) < most:
            lines += wrapped(spelled(text, glyphs), width, role, lines=most - len(lines))
    table = _table(state, width, glyphs)
    sentences = _sentences(state, has_table=bool(table))
    warnings = sum(role == "warn" for _, role in sentences)
    if width < SMALL_WIDTH and not lines and not table:
        most = min(most, SMALL_MOST + warnings)
    # The first sentence is never cut: at 80x24 it may take another row. A table leaves one line for what it lacks,
    # such as a slow GPU or threads that waited for a core.
    first = len(wrapped(spelled(sentences[0][0], glyphs), width)) if sentences else 0
    below = sum(len(wrapped(spelled(text, glyphs), width)) for text, _ in sentences[: len(survey_lines(state.run))])
    whole = len(table) + (below or min(first, 1)) if table else first
    whole += warnings
    height = max(least, min(len(lines) + 1 if lines else whole, most))
    lines += _shortened(state, table, height - len(lines) - min(first, 1), is_zoomed=is_zoomed)
    for index, (text, role) in enumerate(sentences):
        is_first, room = index == 0, height - len(lines)
        if is_first:  # leaves a line to each warning behind it
            room = max(room - warnings, min(room, 1))
        lines += _whole_sentences(spelled(text, glyphs), width, role, room, is_first=is_first)
    return lines + [()] * (height - len(lines))


def _whole_sentences(text: str, width: int, role: str, room: int, *, is_first: bool) -> list[Spans]:
    """Return the sentences of a text that fit whole into `room` lines; the first text may be cut instead."""
    sentences = _SENTENCE_END.split(text)
    for count in range(len(sentences), 0, -1):
        lines = wrapped(" ".join(sentences[:count]), width, role)
        if len(lines) <= room:
            return lines
    return wrapped(text, width, role, lines=room) if is_first and room > 0 else []


def _table(state: AppState, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return the answers of several sweeps as a heading and a line each; empty for a run with one sweep."""
    head, *rows = table_lines(state.run, width, lambda text: spelled(text, glyphs)) or ("",)
    return [((head, "muted"),), *(((row, "strong"),) for row in rows)] if rows else []


def _shortened(state: AppState, table: list[Spans], room: int, *, is_zoomed: bool) -> list[Spans]:
    """Return a table in at most `room` lines, from its start or with the highlighted sweep, and the number hidden."""
    if len(table) <= room or room < 2:
        return table[:room]
    row, head, rows = state.run.rows.get(state.cursor or ""), table[0], table[1:]
    sweeps = [answer.rows[0].case.sweep for answer in leading_answers(state.run)]
    first = sweeps.index(row.case.sweep) if row is not None and row.case.sweep in sweeps else 0
    count = max(room - 2, 1)
    first = max(first - count + 1, 0)
    hint = "Move to a row of another workload to see it." if is_zoomed else "Press {zoom} to enlarge the pane."
    more = state.keymap.with_keys(f"{len(rows) - count} more. {hint}")
    return [head, *rows[first : first + count], ((more, "muted"),)][:room]


def _failures(state: AppState, glyphs: Glyphs) -> list[tuple[str, str]]:
    """Return problems with cause and remedy, most important first."""
    run, situation = state.run, state.situation
    found: list[tuple[str, str]] = []
    if state.better_python is not None and situation.may_start and state.past is None:
        found.append((_better_python(state, state.better_python), "warn"))
    if state.problem is not None:
        found.append((f"{glyphs.no} {state.problem}", "bad"))
    if run.finished is not None and run.finished.message and not situation.live:
        text = f"{run.finished.message} {run.finished.remedy}".strip()
        found.append((text, "bad" if run.status == "failed" else "warn"))
    row = run.rows.get(state.cursor or "")
    if row is not None and row.failure is not None and row.failure.kind != "skipped" and not situation.live:
        name = f"{run_name(run, row.case.workload, glyphs)} {size_text(row.case.size)}"
        found.append((f"{glyphs.no} {name}: {row.failure.message} {row.failure.remedy}".strip(), "bad"))
    if state.unsaved and state.past is None:
        found.append((state.unsaved.text, "warn"))
    notice = state.notice or ""
    if len(notice) > LONG_NOTICE and not situation.ran and state.past is None:
        found.append((notice, "warn"))
    if state.theme_notice and not situation.live:
        found.append((state.theme_notice, "warn"))
    return found


def _better_python(state: AppState, found: Interpreter) -> str:
    """Return the key that switches to the interpreter that was found, and the reason to press it."""
    torch = state.environment.get("torch")
    cause = f"This torch ({torch}) cannot use the GPU. " if torch else ""
    return f"{cause}{state.keymap.with_keys('Press {python} to use')} {found.path}: it {found.able}."


def _sentences(state: AppState, *, has_table: bool) -> list[tuple[str, str]]:
    """Return answer and hints, most important first; beside a table, only what it does not show."""
    run, situation, keymap = state.run, state.situation, state.keymap
    sentences: list[tuple[str, str]] = []
    if has_table or answer_lines(run):
        shown = lines_beside_table(run) if has_table else answer_lines(run)
        sentences += [(text, "key") for text in (_what_if(state),) if text]
        # Room is scarce at 80x24, so notices come right after the first sentence.
        in_file, contradiction = _in_file(state)
        first = " ".join(filter(None, (*shown[:1], in_file)))
        notices = [(text, "warn") for text in (cut_short(run), contradiction) if text]
        sentences += [*([(first, "strong")] if first else []), *notices, *((text, "muted") for text in shown[1:])]
        if run.run is not None and run.run.plan.scale == "small":
            sentences.append((f"Small scale: {scale_text(run.run.plan)}.", "muted"))
    elif situation.live:
        sentences.append(("Waiting for the first size to finish on both devices.", "muted"))
    elif situation.replay:
        sentences.append(("This is a replay of recorded telemetry. Nothing can be run.", "strong"))
        sentences.append(("Start cpugpu-tui without --replay to run a workload.", "muted"))
    elif not situation.ran and state.problem is None:
        choose = "Up and down select a workload, {open} edits its settings. Press {help} for help."
        sentences.append((keymap.with_keys(choose), "muted"))
    return sentences


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
