"""One device of a case: what a half-round takes there, and how much of its budget is spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from cpugpu_tui.decide.stats import median
from cpugpu_tui.machine.cores import Snapshot, Waited
from cpugpu_tui.model import (
    CORES,
    DEVICE,
    END_TO_END,
    LATENCY,
    PAGEABLE,
    SINGLE,
    THROUGHPUT,
    Case,
    CoreWait,
    MachineRead,
    Plan,
)
from cpugpu_tui.timing.control import Control
from cpugpu_tui.timing.host_watch import REPEATS, CoreLack, is_starved
from cpugpu_tui.timing.timers import Timer, Watch
from cpugpu_tui.timing.warm_up import block_calls

Samples = dict[str, tuple[float, ...]]

THROW_AWAY_NS = 100e6
"""A throw-away block before a half-round is worth its time up to this length; a longer call does not
notice that another operation ran before."""

DEVICE_SAMPLES = 20
"""Samples of the `device` metric in a GPU's half-round, for operations up to 0.5 ms."""

DEVICE_SAMPLES_NS = 10e6
"""Time for these samples with longer operations."""

SINGLES = 25
"""Single calls in a half-round: eight rounds make the 200 that p90 and p99 ask for (method.md)."""

SINGLES_NS = 5e6
"""Time for them."""

SEARCH_SINGLES_NS = 1e6
"""The same in a search, which asks for no percentiles."""

THROUGHPUT_BLOCKS = 2
"""Blocks of queued calls in a half-round."""

MOVES = 3
"""End-to-end calls of each kind in a half-round."""

OVERHEAD_ROUNDS = 8
"""Rounds in which a call's overheads are taken: they decide nothing, and moving a large case takes long."""

EXTRAS_SHARE = 3.0
"""All other metrics together take at most this many times what latency took: latency decides the verdict."""


@dataclass
class DeviceRun:
    """One device's part in a case."""

    timer: Timer
    operation: Any
    first_ns: float
    """Wall time of the first call."""
    calls: int = 1
    blocks: int = 1
    rounds: int = 1
    """Least rounds."""
    max_rounds: int = 1
    estimate_ns: float = 0.0
    round_ns: dict[int, float] = field(default_factory=dict)
    """Round → median latency of its blocks, ns."""
    moved_ns: dict[int, float] = field(default_factory=dict)
    """Round → median of its end-to-end calls from ordinary memory, ns."""
    spent_ns: float = 0.0
    """Time of all half-rounds so far, by this device's clock."""
    waited: Waited | None = None
    """What the threads of the last half-round waited for a core; of what is timed once, those of its call."""
    lack: CoreLack = field(default_factory=CoreLack)
    is_estimate_poor: bool = False
    """Whether the threads of the warm-up waited for a core: then the size of a block may be wrong."""
    _latency_ns: float = 0.0
    _extras_ns: float = 0.0

    @property
    def name(self) -> str:
        """The device's name."""
        return self.timer.device.name

    @property
    def threads(self) -> int:
        """The threads that work in a half-round: beside a GPU the one that launches."""
        return self.timer.threads() if self.timer.device.is_cpu else 1

    @property
    def is_timed_once(self) -> bool:
        """Whether a call takes longer than the budget: then the first call was the only one."""
        return self.calls * self.blocks * self.max_rounds == 1

    def exhausted(self, budget_ns: float) -> bool:
        """Whether another half-round would exceed the budget or the number of rounds."""
        had = len(self.round_ns)
        if had >= self.max_rounds:
            return True
        return had >= self.rounds and self.spent_ns * (had + 1) / max(had, 1) > budget_ns

    def throw_away(self) -> None:
        """Call the operation once or for a block: the first calls after another operation read up to 4 × slow."""
        if self.estimate_ns * self.calls <= THROW_AWAY_NS:
            self.timer.latency_block(self.operation, self.calls)

    def take(self, round_index: int, plan: Plan, watch: Watch) -> tuple[Samples, tuple[str, ...]]:
        """Take the samples of one half-round; return them by metric, and the marks."""
        timer, operation = self.timer, self.operation
        if self.is_timed_once:
            self.round_ns[round_index] = self.first_ns
            return {LATENCY: (self.first_ns,)}, ()
        started_ns = timer.clock_ns()
        watch.begin(timer.device)
        blocks = tuple(timer.latency_block(operation, self.calls) for _ in range(self.blocks))
        samples: Samples = {LATENCY: blocks}
        samples |= self._singles(plan)
        seen = watch.end()
        marks, self.waited = seen.marks, seen.waited
        latency_done_ns = timer.clock_ns()
        self.round_ns[round_index] = median(blocks)
        if self._extras_ns <= EXTRAS_SHARE * self._latency_ns:
            watch.begin(timer.device)
            extras, more_marks = self._extras(plan)
            self.waited = longer(self.waited, watch.end().waited)
            samples |= extras
            marks += more_marks
            if extras.get(PAGEABLE):
                self.moved_ns[round_index] = median(extras[PAGEABLE])
        ended_ns = timer.clock_ns()
        self._latency_ns += latency_done_ns - started_ns
        self._extras_ns += ended_ns - latency_done_ns
        self.spent_ns += ended_ns - started_ns
        return samples, marks

    def forget(self, round_index: int) -> None:
        """Drop the times of a half-round that is repeated; the time that it took stays spent."""
        self.round_ns.pop(round_index, None)
        self.moved_ns.pop(round_index, None)

    def _singles(self, plan: Plan) -> Samples:
        """Time calls one by one; of a GPU's long calls, whose blocks are that already, only when each returned."""
        if self.calls > 1:
            limit_ns = SINGLES_NS if plan.search is None else SEARCH_SINGLES_NS
            return self.timer.singles(self.operation, self._count(SINGLES, limit_ns))
        if self.timer.device.is_cpu:
            return {}
        return {name: values for name, values in self.timer.singles(self.operation, 1).items() if name != SINGLE}

    def _extras(self, plan: Plan) -> tuple[Samples, tuple[str, ...]]:
        """Take what is reported beside latency."""
        timer, operation = self.timer, self.operation
        samples: Samples = {}
        marks: tuple[str, ...] = ()
        if THROUGHPUT in plan.metrics:
            taken = [timer.throughput_block(operation, self.calls) for _ in range(THROUGHPUT_BLOCKS)]
            samples |= known(THROUGHPUT, taken)
        # A search asks for the GPU's own time alone; the CPU's, with a flush of 25 ms each, would be half of it.
        if DEVICE in plan.metrics and not (plan.search is not None and timer.device.is_cpu):
            found = timer.device_samples(operation, self._device_count())
            marks = found.marks
            samples |= known(DEVICE, found.elapsed_ns)
        if END_TO_END in plan.metrics:
            count = self._count(MOVES, SINGLES_NS)
            for pinned in (False, True):
                samples |= timer.end_to_end(operation, count, pinned=pinned)
        # Last, because fetching a result goes where the end-to-end calls left theirs.
        if DEVICE in plan.metrics and len(self.round_ns) <= OVERHEAD_ROUNDS:
            samples |= timer.overheads(operation)
        return samples, marks

    def _count(self, most: int, limit_ns: float) -> int:
        return int(min(most, max(1.0, limit_ns / max(self.estimate_ns, 1.0))))

    def _device_count(self) -> int:
        """One on the CPU, where a flush costs up to 25 ms."""
        return 1 if self.timer.device.is_cpu else self._count(DEVICE_SAMPLES, DEVICE_SAMPLES_NS)


