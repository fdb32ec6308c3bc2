"""Each GPU of a fleet against a baseline of its model: sentences, reports and exit codes."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from tests.helpers.command_line import FAST, CommandLine

from cpugpu_tui.analysis.compare import FAILED, PASSED, SLOWER, UNDECIDED
from cpugpu_tui.cli.running.gate import LIMITS
from cpugpu_tui.compare.comparison import Series
from cpugpu_tui.compare.gate import judge_fleet
from cpugpu_tui.config.hosts import hosts_of
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_CHECK_FAILED, EXIT_OK, EXIT_USAGE
from cpugpu_tui.model import CaseFinished, Device, DevicesFound, Event, RunFinished, RunStarted
from cpugpu_tui.model.events import DeviceSampled
from cpugpu_tui.render.comparison import fleet_gate_sentence
from cpugpu_tui.session.fleet_state import DONE, FleetState, HostChanged
from cpugpu_tui.session.planning import PlanRequest, build_plan

MACHINE = f"{FAST},noise=0.01"
LOCAL = ("--launcher", "local", "-w")
PLAN = build_plan(PlanRequest(("matmul",), sizes="64,128"))
WOBBLE = (1.0, 1.004, 0.997, 1.002, 0.999)
"""Factors between five runs of the same work."""


@pytest.fixture(scope="module")
def with_baseline(tmp_path_factory):
    """A history with five runs of two sizes on a simulated GPU as the baseline `main`."""
    command = CommandLine(tmp_path_factory.mktemp("gate") / "history.db")
    assert command.here("run", "matmul", "--size", "64,2048", "--repeat", 5, "--simulate", MACHINE).code == EXIT_OK
    assert command.here("baseline", "main", "latest").code == EXIT_OK
    return command


@pytest.mark.slow
def test_a_fleet_as_fast_as_its_baseline_passes(cpugpu, with_baseline):
    cpugpu.take_over(with_baseline)
    outcome = cpugpu("fleet", "gate", *LOCAL, "n1,n2", "--simulate", f"{MACHINE},gpus=2", code=EXIT_OK)
    assert "Passed: none of 4 " in outcome.out
    assert len(cpugpu.here("history", "--json").objects) == 5 + 10


def test_slow_gpus_are_named_in_every_report(cpugpu, with_baseline, tmp_path):
    cpugpu.take_over(with_baseline)
    junit, summary = tmp_path / "gate.xml", tmp_path / "gate.md"
    outcome = cpugpu(
        "fleet", "gate", *LOCAL, "n1", "--simulate", f"{MACHINE},gpu_ns_per_flop=0.0001", "--json",
        "--junit", junit, "--summary", summary, code=EXIT_CHECK_FAILED,
    )  # fmt: skip
    (told,) = outcome.objects
    assert told["verdict"] == SLOWER
    assert "n1 cuda:0" in told["says"]
    assert "n1 cuda:0" in summary.read_text()
    suites = {each.get("name"): each for each in ElementTree.parse(junit).getroot()}
    assert "SIMULATED" in summary.read_text()
    assert all("SIMULATED" in suite.findtext("system-out", "") for suite in suites.values())
    assert suites["n1 cuda:0"].get("failures") != "0"


def test_a_host_that_is_away_fails_the_gate(words, cpugpu, with_baseline):
    cpugpu.take_over(with_baseline)
    outcome = cpugpu("fleet", "gate", *LOCAL, "n1", "--python", "no-such-python", "--simulate", MACHINE)
    assert outcome.code == EXIT_CASES_FAILED
    words(next(line for line in outcome.out.splitlines() if line.startswith("Not passed")))


def test_one_file_cannot_be_both_reports(cpugpu, tmp_path):
    report = tmp_path / "gate.txt"
    outcome = cpugpu.here(
        "fleet", "gate", "-w", "n1", "--baseline", "main", "--junit", report, "--summary", tmp_path / "." / "gate.txt"
    )
    assert outcome.code == EXIT_USAGE, outcome.err
    assert "Give each its own file." in outcome.err
    assert not report.exists()


# ------------------------------------------------------------------ which baseline is whose


def run_events(run, gpus, factors, wobble):
    """Return a run on these GPUs (device → model); a factor makes one slower."""
    devices = (Device("cpu", "a CPU"), *(Device(name, model, f"GPU-{name}") for name, model in gpus.items()))
    events: list[Event] = [
        RunStarted(run_id=run, series_id=run[:3], plan=PLAN, environment={}), DevicesFound(devices=devices),
    ]  # fmt: skip
    for case in PLAN.cases:
        for device in ("cpu", *gpus):
            block_ns = 1000.0 * case.size * wobble * factors.get(device, 1.0)
            events += [
                DeviceSampled(case=case.key, device=device, round_index=index, calls_per_block=1,
                               samples={"latency": (block_ns,) * 5})
                for index in range(1, 9)
            ]  # fmt: skip
        events.append(CaseFinished(case=case.key))
    return [*events, RunFinished(status="done")]


def fleet_of(gpus, factors):
    state = FleetState.of(hosts_of(list(gpus)))
    for host, devices in gpus.items():
        slow = {device: factor for (name, device), factor in factors.items() if name == host}
        for number, wobble in enumerate(WOBBLE):
            for event in run_events(f"{host}-{number}", devices, slow, wobble):
                state = state.apply(host, event)
        state = state.apply(host, HostChanged(DONE))
    return state


def baseline(name, model, factor):
    state = FleetState.of(hosts_of([name]))
    for number, wobble in enumerate(WOBBLE):
        for event in run_events(f"{name}-{number}", {"cuda:0": model}, {"cuda:0": factor}, wobble):
            state = state.apply(name, event)
    return Series(f"baseline {name}", state.hosts[name].runs)


def outcomes(gate):
    return {each.name: each.outcome for each in gate.gpus}


def test_each_gpu_is_compared_with_the_baseline_of_its_model(words):
    """The A100s take three times as long as the H200s, which is no slowdown."""
    gpus = {"n1": {"cuda:0": "H200", "cuda:1": "H200"}, "n2": {"cuda:0": "A100", "cuda:1": "H200"}}
    factors = {("n2", "cuda:0"): 3.0, ("n1", "cuda:1"): 1.2}
    gate = judge_fleet(fleet_of(gpus, factors), [baseline("b1", "H200", 1.0), baseline("b2", "A100", 3.0)], LIMITS)
    assert outcomes(gate) == {"n1 cuda:0": PASSED, "n1 cuda:1": SLOWER, "n2 cuda:0": PASSED, "n2 cuda:1": PASSED}
    assert gate.verdict == SLOWER
    words(fleet_gate_sentence(gate))


def test_a_model_without_a_baseline_is_undecided_and_says_which_there_are(words):
    gate = judge_fleet(fleet_of({"n1": {"cuda:0": "B200"}}, {}), [baseline("b1", "H200", 1.0)], LIMITS)
    assert (outcomes(gate), gate.verdict) == ({"n1 cuda:0": UNDECIDED}, UNDECIDED)
    words(gate.gpus[0].trouble)


def test_a_host_whose_threads_lacked_a_core_does_not_end_the_gate_of_the_others():
    state = fleet_of({"n1": {"cuda:0": "H200"}, "n2": {"cuda:0": "H200"}}, {})
    starved = [
        replace(run, cases={key: replace(case, median_ns={}, starved=("GPU",)) for key, case in run.cases.items()})
        for run in state.hosts["n2"].runs
    ]
    hosts = {**state.hosts, "n2": replace(state.hosts["n2"], runs=tuple(starved))}
    gate = judge_fleet(replace(state, hosts=hosts), [baseline("b1", "H200", 1.0)], LIMITS)
    assert outcomes(gate) == {"n1 cuda:0": PASSED, "n2 cuda:0": UNDECIDED}
    assert gate.gpus[1].trouble


def test_a_host_in_trouble_has_failed_though_its_gpus_passed():
    state = fleet_of({"n1": {"cuda:0": "H200"}, "n2": {"cuda:0": "H200"}}, {})
    state = state.apply("n2", HostChanged("unreachable", "The connection to n2 was lost."))
    gate = judge_fleet(state, [baseline("b1", "H200", 1.0)], LIMITS)
    assert gate.verdict == FAILED
    assert "n2" in fleet_gate_sentence(gate)
