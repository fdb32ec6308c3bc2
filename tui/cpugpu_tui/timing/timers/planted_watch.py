"""The host of a simulated machine: threads wait for a core where that was planted."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from cpugpu_tui.machine.core_use import Snapshot
from cpugpu_tui.machine.schedstat import Waited
from cpugpu_tui.model import Case, CoreUse, CoreUser, Device, Simulation
from cpugpu_tui.timing.host_watch import Disturbance


class Clock(Protocol):
    """The virtual clock."""

    now_ns: float

    def advance(self, elapsed_ns: float) -> None:
        """Let virtual time pass."""


class PlantedWatch:
    """A `timing.timers.Watch` that knows what was planted."""

    cores = 2

    def __init__(self, laws: Simulation, clock: Clock) -> None:
        self._laws = laws
        self._clock = clock
        self._tries: Counter[str] = Counter()
        self._device: Device | None = None
        self._began_ns = 0.0
        self._share, self._threads = 0.0, 1

    def half_round(self, case: Case) -> None:
        """A half-round of a case begins on the CPU."""
        self._tries[case.key] += 1

    def slowdown(self, case: Case) -> float:
        """Return how much longer a call takes on the CPU because its threads wait; it is what runs now."""
        laws, self._threads = self._laws, case.threads or self.cores
        is_size = laws.starved_size in (0, case.size)
        is_early = not laws.starved_tries or 0 < self._tries[case.key] <= laws.starved_tries
        self._share = laws.starved_share if is_size and is_early and self._threads > 1 else 0.0
        return 1 / (1 - min(self._share, 0.99))

    def begin(self, device: Device) -> None:
        """Start watching."""
        self._device, self._began_ns = device, self._clock.now_ns

    def end(self) -> Disturbance:
        """Return what was planted, of the CPU."""
        elapsed_ns = self._clock.now_ns - self._began_ns
        is_cpu = self._device is not None and self._device.is_cpu
        wanted_ns = elapsed_ns * (self._threads if is_cpu else 1)
        return Disturbance((), Waited(self._share * wanted_ns if is_cpu else 0.0, wanted_ns))

    def close(self) -> None:
        """Nothing is open."""

    def rest(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._clock.advance(seconds * 1e9)

    def snapshot(self) -> Snapshot:
        """Return the present moment."""
        return Snapshot(self._clock.now_ns)

    def core_use(self, before: Snapshot) -> CoreUse:
        """Return a made-up neighbour that takes what our threads lack."""
        lacking = self._laws.starved_share * self.cores
        neighbours = (CoreUser("simulated-neighbour", lacking),)
        return CoreUse(self._clock.now_ns - before.at_ns, self.cores - lacking, neighbours, 1, lacking)
