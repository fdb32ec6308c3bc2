"""Judge the publications' claims by the run on the screen, then by the newest saved runs.

Only float32 with all CPU threads counts, as in the publications. Simulated and measured numbers are never mixed.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cpugpu_tui.analysis.claim_numbers import DEPENDS, FAILS, HOLDS, OUTDATED, UNDECIDED, UNMEASURED, Numbers, TimedCase
from cpugpu_tui.analysis.claims import CLAIMS, Claim
from cpugpu_tui.config.paths import with_database
from cpugpu_tui.model import KERNELS, Ceilings
from cpugpu_tui.report.report import judged
from cpugpu_tui.session.planning import PlanRequest, build_plan, request_words
from cpugpu_tui.session.repeat import option_words
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.folding import folded, measured_part
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store import Store

MOST_RUNS = 100
"""Most saved runs to read, newest first."""

THIS_RUN = "this run"

_MATMUL = PlanRequest(("matmul-sweep",), sizes="1,51,101,301,1001,3001,9951")
_DOT = PlanRequest(("vector-dot",), sizes="100,10000,1000000,10000000,100000000", variant="matmul")
# Fewer rounds have no interval, and the time limit of a case ends calls of seconds and minutes before six.
_JACOBIAN = PlanRequest(("jacobian",), sizes="100", variant="loop,vectorized", rounds=6)
_MULTIPLY_ADD = PlanRequest(("elementwise",), sizes="100000000", variant="fresh")
_TRAINING = PlanRequest(("mnist-mlp",), sizes="32", variant="pageable")

REQUESTS: Mapping[str, PlanRequest] = {
    "p1-cpu-rises": _MATMUL,
    "p1-gpu-flat": _MATMUL,
    "p1-gpu-millisecond": _MATMUL,
    "p1-addition": PlanRequest(("elementwise",), sizes="100,10000,1000000,100000000", variant="add"),
    "p2-small": PlanRequest(("vector-dot",), sizes="100,1000,10000", variant="matmul"),
    "p2-cpu-grows": _DOT,
    "p2-gpu-hardly": _DOT,
    "p3-batch-100": _JACOBIAN,
    "p3-batch-1000": PlanRequest(("jacobian",), sizes="1000", variant="loop", rounds=6),
    "p3-moving": _JACOBIAN,
    "p3-cores": _JACOBIAN,
    "p3-copies": _JACOBIAN,
    "p3-synchronise": _JACOBIAN,
    "p3-networks": PlanRequest(("mnist-width",), sizes="32,512,4096", variant="eager"),
    # conv2d 9 and 72 have as many FLOPs as matmul 144 and 576.
    "p3-convolutions": PlanRequest(("conv2d", "matmul"), sizes="9,72,144,576"),
    "p3-batches": PlanRequest(("mnist-batch",), sizes="32,512,4096", variant="eager"),
    "p4-times": _MULTIPLY_ADD,
    "p4-reason": _MULTIPLY_ADD,
    "p5-small": _TRAINING,
    "p5-wide": _TRAINING,
    # The training step decides it, so the small scale avoids ten epochs.
    "p5-copies": PlanRequest(("mnist-mlp",), sizes="32", scale="small"),
}
"""Claim → the run that measures everything it needs; outdated claims and those beyond our workloads have none."""


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its outcome here."""

    claim: Claim
    outcome: str
    """One of the outcomes in `analysis.claim_numbers`."""
    here: str
    """The numbers measured here, in a few sentences."""
    sources: tuple[str, ...] = ()
    """Runs that the numbers come from: `this run`, `run 12`."""
    request: PlanRequest | None = None
    """The run that measures everything it needs; None if no run can."""
    wants_ceilings: bool = False
    """Whether the machine card is missing, see `cpugpu-tui machine --measure`."""

    @property
    def is_open(self) -> bool:
        """Whether it has not been measured yet."""
        return self.outcome == UNMEASURED


def judge_all(numbers: Numbers) -> tuple[JudgedClaim, ...]:
    """Return every claim with its outcome, in the order of the publications."""
    return tuple(judge(claim, numbers) for claim in CLAIMS)


def judge(claim: Claim, numbers: Numbers) -> JudgedClaim:
    """Return a claim with its outcome."""
    found = claim.judge(numbers)
    sources = tuple(dict.fromkeys(point.source for point in found.used if point.source))
    return JudgedClaim(claim, found.outcome, found.here, sources, REQUESTS.get(claim.id), found.wants_ceilings)


def numbers_of(
    points: Collection[TimedCase], stored: Collection[TimedCase], ceilings: Sequence[Ceilings], *, simulated: bool
) -> Numbers:
    """Return the numbers to judge claims by: the points of the run on the screen, then stored ones, newest first."""
    known = [found for found in ceilings if found.simulated == simulated]
    cpu = next((found for found in known if found.device == "cpu"), None)
    gpu = next((found for found in known if found.device != "cpu"), None)
    # Those that were timed on both devices, and with free cores, come first.
    best = sorted((*points, *stored), key=lambda point: (point.comparison is None, point.is_starved))
    return Numbers(tuple(best), cpu, gpu)


