"""The printed command repeats the run."""

from __future__ import annotations

import shlex
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.command_line import FAST, CommandLine
from typer.testing import CliRunner

from cpugpu_tui.cli import commands as command_files
from cpugpu_tui.cli.running import modes as run_module
from cpugpu_tui.config.parsing import parse_simulation
from cpugpu_tui.model import Case, Plan, RunStarted
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.session.resume import repeat_commands, repeat_text
from cpugpu_tui.workloads.contract import REGISTRY, SOURCES

REQUESTS = [
    PlanRequest(),
    PlanRequest(("matmul-sweep",)),
    PlanRequest(("vector-dot",), threads="1,all"),
    PlanRequest(("matmul",), sizes="1:100:3", dtype="float64", rounds=12, cache="warm", max_seconds=9.0),
    PlanRequest(("vector-dot",), sizes="7,9", variant="dot", devices=("cpu", "cuda:1")),
    PlanRequest(("matmul",), find_crossover=True),
    PlanRequest(("matmul",), sizes="500,32", find_crossover=True, max_size="1e4", full=True),
    PlanRequest(("transfer",), variant="h2d-pageable"),
    PlanRequest(("transfer",), find_crossover=True, max_size="1e6"),
    PlanRequest(("transfer",), find_crossover=True),
    PlanRequest(("matmul", "vector-dot"), find_crossover=True),
    PlanRequest(("matmul", "vector-dot"), find_crossover=True, max_size="1e4"),
    PlanRequest(("matmul", "vector-dot"), sizes="64,128"),
    PlanRequest(("mnist-mlp",), find_crossover=True, max_size="256"),
    PlanRequest(("mnist-mlp",), sizes="64,512", find_crossover=True, variant="eager"),
    PlanRequest(find_crossover=True, full=True),
    PlanRequest(("transfer",), variant="h2d"),
    PlanRequest(("matmul",), energy=True, case_timeout_s=2.5),
    PlanRequest(("matmul",), find_crossover=True, energy=True),
    PlanRequest(("mnist-width",), scale="small", variant="eager"),
    PlanRequest(("elementwise",), variant="out", find_crossover=True, threads="1,all"),
    PlanRequest(sizes="16,64"),
    PlanRequest(("survey",)),
    PlanRequest(("survey",), dtype="bfloat16"),
    PlanRequest(("survey",), only=("fft", "sort"), dtype="float64", max_seconds=60.0),
    PlanRequest(simulation=parse_simulation("noise=0.5,gpus=2")),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=range(len(REQUESTS)))
