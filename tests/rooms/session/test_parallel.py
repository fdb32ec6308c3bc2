"""An agent for each GPU at the same time: one stream, one table; a crash of one costs one case."""

from dataclasses import replace

import pytest
from tests.helpers.command_line import FAST, PATIENCE_S, agents_of, next_event
from tests.helpers.runs.recorder import QUICK, plan_of, swept
from tests.helpers.runs.scripted import HELLO, KILLED, ScriptedAgent, ScriptedAgents

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK, EXIT_UNFIT, EXIT_USAGE
from cpugpu_tui.model import (
    Case,
    CaseFailed,
    CaseFinished,
    CasesChosen,
    CaseStarted,
    Check,
    DeviceSampled,
    DevicesFound,
    Event,
    Gap,
    Progressed,
    RunFinished,
    RunStarted,
)
from cpugpu_tui.session.parallel import AgentGroup, Merge
from cpugpu_tui.session.session import Session
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.state.folding import folded

FIRST, SECOND = Case("matmul", 64).key, Case("matmul", 128).key
QUICK_3 = replace(QUICK, gpus=3)
RUN = ("run", "matmul", "--size", "64,128", "--parallel", "--no-save")


def found(gpu):
    plan = plan_of(simulation=QUICK_3, devices=(gpu,))
    return DevicesFound(devices=SimulatedMachine(plan).devices)


def merged(*messages, count=2):
    """Return the merged messages after every agent has reported its GPU."""
    merge = Merge(count)
    for index in range(count):
        merge.take(index, found(f"cuda:{index}"))
    return [told for index, message in messages for told in merge.take(index, message)]


# ------------------------------------------------------------------ one stream of several


def test_a_run_begins_when_every_agent_is_ready_and_every_gpu_known():
    merge = Merge(2)
    assert (merge.take(1, HELLO), merge.take(0, HELLO)) == ([], [HELLO])
    started = CaseStarted(case=FIRST)
    assert merge.take(1, found("cuda:1")) == []
    assert merge.take(1, started) == [], "nothing comes before the devices"
    devices, then = merge.take(0, found("cuda:0"))
    assert [device.name for device in devices.devices] == ["cuda:0", "cuda:1"]
    assert then == started


def test_a_case_begins_with_the_first_and_ends_with_the_last():
    """The start of the second agent must not void rounds of the first."""
    half = DeviceSampled(case=FIRST, device="cuda:0", round_index=1, calls_per_block=1, samples={"latency": (1.0,)})
    near, far = (CaseFinished(case=FIRST, check=Check("float64", error, 1e-3)) for error in (1e-6, 1e-4))
    told = merged((0, CaseStarted(case=FIRST)), (0, half), (1, CaseStarted(case=FIRST)), (0, far), (1, half), (1, near))
    assert told == [CaseStarted(case=FIRST), half, half, far]


def test_a_case_that_fails_on_one_gpu_has_failed_and_is_told_once():
    failed = CaseFailed(case=FIRST, kind="oom", message="Needs 18 GB.", device="cuda:1")
    also = CaseFailed(case=FIRST, kind="oom", message="Needs 18 GB.", device="cuda:0")
    half = DeviceSampled(case=FIRST, device="cuda:0", round_index=1, calls_per_block=1, samples={})
    assert merged((1, failed), (0, half), (0, also), (0, CaseFinished(case=FIRST))) == [failed]


def test_a_size_that_several_choose_is_one_row():
    chosen = CasesChosen(cases=(Case("matmul", 128),))
    assert merged((0, chosen), (0, CaseStarted(case=SECOND)), (1, chosen)) == [chosen, CaseStarted(case=SECOND)]


def test_the_time_that_is_left_is_the_slowest_ones():
    fast, slow = (Progressed(case=FIRST, device="", phase="gap", seconds_left=left) for left in (3.0, 9.0))
    told = merged((0, slow), (1, fast), (0, Gap(duration_ms=50.0)))
    assert [event.seconds_left for event in told if isinstance(event, Progressed)] == [9.0, 9.0]


def test_a_death_is_blamed_on_what_the_dead_one_was_at():
    mine = Progressed(case=FIRST, device="cuda:0", phase="round")
    other = Progressed(case=SECOND, device="cuda:1", phase="round")
    assert merged((0, mine), (1, other), (0, KILLED), (1, KILLED), (1, other)) == [mine, other, mine, KILLED]


def test_a_death_before_the_others_have_told_their_gpus_is_blamed_too():
    merge, mine = Merge(2), Progressed(case=FIRST, device="cuda:1", phase="first call")
    messages = (found("cuda:1"), CaseStarted(case=FIRST), mine, KILLED)
    told = [each for message in messages for each in merge.take(1, message)]
    assert told == [mine, KILLED]


def test_the_end_comes_with_the_last_and_says_if_one_was_stopped():
    done, stopped = RunFinished(status="done"), RunFinished(status="stopped", exit_code=130)
    assert merged((0, stopped), (0, KILLED), (1, done), (1, KILLED)) == [stopped]


def test_one_that_ends_early_leaves_the_word_to_the_one_still_at_work():
    """A case's time limit must apply to the agent that is silent."""
    hangs = Progressed(case=SECOND, device="cuda:1", phase="warm-up")
    ends = Progressed(case=FIRST, device="cuda:0", phase="round")
    assert merged((1, hangs), (0, ends), (0, RunFinished(status="done"))) == [hangs, ends, hangs]


