"""The Markdown export: heading, table and answer of each run, for an issue or a wiki."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.render.columns import is_words
from cpugpu_tui.render.gpus import Matrix, matrices
from cpugpu_tui.render.rows import full_table
from cpugpu_tui.render.sentences import heading, when
from cpugpu_tui.render.verdicts import mark_lines
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState

_MEANT = re.compile(r"([\\`*_\[\]|~#])")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": " ", "\r": " "})


def markdown(runs: Sequence[ExportedRun]) -> Iterator[bytes]:
    """Yield a section for each run."""
    for index, run in enumerate(runs):
        yield "\n".join([*([""] if index else []), *_section(run), ""]).encode("utf-8", "replace")


def _section(run: ExportedRun) -> Iterator[str]:
    state = run.state
    yield f"## {escaped(run.name)}"
    yield from ("", escaped(heading(state)), "", f"{escaped(when(state, run.status))}, run `{run.started.run_id}`")
    if state.rows:
        yield ""
        yield from table(state, state.rows.values())
    for matrix in matrices(state):
        yield from _matrix(matrix)
    lines = [*run.sentences, *mark_lines(state)]
    yield from ([""] if lines else [])
    yield from (f"- {escaped(line)}" for line in lines)


def table(state: RunState, rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of a table of these rows."""
    found = full_table(state, rows)
    yield _line(found.headings.values())
    yield "|" + "|".join(" --- " if is_words(key) else " ---: " for key in found.headings) + "|"
    for line in found.lines:
        yield _line(escaped(line[key]) for key in found.headings)


def _matrix(matrix: Matrix) -> Iterator[str]:
    yield from ("", f"{escaped(matrix.title)}:", "", _line(matrix.heads))
    yield "|" + "|".join([" --- ", *[" ---: "] * (len(matrix.heads) - 1)]) + "|"
    for row in matrix.rows:
        yield _line(map(escaped, row))


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def escaped(text: str) -> str:
    """Return text escaped for Markdown, because names of workloads and devices may hold its signs."""
    return _MEANT.sub(r"\\\1", text.translate(_ENTITIES))
