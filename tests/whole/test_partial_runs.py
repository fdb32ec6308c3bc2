"""Runs that were cut off anywhere, on one GPU or several: everything that shows a run can show what there is of it."""

import contextlib
import io
import json
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.cli import claims as claims_cli
from cpugpu_tui.cli.fleet.running import print_fleet
from cpugpu_tui.cli.output.gate_report import fleet_junit, fleet_markdown, gate_data, junit, markdown, print_report
from cpugpu_tui.cli.output.tables import keys_within, print_state, show_comparison, spelled_table
from cpugpu_tui.cli.running.gate import LIMITS
from cpugpu_tui.compare.changes import Changes
from cpugpu_tui.compare.claims import judge_all, numbers_of, points_of
from cpugpu_tui.compare.comparison import Series, compare_series
from cpugpu_tui.compare.gate import gate_series, judge_fleet
from cpugpu_tui.config.hosts import hosts_of
from cpugpu_tui.errors import UsageError
from cpugpu_tui.export import formats
from cpugpu_tui.export.anonymize import anonymized
from cpugpu_tui.export.stream import exported
from cpugpu_tui.export.tensorboard import all_points
from cpugpu_tui.render.answers import as_data
from cpugpu_tui.render.columns import Key
from cpugpu_tui.render.comparison import comparison_data
from cpugpu_tui.render.fleet import fleet_rows, host_data
from cpugpu_tui.session.fleet_state import DONE, FleetState, HostChanged
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.state.condition import conditions_data
from cpugpu_tui.state.folding import measured
from cpugpu_tui.timing.channel import CallEmitter, Control
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.chart.drawing import chart_lines
from cpugpu_tui.ui.glyphs import ASCII, UNICODE
from cpugpu_tui.ui.keys import Situation
from cpugpu_tui.ui.panes.answer import pane_lines
from cpugpu_tui.ui.panes.timing_columns import columns, shape_of
from cpugpu_tui.ui.screens import fleet as fleet_lines
from cpugpu_tui.ui.screens.compare import comparison_lines
from cpugpu_tui.ui.screens.detail import detail_lines

CASES = (model.Case("matmul", 64), model.Case("matmul", 256), model.Case("matmul", 1024), model.Case("matmul", 1024,
    threads=1),
         model.Case("vector-dot", 4096, variant="dot"))  # fmt: skip
FATES = ("finished", "mismatch", "failed", "failed nowhere", "cut off", "cut off and skipped", "one device lost",
         "skipped", "never reached")  # fmt: skip


@cache
def whole(gpus, with_cpu):
    """Return what a simulated machine said of every case, by case."""
    devices = (*(("cpu",) if with_cpu else ()), *(("cuda",) if gpus else ()))
    plan = model.Plan("matmul+vector-dot", CASES, devices, metrics=(model.LATENCY, model.DEVICE, model.PAGEABLE),
        rounds=5, max_rounds=5,
                simulation=model.Simulation(gpus=gpus), words=("run", "matmul", "vector-dot"))  # fmt: skip
    machine, events = SimulatedMachine(plan), list[model.Event]()
    Scheduler(plan, machine, CallEmitter(events.append), Control()).run()
    told = {case.key: [event for event in events if getattr(event, "case", "") == case.key] for case in CASES}
    return (model.DevicesFound(devices=machine.devices), told), plan


def broken(gpus, with_cpu, fates, ended, run_id):
    """Return a run whose cases each came to such an end; the number says after which event or on which device."""
    (found, told), plan = whole(gpus, with_cpu)
    stream: list[model.Event] = [
        model.RunStarted(run_id=run_id, series_id=run_id, plan=plan, environment={"hostname": "box"}, number=7), found,
    ]  # fmt: skip
    for case, (fate, number) in zip(CASES, fates, strict=True):
        stream += _told(case.key, told[case.key], fate, number, [device.name for device in found.devices])
    stream += [model.RunFinished(status=ended, exit_code=130 if ended == "stopped" else 0)] if ended else []
    return [replace(event, seq=seq, wall_ns=seq * 10**6, mono_ns=seq) for seq, event in enumerate(stream, 1)]


def _told(case, told, fate, number, devices):
    device = devices[number % len(devices)]
    untimed, some = [event for event in told if not isinstance(event, model.CaseFinished)], told[: number % len(told)]
    failure = model.CaseFailed(case=case, kind="oom", message="Needs 9 GB.", device=device)
    skipped = model.CaseFailed(case=case, kind="skipped", message="The run was stopped before.")
    return {
        "finished": told,
        "mismatch": [*untimed, replace(failure, kind="mismatch")],
        "failed": [*some, failure],
        "failed nowhere": [*some, replace(failure, kind="crashed", device=None)],
        "cut off": some,
        "cut off and skipped": [*some, skipped],
        "one device lost": [e for e in told if not (isinstance(e, model.DeviceSampled) and e.device == device)],
        "skipped": [skipped],
        "never reached": [],
    }[fate]


