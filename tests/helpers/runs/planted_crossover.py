"""A simulated machine whose crossover is known, and a search for it through the whole protocol.

The GPU works in tiles (a staircase), the CPU has a ripple, both are noisy and wander, each on its own.
"""

from dataclasses import dataclass, replace

from tests.helpers.runs.recorder import Recorder, state_of

from cpugpu_tui.decide.stats import percentile
from cpugpu_tui.model import Plan, Simulation
from cpugpu_tui.report.report import report
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.simulation.laws import cpu_work_ns, gpu_work_ns, tiled
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.state.state import RunState
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.workloads import case_costs

SLOW = 50.0
"""All times are so many times longer than the usual simulated ones: the same crossover, with few calls in a block."""

NOISE, DRIFT, TILE, RIPPLE = 0.03, 0.03, 32, 0.1

REAL_RHO, REAL_DRIFTS = 0.3, (0.10, 0.066)
"""Correlation of half-rounds on a GPU server, and how much CPU and GPU vary between them: 12 % together."""


def machine(seed: int, rho: float, drifts: tuple[float, float] = (DRIFT, DRIFT)) -> Simulation:
    """Return the machine with one seed of noise; `rho` is how much of a drift is left in the next half-round.

    `drifts`: how much CPU and GPU vary between half-rounds.
    """
    usual = Simulation()
    return Simulation(
        seed=seed, noise=NOISE, cpu_drift=drifts[0], gpu_drift=drifts[1], drift_rho=rho, gpu_tile=TILE,
        cpu_ripple=RIPPLE,
        cpu_overhead_ns=SLOW * usual.cpu_overhead_ns, cpu_ns_per_flop=SLOW * usual.cpu_ns_per_flop,
        launch_ns=SLOW * usual.launch_ns, sync_ns=SLOW * usual.sync_ns,
        kernel_overhead_ns=SLOW * usual.kernel_overhead_ns, gpu_ns_per_flop=SLOW * usual.gpu_ns_per_flop,
        cpu_bytes_per_ns=usual.cpu_bytes_per_ns / SLOW, gpu_bytes_per_ns=usual.gpu_bytes_per_ns / SLOW,
        transfer_alpha_ns=SLOW * usual.transfer_alpha_ns,
        pageable_bytes_per_ns=usual.pageable_bytes_per_ns / SLOW, pinned_bytes_per_ns=usual.pinned_bytes_per_ns / SLOW,
    )  # fmt: skip


def search_plan(simulation: Simulation, **more: object) -> Plan:
    """Return the plan of `run matmul --find-crossover --max-size 10000` on a simulated machine."""
    request = PlanRequest(("matmul",), find_crossover=True, max_size="10000", simulation=simulation)
    return build_plan(request._replace(**more))  # type: ignore[arg-type]


def searched(plan: Plan) -> tuple[RunState, Recorder]:
    """Run a plan; return what a person sees, and what happened."""
    recorder = Recorder()
    Scheduler(plan, SimulatedMachine(plan), recorder, Control()).run()
    return state_of(plan, recorder), recorder


def true_crossings(plan: Plan, highest: int = 2_000) -> list[float]:
    """Return where the lead changes without noise, between the sizes on both sides."""
    laws = plan.simulation
    crossings: list[float] = []
    gpu_leads = False
    for size in range(min(case.size for case in plan.cases), highest):
        case = replace(plan.cases[0], size=size)
        cpu_ns = cpu_work_ns(laws, case, case_costs(case))
        gpu_ns = laws.launch_ns + gpu_work_ns(laws, case, case_costs(tiled(laws, case))) + laws.sync_ns
        if (cpu_ns > gpu_ns) != gpu_leads:
            gpu_leads = not gpu_leads
            crossings.append(size - 0.5)
    return crossings


@dataclass(frozen=True)
class Record:
    """How a number of searches went."""

    covered: float
    """Share of the brackets that hold the truth."""
    median_ratio: float
    """Of the brackets' ends."""
    error_p95: float
    """Of the point, relative."""
    most_cases: int


def record(rho: float, seeds: range, drifts: tuple[float, float] = (DRIFT, DRIFT)) -> Record:
    """Search with each seed on `machine`."""
    ratios, errors, covered, most_cases = [], [], 0, 0
    truth = true_crossings(search_plan(machine(seeds[0], rho, drifts)))  # the seed is that of the noise alone
    for seed in seeds:
        plan = search_plan(machine(seed, rho, drifts))
        state, _ = searched(plan)
        found = report(state).sweeps[0].resident.crossover
        most_cases = max(most_cases, len(state.rows))
        if found is None:
            continue
        covered += any(found.low <= each <= found.high for each in truth)
        ratios.append(found.high / found.low)
        errors.append(min(abs(found.point / each - 1) for each in truth))
    return Record(covered / len(seeds), percentile(ratios, 50), percentile(errors, 95), most_cases)
