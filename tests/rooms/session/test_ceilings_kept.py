"""Peak rates of a calibration are saved for later runs on the same machine and torch build; saved runs replay."""

from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.runs.recorder import plan_of
from tests.helpers.runs.scripted import HELLO, ListStore, ScriptedAgent, session_of, three_cases, well

from cpugpu_tui import model
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine

CEILINGS = model.Ceilings(
    "cpu", "simulated CPU", None, "node1", "2.11", 7, 2, {"float32": 5e11}, {"float32": 2048}, 2e10, 1 << 30, 1e3,
    simulated=True,
)  # fmt: skip
NODE1 = replace(HELLO, environment={**HELLO.environment, "hostname": "node1", "torch": "2.11"})
CALIBRATION = model.Plan("machine", (), calibrate=True, simulation=model.Simulation())


def on_node1(script=well):
    return ScriptedAgent(script, greeting=(NODE1,))


def calibrating(plan):
    """Messages of an agent that measures one device."""
    devices = SimulatedMachine(plan).devices
    step = model.Progressed(case="", device="cpu", phase="calibration", note="float32 matmul 512")
    return [
        model.DevicesFound(devices=devices),
        step,
        model.CeilingsMeasured(ceilings=CEILINGS),
        model.RunFinished(status="done"),
    ]


def run(plan, agent, store=None):
    session, _ = session_of(plan, agent, store=store)
    delivered: list[model.Event] = []
    session.run(delivered.append)
    assert session.saver.unsaved is None or not session.saver.unsaved
    return delivered


# ------------------------------------------------------------------ kept


def test_a_calibration_keeps_its_ceilings_and_does_not_appear_in_the_history(store):
    events = run(CALIBRATION, on_node1(calibrating), store)
    assert [type(event).__name__ for event in events] == [
        "RunStarted", "DevicesFound", "Progressed", "CeilingsMeasured", "RunFinished",
    ]  # fmt: skip
    assert (store.ceilings("node1", "2.11"), store.runs()) == ((CEILINGS,), [])


def test_ceilings_are_kept_before_they_are_shown():
    log: list[Any] = []
    session, _ = session_of(CALIBRATION, on_node1(calibrating), store=ListStore(log))
    session.run(log.append)
    shown = next(index for index, entry in enumerate(log) if isinstance(entry, model.CeilingsMeasured))
    assert log[shown - 1] == ("saved", "ceilings", CEILINGS)


def test_what_was_measured_before_an_agent_died_is_kept(store):
    session, _ = session_of(
        CALIBRATION,
        on_node1(lambda plan: [*calibrating(plan)[:-1], model.RunFinished(status="stopped", exit_code=130)]),
        store=store,
    )
    assert session.run(lambda _: None).exit_code == 130
    assert store.ceilings() == (CEILINGS,)


# ------------------------------------------------------------------ handed over


def test_a_run_is_told_what_this_machine_reached_and_so_is_its_agent(store):
    store.keep_ceilings(CEILINGS)
    agent = on_node1()
    events = run(three_cases(), agent, store)
    assert events[0].plan.ceilings == (CEILINGS,)
    assert agent.plan.ceilings == (CEILINGS,)
    assert store.load(store.find("latest"))[0] == events[0]


@pytest.mark.parametrize(
    "other", [{"hostname": "node2"}, {"torch": "2.13"}, {"simulated": False}], ids=lambda other: str(*other)
)
def test_what_another_machine_build_or_reality_reached_is_not(store, other):
    store.keep_ceilings(replace(CEILINGS, **other))
    events = run(three_cases(), on_node1(), store)
    assert events[0].plan.ceilings == ()


def test_without_a_store_there_are_none():
    agent = on_node1()
    run(three_cases(), agent)
    assert agent.plan.ceilings == ()


def test_the_check_of_a_clock_is_kept_with_the_peak_rates_of_its_gpu_and_handed_to_the_next_agent(store):
    gpu = replace(CEILINGS, device="cuda:0", uuid="GPU-SIM0", driver="580")
    store.keep_ceilings(gpu)
    store.keep_ceilings(replace(gpu, uuid="GPU-SIM1", device="cuda:1"))
    clock = model.EventClock(pair_ns=1250.0, step_ns=32.0, uuid="GPU-SIM0", driver="580", torch="2.11", boot_id="boot")

    def checked(plan):
        told = model.ClockChecked(device="cuda:0", clock=clock)
        return [told if isinstance(message, model.ClockChecked) else message for message in well(plan)]

    node1 = replace(NODE1, environment={**NODE1.environment, "driver": "580"})
    agents = [ScriptedAgent(script, greeting=(node1,)) for script in (checked, well)]
    for agent in agents:
        run(three_cases(), agent, store)
    plan = agents[1].plan
    assert {each.device: each.clock for each in plan.ceilings} == {"cuda:0": clock, "cuda:1": None}
    first = store.load(store.runs()[-1].run_id)
    assert [event.clock for event in first if isinstance(event, model.ClockChecked)] == [clock]


# ------------------------------------------------------------------ a stored run replays


def test_every_field_of_the_newer_events_comes_back(store):
    plan = plan_of(64)
    (case,) = (case.key for case in plan.cases)
    epoch = model.EpochFinished(
        case=case, device="cpu", epoch=1, epochs=10, loss=0.4, accuracy=0.91, elapsed_ns=1.5e9, steps=1875
    )

    def script(_):
        return [
            model.DevicesFound(devices=SimulatedMachine(plan).devices),
            model.CaseStarted(case=case, flops=2.0 * 64**3, bytes_moved=49152.0, operations=100),
            epoch,
            replace(epoch, epoch=2, accuracy=None),
            model.Calibrated(
                case=case, device="cpu", estimate_ns=1e3, calls_per_block=9, blocks=5, rounds=8, threads=2,
                max_rounds=40,
            ),
            model.DeviceSampled(
                case=case, device="cpu", round_index=1, calls_per_block=9, samples={"latency": (1e3,)},
                sm_clock_mhz=1980.0,
            ),
            model.CaseFinished(case=case),
            model.KernelsProfiled(case=case, device="cuda:0", count=3, elapsed_ns=4e4),
            model.RunFinished(status="done"),
        ]  # fmt: skip

    delivered = run(plan, on_node1(script), store)
    assert store.load(store.find("latest")) == delivered
