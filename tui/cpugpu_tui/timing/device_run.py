"""One device of a case: its half-rounds, their samples, and the budget that they have spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from cpugpu_tui import model
from cpugpu_tui.decide.comparison import DECISIVE_ROUNDS, Comparison
from cpugpu_tui.decide.correlation import Correlation
from cpugpu_tui.decide.stats import median
from cpugpu_tui.decide.verdict import compare
from cpugpu_tui.machine.cores import Snapshot, Waited
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.host_watch import REPEATS, CoreLack, is_starved
from cpugpu_tui.timing.timers import Readiness, Timer, Watch
from cpugpu_tui.timing.warm_up import block_calls

Samples = dict[str, tuple[float, ...]]

BRIEF_DISCARD = 4
"""A brief plan discards one in so many calls of a block: whole blocks took 46 of the 276 s of a survey on an H200."""

LONGEST_DISCARDED_BLOCK_NS = 100e6
"""Longest discarded block before a half-round. Longer ones are hardly affected by the operation that ran before."""

DEVICE_SAMPLES = 20
"""Samples of kernel time per GPU half-round, for operations up to 0.5 ms."""

SEARCH_DEVICE_SAMPLES = 8
"""The same in a search: each takes 0.3 ms with flush and backlog, and its verdicts do not rest on them."""

DEVICE_SAMPLES_NS = 10e6
"""Time limit for these samples with longer operations."""

SINGLES = 25
"""Single calls per half-round: eight rounds give the 200 samples that p90 and p99 need (method.md)."""

SINGLES_NS = 5e6
"""Time limit for the single calls."""

SEARCH_SINGLES_NS = 1e6
"""The same in a search, which reports no percentiles."""

THROUGHPUT_BLOCKS = 2
"""Blocks of queued calls per half-round."""

MOVES = 3
"""Calls with copies per half-round and kind of memory."""

OVERHEAD_ROUNDS = 8
"""Rounds in which overheads are measured, and in a search all that does not affect its verdicts (single calls, kernel
times, pinned copies): in a recorded survey of an H200 that was half of the GPU's time from the ninth round on."""

MOVED_ROUNDS = 8
"""Rounds of a search with copies, whatever they take within the budget: a crossover with copies needs them. Copies of
large cases take so much longer than the call that the limit below left them one or two rounds, and no winner. Outside a
search the rounds that a winner needs have copies."""

EXTRAS_SHARE = 3.0
"""Limit on the time of all other metrics, as a multiple of the time for latency, which decides the verdict."""


