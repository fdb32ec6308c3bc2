"""The compare page: differences between two series, verdicts, the choice of the other series. And the noise page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType

from cpugpu_tui.analysis.compare import FASTER, NOT_COMPARABLE, SAME, SLOWER, Judged
from cpugpu_tui.compare import series
from cpugpu_tui.compare.comparison import SeriesComparison, compare_series
from cpugpu_tui.compare.series import REPEATS, RUNS, Noise
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.render import comparison, noise
from cpugpu_tui.state.folding import measured
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui import keys
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.live.messages import NoiseWanted, in_background
from cpugpu_tui.ui.live.saved_runs import QuietReader, SavedRuns
from cpugpu_tui.ui.panes.lines import Spans, cut, fitted, spelled, wrapped
from cpugpu_tui.ui.screens.page import Page

LEAST_WITH_INTERVAL = 50
"""Cells of the narrowest table with intervals and names of workloads."""
GROUPED = 60
"""Below this width the cases of CPU and GPU are groups with a heading each, instead of a column."""
WIDE = 110
"""Columns from which both times and the number of runs are shown beside the change."""

ROLES = {FASTER: "good", SLOWER: "bad", SAME: "text", NOT_COMPARABLE: "muted"}
"""Verdict → role."""


@dataclass(frozen=True)
class Compared:
    """The comparison with one other series."""

    found: SeriesComparison | None
    problem: str
    """Why there is no comparison; cause and remedy."""
    place: int
    """Index of the other series, from 0; 0 is the previous one."""
    count: int
    """Number of other series."""


Read = Callable[[int], Compared]
"""Compares the shown run with the n-th other series, the previous one first; slow, called on a thread."""


class CompareScreen(Page):
    """Reads the series on a thread whenever one is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [("o,right", "choose(1)"), ("n,left", "choose(-1)")]

    TOPIC = "compare"

    def __init__(self, state: AppState, glyphs: Glyphs, read: Read) -> None:
        super().__init__(state, glyphs)
        self._read = read
        self._compared: Compared | None = None
        self._wanted = 0

    def on_mount(self) -> None:
        """Read the previous series."""
        self._ask(0)

    def show_state(self, state: AppState) -> None:
        """Show a newer state; read again after each pair of a duet, and at its end."""
        before, self.state = self.state, state
        if state.run.plan.is_of_two_codes and (before.repeat_number, before.situation.live) != (
            state.repeat_number, state.situation.live
        ):  # fmt: skip
            self._ask(self._wanted)
        self.redraw()

    def _ask(self, place: int) -> None:
        self._wanted = place
        in_background(self, "compare", lambda: self._read(place), self._know)

    def _know(self, compared: Compared) -> None:
        if compared.place == self._wanted or compared.count <= self._wanted:
            self._compared, self._wanted = compared, compared.place
            self.redraw()

    def action_choose(self, step: int) -> None:
        """Compare with an older or newer series."""
        if self._compared is not None and 0 <= self._wanted + step < self._compared.count:
            self._ask(self._wanted + step)

    # ---------------------------------------------------------------- drawing

    def page_title(self) -> Spans:
        """Return which series are compared."""
        compared = self._compared
        text = "reading the saved runs" if compared is None else ""
        if compared is not None and compared.found is not None:
            text = f"{comparison.series_text(compared.found.new)} vs {comparison.series_text(compared.found.base)}"
        which = f" {compared.place + 1} of {compared.count} " if compared is not None and compared.count > 1 else ""
        return (("Compare ", "title"), (which, "muted"), (spelled(f" {text}", self.glyphs), "text"))

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return differences, verdicts and summary."""
        if self._compared is None:
            return []
        if self._compared.found is None:
            return wrapped(spelled(self._compared.problem, self.glyphs), width, "warn")
        return comparison_lines(self._compared.found, width, self.glyphs)

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of this page."""
        has_others = self._compared is not None and self._compared.count > 1
        others = (("o n", "an older or newer series"),) if has_others else ()
        return (("{back}", "back"), ("j k", "scroll"), *others, ("{baseline}", "set as baseline"))


