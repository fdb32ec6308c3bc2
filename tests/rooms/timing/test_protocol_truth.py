"""The whole protocol on a simulated machine: recovered constants, end of rounds, and verdicts for equal devices.

A1 and the stopping rule of method.md; A3 (equal devices, and one that is 7 % slower).
"""

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from tests.helpers.runs.read_back import naive_factor
from tests.helpers.runs.recorder import Recorder, plan_of, state_of, swept

from cpugpu_tui import model
from cpugpu_tui.decide.comparison import CPU_WINS, GPU_WINS, TIE, UNDECIDED
from cpugpu_tui.decide.correlation import Pool
from cpugpu_tui.decide.stats import median
from cpugpu_tui.decide.verdict import case_correlation, compare, is_usable
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.workloads import find

WITHIN = 0.03

PLANTED = model.Simulation(
    cpu_overhead_ns=5_000.0, cpu_ns_per_flop=0.004, cpu_bytes_per_ns=12.0, launch_ns=11_000.0, sync_ns=8_000.0,
    kernel_overhead_ns=3_000.0, gpu_ns_per_flop=0.0001, gpu_bytes_per_ns=900.0, transfer_alpha_ns=9_000.0,
    pageable_bytes_per_ns=6.0, pinned_bytes_per_ns=45.0, first_call_ns=40e6, noise=0.02,
)  # fmt: skip
WANDERING = replace(PLANTED, cpu_drift=0.01, gpu_drift=0.01, shared_drift=0.01, drift_rho=0.5)
"""A mean of eight such rounds is within 1 % (one standard deviation): a faithful protocol finds it there too."""


# ------------------------------------------------------------------ constants


def times_of(row):
    return row.cpu, row.gpu


def close_to(planted_ns):
    return pytest.approx(planted_ns, rel=WITHIN)


@pytest.mark.parametrize("machine", [PLANTED, WANDERING], ids=["noise", "noise and drift"])
@pytest.mark.parametrize(
    "case",
    [model.Case("matmul", 16), model.Case("matmul", 1024), model.Case("elementwise", 10**6, variant="out")],
    ids=["all launch", "computing", "memory"],
)
def test_the_protocol_recovers_what_was_planted(machine, case):
    costs = find(case.workload).costs(case.variant, case.size, 4)
    flops, size_bytes = costs.flops, costs.bytes_moved
    cpu_ns = 5_000 + max(0.004 * flops, size_bytes / 12)
    kernel_ns = 3_000 + max(0.0001 * flops, size_bytes / 900)
    plan = plan_of(case.size, simulation=machine, metrics=model.METRICS, cases=(case,))
    (row,) = state_of(plan, swept(plan)[1]).rows.values()
    cpu, gpu = times_of(row)
    assert cpu.median_ns(model.LATENCY) == close_to(cpu_ns)
    assert gpu.median_ns(model.LATENCY) == close_to(11_000 + kernel_ns + 8_000)
    assert gpu.median_ns(model.DEVICE) == close_to(kernel_ns)
    assert gpu.median_ns(model.THROUGHPUT) == close_to(max(11_000, kernel_ns))
    for metric, rate in ((model.PAGEABLE, 6), (model.PINNED, 45)):
        assert gpu.median_ns(metric) == close_to(2 * 9_000 + size_bytes / rate + 11_000 + kernel_ns + 8_000)
    assert gpu.kernels.count == 1


def test_one_profiled_call_has_the_kernels_time():
    """Without noise and drift, which a single call would show in full."""
    plan = plan_of(256, simulation=replace(PLANTED, noise=0.0), metrics=model.METRICS)
    (row,) = state_of(plan, swept(plan)[1]).rows.values()
    assert times_of(row)[1].kernels_ns == close_to(3_000 + 0.0001 * find("matmul").flops(256))


@pytest.mark.parametrize(("size", "factor"), [(16, 2.0), (256, 2.3), (1024, 21.5)])
def test_a_clock_that_does_not_wait_is_off_by_the_planted_factor(size, factor):
    """(launch + kernel + wait) / launch: 22 / 11, 25.4 / 11 and 236.7 / 11 microseconds; one call, so 1 % of noise."""
    plan = plan_of(size, simulation=replace(PLANTED, noise=0.01))
    (row,) = state_of(plan, swept(plan)[1]).rows.values()
    cpu, gpu = times_of(row)
    assert naive_factor(row) == pytest.approx(factor, rel=WITHIN)
    assert gpu.median_ns(model.AS_WRITTEN) == close_to(11_000)
    assert cpu.median_ns(model.AS_WRITTEN) == cpu.median_ns(model.SYNCED)


# ------------------------------------------------------------------ when rounds end

EQUAL = model.Simulation(
    cpu_overhead_ns=50e6, cpu_ns_per_flop=0.0, cpu_bytes_per_ns=0.0, launch_ns=0.0, sync_ns=0.0,
    kernel_overhead_ns=50e6, gpu_ns_per_flop=0.0, gpu_bytes_per_ns=0.0, first_call_ns=0.0, noise=0.03,
)  # fmt: skip
"""Two devices with one law; calls of 50 ms, so that a block is one call and a round costs the test little."""


