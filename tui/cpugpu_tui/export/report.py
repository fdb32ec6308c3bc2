"""The HTML report: one file with SVG charts inside, which loads nothing from the network. All text is escaped."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

from cpugpu_tui.errors import UnfitError
from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.model.plain_data import to_plain
from cpugpu_tui.model.quantities import micro
from cpugpu_tui.render.columns import is_words
from cpugpu_tui.render.gpus import matrices
from cpugpu_tui.render.rows import full_table, sweep_name
from cpugpu_tui.render.sentences import heading, sentences, when
from cpugpu_tui.render.verdicts import mark_lines
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.workloads.contract import REGISTRY

TEMPLATE = "report.html.jinja"
"""File beside this module."""

CHART_INCHES = (8.0, 4.2)


def need() -> None:
    """Check that jinja2 and matplotlib are installed.

    Raises:
        UnfitError: one of them is missing.
    """
    try:
        import jinja2  # noqa: F401

        _load_matplotlib()
    except ImportError as error:
        raise UnfitError(
            f"The HTML report needs the package {error.name}, which is not installed.",
            "Install it with pip install 'cpugpu-tui[report]'.",
        ) from error


def _load_matplotlib() -> None:
    """Import matplotlib without `$MPLBACKEND`, because an unknown backend makes the import fail."""
    chosen = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib  # noqa: F401
    finally:
        if chosen is not None:
            os.environ["MPLBACKEND"] = chosen


def report(runs: Sequence[ExportedRun]) -> Iterator[bytes]:
    """Yield the HTML page.

    Raises:
        UnfitError: jinja2 or matplotlib is not installed.
    """
    need()
    import jinja2

    source = resources.files(__package__).joinpath(TEMPLATE).read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.from_string(source).render(runs=[_section(run) for run in runs])
    yield page.encode("utf-8", "replace")


def _section(run: ExportedRun) -> dict[str, Any]:
    import markupsafe

    state = run.state
    table = full_table(state, state.rows.values())
    return {
        "name": run.name,
        "run_id": run.started.run_id,
        "simulated": state.simulated,
        "heading": heading(state),
        "when": when(state),
        "sentences": sentences(state),
        "marks": mark_lines(state),
        "heads": [(head, is_words(key)) for key, head in table.headings.items()],
        "rows": [[(micro(line[key]), is_words(key)) for key in table.headings] for line in table.lines],
        "matrices": [
            (matrix.title, matrix.heads, [(row[0], row[1:]) for row in matrix.rows]) for matrix in matrices(state)
        ],
        # Not escaped: the SVG is made here, and matplotlib escapes its texts.
        "charts": [(name, markupsafe.Markup(svg)) for name, svg in _charts(state)],
        "facts": [(key, _fact(value)) for key, value in run.started.environment.items()],
        "devices": [(device.name, device.label) for device in state.devices],
    }


def _fact(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "none"
    return str(to_plain(value))


def _charts(state: RunState) -> Iterator[tuple[str, str]]:
    """Yield name and SVG of a chart for each sweep with at least two timed sizes."""
    for sweep, rows in state.sweeps.items():
        lines = latency_lines(rows)
        if any(len(line) > 1 for line in lines.values()):
            workload = REGISTRY.get(rows[0].case.workload)
            yield sweep_name(state, sweep), _svg(lines, workload.axis if workload is not None else "size")


def latency_lines(rows: Sequence[Row]) -> dict[str, list[tuple[int, float]]]:
    """Return device → (size, seconds) of valid results, by rising size."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in sorted(rows, key=lambda row: row.case.size):
        for name, times in row.times.items():
            if row.status == "ok" and times.latency_ns is not None:
                found.setdefault(name, []).append((row.case.size, times.latency_ns / 1e9))
    return found


def _svg(lines: dict[str, list[tuple[int, float]]], axis: str) -> str:
    """Return a chart with logarithmic axes."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    # Salt, missing date and default style give the same bytes for the same run. A user's style may also need missing
    # programs (text.usetex). Text is drawn as paths, so the reader needs no font.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.hashsalt": "cpugpu-tui", "svg.fonttype": "path"})
        figure = Figure(figsize=CHART_INCHES, layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        draw_latency(axes, lines, axis)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    text = drawn.getvalue()
    return text[text.index("<svg") :]


def draw_latency(axes: Any, lines: dict[str, list[tuple[int, float]]], axis: str) -> None:
    """Draw device → (size, seconds) on matplotlib's axes. Devices differ in marker, dash and colour."""
    looks = [("o-", "#1f5fa8"), ("s--", "#c0530a"), ("^:", "#4a7a1e"), ("D-.", "#7a3d8f")]
    for index, (name, line) in enumerate(lines.items()):
        style, colour = looks[index % len(looks)]
        label = "CPU" if name == "cpu" else f"GPU {name}"
        axes.plot([n for n, _ in line], [s for _, s in line], style, color=colour, markersize=4, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(axis, parse_math=False)
    axes.set_ylabel("latency, seconds")
    axes.grid(visible=True, which="major", alpha=0.3)
    for entry in axes.legend().get_texts():
        entry.set_parse_math(False)  # names of devices may contain `$`
