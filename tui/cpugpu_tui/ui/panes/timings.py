"""The timing table with its filter: one row per case, filling while samples arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from cpugpu_tui.analysis.quantities import Unit
from cpugpu_tui.runs.columns import is_beside, thread_columns
from cpugpu_tui.runs.state import RunState
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.line_field import LineField
from cpugpu_tui.ui.order import AS_RAN, Order, in_order, order_text
from cpugpu_tui.ui.panes.lines import Lines
from cpugpu_tui.ui.panes.timing_table import Column, TimingTable
from cpugpu_tui.ui.picture import Picture
from cpugpu_tui.ui.roles import rich_text

if TYPE_CHECKING:
    from cpugpu_tui.runs.changes import Changes

TITLE = "Timings"
PADDING = 2
"""Cells of padding per column."""
GPU_WIDTH = 7
"""Cells of the times of each GPU beyond the first."""
BESIDE_WIDTH = 8
"""Cells of the CPU's times with other threads."""
FEWEST_ROUNDS, LEAST_ROUNDS, MOST_ROUNDS = 5, 9, 25
"""Cells of the sparkline, which is never dropped: on 60 columns beside long times, else, and at most."""

TIERS: tuple[dict[str, int], ...] = (
    {
        rows.CASE: 16, rows.CPU: 8, rows.GPU: 8, rows.SPEEDUP: 8, rows.PLUS_MINUS: 5, rows.VERDICT: 11,
        rows.KERNEL: 9, rows.MOVED: 10, rows.LIMIT: 13, rows.WRITTEN: 10,
    },
    {
        rows.CASE: 14, rows.CPU: 8, rows.GPU: 8, rows.SPEEDUP: 8, rows.PLUS_MINUS: 5, rows.VERDICT: 11,
        rows.MOVED: 10, rows.LIMIT: 13, rows.WRITTEN: 9,
    },
    {rows.CASE: 15, rows.CPU: 8, rows.GPU: 8, rows.SPEEDUP: 8, rows.VERDICT: 11, rows.LIMIT: 13},
    {rows.CASE: 15, rows.CPU: 8, rows.GPU: 8, rows.SPEEDUP: 8, rows.PLUS_MINUS: 5, rows.VERDICT: 11},
    {rows.CASE: 15, rows.CPU: 8, rows.GPU: 8, rows.SPEEDUP: 8, rows.VERDICT: 11},
    {rows.CASE: 11, rows.CPU: 7, rows.GPU: 7, rows.SPEEDUP: 8, rows.VERDICT: 6},
)  # fmt: skip
"""Columns beside the sparkline and their widths, richest set first: for 129, 115, 86, 78, 71 and 60 cells."""

VERDICT_WIDTH, LEAST_CASE = 11, 9
"""Cells of the longest verdict, `? undecided`, and of a name that gives its cells to a long time: `ma… 9951`."""

SPREAD_WIDTH = 9
"""Cells of two spreads: `0.8, 12.1`."""
WORDS_WIDTH = 23
"""Cells of a change with the longest verdict, `+14.0% no clear change`."""

CHANGE_TIERS: tuple[dict[str, int], ...] = (
    {
        rows.CASE: 16, rows.CPU: 8, rows.GPU: 8, rows.SPEEDUP: 8, rows.PLUS_MINUS: 5, rows.VERDICT: 11,
        rows.CHANGE_CPU: WORDS_WIDTH, rows.CHANGE_GPU: WORDS_WIDTH, rows.SPREAD: SPREAD_WIDTH, rows.LIMIT: 13,
    },
    {
        rows.CASE: 14, rows.CPU: 8, rows.GPU: 8, rows.SPEEDUP: 8, rows.VERDICT: 11,
        rows.CHANGE_CPU: 15, rows.CHANGE_GPU: 15, rows.SPREAD: SPREAD_WIDTH,
    },
    {rows.CASE: 12, rows.CPU: 7, rows.GPU: 7, rows.SPEEDUP: 8, rows.VERDICT: 6, rows.CHANGE: 15},
)  # fmt: skip
"""The same where rows tell of other runs, which is more than the limit or another clock: for 155, 115 and 78."""

WITHOUT_CPU = {rows.CPU, rows.SPEEDUP, rows.PLUS_MINUS, rows.MOVED}
"""Columns of a comparison with the CPU."""

