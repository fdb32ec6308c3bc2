"""Half-rounds whose threads waited for a core are repeated, then marked; one thread is timed in addition."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from tests.helpers.runs.recorder import QUICK, Recorder, SpiedMachine, plan_of, swept

from cpugpu_tui import model
from cpugpu_tui.machine.cores import Waited
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.host_watch import REPEATS, Disturbance
from cpugpu_tui.timing.scheduler import Scheduler

ALWAYS = replace(QUICK, starved_share=0.4)


def lacks(recorder):
    """Return (case, device) → reported waiting of its threads."""
    reads = [event for event in recorder.of(model.MachineRead) if event.edge == model.CORES]
    return {(event.case, event.device): event.cores for event in reads if event.cores is not None}


def test_a_quiet_machine_repeats_nothing_and_says_nothing():
    recorder = swept(plan_of(64))[1]
    assert lacks(recorder) == {}
    assert not any(model.NO_CORE in event.marks for event in recorder.rounds)


@pytest.mark.parametrize("tries", range(1, REPEATS + 1))
def test_a_half_round_that_had_a_core_when_repeated_is_as_good_as_any(tries):
    plan = plan_of(64, simulation=replace(ALWAYS, starved_tries=tries))
    recorder = swept(plan)[1]
    (told,) = lacks(recorder).values()
    assert [(each.round_index, round(each.waited_share, 2)) for each in told.discarded] == [(1, 0.4)] * tries
    assert all(each.samples[model.LATENCY] for each in told.discarded), "they stay recorded"
    assert told.one_thread_ns == ()
    assert not any(model.NO_CORE in event.marks for event in recorder.rounds)
    cpu = [event for event in recorder.rounds if event.device == "cpu"]
    assert [event.round_index for event in cpu] == list(range(1, len(cpu) + 1)), "each round once"
    quiet = [event for event in swept(plan_of(64))[1].rounds if event.device == "cpu"]
    slowest_ns = max(max(event.samples[model.LATENCY]) for event in cpu)
    assert slowest_ns < 1.2 * max(max(event.samples[model.LATENCY]) for event in quiet), "no starved block among them"


def test_what_stays_starved_is_marked_and_one_thread_is_timed_beside():
    recorder = swept(plan_of(64, simulation=ALWAYS))[1]
    ((key, told),) = lacks(recorder).items()
    assert key[1] == "cpu"
    assert len(told.discarded) == REPEATS, "those of the first round: after that repeating would be in vain"
    assert (told.threads, told.cores, round(told.share, 2)) == (2, 2, 0.4)
    assert told.one_thread_share == 0.0
    starved_ns = min(min(event.samples[model.LATENCY]) for event in recorder.rounds if event.device == "cpu")
    assert 0 < max(told.one_thread_ns) < 0.8 * starved_ns
    assert [user.command for user in told.use.others] == ["simulated-neighbour"]
    marked = {event.device for event in recorder.rounds if model.NO_CORE in event.marks}
    assert marked == {"cpu"}
    assert not any("not-converged" in event.marks for event in recorder.rounds)


def test_a_little_waiting_that_stays_is_kept_as_a_result_and_repeated_in_one_round_only():
    recorder = swept(plan_of(64, simulation=replace(QUICK, starved_share=0.05)))[1]
    (told,) = lacks(recorder).values()
    assert [each.round_index for each in told.discarded] == [1] * REPEATS
    assert told.one_thread_ns == ()
    assert not any(model.NO_CORE in event.marks for event in recorder.rounds)


def test_every_repetition_is_announced_and_can_be_stopped():
    """A stop at the first repetition ends the run there, and the case has no result."""

    class Stopping(Recorder):
        def __call__(self, event):
            super().__call__(event)
            rounds = [e for e in self.of(model.Progressed) if e.phase == "round"]
            if len(rounds) == 2:
                control.obey("stop")

    control, recorder = Control(), Stopping()
    plan = plan_of(64, simulation=ALWAYS)
    assert Scheduler(plan, SpiedMachine(plan, recorder), recorder, control).run() == "stopped"
    assert len([e for e in recorder.of(model.Progressed) if e.phase == "round"]) == 2
    assert recorder.rounds == []


def test_only_the_starved_case_is_told_apart():
    plan = plan_of(64, 128, simulation=replace(ALWAYS, starved_size=64))
    recorder = swept(plan)[1]
    assert {case for case, _ in lacks(recorder)} == {plan.cases[0].key}
    assert [event.case for event in recorder.of(model.CaseFinished)] != []
    assert {event.case for event in recorder.rounds if model.NO_CORE in event.marks} == {plan.cases[0].key}


class LaunchersLack:
    """A watch that reports a waiting launching thread in half-rounds of the GPU."""

    cores = 2

    def __init__(self, honest):
        self._honest = honest
        self._is_gpu = False

    def begin(self, device):
        self._is_gpu = not device.is_cpu

    def end(self):
        return Disturbance((), Waited(5.0 if self._is_gpu else 0.0, 10.0))

    def __getattr__(self, name):
        return getattr(self._honest, name)


def test_a_launching_thread_without_a_core_spoils_the_gpus_times():
    plan, recorder = plan_of(64), Recorder()
    machine = SpiedMachine(plan, recorder)
    machine.watch = LaunchersLack(machine.watch)
    Scheduler(plan, machine, recorder, Control()).run()
    ((key, told),) = lacks(recorder).items()
    assert key[1] == "cuda:0"
    assert (told.threads, told.one_thread_ns) == (1, ())
    assert {event.device for event in recorder.rounds if model.NO_CORE in event.marks} == {"cuda:0"}


def test_whoever_reads_an_announcement_has_a_core_before_a_device_is_timed():
    """The controller woke up as all threads began, so an idle machine repeated one half-round in twelve.

    On a server with 16 cores it took the core of the thread that launches, in every second half-round of the GPU.
    """
    plan, recorder = plan_of(64), Recorder()
    machine = SpiedMachine(plan, recorder)
    honest, order = machine.watch, [""]

    class Ordered:
        cores = 2

        def await_reader(self):
            order.append("await reader")

        def begin(self, device):
            order.append("begin cpu" if device.is_cpu else "begin gpu")
            honest.begin(device)

        def __getattr__(self, name):
            return getattr(honest, name)

    def flush():
        order.append("flush")

    machine.watch, recorder.flush = Ordered(), flush  # type: ignore[method-assign]
    Scheduler(plan, machine, recorder, Control()).run()
    for begin in ("begin cpu", "begin gpu"):
        told = [before for before, now in pairwise(order) if now == begin and before != begin]
        assert len(told) > 8, "first call, warm-up, half-rounds"
        assert set(told) == {"await reader"}
    assert {before for before, now in pairwise(order) if now == "await reader"} == {"flush"}


def test_blocks_that_were_sized_without_a_core_are_sized_again():
    """The other process ends after the warm-up; blocks with too few calls are then discarded."""
    plan, recorder = plan_of(64), Recorder()
    machine = SpiedMachine(plan, recorder)
    timer: Any = machine.timer("cpu")
    honest, slow = timer.latency_block, [True]

    class Warming:
        """A watch that reports starvation until the first half-round begins."""

        cores = 2

        def begin(self, device):
            self.is_cpu = device.is_cpu

        def end(self):
            return Disturbance((), Waited(9.0 if slow[0] and self.is_cpu else 0.0, 10.0))

        def __getattr__(self, name):
            return getattr(machine.planted, name)

    def block(op, calls):
        return float(honest(op, calls)) * (100 if slow[0] else 1)

    timer.latency_block, machine.watch = block, Warming()
    half_round = machine.planted.half_round

    def begins(case):
        slow[0] = False
        half_round(case)

    machine.planted.half_round = begins  # type: ignore[method-assign]
    Scheduler(plan, machine, recorder, Control()).run()
    poor, good = (event.calls_per_block for event in recorder.of(model.Calibrated) if event.device == "cpu")
    assert good > 5 * poor
    assert {event.calls_per_block for event in recorder.rounds if event.device == "cpu"} == {good}
    assert len(next(iter(lacks(recorder).values())).discarded) == 1


def test_times_without_a_core_do_not_make_a_search_leave_the_cpu_out():
    """The CPU measures a hundred times too slow, which must not make the search leave it out."""
    sizes = (16, 32, 64, 128, 256)
    laws = model.Simulation(first_call_ns=0.0, cpu_overhead_ns=1e4, starved_share=0.99)
    cases = tuple(model.Case("matmul", n) for n in sizes)
    plan = model.Plan("test", cases, simulation=laws, search=model.Search(), metrics=(model.LATENCY,))
    status, recorder = swept(plan)
    assert status == "done"
    assert {event.case for event in recorder.rounds if event.device == "cpu"} == {case.key for case in plan.cases}
    assert not recorder.of(model.CasesChosen), "there is no bracket to narrow"
