"""The answer of a run: sentences, what-ifs, or a table for several sweeps. Before a run, how to start one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual.geometry import Size
from textual.widget import Widget

from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Spans, StatePane, spelled, wrapped
from cpugpu_tui.ui.panes.status import run_name

_SENTENCE_END = r"(?<=\.) (?=[A-Z\d]|thresholds\.json)"
"""Between two sentences; the second may begin with a number or with the name of the file."""

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
            lines += _whole_sentences(spelled(text, glyphs), width, role, most - len(lines), is_first=True)
    table: list[Spans] = []
    survey: Sequence[str] = ()
    if state.run.rows:
        from cpugpu_tui.render.answers import survey_lines
        from cpugpu_tui.report.report import without_first_rounds
        from cpugpu_tui.ui.panes import run_answer  # with all that answers need, 10 ms before the first frame

        state = state._replace(run=without_first_rounds(state.run))
        table, survey = run_answer.table(state, width, glyphs), survey_lines(state.run)
    sentences, has_failures = _sentences(state, has_table=bool(table)), bool(lines)
    warnings = sum(role == "warn" for _, role in sentences)
    if width < SMALL_WIDTH and not lines and not table:
        most = min(most, SMALL_MOST + warnings)
    # The first sentence is never cut: at 80x24 it may take another row. A table leaves one line for what it lacks,
    # such as a slow GPU or threads that waited for a core.
    below = sum(len(wrapped(spelled(text, glyphs), width)) for text, _ in sentences[: len(survey)])
    if survey and len(table) + below > most:
        sentences = _in_one_line(sentences, width, glyphs)
    first = len(wrapped(spelled(sentences[0][0], glyphs), width)) if sentences else 0
    whole = len(table) + (below or min(first, 1)) if table else first
    whole += warnings
    height = max(least, min(len(lines) + 1 if lines else whole, most))
    if table:
        lines += run_answer.shortened(state, table, height - len(lines) - min(first, 1), is_zoomed=is_zoomed)
    for index, (text, role) in enumerate(sentences):
        is_first, room = index == 0 and not (has_failures and role == "muted"), height - len(lines)
        if is_first:  # leaves a line to each warning behind it
            room = max(room - warnings, min(room, 1))
        lines += _whole_sentences(spelled(text, glyphs), width, role, room, is_first=is_first)
    return lines + [()] * (height - len(lines))


def shows_survey(state: AppState) -> bool:
    """Whether the answer is that of a survey that has ended."""
    if state.situation.live or not state.run.rows:
        return False
    from cpugpu_tui.render.answers import is_survey

    return is_survey(state.run)


def _in_one_line(sentences: list[tuple[str, str]], width: int, glyphs: Glyphs) -> list[tuple[str, str]]:
    """Return the warnings, and of a survey's sentences those that fit into a line, if need be the first clause and `…`.

    They list workloads, and so does the table: `transformer, mnist-mlp ...` did not tell which the others are.
    """
    found = []
    for text, role in sentences:
        forms = (text,) if role == "warn" else (text, f"{text.partition('; ')[0]}; …")
        brief = next((form for form in forms if len(wrapped(spelled(form, glyphs), width)) == 1), "")
        found += [(brief or text, role)] if brief or role == "warn" else []
    return found


def _whole_sentences(text: str, width: int, role: str, room: int, *, is_first: bool) -> list[Spans]:
    """Return the sentences of a text that fit whole into `room` lines; the first text may be cut instead."""
    sentences = re.split(_SENTENCE_END, text)
    for count in range(len(sentences), 0, -1):
        lines = wrapped(" ".join(sentences[:count]), width, role)
        if len(lines) <= room:
            return lines
    return wrapped(text, width, role, lines=room) if is_first and room > 0 else []


def _failures(state: AppState, glyphs: Glyphs) -> list[tuple[str, str]]:
    """Return problems with cause and remedy, most important first."""
    run, situation = state.run, state.situation
    found: list[tuple[str, str]] = []
    if state.better_python is not None and situation.may_start and state.past is None:
        torch = state.environment.get("torch")
        cause = f"This torch ({torch}) cannot use the GPU. " if torch else ""
        press = state.keymap.with_keys("Press {python} to use")
        found.append((f"{cause}{press} {state.better_python.path}: it {state.better_python.able}.", "warn"))
    if state.problem is not None:
        found.append((f"{glyphs.no} {state.problem}", "bad"))
    if run.finished is not None and run.finished.message and not situation.live:
        text = f"{run.finished.message} {run.finished.remedy}".strip()
        if text != str(state.problem):
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


def _sentences(state: AppState, *, has_table: bool) -> list[tuple[str, str]]:
    """Return answer and hints, most important first; beside a table, only what it does not show."""
    run, situation, keymap = state.run, state.situation, state.keymap
    if run.rows:
        from cpugpu_tui.ui.panes import run_answer

        found = run_answer.sentences(state, has_table=has_table)
        if has_table or found:
            return found
    sentences: list[tuple[str, str]] = []
    if situation.live:
        devices = "the CPU" if run.plan.beside else "both devices"
        sentences.append((f"Waiting for the first size to finish on {devices}.", "muted"))
    elif situation.replay:
        sentences.append(("This is a replay of recorded telemetry. Nothing can be run.", "strong"))
        sentences.append(("Start cpugpu-tui without --replay to run a workload.", "muted"))
    elif not situation.ran and state.problem is None:
        choose = "Up and down select a workload, {open} edits its settings. Press {help} for help."
        sentences.append((keymap.with_keys(choose), "muted"))
    return sentences
