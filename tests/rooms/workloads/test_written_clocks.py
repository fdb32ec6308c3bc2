"""A publication's clock: scope, order and additions; progress and early end of long operations."""

import os
from typing import Any

import pytest
import torch
from tests.helpers.runs.recorder import Recorder

from cpugpu_tui import model
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.timing.timers import CaseError, timed_operation
from cpugpu_tui.timing.timers.timed_operation import Reporter, time_written
from cpugpu_tui.timing.torch_machine import TorchMachine
from cpugpu_tui.workloads import AsWritten, Workload
from cpugpu_tui.workloads.contract import REGISTRY, SCOPE

CASE = model.Case("notebook", 4, threads=1)


class Notebook(Workload):
    """A publication that times a whole cell."""

    name = "notebook"
    dtypes = ("float32",)
    as_written = AsWritten("P3", (SCOPE,), ("default",), whole=True, imports=True, cpu_seconds=True, sizes=(4,))

    def __init__(self):
        self.log: list[str] = []
        self.parts = 3

    def inputs(self, n, dtype, generator):
        self.log.append("inputs")
        return (torch.rand(n, generator=generator, dtype=dtype),)

    def step(self, a):
        if self.log[-1:] != ["step"]:
            self.log.append("step")
        return a * 2

    def prepare_written(self, variant, n, device):
        self.log.append("prepare")

    def written(self, variant, n, dtype, device, report):
        self.log.append(f"written on {device}")
        for part in range(self.parts):
            report(part, self.parts, f"part {part}")
        return {model.MOVING: 2e6}

    def flops(self, n):
        return float(n)

    def bytes_moved(self, n, itemsize_bytes):
        return 8.0 * n


@pytest.fixture
def notebook(monkeypatch):
    made = Notebook()
    monkeypatch.setitem(REGISTRY, "notebook", made)
    before = torch.get_num_threads()
    yield made
    torch.set_num_threads(before)


def swept(plan, control=None):
    recorder = Recorder()
    machine = TorchMachine(plan, {"threads": 1, "cpu": "Xeon", "torch_import_s": 1.5})
    return Scheduler(plan, machine, recorder, control or Control()).run(), recorder


def plan_of(*cases):
    return model.Plan("test", cases, ("cpu",), budget_s=0.05, rounds=1, max_rounds=1)


def test_the_cell_runs_once_and_cold_before_anything_else_touches_the_device(notebook):
    recorder = swept(plan_of(CASE))[1]
    assert notebook.log[:4] == ["prepare", "written on cpu", "inputs", "step"]
    (once,) = [event for event in recorder.of(model.DeviceSampled) if event.round_index == 0]
    assert set(once.samples) == {model.AS_WRITTEN, model.SYNCED, model.USER, model.SYSTEM, model.MOVING}
    assert once.samples[model.MOVING] == (2e6,)
    assert once.samples[model.AS_WRITTEN][0] >= 1.5e9, "importing the framework stands inside P3's cell"
    assert recorder.of(model.CaseStarted)[0].operations == 1


def test_a_later_cell_finds_the_framework_imported(notebook):
    recorder = swept(plan_of(CASE, model.Case("notebook", 4, threads=2)))[1]
    first, second = [event for event in recorder.of(model.DeviceSampled) if model.AS_WRITTEN in event.samples]
    assert first.samples[model.AS_WRITTEN][0] >= 1.5e9 > second.samples[model.AS_WRITTEN][0]


def test_a_stop_ends_a_cell_half_way_and_the_case_is_skipped(notebook):
    control = Control()
    honest = notebook.written

    def stopped(*arguments):
        control.obey("stop")
        return honest(*arguments)

    notebook.written = stopped  # type: ignore[method-assign]
    status, recorder = swept(plan_of(CASE, model.Case("notebook", 5)), control)
    assert status == "stopped"
    assert [(event.case, event.kind) for event in recorder.of(model.CaseFailed)] == [
        (CASE.key, "skipped"),
        (model.Case("notebook", 5).key, "skipped"),
    ]
    assert not recorder.of(model.CaseFinished)


def test_the_clock_that_did_not_wait_and_the_one_that_did(notebook, monkeypatch):
    """The device finishes 8 ms after the call returned; both times include 1 s of import."""
    now_ns = [0]
    monkeypatch.setattr(timed_operation, "perf_counter_ns", lambda: now_ns[0])
    monkeypatch.setattr(timed_operation.os, "times", lambda: os.times_result((now_ns[0] / 2e9, 0.25, 0, 0, 0)))

    def written(*arguments):
        now_ns[0] += 1_000_000
        return {}

    def synchronize():
        now_ns[0] += 8_000_000

    monkeypatch.setattr(notebook, "written", written)
    report: Any = None
    singles = time_written(CASE, "cuda:0", report, synchronize, import_ns=1e9)
    assert singles == {
        model.AS_WRITTEN: (1e6 + 1e9,), model.SYNCED: (9e6 + 1e9,), model.USER: (0.5e6,), model.SYSTEM: (0.0,),
    }  # fmt: skip


# ------------------------------------------------------------------ reports


@pytest.fixture
def clock(monkeypatch):
    now_ns = [0]
    monkeypatch.setattr(timed_operation, "perf_counter_ns", lambda: now_ns[0])
    return now_ns


def test_a_long_cell_says_once_a_second_how_far_it_is_and_how_long_it_will_take(clock):
    recorder = Recorder()
    report = Reporter(CASE, "cuda:0", recorder, lambda: False)
    for part in range(100):
        clock[0] += 50_000_000
        report(part + 1, 200, f"epoch {part // 20 + 1} of 10")
    told = recorder.of(model.Progressed)
    assert [event.elapsed_s for event in told] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [event.estimate_s for event in told] == pytest.approx([10.0] * 5)
    assert told[-1].note == "epoch 5 of 10"
    assert {(event.phase, event.device) for event in told} == {("as written", "cuda:0")}


def test_a_training_that_diverged_is_a_failure_and_no_time():
    recorder = Recorder()
    report = Reporter(CASE, "cpu", recorder, lambda: False)
    report.epoch(1, 10, 0.25, 0.98, 2e9, 1875)
    with pytest.raises(CaseError, match="epoch 2") as caught:
        report.epoch(2, 10, float("nan"), None, 2e9, 1875)
    assert caught.value.kind == "mismatch"
    (told,) = recorder.of(model.EpochFinished)
    assert (told.loss, told.accuracy, told.steps) == (0.25, 0.98, 1875)
