"""The main screen: workload, timings or welcome, answer, telemetry; `app.tcss` and `layouts.tcss` lay them out."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Region, Size
from textual.messages import Update
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import ASCII, Glyphs
from cpugpu_tui.ui.panes.answer import AnswerPane, shows_survey
from cpugpu_tui.ui.panes.lines import Lines, Spans, StatePane, respelled, spelled, wrapped
from cpugpu_tui.ui.panes.status import KeysPane, StatusPane
from cpugpu_tui.ui.panes.telemetry import TelemetryPane
from cpugpu_tui.workloads.presets import PRESETS

if TYPE_CHECKING:
    from cpugpu_tui.ui.panes.timings_pane import TimingsPane
    from cpugpu_tui.ui.panes.workload import WorkloadPane


NAME_CELLS = 13
"""Cells of the longest name of a publication's preset, and a space."""

ROWS = "For each size the table shows CPU time, GPU time and speedup. The answer appears below it."
CLAIMS = "These workloads repeat experiments of five publications ({claims} lists their claims):"
BESIDE = "No NVIDIA GPU was found. Press {beside} to time this CPU and set it beside an H100 server's recorded times."
DEMO = "To watch a recorded run, press {quit} and start `cpugpu-tui demo` (90 s)."
WITHOUT_GPU = f"{{run}} times the CPU alone. {DEMO}"
WITHOUT_TORCH = f"Nothing can be timed without torch. {DEMO}"


class WelcomePane(StatePane):
    """Takes the place of the timings until the first run."""

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the lines; those about the publications, then those about the table only where all of them fit."""
        lines = welcome_lines(state, size.width)
        if len(lines) > size.height:
            lines = lines[: lines.index(())]
        if len(lines) > size.height:
            lines = [line for line in lines if line[0][1] != "muted"]
        return respelled(lines, self.glyphs)


def is_first(state: AppState) -> bool:
    """Whether there are no rows to show: nothing has run, and nothing is starting."""
    situation = state.situation
    return not (situation.ran or situation.live or situation.replay or situation.past)


def welcome_lines(state: AppState, width: int) -> list[Spans]:
    """Return what the run key or, without a GPU, the one beside it does, what the table shows, and claims."""
    with_keys = state.keymap.with_keys
    if state.environment and state.environment.get("torch") is None and not state.simulated:
        lines = wrapped(with_keys(WITHOUT_TORCH), width, "strong")
    elif lacks_gpu(state):
        lines = [*wrapped(with_keys(BESIDE), width, "strong"), *wrapped(with_keys(WITHOUT_GPU), width, "warn")]
    else:
        lines = wrapped(with_keys(first_sentence(state)), width, "strong")
    lines += wrapped(ROWS, width, "muted")
    lines += [(), *wrapped(with_keys(CLAIMS), width)]
    for name, claim in claims():
        lines.append(((f" {name:<{NAME_CELLS}}", "key"), (whole_clauses(claim, width - NAME_CELLS - 1), "text")))
    return lines


def first_sentence(state: AppState) -> str:
    """Return what the run key will do."""
    name = "+".join(state.request.names)
    if name in PRESETS and PRESETS[name].is_search:
        return "Press {run} to find the size at which the GPU starts to win."
    return f"Press {{run}} to run {name} on CPU and GPU."


def lacks_gpu(state: AppState) -> bool:
    """Whether telemetry has arrived and shows no GPU."""
    latest = state.telemetry.latest
    return not state.simulated and latest is not None and not latest.gpus


def claims() -> list[tuple[str, str]]:
    """Return one preset of each publication with its claim: `P1: …`."""
    found: dict[str, tuple[str, str]] = {}
    for preset in PRESETS.values():
        if re.match(r"P\d: ", preset.claim):
            found.setdefault(preset.claim[:2], (preset.name, preset.claim))
    return list(found.values())


def whole_clauses(text: str, width: int) -> str:
    """Return the whole clauses of a claim that fit into one line."""
    while len(text) > width and "; " in text:
        text = text.rpartition("; ")[0]
    return text if len(text) <= width else textwrap.shorten(text, max(width, 10), placeholder=" …")


LEAST_SIZE = (40, 12)
"""Smallest useful terminal, in columns and rows."""
LEAST_WORKLOAD = 6
"""Lines of the workload pane above the table, with its border."""
PANES = ("workload", "timings", "telemetry")
"""Panes that can be focused and zoomed."""


def first_line(crop: Region) -> Region:
    """Return the first line of a region, as high as nothing if that is empty."""
    return Region(crop.x, 0, crop.width, min(crop.height, 1))


class Ground(Vertical):
    """Holds panes, on a plain ground: all of its lines are the first one. Most lines of a first frame are such."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines of a region."""
        return super().render_lines(first_line(crop)) * crop.height


