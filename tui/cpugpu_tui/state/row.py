"""The rows of a run: cases with their times and outcomes. The app's first frame has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from sys import intern
from typing import TYPE_CHECKING, Any

from cpugpu_tui import model
from cpugpu_tui.decide.correlation import NONE, Correlation
from cpugpu_tui.state.packed import Comparisons, prime, slot_cached_property

if TYPE_CHECKING:
    from cpugpu_tui.decide.comparison import Comparison
    from cpugpu_tui.state.device_times import DeviceTimes

UNSAVED = "not saved"
"""Mark of a settled case that is not in the history."""


@dataclass(frozen=True, repr=False)
class Row:
    """One case with its times and outcome."""

    case: model.Case
    status: str = "pending"
    """`pending`, `active`, `ok`, or the kind of failure."""
    times: Mapping[str, DeviceTimes] = field(default_factory=dict)
    """Device name → times."""
    check: model.Check | None = None
    failure: model.CaseFailed | None = None
    started: model.CaseStarted | None = None
    """Start event, with FLOPs and bytes per call."""
    saved: bool = True
    """False for a settled case that should be in the history but is not."""
    correlation: Correlation = NONE
    """Correlation of its rounds, once it has finished."""
    others: Correlation = NONE
    """That of the cases that finished before it, and of all others once the run has ended."""

    @property
    def cpu(self) -> DeviceTimes | None:
        """Times on the CPU."""
        return self.times.get("cpu")

    @property
    def gpu(self) -> DeviceTimes | None:
        """Times on the GPU with the lowest number, because GPUs of a parallel run report in any order."""
        return self.times[min(self.gpus, key=model.place)] if self.gpus else None

    @property
    def gpus(self) -> tuple[str, ...]:
        """Names of the GPUs with times."""
        return tuple(name for name in self.times if name != "cpu")

    def on(self, gpu: str) -> Row:
        """Return the row as if this were the only GPU of the run."""
        return replace(self, times={name: times for name, times in self.times.items() if name in ("cpu", gpu)})

    @property
    def is_starved(self) -> bool:
        """Whether threads lacked a core on any device. The row has no winner then."""
        return any(times.is_starved for times in self.times.values())

    @slot_cached_property
    def own_comparison(self) -> Comparison | None:
        """Comparison of CPU and first GPU, round by round; None without common rounds, or if threads lacked a core.

        Faces take that of `report.judged`, because the whole sweep may take its winner.
        """
        if self.cpu is None or self.gpu is None or self.status == "mismatch":
            return None
        if self.cpu.is_starved or self.gpu.is_starved:
            return None
        from cpugpu_tui.state.device_times import compared

        found = compared(self.cpu, self.gpu, self.others, lambda metrics: metrics.get(model.LATENCY, {}))
        is_command = self.cpu.traced is not None and self.cpu.traced.used is not None
        return found._replace(starts=found.rounds) if found is not None and is_command else found

    @property
    def is_cut(self) -> bool:
        """Whether a stop or the time limit ended it before the rounds of its slowest device: others end with that."""
        known = [times for times in self.times.values() if times.calibrated is not None]
        least = min((times.calibrated.rounds for times in known if times.calibrated), default=0)
        return self.status == "ok" and any(len(times.round_ns) < least for times in known)

    @property
    def starts(self) -> int:
        """Number of starts of the process in which the case was timed."""
        return max((times.starts for name, times in self.times.items() if name != model.RECORDED), default=1)

    @slot_cached_property
    def in_worlds(self) -> Mapping[str, Comparison]:
        """`WhatIf.key` → comparison of CPU and first GPU under its assumption, if it has times."""
        if self.cpu is None or self.gpu is None or self.own_comparison is None:
            return {}
        from cpugpu_tui.analysis.costs import ONE_THREAD, RESIDENT, WHAT_IFS
        from cpugpu_tui.state.device_times import compared

        found: dict[str, Comparison | None] = {RESIDENT: self.own_comparison, ONE_THREAD: self.own_comparison}
        for each in WHAT_IFS:
            if each.key not in found:
                found[each.key] = compared(self.cpu, self.gpu, self.others, partial(self.gpu.rounds_under, each))
        return Comparisons({key: comparison for key, comparison in found.items() if comparison is not None})

    @property
    def marks(self) -> tuple[str, ...]:
        """Marks of all devices without duplicates, in order of appearance."""
        marks = dict.fromkeys(mark for times in self.times.values() for mark in times.marks)
        return tuple(marks) if self.saved else (*marks, UNSAVED)


@cache
def prime_rows() -> None:
    """Compute once what all rows share, before the first ones are made."""
    prime(Row(model.Case("", 1)))


class OwnRows(dict[str, Row]):
    """Rows of a state that nobody keeps: `apply` changes them in place."""


def threads_of(rows: Iterable[Row]) -> int:
    """Return the CPU threads in force, 0 if not known."""
    return next((row.cpu.calibrated.threads for row in rows if row.cpu and row.cpu.calibrated), 0)


def with_cases(rows: Mapping[str, Row], cases: tuple[model.Case, ...]) -> Mapping[str, Row]:
    """Insert further cases, each by size within its sweep."""
    ordered = list(rows.values())
    for case in cases:
        new = Row(case)
        if case.key in rows:
            continue
        same = [index for index, row in enumerate(ordered) if row.case.sweep == case.sweep]
        larger = (index for index in same if ordered[index].case.size > case.size)
        ordered.insert(next(larger, same[-1] + 1 if same else len(ordered)), new)
    return {row.case.key: row for row in ordered}


def is_settled(row: Row) -> bool:
    """Return whether a row has ended, in whatever way."""
    return row.status not in ("pending", "active")


def is_failed(row: Row) -> bool:
    """Return whether its case failed; a skipped one did not."""
    return row.failure is not None and row.failure.kind != "skipped"


@cache
def _kept_as() -> Mapping[type, str]:
    """Return event about a case on a device → the field of its times that holds the newest one."""
    kinds = model.Calibrated, model.CodeCompiled, model.CodeTraced, model.EnergyMeasured, model.KernelsProfiled
    names = "calibrated", "compiled", "traced", "energy", "kernels", "lines", "placed"
    return dict(zip((*kinds, model.LinesProfiled, model.TensorsPlaced), names, strict=True))


def apply_to_row(row: Row, event: model.Event) -> Row:
    """Return a row after an event about its case."""
    match event:
        case model.CaseStarted():
            return Row(row.case, status="active", started=event)
        case model.CaseFinished():
            return _packed(replace(row, status="ok", check=event.check))
        case model.CaseFailed():
            return _packed(replace(row, status=event.kind, failure=event))
        case model.EpochFinished():
            times = _times(row, event.device)
            return _with_times(row, replace(times, epochs=(*times.epochs, event)))
        case model.EarlierTimed():
            return _with_times(row, replace(_times(row, event.device), earlier=event.starts))
        case model.MachineRead():
            return _with_times(row, _times(row, event.device).with_edge(event))
        case model.DeviceSampled():
            return _with_times(row, _times(row, event.device).with_half_round(event))
        case _ if (field := _kept_as().get(type(event))) is not None:
            newest: dict[str, Any] = {field: event}
            return _with_times(row, replace(_times(row, getattr(event, "device", "")), **newest))
        case _:
            return row


def _packed(row: Row) -> Row:
    """Return a settled row in little memory, because there may be thousands."""
    started = replace(row.started, case=intern(row.started.case)) if row.started is not None else None
    return replace(row, started=started, times={intern(name): times.packed() for name, times in row.times.items()})


def _times(row: Row, device: str) -> DeviceTimes:
    from cpugpu_tui.state.device_times import DeviceTimes

    return row.times.get(device) or DeviceTimes(device)


def _with_times(row: Row, times: DeviceTimes) -> Row:
    return replace(row, times={**row.times, times.device: times})
