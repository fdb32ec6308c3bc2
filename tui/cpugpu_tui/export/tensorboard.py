"""The TensorBoard export: chart `GPU vs CPU`, series `GPU` and `CPU`, step = size, value = seconds per call.

Folders and tags are those of torch's `SummaryWriter.add_scalars`, which the publication used. The package
`tensorboard` encodes the records. File names and times come from the run, so the same run gives the same bytes.
"""

from __future__ import annotations

import io
from bisect import insort
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from cpugpu_tui.config.installing import packages_of
from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.export.target import explained, make_folder, write
from cpugpu_tui.model import AS_WRITTEN, LATENCY, RECORDED, RECORDED_GPU, CaseFinished, Event, place
from cpugpu_tui.render.rows import sweep_name
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState

if TYPE_CHECKING:
    from tensorboard.summary.writer.record_writer import RecordWriter

CHART = "GPU vs CPU"
"""Tag of the chart. With several sweeps, for the paper's clock, or if simulated, it has a suffix in parentheses."""

_CLOCKS = {LATENCY: "", AS_WRITTEN: "as written"}
"""Metrics with a chart, and their suffixes of the tag."""


@dataclass(frozen=True)
class Scalar:
    """One point of a chart."""

    chart: str
    series: str
    """`CPU`, `GPU`, or `GPU cuda:N` for further GPUs."""
    step: int
    """The size."""
    value_s: float
    """Seconds per call; the format stores float32."""
    wall_s: float
    """End of the case, seconds since 1970."""


def need() -> None:
    """Load the package before timing begins: it takes 0.3 s of a core.

    Raises:
        UnfitError: the package is not installed.
    """
    with packages_of("tensorboard", "TensorBoard files need"):
        import tensorboard.compat.proto.event_pb2
        import tensorboard.summary.writer.record_writer  # noqa: F401


def points(state: RunState, row: Row, wall_ns: int) -> Iterator[Scalar]:
    """Yield the points of a finished case; none for a failed one."""
    if row.status != "ok":
        return
    first_gpu = min(row.gpus, key=place, default=None)
    for name, times in row.times.items():
        series = {first_gpu: "GPU", RECORDED: RECORDED_GPU, "cpu": "CPU"}.get(name, f"GPU {name}")
        for metric, clock in _CLOCKS.items():
            value_ns = times.median_ns(metric)
            if value_ns is not None:
                yield Scalar(_chart(state, row, clock), series, row.case.size, value_ns / 1e9, wall_ns / 1e9)


def _chart(state: RunState, row: Row, clock: str) -> str:
    words = [sweep_name(state, row.case.sweep)] if len(state.sweeps) > 1 else []
    words += [clock] if clock else []
    words += ["SIMULATED"] if state.simulated else []
    return f"{CHART} ({', '.join(words)})" if words else CHART


def folder_of(point: Scalar) -> str:
    """Return the name of a series' folder inside the run's folder, as torch names it."""
    return f"{point.chart.replace('/', '_').replace(chr(0), '_')[:150]}_{point.series}"


def file_name(run: ExportedRun) -> str:
    """Return the name of the run's event files; viewers look for `tfevents` in it."""
    return f"events.out.tfevents.{run.started.wall_ns // 10**9:010}.{run.started.run_id}"


def all_points(run: ExportedRun) -> list[Scalar]:
    """Return the points of a run by series and rising size."""
    rows = run.state.rows
    ended = {event.case: event.wall_ns for event in run.events if isinstance(event, CaseFinished)}
    found = [point for key, ns in ended.items() if key in rows for point in points(run.state, rows[key], ns)]
    return sorted(found, key=lambda point: (point.chart, point.series, point.step))


def write_tensorboard(runs: Iterable[ExportedRun], folder: Path) -> list[Path]:
    """Write each run into its own folder inside `folder`; return these folders.

    Raises:
        UsageError, UnfitError: see `target.write` and `need`.
    """
    need()
    make_folder(folder)
    written = []
    for run in runs:
        make_folder(folder / run.file_stem)
        series: dict[str, list[Scalar]] = {}
        for point in all_points(run):
            series.setdefault(folder_of(point), []).append(point)
        for name, found in series.items():
            make_folder(folder / run.file_stem / name)
            stream = io.BytesIO()
            records = _begun(stream, run.started.wall_ns)
            for point in found:
                records.write(_scalar(point))
            write(folder / run.file_stem / name / file_name(run), [stream.getvalue()])
        written.append(folder / run.file_stem)
    return written


class LiveTensorboard:
    """Writes the points of a run as its cases finish. Methods raise the errors of `target.write`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._run: ExportedRun | None = None
        self._files: dict[str, _LiveSeries] = {}

    def see(self, state: RunState, event: Event) -> None:
        """Handle an event of a run, which is in `state` already."""
        if state.run is None or not isinstance(event, CaseFinished) or event.case not in state.rows:
            return
        if self._run is not None and self._run.started.run_id != state.run.run_id:
            self.close()
        if self._run is None:
            self._run = ExportedRun((state.run,))
            make_folder(self._folder / self._run.file_stem)
        for point in points(state, state.rows[event.case], event.wall_ns):
            name = folder_of(point)
            if name not in self._files:
                folder = self._folder / self._run.file_stem / name
                make_folder(folder)
                self._files[name] = _LiveSeries(folder / file_name(self._run), state.run.wall_ns)
            self._files[name].add(point)

    def close(self) -> None:
        """Close the files. May be called repeatedly."""
        files, self._files, self._run = self._files, {}, None
        with ExitStack() as closing_all:  # closes all, even if one fails
            for file in files.values():
                closing_all.callback(file.close)


class _LiveSeries:
    """An open event file, which viewers can read at any time, with points by rising size."""

    def __init__(self, path: Path, wall_ns: int) -> None:
        self._path = path
        self._points: list[tuple[int, Scalar]] = []
        with explained(path):
            self._stream: BinaryIO = path.open("wb")
            self._records = _begun(self._stream, wall_ns)
            self._stream.flush()

    def add(self, point: Scalar) -> None:
        """Write a point.

        Larger sizes that are in the file already are marked as dropped and written again. Viewers would ignore a
        smaller step after a larger one, or draw the line back and forth.
        """
        larger = [old for step, old in self._points if step > point.step]
        insort(self._points, (point.step, point), key=lambda pair: pair[0])
        with explained(self._path):
            if larger:
                self._records.write(_restart(point))
            for each in (point, *larger):
                self._records.write(_scalar(each))
            self._stream.flush()

    def close(self) -> None:
        with explained(self._path), closing(self._stream):
            self._stream.flush()


def _begun(stream: BinaryIO, wall_ns: int) -> RecordWriter:
    """Return a writer of records, after writing the format version."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    records = RecordWriter(stream)
    records.write(_event(wall_time=wall_ns / 1e9, file_version="brain.Event:2"))
    return records


def _scalar(point: Scalar) -> bytes:
    from tensorboard.compat.proto.summary_pb2 import Summary

    summary = Summary(value=[Summary.Value(tag=point.chart, simple_value=point.value_s)])
    return _event(wall_time=point.wall_s, step=point.step, summary=summary)


def _restart(point: Scalar) -> bytes:
    """Return the record that makes readers drop this step and all larger ones."""
    from tensorboard.compat.proto.event_pb2 import SessionLog

    return _event(wall_time=point.wall_s, step=point.step, session_log=SessionLog(status=SessionLog.START))


def _event(**fields: Any) -> bytes:
    from tensorboard.compat.proto.event_pb2 import Event as Record

    data: bytes = Record(**fields).SerializeToString()
    return data
