"""What each line of a person's own code costs, and why, in calls that are profiled.

Watching a call disturbs its time, so each quantity has a call of its own, and none of these gives a row's time:

- traced: Python reports each line. Operators are not watched, so waits are about as long as without a profiler.
- watched: torch's dispatcher reports each operator. Its host time says what a line spends its time on.
- synchronised, on a GPU: a wait after each operator. It gives the time that the GPU needs after the launch.
"""

from __future__ import annotations

import linecache
import math
import os
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from types import FrameType
from typing import Any

from cpugpu_tui.model import LineCost, LinesProfiled, OwnCode, line_costs
from cpugpu_tui.timing.timers.timed_operation import Operation
from cpugpu_tui.workloads.code_workload import CodeWorkload
from cpugpu_tui.workloads.operators import intercepted, is_own_file, own_line, role_of

REPEATS, LONG_NS = 3, 1e8
"""The fastest of `REPEATS` calls counts. Code that takes `LONG_NS` or more is called once."""

LONGEST_TRACE_NS = 10e9
"""Reporting lines makes loops of plain Python up to 30 times slower. After this time, the rest of a call runs without
it and is given to no line."""

MANY = 8
"""A line that is visited so often is a loop, and so many operators are many."""

SMALL_NS, SMALL_TRIVIAL = 50_000.0, 4
"""Operators are small if their mean time is below `SMALL_NS`, or below `SMALL_TRIVIAL` times that of adding two
numbers: what surrounds them costs as much as they do. On a busy machine that addition may take more than 50 µs."""

TRIVIAL_CALLS = 50
"""Number of such additions that are timed."""

MOST_KEPT = 10_000
"""Visits and operators of a line whose times are kept one by one. For each of them the shortest time of all calls
counts, so a pause of the process in one call does not."""

LEAST_SHARE = 0.01
"""Lines below this share of the call are left out."""

Place = tuple[str, int]
"""File and line."""

Wait = Callable[[], None]

Call = Callable[[], float]
"""Makes a call and returns its time until the device has finished, ns."""


class Durations:
    """Times of what a line does again and again in the same order, ns."""

    def __init__(self) -> None:
        self.kept_ns: list[float] = []
        self.rest_ns = 0.0

    def add(self, elapsed_ns: float) -> None:
        """Append the next time."""
        if len(self.kept_ns) < MOST_KEPT:
            self.kept_ns.append(elapsed_ns)
        else:
            self.rest_ns += elapsed_ns


def undisturbed_ns(calls: Sequence[Durations | None]) -> float | None:
    """Return the sum of the shortest times over the calls that did the same; None if no call did anything."""
    there = [each for each in calls if each is not None]
    if not there:
        return None
    most = max(len(each.kept_ns) for each in there)
    same = [each for each in there if len(each.kept_ns) == most]
    shortest_ns = [min(times_ns) for times_ns in zip(*(each.kept_ns for each in same), strict=True)]
    return math.fsum([*shortest_ns, min(each.rest_ns for each in same)])


class LineClock:
    """Gives the time of a call to the innermost running line of own code, as Python reports it."""

    def __init__(self, named: frozenset[str]) -> None:
        import torch

        self.spent_ns: dict[Place, float] = defaultdict(float)
        self.visits: Counter[Place] = Counter()
        self.stretches: dict[Place, Durations] = {}
        """Times between two reports of Python; a visit that calls other own code has several."""
        self.prints: Counter[Place] = Counter()
        """Tensors turned into text, which torch hides from its dispatcher."""
        self._printing = torch._tensor_str._str.__code__
        self._named = named
        self._running: list[Place | None] = []  # None before the first line of a function
        self._since_ns = self._begun_ns = perf_counter_ns()

    def run(self, call: Call) -> float:
        """Make a call and return what it returns."""
        before = sys.gettrace()
        self._begun_ns = perf_counter_ns()
        sys.settrace(self._enter)
        try:
            return call()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, _event: str, _value: object) -> Any:
        file = frame.f_code.co_filename
        if not is_own_file(file) and file not in self._named:
            if frame.f_code is self._printing and self._running and (place := self._running[-1]) is not None:
                self.prints[place] += 1
            return None
        self._book()
        self._running.append(None)
        self._since_ns = perf_counter_ns()
        return self._step

    def _step(self, frame: FrameType, event: str, _value: object) -> Any:
        self._book()
        if event == "line":
            self._running[-1] = place = (frame.f_code.co_filename, frame.f_lineno)
            self.visits[place] += 1
        elif event == "return":
            self._running.pop()
        self._since_ns = perf_counter_ns()  # the time in this method counts for no line
        if self._since_ns - self._begun_ns > LONGEST_TRACE_NS:
            sys.settrace(None)
        return self._step

    def _book(self) -> None:
        if self._running and (place := self._running[-1]) is not None:
            elapsed_ns = perf_counter_ns() - self._since_ns
            self.spent_ns[place] += elapsed_ns
            if place not in self.stretches:
                self.stretches[place] = Durations()
            self.stretches[place].add(elapsed_ns)


