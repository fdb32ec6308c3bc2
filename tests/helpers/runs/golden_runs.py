"""Fixed simulated runs for the golden files: seeded, at fixed times, one of them with every mark and failure."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

from tests.helpers.runs.recorder import QUICK

from cpugpu_tui import model
from cpugpu_tui.cli.running.gate import LIMITS
from cpugpu_tui.compare.gate import FleetGate, judge_fleet
from cpugpu_tui.compare.series import Series
from cpugpu_tui.config.hosts import hosts_of
from cpugpu_tui.model.events import DeviceSampled
from cpugpu_tui.session.fleet_state import DONE, FleetState, HostChanged
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.state.folding import MeasuredRun, folded, measured
from cpugpu_tui.state.state import RunState
from cpugpu_tui.timing.channel import CallEmitter, Control
from cpugpu_tui.timing.scheduler import Scheduler

START_NS = 1_767_225_600 * 10**9
"""2026-01-01 00:00 UTC."""

ENVIRONMENT = {"affinity_cores": 16, "cpu": "A processor", "hostname": "box", "interpreter": "/usr/bin/python3",
               "python": "3.12.4", "tf32_matmul": False, "torch": "2.11.0", "version": "0.2.0",
               "worker": "process"}  # fmt: skip

LAWS = replace(QUICK, seed=3, noise=0.01)


def matmul(*sizes: int, **more: Any) -> tuple[model.Case, ...]:
    return tuple(model.Case("matmul", size, **more) for size in sizes)


def plan_of(cases: tuple[model.Case, ...], **more: Any) -> model.Plan:
    usual: dict[str, Any] = {"simulation": LAWS, "metrics": model.METRICS, "rounds": 5, "max_rounds": 8}
    return model.Plan("matmul", cases, **(usual | more))


def stream(plan: model.Plan, run_id: str = "20260101-000000-golden", **environment: Any) -> list[model.Event]:
    """Return the events of a whole run, at fixed times."""
    machine, events = SimulatedMachine(plan), list[model.Event]()
    status = Scheduler(plan, machine, CallEmitter(events.append), Control()).run()
    facts = dict(sorted({**ENVIRONMENT, **environment}.items()))
    started = model.RunStarted(run_id=run_id, series_id=run_id, plan=plan, environment=facts, number=7)
    told = [started, model.DevicesFound(devices=machine.devices), *events, model.RunFinished(status=status)]
    return [replace(event, seq=seq, wall_ns=START_NS + seq * 10**6, mono_ns=seq) for seq, event in enumerate(told, 1)]


def changed(events: Iterable[model.Event], change: Callable[[model.Event], model.Event]) -> list[model.Event]:
    return [change(event) for event in events]


# ------------------------------------------------------------------ single runs


def usual() -> list[model.Event]:
    """One sweep with a crossover, beside another workload; the machine's ceilings are known."""
    other = tuple(model.Case("vector-dot", size, variant="dot") for size in (1_000, 1_000_000))
    plan = plan_of((*matmul(64, 256, 1024, 4096), *other))
    cpu, gpu = SimulatedMachine(plan).devices
    found = model.Ceilings(cpu.name, cpu.label, cpu.uuid, "box", "2.11.0", START_NS, 2, {"float32": 5e11},
        {"float32": 2048},
                     2e10, 1 << 28, 2e5, simulated=True)  # fmt: skip
    on_gpu = replace(found, device=gpu.name, label=gpu.label, uuid=gpu.uuid, flops={"float32": 2e13},
                     copy_bytes_per_s=2e12, launch_ns=1e5, synchronize_ns=8e4, round_trip_ns=1.8e5)  # fmt: skip
    return stream(replace(plan, name="matmul+vector-dot", ceilings=(found, on_gpu)))


ODD = {256: ("throttled", "clock-unsettled"), 512: (model.NO_CORE,), 1024: ("page-faults", "one-thread", "shared-gpu")}
"""Size → what is odd about its rounds."""