RUNS = st.tuples(
    st.integers(0, 3), st.booleans(),
    st.lists(st.tuples(st.sampled_from(FATES), st.integers(0, 200)), min_size=len(CASES), max_size=len(CASES)),
    st.sampled_from(["done", "stopped", "failed", None]),
)  # fmt: skip


def make(run, run_id="20260101-a"):
    gpus, with_cpu, fates, ended = run
    return exported(broken(gpus, with_cpu or not gpus, fates, ended, run_id))


def printed(show, *arguments, **named):
    """Return what a function of the command line prints."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out):
        show(*arguments, **named)  # type: ignore[operator]
    out.seek(0)
    return out.read()


@given(RUNS)
def test_the_table_shows_any_run(run):
    state = make(run).state
    for width in (20, 80, 200):
        assert keys_within(spelled_table(state), width)
    said = printed(print_state, state)
    assert all(f"{size:,}" in said for size in (64, 256))
    assert "Again: cpugpu-tui run" in said


@given(RUNS)
def test_every_export_has_any_run(run):
    found = make(run)
    for one in (found, *anonymized([found], ["box"], ["zoe"])):
        for name in ("json", "ndjson", "csv", "markdown"):
            assert b"".join(formats.rendered(name, [one]))
        assert b"".join(formats.rendered("csv", [one], samples=True))
    all_points(found)
    json.dumps([as_data(found.state), conditions_data(found.state)], allow_nan=False)


@settings(max_examples=8)
@given(RUNS)
def test_the_report_has_any_run(run):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    assert b"</html>" in b"".join(formats.rendered("html", [make(run)]))


@given(RUNS, RUNS)
def test_any_two_runs_can_be_compared_and_gated(one, other):
    base, new = (measured(make(run, name).events) for run, name in ((one, "a"), (other, "b")))
    assert base is not None
    assert new is not None
    state = make(other, "b").state
    changes = Changes("b", Series("", (base,)), (new,))
    for row in state.rows.values():
        changes.of(state, row)
    try:
        found = compare_series(Series("", (base,)), Series("", (new,)))
    except UsageError:  # no case in common
        return
    report = gate_series(found.base, found.new, LIMITS)
    printed(show_comparison, found)
    printed(print_report, report, as_json=False)
    printed(print_report, report, as_json=True)
    assert junit(report)
    assert markdown(report)
    json.dumps(comparison_data(found), allow_nan=False)
    assert comparison_lines(found, 78, UNICODE)


@given(RUNS)
def test_claims_are_judged_by_any_run(run):
    judged = judge_all(numbers_of(points_of(make(run).state), (), (), simulated=True))
    assert printed(claims_cli.print_judged, judged)


@given(RUNS)
def test_the_app_shows_any_run(run):
    state = make(run).state
    look = rows.look_of(state, UNICODE, 12)
    for width in (60, 160):
        heads = {column.key for column in columns(width, shape=shape_of(state, UNICODE))}
        for row in state.rows.values():
            assert heads <= set(rows.cells(row, look, state)) | {Key.CHANGE, Key.SPREAD}
            assert detail_lines(row, state, width, ASCII)
    for sweep in state.sweeps:
        for what_if in (RESIDENT, END_TO_END):
            assert chart_lines(AppState(run=state, what_if=what_if), sweep, 70, 18, UNICODE)
    pane_lines(AppState(run=state, situation=Situation(ran=True)), 117, 4, 4, UNICODE)


@given(RUNS, RUNS)
def test_a_fleet_shows_any_runs(one, other):
    state = FleetState.of(hosts_of(["n1", "n2"]))
    for host, run in (("n1", one), ("n2", other)):
        for event in make(run, host).events:
            state = state.apply(host, event)
        state = state.apply(host, HostChanged(DONE))
    assert "n1" in printed(print_fleet, state)
    for each in state.hosts.values():
        host_data(each)
        fleet_lines.host_line(each, 10, 100, UNICODE, chosen=False)
    for row in fleet_rows(state):
        fleet_lines.case_line(row, 10, 100, UNICODE)
    base = measured(make(one, "base").events)
    assert base is not None
    gate = judge_fleet(state, [Series("main", (base,))], LIMITS)
    json.dumps(gate_data(gate), allow_nan=False)
    assert fleet_junit(gate)
    assert fleet_markdown(gate)
