"""Waits until an app has answered its keys, by looking at its event loop instead of at the clock.

Textual's pilot takes 20 ms in which the process used less than 1 ms of CPU for a sign that all is done. A process that
gets no core for 20 ms looks like that, too, so on a busy machine a test went on before the app had moved. On an idle
one those pauses were half of the time that the tests of the app took.
"""

import asyncio
from typing import Any

import textual.app
import textual.pilot

SOON_S = 0.04
"""Timers that are due within this, such as that of the next paint, are waited for.

Textual paints 60 times a second, and a paint timer that was woken late skips one: its next is up to 33 ms away. With
20 ms here, 18 of 60 tries of one test beside eight busy processes looked at the screen before it was painted.
"""
MOST_TIMERS = 8
"""Timers that are waited for at most: a test may let one tick every 10 ms."""


async def all_answered(_min_sleep: float = 0.0, _max_sleep: float = 0.0) -> None:
    """Return once nothing in the event loop of the caller can go on, nor will within `SOON_S`."""
    loop: Any = asyncio.get_running_loop()
    timers = 0
    while True:
        await asyncio.sleep(0)
        if loop._ready:
            continue
        now_s = loop.time()
        due_s = min((timer.when() for timer in loop._scheduled if not timer.cancelled()), default=now_s + SOON_S)
        if due_s >= now_s + SOON_S or timers == MOST_TIMERS:
            return
        timers += 1
        await asyncio.sleep(max(due_s - now_s, 0.0))


def use_event_loop() -> None:
    """Let every pilot of this process wait like this."""
    for module in (textual.app, textual.pilot):
        assert hasattr(module, "wait_for_idle")
        module.wait_for_idle = all_answered
