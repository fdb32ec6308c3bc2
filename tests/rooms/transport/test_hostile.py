"""Agents that send impossible events, flood or die: the guard ends them, and runs and other hosts are unharmed."""

import time
from contextlib import closing
from dataclasses import replace
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.fleet.hostile_agent import (
    BAD,
    FACTS,
    HARMLESS,
    IN_A_PROCESS,
    LOCAL_CRASHES,
    SPECIAL,
    VARIANTS,
    Recorded,
    encoded,
    lines_of,
    rising,
)
from tests.helpers.fleet.hostile_run import GOOD, fleet_of, plan, python_of, record, run_of, watch

from cpugpu_tui.config.hosts import hosts_of
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK, ProtocolError
from cpugpu_tui.model import Case, CaseFailed, CaseFinished, Event, Hello, Plan, RunFinished, WorkloadsLoading
from cpugpu_tui.session.fleet_state import DONE
from cpugpu_tui.transport import agent_process
from cpugpu_tui.transport.agent_command import MISBEHAVING, TIMEOUT
from cpugpu_tui.transport.agent_output import WAITING_EVENTS, AgentExited, Garbage, LastLines, LineReader
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.agent_process import AgentProcess
from cpugpu_tui.transport.guard import STRAY_LINES, MisbehavedError, StreamGuard
from cpugpu_tui.workloads.own_code import own_code, two_sides

SENT = [name for name in VARIANTS if name not in IN_A_PROCESS and not name.startswith("stderr")]


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """Recording of a real agent's output."""
    return record(tmp_path_factory.mktemp("stream") / "recorded.ndjson")


@pytest.fixture(scope="module")
def recorded(stream):
    return Recorded(stream)


def let_in(hello, lines, planned=None):
    """Return the events that a guard of a plan lets through."""
    guard, reader = StreamGuard(), LineReader()
    events: list[Event] = []

    def read(line):
        chunk = encoded(line)
        guard.read(len(chunk))
        for each in reader.feed(chunk):
            guard.dropped(reader.dropped_lines)
            try:
                event = guard.event_on(each)
            except Garbage:
                continue
            events.extend([event] if event is not None else [])
        guard.dropped(reader.dropped_lines)

    read(hello)
    guard.expect(planned or plan())
    for line in lines:
        read(line)
    return events


@pytest.mark.parametrize("variant", SENT)
def test_what_no_working_agent_sends_is_refused(variant, recorded):
    with pytest.raises(MisbehavedError) as caught:
        let_in(recorded.hello, lines_of(variant, recorded))
    assert caught.value.remedy
    assert len(str(caught.value)) < 500


def test_only_code_with_an_implementation_for_each_device_is_refused_after_its_times(recorded):
    refusal = {"event": "CaseFailed", "case": recorded.case, "device": "cpu", "kind": "refused",
               "message": "It never used the GPU.", "remedy": "Use it."}  # fmt: skip
    late = [*recorded.until("RunFinished"), *rising([refusal])]
    both = replace(plan(), codes=(two_sides(own_code("x + 1", "x = 1"), own_code("x - 1", "x = 1")),))
    last = let_in(recorded.hello, late, both)[-1]
    assert last.kind == "refused"
    for lines, planned in ((late, plan()), ([*late, {**refusal, "seq": 2 * 10**6}], both)):
        with pytest.raises(MisbehavedError, match="after its end"):
            let_in(recorded.hello, lines, planned)


@pytest.mark.parametrize("variant", FACTS)
def test_a_hello_with_impossible_facts_is_refused(variant, recorded):
    with pytest.raises(MisbehavedError):
        let_in(FACTS[variant](recorded), recorded.events)


@pytest.mark.parametrize("variant", [name for name in HARMLESS if name not in IN_A_PROCESS])
def test_what_is_only_odd_goes_through(variant, recorded):
    events = let_in(recorded.hello, lines_of(variant, recorded))
    assert isinstance(events[-1], RunFinished)
    assert sum(isinstance(event, CaseFinished) for event in events) == 2


