"""The answer in one sentence, or what to do to get one."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size

from cpugpu_tui.analysis.quantities import size_text
from cpugpu_tui.analysis.what_if import RESIDENT
from cpugpu_tui.runs.answers import answer_lines
from cpugpu_tui.runs.ending import cut_short
from cpugpu_tui.runs.planning import scale_text
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import PicturePane, spelled, wrapped
from cpugpu_tui.ui.picture import Picture
from cpugpu_tui.ui.roles import Spans
from cpugpu_tui.ui.what_if import finished_rows, shown_row, what_if_sentence

LONG_NOTICE = 24
"""Characters of a notice that the status line shows whole also at 80 columns."""


class AnswerPane(PicturePane):
    """One to three lines under the table; as many as a failure needs, for half of a sentence tells no remedy."""

    def draw(self, picture: Picture, size: Size) -> Sequence[Spans]:
        """Return the sentences, cut at the pane's height."""
        least, most = (limit.cells if limit is not None else None for limit in
                       (self.styles.min_height, self.styles.max_height))  # fmt: skip
        return pane_lines(picture, size.width, least or 1, most or least or 1, self.glyphs)


def pane_lines(picture: Picture, width: int, least: int, most: int, glyphs: Glyphs) -> list[Spans]:
    """Return `least` lines or, for what went wrong or a long answer, up to `most`: failures, answer, what to press."""
    lines: list[Spans] = []
    for text, role in _failures(picture, glyphs):
        if len(lines) < most:
            lines += wrapped(spelled(text, glyphs), width, role, lines=most - len(lines))
    sentences = _sentences(picture)
    # Half of the first sentence is no answer: at 80x24 a long one takes the row of the table that it needs.
    whole = len(wrapped(spelled(sentences[0][0], glyphs), width)) if sentences else 0
    height = max(least, min(len(lines) + 1 if lines else whole, most))
    for text, role in sentences:
        if len(lines) < height:
            lines += wrapped(spelled(text, glyphs), width, role, lines=height - len(lines))
    return lines + [()] * (height - len(lines))


def _failures(picture: Picture, glyphs: Glyphs) -> list[tuple[str, str]]:
    """Return what went wrong, cause and remedy, most important first."""
    run, situation = picture.run, picture.situation
    found: list[tuple[str, str]] = []
    if picture.problem is not None:
        found.append((f"{glyphs.no} {picture.problem}", "bad"))
    if run.finished is not None and run.finished.message and not situation.live:
        text = f"{run.finished.message} {run.finished.remedy}".strip()
        found.append((text, "bad" if run.status == "failed" else "warn"))
    row = run.rows.get(picture.cursor or "")
    if row is not None and row.failure is not None and row.failure.kind != "skipped" and not situation.live:
        name = f"{row.case.workload} {size_text(row.case.size)}"
        found.append((f"{glyphs.no} {name}: {row.failure.message} {row.failure.remedy}".strip(), "bad"))
    if picture.unsaved and picture.past is None:
        found.append((picture.unsaved.text, "warn"))
    notice = picture.notice or ""
    if len(notice) > LONG_NOTICE and not situation.ran and picture.past is None:
        found.append((notice, "warn"))
    if picture.theme_notice and not situation.live:
        found.append((picture.theme_notice, "warn"))
    return found


def _sentences(picture: Picture) -> list[tuple[str, str]]:
    run, situation, keymap = picture.run, picture.situation, picture.keymap
    sentences: list[tuple[str, str]] = []
    if said := answer_lines(run):
        sentences += [(text, "key") for text in (_what_if(picture),) if text]
        # Two lines are all there is at 80x24, and a bracket that was left wide belongs to the first sentence.
        unfinished = [(text, "warn") for text in (cut_short(run),) if text]
        # In the app a row says why by itself, once one goes to it.
        first = said[0].replace("The remarks say why.", "Go to a row, and it says why.")
        sentences += [(first, "strong"), *unfinished, *((text, "muted") for text in said[1:])]
        if run.run is not None and run.run.plan.scale == "small":
            sentences.append((f"Small scale: {scale_text(run.run.plan)}.", "muted"))
    elif situation.live:
        sentences.append(("The answer comes with the first row that both devices have run.", "muted"))
    elif situation.replay:
        sentences.append(("This is a replay: readings of another time, and nothing is run beside them.", "strong"))
        sentences.append(("Start cpugpu-tui without --replay to run something.", "muted"))
    elif not situation.ran and picture.problem is None:
        choose = "Up and down choose another workload, {open} changes its parameters, {help} explains."
        sentences.append((keymap.said(choose), "muted"))
    return sentences


def _what_if(picture: Picture) -> str:
    """Return where the crossover of the highlighted sweep would be in the chosen world; empty for the measured one."""
    row = shown_row(picture.run, picture.cursor)
    if picture.what_if == RESIDENT or row is None:
        return ""
    sweep = row.case.sweep
    return what_if_sentence(picture.run, sweep, finished_rows(picture.run, sweep), picture.what_if)
