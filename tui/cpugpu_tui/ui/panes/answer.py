"""The answer in three sentences or as a table of several, or what to do to get one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.geometry import Size

from cpugpu_tui.analysis.costs import RESIDENT
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.render.answer_table import table_lines
from cpugpu_tui.render.answers import answer_lines, leading_answers, lines_beside_table
from cpugpu_tui.render.sentences import cut_short
from cpugpu_tui.session.planning import scale_text
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.chart.what_if import finished_rows, shown_row, what_if_sentence
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import StatePane, spelled, wrapped
from cpugpu_tui.ui.roles import Spans

if TYPE_CHECKING:
    from cpugpu_tui.transport.interpreter_search import Interpreter

_SENTENCE_END = re.compile(r"(?<=\.) (?=[A-Z])")

LONG_NOTICE = 24
"""Characters of a notice that the status line shows whole also at 80 columns."""


class AnswerPane(StatePane):
    """One to three lines under the table; as many as a failure needs, for half of a sentence tells no remedy."""

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the sentences, cut at the pane's height."""
        least, most = (limit.cells if limit is not None else None for limit in
                       (self.styles.min_height, self.styles.max_height))  # fmt: skip
        return pane_lines(state, size.width, least or 1, most or least or 1, self.glyphs)


def pane_lines(state: AppState, width: int, least: int, most: int, glyphs: Glyphs) -> list[Spans]:
    """Return `least` lines or, for what went wrong or a long answer, up to `most`: failures, answer, what to press."""
    lines: list[Spans] = []
    for text, role in _failures(state, glyphs):
        if len(lines) < most:
            lines += wrapped(spelled(text, glyphs), width, role, lines=most - len(lines))
    table = _table(state, width, glyphs)
    sentences = _sentences(state, has_table=bool(table))
    # Half of the first sentence is no answer: at 80x24 a long one takes the row of the table that it needs.
    # Beside a table at least one line says what it leaves out: which GPU is slow, whose threads lacked a core.
    first = len(wrapped(spelled(sentences[0][0], glyphs), width)) if sentences else 0
    whole = len(table) + min(first, 1) if table else first
    height = max(least, min(len(lines) + 1 if lines else whole, most))
    lines += _shortened(state, table, height - len(lines) - min(first, 1))
    for index, (text, role) in enumerate(sentences):
        is_first = index == 0
        lines += _whole_sentences(spelled(text, glyphs), width, role, height - len(lines), is_first=is_first)
    return lines + [()] * (height - len(lines))


def _whole_sentences(text: str, width: int, role: str, room: int, *, is_first: bool) -> list[Spans]:
    """Return as many sentences of a text as `room` lines hold whole; of the first text of all at least a part."""
    sentences = _SENTENCE_END.split(text)
    for count in range(len(sentences), 0, -1):
        lines = wrapped(" ".join(sentences[:count]), width, role)
        if len(lines) <= room:
            return lines
    return wrapped(text, width, role, lines=room) if is_first and room > 0 else []


def _table(state: AppState, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return the answers of several sweeps, a head and a line each; empty for a run with one."""
    head, *rows = table_lines(state.run, width, lambda text: spelled(text, glyphs)) or ("",)
    return [((head, "muted"),), *(((row, "strong"),) for row in rows)] if rows else []


def _shortened(state: AppState, table: list[Spans], room: int) -> list[Spans]:
    """Return a table in fewer lines: from the sweep of the highlighted row on, and how many answers are left out."""
    if len(table) <= room or room < 3:
        return table[:room]
    row, head, rows = state.run.rows.get(state.cursor or ""), table[0], table[1:]
    sweeps = [answer.rows[0].case.sweep for answer in leading_answers(state.run)]
    first = sweeps.index(row.case.sweep) if row is not None and row.case.sweep in sweeps else 0
    kept = room - 2
    first = min(first, len(rows) - kept)
    more = state.keymap.said(f"{len(rows) - kept} more: {{zoom}} enlarges the pane.")
    return [head, *rows[first : first + kept], ((more, "muted"),)]


def _failures(state: AppState, glyphs: Glyphs) -> list[tuple[str, str]]:
    """Return what went wrong, cause and remedy, most important first."""
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
        name = f"{row.case.workload} {size_text(row.case.size)}"
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
    """Return which key takes the interpreter that was found, and why a person would press it."""
    torch = state.environment.get("torch")
    cause = f"This torch ({torch}) cannot use the GPU. " if torch else ""
    return f"{cause}{state.keymap.said('Press {python} to use')} {found.path}: it {found.able}."


def _sentences(state: AppState, *, has_table: bool) -> list[tuple[str, str]]:
    """Return what is said, most important first; beside a table of answers what that leaves out."""
    run, situation, keymap = state.run, state.situation, state.keymap
    sentences: list[tuple[str, str]] = []
    if has_table or answer_lines(run):
        said = lines_beside_table(run) if has_table else answer_lines(run)
        sentences += [(text, "key") for text in (_what_if(state),) if text]
        # There is little room at 80x24, and a bracket that was left wide belongs to the first sentence.
        unfinished = [(text, "warn") for text in (cut_short(run),) if text]
        # In the app a row says why by itself, once one goes to it.
        said = tuple(text.replace("The remarks say why.", "Go to a row, and it says why.") for text in said)
        sentences += [*((text, "strong") for text in said[:1]), *unfinished, *((text, "muted") for text in said[1:])]
        if run.run is not None and run.run.plan.scale == "small":
            sentences.append((f"Small scale: {scale_text(run.run.plan)}.", "muted"))
    elif situation.live:
        sentences.append(("Waiting for the first size to finish on both devices.", "muted"))
    elif situation.replay:
        sentences.append(("This is a replay: readings of another time, and nothing is run beside them.", "strong"))
        sentences.append(("Start cpugpu-tui without --replay to run something.", "muted"))
    elif not situation.ran and state.problem is None:
        choose = "Up and down choose another workload, {open} changes its parameters, {help} explains."
        sentences.append((keymap.said(choose), "muted"))
    return sentences


def _what_if(state: AppState) -> str:
    """Return where the crossover of the highlighted sweep would be in the chosen world; empty for the measured one."""
    row = shown_row(state.run, state.cursor)
    if state.what_if == RESIDENT or row is None:
        return ""
    sweep = row.case.sweep
    return what_if_sentence(state.run, sweep, finished_rows(state.run, sweep), state.what_if)
