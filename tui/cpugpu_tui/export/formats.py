"""The formats by name, and which one a file's name asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from cpugpu_tui.errors import UsageError
from cpugpu_tui.export.stream import ExportedRun

SUFFIXES = {"json": ".json", "ndjson": ".ndjson", "csv": ".csv", "markdown": ".md", "html": ".html"}
"""Formats that are one file, with the suffix of its name."""

TENSORBOARD = "tensorboard"
"""The format that is a folder."""

FORMATS = (*SUFFIXES, TENSORBOARD)

_BY_SUFFIX = {
    **{suffix: name for name, suffix in SUFFIXES.items()},
    ".jsonl": "ndjson",
    ".markdown": "markdown",
    ".htm": "html",
}


def checked(name: str) -> str:
    """Return the name of a format.

    Raises:
        UsageError: there is none of that name.
    """
    known = name.lower()
    known = _BY_SUFFIX.get(f".{known}", known)  # `md`, as files are called
    if known not in FORMATS:
        raise UsageError(f"There is no format {name!r}.", f"Write one of {', '.join(FORMATS)}.")
    return known


def format_of(path: Path) -> str | None:
    """Return the format that a file's name asks for, None where it does not say."""
    return _BY_SUFFIX.get(path.suffix.lower())


def required_format_of(path: Path) -> str:
    """Return the format that a file's name asks for.

    Raises:
        UsageError: its suffix is none of ours.
    """
    found = format_of(path)
    if found is None:
        *most, last = SUFFIXES.values()
        raise UsageError(f"The name {path} does not say which format it is.", f"End it in {', '.join(most)} or {last}.")
    return found


def need(name: str) -> None:
    """Look whether what a format needs is installed.

    Raises:
        UnfitError: it is not.
    """
    if name == "html":
        from cpugpu_tui.export import report

        report.need()
    elif name == TENSORBOARD:
        from cpugpu_tui.export import tensorboard

        tensorboard.need()


def rendered(name: str, runs: Sequence[ExportedRun], *, samples: bool = False) -> Iterable[bytes]:
    """Return the bytes of a file of these runs; `samples` makes CSV tell each of them, other formats have them or not.

    Raises:
        UnfitError: a package is missing.
    """
    from cpugpu_tui.export import csv_table, json_document, markdown
    from cpugpu_tui.export.stream import ndjson

    if name == "csv":
        return csv_table.csv_table(runs, samples=samples)
    if name == "html":
        from cpugpu_tui.export.report import report

        return report(runs)
    plain = {"json": json_document.json_document, "ndjson": ndjson, "markdown": markdown.markdown}
    return plain[name](runs)
