"""The app's process takes at most 150 MB after 10,000 finished cases (issue 7)."""

import gc
import sys
import tracemalloc
from random import Random

import psutil
import pytest
from tests.helpers.app.large_app import case_events, plan_of
from tests.helpers.app.pty_app import PtyApp
from tests.helpers.command_line import ROOT

from cpugpu_tui.decide.comparison import Comparison
from cpugpu_tui.model import RunStarted
from cpugpu_tui.state.folding import folded
from cpugpu_tui.transport.agent_output import decode, encode

MOST_MB = 150
CASES = 60


def test_a_finished_case_takes_5_kb_with_all_that_is_worked_out_of_it():
    """10,000 cases take 50 MB (83 without arrays), and the app itself 50."""
    plan, random = plan_of(2 * CASES), Random(1)
    state = folded([RunStarted(run_id="r", series_id="s", plan=plan, environment={})])
    before = taken = 0
    tracemalloc.start()
    try:
        for half in (plan.cases[:CASES], plan.cases[CASES:]):  # what rows share is made with the first half
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for case in half:
                events = [decode(encode(event)) for event in case_events(case, random)]
                state = folded([event for event in events if event is not None], state)
                row = state.rows[case.key]
                assert isinstance(row.own_comparison, Comparison)
                assert row.in_worlds
                assert all(times.latency_ns for times in row.times.values())
            del events, row
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert state.settled == 2 * CASES
    assert taken / CASES <= 5_500


@pytest.mark.slow
@pytest.mark.timeout(3600)  # a hundred seconds of one core
def test_after_10_000_finished_cases_the_app_takes_150_mb():
    with PtyApp([sys.executable, "-m", "tests.helpers.app.large_app", "10000", "100"], cwd=ROOT) as app:
        app.until_text("Press r")
        app.send("r")
        app.until(lambda a: "done, 10000 cases" in a.text, 900)
        app.bytes_until_quiet(1.0)
        assert psutil.Process(app.pid).memory_info().rss / 1e6 <= MOST_MB
        app.quit()
