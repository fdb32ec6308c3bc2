"""A simulated CPU and GPUs with known constants and virtual time, without torch.

Host and GPU have a clock each. A launch costs host time and queues GPU time; a synchronise moves the host's clock to
the end of the GPU's work. So code that does not synchronise measures wrong times, as on a real GPU, by a known factor.

There are three kinds of noise. `noise` varies each sample. `cpu_drift`, `gpu_drift` and `shared_drift` wander from
half-round to half-round. `drift` multiplies all times of a device and case by one factor per run, drawn from the run's
id (`laws.run_factor`), as real machines drift between runs. With `drift=0`, runs of the same seed are identical.
"""

from __future__ import annotations

import math
import os
import random
import sys
import threading
from dataclasses import replace
from typing import Any

from cpugpu_tui import model, workloads
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.model.simulation import GPU_MEMORY_BYTES, MOST_BYTES
from cpugpu_tui.simulation.laws import (
    Drift,
    PlantedLink,
    PlantedWatch,
    Sensors,
    SimulatedGauge,
    SimulatedOperation,
    cpu_work_ns,
    gpu_factor,
    gpu_label,
    gpu_work_ns,
    run_factor,
    tiled,
    transfer_ns,
)
from cpugpu_tui.simulation.simulated_events import SimulatedEvents, VirtualClock
from cpugpu_tui.timing.own_code import raised_by, try_out
from cpugpu_tui.timing.result_check import tried_sketches
from cpugpu_tui.timing.timers import CaseError, DeviceSamples, FirstCall, Kernels, Readiness, Singles, Watch
from cpugpu_tui.timing.timers.cuda import SPIN_CAP_NS, out_of_memory
from cpugpu_tui.timing.timers.event_clock import EventClocks
from cpugpu_tui.workloads import Report

COMPILE_NS = 2e9
"""Cost of compiling a case on one device, ns."""

COMPILED_SHARE = 0.8
"""Time of compiled work, as a share of that of the same work in eager mode."""