def points_of(run: RunState, source: str = THIS_RUN) -> tuple[TimedCase, ...]:
    """Return the finished rows that claims can be judged by, without recorded times."""
    run = measured_part(run)
    return tuple(_point(run, row, source) for row in run.rows.values() if _counts(row))


def _counts(row: Row) -> bool:
    return row.status == "ok" and row.case.dtype == "float32" and not row.case.threads


def _point(run: RunState, row: Row, source: str) -> TimedCase:
    started = row.started
    return TimedCase(
        row.case.workload, row.case.variant, row.case.size, _medians(row.cpu), _medians(row.gpu),
        judged(run, row).comparison,
        started.flops if started else 0.0, started.bytes_moved if started else 0.0,
        started.operations if started else 0, source, row.is_starved,
    )  # fmt: skip


def _medians(times: DeviceTimes | None) -> dict[str, float]:
    """Return metric → median, ns."""
    if times is None:
        return {}
    found = {metric: times.median_ns(metric) for metric in times.samples}
    found[KERNELS] = times.kernels_ns
    return {metric: ns for metric, ns in found.items() if ns is not None and ns > 0}


# ------------------------------------------------------------------ saved runs


@lru_cache(maxsize=1)
def needed() -> Mapping[str, frozenset[tuple[str, str]]]:
    """Return claim → (workload, variant) of all cases of its plan."""
    return {
        name: frozenset((case.workload, case.variant) for case in build_plan(request).cases)
        for name, request in REQUESTS.items()
    }


def stored_points(
    store: Store,
    hostname: str,
    current: Collection[TimedCase],
    ceilings: Sequence[Ceilings],
    *,
    simulated: bool,
    without: str = "",
) -> tuple[TimedCase, ...]:
    """Return points of this machine's saved runs, newest first, until every claim has what it needs.

    `current` holds the known points, `without` is the id of the run that they come from.

    Raises:
        StoreError: the history cannot be read.
    """
    workloads = {workload for series in needed().values() for workload, _ in series}
    found: list[TimedCase] = []
    tried: set[tuple[str, bool]] = set()
    for run in store.finished_cases(workloads, hostname, simulated=simulated, limit=MOST_RUNS):
        if run.run_id == without:
            continue
        wanted = _wanted(numbers_of(current, found, ceilings, simulated=simulated))
        if not wanted:
            break
        # Most runs repeat a newer one and add nothing, unless the newer one had no GPU.
        offered = {(key, run.has_gpu) for key in run.case_keys if _is_wanted(key, wanted)}
        if offered <= tried:
            continue
        tried |= offered | {(key, False) for key, _ in offered}
        found += points_of(folded(store.load(run.run_id)), f"run {run.number}")
    return tuple(found)


def _is_wanted(key: str, wanted: Collection[tuple[str, str]]) -> bool:
    """Whether a key, as of `Case.key`, is of a wanted case with float32 and all CPU threads."""
    workload_variant, dtype_threads = key.split("/")[:2], key.split("/")[3:]
    return dtype_threads == ["float32", "tall"] and tuple(workload_variant) in wanted


def _wanted(numbers: Numbers) -> set[tuple[str, str]]:
    """Return (workload, variant) of the cases that claims without an outcome need."""
    unsettled = [claim for claim in CLAIMS if claim.judge(numbers).outcome == UNMEASURED]
    return {series for claim in unsettled for series in needed().get(claim.id, ())}


# ------------------------------------------------------------------ in words


def command(judged: JudgedClaim, simulate: str | None = None) -> str:
    """Return the command that measures what a claim needs, on a machine that `simulate` names; empty if none can."""
    request = judged.request
    if judged.wants_ceilings:
        words = ["machine", "--measure"]
    elif request is not None:
        scale = request.scale if request.scale != "full" else None
        words = [*request_words(request), *option_words({"--scale": scale, "--rounds": request.rounds})]
    else:
        return ""
    return with_database(shlex.join(["cpugpu-tui", *words, *option_words({"--simulate": simulate})]))


def tally(judged: Sequence[JudgedClaim]) -> str:
    """Return the counts of outcomes: `9 hold, 1 does not, 4 depend on size, 2 not measured, 3 outdated`."""
    words = {
        HOLDS: ("holds", "hold"), FAILS: ("does not", "do not"), DEPENDS: ("depends on size", "depend on size"),
        UNDECIDED: ("undecided",) * 2, UNMEASURED: ("not measured",) * 2, OUTDATED: ("outdated",) * 2,
    }  # fmt: skip
    counts = {outcome: sum(each.outcome == outcome for each in judged) for outcome in words}
    return ", ".join(f"{count} {words[outcome][count > 1]}" for outcome, count in counts.items() if count)
