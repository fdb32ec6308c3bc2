"""A port without an app: controllers change its state, and it notes what else they ask for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import UNICODE
from cpugpu_tui.ui.live.saved_runs import SavedRuns
from cpugpu_tui.ui.screens.main import MainScreen


class FakeTimer:
    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


class FakeMain(MainScreen):
    """The main screen without widgets."""

    def __init__(self) -> None:
        super().__init__(AppState(), UNICODE)
        self.asked: list[str] = []

    def focus_timings(self) -> None:
        self.asked.append("timings")

    def zoom(self) -> None:
        self.asked.append("zoom")

    def show_status(self, state: AppState) -> None:
        self.asked.append("status")

    @property
    def focused_pane(self) -> str:
        return "workload"


class FakePort:
    """Requests are executed at once; threads are noted, and run when a test says so."""

    def __init__(self, **state: Any) -> None:
        self.state = AppState(**state)
        self.glyphs = UNICODE
        self.main = FakeMain()
        self.screen_stack: list[Any] = [self.main]
        self.callbacks: list[Callable[[Any], object] | None] = []
        self.shown = 0
        """How often the screens were shown a state."""
        self.said: list[str] = []
        self.titles: list[str] = []
        self.rung = 0
        self.threads: list[tuple[str, Callable[[], object]]] = []
        self.timers: list[tuple[float, Callable[[], object], FakeTimer]] = []

    @property
    def screen(self) -> Any:
        return self.screen_stack[-1]

    def change(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)
        self.shown += 1

    def situate(self, **changes: Any) -> None:
        self.change(situation=self.state.situation._replace(**changes))

    def say(self, text: str, *, stays: bool = False) -> None:
        self.said.append(text)

    def push_screen(self, screen: Any, callback: Callable[[Any], object] | None = None) -> None:
        self.screen_stack.append(screen)
        self.callbacks.append(callback)

    def pop_screen(self) -> None:
        self.screen_stack.pop()

    def start_thread(self, body: Callable[[], object], group: str, *, exclusive: bool = False) -> None:
        self.threads.append((group, body))

    def in_background(
        self, group: str, body: Callable[[], Any], then: Callable[[Any], object],
        failed: Callable[[CpuGpuError], object],
    ) -> None:  # fmt: skip
        try:
            found = body()
        except CpuGpuError as error:
            failed(error)
        else:
            then(found)

    def set_timer(self, delay: float, callback: Callable[[], object]) -> FakeTimer:
        self.timers.append((delay, callback, FakeTimer()))
        return self.timers[-1][2]

    set_interval = set_timer

    def call_later(self, callback: Callable[[], object]) -> None:
        callback()

    def bell(self) -> None:
        self.rung += 1

    def set_terminal_title(self, title: str) -> None:
        self.titles.append(title)


class FakeBridge:
    """Notes what controllers ask of the threads."""

    def __init__(self, saved: SavedRuns | None = None) -> None:
        self.asked: list[Any] = []
        self.repeat_number = 1
        self.events: tuple[Any, ...] = ()
        self._saved = saved

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given: self.asked.append((name, *given))

    @property
    def backend(self) -> FakeBridge:
        return self

    def take(self) -> tuple[Any, ...]:
        return self.events

    def history(self) -> SavedRuns:
        assert self._saved is not None
        return self._saved

    @contextmanager
    def between_runs(self) -> Any:
        yield self.history()

    @property
    def names(self) -> list[str]:
        return [name for name, *_ in self.asked]


class FakeGate:
    """Notes what is let through."""

    def __init__(self) -> None:
        self.held = False
        self.passed: list[str] = []

    def hold(self) -> None:
        self.held = True

    def release(self) -> None:
        self.held = False

    def let_one_through(self, cause: str) -> None:
        self.passed.append(cause)
