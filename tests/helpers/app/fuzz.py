"""Random keys and resizes for the app: a script from a seed, visits that obey it, and what must hold of each visit.

The app runs in this process on the simulated machine; the store is a real one. A visit ends when its script quits, or
when the script is over: then ctrl+c is pressed until the app has gone, which must work from wherever it is.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from textual import events
from textual.app import App
from textual.geometry import Size
from textual.keys import _character_to_key
from textual.pilot import Pilot
from textual.screen import Screen

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model import Event, Plan, RunFinished, RunStarted, Simulation, TelemetryRead
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.session.session import Deliver, Session
from cpugpu_tui.state.folding import folded
from cpugpu_tui.store import Store
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.keys import COMMANDS
from cpugpu_tui.ui.live.backend import Backend, RunningSession
from cpugpu_tui.ui.live.saved_runs import SavedRuns
from cpugpu_tui.ui.shell import INTERNAL_ERROR

Step = str | tuple[int, int]
"""A key, or a new size of the terminal in columns and rows."""

COLUMNS, ROWS = (40, 220), (10, 70)
"""Sizes of the terminal."""

REGISTRY = tuple(key for command in COMMANDS for key in command.keys)
ENDS = ("q", "ctrl+c")
OF_PAGES = (
    "up", "down", "left", "right", "pageup", "pagedown", "home", "end", "j", "k", "G", "shift+tab", "d", "n", "o",
    "X", "Y", "y", *"1239",
)  # fmt: skip
"""What lists, pages and boxes answer by themselves, and counts."""
OPENS_A_FIELD = ("/", ":", "e", "enter")
TYPED = (*"abcdemnqrstux0123456789 ,.:-", "µ", "漢", "[", "backspace", "left", "tab", "ctrl+u", "ctrl+w")
MOST_TYPED = 8

MOST_AT_ONCE = 12
"""Steps that are sent before anything is waited for."""
CHARACTERS = {"space": " ", "tab": "\t", "enter": "\r", "backspace": "\x7f", "escape": "\x1b"}
"""What a terminal sends for keys that have names."""
QUICK = Simulation(cpu_overhead_ns=200_000, launch_ns=200_000, first_call_ns=0)
"""A machine whose calls are long, so that a warm-up has few of them."""

VISIT_S = 500.0
"""A visit that takes longer than this hangs."""
PRESSES_TO_QUIT = 8
"""Times that ctrl+c is pressed before quitting counts as broken: a field, a box and a question may be open."""


def script(seed: int, keys: int, resizes: int) -> list[Step]:
    """Return so many keys, every one of the registry among them, with so many resizes in between."""
    random = Random(seed)
    often = [key for key in REGISTRY if key not in ENDS]
    found: list[str] = []
    while len(found) < keys:
        kind = random.random()
        if kind < 0.02:
            found.append(random.choice(ENDS))
            continue
        found.append(random.choice(often if kind < 0.7 else OF_PAGES))
        if found[-1] in OPENS_A_FIELD and random.random() < 0.6:
            found += random.choices(TYPED, k=random.randint(0, MOST_TYPED))
            found.append(random.choice(("enter", "escape")))
    steps: list[Step] = [*found[:keys]]
    for key, place in zip(REGISTRY, random.sample(range(keys), min(len(REGISTRY), keys)), strict=False):
        steps[place] = key
    while resizes:
        # Dragging a window's edge is many sizes at once.
        together = min(random.randint(1, MOST_AT_ONCE), resizes)
        place = random.randrange(len(steps) + 1)
        steps[place:place] = [(random.randint(*COLUMNS), random.randint(*ROWS)) for _ in range(together)]
        resizes -= together
    return steps


@dataclass
class Witness:
    """Events of every run as the app got them, and the runs that keys deleted from the history."""

    runs: dict[str, list[Event]] = field(default_factory=dict)
    """Run id → its events in order, telemetry left out."""
    deleted: set[str] = field(default_factory=set)

    def check(self, database: Path) -> int:
        """Return how many runs ended.

        Raises:
            AssertionError: one of them is not in the history, or not whole, or a finished case is not.
        """
        ended = 0
        with closing(Store.open(database)) as store:
            for run_id, heard in self.runs.items():
                if run_id in self.deleted or not any(isinstance(event, RunStarted) for event in heard):
                    continue  # one that was stopped before its agent answered has nothing to save
                told, kept = folded(heard), folded(store.load(run_id))
                settled = {key: row for key, row in told.rows.items() if row.status not in ("pending", "active")}
                lost = [key for key, row in settled.items() if kept.rows.get(key) != row]
                assert not lost, f"run {run_id}: {len(lost)} of {len(settled)} cases are not in the history: {lost[:3]}"
                if told.finished is not None:
                    ended += 1
                    assert kept.status == told.status, f"run {run_id}: {told.status} here, {kept.status} in the history"
        return ended


class WitnessedBackend(Backend):
    """The real backend; a witness hears what its runs deliver, and what is deleted."""

    def __init__(self, options: AppOptions, witness: Witness) -> None:
        super().__init__(options)
        self._witness = witness

    def session(self, plan: Plan, series_id: str | None, case_timeout_s: float | None) -> RunningSession:
        session = super().session(plan, series_id, case_timeout_s)
        assert isinstance(session, Session)
        if not plan.calibrate:
            session.run = self._heard(session.run_id, session.run)  # type: ignore[method-assign]
        return session

    def _heard(self, run_id: str, run: Callable[[Deliver], RunFinished]) -> Callable[[Deliver], RunFinished]:
        heard = self._witness.runs.setdefault(run_id, [])

        def witnessed(deliver: Deliver) -> RunFinished:
            def both(event: Event) -> None:
                if not isinstance(event, TelemetryRead):
                    heard.append(event)
                deliver(event)

            return run(both)

        return witnessed

    @property
    def history(self) -> SavedRuns:
        store, witness = self._store, self._witness
        if store is not None and "delete" not in vars(store):
            delete = store.delete

            def noted(run_id: str) -> None:
                witness.deleted.add(run_id)
                delete(run_id)

            store.delete = noted  # type: ignore[method-assign]
        return super().history


# ------------------------------------------------------------------ a visit


class FuzzError(AssertionError):
    """Something that must hold did not, when so many steps of the script had been taken."""

    def __init__(self, message: str, steps: int) -> None:
        super().__init__(message)
        self.steps = steps


@dataclass
class Outcome:
    """Outcome of a script."""

    steps: int = 0
    visits: int = 0
    quits: int = 0
    """Visits that the script itself ended."""
    runs: int = 0
    """Runs that ended, all of them in the history."""
    screens: set[str] = field(default_factory=set)
    """Names of the screens that were opened."""


async def play(steps: Sequence[Step], folder: Path, seed: int = 0, ends_s: float = math.inf) -> Outcome:
    """Obey a script until `ends_s` of the monotonic clock, in as many visits as it takes, with one history in `folder`.

    Raises:
        FuzzError: the app crashed, showed a fault of its own, could not be left, or lost a run.
    """
    options = AppOptions(
        request=PlanRequest(rounds=2, simulation=QUICK), worker="thread", database=folder / "results.db"
    )
    witness, outcome, taken, random = Witness(), Outcome(), 0, Random(seed)
    while taken == 0 or (taken < len(steps) and time.monotonic() < ends_s):
        outcome.visits += 1
        visit = Visit(CpuGpuApp(options, backend=WitnessedBackend(options, witness)), outcome)
        try:
            taken = outcome.steps = await visit.take(steps, taken, random, ends_s)
        except Exception as error:
            raise FuzzError(f"{type(error).__name__}: {error}", visit.taken) from error
        finally:
            visit.app.bridge.backend.close()
    try:
        outcome.runs = witness.check(folder / "results.db")
    except (AssertionError, CpuGpuError) as error:
        raise FuzzError(str(error), len(steps)) from error
    return outcome


def send_at_once(app: App[Any], *steps: Step) -> None:
    """Send keys and sizes as a terminal does, waiting for nothing: people type faster than a screen opens."""
    driver = app._driver
    for step in steps if driver is not None else ():
        if isinstance(step, str):
            name = _character_to_key(step) if len(step) == 1 else step
            driver.send_message(events.Key(name, step if len(step) == 1 else CHARACTERS.get(step)))
        else:
            size = Size(*step)
            driver._size = size
            driver.send_message(events.Resize(size, size))


class Visit:
    """The app from its first frame to its end."""

    def __init__(self, app: CpuGpuApp, outcome: Outcome) -> None:
        self.app, self.taken = app, 0
        self._outcome = outcome
        push = app.push_screen

        def noted(screen: Screen[Any], *arguments: Any, **named: Any) -> Any:
            outcome.screens.add(type(screen).__name__)  # the next key of a burst may close it at once
            return push(screen, *arguments, **named)

        app.push_screen = noted  # type: ignore[method-assign]

    async def take(self, steps: Sequence[Step], begin: int, random: Random, ends_s: float) -> int:
        """Obey the script from `begin` until it, the time or the app is over; return how far it came."""
        self.taken = begin
        async with asyncio.timeout(VISIT_S), self.app.run_test(size=(120, 40)) as pilot:
            while self.taken < len(steps) and not self.app._exit:
                together = steps[self.taken : self.taken + random.randint(1, MOST_AT_ONCE)]
                send_at_once(self.app, *together)
                self.taken += len(together)
                await self._rest(pilot)
                if time.monotonic() > ends_s:
                    break
            if self.app._exit:
                self._outcome.quits += 1
            else:
                await self._quit(pilot)
        assert self.app.return_value is not None, f"the app ended without a result, with {self.app.return_code}"
        return self.taken

    async def _rest(self, pilot: Pilot[Any]) -> None:
        """Wait until all input is handled, and check for errors that must never appear."""
        await pilot.pause()
        problem = self.app.state.problem
        assert problem is None or INTERNAL_ERROR not in str(problem), str(problem)

    async def _quit(self, pilot: Pilot[Any]) -> None:
        for _ in range(PRESSES_TO_QUIT):
            send_at_once(self.app, "ctrl+c")
            await self._rest(pilot)
            if self.app.exit_code is not None:
                break
        else:
            where = f"{self.app.screen} is open, {self.app.focused} has the keys"
            raise AssertionError(f"{PRESSES_TO_QUIT} times ctrl+c did not end it; {where}")
        while not self.app._exit:
            await pilot.pause(0.01)


# ------------------------------------------------------------------ when it failed


def shortest(steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool], tries: int = 24) -> Sequence[Step]:
    """Return a part of a script that still fails: pieces are left out, large ones first, while tries last."""
    size = max(len(steps) // 2, 1)
    while tries > 0:
        for begin in range(0, len(steps), size):
            less = [*steps[:begin], *steps[begin + size :]]
            tries -= 1
            if less and fails(less):
                steps = less
                break
            if tries <= 0:
                return steps
        else:
            if size == 1:
                return steps
            size = max(size // 2, 1)
    return steps
