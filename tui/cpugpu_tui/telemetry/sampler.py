"""The daemon thread that turns the machine's state into `TelemetryRead` events, one per tick.

Two threads: `telemetry` ticks, reads the host and emits; `telemetry-nvml` makes every NVML call, shutdown
included. A wedged driver makes a call never return: then the second thread is stuck, and the first still
ticks, with the last values growing older.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from cpugpu_tui.model import GpuTelemetry, TelemetryRead
from cpugpu_tui.telemetry.host import Host
from cpugpu_tui.telemetry.nvml import Nvml

PATIENCE_S = 0.5
"""How long a tick waits for the driver before it goes out with what is known. Import, session and first sweep take
0.1 s on an H200, but seconds where the driver has to wake the GPU first (no persistence)."""
HANG_S = 2.0
"""Silence after which the driver is said not to answer."""
OURS_S = 10.0
"""An agent that ended is known as ours for so long. On an H200 the one that had just finished a run stood there as
somebody else's process."""
STOP_S = 2.0
"""How long `stop` waits for each thread; one that hangs in the driver is left behind, it cannot be ended."""


@dataclass(frozen=True)
class _Answer:
    """What one sweep over the GPUs gave, and when."""

    gpus: tuple[GpuTelemetry, ...]
    problem: str | None
    mono_ns: int


def aged(gpus: tuple[GpuTelemetry, ...], seconds: float) -> tuple[GpuTelemetry, ...]:
    """Return the rows as they are `seconds` later: every reading that much older."""
    return tuple(
        replace(gpu, readings={key: replace(r, age_s=r.age_s + seconds) for key, r in gpu.readings.items()})
        for gpu in gpus
    )


class Sampler:
    """Emits a `TelemetryRead` at once and then every `interval_s`, until stopped. Used once."""

    def __init__(
        self,
        interval_s: float,
        emit: Callable[[TelemetryRead], None],
        own_pids: Callable[[], set[int]] = set,
        root: str = "/",
        gpm: bool = False,
    ) -> None:
        """`emit` and `own_pids` (our agents) are called on the thread `telemetry`.

        They must not wait for the thread that calls `stop`. `root` is where `proc` and `sys` are found. `gpm` asks
        for SM occupancy, tensor and DRAM activity on GPUs that count them.
        """
        self._interval_s = interval_s
        self._emit = emit
        self._own_pids = own_pids
        self._seen_s: dict[int, float] = {}
        self._root = root
        self._gpm = gpm
        self._quiet = threading.Event()
        self._host = Host(root)
        self._stopping = threading.Event()
        self._questions: queue.SimpleQueue[set[int] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._answer = _Answer((), None, time.monotonic_ns())
        self._asked_ns: int | None = None
        self._ticker = threading.Thread(target=self._tick_until_stopped, name="telemetry", daemon=True)
        self._asker = threading.Thread(target=self._answer_questions, name="telemetry-nvml", daemon=True)

    @property
    def quiet(self) -> bool:
        """Whether values that cost the driver more than 0.2 ms are left as they are, growing older.

        To be set while a run is live, from any thread: an energy counter read beside a timed block takes up to 16 ms.
        """
        return self._quiet.is_set()

    @quiet.setter
    def quiet(self, quiet: bool) -> None:
        if quiet:
            self._quiet.set()
        else:
            self._quiet.clear()

    def start(self) -> None:
        """Start both threads."""
        self._asker.start()
        self._ticker.start()

    def stop(self) -> None:
        """End both threads: the call under way is waited for, then NVML is shut down. Nothing is emitted afterwards."""
        self._stopping.set()
        if self._ticker.is_alive():
            self._ticker.join(STOP_S)
        self._questions.put(None)
        if self._asker.is_alive():
            self._asker.join(STOP_S)

    def _answer_questions(self) -> None:
        """Thread `telemetry-nvml`: one sweep per question; None ends it."""
        nvml = Nvml(self._root, gpm=self._gpm)
        while (own_pids := self._questions.get()) is not None:
            gpus, problem = nvml.read(own_pids, quiet=self.quiet)
            self._answers.put(_Answer(gpus, problem, time.monotonic_ns()))
        nvml.close()

    def _tick_until_stopped(self) -> None:
        """Thread `telemetry`: ticks at fixed times; after a slow tick they start afresh, without a burst."""
        next_s = time.monotonic()
        while not self._stopping.wait(max(0.0, next_s - time.monotonic())):
            self._ask()
            event = self._event()
            if not self._stopping.is_set():
                self._emit(event)
            next_s = max(next_s + self._interval_s, time.monotonic())

    def _ask(self) -> None:
        """Ask the other thread for a sweep, unless it still owes one, and wait a little for the answer."""
        if self._asked_ns is None:
            self._asked_ns = time.monotonic_ns()
            self._questions.put(self._ours())
        try:
            self._answer = self._answers.get(timeout=min(PATIENCE_S, self._interval_s))
        except queue.Empty:
            return
        self._asked_ns = None

    def _ours(self) -> set[int]:
        """Return our agents, those that ended lately too: the list of processes is up to 5 s older than they are."""
        now_s = time.monotonic()
        seen_s = {**self._seen_s, **dict.fromkeys(self._own_pids(), now_s)}
        self._seen_s = {pid: at_s for pid, at_s in seen_s.items() if now_s - at_s <= OURS_S}
        return set(self._seen_s)

    def _event(self) -> TelemetryRead:
        """Return what is known now."""
        host = self._host.read()
        now_ns = time.monotonic_ns()
        problem = self._answer.problem
        silent_s = 0.0 if self._asked_ns is None else (now_ns - self._asked_ns) / 1e9
        if silent_s >= HANG_S:
            problem = (
                f"The NVIDIA driver has not answered for {silent_s:.0f} s. GPU values are as old as they say; if this"
                " lasts, look for Xid errors in dmesg."
            )
        gpus = aged(self._answer.gpus, (now_ns - self._answer.mono_ns) / 1e9)
        return TelemetryRead(gpus=gpus, host=host, problem=problem, wall_ns=time.time_ns(), mono_ns=now_ns)
