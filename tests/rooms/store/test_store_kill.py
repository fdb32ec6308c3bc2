"""kill -9 of the writer at any moment: all acknowledged cases are saved, and the run is `interrupted`."""

import random
import subprocess
import sys
from contextlib import closing

import pytest
from tests.helpers.command_line import ROOT
from tests.helpers.runs.read_back import integrity_check
from tests.helpers.runs.store_writer import case_events

from cpugpu_tui.model import CaseFinished, RunStarted, TelemetryRead
from cpugpu_tui.store import Store

KILLS = 20


def kill_after(acknowledgements, spins, path, run_id):
    """Kill a writer `spins` turns of an empty loop after that many acknowledgements; return how many it gave."""
    command = [sys.executable, "-m", "tests.helpers.runs.store_writer", str(path), run_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        for _ in range(acknowledgements):
            assert writer.stdout.readline()
        for _ in range(spins):
            pass
        writer.kill()
        late = writer.stdout.read().count("\n")
    return acknowledgements + late


@pytest.mark.slow
def test_no_acknowledged_case_is_lost_and_none_is_half_there(tmp_path):
    moments = random.Random(5)
    path = tmp_path / "results.db"
    for kill in range(KILLS):
        run_id = f"run-{kill:02}"
        # One commit takes about a millisecond, 30 000 turns.
        acknowledged = kill_after(moments.randrange(1, 12), moments.randrange(60_000), path, run_id)
        with closing(Store.open(path)) as store:
            assert integrity_check(store) == []
            assert {run.status for run in store.runs()} == {"interrupted"}
            assert store.runs()[0].number == kill + 1
            events = store.load(run_id)
        committed = sum(isinstance(event, CaseFinished) for event in events)
        assert committed in (acknowledged, acknowledged + 1)  # killed between commit and acknowledgement
        assert isinstance(events[0], RunStarted)
        cases = [event for event in events[1:] if not isinstance(event, TelemetryRead)]
        assert cases == [event for index in range(1, committed + 1) for event in case_events(index)]
        assert [event.seq for event in events if isinstance(event, TelemetryRead)] == list(range(1, committed + 1))
