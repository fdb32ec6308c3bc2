"""Simulated machines drawn at random, searches on them, and the statements of their reports that are wrong.

The curves change their winner once, several times, never, or outside the range, or the devices are equally fast. The
noise is that of a GPU server: 12 % from round to round with a correlation of 0.3.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from unittest.mock import patch

from tests.helpers.runs.planted_crossover import searched
from tests.helpers.runs.recorder import Recorder, state_of

from cpugpu_tui.analysis.costs import END_TO_END, HUNDRED_CALLS, NO_LAUNCH, PINNED, RESIDENT, TEN_CALLS
from cpugpu_tui.model import Case, Plan, Simulation
from cpugpu_tui.report.conditions import Condition
from cpugpu_tui.report.report import report
from cpugpu_tui.report.segments import ALWAYS, FROM, GPU, MOST_COST, NEVER, NONE_TIMED
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.simulation import simulated_machine
from cpugpu_tui.simulation.laws import cpu_work_ns, gpu_work_ns, tiled, transfer_ns
from cpugpu_tui.workloads import Costs, case_costs

KINDS = ("one change", "several changes", "falls", "none, CPU", "none, GPU", "outside", "ties")
CONDITIONS = (RESIDENT, END_TO_END, PINNED, TEN_CALLS, HUNDRED_CALLS, NO_LAUNCH)
SLOW = 1.0
ROUND_NOISE, CORRELATION = 0.12, 0.3
LARGEST = 2048


def machine(kind: str, draw: random.Random) -> Simulation:
    """Return a machine whose curves are of this kind with the inputs on the GPU."""
    usual = Simulation()
    wide = draw.uniform(0.5, 2.0)
    laws = Simulation(
        seed=draw.randrange(10**6), noise=draw.uniform(0.01, 0.05),
        cpu_drift=ROUND_NOISE / 2**0.5, gpu_drift=ROUND_NOISE / 2**0.5, drift_rho=CORRELATION,
        gpu_tile=draw.choice((0, 32, 64, 128)), cpu_ripple=draw.choice((0.0, 0.1, 0.2)),
        ripple_period=draw.choice((16, 64)),
        cpu_overhead_ns=SLOW * usual.cpu_overhead_ns * wide, cpu_ns_per_flop=SLOW * usual.cpu_ns_per_flop,
        launch_ns=SLOW * usual.launch_ns * wide, sync_ns=SLOW * usual.sync_ns * wide,
        kernel_overhead_ns=SLOW * usual.kernel_overhead_ns, gpu_ns_per_flop=SLOW * usual.gpu_ns_per_flop,
        cpu_bytes_per_ns=usual.cpu_bytes_per_ns / SLOW, gpu_bytes_per_ns=usual.gpu_bytes_per_ns / SLOW,
        transfer_alpha_ns=SLOW * usual.transfer_alpha_ns * draw.uniform(0.1, 3.0),
        pageable_bytes_per_ns=usual.pageable_bytes_per_ns / SLOW * draw.uniform(0.05, 5.0),
        pinned_bytes_per_ns=usual.pinned_bytes_per_ns / SLOW,
    )  # fmt: skip
    call_ns = laws.launch_ns + laws.sync_ns + laws.kernel_overhead_ns
    speedup = laws.cpu_ns_per_flop / laws.gpu_ns_per_flop
    if kind == "falls":
        return replace(laws, cpu_overhead_ns=call_ns * draw.uniform(2, 6), gpu_tile=0,
                       gpu_ns_per_flop=laws.cpu_ns_per_flop * draw.uniform(1.5, 5))  # fmt: skip
    if kind == "none, CPU":
        return replace(laws, gpu_ns_per_flop=laws.cpu_ns_per_flop * draw.uniform(1.05, 3))
    if kind == "none, GPU":
        return replace(laws, cpu_overhead_ns=call_ns * draw.uniform(1.1, 3))
    if kind == "outside":  # beyond the largest size
        return replace(laws, launch_ns=2 * LARGEST**3 * laws.cpu_ns_per_flop * draw.uniform(1.1, 4), gpu_tile=0)
    if kind == "ties":
        return replace(laws, cpu_overhead_ns=call_ns, gpu_ns_per_flop=laws.cpu_ns_per_flop, gpu_tile=0, cpu_ripple=0.0)
    return replace(laws, gpu_ns_per_flop=laws.gpu_ns_per_flop * draw.uniform(1, speedup / 3))


Curve = Callable[[int], float]
"""Size → factor of all CPU times."""


def waves(plan: Plan, draw: random.Random) -> Curve:
    """Return a factor that makes the speedup swing about 1, with turns at least a factor of 5 apart in size."""
    knots = [(math.log(16.0), draw.choice((-1, 1)) * draw.uniform(0.5, 1.5))]
    while knots[-1][0] < math.log(LARGEST):
        x, y = knots[-1]
        knots.append((x + math.log(5) + draw.expovariate(2.0), -math.copysign(draw.uniform(0.5, 1.5), y)))

    def factor(size: int) -> float:
        x = math.log(size)
        (left, low), (right, high) = next(pair for pair in pairwise(knots) if x <= pair[1][0])
        wanted = low + (high - low) * (x - left) / (right - left)
        return math.exp(wanted) / true_speedup(plan, RESIDENT, size)

    return factor


def plan_of(laws: Simulation) -> Plan:
    """Return the plan of a search for the crossover of a matrix product."""
    return build_plan(PlanRequest(("quick",), max_size=str(LARGEST), simulation=laws))


def true_speedup(plan: Plan, key: str, size: int, curve: Curve = lambda _: 1.0) -> float:
    """Return the speedup at a size under a condition, without noise."""
    laws, case = plan.simulation, replace(plan.cases[0], size=size)
    costs = case_costs(case)
    kernel_ns = gpu_work_ns(laws, case, case_costs(tiled(laws, case)))
    call_ns = laws.launch_ns + kernel_ns + laws.sync_ns
    both = [sum(transfer_ns(laws, costs.bytes_moved * share, pinned=pinned) for share in (2 / 3, 1 / 3))
            for pinned in (False, True)]  # fmt: skip
    gpu_ns = {
        RESIDENT: call_ns, END_TO_END: call_ns + both[0], PINNED: call_ns + both[1], TEN_CALLS: call_ns + both[0] / 10,
        HUNDRED_CALLS: call_ns + both[0] / 100, NO_LAUNCH: kernel_ns,
    }  # fmt: skip
    return curve(size) * cpu_work_ns(laws, case, costs) / gpu_ns[key]


def errors(plan: Plan, curve: Curve, found: Condition) -> list[str]:
    """Return what is wrong in a report: winners at timed sizes, and costs above 10 % between them in a segment."""
    wrong = []
    if found.kind in (ALWAYS, NEVER):
        wrong += [f"{found.kind}, but not at {size.size}" for size in found.timed
                  if (true_speedup(plan, found.key, size.size, curve) > 1) != (found.kind == ALWAYS)]  # fmt: skip
    for part in (part for part in found.segments if part.winner is not None):
        sign = 1 if part.winner == GPU else -1
        decided = (size for size in part.sizes if size not in part.inside)
        wrong += [f"{part.winner} at {size}" for size in decided
                  if true_speedup(plan, found.key, size, curve) ** sign <= 1]  # fmt: skip
        steps = {round(part.first * (part.last / part.first) ** (step / 60)) for step in range(61)}
        worst = min(true_speedup(plan, found.key, size, curve) ** sign for size in steps)
        if worst < 1 / (1 + MOST_COST):
            wrong.append(f"{part.winner} {part.first}-{part.last} costs {1 / worst - 1:.0%}")
    return wrong


def drawn(seed: int) -> tuple[str, Plan, Curve, Recorder]:
    """Search on the machine of a seed; return its kind, plan and curve, and what happened."""
    draw = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    plan = plan_of(machine(kind, draw))
    curve = waves(plan, draw) if kind == "several changes" else lambda _: 1.0
    with patch.object(simulated_machine, "cpu_work_ns", partial(_curved_ns, curve)):
        return kind, plan, curve, searched(plan)[1]


def _curved_ns(curve: Curve, laws: Simulation, case: Case, costs: Costs) -> float:
    return curve(case.size) * cpu_work_ns(laws, case, costs)


SPOKEN = (ALWAYS, NEVER, FROM)


def judged(seeds: Iterable[int]) -> tuple[Counter[tuple[str, str]], dict[tuple[str, str], list[str]]]:
    """Search on a machine of each seed; return (condition, class) → count, and → the wrong ones."""
    counts: Counter[tuple[str, str]] = Counter()
    wrong: dict[tuple[str, str], list[str]] = {}
    for seed in seeds:
        kind, plan, curve, recorder = drawn(seed)
        (sweep,) = report(state_of(plan, recorder)).sweeps
        for key in CONDITIONS:
            found = sweep.under(key)
            if found.kind == NONE_TIMED:
                continue
            counts[key, found.kind] += 1
            if found.kind in SPOKEN and (text := errors(plan, curve, found)):
                wrong.setdefault((key, found.kind), []).append(f"seed {seed}, {kind}: {', '.join(text)}")
    return counts, wrong
