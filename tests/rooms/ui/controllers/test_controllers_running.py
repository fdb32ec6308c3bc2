"""What runs, without the app: starting, pausing and stopping, folding events, counts, and the end."""

from typing import Any

import pytest
from tests.helpers.app.fake_port import FakeBridge, FakeGate, FakePort
from tests.helpers.app.fake_run import DEVICES, ENVIRONMENT, readings, whole_sweep

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model import PROTOCOL, DevicesFound, Hello, Progressed, RunFinished, RunStarted
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.ui.controllers import live as live_module
from cpugpu_tui.ui.controllers.comparing import Repeating
from cpugpu_tui.ui.controllers.history import History
from cpugpu_tui.ui.controllers.live import Live
from cpugpu_tui.ui.controllers.own_code import Consent
from cpugpu_tui.ui.controllers.paging import Leaving
from cpugpu_tui.ui.controllers.running import Running
from cpugpu_tui.ui.keys import Situation
from cpugpu_tui.ui.live.messages import AgentReported, RunAdvanced, SeriesEnded, TelemetryArrived
from cpugpu_tui.ui.live.saved_runs import QuietReader
from cpugpu_tui.ui.screens.machine import MachineScreen
from cpugpu_tui.ui.screens.page import ConfirmScreen

REQUEST = PlanRequest(("matmul",), sizes="64,256")
PLAN = build_plan(REQUEST)


def events_of(run_id: str) -> tuple[Any, ...]:
    started = RunStarted(run_id=run_id, series_id="s", plan=PLAN, environment={"case_timeout_s": 9.0}, number=7)
    return (started, DevicesFound(devices=DEVICES), *whole_sweep(PLAN), RunFinished(status="done"))


class House:
    """The controllers of a run on a fake port."""

    def __init__(self, **state: Any) -> None:
        self.port, self.bridge, self.gate = FakePort(**{"request": REQUEST, **state}), FakeBridge(), FakeGate()
        self.repeating = Repeating(self.port, QuietReader(self.bridge.between_runs))
        self.live = Live(self.port, self.bridge, self.gate, self.repeating.compared)
        self.history = History(self.port, self.bridge.history)
        consent = Consent(self.port)
        self.running = Running(self.port, self.bridge, self.live, self.history, self.repeating, consent)

    def advance(self, *events: Any) -> None:
        self.live.advance(RunAdvanced(events))


# ------------------------------------------------------------------ running


def test_run_starts_what_is_highlighted_on_a_thread() -> None:
    house = House(count=3)
    house.running.run()
    assert house.port.state.situation.live
    assert house.port.state.count == 0
    assert house.port.titles == ["cpugpu-tui: matmul"]
    assert house.port.main.asked == ["timings"]
    ((group, body),) = house.port.threads
    body()
    assert group == "run"
    assert house.bridge.names == ["expect_series", "run_series"]
    _, plan, repeats, timeout_s = house.bridge.asked[1]
    assert ([case.size for case in plan.cases], plan.gaps, repeats, timeout_s) == ([64, 256], True, 3, None)


def test_a_request_that_makes_no_plan_is_a_problem() -> None:
    house = House(request=PlanRequest(("matmul",), sizes="nonsense"))
    house.running.run()
    assert house.port.state.problem is not None
    assert house.port.threads == []


def test_a_row_is_run_alone_with_the_limit_of_its_run() -> None:
    house = House()
    house.advance(*events_of("one"))
    house.port.change(cursor=PLAN.cases[1].key)
    house.running.run_row()
    house.port.threads[-1][1]()
    _, plan, _, timeout_s = house.bridge.asked[-1]
    assert [case.size for case in plan.cases] == [256]
    assert timeout_s == 9.0
    assert house.port.state.parent is not None
    house.port.situate(live=False)
    assert house.repeating.return_to_parent()
    assert house.port.state.run.run.run_id == "one"
    assert not house.repeating.return_to_parent()


@pytest.mark.parametrize(
    ("situation", "problem", "said"), [(Situation(replay=True), True, 0), (Situation(replay=True, demo=True), False, 1)]
)
def test_neither_replay_nor_demo_measures(situation: Situation, problem: bool, said: int) -> None:
    house = House(situation=situation)
    house.running.start(REQUEST)
    house.running.measure()
    assert house.port.threads == []
    assert (house.port.state.problem is not None) is problem
    assert len(house.port.said) == 2 * said


def test_measuring_shows_the_machine_card() -> None:
    house = House()
    house.running.measure()
    assert house.port.state.calibrating
    assert isinstance(house.port.screen, MachineScreen)


