"""A run as exports see it: the events that the history keeps, in the order in which it gives them back."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cpugpu_tui.model import (
    Calibrated,
    CaseFailed,
    CaseFinished,
    CaseStarted,
    DeviceSampled,
    DevicesFound,
    Event,
    RunFinished,
    RunStarted,
    TelemetryRead,
)
from cpugpu_tui.session.event_stream import BESIDE
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState
from cpugpu_tui.timing.emitter import encode

CASE_EVENTS = (CaseStarted, Calibrated, DeviceSampled, CaseFinished, CaseFailed)
"""Events that a case's own stream is made of."""

KEPT = (RunStarted, DevicesFound, *CASE_EVENTS, *BESIDE, TelemetryRead, RunFinished)
"""Events that outlive their run."""


@dataclass(frozen=True)
class ExportedRun:
    """One run, as `kept` returns it."""

    events: tuple[Event, ...]

    @cached_property
    def state(self) -> RunState:
        """What the events tell; telemetry changes nothing in it."""
        return folded(self.events)

    @property
    def started(self) -> RunStarted:
        """The first event."""
        first = self.events[0]
        assert isinstance(first, RunStarted)
        return first

    @property
    def file_stem(self) -> str:
        """Name for a file or folder of this run: what was run, and the run's id; letters, digits and `-_.+` alone."""
        name = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "-+") else "_" for sign in self.name)
        return f"{name[:80]}-{self.started.run_id}"

    @property
    def name(self) -> str:
        """Preset or workload that was asked for."""
        return self.started.plan.name


def exported(events: Iterable[Event]) -> ExportedRun:
    """Return a run for export from its stream, live or loaded.

    The number is left out: it belongs to one database, and the same run has another one elsewhere.

    Raises:
        ValueError: there is no `RunStarted` in the stream.
    """
    return ExportedRun(tuple(kept(events)))


def ndjson(runs: Sequence[ExportedRun]) -> Iterator[bytes]:
    """Yield the events of the runs, one a line, as `run --json` has them; `RunStarted` begins each."""
    for run in runs:
        yield from map(encode, run.events)


def kept(events: Iterable[Event]) -> list[Event]:
    """Return what the history would give back of a stream (`Store.load`), without the run's number.

    Of each case the last attempt that came to an end, then everything by `seq`; first `RunStarted` and `DevicesFound`,
    last `RunFinished`.

    Raises:
        ValueError: there is no `RunStarted` in the stream.
    """
    started: RunStarted | None = None
    found: DevicesFound | None = None
    finished: RunFinished | None = None
    open_cases: dict[str, list[Event]] = {}
    cases: dict[str, list[Event]] = {}
    beside: list[Event] = []
    for event in events:
        match event:
            case RunStarted():
                # The history keeps the facts of machine and environment apart: their order is not the live run's.
                started = replace(event, number=None, environment=dict(sorted(event.environment.items())))
            case DevicesFound():
                found = event
            case RunFinished():
                finished = event
            case CaseStarted():
                open_cases[event.case] = [event]
            case Calibrated() | DeviceSampled():
                open_cases.setdefault(event.case, []).append(event)
            case CaseFinished() | CaseFailed():
                cases.pop(event.case, None)
                cases[event.case] = [*open_cases.pop(event.case, []), event]
            case TelemetryRead():
                beside.append(event)
            case _ if isinstance(event, BESIDE):
                beside.append(event)
    if started is None:
        raise ValueError("a stream without its beginning")
    middle = heapq.merge(*cases.values(), beside, key=lambda event: (event.seq, event.wall_ns))
    return [*_known(started, found), *middle, *_known(finished)]


def _known(*events: Event | None) -> Sequence[Event]:
    return [event for event in events if event is not None]
