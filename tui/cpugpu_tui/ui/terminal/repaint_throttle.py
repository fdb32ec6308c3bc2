"""The paint gate: during a run the screen repaints only in the agent's gaps and on a key.

A repaint during a timed block distorts its time (method.md: a product of 256×256 on 16 threads takes 115 µs instead of
51 beside a screen in the same process that repaints four times a second). While the gate is held, Textual's
`batch_update` stays open: widgets may change, but nothing is composed or written.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from textual.app import App

ONE_PAINT_S = 0.25
"""How long the gate waits for the one paint.

It comes 20 to 40 ms after a gap began, within the gap's 50 ms. On a busy machine a late paint is better than a frozen
screen.
"""

KEY_QUIET_S = 0.1
"""A key or a resize opens the gate until no paint has come for this long: a new screen needs two or three paints."""

KEY_LIMIT_S = 0.5
"""Longest time that a key keeps the gate open."""

STRAY = "stray"
"""Cause of a paint that was not allowed; tests check that there is none."""


class PaintGate:
    """Lets paints through one at a time while held; does nothing while not."""

    def __init__(self, app: App[Any]) -> None:
        """Make a gate for this app, which must report its frames to `painted` and `dropped`."""
        self._app = app
        self._batch: ExitStack | None = None
        self._cause: str | None = None
        self._one_paint = False
        self._answered_s = float("-inf")
        self._timers: list[asyncio.TimerHandle] = []
        self._lost = False
        self.held = False
        """Whether a run is live: paints need a cause."""
        self.paints: Counter[str] = Counter()
        """Paints that reached the terminal, by cause: `gap`, `tick`, `key`, `idle` (no run), `stray`."""

    def hold(self) -> None:
        """Close the gate for a run. A paint that is due already (that of the run key) still gets through."""
        if not self.held:
            self.held = True
            self.open_window()

    def release(self) -> None:
        """Open the gate after a run."""
        self.held = False
        self._cause = None
        self._cancel_timers()
        self._open()

    def let_one_through(self, cause: str) -> None:
        """Allow one paint now. Without one, the gate closes again after `ONE_PAINT_S`."""
        if not self.held or self._cause == "key":  # the gate is open already
            return
        self._cancel_timers()
        self._allow(cause, one_paint=True)
        self._later(ONE_PAINT_S, self._close)

    def open_window(self) -> None:
        """Allow paints after a key press or a resize until no more come."""
        if self.held:
            self._cancel_timers()
            self._allow("key", one_paint=False)
            self._later(KEY_QUIET_S, self._close_when_answered)
            self._later(KEY_LIMIT_S, self._close)

    def painted(self) -> None:
        """Count a paint that was written."""
        self.paints[(self._cause or STRAY) if self.held else "idle"] += 1
        self._answered_s = time.monotonic()
        if self.held and self._one_paint:
            self._cancel_timers()
            self._close()

    def dropped(self) -> None:
        """Note that Textual discarded a frame because the gate was closed."""
        self._lost = self._lost or self.held

    # ---------------------------------------------------------------- inside

    def _allow(self, cause: str, one_paint: bool) -> None:
        self._cause, self._one_paint, self._answered_s = cause, one_paint, float("-inf")
        self._open()

    def _open(self) -> None:
        if self._batch is not None:
            self._batch.close()
            self._batch = None
        if not self._app.screen_stack:  # the app is closing
            return
        if self._lost:
            self._lost = False
            self._app.screen.refresh()
        self._app.screen.check_idle()

    def _close(self) -> None:
        if self.held and self._batch is None:
            self._cancel_timers()
            self._cause, self._one_paint = None, False
            self._batch = ExitStack()
            self._batch.enter_context(self._app.batch_update())

    def _close_when_answered(self) -> None:
        rest_s = time.monotonic() - self._answered_s
        if KEY_QUIET_S <= rest_s < KEY_LIMIT_S:
            self._close()
        else:  # not painted yet, or only just
            self._later(KEY_QUIET_S, self._close_when_answered)

    def _later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(delay_s, callback))

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