class SimulatedTimer:
    """One device of the simulated machine."""

    def __init__(self, device: model.Device, machine: SimulatedMachine) -> None:
        self.device = device
        self._machine = machine
        self._laws = machine.simulation
        self._clock = machine.clock
        self._device_free_ns = 0.0
        self._run_factor = 1.0
        self._process_is_cold, self._threads = True, 2
        deviation = self._laws.cpu_drift if device.is_cpu else self._laws.gpu_drift
        self._drift = Drift(deviation, self._laws.drift_rho, f"{self._laws.seed}/drift/{device.name}")
        self._throttling = random.Random(f"{self._laws.seed}/throttling/{device.name}")
        self._is_throttled = False
        self.sensors = Sensors(machine.simulation, machine.clock, device)
        """The simulated driver's readings of this device."""
        self._last_case: model.Case | None = None
        self._slow_calls = 0

    def threads(self) -> int:
        """Return the threads that the simulated processor uses."""
        return self._threads

    def on_one_thread(self, op: SimulatedOperation) -> SimulatedOperation | None:
        """Return the same operation on one thread; None if it uses one already."""
        is_one = not self.device.is_cpu or self._threads == 1
        return None if is_one else replace(op, case=replace(op.case, threads=1))

    def load(self, case: model.Case, inputs: Any) -> SimulatedOperation:
        """Compute the time of the case; nothing is moved."""
        self._threads = case.threads or 2
        if case.size == self._laws.oom_size and not self.device.is_cpu:
            raise CaseError("oom", f"Needs 18.4 GB on {self.device.name}, 12.1 GB free.", "Choose smaller sizes.")
        costs = workloads.case_costs(case)
        if costs.memory_bytes > MOST_BYTES:
            raise out_of_memory(self.device.name, costs.memory_bytes, self.device.memory_bytes or MOST_BYTES)
        laws, name, is_cpu = self._laws, self.device.name, self.device.is_cpu
        factor, tiles = run_factor(laws, name, case), workloads.case_costs(tiled(laws, case))
        work_ns = cpu_work_ns(laws, case, costs) if is_cpu else gpu_factor(laws, name) * gpu_work_ns(laws, case, tiles)
        if workloads.is_compiled(case):
            work_ns *= COMPILED_SHARE
        return SimulatedOperation(case, factor * work_ns, costs.bytes_moved, factor)

    def first_call(self, op: SimulatedOperation) -> FirstCall:
        """Run once, cold; the paper's clock stops when the launch returns."""
        self._machine.plant_faults(op.case.size)
        cold_ns = self._laws.first_call_ns if self._process_is_cold else 0.0
        started = self._clock.now_ns
        self._clock.advance(cold_ns)
        before_launch = self._clock.now_ns
        self._launch(op)
        launch_ns = self._clock.now_ns - before_launch
        self._synchronize()
        synced_ns = self._clock.now_ns - before_launch
        singles: dict[str, tuple[float, ...]] = {}
        if self._machine.operations(op.case):
            singles |= {model.AS_WRITTEN: (launch_ns,), model.SYNCED: (synced_ns,)}
            if op.case.workload == "jacobian":  # its clock alone has a part: nine tensors that are there already
                singles[model.MOVING] = (9 * self._laws.cpu_overhead_ns,)
        if self._process_is_cold:
            singles[model.COLD_START] = (self._clock.now_ns - started,)
        self._process_is_cold = False
        return FirstCall(self._clock.now_ns - started, singles, op)

    def clock_ns(self) -> float:
        """Return the virtual clock."""
        return self._clock.now_ns

    def ready(self, op: SimulatedOperation, calls: int) -> Readiness:
        """Begin a half-round: advance the drifts and draw the throttling."""
        self._drift.step()
        self._machine.begin_half(self.device.name)
        if self.device.is_cpu:
            self._machine.planted.half_round(op.case)
            return Readiness()
        self._is_throttled = self._throttling.random() < self._laws.throttle_share
        clock_mhz = self._laws.sm_clock_mhz / self._slowdown() or None
        self.sensors.begin_half(clock_mhz, is_throttled=self._is_throttled)
        return Readiness(clock_mhz, ("throttled",) if self._is_throttled else ())

    def _slowdown(self) -> float:
        """Return the factor of all times on this device in this half-round."""
        throttled = self._laws.throttle_factor if self._is_throttled else 1.0
        return self._drift.slowdown * self._machine.shared_drift.slowdown * throttled

    def latency_block(self, op: SimulatedOperation, calls: int) -> float:
        """Return the mean virtual time of calls with a synchronise each."""
        return self._mean_ns(op, calls)

    def _mean_ns(self, op: SimulatedOperation, calls: int) -> float:
        """Return the mean virtual time of calls. Equal ones pass at once: one by one took 2/3 of a run's CPU time."""
        started, left = self._clock.now_ns, calls
        while left and (left == calls or self._slow_calls):
            self._launch(op)
            self._synchronize()
            left -= 1
        laws, gauss, is_cpu = self._laws, self._machine.random.gauss, self.device.is_cpu
        slowdown = self._slowdown() * (self._machine.planted.slowdown(op.case) if is_cpu else 1.0)
        work_ns = slowdown * op.work_ns * sum([math.exp(gauss(0.0, laws.noise)) for _ in range(left)])
        self.sensors.work(work_ns)
        self._clock.advance(work_ns + (0.0 if is_cpu else left * (laws.launch_ns + laws.sync_ns) * op.run_factor))
        return (self._clock.now_ns - started) / calls

    def singles(self, op: SimulatedOperation, count: int) -> dict[str, tuple[float, ...]]:
        """Return the virtual times of single calls, and of their launches."""
        found: dict[str, tuple[float, ...]] = {model.SINGLE: tuple(self._mean_ns(op, 1) for _ in range(count))}
        if not self.device.is_cpu:
            found[model.ENQUEUE] = (self._laws.launch_ns * op.run_factor,) * count
        return found

    def throughput_block(self, op: SimulatedOperation, calls: int) -> float | None:
        """Return the virtual time per call of queued calls with one synchronise; None on the CPU."""
        if self.device.is_cpu:
            return None
        started = self._clock.now_ns
        for _ in range(calls):
            self._launch(op)
        self._synchronize()
        return (self._clock.now_ns - started) / calls

    def end_to_end(self, op: SimulatedOperation, count: int, *, pinned: bool) -> dict[str, tuple[float, ...]]:
        """Return the times of copy, call and copy back; two thirds of the bytes go there, one third comes back.

        Empty on the CPU, and for workloads that are copies themselves.
        """
        if self.device.is_cpu or not workloads.find(op.case.workload).has_end_to_end:
            return {}
        to_gpu_ns, back_ns = (
            op.run_factor * transfer_ns(self._laws, op.bytes_moved * share, pinned=pinned) for share in (2 / 3, 1 / 3)
        )
        samples = []
        for _ in range(count):
            started = self._clock.now_ns
            self._clock.advance(to_gpu_ns)
            self._launch(op)
            self._synchronize()
            self._clock.advance(back_ns)
            samples.append(self._clock.now_ns - started)
        if pinned:
            return {model.PINNED: tuple(samples)}
        return {model.PAGEABLE: tuple(samples), model.H2D_PAGEABLE: (to_gpu_ns,) * count}

    def overheads(self, op: SimulatedOperation) -> dict[str, tuple[float, ...]]:
        """Return the times of a call's parts; empty on the CPU or without a sound event clock. D2H includes a wait."""
        if self.device.is_cpu or not self._is_clock_sound:
            return {}
        sync_ns = op.run_factor * self._laws.sync_ns
        found: dict[str, tuple[float, ...]] = {model.SYNCHRONISE: (sync_ns,), model.DEVICE_WARM: (self._work_ns(op),)}
        if workloads.find(op.case.workload).has_end_to_end:
            copy_ns = op.run_factor * transfer_ns(self._laws, op.bytes_moved / 3, pinned=False)
            found[model.D2H_PAGEABLE] = (sync_ns + copy_ns,)
        self._clock.advance(sum(value for values in found.values() for value in values))
        return found

    def kernels(self, op: SimulatedOperation) -> Kernels | None:
        """Return one kernel with its time; None on the CPU, or without a sound event clock."""
        return None if self.device.is_cpu or not self._is_clock_sound else Kernels(1, self._work_ns(op))

    @property
    def _is_clock_sound(self) -> bool:
        return self._machine.clocks.of(self.device).is_sound

    def device_samples(self, op: SimulatedOperation, count: int) -> DeviceSamples:
        """Return the kernel times of single calls; none without a sound event clock, or if launches take too long."""
        if not self.device.is_cpu and not self._is_clock_sound:
            return DeviceSamples(())
        if not self.device.is_cpu and (op.is_blocking or self._laws.launch_ns > SPIN_CAP_NS):
            return DeviceSamples((), ("blocking" if op.is_blocking else "launch-bound",))
        samples = tuple(self._work_ns(op) for _ in range(count))
        self.sensors.work(sum(samples))
        self._clock.advance(sum(samples))
        return DeviceSamples(samples)

    def _work_ns(self, op: SimulatedOperation) -> float:
        return op.work_ns * self._slowdown() * math.exp(self._machine.random.gauss(0.0, self._laws.noise))

    def _launch(self, op: SimulatedOperation) -> None:
        transient = self._transient(op)
        if self.device.is_cpu:
            self._clock.advance(self._work_ns(op) * transient * self._machine.planted.slowdown(op.case))
            return
        self._run_factor = op.run_factor
        self._clock.advance(self._laws.launch_ns * transient * op.run_factor)
        work_ns = self._work_ns(op)
        self.sensors.work(work_ns)
        self._device_free_ns = max(self._device_free_ns, self._clock.now_ns) + work_ns

    def _transient(self, op: SimulatedOperation) -> float:
        """Return the factor of this call: `transient_calls` calls after another operation are slow."""
        if op.case != self._last_case:
            self._last_case, self._slow_calls = op.case, self._laws.transient_calls
        if self._slow_calls <= 0:
            return 1.0
        self._slow_calls -= 1
        return self._laws.transient_factor

    def _synchronize(self) -> None:
        if not self.device.is_cpu:
            sync_ns = self._laws.sync_ns * self._run_factor
            self._clock.advance(max(0.0, self._device_free_ns - self._clock.now_ns) + sync_ns)