def rounds_of(simulation, **more):
    """Return the number of rounds of one case, and its half-rounds with the mark of a case without a winner."""
    recorder: Recorder = swept(
        plan_of(1, simulation=simulation, **{"metrics": (model.LATENCY,), "budget_s": 1e9, **more})
    )[1]
    unconverged = [event for event in recorder.rounds if {model.NOT_CONVERGED, model.MOST_ROUNDS} & {*event.marks}]
    assert unconverged in ([], recorder.rounds[-1:]), "the last half-round says it, or none"
    return max(event.round_index for event in recorder.rounds), unconverged


def test_a_quiet_machine_stops_early():
    """A case alone must first show that its rounds are not correlated; many cases show it together."""
    quiet = replace(EQUAL, noise=0.002)
    for seed in range(5):
        rounds, unconverged = rounds_of(replace(quiet, seed=seed))
        assert 8 <= rounds <= 16
        assert not unconverged
    plan = plan_of(*range(1, 25), simulation=quiet, metrics=(model.LATENCY,), budget_s=1e9)
    rows = list(state_of(plan, swept(plan)[1]).rows.values())
    assert {len(times_of(row)[0].round_ns) for row in rows[-8:]} <= {8, 9}


def test_noise_takes_more_rounds():
    rounds, unconverged = rounds_of(replace(EQUAL, noise=0.015, seed=2))
    assert 8 < rounds < 40
    assert not unconverged


def test_too_much_noise_ends_at_forty_rounds_and_says_so():
    rounds, unconverged = rounds_of(replace(EQUAL, noise=0.2))
    assert rounds == 40
    assert [event.marks for event in unconverged] == [(model.MOST_ROUNDS,)]


def test_too_much_noise_ends_with_the_budget_and_says_so():
    """A half-round has five calls of 50 ms, so 5 s allow 20."""
    rounds, unconverged = rounds_of(replace(EQUAL, noise=0.2), budget_s=5.0)
    assert 15 <= rounds <= 21
    assert [event.marks for event in unconverged] == [(model.NOT_CONVERGED,)]


@pytest.mark.parametrize(("spread", "expected"), [(0.0, True), (0.05, True), (0.2, False)])
def test_one_device_alone_is_for_its_time_to_ten_percent(spread, expected):
    own = {index: 1e6 * (1 + spread * (-1) ** index) for index in range(1, 13)}
    assert is_usable([own], is_compared=False) is expected
    assert is_usable([own, own], is_compared=False) is expected, "several GPUs without a CPU"


def test_without_a_winner_the_interval_misses_what_the_row_is_for():
    cpu = {index: 1e6 * (1 + 0.2 * (-1) ** index) for index in range(1, 9)}
    gpu = dict.fromkeys(cpu, 1e6)
    assert not is_usable([cpu, gpu], is_compared=True)
    assert is_usable([gpu, gpu], is_compared=True), "a tie is an answer"
    assert not is_usable([cpu, {}], is_compared=True)


# ------------------------------------------------------------------ equals, and what is 7 % slower

CASES = 12
"""Cases of one sweep: each is a trial, interleaved with three others as in a person's sweep."""


class Undisturbed(Control):
    """A control without suspensions, which does not yield."""

    def suspended_meanwhile(self):
        return False


@dataclass
class Rounds:
    """An `Emit` that stores the medians of rounds: case → device → round → ns."""

    ns: dict[str, dict[str, dict[int, float]]] = field(default_factory=dict)

    def __call__(self, event):
        if isinstance(event, model.DeviceSampled) and event.round_index > 0:
            devices = self.ns.setdefault(event.case, {})
            devices.setdefault(event.device, {})[event.round_index] = median(event.samples[model.LATENCY])

    def flush(self):
        pass


def verdicts(machine, sweeps):
    """Return the number of each verdict in so many sweeps with different seeds."""
    said: Counter[str] = Counter()
    for seed in range(sweeps):
        cases = tuple(model.Case("matmul", size) for size in range(1, CASES + 1))
        plan = model.Plan("A/A", cases, metrics=(model.LATENCY,), budget_s=1e9, simulation=replace(machine, seed=seed))
        rounds = Rounds()
        Scheduler(plan, SimulatedMachine(plan), rounds, Undisturbed()).run()
        pool, own = Pool(), {}
        for case, devices in rounds.ns.items():
            own[case] = case_correlation([devices["cpu"], devices["cuda:0"]], is_compared=True)
            pool.others(case, own[case])
        for case, devices in rounds.ns.items():
            comparison = compare(devices["cpu"], devices["cuda:0"], pool.others(case, own[case]))
            assert 8 <= comparison.rounds <= 40
            said[comparison.verdict] += 1
    return said


@pytest.mark.parametrize(
    ("drift", "least_ties"),
    [
        ({"shared_drift": 0.02, "drift_rho": 0.8}, 200),
        ({"cpu_drift": 0.02, "gpu_drift": 0.02}, 70),
        ({"cpu_drift": 0.02, "gpu_drift": 0.02, "drift_rho": 0.8}, 4),
    ],
    ids=["shared", "independent", "independent with memory"],
)
def test_equal_devices_are_not_called_different(drift, least_ties):
    """240 comparisons of 3 % noise and 2 % drift: at most 1 % (measured: none)."""
    said = verdicts(replace(EQUAL, **drift), sweeps=20)
    assert said[GPU_WINS] + said[CPU_WINS] <= 2
    assert said[TIE] + said[UNDECIDED] >= 238
    assert said[TIE] >= least_ties, "a protocol that never decides would pass as well"
