"""The noise page: the smallest change that a comparison finds here, as the newest noise series shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from cpugpu_tui.compare.noise import REPEATS, RUNS, Noise
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.render import noise
from cpugpu_tui.ui import keys
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.live.messages import NoiseWanted
from cpugpu_tui.ui.panes.lines import Spans, fitted, spelled, wrapped
from cpugpu_tui.ui.screens.page import Page

Read = Callable[[], Noise | None]
"""Returns the newest noise floor of the history, None without one; slow, called on a thread.

Raises:
    CpuGpuError: the history cannot be read.
"""

EMPTY = (
    "The noise floor of this machine has not been measured yet: how much a time varies between fresh processes, and so "
    "the smallest change that a comparison finds. Press {run} to measure it (about a minute)."
)

GAP = 2


class NoiseScreen(Page):
    """Reads the history on a thread, when it opens and when a series has ended."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings(["run"], "measure")]
    TOPIC = "noise"

    def __init__(self, state: AppState, glyphs: Glyphs, read: Read) -> None:
        super().__init__(state, glyphs)
        self._read = read
        self._found: Noise | None = None
        self._problem = ""
        self._is_reading = False

    def on_mount(self) -> None:
        """Read the history, unless something is being timed."""
        if not self.state.situation.live:
            self._ask()

    def show_state(self, state: AppState) -> None:
        """Show a newer state; read again after a series, and once the history is open."""
        before, self.state = self.state, state
        is_over = before.situation.live and not state.situation.live
        if is_over or (state.agent_ready > before.agent_ready and not state.situation.live):
            self._ask()
        self.redraw()

    def _ask(self) -> None:
        self._is_reading = True
        self.run_worker(lambda: self.call_later(self._know, *self._answer()), thread=True, exclusive=True)

    def _answer(self) -> tuple[Noise | None, str]:
        try:
            return self._read(), ""
        except CpuGpuError as error:
            return None, str(error)

    def _know(self, found: Noise | None, problem: str) -> None:
        self._found, self._problem, self._is_reading = found, problem, False
        self.redraw()

    def action_measure(self) -> None:
        """Start the series; a run in progress goes on."""
        if self.state.situation.may_start:
            self.post_message(NoiseWanted())

    def page_title(self) -> Spans:
        """Return which runs the floor is of."""
        text = "reading the saved runs" if self._is_reading else self._found.now.text if self._found else ""
        return (("Noise ", "title"), (spelled(f" {text}", self.glyphs), "text"))

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of a page, and the one that measures."""
        back, *others = super().page_keys()
        again = " again" if self._found is not None else ""
        measure = [("{run}", f"measure{again} ({REPEATS} runs)")] if self.state.situation.may_start else []
        return (back, *measure, *others)

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the table of the command and its sentences, or why there are none, or how far a series is."""
        found, state = self._found, self.state
        if state.situation.live:
            return wrapped(f"Run {state.repeat_number} of {state.repeats} is in progress.", width, "strong")
        if found is None:
            text = "" if self._is_reading else self._problem or self.state.keymap.with_keys(EMPTY)
            return wrapped(spelled(text, self.glyphs), width, "warn" if self._problem else "text")
        sentences = noise.lines(found.now, found.floors, found.before)
        told = (wrapped(spelled(each, self.glyphs), width) for each in sentences)
        return [*floor_lines(found, width, self.glyphs), (), *(line for lines in told for line in lines)]


def floor_lines(found: Noise, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return the table of floors; columns that do not fit are left out, the least important first."""
    heads = [head if isinstance(head, str) else head[0] for head in noise.columns(RUNS)]
    rows = [[spelled(text, glyphs) for text in each] for each in (heads, *(noise.cells(f, RUNS) for f in found.floors))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kept = list(range(len(heads)))
    for column in (3, 2, 6, 4):  # spread, median, 10 runs, 1 run
        if sum(widths[each] + GAP for each in kept) - GAP > width:
            kept.remove(column)

    def line(row: list[str]) -> str:
        return (" " * GAP).join(f"{row[each]:{'<' if each < 2 else '>'}{widths[each]}}" for each in kept)

    return [fitted(((line(row), "text" if row is not rows[0] else "muted"),), width, glyphs) for row in rows]
