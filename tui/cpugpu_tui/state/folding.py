"""What is folded from all events of a run: its state, the cases that are left, and its reduction for comparisons.

`RunState.apply` copies the mapping of all rows for each event: 3 s for the 40,000 events of 2,000 cases. The states in
between are not kept here, so they share one mapping.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import chain
from typing import Any, TypeVar

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import RECORDED, Case, Event, GpuTelemetry, Plan, TelemetryRead
from cpugpu_tui.state.condition import condition
from cpugpu_tui.state.row import OwnRows, Row
from cpugpu_tui.state.state import RunState

T = TypeVar("T")


def folded(events: Iterable[model.Event], state: RunState | None = None) -> RunState:
    """Return the same state as `RunState.apply` for each event in turn, starting from `state`. Telemetry is skipped."""
    state = state or RunState()
    for event in events:
        if isinstance(event, model.TelemetryRead):
            continue
        if not isinstance(state.rows, OwnRows):
            state = replace(state, rows=OwnRows(state.rows))
        state = state.apply(event)
    return replace(state, rows=dict(state.rows)) if isinstance(state.rows, OwnRows) else state


# ------------------------------------------------------------------ cases left after an agent died


class Remaining:
    """Tracks the cases left to run. Events of a search are folded, because the next agent needs its findings."""

    def __init__(self, plan: model.Plan) -> None:
        self._plan = plan
        self._cases = dict.fromkeys(plan.cases)
        self._state = RunState()
        self.settled: set[str] = set()
        """Keys of finished and failed cases."""

    def note(self, event: model.Event) -> None:
        """Handle the next event of the run."""
        if isinstance(event, model.RunStarted):
            self._plan = event.plan
        elif isinstance(event, model.CasesChosen):
            self._cases.update(dict.fromkeys(event.cases))
        elif isinstance(event, (model.CaseFinished, model.CaseFailed)):
            self.settled.add(event.case)
        if self._plan.search is not None or self._plan.starts > 1 or self._plan.max_seconds is not None:
            self._state = self._state.apply(event)

    @property
    def state(self) -> RunState:
        """The state of a run that searches or has several starts; that of other runs is empty."""
        return self._state

    @property
    def cases(self) -> tuple[model.Case, ...]:
        """Return the cases that are not settled."""
        return tuple(case for case in self._cases if case.key not in self.settled)

    def plan(self, elapsed_s: float) -> model.Plan:
        """Return the plan for the next agent, so many seconds after the run began, with what is left to search."""
        search = self._plan.search
        if search is not None:
            found = (_found(self._state, case) for case in self._cases if case.key in self.settled)
            search = replace(search, found=(*search.found, *chain.from_iterable(found)))
            if search.limit_s is not None and self._state.devices:  # an agent has used it
                search = replace(search, limit_s=max(model.LEAST_LEFT_S, search.limit_s - elapsed_s))
        return replace(self._plan, cases=self.cases, search=search)


def _found(state: RunState, case: model.Case) -> list[model.Found]:
    """Return the findings of a settled case, with and without copies, for each GPU compared with the CPU."""
    row = state.rows.get(case.key)
    known = {gpu: row.on(gpu).in_worlds for gpu in row.gpus} if row is not None and row.status == "ok" else {}
    return [
        model.Found(case, c.speedup, c.low, c.high, c.rounds, gpu, c.verdict, moved=key == END_TO_END)
        for gpu, worlds in known.items()
        for key in (RESIDENT, END_TO_END)
        if (c := worlds.get(key)) is not None
    ] or [model.Found(case)]


# ------------------------------------------------------------------ measured


SHOWN_SHARE = 0.01
"""Throttling for a smaller share of the time is not shown."""


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """A case of one run."""

    case: Case
    status: str
    """`ok`, or the kind of failure."""
    median_ns: Mapping[str, float]
    """`CPU`, `GPU`, `GPU 2` → median latency, ns; empty unless the status is `ok`."""
    work: tuple[float, float]
    """FLOPs and least bytes per call, 0 if unknown. Times are comparable only if these are equal."""
    is_chosen: bool = False
    """Whether a search chose it during the run."""
    starved: tuple[str, ...] = ()
    """Devices without a median, because threads lacked a core."""
    kernel_ns: Mapping[str, float] = field(default_factory=dict)
    """`GPU`, `GPU 2` → median kernel time, ns, of those GPUs of `median_ns` that have one."""
    check: model.Check | None = None
    """Of its results, with their sketches in a duet of two codes."""


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run."""

    run_id: str
    number: int | None
    """Number in the history; None if it is not saved."""
    series_id: str
    plan: Plan
    started_wall_ns: int
    cases: Mapping[str, MeasuredCase]
    """`Case.key` → case, including those that a search chose."""
    facts: Mapping[str, Any]
    """Facts about machine and settings, see `facts_of`; None if unknown."""
    clocks_mhz: Mapping[str, float]
    """GPU → median SM clock, MHz."""
    gpu_models: tuple[str, ...] = ()
    """Model of each GPU, in the order of the run."""
    duet: str = ""
    """Pair of agents that it belongs to, in a duet; empty for a run of its own."""

    @property
    def name(self) -> str:
        """Preset or workload that was run."""
        return self.plan.name

    @property
    def has_times(self) -> bool:
        """Whether any case has times."""
        return any(case.median_ns for case in self.cases.values())

    @property
    def simulated(self) -> bool:
        """Whether a simulated machine made the numbers."""
        return self.plan.simulation is not None


