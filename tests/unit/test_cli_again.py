"""The command that repeats a run repeats it."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

from cpugpu_tui import command_line
from cpugpu_tui.cli import run as run_module
from cpugpu_tui.cli.tables import again
from cpugpu_tui.model import RunStarted
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
    PlanRequest(("elementwise",), variant="out", find_crossover=True, threads="1,all"),
    PlanRequest(sizes="16,64"),
    PlanRequest(simulation=parse_simulation("noise=0.5,gpus=2")),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=range(len(REQUESTS)))
def test_it_gives_the_same_plan(request_: PlanRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = build_plan(request_)
    started = RunStarted(run_id="r", series_id="s", plan=plan, environment={"worker": "process"})
    asked: list[PlanRequest] = []

    def note(request: PlanRequest, _options: Any, *, as_json: bool) -> int:
        asked.append(request)
        return int(as_json)

    monkeypatch.setattr(run_module, "run_headless", note)
    program, *words = shlex.split(again(started))
    assert program == "cpugpu-tui"
    assert CliRunner().invoke(command_line.app, words).exit_code == 0
    assert build_plan(asked[0]) == plan
