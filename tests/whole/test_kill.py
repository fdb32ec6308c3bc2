"""kill -9 at random moments: of the agent, which costs a case, and of the app, which costs nothing that was shown."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from tests.helpers.command_line import CommandLine, Witness, agents_of, events_from, events_of, next_event
from tests.helpers.runs.read_back import integrity_check

from cpugpu_tui import model
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK
from cpugpu_tui.store import Store

MACHINE = "pace=1,cpu_overhead_ns=200000,launch_ns=200000,first_call_ns=0"
KILLS = 20
KILLS_PER_RUN = 4


def start(folder, cases):
    """Start a run of short cases, 0.2 s each."""
    command = CommandLine(folder / "history.db")
    sizes = f"64:{64 + cases}:1"
    process = command.start(
        "run", "--json", "--simulate", MACHINE, "--size", sizes, "--rounds", 1, stderr=subprocess.DEVNULL
    )
    return process, command.database


def stored(database):
    """Return the run's status and its events, after a look at the file's health; `absent` if no run was begun."""
    if not database.exists():
        return "absent", []
    with closing(Store.open(database)) as store:
        assert integrity_check(store) == []
        runs = store.runs()
        return (runs[0].status, store.load(runs[0].run_id)) if runs else ("absent", [])


def results(events):
    """Return what a person was shown of each finished case: its times and its end."""
    over = [event.case for event in events if isinstance(event, model.CaseFinished)]
    return {
        case: [e for e in events if isinstance(e, model.DeviceSampled | model.CaseFinished) and e.case == case]
        for case in over
    }


# ------------------------------------------------------------------ the app is killed


def kill_app(folder, lines, spins):
    """Kill the app after so many lines and turns of an empty loop, then look at what is left."""
    process, database = start(folder, 30)
    with process:
        shown = b"".join(process.stdout.readline() for _ in range(lines))
        for _ in range(spins):
            pass
        agents = [Witness(pid) for pid in agents_of(process)]
        process.kill()
        assert all(agent.sees_the_end() for agent in agents)
        # What is in the pipe was shown; the last line may be cut.
        shown += process.stdout.read()
    events = events_of(shown[: shown.rfind(b"\n") + 1])
    status, saved = stored(database)
    assert len(agents) == 1 or lines == 0
    assert status == "interrupted" or not events
    assert status in ("interrupted", "absent")
    if events:
        assert isinstance(events[0], model.RunStarted)
        assert saved[0] == events[0]
    kept = results(saved)
    for case, result in results(events).items():
        assert kept[case] == result
    assert len(kept) <= len(results(events)) + 1  # saved, and killed before it was shown


@pytest.mark.parametrize("kills", [6, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_a_killed_app_leaves_no_agent_and_loses_nothing_that_was_shown(tmp_path, kills):
    moments = random.Random(20)
    killings = [(index, moments.randrange(0, 70), moments.randrange(200_000)) for index in range(kills)]
    with ThreadPoolExecutor(2) as hands:
        done = [hands.submit(kill_app, folder_of(tmp_path, index), lines, spins) for index, lines, spins in killings]
        for killing in done:
            killing.result()


def folder_of(tmp_path, index):
    folder = tmp_path / str(index)
    folder.mkdir()
    return folder


def test_an_agent_that_hangs_goes_with_its_app(tmp_path):
    """It writes nothing that could fail: only the end of its stdin tells it."""
    command = CommandLine(tmp_path / "history.db")
    with command.start("run", "--json", "--simulate", f"{MACHINE},hang_size=64", "--size", "64") as process:
        next_event(process, lambda event: isinstance(event, model.Progressed) and event.phase == "first call")
        (agent,) = [Witness(pid) for pid in agents_of(process)]
        process.kill()
        assert agent.sees_the_end()
    assert stored(command.database)[0] == "interrupted"


# ------------------------------------------------------------------ agents are killed


class Audience:
    """Reads a run's stream to its end, and remembers it."""

    def __init__(self, process):
        self.seen: list[model.Event] = []
        self._events: Iterator[model.Event] = events_from(process)

    def __iter__(self):
        for event in self._events:
            self.seen.append(event)
            yield event


def kill_agents(folder, seed):
    """Kill the agents of one run, one after the other, each at a random moment of its work; return how many."""
    moments = random.Random(seed)
    process, database = start(folder, 20)
    audience, kills, killed_ns = Audience(process), 0, 0
    with process:
        for _ in range(KILLS_PER_RUN):
            lines = moments.randrange(1, 25)
            for event in audience:
                # Only what the new agent has said since counts: the pipe may still hold its predecessor's words.
                from_agent = not isinstance(event, model.RunStarted | model.TelemetryRead | model.CaseFailed)
                lines -= from_agent and event.mono_ns > killed_ns
                if lines <= 0:
                    break
            (agent,) = agents_of(process)
            witness = Witness(agent)
            killed_ns = time.monotonic_ns()
            os.kill(agent, signal.SIGKILL)
            assert witness.sees_the_end()
            kills += 1
        for _ in audience:
            pass
    failures = [event for event in audience.seen if isinstance(event, model.CaseFailed)]
    finished = results(audience.seen)
    assert {event.kind for event in failures} <= {"crashed"}
    assert len(failures) <= kills
    assert len(finished) + len(failures) == 20
    assert all("SIGKILL" in event.message for event in failures)
    assert process.returncode == (EXIT_CASES_FAILED if failures else EXIT_OK)
    end = audience.seen[-1]
    assert end.status == "done"
    status, saved = stored(database)
    assert status == "done"
    assert results(saved) == last_attempts(finished)
    assert [event for event in saved if isinstance(event, model.CaseFailed)] == failures
    return kills


def last_attempts(finished):
    """Return the results without half-rounds that a dead agent had timed: each device has round 0 and round 1 once."""
    return {case: events[-5:] for case, events in finished.items()}


@pytest.mark.parametrize("kills", [KILLS_PER_RUN * 2, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_a_killed_agent_costs_its_case_and_the_run_goes_on(tmp_path, kills):
    with ThreadPoolExecutor(2) as hands:
        runs = [hands.submit(kill_agents, folder_of(tmp_path, seed), seed) for seed in range(kills // KILLS_PER_RUN)]
        assert sum(run.result() for run in runs) == kills