class MainScreen(Screen[None]):
    """Three panes, a status line, an answer, a footer."""

    AUTO_FOCUS = ""

    def __init__(self, state: AppState, glyphs: Glyphs, classes: str = "") -> None:
        super().__init__(classes=classes)
        self._state, self._glyphs = state, glyphs
        self._framed_s: float | None = None
        """When the first frame was painted, by the clock of messages."""
        self._zoomed: str | None = None
        self._panes: tuple[StatePane, ...] = ()
        self._timings: TimingsPane | None = None
        self.workload: WorkloadPane | None = None
        """Like the timings None until the first frame is painted, which shows an empty pane instead."""
        self.set_class(glyphs is ASCII, "-ascii")

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines of a region, which are all the same: panes lie on them."""
        return super().render_lines(first_line(crop)) * crop.height

    def compose(self) -> ComposeResult:
        """Yield the panes in reading order."""
        glyphs, state = self._glyphs, self._state
        status, telemetry = StatusPane(glyphs, state, id="status"), TelemetryPane(glyphs, state, id="telemetry")
        welcome, answer = WelcomePane(glyphs, state, id="welcome"), AnswerPane(glyphs, state, id="answer")
        keys = KeysPane(glyphs, state, id="keys")
        self._panes = (status, welcome, answer, telemetry, keys)
        yield status
        with Ground(id="body"):
            yield Ground(id="workload")
            with Ground(id="centre"):
                yield welcome
                yield answer
            yield telemetry
        yield keys
        yield Lines(id="too-small")

    def on_update(self, message: Update) -> None:
        """Ignore what was to be painted before the first frame, which has painted everything."""
        if self._framed_s is None or message.time < self._framed_s:
            message.stop().prevent_default()

    def on_mount(self) -> None:
        """Set the titles."""
        self.query_one("#workload").border_title = "Workload"
        self.query_one("#telemetry").border_title = "Telemetry"
        self.query_one("#welcome").border_title = "First run"
        self._show_welcome(self._state)
        self.query_one("#telemetry").can_focus = True
        # The lines of the panes below are known only after a layout. Without this, a replay that ended on a loaded
        # machine hid the end of its answer.
        self.screen_layout_refresh_signal.subscribe(self, lambda _: self._share_lines())

    def frame_painted(self) -> None:
        """Note the time of the first frame."""
        self._framed_s = Update(self).time

    async def add_list(self) -> None:
        """Add the list of workloads after the first frame; its rest waits for `add_table`."""
        from cpugpu_tui.ui.panes.workload import WorkloadPane

        workload = WorkloadPane(self._glyphs, self._state, id="workload")
        workload.border_title = "Workload"
        with self.app.batch_update():
            await self.query_one("#workload").remove()
            await self.query_one("#body").mount(workload, before="#centre")
            await workload.fill()
        self.workload = workload

    async def add_table(self) -> None:
        """Add the table of timings, and the rest of the list of workloads."""
        from cpugpu_tui.ui.panes.timings_pane import TimingsPane

        pane = TimingsPane(self._glyphs, self._state, id="timings")
        pane.display = False
        await self.query_one("#centre").mount(pane, before="#welcome")
        self._timings = pane
        pane.restyle()  # the theme was put on before
        if self.workload is not None:
            self.workload.complete()
        self.show_state(self._state)
        if self._state.situation.live:  # begun by an early key
            self.focus_timings()

    def on_resize(self) -> None:
        """Update the message for a terminal that is too small."""
        self._show_too_small()

    def _show_too_small(self) -> None:
        width, height = self.size
        columns, rows = LEAST_SIZE
        continues = " The run continues meanwhile." if self._state.situation.live else ""
        text = f"Needs {columns}x{rows}, this is {width}x{height}.{continues}"
        self.query_one("#too-small", Lines).show([((line, "warn"),) for line in textwrap.wrap(text, max(width, 1))])

    # ---------------------------------------------------------------- content

    def show_state(self, state: AppState) -> None:
        """Show a state in all panes; each repaints only changed lines."""
        self._state = state
        self._show_welcome(state)
        self._show_too_small()
        self.query_one("#centre").set_class(shows_survey(state), "-survey")
        title = f"Telemetry of run {state.past.summary.number}" if state.past is not None else "Telemetry"
        if state.situation.demo:
            # Brackets in a title are markup.
            title = spelled(f"{title} · {state.replay_of}".replace("[", "("), self._glyphs)
        telemetry = self.query_one("#telemetry")
        # Setting a title repaints the whole pane, even if the text is the same.
        if telemetry.border_title != title:
            telemetry.border_title = title
        for pane in self._panes:
            pane.show_state(state)
        if self._timings is not None:
            self._timings.show_state(state)
        if self.workload is not None:
            self.workload.show_state(state)
        self._share_lines()  # more rows change no layout

    def _share_lines(self) -> None:
        """Give the workload pane the lines that the table, or the welcome in its place, does not need."""
        workload, timings = self.workload, self._timings
        if workload is None or timings is None:
            return
        if not self.has_class("-tall") or not self.has_class("-normal") or self._zoomed:
            if workload.styles.clear_rule("height"):
                workload.refresh(layout=True)  # clearing a rule does not ask for it
            return
        centre, answer = self.query_one("#centre").outer_size.height, self.query_one("#answer").outer_size.height
        if not centre:  # not laid out yet
            return
        border = workload.outer_size.height - workload.size.height  # also that of the pane below
        if timings.display:
            wanted = timings.wanted_lines
        else:
            # All of its lines, not the drawn ones: those depend on its height, which is decided here.
            wanted = len(welcome_lines(self._state, self.query_one(WelcomePane).size.width))
        spare = workload.outer_size.height + centre - answer - wanted - border
        workload.styles.height = max(LEAST_WORKLOAD, min(spare, workload.options.option_count + border))

    def _show_welcome(self, state: AppState) -> None:
        """Show the welcome instead of a table without rows."""
        # Not by a CSS class: the table must be focusable at once when the next key shows it.
        self.query_one("#welcome").display = is_first(state)
        if self._timings is not None:
            self._timings.display = not is_first(state)

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    @on(events.ScreenSuspend)
    @on(events.ScreenResume)
    def _show_keys(self) -> None:
        """Show the keys that work with the focus; none while a box takes them."""
        if self.is_mounted:
            self.query_one(KeysPane).show_state(self._state)

    def show_status(self, state: AppState) -> None:
        """Show a state in the status line alone."""
        self.query_one(StatusPane).show_state(state)

    # ---------------------------------------------------------------- focus and zoom

    def focus_timings(self) -> None:
        """Put the focus on the rows."""
        if self._timings is not None:
            self._timings.table.focus()

    def cursor_at(self, row_key: str) -> str | None:
        """Return the row under the cursor once the run has come to a row, to which the cursor may follow it."""
        return self._timings.table.after_following(row_key) if self._timings is not None else None

    def move_cursor(self, step: int) -> None:
        """Highlight the next row, or with a negative step the previous one."""
        if self._timings is not None:
            table = self._timings.table
            (table.action_cursor_down if step > 0 else table.action_cursor_up)()

    async def open_filter(self) -> None:
        """Show the filter of the rows."""
        if self._timings is not None:
            await self._timings.open_filter()

    def restyle(self) -> None:
        """Colour the rows again, after the theme has changed."""
        if self._timings is not None:
            self._timings.restyle()

    @property
    def focused_pane(self) -> str:
        """Id of the pane with the focus."""
        widget: Widget | None = self.focused
        for node in widget.ancestors_with_self if widget is not None else ():
            if node.id in PANES:
                return str(node.id)
        return "timings"

    @property
    def wants_gpu_page(self) -> bool:
        """Whether zooming opens the page of one GPU."""
        return self._zoomed is None and self.focused_pane == "telemetry"

    def zoom(self) -> None:
        """Give the pane with the focus the whole screen, or take it back."""
        self._set_zoom(None if self._zoomed else self.focused_pane)

    def close_one(self) -> bool:
        """Close the filter or the zoom; return False if neither is open."""
        if self._timings is not None and self._timings.filtering:
            self._timings.close_filter()
        elif self._zoomed:
            self._set_zoom(None)
        else:
            return False
        return True

    def _set_zoom(self, pane: str | None) -> None:
        self._zoomed = pane
        self.set_class(pane is not None, "-zoomed")
        for name in PANES:
            self.query(f"#{name}").set_class(name == pane, "-zoom")
        self.query_one("#centre").set_class(pane == "timings", "-zoom")
        self._share_lines()
        self._show_keys()
