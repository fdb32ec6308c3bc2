"""The paint gate: while a run is live the screen repaints in the agent's gaps, on a key, and never by itself.

Why: a repaint beside a timed block is in the numbers (method.md: a product of 256×256 on 16 threads of the same
process reads 115 µs instead of 51 beside a screen that repaints four times a second). While held, Textual's
`batch_update` stays open: widgets may change, the screen collects what is dirty, nothing is composed or written.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.app import App

ONE_PAINT_S = 0.25
"""How long the gate waits for the one paint. It comes 20 to 40 ms after the gap began, within the gap's 50 ms; on a
machine so busy that it comes later, a late paint is better than a screen that stands still."""

KEY_QUIET_S = 0.1
"""A key or a resize opens the gate until nothing has been painted for this long: a screen that is pushed paints two
or three times until it is complete."""

KEY_LIMIT_S = 0.5
"""A key keeps the gate open for no longer than this."""

STRAY = "stray"
"""Cause of a paint that nothing allowed; there must be none."""


class PaintGate:
    """Lets paints through one at a time while held; does nothing while not."""

    def __init__(self, app: App[Any]) -> None:
        """Take the app whose paints are held; its `_display` must report to `painted` and `dropped`."""
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
        """Close the gate for the length of a run. A paint already on its way (the key's own) still gets through."""
        if not self.held:
            self.held = True
            self.open_window()

    def release(self) -> None:
        """Open the gate for good: the run is over."""
        self.held = False
        self._cause = None
        self._cancel_timers()
        self._open()

    def let_one_through(self, cause: str) -> None:
        """Allow one paint, now; without anything dirty the gate closes again after `ONE_PAINT_S`."""
        if not self.held or self._cause == "key":  # an open window shows it all the same
            return
        self._cancel_timers()
        self._allow(cause, one_paint=True)
        self._later(ONE_PAINT_S, self._close)

    def open_window(self, cause: str = "key") -> None:
        """Allow paints until they have come to rest: the person did something and sees the answer."""
        if self.held:
            self._cancel_timers()
            self._allow(cause, one_paint=False)
            self._later(KEY_QUIET_S, self._close_when_answered)
            self._later(KEY_LIMIT_S, self._close)

    def painted(self) -> None:
        """Be told that a paint has been written."""
        self.paints[(self._cause or STRAY) if self.held else "idle"] += 1
        self._answered_s = time.monotonic()
        if self.held and self._one_paint:
            self._cancel_timers()
            self._close()

    def dropped(self) -> None:
        """Be told that Textual composed something and threw it away because the gate was closed."""
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
        else:  # not painted yet, or just now
            self._later(KEY_QUIET_S, self._close_when_answered)

    def _later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(delay_s, callback))

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
