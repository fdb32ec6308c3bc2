"""Makes the pictures of README and docs from the shipped demo; the same recording gives the same pictures.

`demo.svg` moves: the search for the crossover with its chart growing below the rows, the whole chart, the detail of a
row, and the answer. `screenshot-chart.svg` and `screenshot-telemetry.svg` stand still.
"""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from cpugpu_tui.demo.recording import FIRST_S, GAP_S, Clock, Player, Recording, shipped
from cpugpu_tui.model import Plan
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.live.backend import DemoBackend, RunningSession

from .moving import Frame, moving, without_remote_fonts

SIZE = (120, 40)
FILM_SIZE = (120, 44)
"""A little higher, so that the live chart stays readable under the rows of the whole run."""

STEP_S = 0.9
MOMENTS_S = [STEP_S * step + GAP_S / 10 for step in range(1, int(FIRST_S / STEP_S))]
"""When the run is looked at: just after a gap between timed blocks, in which the app paints."""

MOMENT_SHOWN_S = 0.55

LOOKS: tuple[tuple[Sequence[str], float], ...] = (((), 4.0), (("g",), 4.0), (("enter",), 4.0), (("escape",), 5.0))
"""After the run, which ends on the chart: keys to press, and how long to show the result. The last one is the still."""

LONGEST_WAIT_S = 120.0
AT_REST = 3
"""Screens without a change after which it is at rest: a layout may share the lines anew, which is another layout."""


class SteppedClock(Clock):
    """Time that goes only as far as it is told, so that every moment of a run can be looked at in peace."""

    def __init__(self) -> None:
        self._now_s = self._limit_s = 0.0
        self._changed: threading.Condition | None = None
        self._arrived = threading.Event()

    def now_s(self) -> float:
        return self._now_s

    def wait(self, changed: threading.Condition, seconds: float | None) -> None:
        due_s = self._now_s + (seconds if seconds is not None else float("inf"))
        if due_s <= self._limit_s:
            self._now_s = due_s
            return
        self._changed = changed
        self._arrived.set()
        changed.wait()

    def go_to(self, moment_s: float) -> None:
        """Let time pass up to a moment of the run."""
        with self._changed:
            self._arrived.clear()
            self._limit_s = moment_s
            self._changed.notify_all()

    def has_arrived(self) -> bool:
        """Whether everything until that moment has been told."""
        return self._arrived.is_set()


class SteppedBackend(DemoBackend):
    """Plays the demo by a clock that the camera moves."""

    def __init__(self, options: AppOptions, clock: SteppedClock) -> None:
        super().__init__(options)
        self._clock = clock

    def session(self, plan: Plan, series_id: str | None, case_timeout_s: float | None) -> RunningSession:
        return Player(self._recording, None, self._clock)


@asynccontextmanager
async def demo(recording: Recording, clock: SteppedClock, size: tuple[int, int] = SIZE) -> AsyncIterator[Pilot[Any]]:
    """Open the app at the first moment of the recording."""
    options = AppOptions(demo=recording)
    app = CpuGpuApp(options, backend=SteppedBackend(options, clock))
    app.gate.hold = lambda: None  # type: ignore[method-assign] # nothing is timed here: paint always
    async with app.run_test(size=size) as pilot:
        try:
            await until(pilot, clock.has_arrived)
            yield pilot
        finally:
            app.bridge.kill()
            await until(pilot, lambda: not app.state.situation.live)
            app.bridge.backend.close()


async def until(pilot: Pilot[Any], condition: Callable[[], bool]) -> None:
    """Wait for a condition, then for the screen to show it."""
    async with asyncio.timeout(LONGEST_WAIT_S):
        while not condition():
            await pilot.pause(0.01)
    await pilot.pause()


async def played(pilot: Pilot[Any], clock: SteppedClock) -> None:
    """Play to the end, the chart; what the demo says then is about a person's keys, so it is left out of pictures."""
    main = pilot.app.screen
    clock.go_to(float("inf"))
    await until(pilot, lambda: pilot.app.screen is not main)
    pilot.app.change(notice=None)  # type: ignore[attr-defined]
    await pilot.pause()


async def look(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys, each of which opens or closes a page; tab only moves the focus."""
    for key in keys:
        before = pilot.app.screen
        await pilot.press(key)
        if key != "tab":
            await until(pilot, lambda before=before: pilot.app.screen is not before)  # type: ignore[misc]


async def shot(pilot: Pilot[Any]) -> str:
    """Return the screen, once it has come to rest, as an SVG that needs nothing else and names its styles alike."""
    svg, alike = "", 0
    while alike < AT_REST:
        await pilot.pause(0.02)
        before, svg = svg, pilot.app.export_screenshot(title="cpugpu-tui demo")
        alike = alike + 1 if svg == before else 0
    return without_remote_fonts(re.sub(r"terminal-\d+-", "terminal-demo-", svg))


async def film(recording: Recording, moments: Iterable[float] = MOMENTS_S) -> list[Frame]:
    """Return what the app shows at moments of a recording's first run, and after it."""
    frames: list[Frame] = []
    clock = SteppedClock()
    async with demo(Recording(recording.runs[:1]), clock, FILM_SIZE) as pilot:
        for moment_s in moments:
            clock.go_to(moment_s)
            await until(pilot, clock.has_arrived)
            frames.append(Frame(await shot(pilot), MOMENT_SHOWN_S))
        await played(pilot, clock)
        for keys, shown_s in LOOKS:
            await look(pilot, *keys)
            frames.append(Frame(await shot(pilot), shown_s))
    return frames


async def still(recording: Recording, *keys: str) -> str:
    """Return what keys show after a recording has been played."""
    clock = SteppedClock()
    async with demo(recording, clock) as pilot:
        await played(pilot, clock)
        await look(pilot, *keys)
        return await shot(pilot)


async def make_pictures(folder: Path) -> None:
    """Write all pictures into a folder."""
    whole = shipped()
    quick = Recording(whole.runs[:1])
    (folder / "demo.svg").write_text(moving(await film(whole)))
    (folder / "screenshot-chart.svg").write_text(await still(quick))
    (folder / "screenshot-telemetry.svg").write_text(await still(whole, "g", "tab", "z"))
