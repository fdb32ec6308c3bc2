"""One case, step by step: first calls, check, warm-up, rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from cpugpu_tui.decide.crossover import is_clear
from cpugpu_tui.decide.verdict import Comparison, compare, is_converged, is_usable
from cpugpu_tui.model import (
    AS_WRITTEN,
    COLD_START,
    NO_CORE,
    Calibrated,
    Case,
    CaseFinished,
    CaseStarted,
    DeviceSampled,
    EnergyMeasured,
    Plan,
    Progressed,
    TensorsPlaced,
)
from cpugpu_tui.timing.control import Control
from cpugpu_tui.timing.device_run import DeviceRun, Samples, core_waits
from cpugpu_tui.timing.edges import LONG_NS, NOT_WATCHED, CaseEdges, Meter, Passage, energy_between, passage
from cpugpu_tui.timing.emitter import Emit
from cpugpu_tui.timing.host_watch import READING_S, is_starved
from cpugpu_tui.timing.timers import Instant, Machine, Readiness, Singles, now
from cpugpu_tui.timing.timers.timed_operation import Reporter
from cpugpu_tui.timing.warm_up import (
    BLOCK_NS,
    FIRST_WARMUP_NS,
    SEARCH_WARMUP_NS,
    WARMUP_CAP_NS,
    WARMUP_NS,
    sizing,
    warm_up,
)
from cpugpu_tui.workloads import case_costs

COLD_NS = 10e9
"""A first call may load libraries for seconds: below this length what takes longer than the budget is called once
more, and that is its time; above it the first call is."""


class CaseRun:
    """A case in progress. `begin`, then `half_rounds` until `done`, then `finish`."""

    def __init__(
        self,
        case: Case,
        plan: Plan,
        machine: Machine,
        emit: Emit,
        control: Control,
        over: Callable[[], bool] = lambda: False,
        *,
        without_cpu: bool = False,
    ) -> None:
        """`over` tells long operations whether the run is to end."""
        self.case = case
        self._plan = plan
        self._machine = machine
        self._emit = emit
        self._control = control
        self._over = over
        self._devices = tuple(d for d in machine.devices if not (without_cpu and d.is_cpu))
        self.runs: list[DeviceRun] = []
        self.comparisons: dict[str, Comparison] = {}
        """GPU → CPU against it so far, inputs on the device; without those that had no round beside the CPU."""
        self.moved_comparisons: dict[str, Comparison] = {}
        """The same with data that starts and ends on the host."""
        self.is_over = False  # finished or failed
        self.device: str | None = None
        """The device that is at work, None in between: whom to name when something is raised."""
        self.round_index = 0
        self.rounds_complete = 0
        self.converged = False
        """Whether the interval is narrow enough."""
        self._begun = machine.watch.snapshot()
        self._edges = CaseEdges(case, machine.watcher, emit)
        self._long_calls: dict[str, EnergyMeasured] = {}
        self._check: Any = None
        self.is_checked = False  # whether it belongs to the sample of a sweep that is looked at closely

    @property
    def is_timed_once(self) -> bool:
        """Whether a call takes longer than the budget on some device."""
        return any(run.is_timed_once for run in self.runs)

    @property
    def done(self) -> bool:
        """Whether every device has all its rounds: enough of them, and the interval narrow or the budget spent."""
        if any(len(run.round_ns) < run.rounds for run in self.runs):
            return False
        return self.converged or self.is_starved or self.is_exhausted

    @property
    def is_starved(self) -> bool:
        """Whether threads lacked a core on some device, however often a half-round was repeated: there is no winner."""
        return any(run.lack.stays for run in self.runs)

    @property
    def is_exhausted(self) -> bool:
        """Whether rounds or budget are spent on some device."""
        # One device's end is the case's end: a round that only one device has decides nothing.
        return any(run.exhausted(self._plan.budget_s * 1e9) for run in self.runs) or not self.runs

    def begin(self, *, check: bool, exact: bool, warmed: set[str]) -> None:
        """Run what the publication ran, make inputs, call each device for the first time, compare, warm up.

        Raises:
            CaseError: the case cannot go on.
            Stopped: the run is to end.
        """
        costs = case_costs(self.case)
        operations = self._written_operations()
        self._emit(
            CaseStarted(case=self.case.key, flops=costs.flops, bytes_moved=costs.bytes_moved, operations=operations)
        )
        if operations and self._machine.has_whole_clock(self.case):
            self._run_as_written()
        self.is_checked = check
        self._announce("inputs", "cpu")
        inputs = self._machine.make_inputs(self.case)
        results = self._first_calls(inputs)
        if check:
            self._announce("check", "cpu")
            self._check = self._machine.check(self.case, inputs, results, exact=exact)
        results.clear()
        for run in self.runs:
            self.device = run.name
            self._warm_up(run, first_case=run.name not in warmed)
            warmed.add(run.name)

    def _written_operations(self) -> int:
        """Return the calls' worth of work inside the publication's clock; 0 where this plan does not run it."""
        whole_in_search = self._plan.search is not None and self._machine.has_whole_clock(self.case)
        if AS_WRITTEN not in self._plan.metrics or whole_in_search:  # a whole training is no step of a search
            return 0
        return self._machine.operations(self.case)

    def _run_as_written(self) -> None:
        """Time whole experiments as their publications did: before anything else touches the device."""
        for device in self._devices:
            self.device = device.name
            self._announce("as written", device.name)
            started = now()
            self._control.was_suspended = False
            reporter = Reporter(self.case, device.name, self._emit, self._over)
            singles = self._machine.written(self.case, device.name, reporter)
            # What was suspended half-way holds the time of the suspension; it cannot be repeated, so it is dropped.
            if not self._control.suspended_meanwhile():
                self._emit(self._timed(device.name, 1, dict(singles), Readiness(), (), started, now()))
        self.device = None

    def _first_calls(self, inputs: Any) -> dict[str, Any]:
        results: dict[str, Any] = {}
        # Devices in order, CPU first: the publications' order.
        for device in self._devices:
            self.device = device.name
            timer = self._machine.timer(device.name)
            operation = timer.load(self.case, inputs)
            self._announce("first call", device.name)
            before = self._edges.begin(device.name)
            started = now()
            self._control.was_suspended = False
            self._machine.watch.begin(device)
            first = timer.first_call(operation)
            waited = self._machine.watch.end().waited
            ended = now()
            if first.elapsed_ns >= LONG_NS:  # what may be timed once has its energy from these very edges
                self._note_energy(device.name, before)
            results[device.name] = first.result
            inside, outside = self._machine.placement(operation, first.result, device.name)
            self._emit(TensorsPlaced(case=self.case.key, device=device.name, inputs=inside, results=outside))
            if (traced := self._machine.examine(operation, device.name)) is not None:
                self._emit(traced)
            wanted, first_ns = self._wanted(first.singles), first.elapsed_ns
            if self._control.suspended_meanwhile():
                self._long_calls.pop(device.name, None)
                wanted, first_ns = {}, timer.latency_block(operation, 1)
            self.runs.append(DeviceRun(timer, operation, first_ns, waited=waited))
            if wanted:
                self._emit(self._timed(device.name, 1, wanted, Readiness(), (), started, ended))
        self.device = None
        return results

    def _wanted(self, singles: Singles) -> Samples:
        unwanted = {COLD_START, AS_WRITTEN} - set(self._plan.metrics)
        return {name: values for name, values in singles.items() if not name.startswith(tuple(unwanted))}

    def _announce(self, phase: str, device: str, estimate_ns: float | None = None) -> None:
        """Say what comes next before it can kill the process; written out at once, and read before it begins."""
        self._emit(
            Progressed(
                case=self.case.key, device=device, phase=phase, round_index=self.round_index,
                estimate_s=None if estimate_ns is None else estimate_ns / 1e9,
            )
        )  # fmt: skip
        self._emit.flush()
        if any(each.is_cpu for each in self._devices if each.name == device):
            self._machine.watch.rest(READING_S)

    def _warm_up(self, run: DeviceRun, *, first_case: bool) -> None:
        budget_ns, watch = self._plan.budget_s * 1e9, self._machine.watch
        self._announce("warm-up", run.name, run.first_ns)
        later_ns = WARMUP_NS if self._plan.search is None else SEARCH_WARMUP_NS
        least_ns = FIRST_WARMUP_NS if first_case else later_ns
        if budget_ns < run.first_ns < COLD_NS:
            before = Meter.read(self._machine.watcher(run.name))
            watch.begin(run.timer.device)
            run.first_ns = run.timer.latency_block(run.operation, 1)
            run.waited = watch.end().waited
            self._note_energy(run.name, before)
        if run.first_ns > budget_ns:
            run.estimate_ns, stable = run.first_ns, True
        else:
            cap_ns = min(WARMUP_CAP_NS, 0.6 * budget_ns)
            watch.begin(run.timer.device)
            run.estimate_ns, stable = warm_up(
                lambda calls: run.timer.latency_block(run.operation, calls),
                self._plan.blocks, least_ns, cap_ns, self._control,
            )  # fmt: skip
            run.is_estimate_poor = is_starved(watch.end().waited)
        run.calls, run.blocks, run.rounds = sizing(run.estimate_ns, self._plan)
        run.max_rounds = 1 if run.first_ns > budget_ns else max(run.rounds, self._plan.max_rounds)
        if run.is_timed_once and run.name in self._long_calls:
            self._emit(self._long_calls.pop(run.name))
        self._emit(
            Calibrated(
                case=self.case.key,
                device=run.name,
                estimate_ns=run.estimate_ns,
                calls_per_block=run.calls,
                blocks=run.blocks,
                rounds=run.rounds,
                max_rounds=run.max_rounds,
                threads=run.timer.threads(),
                stable=stable,
            )
        )

    def _note_energy(self, device: str, before: Meter) -> None:
        """Keep the energy of a call that may be the only one: a long one is a window by itself."""
        watcher = self._machine.watcher(device)
        self._long_calls[device] = energy_between(self.case.key, device, watcher, before, Meter.read(watcher), calls=1)

    def half_rounds(self) -> Iterator[None]:
        """Time the next round, one device per step, in flipped order every other round."""
        self.round_index += 1
        runs = self.runs if self.round_index % 2 else self.runs[::-1]
        for run in runs:
            self.device = run.name
            # A device that is timed once, or slow, may have had its last round: the others go on for theirs.
            if len(run.round_ns) < run.rounds or not run.exhausted(self._plan.budget_s * 1e9):
                while not self._emit_half_round(run, is_last=run is runs[-1]):
                    yield
            yield
        self.rounds_complete += 1

    def _emit_half_round(self, run: DeviceRun, *, is_last: bool) -> bool:
        """Time a half-round; return False if its threads lacked a core and it is to be repeated."""
        self._announce("round", run.name, run.estimate_ns * run.calls * run.blocks)
        while True:
            self._control.was_suspended = False
            event = self._half_round(run)
            # Stopped and continued in between (ctrl+z, fg): the clock ran on, the samples are void.
            if not self._control.suspended_meanwhile():
                break
        if not run.is_timed_once:
            self._machine.check_later_call(run.operation)
        if self._is_void(run, event):
            run.forget(self.round_index)
            return False
        if run.lack.stays and is_starved(run.waited):
            event = replace(event, marks=(*event.marks, NO_CORE))
        if is_last:
            self.converged = self._is_converged()
            usable = self.converged or is_usable([each.round_ns for each in self.runs], is_compared=self.is_compared)
            if self.done and self._may_converge and not self.is_starved and not usable:
                event = replace(event, marks=(*event.marks, "not-converged"))
        self._emit(event)
        return True

    def _is_void(self, run: DeviceRun, event: DeviceSampled) -> bool:
        """Whether a half-round is thrown away, for a lack of cores in it or in the warm-up that sized its blocks."""
        # Where there are more threads than cores some always wait: no repetition helps.
        can_repeat = not run.is_timed_once and run.threads <= self._machine.watch.cores
        samples = dict(event.samples)
        if run.lack.is_to_repeat(run.waited, self.round_index, samples, can_repeat=can_repeat):
            self._machine.watch.rest(run.lack.rest_s)
            return True
        is_short = run.calls * run.round_ns[self.round_index] < BLOCK_NS / 2
        if not run.is_estimate_poor or run.is_timed_once or is_starved(run.waited):
            return False
        if is_short:
            run.lack.discard(run.waited, self.round_index, samples)
            self._warm_up(run, first_case=False)
        run.is_estimate_poor = False  # once is enough
        return is_short

    @property
    def _may_converge(self) -> bool:
        """Whether an interval decides at all: not for what is timed once, nor where the number of rounds was named."""
        named = self._plan.max_rounds <= self._plan.rounds
        return not named and not self.is_timed_once

    def _is_converged(self) -> bool:
        if len(self.runs[0].round_ns) < self._plan.rounds:
            return False
        if self._plan.search is None or not self.is_compared:
            return is_converged([run.round_ns for run in self.runs])
        cpu, *gpus = self.runs
        if self.is_starved:
            self.comparisons.clear()
            self.moved_comparisons.clear()
            return False
        for gpu in gpus:
            found, moved = compare(cpu.round_ns, gpu.round_ns), compare(cpu.round_ns, gpu.moved_ns)
            self.comparisons |= {gpu.name: found} if found is not None else {}
            self.moved_comparisons |= {gpu.name: moved} if moved is not None else {}
        return all(is_clear(self.comparisons.get(gpu.name)) for gpu in gpus) and all(
            not gpu.moved_ns or is_clear(self.moved_comparisons.get(gpu.name)) for gpu in gpus
        )

    @property
    def is_compared(self) -> bool:
        """Whether a GPU is timed beside the CPU."""
        return len(self.runs) > 1 and self.runs[0].timer.device.is_cpu

    @property
    def is_clear(self) -> bool:
        """Whether every GPU's lead or lag is clear, inputs on the device."""
        return bool(self.comparisons) and all(is_clear(found) for found in self.comparisons.values())

    @property
    def estimated_speedup(self) -> float | None:
        """CPU / slowest GPU as far as warm-up could tell; None without both."""
        slowest_ns = max((run.estimate_ns for run in self.runs[1:]), default=0.0)
        # While threads wait for a core 15 µs of work read 16 ms: that says nothing of larger sizes.
        if not self.is_compared or not slowest_ns or any(run.is_estimate_poor for run in self.runs):
            return None
        return self.runs[0].estimate_ns / slowest_ns

    def _half_round(self, run: DeviceRun) -> DeviceSampled:
        readiness = Readiness() if run.is_timed_once else run.timer.ready(run.operation, run.calls)
        if not run.is_timed_once:
            run.throw_away()
        # What is timed once was timed long ago.
        watcher = None if run.is_timed_once else self._machine.watcher(run.name)
        before = None if watcher is None else watcher.edge()
        started = now()
        samples, marks = run.take(self.round_index, self._plan, self._machine.watch)
        ended = now()
        seen = passage(before, None if watcher is None else watcher.edge())
        return self._timed(run.name, run.calls, samples, readiness, marks, started, ended, seen)

    def _timed(
        self, device: str, calls: int, samples: Samples, readiness: Readiness, marks: tuple[str, ...],
        started: Instant, ended: Instant, seen: Passage = NOT_WATCHED,
    ) -> DeviceSampled:  # fmt: skip
        return DeviceSampled(
            case=self.case.key,
            device=device,
            round_index=self.round_index,
            calls_per_block=calls,
            samples=samples,
            marks=tuple(dict.fromkeys((*readiness.marks, *marks, *seen.marks))),
            sm_clock_mhz=readiness.sm_clock_mhz,
            sm_clock_end_mhz=seen.sm_clock_end_mhz,
            throttled_ns=seen.throttled_ns,
            watched_ns=seen.watched_ns,
            power_mw=seen.power_mw,
            started_wall_ns=started.wall_ns,
            ended_wall_ns=ended.wall_ns,
            started_mono_ns=started.mono_ns,
            ended_mono_ns=ended.mono_ns,
        )

    def finish(self) -> None:
        """Report the case complete and let go of its tensors."""
        self._edges.end()
        for read in core_waits(self.case, self.runs, self._machine.watch, self._begun, self._plan, self._control):
            self._emit(read)
        self._emit(CaseFinished(case=self.case.key, check=self._check))
        self.close()

    def close(self) -> None:
        """Let go of its tensors: it has finished or failed."""
        self.is_over = True
        self.runs.clear()

    def time_left_ns(self) -> float:
        """Return the expected time of the rounds that are left, at least."""
        return sum(
            max(0, run.rounds - self.round_index) * (run.blocks + 1) * run.calls * run.estimate_ns for run in self.runs
        )