LEFT = {rows.CASE, rows.VERDICT, rows.LIMIT, rows.ROUNDS, rows.CHANGE_CPU, rows.CHANGE_GPU, rows.GPUS}
"""Columns of words; numbers are right aligned."""


def tiers_beside(told: frozenset[str]) -> tuple[dict[str, int], ...]:
    """Return the sets of columns, richest first, where rows tell of other runs: their changes, their spread or both."""
    if rows.CHANGE not in told:
        return (*({**tier, rows.SPREAD: SPREAD_WIDTH} for tier in TIERS if rows.SPREAD in told), *TIERS)
    found = [dict(tier) for tier in CHANGE_TIERS]
    if rows.SPREAD not in told:
        found[1] |= {rows.CASE: 12, rows.LIMIT: 11}  # `compute 98%` is not cut
        for tier in found:
            tier.pop(rows.SPREAD, None)
    return (*found, *TIERS)


@dataclass(frozen=True)
class Devices:
    """What of a run's devices decides the columns."""

    gpus: tuple[str, ...] = ()
    """Names of several GPUs; empty for one or none."""
    without_cpu: bool = False
    """Whether there are several and no CPU: what compares with it has no column."""


def devices_of(run: RunState) -> Devices:
    """Return what the columns of a run depend on."""
    names = tuple(gpu.name for gpu in run.gpus)
    return Devices(names, rows.gpu_only(run)) if len(names) > 1 else Devices()


def columns(
    width: int, unit: Unit, glyphs: Glyphs, threads: tuple[int, ...] = (), told: frozenset[str] = frozenset(),
    devices: Devices = Devices(), time_width: int = 0,
) -> list[Column]:  # fmt: skip
    """Return the richest set of columns that fits into `width` cells; the case column takes what is left.

    `threads` are the counts with a column of their own beside the CPU's; they stand where the poorest set leaves room.
    `told` are `CHANGE` and `SPREAD`, where there is something to tell of other runs. Several GPUs have a column each
    where the poorest set leaves room, or else a bar each in one column. `time_width` are the cells that the longest
    time takes: names give way to it, for "1,035,…" would be read as a number.
    """

    def room(tier: dict[str, int]) -> int:
        return width - sum(tier.values()) - PADDING * (len(tier) + 1)

    extra = {rows.beside_key(count): BESIDE_WIDTH for count in threads}
    if width - sum(extra.values()) - PADDING * len(extra) < sum(TIERS[-1].values()) + PADDING * 7 + LEAST_ROUNDS:
        extra = {}
    tiers = [
        _with_times({rows.CASE: tier[rows.CASE], rows.CPU: tier[rows.CPU], **extra, **tier}, time_width)
        for tier in tiers_beside(told)
    ]
    tiers = with_gpus(tiers, devices, width - LEAST_ROUNDS - PADDING)
    chosen = next((tier for tier in tiers if room(tier) >= LEAST_ROUNDS), tiers[-1])
    chosen[rows.VERDICT] += min(max(room(chosen) - LEAST_ROUNDS, 0), VERDICT_WIDTH - chosen[rows.VERDICT])
    left = room(chosen)
    # Where little is left the last cell of padding, which stands under nothing, is the sparkline's.
    sparkline = min(max(left, min(left + 1, LEAST_ROUNDS), FEWEST_ROUNDS), MOST_ROUNDS)
    widths = {**chosen, rows.ROUNDS: sparkline}
    widths[rows.CASE] += max(0, room(chosen) - sparkline)
    name = unit.name.replace("u", glyphs.micro)
    labels = {
        rows.CASE: "case", rows.CPU: f"CPU {name}", rows.GPU: f"GPU {name}", rows.SPEEDUP: "speed-up",
        rows.PLUS_MINUS: f"{glyphs.plus_minus}%", rows.VERDICT: "faster", rows.KERNEL: f"kernel {name}",
        rows.MOVED: "end to end", rows.LIMIT: "limit", rows.WRITTEN: "clock off",
        rows.CHANGE: "change CPU, GPU", rows.CHANGE_CPU: "CPU change", rows.CHANGE_GPU: "GPU change",
        rows.SPREAD: "min-max %", rows.GPUS: "GPUs",
        rows.ROUNDS: "rounds CPU, GPU" if sparkline >= 15 else "rounds",
    }  # fmt: skip
    labels |= {rows.beside_key(count): f"CPU t{count}" if count else "CPU all" for count in threads}
    if devices.gpus:
        labels |= {rows.gpu_key(gpu): f"{gpu}" for gpu in devices.gpus[1:]} | {rows.GPU: devices.gpus[0]}
        labels[rows.ROUNDS] = "rounds"
    if devices.without_cpu:
        labels |= {rows.CASE: f"case ({name})", rows.VERDICT: "state"}
    return [Column(key, labels[key], cells, "left" if key in LEFT else "right") for key, cells in widths.items()]


