"""The state of the machine over a whole run, and its peak rates, as tables."""

from dataclasses import replace

from tests.helpers.runs.golden_runs import matmul, plan_of, state_of, stream

from cpugpu_tui.export.html_report import STATE_HEADS, device_states, peak_rates
from cpugpu_tui.model import DeviceSampled, MachineRead, Reading
from cpugpu_tui.render.columns import NONE
from cpugpu_tui.state.folding import folded


def lines_of(run):
    return {line[0]: dict(zip(STATE_HEADS, line, strict=True)) for line in device_states(run)}


def read():
    """A run whose GPU was hot and, in one case, held back by its power limit."""
    plan = plan_of(matmul(64, 256))
    events = []
    for event in stream(plan):
        if isinstance(event, MachineRead) and event.device != "cpu":
            degrees = 41.0 if event.edge == "begin" else 66.0
            event = replace(event, readings={"temperature_c": Reading(degrees)})
        if isinstance(event, DeviceSampled) and event.device != "cpu":
            is_large = "/256/" in event.case
            event = replace(event, sm_clock_mhz=1500.0 if is_large else 1980.0, sm_clock_end_mhz=None,
                            watched_ns=1e9, throttled_ns={"power-capped": 0.25e9 if is_large else 0.0})  # fmt: skip
        events.append(event)
    return folded(events)


def test_values_are_spans_over_all_cases():
    gpu = lines_of(read())["cuda:0"]
    assert (gpu["SM clock"], gpu["temperature"]) == ("1,500 to 1,980 MHz", "41 to 66 °C")
    assert gpu["throttled"] == "power-capped in 1 of 2 cases (up to 25 %)"


def test_what_a_cpu_does_not_have_is_a_dash_and_what_is_unknown_has_its_reason():
    lines = lines_of(state_of("usual"))
    assert {lines["cpu"][head] for head in ("SM clock", "throttled", "other processes")} == {NONE}
    assert lines["cuda:0"]["SM clock"] == "not supported here"


def test_cases_that_waited_for_a_core_are_counted():
    assert lines_of(state_of("odd"))["cuda:0"]["waited for a core"].startswith("in 1 of ")


def test_peak_rates_have_a_column_for_each_device():
    run = state_of("usual").run
    lines = {name: texts for name, *texts in peak_rates(run.plan.ceilings)}
    assert lines["float32 compute"] == ["500 GFLOP/s", "20.0 TFLOP/s"]
    assert lines["one synchronisation"] == [NONE, "80.0 µs"]
    assert peak_rates(()) == []
