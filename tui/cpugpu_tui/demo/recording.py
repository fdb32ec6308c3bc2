"""A recording of whole runs in one gzip file: a header, then every event of the history, one per line. And its player.

xz files would be a third smaller, but some builds of Python lack xz.
"""

from __future__ import annotations

import gzip
import io
import math
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from cpugpu_tui import model
from cpugpu_tui.config.paths import read_at_most
from cpugpu_tui.errors import UsageError
from cpugpu_tui.export.json_document import read_runs
from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import Ceilings

SCHEMA = 1
"""Version of the file; other versions are rejected."""

SHIPPED = "recorded.ndjson.gz"
"""The recording in the package, beside this file."""

_MAX_PLAIN_BYTES = 100_000_000
"""Largest unpacked size, because a malicious file could fill the memory."""

KIND = "cpugpu-tui demo"
_REINSTALL = "Reinstall cpugpu-tui."
_REMEDY = "Give a file of recorded runs, or omit it to play the built-in runs."


@dataclass(frozen=True)
class Recording:
    """Runs of one machine, in recorded order."""

    runs: tuple[ExportedRun, ...]
    """At least one run; every run has an end."""

    @property
    def environment(self) -> dict[str, Any]:
        """Facts of the machine, from its agent."""
        return self.runs[0].started.environment

    @property
    def ceilings(self) -> tuple[Ceilings, ...]:
        """Peak rates of its devices, for the machine card."""
        return self.runs[0].started.plan.ceilings

    @property
    def tag(self) -> str:
        """Word that marks every screen and output: `REPLAY` or `REPLAY SIMULATED`."""
        return "REPLAY SIMULATED" if any(run.started.plan.simulation is not None for run in self.runs) else "REPLAY"

    @property
    def machine(self) -> tuple[str, ...]:
        """GPU, CPU, driver, torch and date, the most important first."""
        state, facts = self.runs[0].state, self.environment
        gpu = state.gpu.label if state.gpu is not None else "no GPU"
        parts = [gpu, str(facts.get("cpu") or "unknown CPU")]
        parts += [f"driver {facts['driver']}"] if facts.get("driver") else []
        parts += [f"torch {facts['torch']}"] if facts.get("torch") else []
        days = {f"{datetime.fromtimestamp(run.started.wall_ns / 1e9, timezone.utc):%Y-%m-%d}" for run in self.runs}
        return (*(printable(part) for part in parts), " to ".join(dict.fromkeys((min(days), max(days)))))

    @property
    def summary(self) -> str:
        """The same in one line, separated by `·`."""
        return " · ".join(self.machine)


def shipped() -> Recording:
    """Return the recording in the package; takes 0.5 s on an idle core.

    Raises:
        UsageError: the file is missing or damaged.
    """
    try:
        return unpacked(resources.files("cpugpu_tui.demo").joinpath(SHIPPED).read_bytes(), "The demo's recording")
    except OSError as error:
        raise UsageError(f"The demo's recording cannot be read: {error.strerror}.", _REINSTALL) from error
    except UsageError as error:
        raise UsageError(error.message, _REINSTALL) from error


