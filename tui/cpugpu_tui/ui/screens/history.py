"""The history page: opens, repeats, tags and deletes saved runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from cpugpu_tui.ui import keys
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.live.messages import SavedRunChosen
from cpugpu_tui.ui.live.saved_runs import BASELINE, SavedRuns, ago
from cpugpu_tui.ui.screens.page import ConfirmScreen
from cpugpu_tui.ui.screens.run_list import Place, RunList, named, with_baseline

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary


class DeleteScreen(ConfirmScreen, inherit_bindings=False):
    """Asks before samples are deleted; q means no here, but yes in other boxes."""

    BINDINGS: ClassVar[list[BindingType]] = [("y", "answer(True)"), ("n,q,escape,ctrl+c", "answer(False)")]


class HistoryScreen(RunList):
    """Opens runs, runs them again, tags and deletes them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.bindings(["open"], "choose(False)"),
        *keys.bindings(["run"], "choose(True)"),
        *keys.bindings(["baseline"], "baseline"),
        ("d", "delete"),
        *keys.bindings(["back"], "close_one"),
        # Elsewhere these act on the run in the panes; here they would miss the run under the cursor.
        *keys.bindings(keys.OF_RUN, "nothing"),
    ]
    TOPIC = "history"

    def __init__(self, state: AppState, glyphs: Glyphs, saved: Callable[[], SavedRuns], place: Place) -> None:
        super().__init__(state, glyphs, saved, place)
        self._tagged: RunSummary | None = None
        """The run whose tags are being typed."""

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys for the run under the cursor, or for the line being typed."""
        if self._line.typing:
            return (("enter", "keep"), ("esc", "cancel"))
        again = (("{run}", "again"),) if self.state.situation.may_start else ()
        return (
            ("enter", "open"), *again, ("{filter}", "filter"), ("l", "tags"), ("{baseline}", "baseline"),
            ("d", "delete"), ("esc", "all" if self._place.wanted else "back"), ("j k", "move"),
        )  # fmt: skip

    # ---------------------------------------------------------------- wishes

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
        """Make the series of the run under the cursor the baseline."""
        run, shown = self.chosen, tuple(self._runs.values())
        if run is None:
            return

        def set_baseline(saved: SavedRuns) -> Message:
            from cpugpu_tui.compare.series import series_of_id
            from cpugpu_tui.render.comparison import left_out

            saved.store.set_baseline(BASELINE, run.series_id)
            without = left_out(series_of_id(saved.store, run.series_id))
            return self.Read(
                with_baseline(shown, BASELINE, run.series_id),
                done=f"The series of run {run.number} is now baseline {BASELINE}. {without}".rstrip(),
            )

        self._do(set_baseline)

    def action_delete(self) -> None:
        """Ask whether to delete the run under the cursor."""
        run = self.chosen
        if run is None:
            return

        def delete(saved: SavedRuns) -> Message:
            saved.delete(run)
            return self.Read((), gone=run.number, done=f"Deleted run {run.number}.")

        def decide(yes: bool | None) -> None:
            if yes:
                self._do(delete)

        age = ago(run.started_wall_ns, self._now_ns()) if self._now_ns is not None else ""
        question = f"Delete run {run.number} ({named(run.name, self.glyphs)}, {age}) and its samples?"
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
            self._tagged = self.chosen
            self._ask(f"tags of run {self.chosen.number}:", "words separated by spaces", " ".join(self.chosen.tags))

    def open_filter(self) -> None:
        """Open the filter."""
        hint = "name, status, device, date or #tag; enter keeps, esc shows all"
        self._ask("/", hint, self._place.wanted)

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
        run = self._tagged
        if self._line.sign == "/" and event.value.strip():
            self.set_focus(None)
            self.redraw()
            return
        if self._line.sign != "/" and run is not None:
            tags = list(dict.fromkeys(word.removeprefix("#") for word in event.value.replace(",", " ").split()))
            self._do(lambda saved: self.Read([saved.tag(run, tags)]))
        self._close_line()

    def action_close_one(self) -> None:
        """Close the line for typing and the filter, or close the page."""
        if self._line.sign:
            self._close_line()
        else:
            self.app.pop_screen()

    def _close_line(self) -> None:
        """Close the line for typing; a filter that was there before tags were typed comes back."""
        was_filter = self._line.sign == "/"
        self.set_focus(None)
        if was_filter:
            self._place.wanted = ""
            self._narrow()
        self._line.show_sign("/" if self._place.wanted else "", self._place.wanted)
        self.call_after_refresh(self.redraw)