class SimulatedMachine:
    """A simulated CPU and its GPUs."""

    def __init__(self, plan: model.Plan) -> None:
        self.simulation = laws = plan.simulation or model.Simulation()
        self._wanted, self._is_of_two_codes = plan.devices, plan.is_of_two_codes
        self._tried: dict[str, model.CodeTraced | None] = {code.name: None for code in plan.codes}
        self.clock, self.random = VirtualClock(laws.pace), random.Random(laws.seed)
        self.shared_drift = Drift(laws.shared_drift, laws.drift_rho, f"{laws.seed}/drift")
        self._had_half: set[str] = set()
        self.planted = PlantedWatch(laws, self.clock)
        self.watch: Watch = self.planted  # the name that every machine has
        cpu = model.Device("cpu", "simulated CPU", simulated=True)
        gpus = tuple(
            model.Device(f"cuda:{i}", gpu_label(laws, i), f"GPU-SIM{i}", GPU_MEMORY_BYTES, simulated=True)
            for i in range(laws.gpus)
        )
        self.found = (cpu, *gpus)
        self.devices: tuple[model.Device, ...] = self.wanted(plan.devices)
        self.no_gpu: str | None = None if gpus else "The simulated machine has no GPU: CPU results only."
        # A clock that is wrong on purpose must not be covered by a remembered one.
        known = () if laws.event_clock else plan.known_clocks
        self.clocks = EventClocks(known, lambda _device: SimulatedEvents(laws.event_clock))
        self._timers = {device.name: SimulatedTimer(device, self) for device in self.found}

    def open(self) -> None:
        """Do nothing: a simulated GPU has no context."""

    def wanted(self, names: tuple[str, ...]) -> tuple[model.Device, ...]:
        """Return the simulated devices that a plan names.

        Raises:
            UnfitError: the simulated machine lacks a named GPU.
        """
        found = [device.name for device in self.found]
        groups = {"auto": found[:2], "all": found, "cuda": found[1:] or ["cuda:0"]}
        chosen = [each for name in names for each in groups.get(name, [name])]
        for each in chosen:
            if each not in found:
                raise UnfitError(f"The simulated machine has no {each}.", f"Choose from: {', '.join(found)}.")
        return tuple(device for device in self.found if device.name in chosen)

    def timer(self, device: str) -> SimulatedTimer:
        """Return the timer of a device."""
        return self._timers[device]

    def watcher(self, device: str) -> Sensors:
        """Return the sensors of a device."""
        return self._timers[device].sensors

    def begin_half(self, device: str) -> None:
        """Begin a half-round; the shared drift advances once per round."""
        if not self._had_half or device in self._had_half:
            self.shared_drift.step()
            self._had_half.clear()
        self._had_half.add(device)

    def make_inputs(self, case: model.Case) -> None:
        """Check the event clocks, like a real machine; simulated work needs no inputs."""
        self.check_clocks()

    def check(self, case: model.Case, inputs: Any, results: dict[str, Any], *, exact: bool) -> model.Check:
        """Return a match, of two codes with what each really finds on the CPU, or raise the planted mismatch."""
        against = "float64 on the CPU" if exact else "cpu"
        if case.size == self.simulation.mismatch_size:
            raise CaseError("mismatch", f"The results differ by 0.5 of their scale against {against} (allowed: 0.001).",
                            "Do not trust the times of this case; report the mismatch.")  # fmt: skip
        return model.Check(against, 0.0, 1e-3, tried_sketches(case) if self._is_of_two_codes else ())

    def gauge(self, device: str) -> SimulatedGauge:
        """Return the gauge of a device."""
        found = self._timers[device].device
        return SimulatedGauge(found, self.simulation, None if found.is_cpu else self.clocks.of(found))

    def check_clocks(self) -> None:
        """Check the simulated event clock of every GPU."""
        for device in self.devices:
            if not device.is_cpu:
                self.clocks.of(device)

    def clocks_checked(self) -> list[model.ClockChecked]:
        """Return the outcomes of checks since the last call."""
        return self.clocks.untold()

    def peers(self) -> tuple[model.Device, ...]:
        """Return every simulated GPU, or those that the plan names."""
        found = self.found if {"auto", "cuda"} & set(self._wanted) else self.devices
        return tuple(device for device in found if not device.is_cpu)

    def peer_link(self, source: model.Device, target: model.Device) -> PlantedLink:
        """Return the link from one GPU to another."""
        return PlantedLink(self.simulation, self.random, model.place(source.name), model.place(target.name))

    def operations(self, case: model.Case) -> int:
        """Return 1 for a workload of a paper, whose simulated clock times one bare call; 0 for others."""
        return int(workloads.find(case.workload).as_written is not None)

    def has_whole_clock(self, case: model.Case) -> bool:
        """Return False: the simulated paper's clock times only the call."""
        return False

    def written(self, case: model.Case, device: str, report: Report) -> Singles:
        """Return nothing: the simulated paper's clock times only the call."""
        return {}

    def placement(self, operation: SimulatedOperation, result: Any, device: str) -> tuple[tuple[str, ...], ...]:
        """Return a text in place of tensors, of which there are none."""
        return (f"{operation.bytes_moved:,.0f} B on {device}, results included (simulated)",), ()

    def release(self) -> None:
        """Do nothing: nothing was allocated."""

    def examine(self, operation: SimulatedOperation, device: str) -> model.CodeTraced | None:
        """Return one planted operator for own code, unless that is refused as it is tried out on the CPU."""
        if (name := operation.case.workload) not in self._tried:
            return None
        self._tried[name] = try_out(operation.case, device, self._tried[name])
        return model.CodeTraced(case=operation.case.key, device=device, operators=1)

    def compile(self, operation: SimulatedOperation, device: str, *_: object) -> model.CodeCompiled:
        """Return the planted cost; `load` has made the work shorter."""
        self.clock.advance(COMPILE_NS)
        eager = next(iter(workloads.find(operation.case.workload).steps()))
        return model.CodeCompiled(case=operation.case.key, device=device, elapsed_ns=COMPILE_NS, variant=eager)

    def check_later_call(self, operation: SimulatedOperation) -> None:
        """Return nothing: simulated calls have no results."""

    def profile_lines(self, operation: SimulatedOperation, device: str) -> None:
        """Return nothing: simulated calls have no lines."""

    def explain(self, error: Exception | SystemExit, case: model.Case) -> CaseError:
        """Return the failure row for own code that does not run, or for the planted exception."""
        return raised_by(error, case)

    def plant_faults(self, size: int) -> None:
        """Crash, hang or raise if the size asks for it."""
        if size == self.simulation.crash_size:
            print("simulated crash: illegal memory access", file=sys.stderr, flush=True)
            os._exit(134)
        if size == self.simulation.hang_size:
            threading.Event().wait()
        if size == self.simulation.error_size:
            raise RuntimeError("planted error")
