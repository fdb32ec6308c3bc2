"""Writes that wait in memory while the history cannot be written: none is lost or out of order, memory is bounded."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.runs.read_back import integrity_check

from cpugpu_tui import model
from cpugpu_tui.errors import LostRunError, StoreError
from cpugpu_tui.session.saver import Saver
from cpugpu_tui.store import Store, outbox
from cpugpu_tui.store.outbox import Outbox

CASES = tuple(model.Case("matmul", size) for size in (16, 32, 64, 128))
STARTED = model.RunStarted(run_id="r", series_id="s", plan=model.Plan("sweep", CASES), environment={}, seq=1)
LONG_S = 60
"""Longer than any machine needs; no test waits for it to pass."""


class LiveRun:
    """A run in progress, and another program that can lock the database."""

    def __init__(self, path):
        self.path = path
        self.outbox = Outbox(lambda wait_s: Store.open(path, wait_s=wait_s), Store.open(path))
        self.saver = Saver(self.outbox, "r")
        self.other = sqlite3.connect(path, isolation_level=None)

    def finish_case(self, index, *beside):
        case = CASES[index].key
        self.saver.note(model.CaseStarted(case=case, seq=10 * index + 2))
        self.saver.note(half_round(case, 10 * index + 3))
        for event in beside:
            self.saver.note_beside(event)
        self.saver.settle(model.CaseFinished(case=case, seq=10 * index + 4))

    def lock(self):
        self.other.execute("BEGIN IMMEDIATE")

    def unlock(self):
        self.other.execute("ROLLBACK")

    @property
    def unsaved_cases(self):
        return self.outbox.unsaved.cases.get("r", frozenset())

    def saved_cases(self):
        """Keys of the cases that another process reads from the file."""
        with closing(Store.open(self.path)) as store:
            assert integrity_check(store) == []
            return [event.case for event in store.load("r") if isinstance(event, model.CaseFinished)]

    def close(self):
        self.other.close()
        self.outbox.close()


def half_round(case, seq):
    return model.DeviceSampled(case=case, device="cpu", round_index=1, calls_per_block=1, samples={"latency": (1.0,)},
                          seq=seq)  # fmt: skip


def keys(*indexes):
    return [CASES[index].key for index in indexes]


@pytest.fixture
def live(tmp_path):
    run = LiveRun(tmp_path / "results.db")
    yield run
    run.close()


def test_a_finished_case_is_in_the_file_at_once_while_the_database_works(live):
    live.saver.begin(STARTED)
    live.finish_case(0)
    assert live.saved_cases() == keys(0)
    assert not live.outbox.unsaved
    assert live.saver.number == 1


def test_what_finishes_while_the_database_is_locked_is_saved_in_order_afterwards(live):
    live.saver.begin(STARTED)
    live.finish_case(0)
    live.lock()
    live.finish_case(1)
    live.finish_case(2)
    unsaved = live.outbox.unsaved
    assert unsaved.cause.remedy in unsaved.text
    assert live.unsaved_cases == set(keys(1, 2))
    live.unlock()
    live.outbox.flush(LONG_S)
    assert not live.outbox.unsaved
    assert live.saved_cases() == keys(0, 1, 2)


def test_it_is_saved_without_being_asked_once_the_lock_is_gone(live):
    seen: list[bool] = []
    live.saver.begin(STARTED)
    live.lock()
    live.outbox.on_change = lambda: seen.append(bool(live.outbox.unsaved))
    live.finish_case(0)
    assert seen[0] is True
    thread = live.outbox._thread
    live.unlock()
    thread.join(LONG_S)
    assert seen[-1] is False
    assert live.saved_cases() == keys(0)


def test_a_run_that_began_while_the_database_could_not_be_opened_is_there_in_the_end(tmp_path):
    folder = tmp_path / "later"
    path = folder / "results.db"
    outbox_ = Outbox(lambda wait_s: Store.open(path, wait_s=wait_s))
    saver = Saver(outbox_, "r")
    saver.begin(STARTED)
    saver.settle(model.CaseFinished(case=CASES[0].key, seq=5))
    assert saver.number is None
    assert "does not exist" in str(outbox_.unsaved.cause)
    folder.mkdir()
    saver.finish(model.RunFinished(status="done", seq=9))
    outbox_.flush(LONG_S)
    assert not outbox_.unsaved
    assert saver.number == 1
    assert [run.status for run in outbox_.store.runs()] == ["done"]
    outbox_.close()


def remove_all(path):
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink()


@pytest.mark.parametrize(
    "lose",
    [
        remove_all,
        Path.unlink,
        lambda path: path.rename(path.with_name("moved.db")),
        lambda path: path.with_name("results.db-wal").unlink(),
        lambda path: path.with_name("results.db-shm").unlink(),
    ],
    ids=["deleted", "only-the-database", "moved", "journal", "index"],
)
def test_a_live_run_goes_into_a_new_database_whole_if_the_old_one_goes(live, lose):
    with closing(Store.open(live.path)) as before:
        before.import_run([model.RunStarted(run_id="old", series_id="s", plan=model.Plan("", ()), environment={})])
    live.saver.begin(STARTED)
    live.finish_case(0)
    number = live.saver.number
    live.other.close()
    old = live.outbox.store
    lose(live.path)
    live.finish_case(1)
    live.saver.finish(model.RunFinished(status="done", seq=99))
    assert not live.outbox.unsaved
    assert live.saved_cases() == keys(0, 1)
    assert live.saver.number == number == 2
    with closing(Store.open(live.path)) as store:
        assert store.summary("r").status == "done"
    with pytest.raises(StoreError):
        old.runs()  # it is closed
    if live.path.exists():
        remove_all(live.path)
    Saver(live.outbox, "next").begin(replace(STARTED, run_id="next"))
    assert live.outbox.number("next") == 1, "a run that has ended is not copied into another database"


def test_a_run_that_somebody_deletes_is_not_brought_back(live):
    live.saver.begin(STARTED)
    live.finish_case(0)
    with closing(Store.open(live.path)) as store:
        store.delete("r", force=True)
    live.finish_case(1)
    live.saver.finish(model.RunFinished(status="done"))
    unsaved = live.outbox.unsaved
    assert not unsaved.waiting
    assert isinstance(unsaved.lost["r"], LostRunError)
    assert live.unsaved_cases == set(keys(1))
    with closing(Store.open(live.path)) as store:
        assert store.count() == 0
    live.other.close()
    remove_all(live.path)
    Saver(live.outbox, "next").begin(replace(STARTED, run_id="next"))
    with closing(Store.open(live.path)) as store:
        assert [run.run_id for run in store.runs()] == ["next"]


def test_a_reading_that_cannot_be_written_costs_no_case(live):
    live.saver.begin(STARTED)
    live.finish_case(0, model.TelemetryRead(host={"cpu_pct": model.Reading(float("nan"))}, seq=2))
    assert not live.outbox.unsaved
    assert live.saved_cases() == keys(0)


def test_a_case_that_cannot_be_written_does_not_hold_up_the_next(live):
    live.saver.begin(STARTED)
    live.lock()
    live.saver.note(half_round(CASES[0].key, 2**70))  # no column takes that
    live.saver.settle(model.CaseFinished(case=CASES[0].key))
    live.finish_case(1)
    live.unlock()
    live.outbox.flush(LONG_S)
    assert (live.saved_cases(), live.unsaved_cases) == (keys(1), set(keys(0)))
    assert not live.outbox.unsaved.waiting


def test_what_waits_is_bounded_readings_go_first_and_the_end_is_kept(live, monkeypatch):
    live.saver.begin(STARTED)
    live.lock()
    reading = model.TelemetryRead(host={"cpu_pct": model.Reading(1.0)}, seq=1)
    live.finish_case(0, *[reading] * 100)
    monkeypatch.setattr(outbox, "MOST_BYTES", 10_000)  # two cases, without readings
    for index in (1, 2, 3):
        live.finish_case(index)
    live.saver.finish(model.RunFinished(status="done", seq=99))
    live.unlock()
    live.outbox.flush(LONG_S)
    saved = live.saved_cases()
    assert saved == keys(0, 1, 2)
    assert live.unsaved_cases == set(keys(3))
    assert "waiting" in str(live.outbox.unsaved.lost["r"])
    with closing(Store.open(live.path)) as store:
        assert store.summary("r").status == "done"
        assert not [event for event in store.load("r") if isinstance(event, model.TelemetryRead)]


def test_a_database_of_a_newer_version_takes_nothing_and_says_why(tmp_path):
    path = tmp_path / "results.db"
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")
    outbox_ = Outbox(lambda wait_s: Store.open(path, wait_s=wait_s), Store.open(path))
    saver = Saver(outbox_, "r")
    saver.begin(STARTED)
    cause = outbox_.unsaved.cause
    assert isinstance(cause, StoreError)
    assert "newer" in str(cause)
    outbox_.close()
