"""Runs in a real database, and an app that looks back at them: agents and readings are made up, the store is not."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.helpers.app.fake_run import DEVICES, ENVIRONMENT, FakeBackend, new_app, readings, settled, whole_sweep
from tests.helpers.app.looking import text_of
from textual.pilot import Pilot

from cpugpu_tui.model import CaseFinished, DevicesFound, Event, Plan, RunFinished, RunStarted
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.store import Store
from cpugpu_tui.store.outbox import Outbox
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.live.saved_runs import SavedRuns
from cpugpu_tui.ui.screens.history import HistoryScreen

NOW_NS = 1_800_000_000 * 10**9
"""The app's wall time in these tests: 2027-01-15 08:00 UTC."""
HOUR_NS = 3600 * 10**9

SWEEP = build_plan(PlanRequest(("matmul",), sizes="64,256,1024"))


class HistoryBackend(FakeBackend):
    """Made-up agents beside a real store."""

    def __init__(self, store: Store | None, refusal: Any = None) -> None:
        super().__init__()
        self.outbox = None if store is None else Outbox(lambda _wait_s: store, store)
        self._no_store = refusal or self._no_store

    @property
    def history(self) -> SavedRuns:
        return SavedRuns(self._store, self._no_store, lambda: NOW_NS)


def stream(run_id: str, plan: Plan = SWEEP, age_ns: int = 3 * HOUR_NS, status: str = "done") -> list[Event]:
    """A whole run that began so long ago and took 42 s, with one reading of its machine."""
    start_ns = NOW_NS - age_ns
    plan = replace(plan, gaps=True)
    events: list[Event] = [
        RunStarted(run_id=run_id, series_id=f"of-{run_id}", plan=plan, environment=dict(ENVIRONMENT)),
        DevicesFound(devices=DEVICES),
        readings(busy=7.0),
        *whole_sweep(plan),
        RunFinished(status=status),
    ]
    last = len(events) - 1
    return [
        replace(event, seq=number + 1, wall_ns=start_ns + (42 * 10**9 if number == last else number))
        for number, event in enumerate(events)
    ]


def begin(store: Store, events: Sequence[Event]) -> list[list[Event]]:
    """Begin a run as another terminal would, and return the events of each case, which it has yet to save."""
    started, found, *rest = events
    assert isinstance(found, DevicesFound)
    store.begin_run(started)
    store.add_devices(started.run_id, found)
    cases: list[list[Event]] = [[]]
    for event in rest[1:-1]:
        cases[-1].append(event)
        if isinstance(event, CaseFinished):
            cases.append([])
    return cases[:-1]


async def list_runs(pilot: Pilot[Any]) -> HistoryScreen:
    """Press h, and wait until the list is whole."""
    await settled(pilot, lambda: pilot.app.state.agent_ready)
    await pilot.press("h")
    await settled(pilot, lambda: isinstance(pilot.app.screen, HistoryScreen) and pilot.app.screen._whole)
    return pilot.app.screen


async def open_newest(pilot: Pilot[Any]) -> None:
    """Open the run at the top of the list."""
    await list_runs(pilot)
    await pilot.press("enter")
    await settled(pilot, lambda: pilot.app.state.past is not None)


def app_with(store: Store | None, **options: Any) -> CpuGpuApp:
    """An app with this history."""
    return new_app(backend=HistoryBackend(store), **options)


def listed(pilot: Pilot[Any]) -> list[str]:
    """The lines of the list of runs."""
    return [" ".join(line.split()) for line in text_of(pilot, "#list").splitlines() if line.strip()]


def status(pilot: Pilot[Any]) -> str:
    """What the status line says."""
    return " ".join(text_of(pilot, "#status").split())