def test_nothing_comes_in_before_the_plan(recorded):
    guard = StreamGuard()
    guard.event_on(encoded(recorded.hello).strip())
    with pytest.raises(MisbehavedError):
        guard.event_on(encoded(recorded.events[0]).strip())


def test_an_import_is_told_only_by_agents_that_have_typed_code(recorded):
    told = b'{"event":"WorkloadsLoading","source":"/a.py, line 3","seq":%d}'
    for codes in ((), (own_code("x @ x"),)):
        guard = StreamGuard()
        guard.event_on(encoded(recorded.hello).strip())
        guard.expect(replace(plan(), codes=codes))
        if codes:
            assert guard.event_on(told % 2) == WorkloadsLoading(source="/a.py, line 3", seq=2)
            guard.event_on(b'{"event":"DevicesFound","devices":[],"seq":3}')
        with pytest.raises(MisbehavedError):
            guard.event_on(told % 4)


def test_a_stop_is_believed_of_an_agent_that_was_asked_to_stop(recorded):
    guard = StreamGuard()
    guard.event_on(encoded(recorded.hello).strip())
    guard.expect(plan())
    guard.expect_stop()
    assert guard.event_on(b'{"event":"RunFinished","status":"stopped","seq":9}')


def test_what_a_wrapper_prints_before_its_agent_is_no_lie(recorded):
    """A login shell's banner may be long and look like anything."""
    noise = [b'{"event":"RunFinished","status":7}\n', b"x" * 3_000_000 + b"\n", *[b"Welcome!\n"] * (STRAY_LINES - 1)]
    guard, reader = StreamGuard(), LineReader()
    for line in reader.feed(b"".join(noise)):
        guard.dropped(reader.dropped_lines)
        with pytest.raises(Garbage):
            guard.event_on(line)
    guard.dropped(reader.dropped_lines)
    assert guard.event_on(encoded(recorded.hello).strip())


@given(st.integers(0, 10**9))
def test_random_faults_never_break_the_guard_nor_settle_a_case_twice(recorded, seed):
    try:
        events = let_in(recorded.hello, lines_of(f"mutation:{seed}", recorded))
    except (MisbehavedError, ProtocolError):
        return
    settled = [event.case for event in events if isinstance(event, (CaseFinished, CaseFailed))]
    assert len(settled) == len(set(settled))
    assert set(settled) <= {case.key for case in plan().cases}
    if any(isinstance(event, RunFinished) and event.status == "done" for event in events):
        assert len(settled) == len(plan().cases)


def test_gigabytes_on_stderr_are_not_read_for_ever():
    guard = StreamGuard()
    with pytest.raises(MisbehavedError):
        list(map(guard.read_stderr, repeat(10**6, 1000)))


def test_the_last_lines_of_a_flood_are_still_found():
    lines = LastLines()
    lines.feed(b"y\n" * 30_000 + b"\x1b[2JSegmentation fault\n")
    lines.feed(b"core dumped\n")
    assert lines()[-2:] == ("Segmentation fault", "core dumped")


# ------------------------------------------------------------------ how an agent is spoken and listened to


@pytest.fixture
def deaf(tmp_path, stream):
    """An agent on another host that says hello and never reads."""
    (host,) = hosts_of(["n1"], {"launcher": "local", "python": str(python_of(tmp_path, "reads-nothing", stream))})
    with closing(Agents(simulated=True, host=host)) as agents:
        agent = agents.take()
        assert isinstance(agent, AgentProcess)
        yield agent


def test_nobody_waits_for_an_agent_that_does_not_read(deaf):
    """A blocked thread would delay the heartbeats of all other hosts."""
    inbox = deaf.messages
    assert isinstance(inbox.get(timeout=100), Hello)
    deaf.send_plan(Plan("matmul", tuple(Case("matmul", size) for size in range(1, 10_000))))
    for _ in range(1000):
        deaf.command("pause")
        deaf.tend()
    deaf.end(at_once=True)
    assert isinstance(inbox.get(timeout=100), AgentExited)


