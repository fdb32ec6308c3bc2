"""A list of saved runs that fills while it is read, and the lines of its visible runs."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.worker import get_current_worker

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model.quantities import counted, duration
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.live.saved_runs import RUNNING, SavedRuns, ago
from cpugpu_tui.ui.panes.fields import TypingLine
from cpugpu_tui.ui.panes.lines import Spans, cut, spelled, wrapped
from cpugpu_tui.ui.panes.status import replay_tag, status_sign
from cpugpu_tui.ui.panes.telemetry.wording import stranger
from cpugpu_tui.ui.screens.page import ListPage

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary

NUMBER, STATUS, CASES, TOOK = 5, 13, 7, 7
"""Cells of the columns with a fixed width."""
AGE, DATE = 10, 16
"""Cells of `59 min ago` and of `2026-01-31 14:05`."""
DATE_WIDTH = 100
"""Columns from which dates are shown instead of ages."""


@dataclass(frozen=True)
class Widths:
    """Cells of the columns at one width of the terminal."""

    gap: str
    """Between two columns."""
    when: int
    what: int
    devices: int
    """The rest of the line; tags come before the devices."""

    @classmethod
    def of(cls, width: int) -> Widths:
        """Return the columns for a line of `width` cells."""
        when, gap = (DATE, "  ") if width >= DATE_WIDTH else (AGE, " ")
        left = max(width - 2 - NUMBER - when - STATUS - CASES - TOOK - 6 * len(gap), 12)
        what = min(left // 2, 24)
        return cls(gap, when, what, left - what)


def heads(width: int) -> Spans:
    """Return the headings."""
    widths = Widths.of(width)
    cells = (
        f"{'run':>{NUMBER}}", f"{'started':<{widths.when}}", f"{'what':<{widths.what}}", f"{'end':<{STATUS}}",
        f"{'cases':>{CASES}}", f"{'took':>{TOOK}}", f"{'tags, devices':<{widths.devices}}",
    )  # fmt: skip
    return ((f"  {widths.gap.join(cells)}"[:width], "muted"),)


def run_line(run: RunSummary, width: int, glyphs: Glyphs, now_ns: int, *, chosen: bool) -> Spans:
    """Return a run in one line of the list."""
    widths = Widths.of(width)
    pad = widths.gap
    sign, role = status_sign(run.status, glyphs)
    failed = run.cases_failed > 0
    total = run.cases_ok + run.cases_failed + run.cases_skipped
    cases = str(run.cases_ok) if run.cases_ok == total else f"{run.cases_ok}/{total}"
    took = glyphs.none if run.duration_ns is None else duration(run.duration_ns / 1e9)
    devices = cut(f"{_tags_text(run, glyphs)} {_short_devices(run, glyphs)}".strip(), widths.devices, glyphs)
    what = cut(named(run.name, glyphs), widths.what, glyphs)
    parts: list[tuple[str, str]] = [
        (f"{glyphs.cursor if chosen else ' '} {run.number:>{NUMBER}}{pad}", "text"),
        (f"{_when(run, width, now_ns):<{widths.when}}{pad}", "muted"),
        (f"{what}{pad}", "text"),
        (f"{f'{sign} {run.status}':<{STATUS}}{pad}", role),
        (f"{cases:>{CASES}}{pad}", "warn" if failed else "text"),
        (f"{took:>{TOOK}}{pad}", "text"),
        (devices, "muted"),
    ]
    return (("".join(text for text, _ in parts), "chosen"),) if chosen else tuple(parts)


def about(run: RunSummary, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return two lines about a run with the facts that its line has no room for."""
    started = datetime.fromtimestamp(run.started_wall_ns / 1e9)
    elsewhere = "" if run.hostname == socket.gethostname() else f" on {named(run.hostname, glyphs)}"
    simulated = f" {glyphs.dot} SIMULATED" if run.simulated else ""
    parts = [f"run {run.number}", named(run.run_id, glyphs), f"{started:%Y-%m-%d %H:%M:%S}{elsewhere}"]
    first = f" {glyphs.dot} ".join(parts)
    cases = ", ".join(
        f"{count} {word}"
        for count, word in ((run.cases_ok, "ok"), (run.cases_failed, "failed"), (run.cases_skipped, "skipped"))
        if count or word == "ok"
    )
    parts = [cases, *(named(device, glyphs) for device in counted(run.devices)), _tags_text(run, glyphs)]
    second = f" {glyphs.dot} ".join(part for part in parts if part)
    return [*wrapped(first + simulated, width, lines=1), *wrapped(second, width, "muted", lines=1)]


