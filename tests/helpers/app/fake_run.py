"""A backend without agents, store and NVML: tests put events into its sessions by hand."""

import inspect
import queue
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from cpugpu_tui import model
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.transport.interpreter_search import Interpreter
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.live.backend import Backend

PATIENCE_S = 120.0
"""It says "hung", never "slow": other programs may keep the cores busy."""
ENVIRONMENT = {
    "hostname": "box", "cpu": "Xeon 8480", "torch": "2.11.0+cu130", "python": "3.12.4", "threads": 16,
    "matmul_precision": "highest", "tf32_matmul": False, "version": "0.1.0", "worker": "process",
}  # fmt: skip
DEVICES = (model.Device("cpu", "Xeon 8480"), model.Device("cuda:0", "NVIDIA H200", "GPU-1"))


class FakeSession:
    """Delivers what a test puts into it."""

    def __init__(self, plan: model.Plan, series_id: str, stillborn: model.RunFinished | None, number: int = 7) -> None:
        self.plan = plan
        self.series_id = series_id
        self.notice: str | None = None
        self.asked: list[str] = []
        self.telemetry: list[model.TelemetryRead] = []
        self._events: queue.SimpleQueue[model.Event] = queue.SimpleQueue()
        if stillborn is not None:
            self.put(stillborn)
            return
        self.put(
            model.RunStarted(
                run_id=f"id{id(self)}", series_id=series_id, plan=plan, environment=dict(ENVIRONMENT), number=number
            ),
            model.DevicesFound(devices=DEVICES),
        )

    def put(self, *events: model.Event) -> None:
        for event in events:
            self._events.put(event)

    def gap(self, case: model.Case | None = None, seconds_left: float | None = 42.0) -> None:
        """A gap as the agent announces it."""
        key = case.key if case is not None else ""
        self.put(
            model.Progressed(case=key, device="", phase="gap", seconds_left=seconds_left), model.Gap(duration_ms=50.0)
        )

    def run(self, deliver: Callable[[model.Event], None]) -> model.RunFinished:
        while True:
            event = self._events.get()
            deliver(event)
            if isinstance(event, model.RunFinished):
                return event

    def stop(self) -> None:
        self.asked.append("stop")

    def kill(self) -> None:
        self.asked.append("kill")
        self.put(model.RunFinished(status="stopped", message="Stopped at once.", exit_code=130))

    def pause(self) -> None:
        self.asked.append("pause")

    def resume(self) -> None:
        self.asked.append("resume")

    def add_telemetry(self, event: model.TelemetryRead) -> None:
        self.telemetry.append(event)
        self.put(event)


