"""Threads that ask NVML, each in a session of its own: one sample for each question, and the driver's versions.

A call that never returns holds its thread for good, and it cannot be ended. It is left behind, and another asker goes
on without the GPU that hangs. NVML's calls are safe beside each other, and its sessions are counted: a shutdown ends
the library's only when it is the last. Tried on an H200: 700,000 sessions opened and shut beside 3.4 million calls.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cpugpu_tui.machine.nvml import Nvml
from cpugpu_tui.machine.nvml.returns import driver_problem
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import GpuTelemetry


@dataclass(frozen=True)
class Answer:
    """What one sample over the GPUs gave, and when."""

    gpus: tuple[GpuTelemetry, ...]
    problem: str | None
    mono_ns: int


class Asker:
    """One thread, one session. Questions and answers are one at a time; used by one other thread."""

    def __init__(
        self,
        root: str = "/",
        gpm: bool = False,
        quiet: Callable[[], bool] = lambda: False,
        without: Container[int] = (),
    ) -> None:
        """`quiet` and `without` (GPUs not to be asked) are looked at in every sample."""
        self.nvml = Nvml(root, gpm=gpm, without=without)
        self.asked_ns: int | None = None
        """When the question was put that is not answered yet."""
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
        """Return the answer, None if it does not come in time."""
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
            gpus, problem = self._swept(own_pids)
            self._answers.put(Answer(gpus, problem, time.monotonic_ns()))
        self.nvml.close()

    def _swept(self, own_pids: set[int]) -> tuple[tuple[GpuTelemetry, ...], str | None]:
        try:
            return self.nvml.read(own_pids, quiet=self._quiet())
        except Exception as error:  # noqa: BLE001 - without this thread nothing would be read until the end
            return (), driver_problem(error)


# ------------------------------------------------------------------ versions


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