def haystack(run: RunSummary) -> str:
    """Return the text that a filter searches, in lower case."""
    started = datetime.fromtimestamp(run.started_wall_ns / 1e9)
    words = [
        str(run.number), run.run_id, run.name, run.status, run.hostname, f"{started:%Y-%m-%d}", *run.devices,
        *(f"#{tag}" for tag in run.tags), *(f"baseline {name}" for name in run.baselines),
        "simulated" if run.simulated else "",
    ]  # fmt: skip
    return " ".join(words).lower()


def matching(runs: Sequence[RunSummary], haystacks: Mapping[int, str], wanted: str) -> list[RunSummary]:
    """Return the runs whose text has every word, ignoring case; `haystacks` maps run number → text."""
    words = wanted.lower().split()
    return [run for run in runs if all(word in haystacks[run.number] for word in words)]


def with_baseline(runs: Sequence[RunSummary], name: str, series_id: str) -> list[RunSummary]:
    """Return the runs that change when series `series_id` becomes baseline `name`, with the change."""
    changed = []
    for run in runs:
        others = {each for each in run.baselines if each != name}
        baselines = tuple(sorted(others | {name} if run.series_id == series_id else others))
        if baselines != run.baselines:
            changed.append(replace(run, baselines=baselines))
    return changed


def named(text: str, glyphs: Glyphs) -> str:
    """Return a name from the database, which may not be trusted, as this terminal can show it."""
    return stranger(spelled(text, glyphs), 200, glyphs)


def _when(run: RunSummary, width: int, now_ns: int) -> str:
    if width >= DATE_WIDTH:
        return f"{datetime.fromtimestamp(run.started_wall_ns / 1e9):%Y-%m-%d %H:%M}"
    return ago(run.started_wall_ns, now_ns)


def _tags_text(run: RunSummary, glyphs: Glyphs) -> str:
    """Return a run's baselines and tags."""
    baselines = (f"baseline {named(name, glyphs)}" for name in run.baselines)
    return " ".join((*baselines, *(f"#{named(tag, glyphs)}" for tag in run.tags)))


def _short_devices(run: RunSummary, glyphs: Glyphs) -> str:
    """Return the devices, GPUs first, because all runs of a machine share its CPU."""
    if run.simulated:
        return "SIMULATED"
    names = counted(named(device, glyphs).removeprefix("NVIDIA ") for device in reversed(run.devices))
    return f" {glyphs.dot} ".join(names)


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