def with_gpus(tiers: list[dict[str, int]], devices: Devices, room: int) -> list[dict[str, int]]:
    """Return the sets of columns with those of several GPUs; `room` is that of all columns but the sparkline."""
    if not devices.gpus:
        return tiers
    if devices.without_cpu:
        tiers = [{key: cells for key, cells in tier.items() if key not in WITHOUT_CPU} for tier in tiers]
    each = {rows.gpu_key(gpu): GPU_WIDTH for gpu in devices.gpus[1:]}
    poorest = tiers[-1]
    fits = sum((*poorest.values(), *each.values())) + PADDING * (len(poorest) + len(each)) <= room
    extra = each if fits else {rows.GPUS: max(len(devices.gpus), len("GPUs"))}
    found = []
    for tier in tiers:
        keys = list(tier)
        after = keys.index(rows.GPU) + 1
        found.append({**{key: tier[key] for key in keys[:after]}, **extra, **{key: tier[key] for key in keys[after:]}})
    return found


def _with_times(tier: dict[str, int], needed: int) -> dict[str, int]:
    """Return a set of columns whose times have the cells they need, as far as names can do without them."""
    wider = {key: max(cells, needed) if rows.is_time(key) else cells for key, cells in tier.items()}
    wider[rows.CASE] = max(tier[rows.CASE] + sum(tier.values()) - sum(wider.values()), LEAST_CASE)
    return wider