def test_it_gives_the_same_plan(request_: PlanRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = build_plan(request_)
    started = RunStarted(run_id="r", series_id="s", plan=plan, environment=environment(request_))
    asked: list[PlanRequest] = []

    def note(request: PlanRequest, _options: Any, **_how: Any) -> int:
        asked.append(request)
        return 0

    monkeypatch.setattr(run_module, "run_headless", note)
    program, *words = shlex.split(repeat_text(started))
    assert program == "cpugpu-tui"
    assert CliRunner().invoke(command_files.app, words).exit_code == 0
    assert build_plan(asked[0]) == plan
    assert asked[0].case_timeout_s == request_.case_timeout_s


def environment(request: PlanRequest) -> dict[str, Any]:
    """What a session adds to the environment."""
    told = {"worker": "process", "python_option": None}
    return told if request.case_timeout_s is None else {**told, "case_timeout_s": request.case_timeout_s}


def test_a_range_is_named_only_where_a_person_named_one() -> None:
    plans = map(build_plan, (
        PlanRequest(("matmul", "vector-dot"), find_crossover=True),
        PlanRequest(("mnist-mlp",), find_crossover=True, max_size="256"),
        PlanRequest(("vector-dot",), sizes="7,9", variant="dot"),
    ))  # fmt: skip
    said = [repeat_text(RunStarted(run_id="r", series_id="s", plan=plan, environment={})) for plan in plans]
    assert said == [
        "cpugpu-tui run matmul vector-dot --find-crossover",
        "cpugpu-tui run mnist-mlp --find-crossover --max-size 256",
        "cpugpu-tui run vector-dot --size 7,9 --variant dot",
    ]


def test_sizes_of_an_own_workload_are_named_although_a_worker_thread_registered_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = copy(REGISTRY["matmul"])
    monkeypatch.setattr(own, "name", "own", raising=False)
    sizes = own.info().sizes
    plan = Plan("own", tuple(Case("own", size) for size in sizes))
    monkeypatch.setitem(REGISTRY, "own", own)
    monkeypatch.setitem(SOURCES, "own", "own.py")
    text = repeat_text(RunStarted(run_id="r", series_id="s", plan=plan, environment={}))
    assert f"--size {','.join(map(str, sizes))}" in text


MIXED = [
    [Case("matmul", 32), Case("matmul", 128), Case("vector-dot", 1000, variant="matmul")],
    [Case("matmul", 32), Case("matmul", 64, "float64"), Case("matmul", 64, threads=1)],
    [Case("vector-dot", 100, variant="dot"), Case("vector-dot", 1000, variant="matmul"), Case("matmul", 8)],
    [Case("not-built-in", 5), Case("not-built-in-either", 7), Case("not-built-in-either", 9)],
]


@pytest.mark.parametrize("cases", MIXED, ids=range(len(MIXED)))
def test_what_no_single_command_can_say_is_said_by_several(cases: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    names = dict.fromkeys(case.workload for case in cases)
    plan = Plan("+".join(names), tuple(cases))
    asked: list[list[str]] = []

    def note(request: PlanRequest, _options: Any, **_how: Any) -> int:
        asked.append(planned(request))
        return 0

    monkeypatch.setattr(run_module, "run_headless", note)
    for command in repeat_commands(RunStarted(run_id="r", series_id="s", plan=plan, environment={})):
        assert CliRunner().invoke(command_files.app, shlex.split(command)[1:]).exit_code == 0
    assert sorted(key for keys in asked for key in keys) == sorted(case.key for case in cases)


def planned(request: PlanRequest) -> list[str]:
    """Return the cases of a request, including workloads outside the catalogue."""
    from cpugpu_tui.model import WorkloadInfo
    from cpugpu_tui.session.own_workloads import OwnWorkloads

    infos = tuple(WorkloadInfo(name, "n", ("default",), (1,), "") for name in request.names if name.startswith("not-"))
    return [case.key for case in build_plan(replace(request, own=OwnWorkloads(workloads=infos))).cases]


OWN = """
from cpugpu_tui import Workload, workload

class Copy(Workload):
    def inputs(self, n, dtype, generator):
        import torch
        return (torch.randn(n, generator=generator, dtype=dtype),)
    def step(self, x):
        return x.clone()
    def flops(self, n):
        return 0.0
    def bytes_moved(self, n, itemsize_bytes):
        return 2.0 * n * itemsize_bytes

@workload
class A(Copy):
    '''Copy.'''
    name, axis, sizes = "copy-a", "elements", (10, 20)

@workload
class B(Copy):
    '''Copy.'''
    name, axis, sizes = "copy-b", "elements", (300, 400, 500)
"""


def test_running_what_a_run_of_own_workloads_prints_runs_the_same_cases(cpugpu: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    first = cpugpu.here("run", "copy-a", "copy-b", "--workloads", tmp_path / "own.py", "--simulate", FAST)
    printed = [line.removeprefix("Again: ") for line in first.out.splitlines() if line.startswith("Again: ")]
    assert len(printed) == 2
    for line in printed:
        assert cpugpu.here(*shlex.split(line)[1:]).code == 0
    with cpugpu.store() as store:
        ran, *repeated = ([case.key for case in store.plan_of(store.find(number)).cases] for number in "123")
    assert ran == [key for keys in repeated for key in keys]
    assert len(ran) == 5
