"""Checks an agent's stream against its plan: events may be late or missing, but never impossible.

An agent may run on a stranger's machine, in any interpreter. Each limit follows from the plan, so the agent's output
cannot make the controller use unlimited memory or time.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from cpugpu_tui import model
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.transport.agent_output import BadEvent, Garbage, decode
from cpugpu_tui.transport.event_checks import MOST_DEVICES, fault

STRAY_LINES, STRAY_BYTES = 10_000, 16_000_000
"""Most lines and bytes on stdout that are not events, such as login banners and library output."""

STDERR_BYTES, STDERR_BYTES_PER_S = 256_000_000, 1_000_000
"""Most bytes on stderr: a fixed allowance, and more for each second. A workload may print in each call, all night."""

EVENT_BYTES, HALF_ROUND_BYTES = 256_000, 32_000
"""Longest line of an event, and of a half-round with five blocks. Only `Hello` may be longer."""

SMALL_EVENTS, SMALL_EVENTS_PER_S, SMALL_EVENTS_PER_STEP = 1_000, 100, 10
"""Most `Progressed` and `Gap` events: a fixed allowance, and more for each second and each other event of a case."""

MOST_STARTS = 3
"""How often an agent may start a case: it starts again after it ran out of memory beside other cases."""

MOST_ONCE = 3
"""Most half-rounds before the first round: the paper's clock and the first call are among them."""

MOST_FILES = 10_000
"""Most workload files that an agent may announce."""

PER_DEVICE: dict[type[model.Event], int] = {
    model.Calibrated: 2, model.TensorsPlaced: 1, model.CodeTraced: 1, model.CodeCompiled: 1,
    model.MachineRead: 3, model.EnergyMeasured: 4,
    model.LinesProfiled: 1, model.KernelsProfiled: 1, model.EpochFinished: 10_000,
}  # fmt: skip
"""Most events of a kind for one case on one device."""

CLOCK_SLACK_S = 5.0
"""How far the calls of an agent may exceed the controller's clock, whose start lies before the agent's, seconds."""

AFTERWARDS = (model.EnergyMeasured, model.LinesProfiled, model.KernelsProfiled)
"""Events that may follow the end of their case."""

REMEDY = "Finished cases are saved. Check the agent's interpreter and what it loads, then run again."


class MisbehavedError(CpuGpuError):
    """An agent sent something that no working agent sends, so the rest of its stream cannot be trusted."""

    title = "Agent misbehaved"

    def __init__(self, message: str, remedy: str = REMEDY) -> None:
        super().__init__(message, remedy)


