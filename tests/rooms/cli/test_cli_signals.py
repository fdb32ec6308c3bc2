"""ctrl+c, SIGTERM, SIGHUP: what is finished stays, no agent is left, and the exit code says what it was."""

import os
import signal
import subprocess
import sys
import time

import pytest
from tests.helpers.command_line import FAST, Witness, agents_of, events_from, next_event
from tests.helpers.runs.read_back import integrity_check

from cpugpu_tui.errors import EXIT_INTERRUPTED
from cpugpu_tui.model import CaseFailed, CaseFinished, Progressed, RunFinished
from cpugpu_tui.thresholds import load
from cpugpu_tui.transport.agent_command import HELLO_LIMIT_S

PATIENCE_S = 60.0
PACED = ("run", "--simulate", f"{FAST},pace=0.4", "--size", "64:80:1", "--json")
HANGING = ("run", "--simulate", f"{FAST},hang_size=64", "--size", "32,64,128", "--rounds", 1, "--json")


def hangs(event):
    """The agent is about to do what never returns."""
    return isinstance(event, Progressed) and event.phase == "first call" and "/64/" in event.case


def finished_in(cpugpu):
    """Return the cases that the history has as finished, after a look at its health."""
    with cpugpu.store() as store:
        assert integrity_check(store) == []
        return {e.case for e in store.load(store.find("latest")) if isinstance(e, CaseFinished)}


@pytest.mark.parametrize("worker", ["process", "thread"])
def test_ctrl_c_stops_after_the_block_and_keeps_what_is_finished(cpugpu, worker):
    with cpugpu.start(*PACED, "--worker", worker) as process:
        first = next_event(process, lambda event: isinstance(event, CaseFinished))
        agents = [Witness(pid) for pid in agents_of(process)]
        process.send_signal(signal.SIGINT)
        rest = list(events_from(process))
        assert process.stderr.read() == b""
    assert process.returncode == EXIT_INTERRUPTED
    finished = {event.case for event in [first, *rest] if isinstance(event, CaseFinished)}
    skipped = [event for event in rest if isinstance(event, CaseFailed)]
    assert {event.kind for event in skipped} == {"skipped"}
    assert len(finished) + len(skipped) == 16
    assert finished_in(cpugpu) == finished
    last = rest[-1]
    assert (last.status, last.exit_code) == ("stopped", EXIT_INTERRUPTED)
    assert [agent.sees_the_end() for agent in agents] == ([True] if worker == "process" else [])


def ctrl_c_until_it_ends(process):
    """Press it again and again, as people do; two that come at once are one to the kernel. Return how often."""
    for times in range(1, 100):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        return times
    raise AssertionError("it does not end")


def test_ctrl_c_twice_stops_at_once(cpugpu):
    with cpugpu.start(*HANGING) as process:
        next_event(process, hangs)
        (agent,) = [Witness(pid) for pid in agents_of(process)]
        assert ctrl_c_until_it_ends(process) >= 2
    assert process.returncode == EXIT_INTERRUPTED
    assert agent.sees_the_end()
    assert len(finished_in(cpugpu)) == 1


def test_ctrl_c_once_ends_a_persons_code_that_never_returns(cpugpu, tmp_path):
    file, begun = tmp_path / "own.py", tmp_path / "begun"
    os.mkfifo(begun)
    file.write_text(f"open({str(begun)!r}, 'w').close()\nwhile True: pass\ndef f(): ...\n")
    with cpugpu.start("time", f"{file}:f", "--n", "4", "--simulate", FAST, "--json") as process:
        begun.read_text()  # once the run has begun there may not be an agent yet, seen on a busy machine
        (agent,) = [Witness(pid) for pid in agents_of(process)]
        process.send_signal(signal.SIGINT)
        last = list(events_from(process))[-1]
        assert process.stderr.read() == b""
    assert process.returncode == EXIT_INTERRUPTED
    assert (last.status, last.exit_code) == ("stopped", EXIT_INTERRUPTED)
    assert agent.sees_the_end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_that_ends_us_is_obeyed_also_by_an_agent_that_hangs(cpugpu, number):
    with cpugpu.start(*HANGING) as process:
        next_event(process, hangs)
        (agent,) = [Witness(pid) for pid in agents_of(process)]
        process.send_signal(number)
        rest = list(events_from(process))
        assert process.stderr.read() == b""
    assert process.returncode == 128 + number
    assert agent.sees_the_end()
    assert len(finished_in(cpugpu)) == 1
    assert [event.kind for event in rest if isinstance(event, CaseFailed)] == ["skipped", "skipped"]


