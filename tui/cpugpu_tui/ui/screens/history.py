"""The history page: opens, repeats, tags and deletes saved runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.widgets import Input

from cpugpu_tui.store.filtering import EXAMPLE
from cpugpu_tui.ui import keys
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.live.messages import PairChosen, SavedRunChosen, in_background
from cpugpu_tui.ui.live.saved_runs import BASELINE, SavedRuns, age_text
from cpugpu_tui.ui.screens.form import BaselineBox
from cpugpu_tui.ui.screens.page import ConfirmScreen
from cpugpu_tui.ui.screens.run_line import named, with_baseline
from cpugpu_tui.ui.screens.run_list import Place, RunList

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary


class DeleteScreen(ConfirmScreen, inherit_bindings=False):
    """Asks before samples are deleted; q means no here, but yes in other boxes."""

    BINDINGS: ClassVar[list[BindingType]] = [("y", "dismiss(True)"), ("n,q,escape,ctrl+c", "dismiss(False)")]


class HistoryScreen(RunList):
    """Opens runs, runs them again, tags and deletes them."""

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

    def __init__(self, state: AppState, glyphs: Glyphs, saved: Callable[[], SavedRuns], place: Place) -> None:
        super().__init__(state, glyphs, saved, place)
        self._asked: RunSummary | None = None
        """The run whose tags are being typed."""

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
            from cpugpu_tui.compare.series import series_of_id
            from cpugpu_tui.render.comparison import left_out

            store = self._saved().store
            store.set_baseline(name, run.series_id)
            return left_out(series_of_id(store, run.series_id))

        def show(without: str) -> None:
            done = f"The series of run {run.number} is now baseline {name}. {without}".rstrip()
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