@dataclass(slots=True)
class _Watched:
    """What the agent has sent about one case."""

    starts: int = 0
    is_over: bool = False
    rounds: dict[str, int] = field(default_factory=dict)
    """Device → its last round."""
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(kind of event, device) → count."""


class StreamGuard:
    """Turns the lines of one agent into events, or raises `MisbehavedError`."""

    def __init__(self) -> None:
        self._plan: model.Plan | None = None
        self._hello: model.Hello | None = None
        self._devices: frozenset[str] | None = None
        self._cases: dict[str, _Watched] = {}
        self._sweeps: dict[model.SweepKey, set[int]] = {}
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
        self._timed_ns = 0.0

    # ---------------------------------------------------------------- told by the controller

    def expect(self, plan: model.Plan) -> None:
        """Register the plan; call before it is sent."""
        for case in plan.cases:
            self._add(case)
        for found in plan.search.found if plan.search is not None else ():
            self._sweeps.setdefault(found.case.sweep, set()).add(found.case.size)
        self._plan = plan

    def expect_stop(self) -> None:
        """Allow the agent to report `stopped` from now on."""
        self._is_stop_asked = True

    def _add(self, case: model.Case) -> None:
        self._cases[case.key] = _Watched()
        self._sweeps.setdefault(case.sweep, set()).add(case.size)
        self._open += 1

    # ---------------------------------------------------------------- from the agent

    def read(self, count: int) -> None:
        """Count bytes read from stdout; `event_on` subtracts those of events."""
        self._stray_bytes += count
        if self._stray_bytes > STRAY_BYTES:
            raise MisbehavedError(f"The agent sent over {STRAY_BYTES // 10**6} MB that are not events.")

    def read_stderr(self, count: int) -> None:
        """Count bytes read from stderr."""
        self._stderr_bytes += count
        allowed = STDERR_BYTES + STDERR_BYTES_PER_S * (time.monotonic() - self._started_s)
        if self._stderr_bytes > allowed:
            raise MisbehavedError(
                f"The agent printed over {STDERR_BYTES // 10**6} MB to stderr.", f"{REMEDY} Print less in workloads."
            )

    def dropped(self, lines: int) -> None:
        """Take the total number of lines dropped for their length."""
        if lines > self._dropped_lines and self._hello is not None and not self._is_finished:
            raise MisbehavedError("The agent sent a line of over 1 MB, too long for an event.")
        self._dropped_lines = lines

    def cut_off(self, how: str = "died in the middle of a line") -> MisbehavedError | None:
        """Return the error for a stream without a proper end; None if the run was over or never began."""
        if self._hello is None or self._is_finished:
            return None
        return MisbehavedError(f"The agent {how}.")

    def stray(self) -> None:
        """Count a line that is not an event."""
        self._stray_lines += 1
        if self._stray_lines > STRAY_LINES:
            raise MisbehavedError(f"The agent sent over {STRAY_LINES:,} lines that are not events.")

    def event_on(self, line: bytes) -> model.Event | None:
        """Return the event on a line; None if it is to be ignored.

        Raises:
            Garbage: the line is not an event.
            MisbehavedError: no working agent sends this, or so much of it.
            ProtocolError: the agent speaks another protocol version.
        """
        if self._is_finished:
            return None  # the end of the run was delivered; ignore the rest
        try:
            event = decode(line)
        except BadEvent as error:
            self.stray()
            if self._hello is None:
                raise  # a wrapper may print anything before the agent starts
            raise MisbehavedError(f"The agent sent an invalid event ({str(error)[:200]}).") from error
        except Garbage:
            self.stray()
            raise
        if event is None:
            self.stray()
            return None
        self._check(event, len(line))
        self._stray_bytes -= len(line) + 1
        return event

    # ---------------------------------------------------------------- checks

    def _check(self, event: model.Event, line_bytes: int) -> None:
        name = model.WIRE_TAGS[type(event)]
        if event.seq <= self._seq and not isinstance(event, model.Hello):
            raise MisbehavedError(f"The agent sent {name} out of order: event {event.seq:,} after {self._seq:,}.")
        wrong = fault(event, self._plan)
        if wrong is not None:
            raise MisbehavedError(f"The agent sent {name} {wrong}.")
        self._seq = event.seq
        if isinstance(event, (model.Hello, model.WorkloadsLoading)):
            self._before_the_plan(event)
            return
        if self._hello is None or self._plan is None:
            raise MisbehavedError(f"The agent sent {name} before it had a plan.")
        longest = EVENT_BYTES
        if isinstance(event, model.DeviceSampled) and event.round_index:
            longest = HALF_ROUND_BYTES + 32 * self._plan.blocks
        if line_bytes > longest:
            raise MisbehavedError(f"The agent sent {name} of {line_bytes:,} bytes.")
        if isinstance(event, model.DevicesFound):
            if self._devices is not None:
                raise MisbehavedError("The agent sent its devices twice.")
            self._devices = frozenset(device.name for device in event.devices)
        elif isinstance(event, model.RunFinished):
            self._finish(event)
        elif isinstance(event, (model.Progressed, model.Gap)):
            self._small_event(event)
        elif self._devices is None:
            raise MisbehavedError(f"The agent sent {name} before its devices.")
        else:
            self._step(event, self._plan)

    def _before_the_plan(self, event: model.Hello | model.WorkloadsLoading) -> None:
        imports = isinstance(event, model.WorkloadsLoading) and self._plan is not None and bool(self._plan.codes)
        if self._hello is not None and not (imports and self._devices is None):
            raise MisbehavedError("The agent said hello twice.")
        if isinstance(event, model.Hello):
            self._hello = event
            return
        self._counts["files"] += 1
        if self._counts["files"] > MOST_FILES:
            raise MisbehavedError(f"The agent loaded over {MOST_FILES:,} files.")

    def _finish(self, event: model.RunFinished) -> None:
        if event.status == "done" and (self._open or self._devices is None):
            left = f"{self._open:,} of {len(self._cases):,} cases"
            raise MisbehavedError(f"The agent reported 'done', but {left} have neither finished nor failed.")
        if event.status == "done" and event.exit_code:
            raise MisbehavedError(f"The agent reported 'done' with exit code {event.exit_code}.")
        if event.status == "stopped" and not self._is_stop_asked:
            raise MisbehavedError("The agent reported 'stopped', but nobody asked it to stop.")
        self._is_finished = True

    def _small_event(self, event: model.Progressed | model.Gap) -> None:
        if isinstance(event, model.Progressed) and event.case:
            self._case(event.case, "Progressed")
        self._small += 1
        elapsed_s = time.monotonic() - self._started_s
        if self._small > SMALL_EVENTS + SMALL_EVENTS_PER_S * elapsed_s + SMALL_EVENTS_PER_STEP * self._steps:
            raise MisbehavedError(f"The agent reported its progress {self._small:,} times in {elapsed_s:.0f} s.")

    def _step(self, event: model.Event, plan: model.Plan) -> None:
        """Check an event of a case, or one that may come a limited number of times."""
        self._steps += 1
        match event:
            case model.CaseStarted() | model.CaseFinished() | model.CaseFailed():
                self._edge(event)
            case model.DeviceSampled():
                self._half_round(event, plan)
            case model.CasesChosen():
                for case in event.cases:
                    self._choose(case, plan)
            case model.CeilingsMeasured():
                self._ceilings(event, plan)
            case model.ClockChecked():
                self._device(event.device, "ClockChecked")
                self._counts[f"clock of {event.device}"] += 1
                if self._counts[f"clock of {event.device}"] > 1:
                    raise MisbehavedError(f"The agent sent the check of the clock of {event.device} twice.")
            case model.PeerMeasured():
                pair = event.source.name, event.target.name
                if pair in self._pairs or len(self._pairs) >= MOST_DEVICES**2:
                    raise MisbehavedError("The agent sent PeerMeasured twice for the same GPUs.")
                self._pairs.add(pair)
            case model.TelemetryRead() if plan.reads_driver and self._counts["driver"] <= MOST_DEVICES:
                self._counts["driver"] += 1
            case model.RunStarted() | model.TelemetryRead() | model.EarlierTimed():
                raise MisbehavedError(f"The agent sent {model.WIRE_TAGS[type(event)]}, which agents must not send.")
            case _:
                self._measured(event)

    def _case(self, key: str, name: str) -> _Watched:
        watched = self._cases.get(key)
        if watched is None:
            raise MisbehavedError(f"The agent sent {name} of {key[:100]!r}, a case outside its plan.")
        return watched

    def _edge(self, event: model.CaseStarted | model.CaseFinished | model.CaseFailed) -> None:
        """Check that a case starts before it ends, and ends once."""
        name = model.WIRE_TAGS[type(event)]
        watched = self._case(event.case, name)
        if watched.is_over:
            self._late(event, watched)
            return
        if isinstance(event, model.CaseStarted):
            watched.starts += 1
            watched.rounds.clear()
            watched.counts.clear()
            if watched.starts > MOST_STARTS:
                raise MisbehavedError(f"The agent started {event.case} {watched.starts} times.")
            return
        if isinstance(event, model.CaseFinished) and not any(watched.rounds.values()):
            raise MisbehavedError(f"The agent finished {event.case} without timing it.")
        if isinstance(event, model.CaseFailed) and event.device:
            self._device(event.device, name)
        watched.is_over = True
        watched.rounds.clear()
        watched.counts.clear()
        self._open -= 1

    def _late(self, event: model.CaseStarted | model.CaseFinished | model.CaseFailed, watched: _Watched) -> None:
        """Accept one refusal after the end of a case, of code that has an implementation for each device.

        Whether one used the GPU is known only from a profile. Profiles come after all times, which they would change.
        """
        is_refusal = isinstance(event, model.CaseFailed) and event.kind == "refused"
        may_refuse = self._plan is not None and any(code.sides for code in self._plan.codes)
        if not (is_refusal and may_refuse) or watched.counts["refused", ""]:
            name = model.WIRE_TAGS[type(event)]
            raise MisbehavedError(f"The agent sent {name} of {event.case} after its end.")
        watched.counts["refused", ""] = 1

    def _at_work(self, key: str, device: str, name: str) -> _Watched:
        """Return the case after checking that it is at work, on a device of this run."""
        watched = self._case(key, name)
        if not watched.starts or watched.is_over:
            raise MisbehavedError(
                f"The agent sent {name} of {key} {'after its end' if watched.is_over else 'before its start'}."
            )
        self._device(device, name)
        return watched

    def _device(self, device: str, name: str) -> None:
        if device not in (self._devices or ()):
            raise MisbehavedError(f"The agent sent {name} on {device[:100]!r}, which is not one of its devices.")

    def _half_round(self, event: model.DeviceSampled, plan: model.Plan) -> None:
        watched = self._at_work(event.case, event.device, model.WIRE_TAGS[model.DeviceSampled])
        if not event.round_index:
            watched.counts["once", event.device] += 1
            too_many = watched.counts["once", event.device] > MOST_ONCE
        else:
            # Other devices continue while one has fewer rounds than it needs.
            too_many = (
                not watched.rounds.get(event.device, 0) < event.round_index <= 2 * max(plan.rounds, plan.max_rounds)
            )
            watched.rounds[event.device] = event.round_index
        if plan.simulation is None:  # whose clock is virtual
            self._timed_ns += event.calls_per_block * sum(event.samples.get(model.LATENCY, ()))
            passed_s = time.monotonic() - self._started_s
            if self._timed_ns / 1e9 > 1.05 * passed_s + CLOCK_SLACK_S:
                raise MisbehavedError(
                    f"The agent reported {self._timed_ns / 1e9:,.0f} s of calls in {passed_s:,.0f} s.",
                    f"{REMEDY} The code may change the clock.",
                )
        if too_many:
            raise MisbehavedError(
                f"The agent sent round {event.round_index:,} of {event.case} out of order, or too many rounds."
            )

    def _measured(self, event: model.Event) -> None:
        """Check events with a limit for each case and device; without a case, energy is that of an idle device."""
        name, key, device = model.WIRE_TAGS[type(event)], getattr(event, "case", ""), getattr(event, "device", "")
        if isinstance(event, AFTERWARDS):
            counts = self._case(key, name).counts if key else self._idle
            self._device(device, name)
        else:
            counts = self._at_work(key, device, name).counts
        counts[name, device] += 1
        if counts[name, device] > PER_DEVICE[type(event)]:
            raise MisbehavedError(
                f"The agent sent {name} of {key or 'no case'} {counts[name, device]:,} times on {device}."
            )

    def _choose(self, case: model.Case, plan: model.Plan) -> None:
        """Check that a search stays between its first sizes, and below its limit of cases."""
        sizes = self._sweeps.get(case.sweep)
        if plan.search is None or not sizes or case.key in self._cases:
            raise MisbehavedError(f"The agent chose {case.key[:100]!r}, which is not part of a search.")
        if not min(sizes) < case.size < max(sizes) or len(sizes) >= plan.search.most_cases:
            raise MisbehavedError(f"The agent chose {case.key}, which is outside the range of its search.")
        self._add(case)

    def _ceilings(self, event: model.CeilingsMeasured, plan: model.Plan) -> None:
        """Check that peak rates were asked for and belong to this agent's machine: they are saved by its name."""
        found, facts = event.ceilings, self._hello.environment if self._hello is not None else {}
        self._device(found.device, "CeilingsMeasured")
        self._counts[f"ceilings of {found.device}"] += 1
        is_asked = plan.calibrate or plan.ceilings_s is not None
        if not is_asked or self._counts[f"ceilings of {found.device}"] > 1:
            raise MisbehavedError(f"The agent sent peak rates of {found.device}, which its plan did not ask for.")
        if found.hostname != str(facts.get("hostname")):
            raise MisbehavedError("The agent sent peak rates of another machine.")