NONE_BEFORE = "{name} has only this series. Run it again to compare."


def compared(saved: SavedRuns, reader: QuietReader, run: RunState, place: int) -> Compared:
    """Compare the series of a run with the n-th other series, the previous one first."""
    started = run.run
    if started is None:
        return Compared(None, "No run is shown. Start one, or open a saved one.", 0, 0)
    count = 0
    try:
        others = series.other_series(saved.store, started.series_id, started.plan.name, simulated=run.simulated)
        count, place = len(others), min(place, max(len(others) - 1, 0))
        if not others:
            return Compared(None, NONE_BEFORE.format(name=started.plan.name), 0, 0)
        base = reader.series(*others[place])
        return Compared(compare_series(base, reader.series(started.series_id)), "", place, count)
    except CpuGpuError as error:
        return Compared(None, str(error), place, count)


def compared_pair(saved: SavedRuns, base: int, new: int) -> Compared:
    """Compare two saved runs, which may belong to one series."""
    try:
        runs = [measured(saved.store.load(saved.summary(number).run_id)) for number in (base, new)]
        before, after = (series.series_from("", [run]) for run in runs)
        return Compared(compare_series(before, after), "", 0, 1)
    except CpuGpuError as error:
        return Compared(None, str(error), 0, 0)


class PairScreen(CompareScreen):
    """Compares two marked runs of the history, which has no run in the panes to act on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.bindings([*(name for name in keys.OF_RUN if name != "compare"), "baseline"], "nothing"),
        *keys.bindings(["compare"], "app.pop_screen"),
    ]
    TOPIC = "pair"

    def action_nothing(self) -> None:
        """Do nothing: this key acts on the run in the panes."""

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of this page."""
        return (("{back}", "back to the history"), ("j k", "scroll"))


