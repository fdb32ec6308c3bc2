"""Protocol of one case: announcements, end of warm-up, size of rounds, invalid samples."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.helpers.runs.recorder import Call, Flush, Recorder, SpiedMachine, plan_of, state_of, swept

from cpugpu_tui import model
from cpugpu_tui.errors import EXIT_CASES_FAILED
from cpugpu_tui.session.request import out_of_time
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.timing.case_run import CaseRun
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.timers import CaseError, Stopped
from cpugpu_tui.timing.warm_up import BLOCK_NS, FIRST_WARMUP_NS, WARMUP_NS

LONG = model.Simulation(cpu_overhead_ns=9e9, launch_ns=1e5, first_call_ns=0.0, noise=0.0)
"""A CPU call of nine seconds, beyond the budget of five."""


# ------------------------------------------------------------------ samples of a half-round


# ------------------------------------------------------------------ warm-up


def warm_up_blocks(recorder, case):
    """Return the number of blocks in the CPU's warm-up of a case."""
    said = next(e for e in recorder.of(model.Progressed) if (e.case, e.device, e.phase) == (case, "cpu", "warm-up"))
    over = next(e for e in recorder.of(model.Calibrated) if (e.case, e.device) == (case, "cpu"))
    between = recorder.log[recorder.log.index(said) : recorder.log.index(over)]
    return sum(isinstance(entry, Call) for entry in between)


def test_a_device_warms_up_longer_at_its_first_case():
    """250 ms have 125 blocks of 2 ms. A window of five blocks with one call each comes before."""
    plan = plan_of(64, 128)
    recorder = swept(plan)[1]
    for case, least_ns in zip(plan.cases, (FIRST_WARMUP_NS, WARMUP_NS), strict=True):
        assert least_ns / BLOCK_NS <= warm_up_blocks(recorder, case.key) <= least_ns / BLOCK_NS + 10


# ------------------------------------------------------------------ order and announcements


def test_every_step_is_announced_and_written_out_before_it_can_kill():
    """Each announcement is flushed before its step begins, so that a step that kills the process is known."""
    log = swept(plan_of(64))[1].log
    phases = {"first call": ("first call",), "block": ("warm-up", "round"), "device": ("round",)}
    for index, entry in enumerate(log):
        if isinstance(entry, Call):
            said = next(i for i in range(index, -1, -1) if isinstance(log[i], model.Progressed))
            announcement = log[said]
            assert announcement.phase in phases[entry.what]
            assert announcement.device == entry.device
            assert log[said + 1] == Flush()


def test_a_case_goes_its_way_in_order():
    recorder = swept(plan_of(64, metrics=model.METRICS))[1]
    steps = [
        (type(e).__name__, getattr(e, "phase", ""), getattr(e, "device", ""))
        for e in recorder.events
        if not (isinstance(e, model.DeviceSampled) and e.round_index > 0)
    ]
    assert list(dict.fromkeys(steps)) == [
        ("CaseStarted", "", ""),
        ("Progressed", "inputs", "cpu"), ("ClockChecked", "", "cuda:0"),
        ("Progressed", "first call", "cpu"), ("TensorsPlaced", "", "cpu"), ("DeviceSampled", "", "cpu"),
        ("Progressed", "first call", "cuda:0"), ("MachineRead", "", "cuda:0"),
        ("TensorsPlaced", "", "cuda:0"), ("DeviceSampled", "", "cuda:0"),
        ("Progressed", "check", "cpu"),
        ("Progressed", "warm-up", "cpu"), ("Calibrated", "", "cpu"),
        ("Progressed", "warm-up", "cuda:0"), ("Calibrated", "", "cuda:0"),
        ("Progressed", "round", "cpu"), ("Progressed", "round", "cuda:0"),
        ("CaseFinished", "", ""),
        ("Progressed", "kernels", "cuda:0"), ("KernelsProfiled", "", "cuda:0"),
    ]  # fmt: skip


def test_before_each_half_round_one_block_is_thrown_away():
    recorder = swept(plan_of(64, max_rounds=8))[1]
    calibrated = max(recorder.log.index(event) for event in recorder.of(model.Calibrated))
    blocks = [entry for entry in recorder.log[calibrated:] if isinstance(entry, Call) and entry.what == "block"]
    shown = sum(len(event.samples[model.LATENCY]) for event in recorder.rounds)
    assert shown == 2 * 8 * 5
    assert len(blocks) == shown + len(recorder.rounds)


def test_clocks_of_a_half_round_enclose_it():
    for event in swept(plan_of(64))[1].of(model.DeviceSampled):
        assert 0 < event.started_mono_ns <= event.ended_mono_ns <= event.mono_ns
        assert 0 < event.started_wall_ns <= event.ended_wall_ns <= event.wall_ns