def measured(events: Iterable[Event]) -> MeasuredRun | None:
    """Return the run in these events; None without `RunStarted`."""
    stream, power_limits = list(events), dict[str, float]()
    for event in stream:
        if isinstance(event, TelemetryRead):
            power_limits.update(power_limits_of(event.gpus))
    return measured_state(folded(stream), power_limits)


def measured_part(run: RunState) -> RunState:
    """Return a run without the times of a GPU that were recorded on another machine.

    What outlasts a painted face takes this: claims, baselines, gates and thresholds.
    """
    return run.on("cpu") if run.gpu is not None and run.gpu.name == RECORDED else run


def measured_state(
    run: RunState, power_limits_mw: Mapping[str, float] | None = None, *, times_only: bool = False
) -> MeasuredRun | None:
    """Return the run in a state. `power_limits_mw` is by GPU UUID; `times_only` leaves out facts and clocks."""
    run = measured_part(run)
    if run.run is None:
        return None
    names, planned = device_names(run), {case.key for case in run.run.plan.cases}
    return MeasuredRun(
        run_id=run.run.run_id, number=run.run.number, series_id=run.run.series_id, plan=run.run.plan,
        started_wall_ns=run.run.wall_ns,
        cases={key: _case(row, names, is_chosen=key not in planned, has_work=not run.run.plan.is_of_two_codes)
               for key, row in run.rows.items()},
        facts={} if times_only else facts_of(run, power_limits_mw or {}),
        clocks_mhz={} if times_only else _clocks(run, names), gpu_models=tuple(gpu.label for gpu in run.gpus),
        duet=str(run.run.environment.get(model.DUET) or ""),
    )  # fmt: skip


def power_limits_of(gpus: Iterable[GpuTelemetry]) -> dict[str, float]:
    """Return the power limits of GPUs, mW by UUID."""
    limits = {gpu.uuid: gpu.readings.get("power_limit_mw") for gpu in gpus if gpu.uuid}
    return {uuid: read.value for uuid, read in limits.items() if read is not None and read.value is not None}


def device_names(run: RunState) -> dict[str, str]:
    """Return device → name for comparisons across machines: `CPU`, `GPU`, `GPU 2`, in the order of the run."""
    names = {gpu.name: f"GPU {index}" if index > 1 else "GPU" for index, gpu in enumerate(run.gpus, 1)}
    return {"cpu": "CPU"} | names


def _case(row: Row, names: Mapping[str, str], *, is_chosen: bool, has_work: bool) -> MeasuredCase:
    starved = tuple(names.get(device, device) for device, times in row.times.items() if times.is_starved)
    timed = {names.get(device, device): times.latency_ns for device, times in row.times.items()}
    medians = {name: ns for name, ns in timed.items() if name not in starved}
    known = {name: ns for name, ns in medians.items() if ns is not None and ns > 0} if row.status == "ok" else {}
    work = (row.started.flops, row.started.bytes_moved) if row.started is not None and has_work else (0.0, 0.0)
    kernels = {names.get(device, device): times.median_ns(model.DEVICE) for device, times in row.times.items()}
    kernel_ns = {name: ns for name, ns in kernels.items() if ns and name in known and name != "CPU"}
    return MeasuredCase(row.case, row.status, known, work, is_chosen, starved, kernel_ns, row.check)


