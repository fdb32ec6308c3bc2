"""The NDJSON export: the events alone, one a line, as `run --json` has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.timing.emitter import encode


def ndjson(runs: Sequence[ExportedRun]) -> Iterator[bytes]:
    """Yield the streams of the runs, one after the other; `RunStarted` begins each."""
    for run in runs:
        yield from map(encode, run.events)
