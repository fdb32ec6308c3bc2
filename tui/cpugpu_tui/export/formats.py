"""Export formats, by name and by suffix of the file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path

from cpugpu_tui.errors import UsageError
from cpugpu_tui.export.stream import ExportedRun, ndjson

SUFFIXES = {
    "json": ".json", "ndjson": ".ndjson", "csv": ".csv", "markdown": ".md", "html": ".html", "svg": ".svg",
    "png": ".png",
}  # fmt: skip
"""Formats written to one file, with its suffix."""

PICTURES = ("svg", "png")
"""Formats that hold only the charts."""

TENSORBOARD = "tensorboard"
"""The format written to a folder."""

THRESHOLDS = "thresholds"
"""The format of a file whose name ends in `thresholds.json`: the crossovers alone, for programs."""

FORMATS = (*SUFFIXES, TENSORBOARD)

_BY_SUFFIX = {
    **{suffix: name for name, suffix in SUFFIXES.items()}, ".jsonl": "ndjson", ".markdown": "markdown", ".htm": "html",
}  # fmt: skip


def checked(name: str) -> str:
    """Return the full name of a format; a suffix like `md` is accepted too.

    Raises:
        UsageError: the format is unknown.
    """
    known = name.lower()
    known = _BY_SUFFIX.get(f".{known}", known)
    if known not in FORMATS:
        raise UsageError(f"Unknown format {name!r}.", f"Use one of: {', '.join(FORMATS)}.")
    return known


def required_format_of(path: Path) -> str:
    """Return the format by the suffix of a file.

    Raises:
        UsageError: the suffix is unknown.
    """
    is_thresholds = path.name.lower().endswith("thresholds.json")
    found = THRESHOLDS if is_thresholds else _BY_SUFFIX.get(path.suffix.lower())
    if found is None:
        *most, last = SUFFIXES.values()
        raise UsageError(f"Unknown format of {path}.", f"Use a name that ends in {', '.join(most)} or {last}.")
    return found


def need(name: str) -> None:
    """Check that the packages of a format are installed.

    Raises:
        UnfitError: a package is missing.
    """
    if name == "html":
        from cpugpu_tui.export import report

        report.need()
    elif name in PICTURES:
        from cpugpu_tui.export import chart

        chart.need()
    elif name == TENSORBOARD:
        from cpugpu_tui.export import tensorboard

        tensorboard.need()


def rendered(name: str, runs: Sequence[ExportedRun], *, samples: bool = False) -> Iterable[bytes]:
    """Return the content of a file of these runs. `samples` selects one CSV row per sample.

    Raises:
        UnfitError: a package is missing.
    """
    from cpugpu_tui.export import csv_table, json_document, markdown

    if name == "csv":
        return csv_table.csv_table(runs, samples=samples)
    if name == "html":
        from cpugpu_tui.export.report import report

        return report(runs)
    if name in PICTURES:
        from cpugpu_tui.export.chart import picture

        return picture(runs, name)
    if name == THRESHOLDS:
        from cpugpu_tui.export import thresholds

        first, *others = {run.started.series_id: run.state for run in runs}.values()  # of a series, the last run
        found = reduce(lambda file, run: thresholds.thresholds_of(run, file), others, thresholds.thresholds_of(first))
        return [thresholds.rendered("json", found).encode()]
    plain = {"json": json_document.json_document, "ndjson": ndjson, "markdown": markdown.markdown}
    return plain[name](runs)
