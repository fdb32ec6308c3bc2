"""Every workload of the catalogue on a real GPU, and kernel times beside NVBench's where that is installed."""

from __future__ import annotations

import time
from collections import defaultdict

import psutil
import pytest
from tests.bench.agreement import loaded
from tests.bench.catalogue import CASES
from tests.helpers.bench import nvbench
from tests.helpers.command_line import CommandLine, agents_of, events_from

from cpugpu_tui.agent.guardian import NAME
from cpugpu_tui.agent.main import facts, make_machine
from cpugpu_tui.decide.crossover import ALWAYS, NEVER, RISES
from cpugpu_tui.decide.stats import median
from cpugpu_tui.errors import EXIT_OK
from cpugpu_tui.model import PAGEABLE, PINNED, CaseFailed, CaseFinished, CodeCompiled, DeviceSampled, Plan
from cpugpu_tui.render.answers import answers
from cpugpu_tui.state.folding import folded
from cpugpu_tui.workloads.contract import REGISTRY
from cpugpu_tui.workloads.presets import SURVEYED

pytestmark = pytest.mark.gpu

NAMES = {name for name, item in REGISTRY.items() if type(item).__module__.startswith("cpugpu_tui.workloads.families.")}

SHORTEST_US = 10.0
"""From here on, times must agree."""


@pytest.mark.parametrize("size", [16, 64])
def test_every_workload_agrees_with_the_cpu_and_is_timed_with_copies(size: int, cpugpu: CommandLine) -> None:
    done = cpugpu("run", *sorted(NAMES), "--size", size, "--rounds", 3, "--no-ceilings", "--json", "--no-save")
    assert done.code == EXIT_OK, done.err
    finished = [event for event in done.events if isinstance(event, CaseFinished)]
    assert len(finished) == len(NAMES)
    assert all(event.check is not None and event.check.error <= event.check.tolerance for event in finished)
    for memory in (PAGEABLE, PINNED):
        moved = {event.case.split("/")[0] for event in done.events
                 if isinstance(event, DeviceSampled) and memory in event.samples}  # fmt: skip
        assert moved == NAMES


COMPILED = sorted(name for name in NAMES if REGISTRY[name].compiles)


@pytest.mark.parametrize("dtype", ["float32", "tf32"])
def test_every_compiled_workload_agrees_and_has_a_cost_on_each_device(dtype: str, cpugpu: CommandLine) -> None:
    names = [name for name in COMPILED if dtype in REGISTRY[name].dtypes]
    process = cpugpu.start("run", *names, "--variant", "compiled", "--size", 64, "--dtype", dtype, "--rounds", 3,
                           "--no-ceilings", "--no-save", "--json")  # fmt: skip
    events = []
    with process:
        for event in events_from(process):
            events.append(event)
            if isinstance(event, CodeCompiled):
                (agent,) = agents_of(process)
                assert [child.name() for child in psutil.Process(agent).children(recursive=True)] == [NAME]
    failed = [(event.case, event.message) for event in events if isinstance(event, CaseFailed)]
    assert not failed
    assert process.returncode == EXIT_OK
    costs = {(event.case.split("/")[0], event.device) for event in events if isinstance(event, CodeCompiled)}
    assert costs == {(name, device) for name in names for device in ("cpu", "cuda:0")}
    finished = [event for event in events if isinstance(event, CaseFinished)]
    assert len(finished) == len(names)
    assert all(event.check is not None and event.check.error <= event.check.tolerance for event in finished)


@pytest.mark.parametrize("statement", ["torch.ones(n) * x", "m(x)"])
def test_own_code_is_compiled_on_the_gpu(statement: str, cpugpu: CommandLine) -> None:
    done = cpugpu("time", statement, "--setup", "x = torch.rand(n, n)", "--setup", "m = torch.nn.Linear(n, n)",
                  "--n", 64, "--variant", "default,compiled", "--rounds", 3, "--no-ceilings", "--no-save",
                  "--json")  # fmt: skip
    assert done.code == EXIT_OK, done.err
    assert {event.device for event in done.events if isinstance(event, CodeCompiled)} == {"cpu", "cuda:0"}


def test_a_survey_ends_in_five_minutes_and_answers_for_every_workload(cpugpu: CommandLine) -> None:
    started_s = time.monotonic()
    done = cpugpu.here("survey", "--json", "--no-save")
    assert time.monotonic() - started_s < 300
    assert done.code == EXIT_OK, done.err
    state = folded(done.events)
    found = {answer.rows[0].case.workload: answer.evidence for answer in answers(state)}
    assert set(found) == {part.workload for part in SURVEYED}
    assert not [row.case.key for row in state.rows.values() if row.failure is not None and row.status != "skipped"]
    undecided = [name for name, each in found.items() if each.measured.kind not in (ALWAYS, NEVER, RISES)]
    assert len(undecided) <= 2, undecided
    wide = [name for name, each in found.items() if (each.measured.ratio or 1.0) > 1.2]
    assert len(wide) <= 4, wide


@pytest.mark.skipif(not nvbench.is_installed(), reason="NVBench (cuda-bench) is not installed")
def test_kernel_times_agree_with_nvbench() -> None:
    machine = make_machine(Plan("test", (), ("cuda:0",)), facts(simulated=False))
    subjects = {each.label: each for each in (loaded(machine, "cuda:0", case) for case in CASES)}
    ours_us: defaultdict[str, list[float]] = defaultdict(list)
    report = nvbench.cold_report(
        {label: each.step for label, each in subjects.items()},
        seconds_each=2.0,
        passes=3,
        beside=lambda label: ours_us[label].append(subjects[label].device_us()),
    )
    theirs_us = nvbench.cold_of(report, nvbench.MEDIAN_TAG) or nvbench.cold_of(report)
    assert set(theirs_us) == set(subjects)
    found = {label: (median(ours_us[label]), median(theirs_us[label])) for label in subjects}
    for label, (ours, theirs) in found.items():
        print(f"{label}: {ours:.2f} us here, {theirs:.2f} us in NVBench ({100 * (ours / theirs - 1):+.1f} %)")
    apart = {
        label: pair for label, pair in found.items() if pair[1] >= SHORTEST_US and abs(pair[0] / pair[1] - 1) > 0.03
    }
    assert not apart