def load(path: Path) -> Recording:
    """Return the recording in a file.

    Raises:
        UsageError: the file cannot be read, is not a recording, is damaged, or has another version.
    """
    name = printable(path.name) or str(path)
    try:
        data = read_at_most(path, _MAX_PLAIN_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{name} cannot be read: {reason}.", _REMEDY) from None
    return unpacked(data, name)


def unpacked(data: bytes, name: str) -> Recording:
    """Return the recording in these bytes, of the file called `name`.

    Raises:
        UsageError: the data is not a recording, is damaged, or has another version.
    """
    if not data.startswith(b"\x1f\x8b"):
        raise UsageError(f"{name} is not a demo recording.", _REMEDY)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            plain = file.read(_MAX_PLAIN_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{name} is damaged: {error}.", _REMEDY) from None
    if len(plain) > _MAX_PLAIN_BYTES:
        raise UsageError(f"{name} is larger than {_MAX_PLAIN_BYTES // 10**6} MB.", _REMEDY)
    first, _, events = plain.partition(b"\n")
    _check_header(first, name)
    return whole(Recording(tuple(read_runs(events, name))), name)


def _check_header(line: bytes, name: str) -> None:
    try:
        header = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("recording") != KIND:
        raise UsageError(f"{name} is not a demo recording.", _REMEDY)
    schema = header.get("schema")
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        remedy = "Update cpugpu-tui." if newer else "Record it again (see docs/contributing.md)."
        raise UsageError(f"{name} has schema {schema!r}, but this version reads {SCHEMA}.", remedy)


def whole(recording: Recording, name: str) -> Recording:
    """Return a recording with runs that all have an end; otherwise raise UsageError."""
    if not recording.runs:
        raise UsageError(f"{name} contains no runs.", _REMEDY)
    for run in recording.runs:
        if not any(isinstance(event, model.RunFinished) for event in reversed(run.events)):
            raise UsageError(f"{name} is damaged: run {run.name!r} has no end.", _REMEDY)
    return recording


# ------------------------------------------------------------------ playing


FIRST_S = 20.0
"""Length of the first run at the demo's own pace, slow enough to watch the search choose sizes."""

OTHERS_S = 40.0
"""Length of all other runs together at that pace, in proportion to the square roots of their own lengths: two Jacobians
took eight minutes each, in which little happens."""

BETWEEN_S = 3.0
"""Pause between two runs, to read the answer."""

GAP_S = 0.5
"""Time between two paints."""

MOST_PACE = 1000.0

_GAP_MS = 50.0
"""Length of a gap, as with an agent."""


class Clock:
    """The real clock, which tests replace."""

    def now_s(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def wait(self, changed: threading.Condition, seconds: float | None) -> None:
        """Wait for `seconds` or until `changed` is notified; the caller holds its lock."""
        changed.wait(seconds)


class Player:
    """Play a recording with the interface of a session, so that every face shows it like a live run.

    All runs are played in order. `run` blocks; the other methods may be called from any thread. The history keeps
    neither progress between two events nor the gaps in which a screen paints: both are made here from the next event.
    """

    notice: str | None = None
    series_id = ""

    def __init__(self, recording: Recording, pace: float | None = None, clock: Clock | None = None) -> None:
        """`pace` is a result of `pace_of`."""
        self._recording, self._pace = recording, pace
        self._clock = clock or Clock()
        self._changed = threading.Condition()
        self._paused = self._skipping = self._killed = False
        self._origin_s = 0.0
        """Start of the current run, shifted by all pauses."""

    def run(self, deliver: Callable[[model.Event], None]) -> model.RunFinished:
        """Deliver the events of all runs when they are due; return the end of the last run."""
        runs = self._recording.runs
        for index, (run, speed) in enumerate(zip(runs, speeds(runs, self._pace), strict=True)):
            if index:
                self._begin()
                self._until(BETWEEN_S / (self._pace or 1.0))
            if not self._killed:
                self._play(run, speed, deliver)
        return model.RunFinished(status="stopped" if self._killed else "done")

    def _play(self, run: ExportedRun, speed: float, deliver: Callable[[model.Event], None]) -> None:
        self._begin()
        for at_s, event in timed_events(run, speed):
            self._until(at_s)
            if self._killed:
                return
            # Skipped events are delivered at once, without paints in between.
            if not (self._skipping and isinstance(event, model.Gap | model.Progressed)):
                deliver(event)

    def _begin(self) -> None:
        with self._changed:
            self._skipping = False
            self._origin_s = self._clock.now_s()

    def _until(self, at_s: float) -> None:
        """Wait until `at_s` of the run; a skip ends the wait, and a pause extends it."""
        with self._changed:
            while not (self._skipping or self._killed):
                left_s = self._origin_s + at_s - self._clock.now_s()
                if self._paused:
                    self._clock.wait(self._changed, None)
                    self._origin_s = self._clock.now_s() + left_s - at_s
                elif left_s <= 0:
                    return
                else:
                    self._clock.wait(self._changed, left_s)

    # ---------------------------------------------------------------- requests from other threads

    def stop(self) -> None:
        """Skip to the end of the run, or from a pause between runs to the next run; ends a pause."""
        with self._changed:
            self._skipping, self._paused = True, False
            self._changed.notify_all()

    def kill(self) -> None:
        """End the demo; nothing is delivered afterwards."""
        with self._changed:
            self._killed = True
            self._changed.notify_all()

    def pause(self) -> None:
        """Pause the run."""
        with self._changed:
            self._paused = True
            self._changed.notify_all()

    def resume(self) -> None:
        """Resume the run."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def add_telemetry(self, event: model.TelemetryRead) -> None:
        """Do nothing: the recording has its own readings."""


# ------------------------------------------------------------------ timing of events


def pace_of(text: str | None) -> float | None:
    """Return the speed as a multiple of the recorded one; None for the demo's own pace.

    Raises:
        UsageError: the text is neither `original` nor a number between 0.001 and 1000.
    """
    if text is None or text == "original":
        return None if text is None else 1.0
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1 / MOST_PACE <= factor <= MOST_PACE:  # also false for nan
        raise UsageError(
            f"Invalid --pace {text!r}.",
            "Use `original` or a number from 0.001 to 1000: 2 is twice as fast, 0.5 half as fast.",
        )
    return factor


def speeds(runs: Sequence[ExportedRun], pace: float | None) -> list[float]:
    """Return the speed of each run as a multiple of the recorded one."""
    if pace is not None:
        return [pace] * len(runs)
    first, *others = map(lasted_s, runs)
    roots = sum(map(math.sqrt, others))
    return [first / FIRST_S, *(math.sqrt(length_s) * roots / OTHERS_S for length_s in others)]


def lasted_s(run: ExportedRun) -> float:
    """Return the recorded length of a run, from its start to its last event; never 0."""
    *_, (last_s, _) = _recorded(run)
    return max(last_s, 1e-3)


def timed_events(run: ExportedRun, speed: float) -> Iterator[tuple[float, model.Event]]:
    """Yield the events of a run in order, each with its seconds after the start.

    Every `GAP_S`, a `Progressed` with the step of the recorded agent and a `Gap` are inserted.
    """
    events = [(at_s / speed, event) for at_s, event in _recorded(run)]
    steps = _steps(run.events)
    end_s = events[-1][0]
    before_s = 0.0
    tick = 1
    for (at_s, event), step in zip(events, steps, strict=True):
        while (tick_s := tick * GAP_S) < at_s:
            yield tick_s, model.Progressed(**step, elapsed_s=tick_s - before_s, seconds_left=end_s - tick_s)
            yield tick_s, model.Gap(duration_ms=_GAP_MS)
            tick += 1
        yield at_s, event
        before_s = at_s


def _recorded(run: ExportedRun) -> list[tuple[float, model.Event]]:
    """Return each event with its seconds after the start of the run, in ascending order.

    Readings from before the start are due at once.
    """
    start_ns, at_s = run.started.mono_ns, 0.0
    found: list[tuple[float, model.Event]] = []
    for event in run.events:
        at_s = max(at_s, (event.mono_ns - start_ns) / 1e9)
        found.append((at_s, event))
    return found


def _steps(events: Sequence[model.Event]) -> list[dict[str, Any]]:
    """Return for each event the agent's step before it, taken from the next event that names one."""
    phases = {
        model.Calibrated: "warm-up", model.CodeCompiled: "compile", model.LinesProfiled: "lines",
        model.KernelsProfiled: "kernels", model.EnergyMeasured: "energy",
    }  # fmt: skip
    step: dict[str, Any] = {"case": "", "device": "", "phase": ""}
    found = []
    for event in reversed(events):
        if isinstance(event, model.DeviceSampled):
            phase = "round" if event.round_index else "as written"
            step = {"case": event.case, "device": event.device, "phase": phase, "round_index": event.round_index}
        elif type(event) in phases:
            of = {name: getattr(event, name) for name in ("case", "device")}
            step = {**of, "phase": phases[type(event)]}
        found.append(step)
    return found[::-1]