def test_a_host_that_never_answers_its_plan_is_given_up(deaf, monkeypatch):
    inbox = deaf.messages
    assert isinstance(inbox.get(timeout=100), Hello)
    monkeypatch.setattr(agent_process, "ANSWER_LIMIT_S", 0.1)
    monkeypatch.setattr(deaf, "_start", replace(deaf._start, hello_limit_s=0.1))
    deaf.send_plan(plan())
    gone = inbox.get(timeout=100)
    assert gone.error.kind == TIMEOUT


def test_an_agent_waits_when_nobody_takes_its_events():
    many = replace(plan(), cases=tuple(Case("matmul", size) for size in range(100, 200)))
    with closing(Agents(simulated=True)) as agents:
        agent = agents.take()
        inbox = agent.messages
        agent.send_plan(many)
        deadline_s = time.monotonic() + 100
        while inbox.qsize() <= WAITING_EVENTS and time.monotonic() < deadline_s:
            time.sleep(0.01)
        for _ in range(200):  # it would be far beyond after two seconds
            assert inbox.qsize() == WAITING_EVENTS + 1
            time.sleep(0.01)
        told = [inbox.get(timeout=100)]
        while not isinstance(told[-1], AgentExited):
            told.append(inbox.get(timeout=100))
    assert sum(isinstance(each, CaseFinished) for each in told) == 100


# ------------------------------------------------------------------ through the command


SOME = (
    "flood-case-finished", "flood-rounds", "garbage-lines", "endless-line", "done-at-once", "foreign-case",
    "negative-time", "dies-in-a-line", "banner",
)  # fmt: skip
"""One of each kind."""


def fleet_states(folder, variants, stream, code):
    """Run a fleet of these and a good host; return the states of these."""
    ended = watch(fleet_of(folder, variants, stream), folder / "history.db")
    assert (ended.fault, ended.code) == ("", code)
    good = ended.hosts.pop(GOOD)
    assert (good["state"], good["settled"], good["failed"]) == (DONE, 2, 0)
    hosts = [host for name, host in ended.hosts.items() if name != GOOD]
    assert all((host["message"] and host["remedy"]) or host["settled"] == 2 for host in hosts)
    return {host["host"]: host["state"] for host in hosts}


def test_hosts_that_misbehave_are_named_and_the_good_one_is_done(tmp_path, stream):
    assert fleet_states(tmp_path, SOME, stream, EXIT_CASES_FAILED) == dict.fromkeys(SOME, MISBEHAVING)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(BAD), 10))
def test_every_kind_of_host_that_misbehaves(tmp_path, stream, first):
    kinds = BAD[first : first + 10]
    assert fleet_states(tmp_path, kinds, stream, EXIT_CASES_FAILED) == dict.fromkeys(kinds, MISBEHAVING)


@pytest.mark.slow
def test_hosts_that_are_only_odd_are_done(tmp_path, stream):
    assert fleet_states(tmp_path, HARMLESS, stream, EXIT_OK) == dict.fromkeys(HARMLESS, DONE)


PRINTING = [name for name in BAD if name.startswith("stderr")]
"""A local run skips any amount of output of its agent."""
HERE = [name for name in BAD if name not in (*SPECIAL, *PRINTING)]
QUICK = ("done-at-once", "finished-twice", "endless-line", "zero-times")


@pytest.mark.parametrize("variant", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
                                     for name in (*HERE, *HARMLESS, *PRINTING)])  # fmt: skip
def test_an_agent_of_this_machine_is_guarded_too(tmp_path, stream, variant):
    ended = watch(run_of(tmp_path, variant, stream), tmp_path / "history.db")
    assert (ended.fault, ended.code) == ("", EXIT_CASES_FAILED if variant in HERE else EXIT_OK)
    if variant in HERE and variant not in LOCAL_CRASHES:
        assert ended.last["status"] == "failed"
    if ended.last["status"] == "failed":
        assert ended.last["message"]
        assert ended.last["remedy"]