def test_a_series_that_is_stopped_has_no_next_run(cpugpu):
    with cpugpu.start(*PACED, "--repeat", 3) as process:
        next_event(process, lambda event: isinstance(event, CaseFinished))
        process.send_signal(signal.SIGINT)
        ends = [event for event in events_from(process) if isinstance(event, RunFinished)]
    assert process.returncode == EXIT_INTERRUPTED
    assert [event.status for event in ends] == ["stopped"]


BUSY = """
import sys, threading
from cpugpu_tui.cli.running import one_run
from cpugpu_tui.__main__ import main
def blocked(self, state, event):
    if state.settled:
        sys.stdout.flush()
        print("blocked", file=sys.stderr, flush=True)
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
one_run.Progress.show = blocked
main()
"""
"""The command, whose main thread never comes back after the first case."""


@pytest.mark.parametrize(
    ("numbers", "code"),
    [([signal.SIGTERM], 143), ([signal.SIGHUP], 129), ([signal.SIGINT, signal.SIGINT], 130)],
    ids=["SIGTERM", "SIGHUP", "ctrl+c twice"],
)  # fmt: skip
def test_a_command_that_never_looks_up_is_ended(cpugpu, numbers, code):
    with subprocess.Popen(
        [sys.executable, "-c", BUSY, *map(str, PACED)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=cpugpu.environment(), bufsize=0,
    ) as process:  # fmt: skip
        assert process.stderr.readline() == b"blocked\n"
        (agent,) = [Witness(pid) for pid in agents_of(process)]
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.1)  # two at once are one to the kernel
        try:
            assert process.wait(PATIENCE_S) == code
        finally:
            process.kill()
    assert agent.sees_the_end(PATIENCE_S)
    assert finished_in(cpugpu)


TOLD = """
import sys
from cpugpu_tui.cli.running import one_run
from cpugpu_tui.__main__ import main
def told(self, state, event):
    if state.settled == 2:
        print("timed", file=sys.stderr, flush=True)
one_run.Progress.show = told
main()
"""
"""The command, which says when it has timed two sizes."""


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGTERM, signal.SIGHUP))],
    ids=lambda number: number.name,
)
def test_a_verification_that_is_ended_keeps_the_sizes_that_it_timed(cpugpu, tmp_path, number):
    """After SIGHUP, those of minutes were lost without a word."""
    file, simulate = tmp_path / "thresholds.json", ("--simulate", f"{FAST},pace=1")
    made = cpugpu.here("thresholds", "make", "matmul", "--n", "16:2048", "--simulate", FAST, "--out", file)
    before = load(file, {}).entries
    assert made.code == 0
    words = ("thresholds", "verify", str(file), *simulate, "--max-seconds", "300")
    with subprocess.Popen(
        [sys.executable, "-c", TOLD, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cpugpu.environment()
    ) as process:
        assert process.stderr.readline() == b"timed\n"
        agents = [Witness(pid) for pid in agents_of(process)]
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert all(agent.sees_the_end(PATIENCE_S) for agent in agents)
    after = load(file, {}).entries
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    if number == signal.SIGKILL:
        assert after == before
    else:
        assert f"Added these sizes to {file}" in err.decode()
        assert {size for each in after for size in each.timed} > {size for each in before for size in each.timed}


@pytest.mark.parametrize("words", [
    ("gate", "quick", "--against"), ("run", "quick", "--python"), ("time", "torch.ones(9)", "--python"),
    ("machine", "--python"),
], ids=lambda words: words[0])  # fmt: skip
def test_a_silent_interpreter_is_named_with_its_limit_and_ctrl_c_ends_the_wait(cpugpu, silent_python, words):
    """`gate --against` waited in silence for a script that never answered."""
    with cpugpu.start(*words, silent_python) as process:
        told = process.stderr.readline().decode()
        agents = [Witness(pid) for pid in agents_of(process)]
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert told == f"Waiting for {silent_python} to answer, at most {HELLO_LIMIT_S:g} s.\n"
    assert (rest, process.returncode) == (b"", EXIT_INTERRUPTED)
    assert agents
    assert all(agent.sees_the_end() for agent in agents)
