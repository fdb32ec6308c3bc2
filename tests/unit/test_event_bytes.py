"""What a round says about itself is little: up to 4 KB, whatever was measured (method.md; measured by `make bench`)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from recorder import plan_of

from cpugpu_tui.model import METRICS, Simulation
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.timing.control import Control
from cpugpu_tui.timing.emitter import LineEmitter
from cpugpu_tui.timing.scheduler import Scheduler

LIMIT_BYTES = 4096


@pytest.mark.parametrize("size", [16, 256, 2048, 8192])
def test_a_round_of_every_metric_takes_four_kilobytes_at_most(size: int, tmp_path: Path) -> None:
    machine = Simulation(noise=0.05, throttle_share=0.5, sm_clock_mhz=1980.0)
    plan = plan_of(size, simulation=machine, metrics=METRICS, rounds=12, max_rounds=12)
    with (tmp_path / "events").open("wb") as stream:
        assert Scheduler(plan, SimulatedMachine(plan), LineEmitter(stream.fileno()), Control()).run() == "done"
    rounds: Counter[int] = Counter()
    for line in (tmp_path / "events").read_bytes().splitlines(keepends=True):
        event = json.loads(line)
        if event["event"] == "HalfRoundTimed" or event.get("phase") == "round":
            rounds[event["round_index"]] += len(line)
    assert sorted(rounds) == list(range(13)), "what is taken once before the rounds, and twelve rounds"
    assert max(rounds.values()) <= LIMIT_BYTES
