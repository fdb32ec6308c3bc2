"""Notices what disturbs the CPU while blocks are timed: memory being mapped, and threads that wait for a core."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass, field
from time import perf_counter, perf_counter_ns, sleep

from cpugpu_tui.machine import procfs
from cpugpu_tui.machine.cores import Snapshot, ThreadWaits, Waited, core_use, snapshot
from cpugpu_tui.model import CoreUse, Device, DiscardedHalfRound

FAULT_S = 0.5e-6
"""Least cost of a minor page fault; with clearing the page it reads 2 µs."""

FAULT_SHARE = 0.05
"""Page faults are marked from this share of the watched time on."""

STARVED_SHARE = 0.02
"""A half-round is repeated when its threads waited for more than this share of the time that they wanted a core.
`make bench ONLY=starved` prints what an idle machine and one with a busy neighbour read."""


FRESH_NS = 1e9
"""A snapshot stands for cases that begin within this time: in sweeps of thousands ten begin in a second."""


NO_CORE_SHARE = 0.25
"""A half-round that is still starved at its last repetition has no result when one thread waited for more than this
share of the time. Beside a busy core that thread waits for about half of it, however many cores there are. On an idle
two-core machine 2 of 50 runs had four tries in a row of 5 to 7 % of all threads' time, with nobody else at work."""


def is_starved(waited: Waited | None) -> bool:
    """Whether threads waited for a core for so long that a half-round is worth repeating."""
    return waited is not None and (waited.share > STARVED_SHARE or lacks_core(waited))


def lacks_core(waited: Waited | None) -> bool:
    """Whether a thread waited for a core for so long that the time must not be used."""
    return waited is not None and max(waited.share, waited.worst_share) > NO_CORE_SHARE


@dataclass(frozen=True)
class Disturbance:
    """What happened within a window."""

    marks: tuple[str, ...] = ()
    """`page-faults`, or nothing."""
    waited: Waited | None = None
    """What the timing threads waited for a core; None where the kernel does not count it."""


class HostWatch:
    """One watch for all devices; `begin` and `end` alternate."""

    def __init__(self, root: str = "/", controller: int | None = None) -> None:
        """`controller` is the process that started this one as its agent, if that is what this process is."""
        self._root = root
        self._controller = controller
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self.cores = len(procfs.affinity_cores(root))
        self._waits = ThreadWaits(root)
        self._last: Snapshot | None = None
        self._faults, self._started_s = 0, 0.0

    def begin(self, device: Device) -> None:
        """Start watching: on a CPU the threads that compute, beside a GPU the one that launches."""
        self._waits.begin(own_only=not device.is_cpu)
        self._faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self._started_s = perf_counter()

    def end(self) -> Disturbance:
        """Return what happened since `begin`."""
        elapsed_s = perf_counter() - self._started_s
        waited = self._waits.end()
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - self._faults
        return Disturbance(("page-faults",) if faults * FAULT_S > FAULT_SHARE * elapsed_s else (), waited)

    def close(self) -> None:
        """Close the files of the threads: in one process with the interface every run would leave some."""
        self._waits.close()

    def rest(self, seconds: float) -> None:
        """Sleep: whoever took a core from our threads may be through by then."""
        sleep(seconds)

    def snapshot(self) -> Snapshot:
        """Return what all processes have used until now or a second ago; a new one takes up to 10 ms of CPU time."""
        if self._last is None or perf_counter_ns() - self._last.at_ns > FRESH_NS:
            self._last = snapshot(self._root)
        return self._last

    def core_use(self, before: Snapshot) -> CoreUse | None:
        """Return who used the cores since a snapshot; None where too little time has passed."""
        return core_use(before, snapshot(self._root), os.getpid(), self._controller, self._tick_s)


RESTS_S = (0.0, 0.05, 0.25)
"""Rest before each repetition of a starved half-round, seconds. On an idle 16-core machine 2 of 32 runs of `quick`
had a row marked `no-core` without rests, and 0 of 9 with these."""

REPEATS = len(RESTS_S)

READING_S = 0.005
"""Rest after an event was written out, seconds, while whoever reads it takes a core. Without it an idle two-core
machine repeated 77 half-rounds in 18 runs of `quick`, with 2 ms 36, with 5 ms 21, with 20 ms 33."""


@dataclass
class CoreLack:
    """What the threads of one device lacked in one case."""

    waited: Waited = field(default_factory=lambda: Waited(0.0, 0.0))
    """Of all half-rounds above the limit."""
    discarded: list[DiscardedHalfRound] = field(default_factory=list)
    stays: bool = False
    """Whether a thread still lacked a core in a last repetition: then the case has no result on this device."""
    _repeats: int = 0
    _is_in_vain: bool = False
    """Whether a half-round was still starved after its repetitions. From then on only one whose thread lacks a core is
    repeated."""

    def is_to_repeat(
        self, waited: Waited | None, round_index: int, samples: dict[str, tuple[float, ...]], *, can_repeat: bool
    ) -> bool:
        """Whether a half-round is thrown away and taken again; it is noted if it was starved.

        Once the case has no result none is repeated any more: it would take four times as long and change nothing.
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
        """How long to rest before the repetition that was just decided."""
        return RESTS_S[self._repeats - 1]

    def discard(self, waited: Waited | None, round_index: int, samples: dict[str, tuple[float, ...]]) -> None:
        """Note a half-round that is thrown away."""
        share = waited.share if waited is not None else 0.0
        self.discarded.append(DiscardedHalfRound(round_index, share, samples))