class FakeBackend(Backend):
    """Stands in for agents, store and sampler."""

    def __init__(
        self, hello: model.Hello | CpuGpuError | None = None, telemetry: model.TelemetryRead | None = None
    ) -> None:
        super().__init__(AppOptions())
        self.sessions: list[FakeSession] = []
        self.closed = False
        self.prepared = 0
        self.stillborn: model.RunFinished | None = None
        """How runs end that do not even begin, as when the agent cannot start."""
        self.devices: model.DevicesFound | None = model.DevicesFound(devices=DEVICES)
        """What an agent tells that is asked for its devices."""
        self.better: Interpreter | None = None
        """What a search for a better interpreter finds."""
        self.python = ""
        """Interpreter that a key chose."""
        self._hello = hello or model.Hello(protocol=1, environment=ENVIRONMENT)
        self._first_telemetry = telemetry or readings()

    def open(
        self,
        on_agent: Callable[[model.Hello | CpuGpuError], None],
        on_telemetry: Callable[[model.TelemetryRead], None],
        on_notice: Callable[[str], None],
    ) -> None:
        self.read = on_telemetry
        self.notice = on_notice
        on_agent(self._hello)
        on_telemetry(self._first_telemetry)

    def session(self, plan: model.Plan, series_id: str | None, case_timeout_s: float | None) -> FakeSession:
        self.sessions.append(FakeSession(plan, series_id or "series", self.stillborn, 7 + len(self.sessions)))
        return self.sessions[-1]

    def survey(self) -> model.DevicesFound | None:
        return self.devices

    def better_python(self, should_stop: Callable[[], bool]) -> Interpreter | None:
        return self.better

    def use_python(self, python: str) -> None:
        self.python = python

    def prepare(self) -> None:
        self.prepared += 1

    def suspend(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None:
        self.closed = True


def new_app(request: PlanRequest | None = None, backend: FakeBackend | None = None, **options: Any) -> CpuGpuApp:
    """An app on a fake backend, which is its attribute `backend`."""
    backend = backend or FakeBackend()
    app = CpuGpuApp(AppOptions(request=request or PlanRequest(), **options), backend=backend)
    app.backend = backend  # type: ignore[attr-defined]
    return app


@asynccontextmanager
async def opened(
    app: CpuGpuApp | None = None, size: tuple[int, int] = (120, 40), *, ran: bool = False
) -> AsyncIterator[Pilot[Any]]:
    """Run an app on a fake terminal, where it has run `quick` if `ran`.

    A run that is still going on is ended with the test, or its thread would stay.
    """
    app = app or new_app()
    async with app.run_test(size=size) as pilot:
        try:
            await settled(pilot, lambda: app.state.telemetry.latest is not None)
            if ran:
                await done_run(pilot)
            yield pilot
        finally:
            app.bridge.kill()
            await settled(pilot, lambda: not app.state.situation.live)


async def settled(pilot: Pilot[Any], reached: Callable[[], bool]) -> None:
    """Let the app work until something is true.

    Raises:
        AssertionError: it did not become true within `PATIENCE_S`.
    """
    gives_up_s = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < gives_up_s, f"{inspect.getsource(reached).strip()}: not so after {PATIENCE_S:g} s"
        await pilot.pause(0.01)
    await pilot.pause()


async def start_run(pilot: Pilot[Any]) -> FakeSession:
    """Press r, wait until the run is on the screen, return its session."""
    app = pilot.app
    before = len(app.backend.sessions)
    await settled(pilot, lambda: app.state.agent_ready)
    await pilot.press("r")
    await settled(pilot, lambda: len(app.backend.sessions) > before and app.gate.held)
    return app.backend.sessions[-1]


async def reach_gap(pilot: Pilot[Any], session: FakeSession, case: model.Case | None = None) -> None:
    """Let the agent leave a gap, and wait until the app has folded its events and opened the gate."""
    before = pilot.app.live.gap_s
    session.gap(case)
    await settled(pilot, lambda: pilot.app.live.gap_s != before)


async def finish(pilot: Pilot[Any], session: FakeSession, status: str = "done") -> None:
    """End the run and wait until the app knows."""
    session.put(model.RunFinished(status=status))
    await settled(pilot, lambda: not pilot.app.state.situation.live)


async def done_run(pilot: Pilot[Any]) -> None:
    """Run what is highlighted to its end."""
    session = await start_run(pilot)
    session.put(*whole_sweep(session.plan))
    await finish(pilot, session)


# ------------------------------------------------------------------ what a run says


def rounds(case: model.Case, cpu_ns: float, gpu_ns: float, count: int = 8, total: int = 8) -> list[model.Event]:
    """A case from its start through `count` of its rounds."""
    events: list[model.Event] = [model.CaseStarted(case=case.key)]
    for device, ns in (("cpu", cpu_ns), ("cuda:0", gpu_ns)):
        once = {
            model.COLD_START: (50 * ns,),
            model.AS_WRITTEN: (ns,),
            model.SYNCED: (ns * (3 if device != "cpu" else 1),),
        }
        events.append(model.DeviceSampled(case=case.key, device=device, round_index=0, calls_per_block=1, samples=once))
        events.append(
            model.Calibrated(
                case=case.key, device=device, estimate_ns=ns, calls_per_block=40, blocks=5, rounds=total, threads=16
            )
        )
    for index in range(1, count + 1):
        for device, ns in (("cpu", cpu_ns), ("cuda:0", gpu_ns)):
            wobble = 1 + 0.03 * ((index * 7 + len(case.key)) % 5 - 2) / 2
            samples = {model.LATENCY: tuple(ns * wobble * (1 + 0.001 * k) for k in range(5)), model.DEVICE: (ns * 0.4,)}
            events.append(
                model.DeviceSampled(
                    case=case.key, device=device, round_index=index, calls_per_block=40, samples=samples,
                    marks=("starved",) if device != "cpu" and case.size == 64 else (),
                )
            )  # fmt: skip
    return events


def finished(case: model.Case) -> model.CaseFinished:
    """The end of a case whose results agree."""
    return model.CaseFinished(case=case.key, check=model.Check("float64 on the CPU", 3e-7, 1e-3))


def whole_sweep(plan: model.Plan) -> list[model.Event]:
    """Every case of a plan, timed: the CPU is faster below about 200."""
    events: list[model.Event] = []
    for case in plan.cases:
        cpu_ns, gpu_ns = 1_000 + 0.04 * case.size**3, 20_000 + 0.0001 * case.size**3
        events += [*rounds(case, cpu_ns, gpu_ns), finished(case)]
    return events


def readings(gpus: int = 1, problem: str | None = None, age_s: float = 0.0, busy: float = 97.0) -> model.TelemetryRead:
    """One sweep over a machine with so many GPUs."""
    return model.TelemetryRead(
        gpus=tuple(_gpu(index, age_s, busy) for index in range(gpus)), host=_host(), problem=problem
    )


def _gpu(index: int, age_s: float, busy: float) -> model.GpuTelemetry:
    numbers = {
        "kernel_active_pct": busy, "memory_used_bytes": 13e9, "memory_total_bytes": 150e9, "sm_clock_mhz": 1980.0,
        "memory_clock_mhz": 3201.0, "power_mw": 412_000.0, "power_limit_mw": 700_000.0, "temperature_c": 45.0,
        "slowdown_temperature_c": 87.0,
    }  # fmt: skip
    return model.GpuTelemetry(
        index=index,
        uuid=f"GPU-{index}",
        name="NVIDIA H200",
        pci_bus_id=None,
        readings={key: model.Reading(value, age_s=age_s) for key, value in numbers.items()},
        throttle=("power-capped",) if index == 0 else (),
        processes=(model.GpuProcess(1, 10**9, "ann", "python", own=False),) if index == 0 else (),
    )


def _host() -> dict[str, model.Reading]:
    return {
        "cpu_pct": model.Reading(12.0),
        "memory_used_bytes": model.Reading(31e9),
        "memory_total_bytes": model.Reading(256e9),
        "load_1min": model.Reading(0.52),
        "cpu_freq_mhz": model.Reading(None, "not-supported"),
        "cpu_quota_cores": model.Reading(16.0),
    }
