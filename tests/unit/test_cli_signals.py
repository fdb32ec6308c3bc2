"""ctrl+c, SIGTERM, SIGHUP: what is finished stays, no agent is left, and the exit code says what it was."""

from __future__ import annotations

import signal
import subprocess

import pytest
from command_line import FAST, CommandLine, Witness, agents_of, events_from, next_event

from cpugpu_tui.errors import EXIT_INTERRUPTED
from cpugpu_tui.model import CaseFailed, CaseFinished, Event, Progressed, RunFinished

PACED = ("run", "--simulate", f"{FAST},pace=0.4", "--size", "64:80", "--json")
HANGING = ("run", "--simulate", f"{FAST},hang_size=64", "--size", "32,64,128", "--rounds", 1, "--json")


def hangs(event: Event) -> bool:
    """The agent is about to do what never returns."""
    return isinstance(event, Progressed) and event.phase == "first call" and "/64/" in event.case


def finished_in(cpugpu: CommandLine) -> set[str]:
    """Return the cases that the history has as finished, after a look at its health."""
    with cpugpu.store() as store:
        assert store.integrity_check() == []
        return {e.case for e in store.load(store.find("latest")) if isinstance(e, CaseFinished)}


def test_ctrl_c_stops_after_the_block_and_keeps_what_is_finished(cpugpu: CommandLine) -> None:
    with cpugpu.start(*PACED) as process:
        first = next_event(process, lambda event: isinstance(event, CaseFinished))
        (agent,) = [Witness(pid) for pid in agents_of(process)]
        process.send_signal(signal.SIGINT)
        rest = list(events_from(process))
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == EXIT_INTERRUPTED
    finished = {event.case for event in [first, *rest] if isinstance(event, CaseFinished)}
    skipped = [event for event in rest if isinstance(event, CaseFailed)]
    assert {event.kind for event in skipped} == {"skipped"}
    assert len(finished) + len(skipped) == 16
    assert finished_in(cpugpu) == finished
    last = rest[-1]
    assert isinstance(last, RunFinished)
    assert (last.status, last.exit_code) == ("stopped", EXIT_INTERRUPTED)
    assert agent.sees_the_end(2.0)


def ctrl_c_until_it_ends(process: subprocess.Popen[bytes]) -> int:
    """Press it again and again, as people do; two that come at once are one to the kernel. Return how often."""
    for times in range(1, 100):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        return times
    raise AssertionError("it does not end")


def test_ctrl_c_twice_stops_at_once(cpugpu: CommandLine) -> None:
    with cpugpu.start(*HANGING) as process:
        next_event(process, hangs)
        (agent,) = [Witness(pid) for pid in agents_of(process)]
        assert ctrl_c_until_it_ends(process) >= 2
    assert process.returncode == EXIT_INTERRUPTED
    assert agent.sees_the_end(2.0)
    assert len(finished_in(cpugpu)) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_that_ends_us_is_obeyed_also_by_an_agent_that_hangs(
    cpugpu: CommandLine, number: signal.Signals
) -> None:
    with cpugpu.start(*HANGING) as process:
        next_event(process, hangs)
        (agent,) = [Witness(pid) for pid in agents_of(process)]
        process.send_signal(number)
        rest = list(events_from(process))
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 128 + number
    assert agent.sees_the_end(2.0)
    assert len(finished_in(cpugpu)) == 1
    assert [event.kind for event in rest if isinstance(event, CaseFailed)] == ["skipped", "skipped"]


def test_a_series_that_is_stopped_has_no_next_run(cpugpu: CommandLine) -> None:
    with cpugpu.start(*PACED, "--repeat", 3) as process:
        next_event(process, lambda event: isinstance(event, CaseFinished))
        process.send_signal(signal.SIGINT)
        ends = [event for event in events_from(process) if isinstance(event, RunFinished)]
    assert process.returncode == EXIT_INTERRUPTED
    assert [event.status for event in ends] == ["stopped"]
