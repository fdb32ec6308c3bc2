"""Checks an agent's stream against its plan: what an agent sends may be late or missing, but never impossible.

An agent may run on a stranger's machine, in an interpreter that a person named. Each limit follows from the plan, so
that neither memory nor time of the controller depends on what the agent sends.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model import (
    WIRE_TAGS,
    Calibrated,
    Case,
    CaseFailed,
    CaseFinished,
    CasesChosen,
    CaseStarted,
    CeilingsMeasured,
    CodeTraced,
    DeviceSampled,
    DevicesFound,
    EnergyMeasured,
    EpochFinished,
    Event,
    Gap,
    Hello,
    KernelsProfiled,
    MachineRead,
    PeerMeasured,
    Plan,
    Progressed,
    RunFinished,
    RunStarted,
    SweepKey,
    TelemetryRead,
    TensorsPlaced,
    WorkloadsLoading,
)
from cpugpu_tui.transport.plausible import MOST_DEVICES, fault
from cpugpu_tui.transport.wire import BadEvent, Garbage, decode

STRAY_LINES, STRAY_BYTES = 10_000, 16_000_000
"""Most lines and bytes on stdout that are no events: banners of login shells, what a library prints."""

STDERR_BYTES, STDERR_BYTES_PER_S = 256_000_000, 1_000_000
"""Most bytes on stderr, at once and for each second: a workload may print in each call, all night."""

EVENT_BYTES, HALF_ROUND_BYTES = 256_000, 32_000
"""Longest line of an event, and of a half-round with five blocks. Only a hello may be longer."""

SMALL_EVENTS, SMALL_EVENTS_PER_S, SMALL_EVENTS_PER_STEP = 1_000, 100, 10
"""How many `Progressed` and `Gap` may come: at once, for each second, and for each other event of a case."""

MOST_STARTS = 3
"""How often an agent begins a case: it begins again after it ran out of memory beside others."""

MOST_ONCE = 3
"""Half-rounds that are taken before the first round: as written, and the first call."""

MOST_FILES = 10_000
"""Workload files that may be announced."""

PER_DEVICE: dict[type[Event], int] = {
    Calibrated: 2, TensorsPlaced: 1, CodeTraced: 1, MachineRead: 3, EnergyMeasured: 4, KernelsProfiled: 1,
    EpochFinished: 10_000,
}  # fmt: skip
"""How many events of a kind a case has on one device."""

AFTERWARDS = (EnergyMeasured, KernelsProfiled)
"""What is measured of a case when it has finished."""

REMEDY = "Its finished cases are kept. Check the interpreter and what it loads there, then run again."


class MisbehavedError(CpuGpuError):
    """An agent sent what no working agent sends; nothing that it says can be trusted any more."""

    title = "Agent misbehaved"

    def __init__(self, message: str, remedy: str = REMEDY) -> None:
        super().__init__(message, remedy)


@dataclass(slots=True)
class _Watched:
    """What has come of one case."""

    starts: int = 0
    is_over: bool = False
    rounds: dict[str, int] = field(default_factory=dict)
    """Device → its last round."""
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(kind of event, device) → how many."""


