"""The command that repeats a run repeats it."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

from cpugpu_tui import command_line
from cpugpu_tui.cli import run as run_module
from cpugpu_tui.model import RunStarted
from cpugpu_tui.runs.again import again
from cpugpu_tui.runs.planning import PlanRequest, build_plan, parse_simulation

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
    program, *words = shlex.split(again(started))
    assert program == "cpugpu-tui"
    assert CliRunner().invoke(command_line.app, words).exit_code == 0
    assert build_plan(asked[0]) == plan
    assert asked[0].case_timeout_s == request_.case_timeout_s


def environment(request: PlanRequest) -> dict[str, Any]:
    """What a session adds to the environment."""
    told = {"worker": "process", "python_option": None}
    return told if request.case_timeout_s is None else {**told, "case_timeout_s": request.case_timeout_s}


def test_a_range_is_named_only_where_a_person_named_one() -> None:
    said = [again(RunStarted(run_id="r", series_id="s", plan=build_plan(request), environment={})) for request in (
        PlanRequest(("matmul", "vector-dot"), find_crossover=True),
        PlanRequest(("mnist-mlp",), find_crossover=True, max_size="256"),
        PlanRequest(("vector-dot",), sizes="7,9", variant="dot"),
    )]  # fmt: skip
    assert said == [
        "cpugpu-tui run matmul vector-dot --find-crossover",
        "cpugpu-tui run mnist-mlp --find-crossover --max-size 256",
        "cpugpu-tui run vector-dot --size 7,9 --variant dot",
    ]