def test_one_gpu_that_cannot_be_used_ends_the_run():
    failed = RunFinished(status="failed", message="There is no cuda:1.", exit_code=4)
    merge = Merge(2)
    merge.take(0, found("cuda:0"))
    assert merge.take(1, failed) == [failed]


# ------------------------------------------------------------------ a session with several agents


def runs_on(gpu):
    """Return an agent that runs the plan it gets on the simulated machine."""

    def script(plan):
        status, recorder = swept(plan)
        return [found(gpu), *recorder.events, RunFinished(status=status)]

    return ScriptedAgent(script)


def session_of(plan, agents):
    events: list[Event] = []
    finished = Session(plan, ScriptedAgents(*agents)).run(events.append)  # type: ignore[arg-type]
    return finished, folded(events)


def parallel_plan(*sizes):
    return plan_of(*sizes, simulation=QUICK_3, devices=("cuda:0", "cuda:1"), parallel=True)


def test_each_agent_gets_one_gpu_and_noise_of_its_own():
    agents = [runs_on("cuda:0"), runs_on("cuda:1")]
    finished, state = session_of(parallel_plan(64, 128), agents)
    assert (finished.status, finished.exit_code) == ("done", EXIT_OK)
    plans = [agent.plan for agent in agents]
    assert [plan.devices for plan in plans if plan] == [("cuda:0",), ("cuda:1",)]
    assert len({plan.simulation for plan in plans if plan}) == 2
    for row in state.rows.values():
        assert (row.status, sorted(row.gpus)) == ("ok", ["cuda:0", "cuda:1"])
        assert row.times["cuda:0"].latency_ns != row.times["cuda:1"].latency_ns


def test_a_dead_agent_costs_its_case_and_the_others_begin_again():
    at = Progressed(case=FIRST, device="cuda:1", phase="warm-up")
    dies = ScriptedAgent(lambda plan: [found("cuda:1"), CaseStarted(case=FIRST), at, KILLED])
    waits = ScriptedAgent(lambda plan: [found("cuda:0"), CaseStarted(case=FIRST)])
    finished, state = session_of(parallel_plan(64, 128), [waits, dies, runs_on("cuda:0"), runs_on("cuda:1")])
    assert waits.ended, "nobody times on beside an agent that is gone"
    assert finished.exit_code == EXIT_CASES_FAILED
    assert [row.status for row in state.rows.values()] == ["crashed", "ok"]
    failure = state.rows[FIRST].failure
    assert failure.device == "cuda:1"


def test_commands_and_the_end_reach_every_agent():
    agents = [ScriptedAgent(lambda plan: []), ScriptedAgent(lambda plan: [])]
    group = AgentGroup(agents, ("cuda:0", "cuda:1"))
    group.command("stop")
    group.end(at_once=True)
    assert [agent.commands for agent in agents] == [["stop"], ["stop"]]
    assert [agent.ended for agent in agents] == [[True], [True]]
    assert group.messages.get(timeout=PATIENCE_S) == HELLO


# ------------------------------------------------------------------ as a person calls it


def test_a_parallel_run_says_what_its_gpus_share_and_keeps_it_in_the_record(cpugpu, words):
    done = cpugpu("run", "matmul", "--size", "64,128", "--parallel", "--simulate", f"{FAST},gpus=3")
    assert (done.code, done.err) == (EXIT_OK, "")
    shared, command = (
        next(line for line in done.out.splitlines() if part in line) for part in ("3 GPUs", "--parallel")
    )
    words((shared, command))
    assert shared in cpugpu("show", "latest").out
    (started,) = (event for event in cpugpu("show", "latest", "--json").events if isinstance(event, RunStarted))
    assert (started.plan.parallel, started.plan.devices) == (True, ("cuda:0", "cuda:1", "cuda:2"))


def test_agents_are_at_work_together_and_gone_afterwards(cpugpu):
    laws = f"{FAST},gpus=3,pace=5"  # slow enough that none is done before the others begin, however busy the machine
    process = cpugpu.start("run", "matmul", "--size", "64,128", "--parallel", "--no-save", "--json", "--simulate", laws)
    try:
        next_event(process, lambda event: isinstance(event, DeviceSampled))
        assert len(agents_of(process)) == 3
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 143


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--simulate", "gpus=1"), EXIT_UNFIT),
        (("--simulate", "gpus=0"), EXIT_UNFIT),
        (("--simulate", "gpus=2", "--device", "cpu"), EXIT_USAGE),
        (("--simulate", "gpus=2", "--worker", "thread"), EXIT_USAGE),
    ],
    ids=["one GPU", "no GPU", "the CPU", "threads"],
)
def test_what_cannot_be_run_at_the_same_time_is_refused_with_a_remedy(cpugpu, words, arguments, code):
    done = cpugpu(*RUN, *arguments, code=code)
    words(done.err)
    assert done.out == ""


def test_copies_between_gpus_need_one_agent(cpugpu, words):
    done = cpugpu("run", "transfer", "--size", "4096", "--variant", "d2d", "--parallel", "--no-save",
                  "--simulate", f"{FAST},gpus=2")  # fmt: skip
    words([line for line in done.out.splitlines() if "--parallel" in line and "Again" not in line])
