"""Detects disturbances on the host while blocks are timed: page faults, and threads that wait for a core."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass, field
from time import perf_counter, perf_counter_ns, sleep

from cpugpu_tui.machine import procfs
from cpugpu_tui.machine.cores import Snapshot, ThreadWaits, Waited, core_use, snapshot
from cpugpu_tui.machine.processes import is_running
from cpugpu_tui.model import CoreUse, Device, DiscardedHalfRound

FAULT_S = 0.5e-6
"""Least time of a minor page fault; 2 µs if the page must be cleared."""

FAULT_SHARE = 0.05
"""Share of the watched time above which page faults are marked."""

STARVED_SHARE = 0.02
"""Share of the wanted CPU time above which waiting for a core makes a half-round be repeated.
`make bench ONLY=starved` prints this share on an idle machine and beside a busy neighbour."""


FRESH_NS = 1e9
"""Age up to which a snapshot is reused, ns: in sweeps of thousands, ten cases begin per second."""


NO_CORE_SHARE = 0.25
"""Share of the time that one thread may wait for a core in the last repetition; above it the result is invalid.
Beside a busy process on the same core, a thread waits about half of the time, with any number of cores. On an idle
two-core machine, 2 of 50 runs had four tries in a row with 5 to 7 % of all threads' time."""


def is_starved(waited: Waited | None) -> bool:
    """Return whether threads waited for a core long enough to repeat the half-round."""
    return waited is not None and (waited.share > STARVED_SHARE or lacks_core(waited))


def lacks_core(waited: Waited | None) -> bool:
    """Return whether a thread waited for a core so long that the time is not a valid result."""
    return waited is not None and max(waited.share, waited.worst_share) > NO_CORE_SHARE


@dataclass(frozen=True)
class Disturbance:
    """Disturbances within a window."""

    marks: tuple[str, ...] = ()
    """`page-faults`, or empty."""
    waited: Waited | None = None
    """How long the timing threads waited for a core; None if the kernel does not count it."""


class HostWatch:
    """Watches the host for all devices; calls of `begin` and `end` must alternate."""

    def __init__(self, root: str = "/", controller: int | None = None, reader: int | None = None) -> None:
        """`controller` and `reader` are the PIDs of what started this agent and of what reads its events, if known."""
        self._root = root
        self._controller = controller
        self._reader = reader
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self.cores = len(procfs.affinity_cores(root))
        self._waits = ThreadWaits(root)
        self._last: Snapshot | None = None
        self._faults, self._started_s = 0, 0.0

    def begin(self, device: Device) -> None:
        """Start watching: all computing threads for a CPU, the launching thread for a GPU."""
        self._waits.begin(own_only=not device.is_cpu)
        self._faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self._started_s = perf_counter()

    def end(self) -> Disturbance:
        """Return the disturbances since `begin`."""
        elapsed_s = perf_counter() - self._started_s
        waited = self._waits.end()
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - self._faults
        return Disturbance(("page-faults",) if faults * FAULT_S > FAULT_SHARE * elapsed_s else (), waited)

    def close(self) -> None:
        """Close the threads' files, which would accumulate over runs inside the app's process."""
        self._waits.close()

    def rest(self, seconds: float) -> None:
        """Sleep, so that other processes may finish and free their cores."""
        sleep(seconds)

    def await_reader(self) -> None:
        """Sleep until the reader of the events has handled them, at most `READING_S`; all of it if it is unknown.

        A write wakes the reader on the core of the writer. The pool of a CPU half-round spins on all others for another
        10 ms, so that on a server with 16 cores 1,855 of 6,804 half-rounds of a GPU were starved and repeated.
        """
        ends_s = perf_counter() + READING_S
        sleep(READING_S if self._reader is None else LOOK_S)
        while self._reader is not None and is_running(self._reader) and perf_counter() < ends_s:
            sleep(LOOK_S)

    def snapshot(self) -> Snapshot:
        """Return the CPU time of all processes, at most 1 s old: a new snapshot takes up to 10 ms."""
        if self._last is None or perf_counter_ns() - self._last.at_ns > FRESH_NS:
            self._last = snapshot(self._root)
        return self._last

    def core_use(self, before: Snapshot) -> CoreUse | None:
        """Return who used the cores since a snapshot; None if too little time has passed."""
        return core_use(before, snapshot(self._root), os.getpid(), self._controller, self._tick_s)


RESTS_S = (0.005, 0.05, 0.25)
"""Pause before each repetition of a starved half-round, seconds. On an idle 16-core machine, 2 of 32 runs of `quick`
had a row marked `no-core` without pauses, and 0 of 9 with them. With 0 as the first one, 27 % of the CPU's half-rounds
on two busy cores were repeated, with 5 ms 20 %."""

REPEATS = len(RESTS_S)

READING_S = 0.005
"""Longest pause after events were written, seconds, because their reader needs a core. In 18 runs of `quick` on an idle
two-core machine, the number of repeated half-rounds was 77 without it, 36 with 2 ms, 21 with 5 ms, 33 with 20 ms."""

LOOK_S = 0.0002
"""How often the pause looks whether the reader has finished, seconds."""

UNTIMED = ("inputs", "check")
"""Phases without such a pause: nothing is timed in them, so the reader may have a core."""


@dataclass
class CoreLack:
    """Waiting for cores on one device in one case, and the resulting repetitions."""

    waited: Waited = field(default_factory=lambda: Waited(0.0, 0.0))
    """Sum over all half-rounds above the limit."""
    discarded: list[DiscardedHalfRound] = field(default_factory=list)
    stays: bool = False
    """Whether a thread waited too long even in a last repetition; the case then has no result on this device."""
    _repeats: int = 0
    _is_in_vain: bool = False
    """Whether a half-round was still starved after all repetitions. Then only `lacks_core` causes further ones."""

    def is_to_repeat(
        self, waited: Waited | None, round_index: int, samples: dict[str, tuple[float, ...]], *, can_repeat: bool
    ) -> bool:
        """Return whether to discard and repeat a half-round; records it if it was starved.

        Once the case has no result nothing is repeated, which would only take four times as long.
        """
        if waited is None or not is_starved(waited):
            self._repeats = 0
            return False
        self.waited += waited
        is_worth_it = lacks_core(waited) or not self._is_in_vain
        if not can_repeat or self.stays or self._repeats >= REPEATS or not is_worth_it:
            self._repeats, self._is_in_vain = 0, True
            self.stays = self.stays or lacks_core(waited)
            return False
        self._repeats += 1
        self.discard(waited, round_index, samples)
        return True

    @property
    def rest_s(self) -> float:
        """Return the pause before the repetition that `is_to_repeat` has just decided, seconds."""
        return RESTS_S[self._repeats - 1]

    def discard(self, waited: Waited | None, round_index: int, samples: dict[str, tuple[float, ...]]) -> None:
        """Record a discarded half-round."""
        share = waited.share if waited is not None else 0.0
        self.discarded.append(DiscardedHalfRound(round_index, share, samples))
