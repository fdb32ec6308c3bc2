"""What is said of the lines of typed code: for each reason, below a table, and what the profiler cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.helpers.golden import GoldenWords

from cpugpu_tui.model import (
    Case,
    CaseFinished,
    CaseStarted,
    CodeTraced,
    Device,
    DevicesFound,
    Event,
    LineCost,
    LinesProfiled,
    Plan,
    RunStarted,
)
from cpugpu_tui.model.line_costs import COPY, FALLBACK, LINE_REASONS, LOOP, OUTSIDE, SMALL, WAIT, WORK
from cpugpu_tui.render.receipts import line_words, run_receipt, slow_lines
from cpugpu_tui.state.state import RunState

SMALL_CASE, LARGE_CASE = Case("mine", 64), Case("mine", 128)


def cost(reason: str, **more: Any) -> LineCost:
    line = LineCost("my_model.py", 31, "loss.item()", reason, 340_000.0, share=0.62, visits=1, operators=1)
    return replace(line, **more)


COSTS = (
    cost(WAIT, synchronisations=1),
    cost(WAIT, visits=64, synchronisations=64),
    cost(COPY, bytes_to_gpu=4 << 20, operators=0),
    cost(COPY, bytes_to_gpu=4096, bytes_to_host=8, visits=2),
    cost(FALLBACK, on_cpu=2),
    cost(LOOP, visits=64, operators=128),
    cost(LOOP, visits=64, operators=0),
    cost(LOOP, visits=64, operators=64, synchronisations=64),
    cost(SMALL, operators=30),
    cost(OUTSIDE, operators=0),
    cost(WORK),
    cost(WORK, device_ns=1e7, operators=3, share=0.98),
    cost(WORK, file="statement", line=1, source_line="x @ x", share=0.031),
    cost(WORK, file="setup", line=3),
)


def run_of(*events: Event) -> RunState:
    plan = Plan("mine", (SMALL_CASE, LARGE_CASE))
    devices = (Device("cpu", "Xeon"), Device("cuda:0", "H200", "GPU-1"))
    state = RunState().apply(RunStarted(run_id="r", series_id="s", plan=plan, environment={}))
    for event in (DevicesFound(devices=devices), *events):
        state = state.apply(event)
    return state


def timed(case: Case, *lines: LineCost, device: str = "cuda:0") -> tuple[Event, ...]:
    key = case.key
    return (
        CaseStarted(case=key), CodeTraced(case=key, device=device, operators=7), CaseFinished(case=key),
        LinesProfiled(case=key, device=device, lines=lines, profiled_ns=1.9e6, unprofiled_ns=6e5),
    )  # fmt: skip


def test_each_reason_has_a_sentence(words: GoldenWords) -> None:
    assert {each.reason for each in COSTS} == set(LINE_REASONS)
    words([line_words(each, "cuda:0") for each in COSTS])


def test_a_cpu_waits_for_nobody(words: GoldenWords) -> None:
    words(line_words(cost(WAIT, synchronisations=1), "cpu"))


def test_the_largest_row_shows_three_lines_and_what_the_profiler_cost(words: GoldenWords) -> None:
    run = run_of(*timed(SMALL_CASE, *COSTS[4:8]), *timed(LARGE_CASE, *COSTS[:4]))
    words(run_receipt(run))


def test_a_lone_line_without_a_fault_is_not_shown() -> None:
    run = run_of(*timed(LARGE_CASE, cost(WORK)))
    assert not slow_lines(run.rows[LARGE_CASE.key])
    run = run_of(*timed(LARGE_CASE, cost(WAIT)))
    assert len(slow_lines(run.rows[LARGE_CASE.key])) == 1


def test_source_code_cannot_control_the_terminal() -> None:
    assert "\x1b" not in line_words(cost(WORK, source_line="x = '\x1b[2J'"), "cpu")
