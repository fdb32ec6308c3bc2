"""Text of the fixed runs in every face: one golden file each in `tests/golden`."""

import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout

from tests.helpers.runs.golden_runs import RUNS, events_of, fleet, fleet_gate, series, state_of

from cpugpu_tui.cli.fleet.running import print_fleet
from cpugpu_tui.cli.output.gate_report import fleet_markdown, markdown, print_report
from cpugpu_tui.cli.output.tables import print_state, show_comparison
from cpugpu_tui.cli.running.gate import LIMITS
from cpugpu_tui.compare.comparison import SeriesComparison, compare_series
from cpugpu_tui.compare.gate import gate_series
from cpugpu_tui.compare.series import Series
from cpugpu_tui.export import formats
from cpugpu_tui.export.stream import exported
from cpugpu_tui.render.columns import Key
from cpugpu_tui.render.fleet import fleet_rows
from cpugpu_tui.render.rows import thread_columns
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import ASCII, UNICODE, Glyphs
from cpugpu_tui.ui.keys import DEFAULT_KEYMAP
from cpugpu_tui.ui.panes.answer import pane_lines
from cpugpu_tui.ui.panes.lines import Spans
from cpugpu_tui.ui.panes.lines import plain as plain_text
from cpugpu_tui.ui.panes.timing_columns import columns, shape_of
from cpugpu_tui.ui.rows import FASTER_THAN_PEAK, legend, signs_of
from cpugpu_tui.ui.screens import fleet as fleet_lines
from cpugpu_tui.ui.screens.compare import comparison_lines
from cpugpu_tui.ui.screens.detail import detail_lines

WIDTHS = (80, 120, 200)
"""Cells of the terminals whose live table is shown."""


def printed(show: Callable[[], None]) -> str:
    """Return what `show` prints into a pipe."""
    pipe = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(pipe):
        show()
    pipe.seek(0)
    return pipe.read()


def of_each_run(show: Callable[[str], str]) -> str:
    return "\n".join(f"==== {name}\n\n{show(name).rstrip()}\n" for name in RUNS)


def told(lines: Iterable[Spans]) -> Iterator[str]:
    return (plain_text(line) for line in lines)


def terminal() -> str:
    return of_each_run(lambda name: printed(lambda: print_state(state_of(name), "A notice.")))


def export_of(name: str, run: str) -> str:
    return b"".join(formats.rendered(name, [exported(events_of(run))])).decode()


def report() -> str:
    """The words of the HTML report, without its style and charts."""

    def words(run: str) -> str:
        text = re.sub(r"(?s)<(style|svg)\b.*?</\1>", "", export_of("html", run))
        cells = re.sub(r"</t[dh]>\s*<t[dh][^>]*>", " | ", text)
        return re.sub(r"\s*\n\s*", "\n", re.sub(r"<[^>]+>", "", cells)).strip()

    return of_each_run(words)


def table_of(run: RunState, width: int, glyphs: Glyphs) -> Iterator[str]:
    laid_out = columns(width, thread_columns(run), frozenset(), shape_of(run, glyphs))
    look = rows.look_of(run, glyphs, laid_out[-1].width, laid_out[0].width)
    yield "  ".join(f"{column.label:{'<' if column.justify == 'left' else '>'}{column.width}}" for column in laid_out)
    for key in rows.shown_keys(run, "", look.varying):
        cells = rows.cells(run.rows[key], look, run)
        texts = ((plain_text(cells[column.key]), column) for column in laid_out)
        yield "  ".join(f"{text:{'<' if c.justify == 'left' else '>'}{c.width}}" for text, c in texts)
    signs = frozenset[str]().union(*(signs_of(run, row) for row in run.rows.values()))
    signs -= frozenset() if any(column.key == Key.WRITTEN for column in laid_out) else {FASTER_THAN_PEAK}
    yield plain_text(legend(signs, 200, DEFAULT_KEYMAP))


def app() -> str:
    def shown(name: str) -> str:
        run = state_of(name)
        parts = [list(table_of(run, width, ASCII if width == 80 else UNICODE)) for width in WIDTHS]
        parts.append(list(told(pane_lines(AppState(run=run), 120, 3, 12, UNICODE))))
        detailed = list(run.rows.values())[0 if name == "odd" else -1 :]
        parts += [[f"-- {row.case.key}", *told(detail_lines(row, run, 120, UNICODE))] for row in detailed]
        return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts)

    return of_each_run(shown)


def fleet_faces() -> str:
    state = fleet()
    all_rows, width = fleet_rows(state), 140
    names = fleet_lines.name_width(state, width)
    lines = [fleet_lines.host_heads(state, width)]
    lines += [fleet_lines.host_line(each, names, width, UNICODE, chosen=False) for each in state.hosts.values()]
    lines.append(fleet_lines.case_heads(names, width))
    lines += [fleet_lines.case_line(row, names, width, UNICODE) for row in all_rows]
    facts = [line for each in state.hosts.values() for line in (*fleet_lines.host_facts(each, (), width, UNICODE), ())]
    shown = "\n".join(line.rstrip() for line in told([*lines, (), *facts]))
    return "\n".join((printed(lambda: print_fleet(state)), shown, fleet_markdown(fleet_gate()).decode()))


def compared(base: Series, new: Series) -> str:
    found: SeriesComparison = compare_series(base, new)
    judged = gate_series(base, new, LIMITS)
    shown = "\n".join(line.rstrip() for line in told(comparison_lines(found, 120, UNICODE)))
    prints = printed(lambda: show_comparison(found)), printed(lambda: print_report(judged, as_json=False))
    return "\n".join((*prints, markdown(judged).decode(), shown))


def comparisons() -> str:
    base = series("base", 1)
    others = {
        "slower": series("slow", 60, gpu_ns_per_flop=0.0006),
        "the same": series("same", 30),
        "too few": series("few", 40, 2),
    }
    return "\n".join(f"==== {name}\n\n{compared(base, new).rstrip()}\n" for name, new in others.items())


FACES: dict[str, Callable[[], str]] = {
    "terminal": terminal,
    "markdown": lambda: of_each_run(lambda name: export_of("markdown", name)),
    "csv": lambda: export_of("csv", "odd"),
    "report": report,
    "app": app,
    "fleet": fleet_faces,
    "comparisons": comparisons,
}
