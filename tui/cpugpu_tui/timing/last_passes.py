"""What a run does once all cases are over: copies between GPUs, joules of a call, kernels of a call.

Whatever fails here costs no case its times. Energy takes seconds of repeated blocks, because the counters step every
100 ms and a number needs ten steps (method.md, step 10); and reading one takes 2.8 to 16 ms, in which the GPU would
cool down between another case's blocks. Kernels are last: the profiler's first use takes 4 s on an H200, and once its
library is loaded every launch of the process is slower (launch and synchronise of a 16×16 product: 16 µs before, 21 µs
after).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

from cpugpu_tui.model import Case, Device, EnergyMeasured, KernelsProfiled, PeerMeasured, Progressed, Reading
from cpugpu_tui.timing.control import Control
from cpugpu_tui.timing.edges import Meter, energy_between
from cpugpu_tui.timing.emitter import Emit
from cpugpu_tui.timing.timers import Machine, Watcher
from cpugpu_tui.timing.torch_devices import first_line

WINDOW_NS = 1.5e9
"""Least length of a window: 15 steps of a GPU's counter."""

STRETCH_NS = 25e6
"""Work between two looks at the counter while its next step is awaited: with the block's 2 ms a look of up to 16 ms
would leave the GPU idle most of the time."""

POLL_NS = 100e6
"""Between two readings of the power: it is refreshed as often."""

STEP_CAP_NS = 1e9
"""A counter that stands still for this long at work has no step to wait for."""

REST_NS = 0.5e9
"""Before idleness is measured: a power-capped load takes this long to wear off (method.md)."""

ENERGY_PHASE = "energy"


class Interrupted(Exception):
    """The run is to end in the middle of a window."""


class EnergyPass:
    """Measures idleness once, then each case on each device."""

    def __init__(self, machine: Machine, emit: Emit, over: Callable[[], bool], control: Control) -> None:
        """`over` tells whether the run is to end, `control` whether the process stood still meanwhile."""
        self._control = control
        self._machine = machine
        self._emit = emit
        self._over = over

    def run(self, cases: Sequence[Case]) -> None:
        """Measure; a case that fails here keeps the times it has. A stop ends it between two blocks."""
        try:
            for device in self._machine.devices if cases else ():
                self._idle(device.name)
            for case in cases:
                self._case(case)
        except Interrupted:
            pass

    def _idle(self, device: str) -> None:
        """Measure a device that waits, its context alive."""
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
        except Exception:  # noqa: BLE001 - its times are out already; its energy alone is missing
            self._machine.release()
        self._emit.flush()

    def _stretch(self, case: Case, device: str, inputs: Any) -> Callable[[], int]:
        """Return what works for about `STRETCH_NS` and says how many calls that was; warmed up."""
        timer = self._machine.timer(device)
        operation = timer.load(case, inputs)
        timer.ready(operation, 1)
        call_ns = max(timer.latency_block(operation, 1), 1.0)
        calls = max(1, round(STRETCH_NS / max(timer.latency_block(operation, max(1, int(2e6 / call_ns))), 1.0)))

        def stretch() -> int:
            timer.latency_block(operation, calls)
            return calls

        return stretch

    def _window(self, case: str, device: str, watcher: Watcher, stretch: Callable[[], int]) -> EnergyMeasured:
        """Return a window in which the process never stood still (ctrl+z, fg)."""
        while True:
            self._control.was_suspended = False
            found = self._window_once(case, device, watcher, stretch)
            if not self._control.suspended_meanwhile():
                return found

    def _window_once(self, case: str, device: str, watcher: Watcher, stretch: Callable[[], int]) -> EnergyMeasured:
        """Return a window whose both sides are steps of the counter.

        Raises:
            Interrupted: the run is to end.
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
        """Work on until the counter steps, or cannot be read any more; return it then, and the calls meanwhile."""
        calls, found = 0, since
        while found.reading.value == since.reading.value and found.at_ns - since.at_ns < STEP_CAP_NS:
            calls += self._worked(stretch)
            found = Meter.read(watcher)
            if found.reading.value is None:
                break
        return found, calls

    def _worked(self, stretch: Callable[[], int]) -> int:
        if self._over():
            raise Interrupted
        return stretch()

    def _announce(self, case: str, device: str) -> None:
        if self._over():
            raise Interrupted
        self._emit(Progressed(case=case, device=device, phase=ENERGY_PHASE, estimate_s=WINDOW_NS / 1e9))
        self._emit.flush()


def without_energy(case: str, device: str, watcher: Watcher, reading: Reading) -> EnergyMeasured:
    """Return the event that says why there is no energy."""
    return EnergyMeasured(case=case, device=device, tick_ns=watcher.tick_ns, scope=watcher.scope, reason=reading.reason)


PEER_WORKLOAD = "transfer"
"""The experiment that they belong to."""

PEER_PHASE = "peers"


def measure_peers(cases: Sequence[Case], machine: Machine, emit: Emit, between: Callable[[], bool]) -> None:
    """Time both directions between all GPUs; a pair that fails says why, and costs no case its times.

    `between` is called before each pair, and returns whether the run is to end.
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
    except Exception as error:  # noqa: BLE001 - no memory, or what the driver says of this pair: its own cell alone
        machine.release()
        return PeerMeasured(
            source=source, target=target, has_access=access, problem=f"{first_line(error).rstrip('.')}."
        )
    return PeerMeasured(
        source=source, target=target, has_access=access,
        latencies_ns=latencies_ns, size_bytes=size_bytes, elapsed_ns=elapsed_ns,
    )  # fmt: skip


def profile_cases(cases: Sequence[Case], machine: Machine, emit: Emit, over: Callable[[], bool]) -> None:
    """Profile one call of each case on each GPU; a case that fails here keeps the times it has."""
    gpus = [device.name for device in machine.devices if not device.is_cpu]
    for case in cases if gpus else ():
        for device in gpus:
            if over():
                return
            emit(Progressed(case=case.key, device=device, phase="kernels"))
            emit.flush()
            try:
                timer = machine.timer(device)
                found = timer.kernels(timer.load(case, machine.make_inputs(case)))
            except Exception:  # noqa: BLE001 - its times are out already; the profile alone is missing
                machine.release()
                continue
            if found is not None:
                emit(KernelsProfiled(case=case.key, device=device, count=found.count, elapsed_ns=found.elapsed_ns))
        emit.flush()
