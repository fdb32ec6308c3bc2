"""The GPUs of a run side by side, and the copies between them."""

from __future__ import annotations

from cpugpu_tui.analysis.alike import Standing
from cpugpu_tui.analysis.answer import speedup_text
from cpugpu_tui.model import DEVICE
from cpugpu_tui.model.quantities import percent, time_text
from cpugpu_tui.render.gpus import WORKLOAD, Matrix, matrices, peer_sentences, row_standings, several
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import wrapped
from cpugpu_tui.ui.roles import Spans

NAME, TIME, SPEEDUP, STANDING = 8, 9, 17, 15
"""Cells of the columns before the model's name, which is cut to fit."""

CELL = 8
"""Cells of a matrix's columns; eight GPUs take 72 of 80."""


def gpus_lines(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a line for each GPU with times, speedup and deviation; nothing for a single GPU."""
    if not several(run) or not row.gpus or row.status == "mismatch":
        return []
    stand = row_standings(run, row)
    head = f"  {'GPU':<{NAME}}{'call':>{TIME}}{'kernels':>{TIME}}{'speedup':>{SPEEDUP}}  "
    head += f"{'vs same model':<{STANDING}}model"
    lines: list[Spans] = [((head[:width], "muted"),)]
    for gpu in run.gpus:
        times = row.times.get(gpu.name)
        if times is None:
            continue
        known = [
            glyphs.none if ns is None else time_text(ns) for ns in (times.latency_ns, times.median_ns(DEVICE))
        ]  # fmt: skip
        found = row.comparisons.get(gpu.name)
        lead = glyphs.none if found is None else speedup_text(found)
        text, role = _standing(stand.get(gpu.name))
        room = max(width - 4 - NAME - 2 * TIME - SPEEDUP - STANDING, 0)
        lines.append(
            (
                (f"  {gpu.name:<{NAME}}", "gpu"),
                (f"{known[0]:>{TIME}}{known[1]:>{TIME}}{lead:>{SPEEDUP}}  ", "text"),
                (f"{text:<{STANDING}}", role),
                (gpu.label[:room], "muted"),
            )
        )
    return lines


def _standing(found: Standing | None) -> tuple[str, str]:
    """Return a GPU's deviation from the median of its model, and the role."""
    if found is None:
        return "only one", "muted"
    off = found.ratio - 1
    text = f"{'+' if off >= 0 else '-'}{percent(abs(off))}%"
    return (f"! slow {text}", "bad") if found.is_slow else (text, "text")


def peers_lines(run: RunState, row: Row, width: int) -> list[Spans]:
    """Return the copies between GPUs, in rows of the workload for copies."""
    if row.case.workload != WORKLOAD:
        return []
    lines = [line for sentence in peer_sentences(run) for line in wrapped(sentence, width, "strong")]
    for matrix in matrices(run):
        lines += [(), *wrapped(matrix.title, width, "title"), *_matrix(matrix, width)]
    return lines


def _matrix(matrix: Matrix, width: int) -> list[Spans]:
    """Return the lines of a matrix, with as many columns as fit."""
    shown = max((width - CELL) // CELL, 1)
    found: list[Spans] = []
    for index, (name, *cells) in enumerate((matrix.heads, *matrix.rows)):
        text = "".join(f"{cell:>{CELL}}" for cell in cells[:shown])
        found.append(((f"{name:<{CELL}}", "muted" if index == 0 else "gpu"), (text, "text" if index else "muted")))
    if len(matrix.heads) - 1 > shown:
        found.append(((f"{shown} of {len(matrix.heads) - 1} columns fit; exports have all", "muted"),))
    return found
