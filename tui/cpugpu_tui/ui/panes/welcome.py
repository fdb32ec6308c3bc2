"""What stands in place of the table before the first run: what will appear, what was claimed, what to press."""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual.geometry import Size

from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.panes.lines import StatePane, spelled, wrapped
from cpugpu_tui.ui.roles import Spans
from cpugpu_tui.workloads import PRESETS

NAME_CELLS = 13
"""Cells of the longest preset of a publication and a space."""

ROWS = (
    "One row per size: CPU time, GPU time, speedup, and what limits it. The answer stands below them in one sentence."
)
CLAIMS = "Five publications compared CPU and GPU. Choose one ({open} opens it, {claims} lists all their claims):"
DEMO = "No NVIDIA GPU was found, so only the CPU can be timed. To see a GPU: q, then cpugpu-tui demo (90 s, recorded)."


class WelcomePane(StatePane):
    """Fills the place of the timings until there are any."""

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the lines that fit."""
        lines = welcome_lines(state, size.width)
        return [tuple((spelled(text, self.glyphs), role) for text, role in line) for line in lines]


def is_first(state: AppState) -> bool:
    """Whether nothing has run and nothing is being started: there are no rows to show."""
    situation = state.situation
    return not (situation.ran or situation.live or situation.replay or situation.past)


def welcome_lines(state: AppState, width: int) -> list[Spans]:
    """Return what will appear, the publications' claims, and where there is no GPU the demo."""
    said = state.keymap.said
    lines: list[Spans] = wrapped(said(first_sentence(state)), width, "strong")
    lines += wrapped(ROWS, width, "muted")
    if lacks_gpu(state):
        lines += wrapped(DEMO.replace("q,", f"{state.keymap.of('quit')},"), width, "warn")
    lines += [(), *wrapped(said(CLAIMS), width)]
    for name, claim in claims():
        lines.append(((f" {name:<{NAME_CELLS}}", "key"), (whole_clauses(claim, width - NAME_CELLS - 1), "text")))
    return lines


def first_sentence(state: AppState) -> str:
    """Return what `run` will find out."""
    name = "+".join(state.request.names)
    if name in PRESETS and PRESETS[name].is_search:
        return "Press {run}: find the size at which the GPU starts to win."
    return f"Press {{run}}: run {name} on CPU and GPU."


def lacks_gpu(state: AppState) -> bool:
    """Whether the machine was looked at and has no GPU that can be timed."""
    latest = state.telemetry.latest
    return not state.simulated and latest is not None and not latest.gpus


def claims() -> list[tuple[str, str]]:
    """Return a preset of each publication with what it claims: `P1: …`."""
    found: dict[str, tuple[str, str]] = {}
    for preset in PRESETS.values():
        if re.match(r"P\d: ", preset.claim):
            found.setdefault(preset.claim[:2], (preset.name, preset.claim))
    return list(found.values())


def whole_clauses(text: str, width: int) -> str:
    """Return as many whole clauses of a claim as fit into one line."""
    while len(text) > width and "; " in text:
        text = text.rpartition("; ")[0]
    return text
