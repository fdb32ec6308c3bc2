"""The protocol of one case: first calls, check of results, warm-up, rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from cpugpu_tui import model
from cpugpu_tui.decide.comparison import Comparison
from cpugpu_tui.decide.correlation import Correlation, Pool
from cpugpu_tui.decide.next_size import is_clear, is_futile, is_settled
from cpugpu_tui.decide.verdict import case_correlation, is_converged, is_usable
from cpugpu_tui.timing.channel import Control, Emit
from cpugpu_tui.timing.device_readings import LONG_NS, NOT_WATCHED, CaseEdges, Meter, Passage, energy_between, passage
from cpugpu_tui.timing.device_run import DeviceRun, Samples, compare_runs, core_waits, open_mark
from cpugpu_tui.timing.host_watch import UNTIMED, is_starved
from cpugpu_tui.timing.timers import FirstCall, Instant, Machine, Readiness, Singles, Stopped, Timer, now
from cpugpu_tui.timing.timers.timed_operation import Reporter
from cpugpu_tui.timing.warm_up import BLOCK_NS, longest_ns, shortest_ns, sizing, warm_up
from cpugpu_tui.workloads import case_costs, is_compiled

QUICK_ROUND_NS = 50e6
"""Shortest round of a brief plan of which each device is announced: each time the reader took 1 ms, 15 of 276 s."""

LONGEST_REPEATED_FIRST_CALL_NS = 10e9
"""A first call longer than the budget may include library loading. Below this length it is repeated and the second call
is the sample; above it the first call is."""


class CaseRun:
    """A case in progress: call `begin`, then `half_rounds` until `done`, then `finish`."""

    def __init__(
        self, case: model.Case, plan: model.Plan, machine: Machine, emit: Emit, control: Control,
        should_stop: Callable[[], bool] = lambda: False, is_cut: Callable[[int], bool] = lambda _rounds: False, *,
        without_cpu: bool = False, pool: Pool | None = None,
    ) -> None:  # fmt: skip
        """`should_stop` is polled before each step; `is_cut`: whether time is over, by rounds; `without_cpu` leaves
        the CPU out; `pool` is that of the run."""
        self.case = case
        self._plan = plan
        self._machine = machine
        self._emit = emit
        self._control = control
        self._should_stop = should_stop
        self._is_cut = is_cut
        self.is_cut = False  # whether time was over before the rounds ended
        self._pool = pool or Pool()
        self._devices = tuple(d for d in machine.devices if not (without_cpu and d.is_cpu))
        self.runs: list[DeviceRun] = []
        self.comparisons: dict[str, Comparison] = {}
        """GPU → current comparison with the CPU, resident inputs; only GPUs with rounds in common with the CPU."""
        self.moved_comparisons: dict[str, Comparison] = {}
        """The same with copies."""
        self.judgements = 0  # how often these comparisons were made
        self.is_over = False  # finished or failed
        self.device: str | None = None
        """The device in use, to name it in a failure; None between devices."""
        self.round_index = 0
        self.rounds_complete = 0
        self.converged = False  # whether the confidence interval is narrow enough, or more rounds are futile
        self._is_futile = False  # whether more rounds would not show a winner
        self._begun = machine.watch.snapshot()
        self._edges = CaseEdges(case, machine.watcher, emit)
        self._long_calls: dict[str, model.EnergyMeasured] = {}
        self._check: Any = None
        self.is_checked = False  # whether results were compared; such cases are also profiled

    @property
    def is_called_again(self) -> bool:
        """Return whether calls are short enough to be repeated for their energy, kernels and lines."""
        return not any(run.is_timed_once or run.is_long for run in self.runs)

    @property
    def done(self) -> bool:
        """Return whether every device has its least rounds, and the interval is narrow or the budget is spent."""
        has_least = all(len(run.round_ns) >= run.rounds for run in self.runs)
        return has_least and (self.converged or self.is_starved or self.is_exhausted)

    @property
    def is_starved(self) -> bool:
        """Return whether threads waited for a core in every repetition on some device; the case then has no winner."""
        return any(run.lack.stays for run in self.runs)

    @property
    def is_exhausted(self) -> bool:
        """Return whether a device has spent its rounds or budget: further rounds would have no partner."""
        return any(run.exhausted(self._plan.budget_ns) for run in self.runs) or not self.runs

    def begin(self, *, check: bool, warmed: set[str]) -> None:
        """Run the publication's clock, create inputs, make the first call on each device, check results, warm up.

        Raises:
            CaseError: the case cannot continue.
            Stopped: the run must end.
        """
        if self._plan.codes:  # to learn its costs runs a person's code, which may hang or end the process
            self._announce("inputs", "cpu")
        costs, operations = case_costs(self.case), self._written_operations()
        key, moved = self.case.key, costs.bytes_moved
        self._emit(model.CaseStarted(case=key, flops=costs.flops, bytes_moved=moved, operations=operations))
        if operations and self._machine.has_whole_clock(self.case):
            self._run_as_written()
        self.is_checked = check
        self._announce("inputs", "cpu")
        inputs = self._machine.make_inputs(self.case)
        for checked in self._machine.clocks_checked():
            self._emit(checked)
        results = self._first_calls(inputs)
        if check:
            self._announce("check", "cpu")
            self._check = self._machine.check(self.case, inputs, results, exact=True)
        results.clear()
        for run in self.runs:
            self.device = run.name
            self._warm_up(run, first_case=run.name not in warmed)
            warmed.add(run.name)
        for run in self.runs:  # on an H200, 236 of a sweep's 1,031 s went to rounds of the GPU without a partner
            run.rounds = min(each.rounds for each in self.runs)

    def _written_operations(self) -> int:
        """Return the number of calls between the publication's clock readings; 0 if this plan does not run them."""
        # A search skips whole experiments such as trainings.
        is_skipped = self._plan.search is not None and self._machine.has_whole_clock(self.case)
        is_wanted = model.AS_WRITTEN in self._plan.metrics and not is_skipped
        return self._machine.operations(self.case) if is_wanted else 0

    def _run_as_written(self) -> None:
        """Time a whole experiment with the publication's clock, before anything else uses the device."""
        for device in self._devices:
            self.device = device.name
            self._announce("as written", device.name)
            started = now()
            self._control.was_suspended = False
            reporter = Reporter(self.case, device.name, self._emit, self._should_stop)
            singles = self._machine.written(self.case, device.name, reporter)
            # A sample with a suspension (ctrl+z) in it is invalid. It cannot be repeated, so it is dropped.
            if not self._control.suspended_meanwhile():
                self._emit(self._timed(device.name, 1, dict(singles), Readiness(), (), started, now()))
        self.device = None

    def _first_calls(self, inputs: Any) -> dict[str, Any]:
        results: dict[str, Any] = {}
        # CPU first, as in the publications.
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
            if first.elapsed_ns >= LONG_NS:  # a call that may be the only one is also its energy window
                self._note_energy(device.name, before)
            results[device.name] = first.result
            inside, outside = self._machine.placement(operation, first.result, device.name)
            self._emit(model.TensorsPlaced(case=self.case.key, device=device.name, inputs=inside, results=outside))
            if (traced := self._machine.examine(operation, device.name)) is not None:
                self._emit(traced)
            wanted, first_ns = self._wanted(first.singles), first.elapsed_ns
            if self._control.suspended_meanwhile():
                self._long_calls.pop(device.name, None)
                wanted, first_ns = {}, timer.latency_block(operation, 1)
            if is_compiled(self.case):
                self._long_calls.pop(device.name, None)
                first = self._compile(timer, operation)
                results[device.name], first_ns, waited = first.result, first.elapsed_ns, None
            self.runs.append(DeviceRun(timer, operation, first_ns, waited=waited))
            if wanted:
                self._emit(self._timed(device.name, 1, wanted, Readiness(), (), started, ended))
        self.device = None
        return results

    def _compile(self, timer: Timer, operation: Any) -> FirstCall:
        """Compile the operation, which was called eagerly before; return its next call, which the cost leaves out."""
        self._announce(model.COMPILING, timer.device.name)
        while True:
            self._control.was_suspended = False
            found = self._machine.compile(operation, timer.device.name, self._announce)
            first = timer.first_call(operation)
            if not self._control.suspended_meanwhile():
                break
        self._emit(replace(found, elapsed_ns=max(0.0, found.elapsed_ns - first.elapsed_ns)))
        return first

    def _wanted(self, singles: Singles) -> Samples:
        unwanted = {model.COLD_START, model.AS_WRITTEN} - set(self._plan.metrics)
        return {name: values for name, values in singles.items() if not name.startswith(tuple(unwanted))}

    def _announce(self, phase: str, device: str, estimate_ns: float | None = None, note: str = "") -> None:
        """Announce the next step and flush, so that the controller knows the step if the process dies in it.

        Raises:
            Stopped: the run must end.
        """
        if self._should_stop():
            raise Stopped
        self._emit(
            model.Progressed(
                case=self.case.key, device=device, phase=phase, round_index=self.round_index,
                estimate_s=None if estimate_ns is None else estimate_ns / 1e9, note=note,
            )
        )  # fmt: skip
        self._emit.flush()
        if phase not in UNTIMED:
            self._machine.watch.await_reader()

    def _warm_up(self, run: DeviceRun, *, first_case: bool) -> None:
        budget_ns, watch = self._plan.budget_ns, self._machine.watch
        self._announce("warm-up", run.name, run.first_ns)
        if budget_ns < run.first_ns < LONGEST_REPEATED_FIRST_CALL_NS:
            before = Meter.read(self._machine.watcher(run.name))
            watch.begin(run.timer.device)
            run.first_ns = run.timer.latency_block(run.operation, 1)
            run.waited = watch.end().waited
            self._note_energy(run.name, before)
        if run.first_ns > budget_ns or self._plan.times_commands:  # one warm-up run of a process is enough
            run.estimate_ns, stable = run.first_ns, True
        else:
            watch.begin(run.timer.device)
            run.estimate_ns, stable = warm_up(
                lambda calls: run.timer.latency_block(run.operation, calls),
                self._plan.blocks, shortest_ns(self._plan, is_first=first_case), longest_ns(self._plan), self._control,
                is_brief=self._plan.is_brief,
            )  # fmt: skip
            run.is_estimate_poor = is_starved(watch.end().waited)
        run.is_long = run.first_ns > budget_ns and run.name in self._long_calls
        run.calls, run.blocks, run.rounds = sizing(run.estimate_ns, self._plan)
        run.max_rounds = max(run.rounds, 1 if run.first_ns > budget_ns else self._plan.max_rounds)
        if run.is_long:
            self._emit(self._long_calls.pop(run.name))
        self._emit(
            model.Calibrated(
                case=self.case.key, device=run.name, estimate_ns=run.estimate_ns, calls_per_block=run.calls,
                blocks=run.blocks, rounds=run.rounds, max_rounds=run.max_rounds, threads=run.timer.threads(),
                stable=stable,
            )
        )  # fmt: skip

    def _note_energy(self, device: str, before: Meter) -> None:
        """Store the energy of a long call, which may be the only one and is long enough for a window."""
        watcher = self._machine.watcher(device)
        self._long_calls[device] = energy_between(self.case.key, device, watcher, before, Meter.read(watcher), calls=1)

    def half_rounds(self) -> Iterator[None]:
        """Time the next round, one device per step; the order of devices alternates between rounds."""
        self.round_index += 1
        runs = self.runs if self.round_index % 2 else self.runs[::-1]
        is_quick = self._plan.is_brief and sum(run.half_round_ns for run in runs) < QUICK_ROUND_NS
        if is_quick:
            self._announce("round", "")
        for run in runs:
            self.device = run.name
            # A slow device, or one that is timed once, may have finished while the others still need rounds.
            if len(run.round_ns) < run.rounds or not run.exhausted(self._plan.budget_ns):
                while not self._emit_half_round(run, is_last=run is runs[-1], is_announced=is_quick):
                    yield
            yield
        self.rounds_complete += 1

    def _emit_half_round(self, run: DeviceRun, *, is_last: bool, is_announced: bool) -> bool:
        """Time a half-round; return False if its threads waited for a core and it must be repeated."""
        if not is_announced:
            self._announce("round", run.name, run.half_round_ns)
        while True:
            self._control.was_suspended = False
            event = self._half_round(run)
            # After a suspension (ctrl+z, fg) the samples are invalid, because the clock kept running.
            if not self._control.suspended_meanwhile():
                break
        if not run.is_timed_once:
            self._machine.check_later_call(run.operation)
        if self._prepare_repeat(run, event):
            run.forget(self.round_index)
            return False
        if run.lack.stays and is_starved(run.waited):
            event = replace(event, marks=(*event.marks, model.NO_CORE))
        if is_last:
            rounds, others = self._correlated()
            self.converged = self._judge(rounds, others)
            self.is_cut = self._is_cut(self.rounds_complete + 1)
            is_open = self._may_converge and not self.is_starved and not (self.converged and not self._is_futile)
            if (self.done or self.is_cut) and is_open and not is_usable(rounds, others, is_compared=self.is_compared):
                event = replace(event, marks=(*event.marks, open_mark(self.runs, is_futile=self.converged)))
        self._emit(event)
        return True

    def _prepare_repeat(self, run: DeviceRun, event: model.DeviceSampled) -> bool:
        """Return whether to repeat a half-round, after a rest or a new warm-up: threads waited for a core in it."""
        # With more threads than cores some always wait, so a repetition does not help.
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
        run.is_estimate_poor = False  # warm up again only once
        return is_short

    @property
    def _may_converge(self) -> bool:
        """Return whether the interval decides the number of rounds: not with a fixed number, nor for long calls."""
        return self._plan.max_rounds > self._plan.rounds and self.is_called_again

    def judge_again(self) -> None:
        """Compare a case again: each further one tells more of the correlation of rounds, on which intervals rest."""
        self._judge(*self._correlated())

    def _correlated(self) -> tuple[list[dict[int, float]], Correlation]:
        rounds = [each.round_ns for each in self.runs]
        return rounds, self._pool.others(self.case.key, case_correlation(rounds, is_compared=self.is_compared))

    def _judge(self, rounds: list[dict[int, float]], others: Correlation) -> bool:
        """Return whether the interval is narrow enough; in a search, also store how each GPU compares with the CPU."""
        # A search also uses sizes whose budget allows fewer rounds: a device may be observed as faster there.
        least = self._plan.rounds if self._plan.search is None else min(run.rounds for run in self.runs)
        if len(self.runs[0].round_ns) < least:
            return False
        if self._plan.search is None or not self.is_compared:
            return is_converged(rounds, others)
        before = self.comparisons, self.moved_comparisons
        self.comparisons, self.moved_comparisons = ({}, {}) if self.is_starved else compare_runs(self.runs, others)
        self.judgements += (self.comparisons, self.moved_comparisons) != before
        found = [*self.comparisons.values(), *self.moved_comparisons.values()]
        self._is_futile = any(is_futile(each, self._plan.max_rounds) for each in found)
        is_each = len(self.comparisons) == len(self.runs) - 1  # a GPU may have no round in common with the CPU
        return is_each and all(is_settled(each, self._plan.max_rounds, full=self._plan.search.full) for each in found)

    @property
    def is_compared(self) -> bool:
        """Return whether CPU and GPU are both timed."""
        return len(self.runs) > 1 and self.runs[0].timer.device.is_cpu

    @property
    def is_clear(self) -> bool:
        """Return whether every GPU is clearly faster or slower than the CPU with resident inputs."""
        return bool(self.comparisons) and all(is_clear(found) for found in self.comparisons.values())

    @property
    def estimated_speedup(self) -> float | None:
        """Return the speedup of the slowest GPU, estimated by warm-up; None without CPU and GPU."""
        slowest_ns = max((run.estimate_ns for run in self.runs[1:]), default=0.0)
        # With threads waiting for a core, 15 µs of work measured as 16 ms: useless for predicting larger sizes.
        if not self.is_compared or not slowest_ns or any(run.is_estimate_poor for run in self.runs):
            return None
        return self.runs[0].estimate_ns / slowest_ns

    def _half_round(self, run: DeviceRun) -> model.DeviceSampled:
        readiness = Readiness()
        if not run.is_timed_once:
            readiness = run.timer.ready(run.operation, run.discarded_calls(self._plan))
            run.run_discarded_block(readiness, self._plan)
        # A case that is timed once was timed in the first call or in warm-up.
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
    ) -> model.DeviceSampled:  # fmt: skip
        return model.DeviceSampled(
            case=self.case.key, device=device, round_index=self.round_index, calls_per_block=calls, samples=samples,
            marks=tuple(dict.fromkeys((*readiness.marks, *marks, *seen.marks))),
            sm_clock_mhz=readiness.sm_clock_mhz, sm_clock_end_mhz=seen.sm_clock_end_mhz, power_mw=seen.power_mw,
            throttled_ns=seen.throttled_ns, watched_ns=seen.watched_ns, started_wall_ns=started.wall_ns,
            ended_wall_ns=ended.wall_ns, started_mono_ns=started.mono_ns, ended_mono_ns=ended.mono_ns,
        )  # fmt: skip

    def finish(self) -> None:
        """Report the case complete and release its tensors."""
        self._edges.end()
        for read in core_waits(self.case, self.runs, self._machine.watch, self._begun, self._plan, self._control):
            self._emit(read)
        self._emit(model.CaseFinished(case=self.case.key, check=self._check))
        self.close()

    def close(self) -> None:
        """Release the tensors after the case has finished or failed."""
        self.is_over = True
        for run in self.runs:
            run.operation = None

    def time_left_ns(self) -> float:
        """Return the expected time of the remaining least rounds, ns."""
        return sum(run.least_left_ns(self.round_index) for run in self.runs)
