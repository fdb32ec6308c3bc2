"""A fleet's state, as it follows from the states of its hosts."""

from dataclasses import replace

import pytest

from cpugpu_tui import model
from cpugpu_tui.cli.fleet.running import trouble_lines
from cpugpu_tui.config.hosts import hosts_of
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_INTERRUPTED, EXIT_OK
from cpugpu_tui.render.columns import NONE, Key
from cpugpu_tui.render.fleet import cases_text, host_rows
from cpugpu_tui.session.fleet_state import (
    CONNECTING,
    DONE,
    RUNNING,
    STARTING,
    STOPPED,
    TROUBLES,
    FleetState,
    HostChanged,
    Told,
)

CASE = model.Case("matmul", 64)
STARTED = model.RunStarted(run_id="r", series_id="s", plan=model.Plan("matmul", (CASE,)), environment={})


def after(**told):
    state = FleetState.of(hosts_of(list(told)))
    for host, events in told.items():
        for event in events:
            state = state.apply(host, event)
    return state


@pytest.mark.parametrize("word", TROUBLES)
def test_one_host_in_trouble_is_exit_3_and_named(word):
    state = after(a=[HostChanged(DONE)], b=[HostChanged(word, "It is so.")])
    assert (state.exit_code, state.is_over) == (EXIT_CASES_FAILED, True)
    assert [each.host.host for each in state.troubled] == ["b"]
    assert f" 1 {word}." in state.sentence


def test_a_failed_case_is_exit_3_though_its_host_is_done():
    failed = model.CaseFailed(case=CASE.key, kind="oom", message="x")
    state = after(a=[STARTED, failed, model.RunFinished(status="done"), HostChanged(DONE)])
    assert (state.exit_code, state.troubled) == (EXIT_CASES_FAILED, ())
    assert "1 case failed" in state.sentence


def test_failed_cases_of_all_runs_of_a_series_are_counted():
    failed = model.CaseFailed(case=CASE.key, kind="oom", message="x")
    once: list[Told] = [STARTED, failed, model.RunFinished(status="done")]
    assert after(a=[*once, *once, STARTED]).hosts["a"].failed == 2


def test_whoever_stopped_it_is_told_so_before_anything_else():
    assert after(a=[HostChanged(STOPPED)], b=[HostChanged("auth", "x")]).exit_code == EXIT_INTERRUPTED
    assert after(a=[HostChanged(DONE)]).exit_code == EXIT_OK


def test_another_agent_after_a_crash_is_no_new_start():
    state = after(a=[HostChanged(CONNECTING), HostChanged(STARTING), STARTED, HostChanged(STARTING)])
    assert state.hosts["a"].state == RUNNING
    assert not state.is_over


def timed(hostname, begin_ns, end_ns):
    started = model.RunStarted(
        run_id="r", series_id="s", plan=STARTED.plan, environment={"hostname": hostname}, wall_ns=begin_ns
    )
    return [started, model.RunFinished(status="done", wall_ns=end_ns)]


def test_hosts_on_one_machine_are_named_if_their_runs_overlap(words):
    together = after(a=timed("gpu01", 10, 20), b=timed("gpu02", 10, 20), c=timed("gpu01", 15, 25))
    (sentence,) = together.crowded
    words(sentence)
    assert after(a=timed("gpu01", 10, 20), c=timed("gpu01", 20, 30)).crowded == ()


def test_of_many_hosts_on_one_machine_two_are_named(words):
    (sentence,) = after(**{f"n{number}": timed("gpu01", 10, 20) for number in range(6)}).crowded
    words(sentence)


OTHER = model.Case("matmul", 128)
LOST = 'The connection to a was lost. Its last line: "client_loop: send disconnect".'


def cut_off():
    """A host that finished a case, and was lost in the rounds of the next one."""
    begun = replace(
        STARTED, plan=model.Plan("matmul", (CASE, OTHER, model.Case("matmul", 256), model.Case("matmul", 512)))
    )
    events: list[Told] = [
        begun,
        model.DevicesFound(devices=(model.Device("cpu", "A processor"), model.Device("cuda:0", "H200"))),
    ]
    for case in (CASE, OTHER):
        events.append(model.CaseStarted(case=case.key))
        for device in ("cpu", "cuda:0"):
            samples = {"latency": (1e6,), "device": (1e5,)}
            events.append(
                model.DeviceSampled(case=case.key, device=device, round_index=1, calls_per_block=1, samples=samples)
            )
    events.append(model.CaseFinished(case=CASE.key))
    events.append(model.CaseFailed(case=model.Case("matmul", 256).key, kind="oom", message="Needs 18 GB." * 100))
    events += [
        model.CaseFailed(case=case.key, kind="skipped", message=LOST) for case in (OTHER, model.Case("matmul", 512))
    ]
    events += [model.RunFinished(status="failed", message=LOST), HostChanged("unreachable", LOST, "Run it again.")]
    return after(a=events).hosts["a"]


def test_a_case_that_a_lost_connection_cut_off_shows_no_time():
    rows = {row.row.case.size: row for row in host_rows(cut_off())}
    assert [rows[64].text(key) for key in (Key.CPU, Key.GPU)] == ["1.00 ms", "1.00 ms"]
    assert {rows[128].text(key) for key in (Key.CPU, Key.GPU, Key.KERNEL, Key.SPEEDUP, Key.VERDICT)} == {NONE}


def test_why_a_host_was_lost_is_said_of_the_host_alone():
    state = after(a=[])
    state = replace(state, hosts={"a": cut_off()})
    rows = {row.row.case.size: row for row in host_rows(state.hosts["a"])}
    assert (rows[128].why, rows[512].why) == ("skipped", "skipped")
    assert rows[256].why.startswith("oom: ")
    assert len(rows[256].why) < 400
    (line,) = trouble_lines(state)
    assert LOST in line


def test_the_counts_of_a_host_that_was_lost_add_up(words):
    host = cut_off()
    words((cases_text(host), FleetState({"a": host}).cases_text))
    assert (host.run.done, host.run.failed, host.run.skipped) == (1, 1, 2)
