"""A finished run of several GPUs on the simulated machine, for tests of screens."""

from cpugpu_tui.model import DEVICE as OWN
from cpugpu_tui.model import LATENCY, Case, DevicesFound, Event, Plan, RunFinished, RunStarted, Simulation
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState
from cpugpu_tui.timing.channel import CallEmitter, Control
from cpugpu_tui.timing.scheduler import Scheduler

CASES = (
    *(Case("matmul", size) for size in (64, 256, 1024, 2048)),
    *(Case("transfer", 1 << 20, variant=variant) for variant in ("h2d-pinned", "d2d")),
)


def run_of(
    gpus: int, devices: tuple[str, ...] = ("cpu", "cuda"), cases: tuple[Case, ...] = CASES,
    metrics: tuple[str, ...] = (LATENCY, OWN),
) -> RunState:  # fmt: skip
    """Return the run of `events_of`."""
    return folded(events_of(gpus, devices, cases, metrics))


def events_of(
    gpus: int, devices: tuple[str, ...] = ("cpu", "cuda"), cases: tuple[Case, ...] = CASES,
    metrics: tuple[str, ...] = (LATENCY, OWN),
) -> list[Event]:  # fmt: skip
    """Return a run's events; the last but one of its GPUs is slow where there are three, the last of another model."""
    laws = Simulation(gpus=gpus, slow_gpu=gpus - 2, slow_factor=1.2 if gpus > 2 else 1.0, other_gpus=int(gpus > 4))
    plan = Plan("matmul+transfer", cases, devices, metrics=metrics, simulation=laws)
    machine, events = SimulatedMachine(plan), list[Event]()
    status = Scheduler(plan, machine, CallEmitter(events.append), Control()).run()
    started = RunStarted(run_id="r", series_id="s", plan=plan, environment={"hostname": "box", "threads": 2}, number=7)
    return [started, DevicesFound(devices=machine.devices), *events, RunFinished(status=status)]
