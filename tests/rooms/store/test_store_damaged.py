"""A database with impossible numbers: they are left out, with a mark and without a traceback."""

import math
import sqlite3
from array import array
from contextlib import closing

import pytest
from tests.helpers.command_line import CommandLine

from cpugpu_tui.model import Case, CaseFinished, CaseStarted, DeviceSampled, Plan, RunStarted
from cpugpu_tui.store import Store


def spoil(path, number, metric="%"):
    """Put a number into every sample of a metric."""
    with closing(sqlite3.connect(path)) as other:
        found = other.execute("SELECT rowid, samples FROM measurement WHERE metric LIKE ?", (metric,)).fetchall()
        for rowid, blob in found:
            spoiled = array("d", [number] * (len(blob) // 8)).tobytes()
            other.execute("UPDATE measurement SET samples = ? WHERE rowid = ?", (spoiled, rowid))
        other.commit()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A history with one run, which tests copy."""
    made = CommandLine(tmp_path_factory.mktemp("sound") / "history.db")
    assert made("run", "matmul", "--size", "16,2048", "--simulate", "default").code == 0
    return made


@pytest.mark.parametrize("number", [math.nan, math.inf, -1154.0, 0.0])
@pytest.mark.parametrize("metric", ["latency", "%"])
def test_numbers_that_no_clock_gives_are_left_out_and_it_is_said(cpugpu, sound, number, metric):
    cpugpu.take_over(sound)
    spoil(cpugpu.database, number, metric)
    shown, data = cpugpu.here("show", "latest"), cpugpu.here("show", "latest", "--json")
    assert (shown.code, data.code) == (0, 0)
    for said in ("nan", "inf", "-1,154", "×0 "):
        assert said not in shown.out
    assert "damaged" in shown.out
    assert "No answer" in shown.out


def test_processor_time_of_less_than_a_tick_is_no_damage():
    """`os.times` counts in steps of 10 ms, so a loop of 0.2 s may take 0 s of system time. Its row was marked."""
    case = Case("jacobian", 4, variant="loop")
    half = DeviceSampled(
        case=case.key, device="cpu", round_index=0, calls_per_block=1, seq=3,
        samples={"as_written": (2e8,), "as_written_user": (2e8,), "as_written_system": (0.0,)},
    )  # fmt: skip
    store = Store.in_memory()
    store.begin_run(RunStarted(run_id="run000001", series_id="series", plan=Plan("p", (case,)), environment={}, seq=1))
    store.commit_cases("run000001", [[CaseStarted(case=case.key, seq=2), half, CaseFinished(case=case.key, seq=4)]])
    kept = next(event for event in store.load("run000001") if isinstance(event, DeviceSampled))
    assert (kept.samples, kept.marks) == (half.samples, ())
    store.close()
