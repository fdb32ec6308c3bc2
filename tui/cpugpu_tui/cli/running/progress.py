"""A line on stderr with the progress of a run or a fleet. Shown only if stderr is a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

from cpugpu_tui.errors import shown
from cpugpu_tui.model import CaseFailed, CaseFinished, Event, Progressed, RunFinished
from cpugpu_tui.model.quantities import duration
from cpugpu_tui.render.progress import bar, done_text, left_text
from cpugpu_tui.state.state import RunState

EVERY_S = 0.5
"""Least time between updates: painting takes CPU time from the block that is being timed."""


class ProgressLine:
    """A line that is drawn over itself."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self.stream = stream
        self.is_live = stream.isatty()
        self._painted_s = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the last paint was `EVERY_S` ago."""
        return time.monotonic() - self._painted_s >= EVERY_S

    def paint(self, text: str) -> None:
        """Draw a text, which must fit the line: a wrapped one cannot be removed."""
        self._painted_s = time.monotonic()
        self.stream.write(f"\r\x1b[K{text}")
        self.stream.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self.is_live:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


class Progress:
    """Draws `███░░░░░░░ 3 of 8 cases · 0:12 left · matmul 512 · warm-up on cpu` over itself."""

    def __init__(self) -> None:
        self._line = ProgressLine()
        self._left_s: float | None = None
        self._heard_s = 0.0

    def show(self, state: RunState, event: Event) -> None:
        """Record an event, and repaint if an update is due."""
        if not self._line.is_live or isinstance(event, RunFinished):
            return
        if isinstance(event, Progressed) and event.seconds_left is not None:
            self._left_s, self._heard_s = event.seconds_left, time.monotonic()
        settled = isinstance(event, (CaseFinished, CaseFailed))
        if not settled and not self._line.is_due:
            return
        room = shutil.get_terminal_size().columns - 1
        self._line.paint(shown(self._text(state)[:room]))

    def _text(self, state: RunState) -> str:
        current = state.current
        if not state.rows and current is not None:
            return f"{current.phase} of {current.device}: {current.note}"
        is_utf8 = "utf" in (self._line.stream.encoding or "").lower()
        done, rest = bar(state, *("█░" if is_utf8 else "#."))
        parts = [f"{done}{rest} {done_text(state)}"]
        left_s = self._left_s - (time.monotonic() - self._heard_s) if self._left_s is not None else None
        parts += [text for text in (left_text(state, left_s),) if text]
        if current is not None and current.case in state.rows:
            case = state.rows[current.case].case
            parts.append(f"{case.workload} {case.size:,}")
            if current.device:
                parts.append(f"{current.phase} on {current.device}")
            if current.note:
                parts.append(current.note)
            if current.elapsed_s is not None and current.estimate_s is not None:
                parts.append(f"{duration(current.elapsed_s)} of about {duration(current.estimate_s)}")
        elif current is not None and current.note:
            parts.append(current.note)
        dot = "·" if is_utf8 else "-"
        return f" {dot} ".join(parts)

    def clear(self) -> None:
        """Remove the line."""
        self._line.clear()
