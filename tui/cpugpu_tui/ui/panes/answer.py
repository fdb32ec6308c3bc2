"""The answer in one sentence, or what to do to get one."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size

from cpugpu_tui.analysis.what_if import RESIDENT
from cpugpu_tui.runs.answers import answer_lines
from cpugpu_tui.runs.ending import cut_short
from cpugpu_tui.runs.planning import scale_text
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import PicturePane, spelled, wrapped
from cpugpu_tui.ui.picture import Picture
from cpugpu_tui.ui.roles import Spans
from cpugpu_tui.ui.what_if import finished_rows, shown_row, what_if_sentence


class AnswerPane(PicturePane):
    """One to three lines under the table."""

    def draw(self, picture: Picture, size: Size) -> Sequence[Spans]:
        """Return the sentences, cut at the pane's height."""
        return pane_lines(picture, size.width, max(size.height, 1), self.glyphs)


def pane_lines(picture: Picture, width: int, height: int, glyphs: Glyphs) -> list[Spans]:
    """Return at most `height` lines: a failure comes first, then the answer, then what to press."""
    lines: list[Spans] = []
    for text, role in _sentences(picture, glyphs):
        if len(lines) < height:
            lines += wrapped(spelled(text, glyphs), width, role, lines=height - len(lines))
    return lines + [()] * (height - len(lines))


def _sentences(picture: Picture, glyphs: Glyphs) -> list[tuple[str, str]]:
    run, situation, keymap = picture.run, picture.situation, picture.keymap
    sentences: list[tuple[str, str]] = []
    if picture.problem is not None:
        sentences.append((f"{glyphs.no} {picture.problem.title}: {picture.problem}", "bad"))
    if run.finished is not None and run.finished.message and not situation.live:
        text = f"{run.finished.message} {run.finished.remedy}".strip()
        sentences.append((text, "bad" if run.status == "failed" else "warn"))
    if said := answer_lines(run):
        sentences += [(text, "key") for text in (_what_if(picture),) if text]
        # Two lines are all there is at 80x24, and a bracket that was left wide belongs to the first sentence.
        unfinished = [(text, "warn") for text in (cut_short(run),) if text]
        sentences += [(said[0], "strong"), *unfinished, *((text, "muted") for text in said[1:])]
        if run.run is not None and run.run.plan.scale == "small":
            sentences.append((f"Small scale: {scale_text(run.run.plan)}.", "muted"))
    elif situation.live:
        sentences.append(("The answer comes with the first row that both devices have run.", "muted"))
    elif situation.replay:
        sentences.append(("This is a replay: readings of another time, and nothing is run beside them.", "strong"))
        sentences.append(("Start cpugpu-tui without --replay to run something.", "muted"))
    elif not situation.ran:
        name = "+".join(picture.request.names)
        sentences.append(
            (f"Press {keymap.of('run')} to run {name}: from which size on is the GPU faster here?", "strong")
        )
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
