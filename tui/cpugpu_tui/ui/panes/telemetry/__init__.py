"""Telemetry of every GPU and the host: one line each, blocks, or a column."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size

from cpugpu_tui.model import Device
from cpugpu_tui.state.telemetry_state import TelemetryState
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import StatePane, wrapped
from cpugpu_tui.ui.panes.telemetry.arrangements import (
    Arrangement,
    blocks,
    column,
    compact_column,
    one_line,
    problem_lines,
    short_column,
    tall_blocks,
)
from cpugpu_tui.ui.panes.telemetry.facts import Subject, gpu_subject, host_subject
from cpugpu_tui.ui.panes.telemetry.identity import torch_names
from cpugpu_tui.ui.panes.telemetry.wording import stranger
from cpugpu_tui.ui.roles import Spans, width_of

BLOCKS_WIDTH = 100
"""From this width three histories fit side by side."""
COLUMN_WIDTH = 50
"""A pane narrower than this shows one fact per line."""
MORE_KEYS = "tab, z: show all"
"""How to see the hidden GPUs."""


class TelemetryPane(StatePane):
    """Redrawn with every reading; during a run, in its gaps."""

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the richest arrangement that fits."""
        if state.past is not None and state.telemetry.latest is None:
            return wrapped(f"Run {state.past.summary.number} has no recorded telemetry.", size.width, "muted")
        return telemetry_lines(state.telemetry, size.width, self.room(), self.glyphs, state.run.devices)

    def room(self) -> int:
        """Return how many lines the pane may have; its height follows its content, up to `max-height`."""
        limit = self.styles.max_height
        if limit is not None and limit.cells is not None:
            return max(1, limit.cells - self.gutter.height)
        return max(1, self.size.height)


def telemetry_lines(
    state: TelemetryState, width: int, height: int, glyphs: Glyphs, devices: Sequence[Device] = ()
) -> list[Spans]:
    """Return the richest arrangement of at most `height` lines; if none is short enough, one with hidden GPUs.

    `devices` are those of the run; they give torch's name of each GPU.
    """
    read = state.latest
    if read is None:
        return [(("Waiting for the first reading.", "muted"),)]
    subjects = [gpu_subject(gpu, state.history, devices, width, glyphs) for gpu in read.gpus]
    subjects.append(host_subject(read.host, state.history, glyphs))
    sentence = stranger(read.problem or "", 400, glyphs)
    # Three lines hold each of our sentences at 80 columns. GPUs are hidden to make room for it.
    problem = wrapped(sentence, width, "warn", lines=max(min(3, height - 1), height - len(subjects)))
    room = height - len(problem)
    lines: list[Spans] = []
    for arrange in _arrangements(width):
        lines = [line for subject in subjects for line in arrange(subject, width, glyphs)]
        if lines and not lines[-1]:
            lines.pop()
        if len(lines) <= room:
            return lines + problem
    used = {index for index, gpu in enumerate(read.gpus) if torch_names(gpu, devices)}
    return _shortened(subjects, used, width, room, glyphs) + problem


def _arrangements(width: int) -> tuple[Arrangement, ...]:
    """Return the arrangements for a width, richest first."""
    if width < COLUMN_WIDTH:
        return column, short_column, compact_column
    if width < BLOCKS_WIDTH:
        return column, problem_lines, one_line
    return tall_blocks, blocks, problem_lines, one_line


def _shortened(subjects: Sequence[Subject], used: set[int], width: int, room: int, glyphs: Glyphs) -> list[Spans]:
    """Return a line for each GPU that fits (those of the run first), one about hidden GPUs, and one for the host."""
    *gpus, host = subjects
    last = one_line(host, width, glyphs)
    if room < 2 or not gpus:
        return last
    count = 1 if room == 2 else room - 2
    chosen = sorted(sorted(range(len(gpus)), key=lambda index: index not in used)[:count])
    lines = [line for index in chosen for line in one_line(gpus[index], width, glyphs)]
    if room > 2:
        lines.append(_hidden(gpus, chosen, width))
    return [*lines, *last]


def _hidden(gpus: Sequence[Subject], chosen: Sequence[int], width: int) -> Spans:
    """Return how many GPUs are shown, how to see the others, and the warnings of hidden ones."""
    line: list[tuple[str, str]] = [(f"{len(chosen)} of {len(gpus)} GPUs; {MORE_KEYS}", "muted")]
    for index, subject in enumerate(gpus):
        wrong = next((fact for fact in subject.facts if fact.role in ("bad", "warn")), None)
        if index in chosen or (wrong is None and not subject.problem):
            continue
        text = f"! {subject.label} cannot be read" if wrong is None or subject.problem else (
            f"{wrong.sign} {subject.label} {wrong.brief or wrong.short_or_text}"
        )  # fmt: skip
        if width_of((*line, (text, ""))) + 2 <= width:
            line += [("  ", "text"), (text, wrong.role if wrong is not None else "warn")]
    return tuple(line)
