"""What a row of a person's own code executed on each device, and its slowest lines."""

from __future__ import annotations

from cpugpu_tui.render.receipts import code_text, line_words, profiled_words, receipt_lines, slow_lines
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Spans, paragraph, spelled, visible, wrapped

MOST_SHOWN = 5
"""Most lines of code for each device."""


def own_code_lines(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return the code of a row, its receipt and its slowest lines; empty for a workload that nobody typed."""
    codes = run.run.plan.codes if run.run is not None else ()
    text = next((code_text(code) for code in codes if code.name == row.case.workload), "")
    lines = wrapped(visible(text), width, "muted") if text else []
    for index, line in enumerate(receipt_lines(row)):
        lines += [] if index else [(("Where it ran", "title"),)]
        lines += paragraph(spelled(line, glyphs), width)
    for profiled in slow_lines(row):
        lines += [(), ((spelled(f"Slowest lines on {profiled.device}", glyphs), "title"),)]
        for cost in profiled.lines[:MOST_SHOWN]:
            lines += paragraph(spelled(line_words(cost, profiled.device), glyphs), width)
        lines += paragraph(spelled(f"P{profiled_words(profiled)[1:]}.", glyphs), width, "muted")
    return lines