def odd() -> list[model.Event]:
    """Every special case: marks, lost cases, an unsettled start, warm caches, TF32, worker thread, energies."""
    laws = replace(LAWS, oom_size=128, mismatch_size=64, gpu_busy_w=400.0, gpu_idle_w=80.0, cpu_busy_w=150.0)
    cases = (*matmul(32, 64, 128, 256, 512, 1024), *matmul(2048, threads=32))
    plan = plan_of(cases, simulation=laws, cache="warm", metrics=(*model.METRICS, model.ENERGY), scale="small")
    sizes = {case.key: case.size for case in cases}

    def change(event: model.Event) -> model.Event:
        if isinstance(event, model.Calibrated) and event.device == "cpu" and sizes[event.case] == 32:
            return replace(event, stable=False)
        if isinstance(event, DeviceSampled) and event.device != "cpu" and sizes[event.case] in ODD:
            return replace(event, marks=(*event.marks, *ODD[sizes[event.case]]))
        return event

    facts = {"tf32_matmul": True, "worker": "thread", "inherited": {"OMP_NUM_THREADS": "1"}}
    return changed(stream(plan, **facts), change)


def cpu_alone() -> list[model.Event]:
    return stream(plan_of(matmul(64, 256), devices=("cpu",), simulation=replace(LAWS, gpus=0)))


def threads() -> list[model.Event]:
    """Two thread counts, which are columns of one row."""
    return stream(plan_of((*matmul(64, 256, threads=1), *matmul(64, 256, 1024))))


def gpus() -> list[model.Event]:
    """Three GPUs of a model, of which one is slow."""
    laws = replace(LAWS, gpus=3, slow_gpu=1, slow_factor=1.2)
    return stream(plan_of(matmul(64, 1024), simulation=laws, devices=("cpu", "cuda:0", "cuda:1", "cuda:2")))


def cut_short() -> list[model.Event]:
    """A search that its time limit ended."""
    plan = plan_of(matmul(64, 4096), search=model.Search(), max_seconds=60.0)
    return stream(plan)


RUNS: dict[str, Callable[[], list[model.Event]]] = {
    "usual": usual, "odd": odd, "one device": cpu_alone, "threads as columns": threads, "several GPUs": gpus,
    "a search": cut_short,
}  # fmt: skip


@cache
def events_of(name: str) -> tuple[model.Event, ...]:
    return tuple(RUNS[name]())


@cache
def state_of(name: str) -> RunState:
    return folded(events_of(name))


# ------------------------------------------------------------------ many runs


@cache
def fleet() -> FleetState:
    """A host that is well, one whose run is disturbed, one without a GPU and one that is away."""
    state = FleetState.of(hosts_of(["good", "busy", "cpu", "away"]))
    for host, name in (("good", "usual"), ("busy", "odd"), ("cpu", "one device")):
        for event in events_of(name):
            state = state.apply(host, event)
        state = state.apply(host, HostChanged(DONE))
    lost = HostChanged("unreachable", "The connection to away was lost.", "Run it again when the host answers.")
    return state.apply("away", lost)


def _measured(seed: int, name: str, laws: model.Simulation) -> MeasuredRun:
    plan = plan_of(matmul(64, 256, 1024), simulation=replace(laws, seed=seed))
    found = measured(stream(plan, f"{name}-{seed}"))
    return replace(found, series_id=name, number=seed)


@cache
def series(name: str, first: int, runs: int = 5, **laws: float) -> Series:
    """Return a series of runs with seeds from `first` on."""
    simulation = replace(LAWS, **laws)  # type: ignore[arg-type]
    return Series("", tuple(_measured(seed, name, simulation) for seed in range(first, first + runs)))


@cache
def fleet_gate() -> FleetGate:
    """The fleet judged by a baseline of the good one's model."""
    base = series("base", 1)
    return judge_fleet(fleet(), [base], LIMITS)
