"""A list of saved runs that fills while it is read, and the outcomes of its visible runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.worker import get_current_worker

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model.quantities import count_of
from cpugpu_tui.render.outcomes import Outcome, outcomes
from cpugpu_tui.store.filtering import parse_while_typed
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.live.messages import in_background
from cpugpu_tui.ui.live.saved_runs import RUNNING, SavedRuns
from cpugpu_tui.ui.panes.fields import TypingLine
from cpugpu_tui.ui.panes.lines import Lines, Spans, spelled, wrapped
from cpugpu_tui.ui.panes.status import replay_tag
from cpugpu_tui.ui.panes.telemetry.wording import sanitized
from cpugpu_tui.ui.screens.page import ListPage
from cpugpu_tui.ui.screens.run_line import about, heads, run_line

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary

LOW = 16
"""Lines of a terminal below which a line being typed takes the place of the facts of the run under the cursor."""

TOLD_AT_ONCE = 8
"""Runs whose outcomes are read at once. Those of large runs take a second each, so the first must not wait for all."""

LOOK_S = 1.0
"""How often the first page is read again while another terminal runs one of its runs."""

EMPTY = "No runs saved yet. Press {back}, then {run} to start one. Each run is saved with all its samples."


@dataclass
class Place:
    """Cursor and filter of the list, kept for the next time it opens."""

    number: int | None = None
    """Run under the cursor; None for the newest."""
    wanted: str = ""
    """Text of the filter."""
    marked: list[int] = field(default_factory=list)
    """Numbers of the runs to compare, at most two."""


class RunList(ListPage):
    """Reads on threads."""

    def __init__(self, state: AppState, glyphs: Glyphs, saved: Callable[[], SavedRuns], place: Place) -> None:
        """Start at `place`; `saved` is called on threads and waits until the history is open."""
        super().__init__(state, glyphs)
        self._saved, self._place = saved, place
        self._runs: dict[int, RunSummary] = {}
        self._shown: list[RunSummary] = []
        self._outcomes: dict[int, tuple[RunSummary, Outcome]] = {}
        """Number → outcome, and the summary at the time of reading it."""
        self._telling = False
        self._whole = self._looking = False
        self._said: tuple[str, str] = ("", "muted")
        """Notice of the last key press, and its role."""
        self._now_ns: Callable[[], int] = lambda: 0

    # ---------------------------------------------------------------- reading

    def compose(self) -> ComposeResult:
        """Yield title, list, the run under the cursor, the line for typing, what is wrong with it, and the keys."""
        *above, keys = super().compose()
        yield from above
        yield TypingLine()
        yield Lines(id="wrong")
        yield keys

    def on_mount(self) -> None:
        """Read all runs page by page, and poll while one is live."""
        self.run_worker(self._read_all, thread=True, exit_on_error=False, group="history")
        self.set_interval(LOOK_S, self._look_again)
        if self._place.wanted:
            self._line.show_sign("/", self._place.wanted)

    def _read_all(self) -> None:
        worker = get_current_worker()
        try:
            saved = self._saved()
            self._now_ns = saved.now_ns
            saved.bury()
            for page in saved.pages():
                if worker.is_cancelled:
                    return
                self.call_later(self._know, page, notice=saved.notice)
            self.call_later(self._know, (), is_last=True, notice=saved.notice)
        except CpuGpuError as error:
            self.call_later(self.refuse, error)

    def _look_again(self) -> None:
        """Read the first page again while a run on it is live."""
        if self._whole and not self._looking and any(run.status == RUNNING for run in self._runs.values()):
            self._looking = True
            in_background(self, "history-wish", lambda: self._saved().newest(), self._know, self.refuse)

    def _know(
        self, runs: Sequence[RunSummary], *, is_last: bool = False, gone: int | None = None, notice: str = "",
        done: str = "",
    ) -> None:  # fmt: skip
        """Show runs that were read or have changed, and drop the one that is `gone`.

        `is_last` tells that these are the final page, `notice` why nothing can be changed, and `done` what was done.
        """
        self._runs |= {run.number: run for run in runs}
        if gone is not None:
            self._runs.pop(gone, None)
        if done:
            self._said = (done, "text")
        if notice:
            self._said = (notice, "warn")
        self._whole = self._whole or is_last
        self._looking = False
        self._narrow()

    # ---------------------------------------------------------------- outcomes

    def _outcome(self, run: RunSummary) -> Outcome | None:
        known = self._outcomes.get(run.number)
        return known[1] if known is not None else None

    def _tell(self) -> None:
        """Read the outcomes of the visible runs on a thread; those of thousands would take a minute."""
        wanted = [run for run in self._shown[self._in_sight.start : self._in_sight.stop]
                  if self._outcomes.get(run.number, (None,))[0] != run][:TOLD_AT_ONCE]  # fmt: skip
        if not wanted or self._telling:
            return
        self._telling = True

        def show(found: Mapping[int, Outcome]) -> None:
            self._telling = False
            self._outcomes |= {run.number: (run, found.get(run.number, Outcome())) for run in wanted}
            self.redraw()

        in_background(self, "history-outcomes", lambda: outcomes(self._saved().store, wanted), show, lambda _: show({}))

    def draw_body(self) -> None:
        """Write the visible runs, and read the outcomes that they lack."""
        super().draw_body()
        self._tell()

    def refuse(self, error: CpuGpuError) -> None:
        """Show an error of the store."""
        self._whole, self._looking = True, False
        self._said = (f"{error.title}: {error}", "bad")
        self.redraw()

    # ---------------------------------------------------------------- drawing

    @property
    def chosen(self) -> RunSummary | None:
        """The run under the cursor; None in an empty list."""
        return self._shown[self.index] if self._shown else None

    def page_title(self) -> Spans:
        """Return how many runs exist and how many are shown."""
        count = count_of(len(self._runs), "run")
        if not self._whole:
            count = f"reading, {count} so far" if self._runs else "reading"
        narrowed = f"  {len(self._shown):,} shown" if self._place.wanted.strip() else ""
        return (("History ", "title"), (f" {count}{narrowed}", "text"), self.where)

    def page_tags(self) -> Spans:
        """Return the tag of a replay alone: the listed runs are neither that on the screen nor all simulated."""
        return replay_tag(self.state)

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the visible runs, or why the list is empty."""
        if not self._shown:
            if self._runs:
                return wrapped("No run matches the filter; press esc to show all.", width, "muted")
            return wrapped(self.state.keymap.with_keys(EMPTY), width) if self._whole and self._said[1] != "bad" else []
        return super().page_lines(width)

    def count(self) -> int:
        """Return the number of runs that match the filter."""
        return len(self._shown)

    def list_heads(self, width: int) -> Spans:
        """Return the headings, unless the list is empty."""
        return heads(width) if self._shown else ()

    def list_line(self, index: int, width: int, *, chosen: bool) -> Spans:
        """Return a run."""
        run = self._shown[index]
        is_marked = run.number in self._place.marked
        return run_line(run, self._outcome(run), width, self.glyphs, self._now_ns(), chosen=chosen, marked=is_marked)

    def about_lines(self, width: int) -> list[Spans]:
        """Return the facts of the run under the cursor, and the notice of the last key press."""
        run, facts = self.chosen, list[Spans]()
        if run is not None and not (self._line.typing and self.size.height < LOW):
            facts = about(run, self._outcome(run), width, self.glyphs, self._now_ns())
        return facts + wrapped(spelled(self._said[0], self.glyphs), width, self._said[1], lines=4)

    @property
    def _line(self) -> TypingLine:
        return self.query_one(TypingLine)

    # ---------------------------------------------------------------- moving

    def action_move(self, step: int) -> None:
        """Move the cursor, and drop the notice of the last key press."""
        self._said = ("", "muted")
        super().action_move(step)
        self._place.number = self.chosen.number if self.chosen is not None and self.index else None

    def _narrow(self) -> None:
        """Show the runs that match the filter; the cursor stays on its run. Wrong parts are left out."""
        matches, error = parse_while_typed(self._place.wanted)
        text = spelled(sanitized(str(error or ""), 400, self.glyphs), self.glyphs)
        self.query_one("#wrong", Lines).show_any(wrapped(text, self.text_width, "bad", lines=3))
        newest_first = [self._runs[number] for number in sorted(self._runs, reverse=True)]
        self._shown = [run for run in newest_first if matches(run)]
        under = self._place.number
        places = {run.number: index for index, run in enumerate(self._shown)} if under is not None else {}
        self.index = places.get(under or 0, min(self.index, max(len(self._shown) - 1, 0)))
        self.redraw()
