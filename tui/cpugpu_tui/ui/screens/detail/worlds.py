"""A row's speed-up as it would be with other costs."""

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
    GPU_OBSERVED: "the GPU was faster in each of them, too few for an interval",
    CPU_OBSERVED: "the CPU was faster in each of them, too few for an interval",
    TOO_FEW: "too few for an interval",
}

COMPUTED = {TEN_CALLS: "10 calls", HUNDRED_CALLS: "100 calls", NO_LAUNCH: "no launch cost"}
"""Worlds that nobody ran: their times are made of measured ones."""


LEAST_WITH_INTERVALS = 60
"""Cells of a line that has a world's longest name, its speedup with the interval, and the winner in a word."""


def worlds_of(run: RunState, row: Row) -> Mapping[str, Comparison]:
    """Return the comparison in each world that this row has times for, by `WhatIf.key`."""
    found = {key: comparison for key, comparison in row.in_worlds.items() if key != ONE_THREAD}
    # A row's own times do not know what one thread would take: another row of the run does.
    single = beside(run, row, 1)
    if single is not None and single.comparison is not None:
        found[ONE_THREAD] = single.comparison
    return found


def world_lines(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a line for each world: what would differ, the speed-up with its ±, who would win; empty with one world."""
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
    lines: list[Spans] = [(("What if: speedup of the GPU", "title"),)]
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
    """Return who wins, or why nobody does."""
    return VERDICT_SENTENCES.get(comparison.verdict) or open_words(comparison)


def _verdict(comparison: Comparison, glyphs: Glyphs, *, is_wide: bool) -> tuple[str, str]:
    """Return who would win as a sentence, or in a word where the line is too short for one."""
    word = winner_sentence(comparison) if is_wide else winner(comparison)
    if comparison.faster == GPU_WINS:
        return f"{glyphs.up} {word}", "gpu"
    if comparison.faster == CPU_WINS:
        return f"{glyphs.down} {word}", "cpu"
    return f"{'=' if comparison.verdict == TIE else '?'} {word}", "muted"