class StreamGuard:
    """Turns the lines of one agent into events, or raises `MisbehavedError`."""

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._hello: Hello | None = None
        self._devices: frozenset[str] | None = None
        self._cases: dict[str, _Watched] = {}
        self._sweeps: dict[SweepKey, set[int]] = {}
        self._open = 0
        """Cases that have neither finished nor failed."""
        self._seq = 0
        self._counts: Counter[str] = Counter()
        self._idle: Counter[tuple[str, str]] = Counter()
        self._pairs: set[tuple[str, str]] = set()
        self._stray_lines = self._stray_bytes = self._stderr_bytes = self._dropped_lines = 0
        self._small = self._steps = 0
        self._started_s = time.monotonic()
        self._is_stop_asked = self._is_finished = False

    # ---------------------------------------------------------------- what the controller did

    def expect(self, plan: Plan) -> None:
        """Take note of the plan, before it is sent."""
        for case in plan.cases:
            self._add(case)
        for found in plan.search.found if plan.search is not None else ():
            self._sweeps.setdefault(found.case.sweep, set()).add(found.case.size)
        self._plan = plan

    def expect_stop(self) -> None:
        """Take note that the agent is asked to stop: only then it may say that it did."""
        self._is_stop_asked = True

    def _add(self, case: Case) -> None:
        self._cases[case.key] = _Watched()
        self._sweeps.setdefault(case.sweep, set()).add(case.size)
        self._open += 1

    # ---------------------------------------------------------------- what came

    def read(self, count: int) -> None:
        """Count bytes that were read from stdout; those of events are taken off again."""
        self._stray_bytes += count
        if self._stray_bytes > STRAY_BYTES:
            raise MisbehavedError(f"The agent sent over {STRAY_BYTES // 10**6} MB that are no events.")

    def read_stderr(self, count: int) -> None:
        """Count bytes that were read from stderr."""
        self._stderr_bytes += count
        allowed = STDERR_BYTES + STDERR_BYTES_PER_S * (time.monotonic() - self._started_s)
        if self._stderr_bytes > allowed:
            raise MisbehavedError(
                f"The agent printed over {STDERR_BYTES // 10**6} MB to stderr.", f"{REMEDY} Let workloads print less."
            )

    def dropped(self, lines: int) -> None:
        """Take note of how many lines so far were too long to be kept."""
        if lines > self._dropped_lines and self._hello is not None and not self._is_finished:
            raise MisbehavedError("The agent sent a line of over 1 MB, which no event has.")
        self._dropped_lines = lines

    def cut_off(self, how: str = "died in the middle of a line") -> MisbehavedError | None:
        """Return what is to be said of a stream that has no proper end; None where its run was over."""
        if self._hello is None or self._is_finished:
            return None
        return MisbehavedError(f"The agent {how}.")

    def stray(self) -> None:
        """Take note of a line that is no event."""
        self._stray_lines += 1
        if self._stray_lines > STRAY_LINES:
            raise MisbehavedError(f"The agent sent over {STRAY_LINES:,} lines that are no events.")

    def event_on(self, line: bytes) -> Event | None:
        """Return the event on a line; None for what is to be ignored.

        Raises:
            Garbage: it is no event.
            MisbehavedError: no working agent sends it, or so much.
            ProtocolError: the agent speaks another version.
        """
        if self._is_finished:
            return None  # the run is over, whatever comes: its end was told
        try:
            event = decode(line)
        except BadEvent as error:
            self.stray()
            if self._hello is None:
                raise  # what a wrapper prints before an agent starts may look like anything
            raise MisbehavedError(f"The agent sent an event that is none ({str(error)[:200]}).") from error
        except Garbage:
            self.stray()
            raise
        if event is None:
            self.stray()
            return None
        self._check(event, len(line))
        self._stray_bytes -= len(line) + 1
        return event

    # ---------------------------------------------------------------- whether it can be

    def _check(self, event: Event, line_bytes: int) -> None:
        name = WIRE_TAGS[type(event)]
        if event.seq <= self._seq and not isinstance(event, Hello):
            raise MisbehavedError(f"The agent sent {name} out of order: event {event.seq:,} after {self._seq:,}.")
        wrong = fault(event, self._plan)
        if wrong is not None:
            raise MisbehavedError(f"The agent sent {name} {wrong}.")
        self._seq = event.seq
        if isinstance(event, (Hello, WorkloadsLoading)):
            self._before_the_plan(event)
            return
        if self._hello is None or self._plan is None:
            raise MisbehavedError(f"The agent sent {name} before it had a plan.")
        longest = EVENT_BYTES
        if isinstance(event, DeviceSampled) and event.round_index:
            longest = HALF_ROUND_BYTES + 32 * self._plan.blocks
        if line_bytes > longest:
            raise MisbehavedError(f"The agent sent {name} of {line_bytes:,} bytes.")
        if isinstance(event, DevicesFound):
            if self._devices is not None:
                raise MisbehavedError("The agent told its devices twice.")
            self._devices = frozenset(device.name for device in event.devices)
        elif isinstance(event, RunFinished):
            self._finish(event)
        elif isinstance(event, (Progressed, Gap)):
            self._small_event(event)
        elif self._devices is None:
            raise MisbehavedError(f"The agent sent {name} before its devices.")
        else:
            self._step(event, self._plan)

    def _before_the_plan(self, event: Hello | WorkloadsLoading) -> None:
        if self._hello is not None:
            raise MisbehavedError("The agent said hello twice.")
        if isinstance(event, Hello):
            self._hello = event
            return
        self._counts["files"] += 1
        if self._counts["files"] > MOST_FILES:
            raise MisbehavedError(f"The agent loaded over {MOST_FILES:,} files.")

    def _finish(self, event: RunFinished) -> None:
        if event.status == "done" and (self._open or self._devices is None):
            left = f"{self._open:,} of {len(self._cases):,} cases"
            raise MisbehavedError(f"The agent said that it was done, but {left} have neither finished nor failed.")
        if event.status == "done" and event.exit_code:
            raise MisbehavedError(f"The agent said that it was done, with exit code {event.exit_code}.")
        if event.status == "stopped" and not self._is_stop_asked:
            raise MisbehavedError("The agent said that it was stopped, which nobody asked for.")
        self._is_finished = True

    def _small_event(self, event: Progressed | Gap) -> None:
        if isinstance(event, Progressed) and event.case:
            self._case(event.case, "Progressed")
        self._small += 1
        elapsed_s = time.monotonic() - self._started_s
        if self._small > SMALL_EVENTS + SMALL_EVENTS_PER_S * elapsed_s + SMALL_EVENTS_PER_STEP * self._steps:
            raise MisbehavedError(f"The agent told its progress {self._small:,} times in {elapsed_s:.0f} s.")

    def _step(self, event: Event, plan: Plan) -> None:
        """Check an event of a case, or one of those that come a limited number of times."""
        self._steps += 1
        match event:
            case CaseStarted() | CaseFinished() | CaseFailed():
                self._edge(event)
            case DeviceSampled():
                self._half_round(event, plan)
            case CasesChosen():
                for case in event.cases:
                    self._choose(case, plan)
            case CeilingsMeasured():
                self._ceilings(event, plan)
            case PeerMeasured():
                pair = event.source.name, event.target.name
                if pair in self._pairs or len(self._pairs) >= MOST_DEVICES**2:
                    raise MisbehavedError("The agent copied between the same GPUs twice.")
                self._pairs.add(pair)
            case RunStarted() | TelemetryRead():
                raise MisbehavedError(f"The agent sent {WIRE_TAGS[type(event)]}, which is not an agent's to tell.")
            case _:
                self._measured(event)

    def _case(self, key: str, name: str) -> _Watched:
        watched = self._cases.get(key)
        if watched is None:
            raise MisbehavedError(f"The agent sent {name} of {key[:100]!r}, which is no case of its plan.")
        return watched

    def _edge(self, event: CaseStarted | CaseFinished | CaseFailed) -> None:
        """Check that a case begins and ends, in this order, and ends once."""
        name = WIRE_TAGS[type(event)]
        watched = self._case(event.case, name)
        if watched.is_over:
            raise MisbehavedError(f"The agent sent {name} of {event.case}, which was over.")
        if isinstance(event, CaseStarted):
            watched.starts += 1
            watched.rounds.clear()
            watched.counts.clear()
            if watched.starts > MOST_STARTS:
                raise MisbehavedError(f"The agent began {event.case} {watched.starts} times.")
            return
        if isinstance(event, CaseFinished) and not any(watched.rounds.values()):
            raise MisbehavedError(f"The agent finished {event.case}, of which it had timed nothing.")
        if isinstance(event, CaseFailed) and event.device and event.device not in (self._devices or ()):
            raise MisbehavedError(f"The agent sent CaseFailed on {event.device[:100]!r}, which is none of its devices.")
        watched.is_over = True
        watched.rounds.clear()
        watched.counts.clear()
        self._open -= 1

    def _at_work(self, key: str, device: str, name: str) -> _Watched:
        """Return the case, which has begun and is not over, on a device of this run."""
        watched = self._case(key, name)
        if not watched.starts or watched.is_over:
            raise MisbehavedError(
                f"The agent sent {name} of {key}, which {'was over' if watched.is_over else 'never began'}."
            )
        self._device(device, name)
        return watched

    def _device(self, device: str, name: str) -> None:
        if device not in (self._devices or ()):
            raise MisbehavedError(f"The agent sent {name} of {device[:100]!r}, which is none of its devices.")

    def _half_round(self, event: DeviceSampled, plan: Plan) -> None:
        watched = self._at_work(event.case, event.device, WIRE_TAGS[DeviceSampled])
        if not event.round_index:
            watched.counts["once", event.device] += 1
            too_many = watched.counts["once", event.device] > MOST_ONCE
        else:
            too_many = not watched.rounds.get(event.device, 0) < event.round_index <= most_rounds(plan)
            watched.rounds[event.device] = event.round_index
        if too_many:
            raise MisbehavedError(
                f"The agent sent round {event.round_index:,} of {event.case} out of order, or too many."
            )

    def _measured(self, event: Event) -> None:
        """Check what comes a few times for a case on a device; energy is measured of an idle device too."""
        name, key, device = WIRE_TAGS[type(event)], getattr(event, "case", ""), getattr(event, "device", "")
        if isinstance(event, AFTERWARDS):
            counts = self._case(key, name).counts if key else self._idle
            self._device(device, name)
        else:
            counts = self._at_work(key, device, name).counts
        counts[name, device] += 1
        if counts[name, device] > PER_DEVICE[type(event)]:
            raise MisbehavedError(
                f"The agent sent {name} of {key or 'no case'} on {device} {counts[name, device]:,} times."
            )

    def _choose(self, case: Case, plan: Plan) -> None:
        """Check that a search goes on between the sizes that it began with, and comes to an end."""
        sizes = self._sweeps.get(case.sweep)
        if plan.search is None or not sizes or case.key in self._cases:
            raise MisbehavedError(f"The agent chose {case.key[:100]!r}, which nobody searches for.")
        if not min(sizes) < case.size < max(sizes) or len(sizes) >= plan.search.most_cases:
            raise MisbehavedError(f"The agent chose {case.key}, which is outside its search.")
        self._add(case)

    def _ceilings(self, event: CeilingsMeasured, plan: Plan) -> None:
        """Check that ceilings were asked for, and are of the machine that said hello: they are kept by its name."""
        found, facts = event.ceilings, self._hello.environment if self._hello is not None else {}
        self._device(found.device, "CeilingsMeasured")
        self._counts[f"ceilings of {found.device}"] += 1
        is_asked = plan.calibrate or plan.ceilings_s is not None
        if not is_asked or self._counts[f"ceilings of {found.device}"] > 1:
            raise MisbehavedError(f"The agent sent ceilings of {found.device}, which nobody asked for.")
        if found.hostname != str(facts.get("hostname")):
            raise MisbehavedError("The agent sent ceilings of another machine.")


def most_rounds(plan: Plan) -> int:
    """Return the most rounds of a case: while one device is below its least number the others go on beside it."""
    return 2 * max(plan.rounds, plan.max_rounds)
