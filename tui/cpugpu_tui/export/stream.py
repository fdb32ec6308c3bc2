"""A run for export: its saved events, in the order of `Store.load`."""

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
"""Events of one case."""

KEPT = (RunStarted, DevicesFound, *CASE_EVENTS, *BESIDE, TelemetryRead, RunFinished)
"""Events that are saved and exported."""


@dataclass(frozen=True)
class ExportedRun:
    """One run, with the events that `kept` returns."""

    events: tuple[Event, ...]

    @cached_property
    def state(self) -> RunState:
        """The state after all events. Telemetry does not change it."""
        return folded(self.events)

    @property
    def started(self) -> RunStarted:
        """The first event."""
        first = self.events[0]
        assert isinstance(first, RunStarted)
        return first

    @property
    def file_stem(self) -> str:
        """Name of a file or folder for this run: its name and id, in ASCII letters, digits and `-_.+`."""
        name = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "-+") else "_" for sign in self.name)
        return f"{name[:80]}-{self.started.run_id}"

    @property
    def name(self) -> str:
        """Preset or workload that was run."""
        return self.started.plan.name


def exported(events: Iterable[Event]) -> ExportedRun:
    """Return a run for export, from live or loaded events.

    The run's number is left out, because it differs between databases.

    Raises:
        ValueError: the events have no `RunStarted`.
    """
    return ExportedRun(tuple(kept(events)))


def ndjson(runs: Sequence[ExportedRun]) -> Iterator[bytes]:
    """Yield the events of the runs, one per line, as `run --json` prints them. Each run begins with `RunStarted`."""
    for run in runs:
        yield from map(encode, run.events)


def kept(events: Iterable[Event]) -> list[Event]:
    """Return the events that `Store.load` would return after saving, without the run's number.

    The order is `RunStarted`, `DevicesFound`, the last complete attempt of each case and other events by `seq`, and
    `RunFinished`.

    Raises:
        ValueError: the events have no `RunStarted`.
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
                # Sorted, because the history stores facts in parts and returns them in another order.
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
        raise ValueError("the events have no RunStarted")
    middle = heapq.merge(*cases.values(), beside, key=lambda event: (event.seq, event.wall_ns))
    return [*_known(started, found), *middle, *_known(finished)]


def _known(*events: Event | None) -> Sequence[Event]:
    return [event for event in events if event is not None]
