"""Saved runs: lists them, opens one in the panes, follows it, and returns to the present run."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.timer import Timer

from cpugpu_tui.analysis.costs import RESIDENT
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.session.repeat import repeat_text, why_no_command
from cpugpu_tui.state.recorded_gpu import with_recorded
from cpugpu_tui.ui.app_state import SavedRunView
from cpugpu_tui.ui.live.messages import in_background
from cpugpu_tui.ui.live.saved_runs import OpenedRun, Place, SavedRuns, ago
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.shell import Shell

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary
    from cpugpu_tui.thresholds import Thresholds
    from cpugpu_tui.ui.screens.history import HistoryScreen


FOLLOW_S = 1.0
"""How often a run of another terminal is polled: one line is read, and the rest only if that line changed."""


class History:
    """Shows saved runs in place of this terminal's run; between runs only, because reading disturbs timing."""

    def __init__(self, app: Shell[Any], saved_runs: Callable[[], SavedRuns]) -> None:
        """`saved_runs` is called on threads and waits until the history is open."""
        self._app, self._saved_runs = app, saved_runs
        self._place: Place | None = None
        self._list: HistoryScreen | None = None
        """The list that was opened last."""
        self._follower: Timer | None = None
        self._following = False

    def toggle(self) -> None:
        """Open or close the list of saved runs; while a saved run is shown, return to the present one."""
        from cpugpu_tui.ui.screens.history import HistoryScreen

        app = self._app
        if isinstance(app.screen, HistoryScreen):
            app.pop_screen()
        elif app.state.past is not None:
            self.return_to_present()
        else:
            self._place = self._place or Place()
            self._list = HistoryScreen(app.state, app.glyphs, self._saved_runs, self._place)
            app.push_screen(self._list)

    # ---------------------------------------------------------------- opening

    def show(self, known: RunSummary) -> None:
        """Show a saved run in the panes."""
        self.read(known, self._put)

    def read(self, known: RunSummary, then: Callable[[OpenedRun, int], object]) -> None:
        """Read a saved run on a thread; call `then` with it and the wall time, unless a run has begun."""

        def body() -> tuple[OpenedRun, int]:
            saved = self._saved_runs()
            return saved.open(known.number), saved.now_ns()

        def opened(found: tuple[OpenedRun, int]) -> None:
            if not self._app.state.situation.live:
                then(*found)

        in_background(self._app, "past", body, opened, self.refuse)

    def _put(self, opened: OpenedRun, now_ns: int) -> None:
        """Show a saved run in the panes, or its newer version."""
        app, before = self._app, self._app.state.past
        if before is not None and before.summary.run_id != opened.summary.run_id:
            return
        first: dict[str, Any] = {}
        if before is None:
            first = {"what_if": RESIDENT, "cursor": None, "problem": None}
            app.close_pages()
            self._follower = app.set_interval(FOLLOW_S, self._follow)
        age, state = ago(opened.summary.started_wall_ns, now_ns), app.state
        app.change(
            **first, run=with_recorded(opened.run), telemetry=opened.telemetry, ceilings=opened.run.plan.ceilings,
            past=SavedRunView(opened.summary, age, state.own, before.notice if before else state.notice),
            situation=state.situation._replace(past=True, ran=True),
        )  # fmt: skip
        if before is None and isinstance(app.screen, MainScreen):
            app.screen.focus_timings()

    def refuse(self, error: CpuGpuError) -> None:
        """Show why a saved run cannot be opened or run again."""
        self._following = False
        if self._list is not None and self._list is self._app.screen:
            self._list.refuse(error)
        else:
            self._stop_following()  # it was deleted or is broken; polling would repeat the error every second
            self._app.change(problem=error)

    # ---------------------------------------------------------------- while it is shown

    def _follow(self) -> None:
        """Show what another terminal has added; of a finished run only the age changes."""
        past = self._app.state.past
        if past is None or self._following:
            return
        if not past.is_live:
            self._show_age(self._saved_runs().now_ns())
            return
        known = past.summary
        self._following = True

        def body() -> tuple[OpenedRun | None, int]:
            saved = self._saved_runs()
            return saved.advanced(known), saved.now_ns()

        in_background(self._app, "past", body, self._show_more, self.refuse)

    def _show_more(self, found: tuple[OpenedRun | None, int]) -> None:
        self._following = False
        opened, now_ns = found
        state = self._app.state
        if state.situation.live or state.past is None:
            return  # a run began or the present one came back during the read
        if opened is None:
            self._show_age(now_ns)
        else:
            self._put(opened, now_ns)

    def _show_age(self, now_ns: int) -> None:
        past = self._app.state.past
        if past is not None and past.age != (age := ago(past.summary.started_wall_ns, now_ns)):
            self._app.change(past=past._replace(age=age))

    def return_to_present(self) -> bool:
        """Show this terminal's run again; return False if it is shown already."""
        self._stop_following()
        state = self._app.state
        if state.past is None:
            return False
        own = state.own
        self._app.change(
            past=None, run=own.run, telemetry=own.telemetry, ceilings=own.ceilings,
            what_if=RESIDENT, cursor=None, problem=None,
            situation=state.situation._replace(past=False, ran=own.run.run is not None),
        )  # fmt: skip
        return True

    def _stop_following(self) -> None:
        if self._follower is not None:
            self._follower.stop()
            self._follower = None

    def leave(self) -> None:
        """Return to the panes and the present run, because something is about to run."""
        if self._list is not None and self._list is self._app.screen:
            self._app.pop_screen()
        self.return_to_present()