def _clocks(run: RunState, names: Mapping[str, str]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for row in run.rows.values():
        for device, times in row.times.items():
            found.setdefault(names.get(device, device), []).extend((*times.clocks_mhz, *times.end_clocks_mhz))
    return {name: median(clocks) for name, clocks in found.items() if clocks}


# ------------------------------------------------------------------ facts

HARDWARE = ("CPU", "CPU threads", "GPU")
"""Facts that identify the machine, whatever its host name."""

_ENVIRONMENT = {
    "driver": "driver", "torch": "torch", "torch source": "torch_git", "CUDA of torch": "torch_cuda",
    "float32 precision": "matmul_precision", "TF32": "tf32_matmul", "python": "python",
    "inherited variables": "inherited", "CUDA_VISIBLE_DEVICES": "cuda_visible_devices",
    "cores allowed": "affinity_cores", "CPU quota": "quota_cores", "worker": "worker",
    "interpreter": "interpreter",
    "host": "hostname", "kernel": "kernel", "cpugpu-tui": "version",
}  # fmt: skip
"""Fact → its key in a run's environment."""


def facts_of(run: RunState, power_limits_mw: Mapping[str, float]) -> dict[str, Any]:
    """Return facts about machine, software and settings of a run, the most important first."""
    assert run.run is not None
    plan, environment = run.run.plan, run.run.environment
    limits = [power_limits_mw.get(gpu.uuid or "") for gpu in run.gpus]
    return {
        "GPU": ", ".join(gpu.label for gpu in run.gpus) or None,
        "CPU": next((device.label for device in run.devices if device.is_cpu), environment.get("cpu")),
        "power limit": ", ".join(f"{limit / 1e3:.0f} W" for limit in limits if limit is not None) or None,
        "throttled by": _throttled(run), "others on the GPU": _is_shared(run), "CPU threads": run.threads or None,
        "code": _code_versions(plan),
        **{name: environment.get(key) for name, key in _ENVIRONMENT.items()},
        "which GPU": ", ".join(gpu.uuid for gpu in run.gpus if gpu.uuid) or None,
        "GPUs at the same time": "yes" if plan.parallel else "no", "caches": plan.cache, "scale": plan.scale,
        "denormals": "flushed" if plan.flush_denormals else "kept", "seed of the inputs": plan.seed,
        "MNIST": plan.mnist, "simulation": plan.simulation,
    }  # fmt: skip


def _code_versions(plan: model.Plan) -> str | None:
    """Return the files of a person's code with the beginnings of their hashes; None without a file."""
    files = {code.target[0]: code.sha256 for code in plan.codes if code.sha256}
    files |= {file.path: file.sha256 for file in plan.own_files}
    return ", ".join(f"{os.path.basename(path)} {sha256[:10]}" for path, sha256 in sorted(files.items())) or None


def _throttled(run: RunState) -> str | None:
    """Return the throttle reasons of all cases, `nothing` if there are none, or None if unknown."""
    words, is_known = set[str](), False
    for row in run.rows.values():
        for times in row.times.values():
            found = condition(run, row, times)  # not collected: 10,000 of them take 20 MB
            if found.unthrottled_reason is None:
                is_known = True
                words |= {throttle.word for throttle in found.throttles if throttle.share >= SHOWN_SHARE}
    return (", ".join(sorted(words)) or "nothing") if is_known else None


def _is_shared(run: RunState) -> str | None:
    marks = [("shared-gpu" in times.marks, times.edges) for row in run.rows.values() for times in row.times.values()]
    if any(is_shared for is_shared, _ in marks):
        return "yes"
    return "no" if any(edges for _, edges in marks) else None


def once(make: Callable[[RunState], T]) -> Callable[[RunState], T]:
    """Decorator that caches a function of a state in the state itself, which never changes."""
    name = f"{make.__module__}.{make.__qualname__}"

    @wraps(make)
    def known(run: RunState) -> T:
        if name not in run.derived:
            run.derived[name] = make(run)
        found: T = run.derived[name]
        return found

    return known