@dataclass
class DeviceRun:
    """One device of a case: its operation, block size, rounds and results."""

    timer: Timer
    operation: Any
    first_ns: float
    """Wall time of the first call, ns."""
    is_long: bool = False
    """Whether a call takes a second or more, and longer than the budget: then it is made for its latency only."""
    calls: int = 1
    blocks: int = 1
    rounds: int = 1
    """Least rounds."""
    max_rounds: int = 1
    estimate_ns: float = 0.0
    round_ns: dict[int, float] = field(default_factory=dict)
    """Round → median latency of its blocks, ns."""
    moved_ns: dict[int, float] = field(default_factory=dict)
    """Round → median latency with copies from pageable memory, ns."""
    spent_ns: float = 0.0
    """Time of all half-rounds so far on this device's clock, ns."""
    waited: Waited | None = None
    """How long threads waited for a core in the last half-round, or in the only call if timed once."""
    lack: CoreLack = field(default_factory=CoreLack)
    is_estimate_poor: bool = False
    """Whether threads waited for a core during warm-up, which may have made the block size wrong."""
    _latency_ns: float = 0.0
    _extras_ns: float = 0.0

    @property
    def name(self) -> str:
        """Return the device's name."""
        return self.timer.device.name

    @property
    def threads(self) -> int:
        """Return the number of working threads in a half-round; 1 on a GPU, the launching thread."""
        return self.timer.threads() if self.timer.device.is_cpu else 1

    @property
    def half_round_ns(self) -> float:
        """Return the expected time of the blocks of a half-round, ns."""
        return self.estimate_ns * self.calls * self.blocks

    @property
    def is_timed_once(self) -> bool:
        """Return whether a call exceeds the budget, so that only one call is used."""
        return self.calls * self.blocks * self.max_rounds == 1

    def least_left_ns(self, round_index: int) -> float:
        """Return the expected time of the least rounds after this one, ns."""
        return max(0, self.rounds - round_index) * (self.blocks + 1) * self.calls * self.estimate_ns

    def exhausted(self, budget_ns: float) -> bool:
        """Return whether another half-round would exceed the budget or the most rounds."""
        had = len(self.round_ns)
        if had >= self.max_rounds:
            return True
        return had >= self.rounds and self.spent_ns * (had + 1) / max(had, 1) > budget_ns

    def run_discarded_block(self, readiness: Readiness, plan: model.Plan) -> None:
        """Run one block without recording it: the first calls after another operation are up to 4× slower.

        A brief plan does not repeat the one in which a GPU's clock settled: it was 2 of the 22 ms of a half-round.
        """
        if readiness.is_warm and plan.is_brief:
            return
        calls = self.discarded_calls(plan)
        if calls and self.estimate_ns * calls <= LONGEST_DISCARDED_BLOCK_NS:
            self.timer.latency_block(self.operation, calls)

    def discarded_calls(self, plan: model.Plan) -> int:
        """Return the calls to run before a half-round: on an H200, one of 113 s was made twice a round."""
        if self.is_long:
            return 0
        return max(1, self.calls // BRIEF_DISCARD) if plan.is_brief else self.calls

    def take(self, round_index: int, plan: model.Plan, watch: Watch) -> tuple[Samples, tuple[str, ...]]:
        """Time one half-round; return its samples by metric, and its marks."""
        timer, operation = self.timer, self.operation
        if self.is_timed_once:
            self.round_ns[round_index] = self.first_ns
            return {model.LATENCY: (self.first_ns,)}, ()
        started_ns = timer.clock_ns()
        watch.begin(timer.device)
        blocks = tuple(timer.latency_block(operation, self.calls) for _ in range(self.blocks))
        samples: Samples = {model.LATENCY: blocks}
        is_over = self.estimate_ns > plan.budget_ns  # with exact rounds; each further metric takes as long again
        is_first = plan.search is None or len(self.round_ns) < OVERHEAD_ROUNDS
        samples |= self._singles(plan) if is_first and not plan.is_repeat and not is_over else {}
        seen = watch.end()
        marks, self.waited = seen.marks, seen.waited
        latency_done_ns = timer.clock_ns()
        self.round_ns[round_index] = median(blocks)
        is_owed = len(self.round_ns) <= DECISIVE_ROUNDS
        if plan.search is not None:
            is_owed = len(self.round_ns) <= MOVED_ROUNDS and self.spent_ns < plan.budget_ns
        if not is_over and (is_owed or self._extras_ns <= EXTRAS_SHARE * self._latency_ns):
            watch.begin(timer.device)
            extras, more_marks = self._extras(plan)
            self.waited = more_starved(self.waited, watch.end().waited)
            samples |= extras
            marks += more_marks
            if extras.get(model.PAGEABLE):
                self.moved_ns[round_index] = median(extras[model.PAGEABLE])
        ended_ns = timer.clock_ns()
        self._latency_ns += latency_done_ns - started_ns
        self._extras_ns += ended_ns - latency_done_ns
        self.spent_ns += ended_ns - started_ns
        return samples, marks

    def forget(self, round_index: int) -> None:
        """Discard a half-round that will be repeated; its time still counts against the budget."""
        self.round_ns.pop(round_index, None)
        self.moved_ns.pop(round_index, None)

    def _singles(self, plan: model.Plan) -> Samples:
        """Time calls one by one. Blocks of one call are single calls already, so a GPU then adds only `enqueue`."""
        if self.calls > 1:
            limit_ns = SINGLES_NS if plan.search is None else SEARCH_SINGLES_NS
            return self.timer.singles(self.operation, self._count(SINGLES, limit_ns))
        if self.timer.device.is_cpu:
            return {}
        return {name: values for name, values in self.timer.singles(self.operation, 1).items() if name != model.SINGLE}

    def _extras(self, plan: model.Plan) -> tuple[Samples, tuple[str, ...]]:
        """Take all metrics other than latency."""
        timer, operation = self.timer, self.operation
        samples: Samples = {}
        marks: tuple[str, ...] = ()
        if model.THROUGHPUT in plan.metrics:
            taken = [timer.throughput_block(operation, self.calls) for _ in range(THROUGHPUT_BLOCKS)]
            samples |= rounded(model.THROUGHPUT, taken)
        # A brief plan takes kernel times only on GPUs: on the CPU, flushes of 25 ms each would be half of its time.
        is_first = len(self.round_ns) <= OVERHEAD_ROUNDS
        if model.DEVICE in plan.metrics and not (plan.is_brief and (timer.device.is_cpu or not is_first)):
            found = timer.device_samples(
                operation, self._device_count(SEARCH_DEVICE_SAMPLES if plan.search is not None else DEVICE_SAMPLES)
            )
            marks = found.marks
            samples |= rounded(model.DEVICE, found.elapsed_ns)
        if model.END_TO_END in plan.metrics:
            count = self._count(MOVES, SINGLES_NS, max(self.moved_ns.values(), default=0.0))
            for pinned in (False, True) if is_first or plan.search is None else (False,):
                samples |= timer.end_to_end(operation, count, pinned=pinned)
        # Last, because copying the result needs the host buffer of the calls with copies.
        if model.DEVICE in plan.metrics and is_first and not plan.is_repeat:
            samples |= timer.overheads(operation)
        return samples, marks

    def _count(self, most: int, limit_ns: float, known_ns: float = 0.0) -> int:
        return int(min(most, max(1.0, limit_ns / max(self.estimate_ns, known_ns, 1.0))))

    def _device_count(self, most: int) -> int:
        """Return the number of kernel time samples; one on the CPU, where each flush takes up to 25 ms."""
        return 1 if self.timer.device.is_cpu else self._count(most, DEVICE_SAMPLES_NS)


def compare_runs(runs: Sequence[DeviceRun], others: Correlation) -> tuple[dict[str, Comparison], dict[str, Comparison]]:
    """Return how each GPU compares with the CPU, the first run: with resident inputs, and with copies.

    GPUs without a round in common with the CPU are left out.
    """
    cpu, *gpus = runs
    resident = {gpu.name: compare(cpu.round_ns, gpu.round_ns, others) for gpu in gpus}
    moved = {gpu.name: compare(cpu.round_ns, gpu.moved_ns, others) for gpu in gpus}
    return _known(resident), _known(moved)


def _known(found: dict[str, Comparison | None]) -> dict[str, Comparison]:
    return {name: each for name, each in found.items() if each is not None}


def open_mark(runs: Sequence[DeviceRun], *, is_futile: bool) -> str:
    """Return the mark that says why the rounds of a case end without a winner."""
    if is_futile:
        return model.TOO_CLOSE
    at_most = any(len(run.round_ns) >= run.max_rounds for run in runs)
    return model.MOST_ROUNDS if at_most else model.NOT_CONVERGED


def more_starved(one: Waited | None, other: Waited | None) -> Waited | None:
    """Return the window in which threads waited for a core for the larger share of the time."""
    return max((each for each in (one, other) if each is not None), key=lambda each: each.share, default=None)


def rounded(metric: str, values: Any) -> Samples:
    """Return the samples without None under their metric, rounded to 0.1 ns (finer than any clock here)."""
    taken = tuple(round(value, 1) for value in values if value is not None)
    return {metric: taken} if taken else {}


def core_waits(
    case: model.Case, runs: Sequence[DeviceRun], watch: Watch, begun: Snapshot, plan: model.Plan, control: Control
) -> Iterator[model.MachineRead]:
    """Yield, for each device whose threads waited for a core: how long, who used the cores, latency of one thread."""
    short = [run for run in runs if run.lack.discarded or run.lack.stays]
    use = watch.core_use(begun) if short else None
    for run in short:
        lack, threads = run.lack, run.threads
        single = _one_thread(run, watch, plan) if lack.stays and not control.stopping else None
        cores = model.CoreWait(
            threads=threads, cores=watch.cores, waited_ns=lack.waited.waited_ns, wanted_ns=lack.waited.wanted_ns,
            discarded=tuple(lack.discarded), one_thread_ns=single[0] if single is not None else (),
            one_thread_share=single[1] if single is not None else None, use=use,
        )  # fmt: skip
        yield model.MachineRead(case=case.key, device=run.name, edge=model.CORES, readings={}, cores=cores)


def _one_thread(run: DeviceRun, watch: Watch, plan: model.Plan) -> tuple[tuple[float, ...], float | None] | None:
    """Return the latency on one thread, ns, and the share of the time that this thread waited for a core.

    Like a half-round, it is repeated while the thread waits. A call longer than the budget is timed once. None if the
    operation already uses only one thread.
    """
    timer, single = run.timer, run.timer.on_one_thread(run.operation)
    if single is None:
        return None
    timer.ready(single, 1)
    for _ in range(1 + REPEATS):
        watch.begin(timer.device)
        estimate_ns = timer.latency_block(single, 1)
        samples: tuple[float, ...] = (estimate_ns,)
        is_long = estimate_ns > plan.budget_ns
        if not is_long:
            calls = block_calls(estimate_ns)
            timer.latency_block(single, calls)  # discarded: the first block after another operation is slow
            watch.begin(timer.device)
            samples = tuple(round(timer.latency_block(single, calls), 1) for _ in range(plan.blocks))
        waited = watch.end().waited
        if is_long or not is_starved(waited):
            break
    timer.ready(run.operation, run.calls)  # restores the number of threads
    return samples, None if waited is None else waited.share