@dataclass
class LineOperators:
    """The operators of one line."""

    role_ns: Counter[str] = field(default_factory=Counter)
    """Role (`operators.role_of`) → host time, ns."""
    counts: Counter[str] = field(default_factory=Counter)
    """Role → number."""
    elapsed_ns: float = 0.0
    """Time of the whole line in the same call, ns. Operators take longer than usual in it, because they are watched."""
    prints: int = 0
    device_ns: float = 0.0
    launched: Durations = field(default_factory=Durations)
    """Times on the device, one for each operator."""
    bytes_to_gpu: int = 0
    bytes_to_host: int = 0

    @property
    def operators(self) -> int:
        """Operators that compute."""
        return self.counts[line_costs.WORK] + self.counts[line_costs.WAIT] + self.counts[line_costs.FALLBACK]


class OperatorClock:
    """Times the operators of each line; with `wait` also until the GPU has finished each of them."""

    def __init__(self, kind: str, named: frozenset[str], wait: Wait | None = None) -> None:
        self.lines: dict[Place, LineOperators] = {}
        self._kind = kind
        self._named = named
        self._wait = wait
        self._idle_ns = min(_length_ns(wait) for _ in range(10)) if wait is not None else 0.0
        self._thread = threading.get_ident()

    def run(self, call: Call) -> float:
        """Make a call and return what it returns."""
        with intercepted(self._operator):
            return call()

    def _operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        # A backward pass calls operators in threads of its own, for the line at which the calling thread waits.
        caller = sys._current_frames().get(self._thread)
        place = own_line(sys._getframe(), self._named) or own_line(caller, self._named)
        started = perf_counter_ns()
        result = func(*args, **kwargs)
        elapsed_ns = perf_counter_ns() - started
        left_ns = _length_ns(self._wait) - self._idle_ns if self._wait is not None else 0.0
        if place is not None:
            role, sources, results = role_of(func, args, result, self._kind)
            line = self.lines.setdefault(place, LineOperators())
            line.role_ns[role] += elapsed_ns
            line.counts[role] += 1
            line.launched.add(max(0.0, left_ns))
            if role == line_costs.COPY:
                moved_bytes = results[0].numel() * results[0].element_size()
                line.bytes_to_gpu += moved_bytes if results[0].device.type == "cuda" else 0
                line.bytes_to_host += moved_bytes if sources[-1].device.type == "cuda" else 0
        return result


def _length_ns(call: Wait) -> float:
    started = perf_counter_ns()
    call()
    return float(perf_counter_ns() - started)


def profile_lines(op: Operation, workload: CodeWorkload, device: str, wait: Wait | None) -> LinesProfiled:
    """Profile calls of own code on a device. `wait` waits for the GPU; None for the CPU."""
    kind, named = device.partition(":")[0], workload.named_files

    def call() -> float:
        workload.reset(op.case.variant, op.inputs)
        if wait is not None:
            wait()
        started = perf_counter_ns()
        op.step(*op.inputs)
        if wait is not None:
            wait()
        return float(perf_counter_ns() - started)

    unprofiled_ns = call()
    repeats = REPEATS if unprofiled_ns < LONG_NS else 1

    if repeats > 1:
        unprofiled_ns = min(call() for _ in range(repeats))
    traces = [_traced(call, named) for _ in range(repeats)]
    profiled_ns, traced = min(traces, key=lambda found: found[0])
    for place, spent_ns in traced.spent_ns.items():
        shortest_ns = undisturbed_ns([clock.stretches.get(place) for _, clock in traces])
        traced.spent_ns[place] = min(spent_ns, shortest_ns if shortest_ns is not None else spent_ns)
        profiled_ns -= spent_ns - traced.spent_ns[place]
    _, lines = min((_watched(call, kind, named) for _ in range(repeats)), key=lambda found: found[0])
    if wait is not None:
        synchronised = [_synchronised(call, kind, named, wait) for _ in range(repeats)]
        for place in {place: None for found in synchronised for place in found}:
            each = [found[place].launched if place in found else None for found in synchronised]
            lines.setdefault(place, LineOperators()).device_ns = undisturbed_ns(each) or 0.0
    small_ns = max(SMALL_NS, SMALL_TRIVIAL * _trivial_ns(device, wait))
    costs = [
        _cost(place, traced, lines[place], workload.code, profiled_ns, small_ns, on_gpu=wait is not None)
        for place in lines
        if not (workload.code.target and place[0] == line_costs.STATEMENT)  # which the person did not write
    ]  # fmt: skip
    costs = sorted((cost for cost in costs if cost.share >= LEAST_SHARE), key=lambda cost: -cost.share)
    return LinesProfiled(
        case=op.case.key, device=device, lines=tuple(costs[:line_costs.MOST_LINES]),
        profiled_ns=profiled_ns, unprofiled_ns=unprofiled_ns,
    )  # fmt: skip