def comparison_lines(found: SeriesComparison, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a comparison in lines of at most `width` cells."""
    lines: list[Spans] = []
    for each in found.differences:
        text = f"{each.what}: {each.base} {glyphs.arrow} {each.new}"
        lines += wrapped(spelled(printable(text), glyphs), width, "warn" if each.is_hardware else "text")
    lines = lines or wrapped(comparison.NOTHING_DIFFERS, width, "muted")
    told = (wrapped(spelled(sentence, glyphs), width) for sentence in comparison.summary(found))
    return [*lines, (), *table_lines(found.shared, width, glyphs), (), *(line for each in told for line in each)]


def table_lines(judged: Sequence[Judged], width: int, glyphs: Glyphs) -> list[Spans]:
    """Return the heading and one line per case.

    Narrow terminals omit both times and the runs. Narrower ones name CPU or GPU once, above its cases, and the
    narrowest omit intervals.
    """
    omitted = {comparison.BASE, comparison.NEW, comparison.RUNS} if width < WIDE else set()
    omitted |= ({comparison.TIME} if width < GROUPED else set()) | (
        {comparison.INTERVAL} if width < LEAST_WITH_INTERVAL else set()
    )
    head = tuple(name for name in comparison.COMPARED if name not in omitted)
    names = 1 if comparison.TIME in omitted else 2
    rows = [tuple(spelled(printable(found[name]), glyphs) for name in head) for found in map(comparison.cells, judged)]
    name = judged[0].pairs[0].code or rows[0][0].partition(" ")[0] if judged else ""
    if comparison.INTERVAL in omitted and all(row[0].startswith(f"{name} ") for row in rows):
        rows = [(row[0].removeprefix(f"{name} "), *row[1:]) for row in rows]  # the size matters more
    widths = _widths((head, *rows))
    is_tight = sum(widths) + 2 * (len(widths) - 1) > width
    if is_tight:
        # The reason for missing numbers is longer than any verdict; it takes the numbers' place, so names stay whole.
        timed = [row for each, row in zip(judged, rows, strict=True) if each.change is not None]
        widths = [widths[0], *_widths((head, *timed))[1:]]
    widths[0] = max(8, min(widths[0], width - sum(widths[1:]) - 2 * (len(widths) - 1)))
    lines: list[Spans] = [((_line(head, names, widths, glyphs), "muted"),)]
    label = ""
    for each, row in zip(judged, rows, strict=True):
        if comparison.TIME in omitted and each.label != label:
            label = each.label
            lines.append(((label, "strong"),))
        texts = (*row[:names], "") if is_tight and each.change is None else (*row[:-1], "")
        texts = (_fitted_case(each, row[0], widths[0], glyphs), *texts[1:])
        line = _line(texts, names, [*widths[: len(texts) - 1], 0], glyphs)
        is_cut = len(line) + len(row[-1]) > width
        verdict = spelled(each.trouble, glyphs) if is_cut and each.trouble else row[-1]
        lines.append(fitted(((line, "text"), (verdict, ROLES.get(each.verdict, "warn"))), width, glyphs))
    return lines


def _fitted_case(each: Judged, text: str, width: int, glyphs: Glyphs) -> str:
    """Return a case's name in `width` cells with whole sizes: `100 to 10,000,000` was once cut to `100 to 1…`."""
    if len(text) <= width:
        return text
    name, *_ = text.rsplit(" ", 5 if each.is_group else 1)  # `matmul 64 to 512 (4 sizes)`, `matmul 64`
    sizes = " to ".join(dict.fromkeys(size_text(pair.size) for pair in (each.pairs[0], each.pairs[-1])))
    room = width - len(sizes) - 1
    return f"{cut(name, min(room, len(name)), glyphs)} {sizes}" if room > 0 else sizes


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _line(texts: Sequence[str], names: int, widths: Sequence[int], glyphs: Glyphs) -> str:
    """Return a table row: `names` words and the verdict left-aligned, numbers right-aligned."""
    words = [cut(cell, room, glyphs) for cell, room in zip(texts[:names], widths, strict=False)]
    numbers = [f"{cell:>{room}}" for cell, room in zip(texts[names:-1], widths[names:-1], strict=True)]
    return "  ".join([*words, *numbers, texts[-1]])


ReadNoise = Callable[[], Noise | None]
"""Returns the newest noise floor of the history, None without one; slow, called on a thread.

Raises:
    CpuGpuError: the history cannot be read.
"""


def noise_of(reader: QuietReader, simulated: bool) -> Noise | None:
    """Return the newest noise floor of the history."""
    ids = series.series_called(reader.runs(series.MOST_LOOKED_THROUGH), series.NAME, simulated=simulated)
    return series.newest(reader.series(each, "the last time" if place else "") for place, each in enumerate(ids))


EMPTY = (
    "The noise floor of this machine has not been measured yet: how much a time varies between fresh processes, and so "
    "the smallest change that a comparison finds. Press {run} to measure it (about a minute)."
)

GAP = 2


class NoiseScreen(Page):
    """Reads the history on a thread, when it opens and when a series has ended."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings(["run"], "measure")]
    TOPIC = "noise"

    def __init__(self, state: AppState, glyphs: Glyphs, read: ReadNoise) -> None:
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
        in_background(self, "noise", self._read, self._know, lambda error: self._know(None, str(error)))

    def _know(self, found: Noise | None, problem: str = "") -> None:
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
            is_own = state.run.plan.name == series.NAME
            own = f"Run {state.repeat_number} of {state.repeats} is in progress."
            return wrapped(own if is_own else "Another run is in progress. Wait until it has ended.", width, "strong")
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
    widths = _widths(rows)
    kept = list(range(len(heads)))
    for column in (3, 2, 6, 4):  # spread, median, 10 runs, 1 run
        if sum(widths[each] + GAP for each in kept) - GAP > width:
            kept.remove(column)

    def line(row: list[str]) -> str:
        return (" " * GAP).join(f"{row[each]:{'<' if each < 2 else '>'}{widths[each]}}" for each in kept)

    return [fitted(((line(row), "text" if row is not rows[0] else "muted"),), width, glyphs) for row in rows]
