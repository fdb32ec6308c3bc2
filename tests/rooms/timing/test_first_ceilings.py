"""Calibration after a machine's first run: once, within its time limit, and without affecting results."""

import time
from dataclasses import replace

import pytest
from tests.helpers.command_line import FAST
from tests.helpers.runs.recorder import Recorder, plan_of
from tests.helpers.runs.scripted import HELLO, KILLED, ScriptedAgent, session_of, three_cases, well

from cpugpu_tui import model
from cpugpu_tui.agent.main import facts, work
from cpugpu_tui.machine.cores import Waited
from cpugpu_tui.render.sentences import notes
from cpugpu_tui.session.session import CEILINGS_S
from cpugpu_tui.simulation.laws import PlantedWatch, SimulatedGauge
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.state.state import RunState
from cpugpu_tui.timing import calibrate
from cpugpu_tui.timing import calibrate as calibration
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.host_watch import Disturbance

CPU = model.Ceilings(
    "cpu", "simulated CPU", None, "node1", "2.11", 7, 2, {"float32": 5e11}, {"float32": 2048}, 2e10, 1 << 30, 1e3,
    simulated=True,
)  # fmt: skip
GPU = replace(CPU, device="cuda:0", label="simulated GPU", uuid="GPU-SIM0", driver="580.1")
FIRST = replace(plan_of(64, 128), ceilings_s=3.0)


def worked(plan, control=None):
    recorder = Recorder()
    work(plan, facts(simulated=True), recorder, control or Control())
    return recorder


def measured(recorder):
    return [event.ceilings.device for event in recorder.of(model.CeilingsMeasured)]


def end(recorder):
    (finished,) = recorder.of(model.RunFinished)
    return finished.status, finished.exit_code, finished.message


# ------------------------------------------------------------------ the agent


def test_after_the_last_case_the_missing_devices_are_measured_and_marked_quick(words):
    recorder = worked(FIRST)
    assert measured(recorder) == ["cpu", "cuda:0"]
    assert all(event.ceilings.quick for event in recorder.of(model.CeilingsMeasured))
    kinds = [type(event) for event in recorder.events]
    assert kinds.index(model.CeilingsMeasured) > max(i for i, kind in enumerate(kinds) if kind is model.CaseFinished)
    assert end(recorder) == ("done", 0, "")
    (note,) = {event.note for event in recorder.of(model.Progressed) if event.phase == model.CALIBRATION}
    words(note)


def test_what_is_known_is_not_measured_again():
    label = SimulatedMachine(FIRST).devices[0].label
    assert measured(worked(replace(FIRST, ceilings=(replace(CPU, label=label),)))) == ["cuda:0"]
    assert measured(worked(replace(FIRST, ceilings_s=None))) == []


def test_a_run_that_is_stopped_or_out_of_time_measures_nothing():
    control = Control()
    control.obey("stop")
    assert measured(worked(FIRST, control)) == []
    assert measured(worked(replace(FIRST, max_seconds=1e-6))) == []


@pytest.mark.parametrize("failing", ["gauge", "copy_ns", "release"])
def test_a_device_that_fails_costs_no_result_and_is_a_sentence(monkeypatch, failing, words):
    def lost(*_):
        raise RuntimeError("CUDA error: device lost\nmore")

    monkeypatch.setattr(SimulatedMachine if failing == "gauge" else SimulatedGauge, failing, lost)
    recorder = worked(FIRST)
    status, code, message = end(recorder)
    assert (status, code) == ("done", 0)
    words(message)
    assert len(recorder.of(model.CaseFinished)) == 2


def test_rates_that_other_work_took_part_of_are_not_kept(monkeypatch, words):
    monkeypatch.setattr(PlantedWatch, "end", lambda _: Disturbance((), Waited(0.6, 1.0, 0.6)))
    monkeypatch.setattr(calibrate, "STARVED_TRIES", 1)
    recorder = Recorder()
    machine = SimulatedMachine(FIRST)
    error = calibrate.first_ceilings(FIRST, machine, {}, recorder, Control(), None)
    assert error is not None
    words(str(error))
    assert measured(recorder) == []


def test_a_run_that_is_done_does_not_give_its_status_as_the_cause_of_a_warning():
    done = model.RunFinished(status="done", message="Peak rates were not measured.", remedy="Run again.")
    (said,) = [line for line in notes(RunState().apply(done)) if "Peak" in line]
    assert said == "Peak rates were not measured. Run again."


