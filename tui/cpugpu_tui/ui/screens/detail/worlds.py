"""A row's speedup under other conditions (what-if)."""

from __future__ import annotations

from collections.abc import Mapping

from cpugpu_tui.analysis.answer import open_words, speedup_text
from cpugpu_tui.analysis.costs import HUNDRED_CALLS, NO_LAUNCH, ONE_THREAD, TEN_CALLS, WHAT_IFS
from cpugpu_tui.decide.verdict import CPU_OBSERVED, CPU_WINS, GPU_OBSERVED, GPU_WINS, TIE, TOO_FEW, Comparison
from cpugpu_tui.model.quantities import factor
from cpugpu_tui.render.answers import beside
from cpugpu_tui.render.verdicts import winner
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import paragraph, spelled
from cpugpu_tui.ui.roles import Spans

VERDICT_SENTENCES = {
    GPU_WINS: "the GPU is faster",
    CPU_WINS: "the CPU is faster",
    TIE: "a tie, within 2 %",
    GPU_OBSERVED: "the GPU is faster in each, too few for a ± value",
    CPU_OBSERVED: "the CPU is faster in each, too few for a ± value",
    TOO_FEW: "too few for a ± value",
}

COMPUTED = {TEN_CALLS: "10 calls", HUNDRED_CALLS: "100 calls", NO_LAUNCH: "no launch cost"}
"""Conditions that are computed from measured times → words."""


LEAST_WITH_INTERVALS = 60
"""Least width for the longest label, the speedup with its interval, and the winner in a word."""


def worlds_of(run: RunState, row: Row) -> Mapping[str, Comparison]:
    """Return `WhatIf.key` → comparison, for the conditions that this row has times for."""
    found = {key: comparison for key, comparison in row.in_worlds.items() if key != ONE_THREAD}
    # The time of one CPU thread is in another row.
    single = beside(run, row, 1)
    if single is not None and single.comparison is not None:
        found[ONE_THREAD] = single.comparison
    return found


def world_lines(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a line for each condition: label, speedup with ±, winner; empty if only one is known."""
    found = worlds_of(run, row)
    if len(found) < 2:
        return []
    shown = [(what_if.label, found[what_if.key]) for what_if in WHAT_IFS if what_if.key in found]
    speedups = [spelled(speedup_text(comparison), glyphs) for _, comparison in shown]
    if width < LEAST_WITH_INTERVALS:
        speedups = [spelled(factor(comparison.speedup), glyphs) for _, comparison in shown]
    labels, numbers = max(len(label) for label, _ in shown) + 2, max(map(len, speedups)) + 1
    sentences = [winner_sentence(comparison) for _, comparison in shown]
    is_wide = width >= 2 + labels + numbers + 2 + max(map(len, sentences))
    lines: list[Spans] = [(("The GPU's speedup under each condition", "title"),)]
    lines += [
        (
            (f"  {label:<{labels}}", "text"),
            (f"{speedup:<{numbers}}", "strong"),
            _verdict(comparison, glyphs, is_wide=is_wide),
        )
        for (label, comparison), speedup in zip(shown, speedups, strict=True)
    ]
    computed = [words for key, words in COMPUTED.items() if key in found]
    if computed:
        lines += paragraph(f"computed from measured times: {', '.join(computed)}", width, "muted")
    return lines


def winner_sentence(comparison: Comparison) -> str:
    """Return the winner, or why none is known."""
    return VERDICT_SENTENCES.get(comparison.verdict) or open_words(comparison)


def _verdict(comparison: Comparison, glyphs: Glyphs, *, is_wide: bool) -> tuple[str, str]:
    """Return the winner as a sentence, or as a word if the line is too short."""
    word = winner_sentence(comparison) if is_wide else winner(comparison)
    if comparison.faster == GPU_WINS:
        return f"{glyphs.up} {word}", "gpu"
    if comparison.faster == CPU_WINS:
        return f"{glyphs.down} {word}", "cpu"
    return f"{'=' if comparison.verdict == TIE else '?'} {word}", "muted"
