"""The agent of a duet: it waits before each case, each round and its end, and leaves memory for the other agents."""

from dataclasses import replace

import pytest
import torch
from tests.helpers.runs.recorder import Recorder, SpiedMachine, plan_of

from cpugpu_tui.agent.main import work
from cpugpu_tui.model import TURN, Case, CaseFailed, CaseFinished, CaseStarted, Device, Plan, Progressed
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.timing import torch_machine
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.timing.timers import CaseError
from cpugpu_tui.timing.timers.cuda import require_memory
from cpugpu_tui.timing.torch_machine import TorchMachine

PLAN = plan_of(64, 128, window=1, rounds=2, max_rounds=2, turns=1)


class Conductor(Recorder):
    """Lets the agent go on at each turn, until the turn that stops it."""

    def __init__(self, control, stop_at=100):
        super().__init__()
        self._control, self._stop_at = control, stop_at
        self.turns: list[tuple[str, int]] = []

    def __call__(self, event):
        super().__call__(event)
        if isinstance(event, Progressed) and event.phase == TURN:
            assert self._control.paused, "it waits already when it says so"
            self.turns.append((event.case.split("/")[2] if event.case else "end", event.round_index))
            self._control.obey("resume" if len(self.turns) < self._stop_at else "stop")


def conducted(stop_at=100):
    control = Control()
    conductor = Conductor(control, stop_at)
    return Scheduler(PLAN, SpiedMachine(PLAN, conductor), conductor, control).run(), conductor


def test_it_waits_before_each_case_each_round_and_its_end():
    status, conductor = conducted()
    assert status == "done"
    assert conductor.turns == [("64", 0), ("64", 1), ("64", 2), ("128", 0), ("128", 1), ("128", 2), ("end", 0)]
    # Nothing happens between a turn that is asked for and what it is for.
    turns = [index for index, event in enumerate(conductor.events) if getattr(event, "phase", "") == TURN]
    assert isinstance(conductor.events[turns[0] + 1], CaseStarted)


def test_stopped_while_it_waits_it_times_nothing_more():
    status, conductor = conducted(stop_at=3)
    assert status == "stopped"
    assert [event.round_index for event in conductor.rounds] == [1, 1]
    assert [event.case.split("/")[2] for event in conductor.of(CaseFinished)] == ["64"]
    assert [event.kind for event in conductor.of(CaseFailed)] == ["skipped"]


def test_contexts_are_created_before_the_first_turn_so_that_all_agents_do_it_at_once(monkeypatch):
    """One after the other, five starts on a GPU server spent 8 s on it."""
    control = Control()
    conductor = Conductor(control)
    before: list[int] = []
    monkeypatch.setattr(SimulatedMachine, "open", lambda _self: before.append(len(conductor.turns)))
    assert work(PLAN, {}, conductor, control)
    assert before == [0]
    assert work(replace(PLAN, turns=0), {}, conductor, control)
    assert before == [0], "a run of its own creates a context in its first case, which times it"


def test_the_first_agent_of_a_pair_needs_the_memory_of_both(monkeypatch, words):
    """A product of 10,000² takes 1.2 GB; 2 GB are free."""
    case = Case("matmul", 10_000)
    monkeypatch.setattr(torch_machine.procfs, "available_memory_bytes", lambda: 2_000_000_000)
    first, second = (
        TorchMachine(Plan("test", (case,), devices=("cpu",), turns=turns), {"threads": 1}) for turns in (2, 1)
    )
    with pytest.raises(CaseError) as caught:
        first.make_inputs(case)
    assert caught.value.kind == "oom"
    words(f"{caught.value.message} {caught.value.remedy}")
    second._require_host_memory(case)

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _name: (12e9, 16e9))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    require_memory(Device("cuda:0", "GPU"), 7e9, agents=1)
    with pytest.raises(CaseError) as caught:
        require_memory(Device("cuda:0", "GPU"), 7e9, agents=2)
    words(caught.value.message)