class TimingsPane(Vertical):
    """Shows the rows of a run that the filter lets through."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        """Draw with these glyphs."""
        super().__init__(id=id)
        self._glyphs = glyphs
        self._run = RunState()
        self._wanted, self._order = "", AS_RAN
        self._title_said = ""
        self._changes: Changes | None = None
        self._shown: tuple[RunState, str, Order, rows.Look, Changes | None] | None = None
        """What the table shows now: run, filter, order, look, and what is told of other runs."""

    def compose(self) -> ComposeResult:
        """Yield the table; the filter comes when it is asked for."""
        table = TimingTable(id="timing-table")
        table.cursor_foreground_priority = "renderable"  # CPU and GPU keep their colours under the cursor
        yield table

    @property
    def table(self) -> TimingTable:
        """The table."""
        return self.query_one(TimingTable)

    def show_picture(self, picture: Picture) -> None:
        """Show the rows of the picture's run; cells that say the same as before are not painted."""
        before, self._run, self._order = self._run, picture.run, picture.order
        self._changes = picture.changes if picture.past is None else None
        if _run_id(before) != _run_id(picture.run):
            self.table.clear()
            self._shown = None
        self._show_rows()
        self._show_title(is_alone=picture.whole is not None)
        current = picture.run.current
        if current is not None and current.case:
            self.table.follow(current.case)

    def on_resize(self) -> None:
        """Lay the columns out for the new width."""
        self._show_rows()

    def restyle(self) -> None:
        """Colour every cell again, after the theme has changed."""
        # Reversed, as 16 colours and NO_COLOR have the cursor, each cell would be a bar of another colour.
        self.table.cursor_foreground_priority = "css" if self.app.native_ansi_color else "renderable"
        self._shown = None
        self._show_rows()

    def _show_rows(self) -> None:
        run, width = self._run, self.size.width - 1  # the scrollbar's
        if width <= 0:
            return
        unit = rows.unit_of(run.rows.values())
        devices, time_width = devices_of(run), rows.time_width(run, unit)
        laid_out = columns(width, unit, self._glyphs, thread_columns(run), self._told(), devices, time_width)
        look = rows.look_of(run, unit, self._glyphs, laid_out[-1].width, laid_out[0].width)
        now = (self._wanted, self._order, look, self._changes)
        if self._shown is not None and self._shown[0] is run and self._shown[1:] == now:
            return
        self.table.set_columns(laid_out)
        is_wide = any(column.key == rows.CHANGE_CPU and column.width >= WORDS_WIDTH for column in laid_out)
        self.table.cells_of = partial(self._cells_of, look, is_wide)
        self._fill(run, look)
        self._shown = (run, *now)
        self._show_count()

    def _told(self) -> frozenset[str]:
        """Return what there is to tell of other runs."""
        changes = self._changes
        if changes is None or changes.run_id != _run_id(self._run):
            return frozenset()
        told = {rows.CHANGE: changes.base is not None, rows.SPREAD: changes.runs > 1}
        return frozenset(key for key, is_told in told.items() if is_told)

    def _fill(self, run: RunState, look: rows.Look) -> None:
        """Bring the table's rows up to date with the run's."""
        table = self.table
        shown = in_order(run, rows.shown_keys(run, self._wanted, look.varying), self._order)
        table.keep_rows(shown)
        known = set(table.row_keys)
        before = self._shown[0].rows if self._shown is not None and self._shown[3] == look else {}
        is_told_anew = self._shown is None or self._shown[4] is not self._changes
        for key in shown:
            # Rows are immutable: the very same object has the very same cells.
            if is_told_anew or key not in known or before.get(key) is not run.rows[key]:
                table.touch(key)
        table.order(shown)

    def _cells_of(self, look: rows.Look, wide: bool, row_key: str) -> Mapping[str, Text]:
        """Return what a row of the run that is shown says."""
        run = self._run
        row = run.rows[row_key]
        cells = rows.cells(row, look, run) | rows.change_cells(self._changes, row, run, self._glyphs, wide=wide)
        return {name: rich_text(self, spans) for name, spans in cells.items()}

    def _show_title(self, *, is_alone: bool) -> None:
        """Say in the title, which every size has, what the rows are sorted by and what they are compared with."""
        title = " ".join([TITLE, order_text(self._order)]).rstrip()
        if len(self._run.gpus) > 1 and not rows.gpu_only(self._run):
            title += f"[not reverse not bold] {self._glyphs.dot} speed-up of {self._run.gpus[0].name}[/]"
        if self._changes is not None and self._changes.run_id == _run_id(self._run):
            from cpugpu_tui.ui.change_cells import title_parts

            parts = title_parts(self._changes, self._run, alone=is_alone)
            said = escape("".join(f" {self._glyphs.dot} {part}" for part in parts))
            title += f"[not reverse not bold]{said}[/]" if said else ""
        # A title that is set is painted with the whole pane, though it says the same.
        if self._title_said != title:
            self._title_said = self.border_title = title

    # ---------------------------------------------------------------- filter

    @property
    def filtering(self) -> bool:
        """Whether the filter is open."""
        return bool(self.query("#filter-line"))

    async def open_filter(self) -> None:
        """Show the filter and let the person type."""
        if not self.filtering:
            sign = Lines(id="filter-sign")
            sign.show([(("/", "key"),)])
            hint = "a name, a size, a verdict; enter keeps, esc shows all"
            field = LineField(placeholder=hint, id="filter", select_on_focus=False)
            await self.mount(Horizontal(sign, field, Lines(id="filter-count"), id="filter-line"))
        self.query_one("#filter").focus()

    def close_filter(self) -> None:
        """Show all rows again."""
        self.table.focus()
        self.query("#filter-line").remove()
        self._narrow("")

    @on(Input.Changed, "#filter")
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._narrow(event.value)

    @on(Input.Submitted, "#filter")
    def _kept(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self.table.focus()
        else:
            self.close_filter()

    def _narrow(self, wanted: str) -> None:
        self._wanted = wanted
        self._show_rows()

    def _show_count(self) -> None:
        """Say beside the filter, which every size has, how many rows it lets through: an empty table seems broken."""
        for count in self.query("#filter-count").results(Lines):
            total = sum(not is_beside(self._run, row) for row in self._run.rows.values())
            said = f"{len(self.table.row_keys)} of {total} rows"
            count.show([((said, "muted"),)] if self._wanted.strip() else [()])


def _run_id(run: RunState) -> str:
    return run.run.run_id if run.run is not None else ""
