"""Versions of the driver and of NVML, for what is written down."""

from __future__ import annotations

import queue
import threading
import time
from contextlib import suppress
from typing import Any

from cpugpu_tui.machine.text import printable

PATIENCE_S = 2.0
"""A driver that does not answer within this is left out: a wedged one never does."""
AGAIN_S = 5.0
"""A driver that told none is not asked more often: each time takes a session."""


def versions() -> tuple[str | None, str | None]:
    """Return the versions of driver and NVML, None where there is none. Ask before another session opens."""
    return Versions().known(PATIENCE_S)


class Versions:
    """The versions of driver and NVML, which a driver that hangs tells late, or never."""

    def __init__(self) -> None:
        """Ask, on a thread of its own: a call may never return."""
        self._known: tuple[str | None, str | None] = None, None
        self._answers: queue.SimpleQueue[tuple[str | None, str | None]] = queue.SimpleQueue()
        self._is_asked, self._asked_s = False, 0.0
        self._ask()

    def _ask(self) -> None:
        self._is_asked, self._asked_s = True, time.monotonic()
        threading.Thread(target=lambda: self._answers.put(_asked()), name="telemetry-versions", daemon=True).start()

    def known(self, within_s: float = 0.0, *, again: bool = False) -> tuple[str | None, str | None]:
        """Return what is known within some seconds; `again` asks anew where the last answer was that there is none."""
        if self._is_asked:
            with suppress(queue.Empty):
                self._known = self._answers.get(timeout=within_s) if within_s else self._answers.get_nowait()
                self._is_asked = False
        if again and self._known[0] is None and not self._is_asked and time.monotonic() - self._asked_s >= AGAIN_S:
            self._ask()
        return self._known


def _asked() -> tuple[str | None, str | None]:
    try:
        import pynvml
    except ImportError:
        return None, None
    try:
        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - a library that is broken raises anything
        return None, None
    try:
        return session_versions(pynvml)
    finally:
        with suppress(Exception):
            pynvml.nvmlShutdown()


def session_versions(nvml: Any) -> tuple[str | None, str | None]:
    """Return the same within a session that is open."""
    found: list[str | None] = []
    for ask in (nvml.nvmlSystemGetDriverVersion, nvml.nvmlSystemGetNVMLVersion):
        found.append(None)
        with suppress(Exception):
            found[-1] = printable(str(ask())) or None
    return found[0], found[1]