class SlowGauge(SimulatedGauge):
    """A device on which every step takes `step_s` on a fake clock."""

    dtypes = ("float32", "float64")

    def __init__(self, clock, step_s):
        super().__init__(model.Device("cuda:0", "slow", "GPU-1"), model.Simulation())
        self._clock, self._step_s = clock, step_s

    def matmul_ns(self, dtype, n):
        self._clock[0] += self._step_s * (n / 256) ** 3
        return super().matmul_ns(dtype, n)

    def copy_ns(self, size_bytes):
        self._clock[0] += self._step_s
        return super().copy_ns(size_bytes)

    def transfer_ns(self, direction, size_bytes):
        self._clock[0] += self._step_s / 6
        return super().transfer_ns(direction, size_bytes)


@pytest.mark.parametrize("step_s", [1e-3, 0.01, 0.1, 0.3, 0.6])
def test_however_slow_the_device_is_a_quick_measurement_keeps_to_its_time(monkeypatch, step_s):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    effort = calibration.quick(("float32", "float64"), calibrate.STEPS_SHARE * 3.0, is_cpu=False)
    found = calibration.measure(SlowGauge(clock, step_s), {}, Recorder(), Control(), effort)
    assert found.flops["float32"] > 0
    assert clock[0] <= 3.0


# ------------------------------------------------------------------ the session


def first_session(*agents, store=None, **more):
    session, scripted = session_of(three_cases(), *agents, store=store, **more)
    events: list[model.Event] = []
    return session.run(events.append), events, scripted


def dying(plan):
    """All cases succeed, then the agent dies in the calibration."""
    step = model.Progressed(case="", device="cuda:0", phase=model.CALIBRATION)
    return [*well(plan)[:-1], step, KILLED]


def test_an_agent_is_asked_only_where_the_history_keeps_what_it_finds(store):
    for given, asked in (
        ({"store": store, "ceilings": True}, CEILINGS_S), ({"store": store}, None), ({"ceilings": True}, None),
    ):  # fmt: skip
        agent = ScriptedAgent(well)
        _, events, _ = first_session(agent, **given)
        assert agent.plan.ceilings_s == asked
        assert events[0].plan.ceilings_s is None, "what is saved with the run is the same work as before"


def test_an_agent_that_dies_then_costs_no_result_and_no_second_agent(store):
    finished, events, agents = first_session(dying, store=store, ceilings=True)
    assert (finished.status, finished.exit_code, agents.taken) == ("done", 0, 1)
    assert "agent" in finished.message
    assert len([event for event in events if isinstance(event, model.CaseFinished)]) == 3


def test_they_are_kept_for_later_runs_and_with_the_run_itself(store):
    hello = replace(HELLO, environment={**HELLO.environment, "hostname": "node1", "torch": "2.11"})

    def script(plan):
        step = model.Progressed(case="", device="cpu", phase=model.CALIBRATION)
        return [
            *well(plan)[:-1],
            step,
            model.CeilingsMeasured(ceilings=replace(CPU, quick=True)),
            model.RunFinished(status="done"),
        ]

    first_session(ScriptedAgent(script, greeting=(hello,)), store=store, ceilings=True)
    assert store.ceilings("node1", "2.11") == (replace(CPU, quick=True),)
    loaded = store.load(store.find("latest"))
    assert [event for event in loaded if isinstance(event, model.CeilingsMeasured)]
    _, again, _ = first_session(ScriptedAgent(well, greeting=(hello,)), store=store, ceilings=True)
    assert again[0].plan.ceilings == (replace(CPU, quick=True),)


# ------------------------------------------------------------------ the history


# ------------------------------------------------------------------ the command


def limits(out):
    """Rows of the table that name a limit."""
    rows = [line.split() for line in out.splitlines()]
    return [row[0] for row in rows if row and row[0] in ("64", "2048", "2,048") and {"compute", "launch"} & {*row}]


def test_the_first_run_fills_its_own_table_and_the_second_measures_nothing(cpugpu):
    def kinds(done):
        return [type(event).__name__ for event in done.events]

    run = ("run", "--simulate", FAST, "matmul", "--size", "64,2048")
    assert limits(cpugpu(*run, "--no-ceilings").out) == []
    assert "CeilingsMeasured" not in kinds(cpugpu(*run, "--json", CPUGPU_CEILINGS="0"))
    assert limits(cpugpu(*run).out) != []
    assert "CeilingsMeasured" not in kinds(cpugpu(*run, "--json"))
    assert limits(cpugpu("show", "3").out) != []
