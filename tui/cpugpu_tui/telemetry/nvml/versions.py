"""Versions of the driver and of NVML, for what is written down."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from typing import Any

from cpugpu_tui.telemetry.text import printable

PATIENCE_S = 2.0
"""A driver that does not answer within this is left out: a wedged one never does."""


def versions() -> tuple[str | None, str | None]:
    """Return the versions of driver and NVML, None where there is none. Ask before another session opens."""
    answers: queue.SimpleQueue[tuple[str | None, str | None]] = queue.SimpleQueue()
    threading.Thread(target=lambda: answers.put(_asked()), name="telemetry-versions", daemon=True).start()
    try:
        return answers.get(timeout=PATIENCE_S)
    except queue.Empty:
        return None, None


def _asked() -> tuple[str | None, str | None]:
    try:
        import pynvml
    except ImportError:
        return None, None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None, None
    try:
        return session_versions(pynvml)
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def session_versions(nvml: Any) -> tuple[str | None, str | None]:
    """Return the same within a session that is open."""
    found: list[str | None] = []
    for ask in (nvml.nvmlSystemGetDriverVersion, nvml.nvmlSystemGetNVMLVersion):
        found.append(None)
        with suppress(nvml.NVMLError, UnicodeDecodeError):
            found[-1] = printable(str(ask())) or None
    return found[0], found[1]
