"""Records, in one list, what the protocol emits and what it asks of the simulated machine."""

from dataclasses import dataclass, replace
from typing import Any

from cpugpu_tui import model
from cpugpu_tui.simulation.laws import SimulatedOperation
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine, SimulatedTimer
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState
from cpugpu_tui.timing.channel import Control, stamped
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.timing.timers import DeviceSamples, FirstCall

QUICK = model.Simulation(
    drift=0.0, noise=0.002, cpu_overhead_ns=200_000.0, launch_ns=100_000.0, sync_ns=80_000.0, first_call_ns=0.0
)
"""Calls are long, so that a warm-up has few of them."""


@dataclass(frozen=True)
class Flush:
    """The emitter was told to write."""


@dataclass(frozen=True)
class Call:
    """The machine was asked to run something on a device."""

    device: str
    what: str
    size: int


class Recorder:
    """An `Emit` that writes nothing; `log` has everything in order."""

    def __init__(self) -> None:
        self.log: list[model.Event | Flush | Call] = []
        self._told = 0

    def __call__(self, event: model.Event) -> None:
        self._told += 1  # counting the log for each event took a third of a search
        self.log.append(stamped(event, self._told))

    def flush(self) -> None:
        self.log.append(Flush())

    @property
    def events(self) -> list[model.Event]:
        """All events so far."""
        return [entry for entry in self.log if isinstance(entry, model.Event)]

    def of(self, *kinds: type[model.Event]) -> list[Any]:
        """All events of these kinds so far."""
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def rounds(self) -> list[model.DeviceSampled]:
        """Half-rounds without what is taken once before them."""
        return [event for event in self.of(model.DeviceSampled) if event.round_index > 0]


class SpiedTimer(SimulatedTimer):
    """A simulated device that notes what it is asked to do."""

    def __init__(self, device: model.Device, machine: SimulatedMachine, recorder: Recorder) -> None:
        super().__init__(device, machine)
        self.recorder = recorder

    def _note(self, what: str, op: SimulatedOperation) -> None:
        self.recorder.log.append(Call(self.device.name, what, op.case.size))

    def first_call(self, op: SimulatedOperation) -> FirstCall:
        self._note("first call", op)
        return super().first_call(op)

    def latency_block(self, op: SimulatedOperation, calls: int) -> float:
        self._note("block", op)
        return super().latency_block(op, calls)

    def device_samples(self, op: SimulatedOperation, count: int) -> DeviceSamples:
        self._note("device", op)
        return super().device_samples(op, count)


class SpiedMachine(SimulatedMachine):
    """A simulated machine with spied timers."""

    def __init__(self, plan: model.Plan, recorder: Recorder) -> None:
        super().__init__(plan)
        self._timers = {device.name: SpiedTimer(device, self, recorder) for device in self.found}

    def fail_first_inputs(self) -> None:
        """Lack the memory for the inputs that are made next."""
        honest, calls = self.make_inputs, iter([True, False])

        def fails_once(case: model.Case) -> None:
            if next(calls):
                raise MemoryError
            honest(case)

        self.make_inputs = fails_once  # type: ignore[method-assign]


def plan_of(*sizes: int, simulation: model.Simulation = QUICK, **more: Any) -> model.Plan:
    """Return a plan of matrix products of these sizes on the simulated machine, without the profile at the end."""
    metrics = tuple(metric for metric in model.METRICS if metric != model.KERNELS)
    plan = model.Plan(
        "test", tuple(model.Case("matmul", size) for size in sizes), metrics=metrics, simulation=simulation
    )
    return replace(plan, **more)


def swept(plan: model.Plan, control: Control | None = None) -> tuple[str, Recorder]:
    """Run a plan on a spied machine; return how it ended and what happened."""
    recorder = Recorder()
    status = Scheduler(plan, SpiedMachine(plan, recorder), recorder, control or Control()).run()
    return status, recorder


def state_events(plan: model.Plan, recorder: Recorder) -> list[model.Event]:
    """Return the recorded events after those that begin a run."""
    devices = SimulatedMachine(plan).devices
    started = model.RunStarted(run_id="r", series_id="s", plan=plan, environment={})
    return [started, model.DevicesFound(devices=devices), *recorder.events]


def state_of(plan: model.Plan, recorder: Recorder) -> RunState:
    """Return what a person sees after the recorded run."""
    return folded([*state_events(plan, recorder), model.RunFinished(status="done")])