def longer(one: Waited | None, other: Waited | None) -> Waited | None:
    """Return the window in which threads waited for the larger share of the time."""
    return max((each for each in (one, other) if each is not None), key=lambda each: each.share, default=None)


def known(metric: str, values: Any) -> Samples:
    """Return the samples that exist under their name; a tenth of a nanosecond is what a clock could tell at best."""
    taken = tuple(round(value, 1) for value in values if value is not None)
    return {metric: taken} if taken else {}


def core_waits(
    case: Case, runs: Sequence[DeviceRun], watch: Watch, begun: Snapshot, plan: Plan, control: Control
) -> Iterator[MachineRead]:
    """Yield, for each device whose threads lacked a core, for how long, who used the cores, what one thread takes."""
    short = [run for run in runs if run.lack.discarded or run.lack.stays]
    use = watch.core_use(begun) if short else None
    for run in short:
        lack, threads = run.lack, run.threads
        single = _one_thread(run, watch, plan) if lack.stays and not control.stopping else None
        cores = CoreWait(
            threads=threads,
            cores=watch.cores,
            waited_ns=lack.waited.waited_ns,
            wanted_ns=lack.waited.wanted_ns,
            discarded=tuple(lack.discarded),
            one_thread_ns=single[0] if single is not None else (),
            one_thread_share=single[1] if single is not None else None,
            use=use,
        )
        yield MachineRead(case=case.key, device=run.name, edge=CORES, readings={}, cores=cores)


def _one_thread(run: DeviceRun, watch: Watch, plan: Plan) -> tuple[tuple[float, ...], float | None] | None:
    """Return the latency of an operation on one thread, ns, and the share of the time that this thread waited.

    Like a half-round it is repeated while the thread waits. A call beyond the budget is taken once. None where there
    is no more than one thread.
    """
    timer, single = run.timer, run.timer.on_one_thread(run.operation)
    if single is None:
        return None
    timer.ready(single, 1)
    for _ in range(1 + REPEATS):
        watch.begin(timer.device)
        estimate_ns = timer.latency_block(single, 1)
        samples: tuple[float, ...] = (estimate_ns,)
        is_long = estimate_ns > plan.budget_s * 1e9
        if not is_long:
            calls = block_calls(estimate_ns)
            timer.latency_block(single, calls)  # the first block after another operation reads slow
            watch.begin(timer.device)
            samples = tuple(round(timer.latency_block(single, calls), 1) for _ in range(plan.blocks))
        waited = watch.end().waited
        if is_long or not is_starved(waited):
            break
    timer.ready(run.operation, run.calls)  # puts the threads back
    return samples, None if waited is None else waited.share
