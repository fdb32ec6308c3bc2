"""Every workload of the catalogue on a real GPU, and kernel times beside NVBench's where that is installed."""

from __future__ import annotations

import psutil
import pytest
from tests.helpers.command_line import CommandLine, agents_of, events_from

from cpugpu_tui.agent.guardian import NAME
from cpugpu_tui.errors import EXIT_OK
from cpugpu_tui.model import PAGEABLE, PINNED, CaseFailed, CaseFinished, CodeCompiled, DeviceSampled
from cpugpu_tui.workloads.contract import REGISTRY

pytestmark = pytest.mark.gpu

NAMES = {name for name, item in REGISTRY.items() if type(item).__module__.startswith("cpugpu_tui.workloads.families.")}

SHORTEST_US = 10.0
"""From here on, times must agree."""


def test_every_workload_agrees_with_the_cpu_and_is_timed_with_copies(cpugpu: CommandLine) -> None:
    done = cpugpu("run", *sorted(NAMES), "--size", 16, "--rounds", 1, "--no-ceilings", "--json", "--no-save")
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
    process = cpugpu.start("run", *names, "--variant", "compiled", "--size", 64, "--dtype", dtype, "--rounds", 1,
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