def test_a_call_beyond_the_budget_is_timed_once_and_says_so():
    plan = plan_of(64, simulation=LONG)
    recorder = swept(plan)[1]
    (cpu, gpu) = recorder.of(model.Calibrated)
    assert (cpu.calls_per_block, cpu.blocks, cpu.rounds) == (1, 1, 1)
    assert gpu.rounds == 8
    calls = [entry for entry in recorder.log if isinstance(entry, Call) and entry.device == "cpu"]
    assert [call.what for call in calls] == ["first call", "block"], (
        "a first call may be cold, the second is the sample"
    )
    row = next(iter(state_of(plan, recorder).rows.values()))
    assert row.cpu.timed_once
    assert row.cpu.latency_ns == pytest.approx(9e9, rel=0.01)


def test_an_exact_number_of_rounds_holds_for_a_call_beyond_the_budget():
    """A Jacobian of 10 s had one round whatever `--rounds` said, and so never a winner."""
    plan = plan_of(64, simulation=LONG, rounds=6, max_rounds=6, has_exact_rounds=True)
    row = next(iter(state_of(plan, swept(plan)[1]).rows.values()))
    assert [len(row.times[device].round_ns) for device in ("cpu", "cuda:0")] == [6, 6]
    assert not row.cpu.timed_once
    assert {model.THROUGHPUT, model.DEVICE}.isdisjoint(row.cpu.samples), "each takes as long again"


# ------------------------------------------------------------------ void samples, failures


def test_a_half_round_that_was_suspended_is_taken_again():
    """The clock keeps running during a suspension (ctrl+z, fg)."""
    control = Control()
    plan, recorder = plan_of(64), Recorder()
    machine = SpiedMachine(plan, recorder)
    case_run = CaseRun(plan.cases[0], plan, machine, recorder, control)
    case_run.begin(check=True, warmed=set())
    gpu, blocks = machine.timer("cuda:0"), iter(range(10_000))
    honest = gpu.latency_block

    def suspended_once(op, calls):
        elapsed_ns = honest(op, calls)
        if next(blocks) == 3:
            control.was_suspended = True
            return 1e12
        return elapsed_ns

    gpu.latency_block = suspended_once  # type: ignore[method-assign]
    for _ in case_run.half_rounds():
        pass
    assert [event.device for event in recorder.rounds] == ["cpu", "cuda:0"]
    assert max(recorder.rounds[1].samples[model.LATENCY]) < 1e9


def test_tensors_are_let_go_when_a_case_is_over():
    plan, recorder = plan_of(64), Recorder()
    case_run = CaseRun(plan.cases[0], plan, SpiedMachine(plan, recorder), recorder, Control())
    case_run.begin(check=False, warmed=set())
    assert len(case_run.runs) == 2
    while not case_run.done:
        for _ in case_run.half_rounds():
            pass
    case_run.finish()
    assert [run.operation for run in case_run.runs] == [None, None]
    assert recorder.of(model.CaseFinished)[0].check is None


@pytest.mark.parametrize(
    ("step", "device"),
    [("load", "cuda:0"), ("first_call", "cuda:0"), ("latency_block", "cuda:0"), ("device_samples", "cpu")],
)
def test_a_failure_names_the_device_that_was_at_work(step, device):
    plan, recorder = plan_of(64), Recorder()
    machine = SpiedMachine(plan, recorder)

    def fail(*arguments):
        raise CaseError("error", "Broke.")

    setattr(machine.timer(device), step, fail)
    case_run = CaseRun(plan.cases[0], plan, machine, recorder, Control())

    def run():
        case_run.begin(check=True, warmed=set())
        for _ in case_run.half_rounds():
            pass

    with pytest.raises(CaseError):
        run()
    assert case_run.device == device


# ------------------------------------------------------------------ the end of the time


def test_no_step_begins_after_the_end_of_the_time():
    """Own code of seconds was called seven more times after --max-seconds, which was looked at after the warm-up."""
    recorder, plan = Recorder(), plan_of(64)
    case_run = CaseRun(
        plan.cases[0], plan, SpiedMachine(plan, recorder), recorder, Control(),
        lambda: any(event.phase == "first call" for event in recorder.of(model.Progressed)),
    )  # fmt: skip
    with pytest.raises(Stopped):
        case_run.begin(check=True, warmed=set())
    assert [event.phase for event in recorder.of(model.Progressed)][-1] == "first call"


def test_a_limit_without_a_result_names_the_time_that_was_missing(words):
    plan, done = replace(plan_of(64), max_seconds=5.0), model.RunFinished(status="done")
    calibrated = model.Calibrated(
        case="c", device="cpu", estimate_ns=1.5e9, calls_per_block=1, blocks=3, rounds=1, threads=1
    )
    endless = model.CaseFailed(
        case="c", kind="skipped", message="", remedy="Allow several times as long.", device="cpu"
    )
    for times, failure in (
        (DeviceTimes("cpu", calibrated), None),
        (DeviceTimes("cpu", samples={model.COLD_START: (2e9,)}), None),
        (DeviceTimes("cpu"), None),
        (DeviceTimes("cpu"), endless),  # 5 s were advised for code that slept for 30
    ):
        row = SimpleNamespace(times={"cpu": times}, failure=failure, status="skipped")
        state: Any = SimpleNamespace(rows={"c": row}, devices=("cpu",))
        ended = out_of_time(plan, done, state)
        assert ended.exit_code == EXIT_CASES_FAILED
        words(f"{ended.message} {ended.remedy}")