class RunList(ListPage):
    """Reads on threads."""

    class Read(Message):
        """Runs were read or have changed."""

        def __init__(
            self, runs: Sequence[RunSummary], *, is_last: bool = False, gone: int | None = None, notice: str = "",
            done: str = "",
        ) -> None:  # fmt: skip
            """Runs to add; `is_last` marks the final page, `gone` is the number of a deleted run.

            `notice` says why nothing can be changed, `done` what was done.
            """
            super().__init__()
            self.runs, self.is_last, self.gone, self.notice, self.done = tuple(runs), is_last, gone, notice, done
            # Built here, on a thread: for 10,000 runs it takes 0.3 s, which would delay the first letter of a filter.
            self.haystacks = {run.number: haystack(run) for run in runs}

    @dataclass
    class Failed(Message):
        """The store reported an error."""

        error: CpuGpuError

    def __init__(self, state: AppState, glyphs: Glyphs, saved: Callable[[], SavedRuns], place: Place) -> None:
        """Start at `place`; `saved` is called on threads and waits until the history is open."""
        super().__init__(state, glyphs)
        self._saved, self._place = saved, place
        self._runs: dict[int, RunSummary] = {}
        self._haystacks: dict[int, str] = {}
        self._shown: list[RunSummary] = []
        self._whole = self._looking = False
        self._said: tuple[str, str] = ("", "muted")
        """Notice of the last key press, and its role."""
        self._now_ns: Callable[[], int] | None = None

    # ---------------------------------------------------------------- reading

    def compose(self) -> ComposeResult:
        """Yield title, list, the run under the cursor, the line for typing and the keys."""
        *above, keys = super().compose()
        yield from above
        yield TypingLine()
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
                self.post_message(self.Read(page, notice=saved.notice))
            self.post_message(self.Read((), is_last=True, notice=saved.notice))
        except CpuGpuError as error:
            self.post_message(self.Failed(error))

    def _look_again(self) -> None:
        """Read the first page again while a run on it is live."""
        if self._whole and not self._looking and any(run.status == RUNNING for run in self._runs.values()):
            self._looking = True
            self._do(lambda saved: self.Read(saved.newest()))

    def _do(self, wish: Callable[[SavedRuns], Message]) -> None:
        """Call `wish` with the store on a thread and post its message."""

        def body() -> None:
            try:
                self.post_message(wish(self._saved()))
            except CpuGpuError as error:
                self.post_message(self.Failed(error))

        self.run_worker(body, thread=True, exit_on_error=False, group="history-wish")

    @on(Read)
    def _know(self, message: Read) -> None:
        message.stop()
        self._runs |= {run.number: run for run in message.runs}
        self._haystacks |= message.haystacks
        if message.gone is not None:
            self._runs.pop(message.gone, None)
        if message.done:
            self._said = (message.done, "text")
        if message.notice:
            self._said = (message.notice, "warn")
        self._whole = self._whole or message.is_last
        self._looking = False
        self._narrow()

    @on(Failed)
    def _refuse(self, message: Failed) -> None:
        message.stop()
        self._whole, self._looking = True, False
        self._said = (f"{message.error.title}: {message.error}", "bad")
        self.redraw()

    # ---------------------------------------------------------------- drawing

    @property
    def chosen(self) -> RunSummary | None:
        """The run under the cursor; None in an empty list."""
        return self._shown[self.index] if self._shown else None

    def page_title(self) -> Spans:
        """Return how many runs exist and how many are shown."""
        count = f"{len(self._runs):,} run{'' if len(self._runs) == 1 else 's'}"
        if not self._whole:
            count = f"reading, {count} so far" if self._runs else "reading"
        narrowed = f"  {len(self._shown):,} shown" if self._place.wanted.strip() else ""
        where = f"  {self.index + 1:,} of {len(self._shown):,}" if len(self._shown) > self.height else ""
        return (*replay_tag(self.state), ("History  ", "title"), (f"{count}{narrowed}", "text"), (where, "muted"))

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
        now_ns = self._now_ns() if self._now_ns is not None else 0
        return run_line(self._shown[index], width, self.glyphs, now_ns, chosen=chosen)

    def about_lines(self, width: int) -> list[Spans]:
        """Return the facts of the run under the cursor, and the notice of the last key press."""
        facts = about(self.chosen, width, self.glyphs) if self.chosen is not None else []
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
        """Show the runs that match the filter; the cursor stays on its run."""
        newest_first = [self._runs[number] for number in sorted(self._runs, reverse=True)]
        self._shown = matching(newest_first, self._haystacks, self._place.wanted)
        wanted = self._place.number
        places = {run.number: index for index, run in enumerate(self._shown)} if wanted is not None else {}
        self.index = places.get(wanted or 0, min(self.index, max(len(self._shown) - 1, 0)))
        self.redraw()