def test_pause_and_resume_then_stop_and_stop_at_once() -> None:
    house = House(situation=Situation(live=True))
    house.running.pause()
    assert house.port.state.situation.paused
    house.running.pause()
    assert not house.port.state.situation.paused
    house.running.stop()
    assert house.port.state.situation.stopping
    house.running.stop()
    assert house.bridge.names == ["pause", "resume", "stop", "kill"]


# ------------------------------------------------------------------ what comes in


def test_events_are_folded_and_one_paint_is_let_through() -> None:
    house = House()
    house.bridge.repeat_number = 2
    house.advance(*events_of("one"))
    assert house.port.state.run.settled == 2
    assert house.port.state.situation.ran
    assert house.port.state.repeat_number == 2
    assert house.gate.held
    assert house.gate.passed == ["gap"]


@pytest.mark.parametrize(("demo", "rung"), [(False, 1), (True, 0)])
def test_a_long_run_rings_the_bell_but_no_demo(demo: bool, rung: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "BELL_S", -1.0)
    house = House(situation=Situation(live=True, demo=demo))
    house.live.end_series(SeriesEnded())
    assert house.port.rung == rung
    assert not house.port.state.situation.live


def test_in_a_long_operation_the_status_line_alone_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "LONG_STEP_S", 0.0)
    house = House()
    house.advance(*events_of("one")[:2])
    shown = house.port.shown
    house.bridge.events = (Progressed(case=PLAN.cases[0].key, device="cpu", phase="first call"),)
    house.live.tick()
    assert house.port.shown == shown
    assert house.port.main.asked == ["status"]
    assert house.gate.passed == ["gap", "tick"]
    assert house.port.state.run.current is not None


def test_an_agent_without_torch_is_a_problem_and_one_with_it_is_ready() -> None:
    house = House()
    house.live.meet_agent(AgentReported(Hello(protocol=PROTOCOL, environment={"torch_error": "No module"})))
    assert house.port.state.problem is not None
    house.live.meet_agent(AgentReported(Hello(protocol=PROTOCOL, environment=ENVIRONMENT)))
    assert house.port.state.problem is None
    assert house.port.state.agent_ready
    house.live.meet_agent(AgentReported(CpuGpuError("It has died.")))
    assert not house.port.state.agent_ready


def test_a_reading_is_shown() -> None:
    house = House()
    house.live.show_telemetry(TelemetryArrived(readings(gpus=2)))
    assert len(house.port.state.telemetry.latest.gpus) == 2


# ------------------------------------------------------------------ counts


def test_digits_make_a_count_and_a_third_begins_anew() -> None:
    house = House()
    for digit in (1, 2):
        house.repeating.count(digit)
    assert house.port.state.count == 12
    house.repeating.count(5)
    assert house.port.state.count == 5
    assert house.repeating.drop_count()
    assert not house.repeating.drop_count()


def test_the_second_run_of_a_plan_is_compared_with_the_first() -> None:
    house = House()
    for run_id in ("one", "two"):
        house.repeating.expect_runs(PLAN, None)
        house.advance(*events_of(run_id))
    changes = house.port.state.changes
    assert changes.run_id == "two"
    assert changes.base is not None


# ------------------------------------------------------------------ the end


class Ending:
    def __init__(self, busy: bool, **state: Any) -> None:
        self.port = FakePort(**state)
        self.busy = busy
        self.done: list[Any] = []
        self.leaving = Leaving(
            self.port, is_busy=lambda: self.busy, stop=lambda: self.done.append("stop"), leave=self.done.append,
            question=("Stop it?", "let it run"), grace_s=1.5,
        )  # fmt: skip


def test_where_nothing_runs_it_leaves_without_asking() -> None:
    ending = Ending(busy=False)
    ending.leaving.ask()
    assert ending.done == [0]


def test_where_something_runs_it_asks_stops_and_waits() -> None:
    ending = Ending(busy=True)
    ending.leaving.ask()
    assert isinstance(ending.port.screen, ConfirmScreen)
    decide = ending.port.callbacks[-1]
    assert decide is not None
    decide(False)
    assert ending.done == []
    decide(True)
    assert ending.done == ["stop"]
    assert ending.port.timers[0][0] == 1.5
    ending.leaving.go_if_asked()
    assert ending.done == ["stop", 0]


def test_a_signal_leaves_with_its_code_also_while_it_is_leaving() -> None:
    ending = Ending(busy=True)
    ending.leaving.leave()
    ending.leaving.leave()
    ending.leaving.leave(143)
    ending.leaving.go_if_asked()
    assert ending.done == ["stop", "stop", 143]


def test_a_demo_has_nothing_to_lose() -> None:
    ending = Ending(busy=True, situation=Situation(live=True, replay=True, demo=True))
    ending.leaving.ask()
    assert ending.done == ["stop"]
    assert len(ending.port.screen_stack) == 1