THRESHOLDS = Path("thresholds.json")
"""The file that the answer names, written by `cpugpu-tui thresholds make` and by the export of a search."""

SCREEN_ROOM = 240
"""Bytes in one envelope for screen, which drops sequences longer than 256."""


def envelope(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that makes tmux or screen pass `text` through; empty without them."""
    plain = f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\a"
    term = environ.get("TERM", "")
    if environ.get("TMUX") or term.startswith("tmux"):
        doubled = plain.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{doubled}\x1b\\"
    # Over ssh, tmux often also sets TERM=screen; it takes the plain form.
    if environ.get("STY") or term.startswith("screen"):
        pieces = (plain[start : start + SCREEN_ROOM] for start in range(0, len(plain), SCREEN_ROOM))
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return ""


def way(environ: Mapping[str, str]) -> str:
    """Return the condition for the text to arrive."""
    if environ.get("TMUX") or environ.get("TERM", "").startswith("tmux"):
        return "tmux and the terminal allow it"
    return "screen and the terminal allow it" if environ.get("STY") else "the terminal allows it"


class Exporting:
    """Exports the shown run; between runs only, because writing disturbs timing."""

    def __init__(self, app: Shell[Any], saved_runs: Callable[[], SavedRuns], copy: Callable[[str], object]) -> None:
        """`saved_runs` is called on threads; `copy` sends a text to the terminal's clipboard."""
        self._app, self._saved_runs, self._copy = app, saved_runs, copy

    def copy_row(self) -> None:
        """Copy the highlighted row as a Markdown table to the terminal's clipboard (OSC 52)."""
        from cpugpu_tui.export.markdown import table

        state = self._app.state
        row = state.run.rows.get(state.cursor or "")
        if row is None:
            self._app.say("No row is highlighted.")
            return
        self._copy("\n".join([*table(state.run, [row]), ""]))
        self._app.say(f"Row sent to the clipboard, if {way(os.environ)}.")

    def copy_command(self) -> None:
        """Copy the command that repeats the shown run to the terminal's clipboard."""

        started = self._app.state.run.run
        if started is not None:
            command = repeat_text(started)
            if not command:
                self._app.say(why_no_command(started))
                return
            self._copy(command)
            self._app.say(f"Copied, if {way(os.environ)}: {command}")

    def ask(self) -> None:
        """Ask for a file and write the shown run."""
        from cpugpu_tui.ui.screens.form import ExportForm

        started = self._app.state.run.run
        if started is None:
            return

        def write(path: Path | None) -> None:
            if path is not None:
                self.write(started.run_id, path)

        self._app.push_screen(ExportForm(f"{started.plan.name}-{started.run_id}.md".replace(os.sep, "_")), write)

    def write(self, run_id: str, path: Path) -> None:
        """Write a saved run in the format of the file's suffix, and show a notice."""

        def body() -> Path:
            from cpugpu_tui.export import formats, target
            from cpugpu_tui.export.stream import exported_from

            run = exported_from(self._saved_runs().store, run_id)
            name = formats.required_format_of(path)
            if name == formats.THRESHOLDS:
                from cpugpu_tui.export.thresholds import add_to

                add_to(path, run.state)
            else:
                target.write(path, formats.rendered(name, [run]))
            return path

        def written(path: Path) -> None:
            self._app.say(f"Wrote {path}")
            self.read_thresholds()

        in_background(self._app, "export", body, written, lambda error: self._app.change(problem=error))

    def read_thresholds(self, _: object = None) -> None:
        """Read the file of thresholds in the current folder, if there is one. A damaged one counts as none."""
        # A pipe would be waited for, and in a folder without permission `Path.exists` raises.
        if not os.path.isfile(THRESHOLDS) and self._app.state.thresholds is None:
            return

        def body() -> Thresholds | None:
            from cpugpu_tui.thresholds import ThresholdsError, load

            try:
                return load(THRESHOLDS, {})
            except ThresholdsError:
                return None

        def keep(found: Thresholds | None) -> None:
            self._app.change(thresholds=found)

        in_background(self._app, "thresholds", body, keep)
