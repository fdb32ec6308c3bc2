"""Passes after all cases: copies between GPUs, energy of a call, lines of own code, kernels of a call.

A failure here does not affect the times of any case. Energy needs seconds of repeated blocks, because the counters step
every 100 ms and a value needs ten steps (method.md, step 10). Reading a counter takes 2.8 to 16 ms, in which the GPU
would cool down between blocks of a case. Kernels come last: the first use of the profiler takes 4 s on an H200, and its
library slows all later launches of the process (launch and synchronise of a 16×16 product: from 16 to 21 µs).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

from cpugpu_tui.model import (
    Case,
    CaseFailed,
    Device,
    EnergyMeasured,
    KernelsProfiled,
    PeerMeasured,
    Progressed,
    Reading,
)
from cpugpu_tui.timing.channel import Control, Emit
from cpugpu_tui.timing.device_readings import Meter, energy_between
from cpugpu_tui.timing.timers import Machine, Watcher
from cpugpu_tui.timing.torch_devices import first_line
from cpugpu_tui.workloads import is_compiled
from cpugpu_tui.workloads.two_implementations import TwoImplementations

WINDOW_NS = 1.5e9
"""Least length of a window, ns: 15 steps of a GPU's counter."""

STRETCH_NS = 25e6
"""Work between two readings of the counter while waiting for its next step, ns. With a block of 2 ms, readings of up to
16 ms would leave the GPU idle most of the time."""

POLL_NS = 100e6
"""Time between two readings of the power, ns; the same as its refresh interval."""

STEP_CAP_NS = 1e9
"""Longest wait for a step of the counter under load, ns."""

REST_NS = 0.5e9
"""Pause before idle power is measured, ns: the effect of a power-capped load lasts this long (method.md)."""

ENERGY_PHASE = "energy"


class Interrupted(Exception):
    """The run must end in the middle of a window."""


class EnergyPass:
    """Measures the energy of each idle device once, then of each case on each device."""

    def __init__(self, machine: Machine, emit: Emit, should_stop: Callable[[], bool], control: Control) -> None:
        """`should_stop` is polled between stretches; `control` tells whether the process was suspended."""
        self._control = control
        self._machine = machine
        self._emit = emit
        self._should_stop = should_stop

    def run(self, cases: Sequence[Case]) -> None:
        """Measure idle devices and cases. A failing case keeps its times; a stop takes effect between two stretches."""
        try:
            for device in self._machine.devices if cases else ():
                self._idle(device.name)
            for case in cases:
                self._case(case)
        except Interrupted:
            pass

    def _idle(self, device: str) -> None:
        """Measure an idle device with its context alive."""
        self._announce("", device)
        watcher = self._machine.watcher(device)

        def stretch() -> int:
            watcher.rest(STRETCH_NS)
            return 0

        if watcher.energy_mj().value is not None:
            watcher.rest(REST_NS)
        self._emit(self._window("", device, watcher, stretch))
        self._emit.flush()

    def _case(self, case: Case) -> None:
        inputs: Any = None
        try:
            for device in self._machine.devices:
                self._announce(case.key, device.name)
                watcher = self._machine.watcher(device.name)
                reading = watcher.energy_mj()
                if reading.value is None:
                    self._emit(without_energy(case.key, device.name, watcher, reading))
                    continue
                inputs = self._machine.make_inputs(case) if inputs is None else inputs
                self._emit(self._window(case.key, device.name, watcher, self._stretch(case, device.name, inputs)))
        except Interrupted:
            raise
        except Exception:  # noqa: BLE001 - its times were sent already, only its energy is missing
            self._machine.release()
        self._emit.flush()

    def _stretch(self, case: Case, device: str, inputs: Any) -> Callable[[], int]:
        """Return a warmed-up function that works for about `STRETCH_NS` and returns its number of calls."""
        timer = self._machine.timer(device)
        operation = loaded(self._machine, case, device, inputs)
        timer.ready(operation, 1)
        call_ns = max(timer.latency_block(operation, 1), 1.0)
        calls = max(1, round(STRETCH_NS / max(timer.latency_block(operation, max(1, int(2e6 / call_ns))), 1.0)))

        def stretch() -> int:
            timer.latency_block(operation, calls)
            return calls

        return stretch

    def _window(self, case: str, device: str, watcher: Watcher, stretch: Callable[[], int]) -> EnergyMeasured:
        """Return a window without a suspension of the process (ctrl+z, fg)."""
        while True:
            self._control.was_suspended = False
            found = self._window_once(case, device, watcher, stretch)
            if not self._control.suspended_meanwhile():
                return found

    def _window_once(self, case: str, device: str, watcher: Watcher, stretch: Callable[[], int]) -> EnergyMeasured:
        """Return a window that starts and ends at a step of the counter.

        Raises:
            Interrupted: the run must end.
        """
        first = Meter.read(watcher)
        if first.reading.value is None:
            return without_energy(case, device, watcher, first.reading)
        before, _ = self._step(watcher, stretch, first)
        calls, power_mw, polled_ns = 0, [], before.at_ns
        while (now_ns := watcher.clock_ns()) - before.at_ns < WINDOW_NS:
            if now_ns - polled_ns >= POLL_NS:
                polled_ns = now_ns
                power_mw.append(watcher.power_mw())
            calls += self._worked(stretch)
        after, more = self._step(watcher, stretch, Meter.read(watcher))
        known = tuple(reading.value for reading in power_mw if reading.value is not None)
        return energy_between(case, device, watcher, before, after, calls + more, known)

    def _step(self, watcher: Watcher, stretch: Callable[[], int], since: Meter) -> tuple[Meter, int]:
        """Work until the counter steps or becomes unreadable; return its reading and the number of calls."""
        calls, found = 0, since
        while found.reading.value == since.reading.value and found.at_ns - since.at_ns < STEP_CAP_NS:
            calls += self._worked(stretch)
            found = Meter.read(watcher)
            if found.reading.value is None:
                break
        return found, calls

    def _worked(self, stretch: Callable[[], int]) -> int:
        if self._should_stop():
            raise Interrupted
        return stretch()

    def _announce(self, case: str, device: str) -> None:
        if self._should_stop():
            raise Interrupted
        self._emit(Progressed(case=case, device=device, phase=ENERGY_PHASE, estimate_s=WINDOW_NS / 1e9))
        self._emit.flush()


