"""Joules of a call of each case: seconds of repeated blocks after all rounds, where the plan asks for it.

Why so long: the counters step every 100 ms, and a number needs ten steps (method.md, step 10). Why after the rounds:
reading a counter takes 2.8 to 16 ms, in which the GPU would cool down between another case's blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cpugpu_tui.model import Case, EnergyMeasured, Progressed, Reading
from cpugpu_tui.timing.control import Control
from cpugpu_tui.timing.edges import Meter, energy_between
from cpugpu_tui.timing.emitter import Emit
from cpugpu_tui.timing.timers import Machine, Watcher

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

PHASE = "energy"


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
                    self._emit(without(case.key, device.name, watcher, reading))
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
            return without(case, device, watcher, first.reading)
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
        self._emit(Progressed(case=case, device=device, phase=PHASE, estimate_s=WINDOW_NS / 1e9))
        self._emit.flush()


def without(case: str, device: str, watcher: Watcher, reading: Reading) -> EnergyMeasured:
    """Return the event that says why there is no energy."""
    return EnergyMeasured(case=case, device=device, tick_ns=watcher.tick_ns, scope=watcher.scope, reason=reading.reason)
