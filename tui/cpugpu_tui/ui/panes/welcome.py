"""The welcome text, shown in place of the table before the first run."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from textual.geometry import Size

from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.panes.lines import Spans, StatePane, respelled, wrapped
from cpugpu_tui.workloads import PRESETS

NAME_CELLS = 13
"""Cells of the longest name of a publication's preset, and a space."""

ROWS = "For each size the table shows CPU time, GPU time and speedup. The answer appears below it."
CLAIMS = "These workloads repeat experiments of five publications ({claims} lists their claims):"
DEMO = (
    "No NVIDIA GPU was found, so only the CPU can be timed. To see a recorded GPU run, press {quit} and start"
    " `cpugpu-tui demo` (90 s)."
)


class WelcomePane(StatePane):
    """Takes the place of the timings until the first run."""

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the lines; those about the publications, then those about the table only where all of them fit."""
        lines = welcome_lines(state, size.width)
        if len(lines) > size.height:
            lines = lines[: lines.index(())]
        if len(lines) > size.height:
            lines = [line for line in lines if line[0][1] != "muted"]
        return respelled(lines, self.glyphs)


def is_first(state: AppState) -> bool:
    """Whether there are no rows to show: nothing has run, and nothing is starting."""
    situation = state.situation
    return not (situation.ran or situation.live or situation.replay or situation.past)


def welcome_lines(state: AppState, width: int) -> list[Spans]:
    """Return what the table will show, the publications' claims and, without a GPU, a hint at the demo."""
    with_keys = state.keymap.with_keys
    lines: list[Spans] = wrapped(with_keys(first_sentence(state)), width, "strong")
    lines += wrapped(ROWS, width, "muted")
    if lacks_gpu(state):
        lines += wrapped(with_keys(DEMO), width, "warn")
    lines += [(), *wrapped(with_keys(CLAIMS), width)]
    for name, claim in claims():
        lines.append(((f" {name:<{NAME_CELLS}}", "key"), (whole_clauses(claim, width - NAME_CELLS - 1), "text")))
    return lines


def first_sentence(state: AppState) -> str:
    """Return what the run key will do."""
    name = "+".join(state.request.names)
    if name in PRESETS and PRESETS[name].is_search:
        return "Press {run} to find the size at which the GPU starts to win."
    return f"Press {{run}} to run {name} on CPU and GPU."


def lacks_gpu(state: AppState) -> bool:
    """Whether telemetry has arrived and shows no GPU."""
    latest = state.telemetry.latest
    return not state.simulated and latest is not None and not latest.gpus


def claims() -> list[tuple[str, str]]:
    """Return one preset of each publication with its claim: `P1: …`."""
    found: dict[str, tuple[str, str]] = {}
    for preset in PRESETS.values():
        if re.match(r"P\d: ", preset.claim):
            found.setdefault(preset.claim[:2], (preset.name, preset.claim))
    return list(found.values())


def whole_clauses(text: str, width: int) -> str:
    """Return the whole clauses of a claim that fit into one line."""
    while len(text) > width and "; " in text:
        text = text.rpartition("; ")[0]
    return text if len(text) <= width else textwrap.shorten(text, max(width, 10), placeholder=" …")
