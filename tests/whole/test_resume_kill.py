"""50 kill -9 of controller and agent at random moments, each gone on from with --resume: nothing shown is lost, nothing
is measured twice, and the table that results is that of an unbroken run."""

import os
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from tests.helpers.command_line import CommandLine, agents_of, events_from
from tests.helpers.runs.read_back import integrity_check

from cpugpu_tui.model import CaseFailed, CaseFinished, CaseStarted, DeviceSampled, Event, RunFinished, RunStarted
from cpugpu_tui.store import Store

MACHINE = "pace=1,cpu_overhead_ns=200000,launch_ns=200000,first_call_ns=0"
CASES = 24
RESULT = (CaseStarted, DeviceSampled, CaseFinished, CaseFailed)


class Chain:
    """Runs in one history, killed again and again; remembers what anybody was shown."""

    def __init__(self, folder, seed, kills):
        self._wanted = kills
        self._command = CommandLine(folder / "history.db")
        self._random = random.Random(seed)
        self._shown: dict[str, list[Event]] = {}
        self._settled: set[str] = set()
        self.kills = 0

    def run(self):
        """Kill until there were enough; then let the last run come to its end, and look at all of them."""
        unfinished = False
        while self.kills < self._wanted:
            unfinished = not self._step(unfinished)
        if unfinished:
            # In a process of its own: the chains are threads, and share what a call inside this process puts in place.
            assert self._command("run", "--resume", PYTHONUNBUFFERED="1").code in (0, 3)
        with closing(Store.open(self._command.database)) as store:
            assert integrity_check(store) == []
            for run in store.runs():
                assert (run.status, run.cases_ok + run.cases_failed) == ("done", CASES)
                crashed = [event for event in store.load(run.run_id) if isinstance(event, CaseFailed)]
                assert {event.kind for event in crashed} <= {"crashed"}

    def _step(self, unfinished):
        """Start or go on, kill the agent perhaps and then the controller; return whether the run ended before that."""
        words = ("--resume",) if unfinished else ("matmul", "--size", f"64:{64 + CASES}:1", "--rounds", 1)
        begun_ns = time.time_ns()
        if not unfinished:
            self._shown, self._settled = {}, set()
        simulated = () if unfinished else ("--simulate", MACHINE)
        process = self._command.start("run", "--json", *words, *simulated, stderr=subprocess.DEVNULL)
        with process:
            stream = events_from(process)
            over = self._watch(stream, begun_ns)
            if not over and self._random.random() < 0.5:
                over = self._kill_agent(process) and self._watch(stream, begun_ns)
            for _ in range(self._random.randrange(200_000)):
                pass
            if not over:
                self.kills += process.poll() is None
                process.kill()
                over = self._note(stream, begun_ns, lines=10**6)
        self._check(over)
        return over

    def _watch(self, stream, begun_ns):
        return self._note(stream, begun_ns, self._random.randrange(1, 40))

    def _note(self, stream, begun_ns, lines):
        """Take note of so many events that are new; return whether the end of the run was among them."""
        for event in stream:
            if isinstance(event, RESULT):
                if event.wall_ns < begun_ns:
                    assert event.case in self._settled  # told again, for the table
                    continue
                assert event.case not in self._settled, "a settled case was measured again"
                events = self._shown.setdefault(event.case, [])
                if isinstance(event, CaseStarted):
                    events.clear()
                events.append(event)
                if isinstance(event, CaseFinished | CaseFailed):
                    self._settled.add(event.case)
            lines -= 1
            if isinstance(event, RunFinished) or not lines:
                return isinstance(event, RunFinished)
        return False

    def _kill_agent(self, process):
        agents = agents_of(process)
        if agents:
            os.kill(agents[0], signal.SIGKILL)
            self.kills += 1
        return True

    def _check(self, over):
        """Compare the history with what was shown; what was saved and killed before it was shown is shown next time."""
        with closing(Store.open(self._command.database)) as store:
            assert integrity_check(store) == []
            runs = store.runs()
            assert [run.status for run in runs[1:]] == ["done"] * len(runs[1:])
            saved = store.load(runs[0].run_id)
        assert isinstance(saved[0], RunStarted)
        assert runs[0].status == ("done" if over else "interrupted")
        kept: dict[str, list[Event]] = {}
        for event in saved:
            if isinstance(event, RESULT):
                kept.setdefault(event.case, []).append(event)
        for case in self._settled:
            assert kept[case] == self._shown[case]
        ended = [event.case for event in saved if isinstance(event, CaseFinished | CaseFailed)]
        assert len(ended) == len(set(ended))
        for case in set(ended) - self._settled:
            self._settled.add(case)
            self._shown[case] = kept[case]


@pytest.mark.parametrize(("chain_count", "kills_per_chain"), [(1, 2), pytest.param(4, 13, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_and_resumed_measures_every_case_once(tmp_path, chain_count, kills_per_chain):
    chains = []
    for seed in range(chain_count):
        folder = tmp_path / str(seed)
        folder.mkdir()
        chains.append(Chain(folder, seed, kills_per_chain))
    with ThreadPoolExecutor(chain_count) as hands:
        for done in [hands.submit(chain.run) for chain in chains]:
            done.result()
    assert sum(chain.kills for chain in chains) >= chain_count * kills_per_chain