def _traced(call: Call, named: frozenset[str]) -> tuple[float, LineClock]:
    clock = LineClock(named)
    return clock.run(call), clock


def _watched(call: Call, kind: str, named: frozenset[str]) -> tuple[float, dict[Place, LineOperators]]:
    """Return the operators of each line that ran."""
    clock, traced = OperatorClock(kind, named), LineClock(named)
    total_ns = traced.run(lambda: clock.run(call))
    for place, spent_ns in traced.spent_ns.items():
        line = clock.lines.setdefault(place, LineOperators())
        line.elapsed_ns, line.prints = spent_ns, traced.prints[place]
    return total_ns, clock.lines


def _synchronised(call: Call, kind: str, named: frozenset[str], wait: Wait) -> dict[Place, LineOperators]:
    clock = OperatorClock(kind, named, wait)
    clock.run(call)
    return clock.lines


def _trivial_ns(device: str, wait: Wait | None) -> float:
    """Return the mean time of adding two numbers on a device, as long as it takes now."""
    import torch

    one = torch.ones(1, device=device)

    def added() -> None:
        for _ in range(TRIVIAL_CALLS):
            one.add(one)
            if wait is not None:
                wait()

    added()  # the first call may load what it needs
    return _length_ns(added) / TRIVIAL_CALLS


def _cost(
    place: Place, traced: LineClock, seen: LineOperators, code: OwnCode, profiled_ns: float, small_ns: float, *,
    on_gpu: bool,
) -> LineCost:  # fmt: skip
    elapsed_ns, visits = float(traced.spent_ns[place]), traced.visits[place]
    file, text = _named(place, code)
    reason = reason_of(seen, elapsed_ns, visits, small_ns, on_gpu=on_gpu)
    return LineCost(
        file=file[-line_costs.LONGEST_LINE:], line=place[1], source_line=text[:line_costs.LONGEST_LINE], reason=reason,
        elapsed_ns=elapsed_ns, device_ns=seen.device_ns, share=max(elapsed_ns, seen.device_ns) / max(profiled_ns, 1.0),
        visits=visits, operators=seen.operators, on_cpu=seen.counts[line_costs.FALLBACK],
        synchronisations=seen.counts[line_costs.WAIT] + seen.prints,
        bytes_to_gpu=seen.bytes_to_gpu, bytes_to_host=seen.bytes_to_host,
    )  # fmt: skip


def _named(place: Place, code: OwnCode) -> tuple[str, str]:
    """Return the short name of a line's file, and the line."""
    file, line = place
    if file == line_costs.STATEMENT:
        return "statement", code.statement
    if file == line_costs.SETUP:
        return "setup", code.setup[line - 1].strip() if line <= len(code.setup) else ""
    return os.path.basename(file), linecache.getline(file, line).strip()


def reason_of(seen: LineOperators, elapsed_ns: float, visits: int, small_ns: float, *, on_gpu: bool) -> str:
    """Return what most of a line's time goes into, one of `LINE_REASONS`; operators below `small_ns` are small."""
    operators_ns, count, is_loop = seen.role_ns.total(), seen.operators, visits >= MANY
    if seen.prints and operators_ns < elapsed_ns / 2:
        return line_costs.WAIT
    if not seen.counts[line_costs.COPY] and not count:
        return line_costs.LOOP if is_loop else line_costs.OUTSIDE
    mean_ns = max(elapsed_ns, seen.device_ns) / max(count, 1)
    is_small = count >= MANY and mean_ns < small_ns
    if is_small and is_loop and not on_gpu:
        return line_costs.LOOP  # reading a number costs no wait here
    for role in (line_costs.WAIT, line_costs.COPY, line_costs.FALLBACK):
        if seen.counts[role] and seen.role_ns[role] >= operators_ns / 2:
            return role
    if is_small and on_gpu and seen.counts[line_costs.WAIT] >= max(visits / 2, MANY):
        return line_costs.WAIT  # short waits, but each pass has one, so the GPU never has the next kernel queued
    if is_small:
        return line_costs.LOOP if is_loop else line_costs.SMALL
    # The line's time in either call may hold a disturbance, so the shorter one counts.
    is_outside = operators_ns + seen.device_ns < min(elapsed_ns, seen.elapsed_ns) / 2
    return line_costs.OUTSIDE if is_outside and mean_ns >= small_ns else line_costs.WORK
