"""The history page: a list of saved runs that fills while it is read. Opens, repeats, tags and deletes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input
from textual.worker import get_current_worker

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model.quantities import count_of
from cpugpu_tui.render.outcomes import Outcome, outcomes
from cpugpu_tui.store.filtering import EXAMPLE, RunSummary, parse_while_typed
from cpugpu_tui.ui import keys
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.live.messages import PairChosen, SavedRunChosen, in_background
from cpugpu_tui.ui.live.saved_runs import BASELINE, RUNNING, Place, SavedRuns, age_text
from cpugpu_tui.ui.panes.fields import TypingLine
from cpugpu_tui.ui.panes.lines import Lines, Spans, sanitized, spelled, wrapped
from cpugpu_tui.ui.panes.status import replay_tag
from cpugpu_tui.ui.screens.form import BaselineBox
from cpugpu_tui.ui.screens.page import ConfirmScreen, ListPage
from cpugpu_tui.ui.screens.run_line import about, heads, named, run_line, with_baseline


class DeleteScreen(ConfirmScreen, inherit_bindings=False):
    """Asks before samples are deleted; q means no here, but yes in other boxes."""

    BINDINGS: ClassVar[list[BindingType]] = [("y", "dismiss(True)"), ("n,q,escape,ctrl+c", "dismiss(False)")]


LOW = 16
"""Lines of a terminal below which a line being typed takes the place of the facts of the run under the cursor."""

TOLD_AT_ONCE = 8
"""Runs whose outcomes are read at once. Those of large runs take a second each, so the first must not wait for all."""

LOOK_S = 1.0
"""How often the first page is read again while another terminal runs one of its runs."""

EMPTY = "No runs saved yet. Press {back}, then {run} to start one. Each run is saved with all its samples."


class HistoryScreen(ListPage):
    """Opens runs, runs them again, tags and deletes them. Reads on threads."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.bindings(["open"], "open"),
        *keys.bindings(["run"], "choose(True)"),
        *keys.bindings(["baseline"], "baseline"),
        ("d", "delete"),
        *keys.bindings(["back"], "close_one"),
        # Elsewhere these act on the run in the panes; here they would miss the run under the cursor.
        *keys.bindings([name for name in keys.OF_RUN if name != "pause"], "nothing"),
        *keys.bindings(["pause"], "mark"),
    ]
    TOPIC = "history"
    LEAVE_KEY = "esc"

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
        self._asked: RunSummary | None = None
        """The run whose tags are being typed."""

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

    def draw_body(self) -> None:
        """Write the visible runs, and read the outcomes that they lack: those of thousands would take a minute."""
        super().draw_body()
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
        outcome = self._outcomes.get(run.number, (run, None))[1]
        return run_line(run, outcome, width, self.glyphs, self._now_ns(), chosen=chosen, marked=is_marked)

    def about_lines(self, width: int) -> list[Spans]:
        """Return the facts of the run under the cursor, and the notice of the last key press."""
        run, facts = self.chosen, list[Spans]()
        if run is not None and not (self._line.typing and self.size.height < LOW):
            outcome = self._outcomes.get(run.number, (run, None))[1]
            facts = about(run, outcome, width, self.glyphs, self._now_ns())
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

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys for the run under the cursor, or for the line being typed."""
        if self._line.typing:
            return (("enter", "set" if self._line.sign != "/" else "keep"), ("esc", "cancel"))
        if len(self._place.marked) == 2:
            return (("enter", "compare both"), ("esc", "clear marks"), ("{pause}", "mark"), ("j k", "move"))
        if self.chosen is None:
            return (("esc", self._escape_label), *((("{filter}", "filter"),) if self._place.wanted else ()))
        again = (("{run}", "again"),) if self.state.situation.may_start else ()
        return (
            ("enter", "open"), ("{pause}", "mark"), ("esc", self._escape_label), ("{filter}", "filter"), *again,
            ("d", "delete"), ("l", "tags"), ("{baseline}", "baseline"), ("j k", "move"),
        )  # fmt: skip

    @property
    def _escape_label(self) -> str:
        return "clear mark" if self._place.marked else "all" if self._place.wanted else "back"

    # ---------------------------------------------------------------- wishes

    def action_open(self) -> None:
        """Compare the two marked runs, or show the run under the cursor."""
        if len(self._place.marked) == 2:
            self.post_message(PairChosen(*sorted(self._place.marked)))
        else:
            self.action_choose(False)

    def action_mark(self) -> None:
        """Mark the run under the cursor, or remove its mark. A third mark replaces the oldest."""
        run, marked = self.chosen, self._place.marked
        if run is None:
            return
        if run.number in marked:
            marked.remove(run.number)
        else:
            marked[:] = [*marked[-1:], run.number]
        text = "Mark another run, then press {open} to compare both." if marked else ""
        if len(marked) == 2:
            text = f"Press {{open}} to compare runs {min(marked)} and {max(marked)}."
        self._said = (self.state.keymap.with_keys(text), "text")
        self.redraw()

    def action_choose(self, again: bool) -> None:
        """Show the run under the cursor in the panes, or run its plan again."""
        if self.chosen is not None:
            self._said = (f"opening run {self.chosen.number}", "muted")
            self.post_message(SavedRunChosen(self.chosen, again=again))
            self.redraw()

    def action_nothing(self) -> None:
        """Show why this key does nothing here."""
        self._said = ("This key acts on the run in the panes. Press enter to open this run there.", "warn")
        self.redraw()

    def action_baseline(self) -> None:
        """Ask for the name of the baseline that the series of the run under the cursor becomes."""
        run = self.chosen
        if run is not None:
            self.app.push_screen(BaselineBox(BASELINE), lambda name: self._set_baseline(run, name))

    def _set_baseline(self, run: RunSummary, name: str | None) -> None:
        if name is None:
            return

        def set_baseline() -> str:
            return self._saved().set_baseline(name, run.series_id)

        def show(done: str) -> None:
            self._know(with_baseline(tuple(self._runs.values()), name, run.series_id), done=done)

        in_background(self, "history-wish", set_baseline, show, self.refuse)

    def action_delete(self) -> None:
        """Ask whether to delete the run under the cursor."""
        run = self.chosen
        if run is None:
            return

        def decide(yes: bool | None) -> None:
            if yes:
                in_background(self, "history-wish", lambda: self._saved().store.delete(run.run_id), show, self.refuse)

        def show(_: None) -> None:
            self._know((), gone=run.number, done=f"Deleted run {run.number}.")

        age = age_text(run.started_wall_ns, self._now_ns())
        old = f", {age} ago" if age else ""
        question = f"Delete run {run.number} ({named(run.title, self.glyphs)}{old}) and its samples?"
        self.app.push_screen(DeleteScreen(question, "delete it", "keep it"), decide)

    # ---------------------------------------------------------------- the line for typing

    def on_key(self, event: events.Key) -> None:
        """Open the line for typing at once, because an action would come too late for keys already typed."""
        if self._line.typing:
            if event.is_printable and event.character is not None:
                event.stop()
                self._line.field.insert_text_at_cursor(event.character)
        elif {event.key, event.character} & {*self.state.keymap.keys["filter"]}:
            event.stop()
            self.open_filter()
        elif event.character == "l" and self.chosen is not None:
            event.stop()
            self._asked = self.chosen
            self._ask(f"tags of run {self.chosen.number}:", "words separated by spaces", " ".join(self.chosen.tags))

    def open_filter(self) -> None:
        """Open the filter."""
        self._ask("/", f"words, #tag, or conditions such as {EXAMPLE} status:done date:2026-01", self._place.wanted)

    def _ask(self, sign: str, hint: str, value: str) -> None:
        self._line.ask(sign, hint, value)
        self.call_after_refresh(self.redraw)

    @on(Input.Changed, "#line-field")
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._line.sign == "/" and event.value != self._place.wanted:
            self._place.wanted = event.value
            self._narrow()

    @on(Input.Submitted, "#line-field")
    def _kept(self, event: Input.Submitted) -> None:
        event.stop()
        run = self._asked
        if self._line.sign == "/" and event.value.strip():
            self.set_focus(None)
            self.redraw()
            return
        if self._line.sign != "/" and run is not None:
            tags = list(dict.fromkeys(word.removeprefix("#") for word in event.value.replace(",", " ").split()))
            in_background(self, "history-wish", lambda: [self._saved().tag(run, tags)], self._know, self.refuse)
        self._close_line()

    def action_close_one(self) -> None:
        """Close the line for typing, remove the marks, show all runs, or close the page."""
        if self._place.marked and not self._line.typing:
            self._place.marked.clear()
            self._said = ("", "muted")
            self.redraw()
        elif self._line.sign:
            self._close_line()
        else:
            self.app.pop_screen()

    def _close_line(self) -> None:
        """Close the line for typing; a filter that was there before tags were typed comes back."""
        if self._line.sign == "/":
            self._place.wanted = ""
        self.set_focus(None)
        self._narrow()  # which also shows again what is wrong with the filter, or nothing
        self._line.show_sign("/" if self._place.wanted else "", self._place.wanted)
        self.call_after_refresh(self.redraw)