def loaded(machine: Machine, case: Case, device: str, inputs: Any) -> Any:
    """Return the operation of a case, compiled where the case is."""
    operation = machine.timer(device).load(case, inputs)
    if is_compiled(case):
        machine.compile(operation, device)
    return operation


def without_energy(case: str, device: str, watcher: Watcher, reading: Reading) -> EnergyMeasured:
    """Return the event with the reason why the energy is missing."""
    return EnergyMeasured(case=case, device=device, tick_ns=watcher.tick_ns, scope=watcher.scope, reason=reading.reason)


PEER_WORKLOAD = "transfer"
"""The workload after which copies between GPUs are timed."""

PEER_PHASE = "peers"


def measure_peers(cases: Sequence[Case], machine: Machine, emit: Emit, between: Callable[[], bool]) -> None:
    """Time copies in both directions between all GPUs; a failing pair reports its reason.

    `between` is called before each pair and returns True once the run must end.
    """
    if not any(case.workload == PEER_WORKLOAD for case in cases):
        return
    for source, target in permutations(machine.peers(), 2):
        if between():
            return
        emit(Progressed(case="", device=source.name, phase=PEER_PHASE, note=f"copies {source.name} to {target.name}"))
        emit.flush()
        emit(_measured(machine, source, target))
        emit.flush()


def _measured(machine: Machine, source: Device, target: Device) -> PeerMeasured:
    access: bool | None = None
    try:
        link = machine.peer_link(source, target)
        access = link.has_access
        latencies_ns = link.latencies_ns()
        size_bytes, elapsed_ns = link.large_ns()
    except Exception as error:  # noqa: BLE001 - out of memory or a driver error affects only this pair
        machine.release()
        return PeerMeasured(
            source=source, target=target, has_access=access, problem=f"{first_line(error).rstrip('.')}."
        )
    return PeerMeasured(
        source=source, target=target, has_access=access,
        latencies_ns=latencies_ns, size_bytes=size_bytes, elapsed_ns=elapsed_ns,
    )  # fmt: skip


def profile_lines(
    timed: Sequence[tuple[Case, Sequence[str]]], machine: Machine, emit: Emit, should_stop: Callable[[], bool]
) -> None:
    """Profile the lines of a person's own code on the devices that timed it; a failing case keeps its times."""
    for case, devices in timed:
        inputs: Any = None
        for device in devices:
            if should_stop():
                return
            emit(Progressed(case=case.key, device=device, phase="lines"))
            emit.flush()
            try:
                inputs = machine.make_inputs(case) if inputs is None else inputs
                found = machine.profile_lines(machine.timer(device).load(case, inputs), device)
            except (Exception, SystemExit):  # noqa: BLE001 - its times were sent already, only its lines are missing
                machine.release()
                continue
            if found is not None:
                emit(found)
        emit.flush()


def never_on_gpu(case: Case, device: str, workload: TwoImplementations) -> CaseFailed:
    """Return the refusal of an implementation whose call ran no kernel in this process, whoever would launch it."""
    name = workload.code_on(device).statement
    return CaseFailed(
        case=case.key, device=device, kind="refused", message=f"{name} never used the GPU: no kernel ran in a call.",
        remedy="Make its arrays on the GPU, in --gpu-setup or in inputs(n).",
    )  # fmt: skip


def profile_cases(cases: Sequence[Case], machine: Machine, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Profile one call of each case on each GPU; a failing case keeps its times."""
    gpus = [device.name for device in machine.devices if not device.is_cpu]
    for case in cases if gpus else ():
        for device in gpus:
            if should_stop():
                return
            emit(Progressed(case=case.key, device=device, phase="kernels"))
            emit.flush()
            try:
                timer, operation = machine.timer(device), loaded(machine, case, device, machine.make_inputs(case))
                found, can_see = timer.kernels(operation), getattr(timer, "is_event_clock_sound", True)
            except Exception:  # noqa: BLE001 - its times were sent already, only its profile is missing
                machine.release()
                continue
            if found is None and isinstance(operation.workload, TwoImplementations) and can_see:
                emit(never_on_gpu(case, device, operation.workload))
            if found is not None:
                emit(KernelsProfiled(case=case.key, device=device, count=found.count, elapsed_ns=found.elapsed_ns))
        emit.flush()
