"""Commands that only read work with a history that cannot be written."""

import os
import shutil
import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from tests.rooms.store.test_store_open import STARTED, without_root

from cpugpu_tui.cli.history import HistoryGiven, history, show
from cpugpu_tui.cli.options import Given
from cpugpu_tui.errors import StoreError
from cpugpu_tui.model import RunFinished
from cpugpu_tui.store import Store, is_read_only, open_to_read, schema

BARE: Any = SimpleNamespace(invoked_subcommand=None, command=SimpleNamespace(params=[]))
"""The part of typer's context that `history` uses."""


def one_run(path):
    """Save a run and close the database, which leaves no journal."""
    with closing(Store.open(path)) as store:
        store.begin_run(STARTED)
        store.finish_run("r1", RunFinished(status="done"))


@pytest.fixture
def folder(tmp_path, capsys):
    # What is imported on first use must be there before: an interpreter in root's home is closed to others.
    known = tmp_path / "results.db"
    one_run(known)
    history(HistoryGiven(BARE, {"database": known}))
    show(Given(BARE, {"database": known}))
    capsys.readouterr()
    with without_root() as found:
        yield found


@pytest.mark.parametrize("modes", [(0o500, 0o600), (0o700, 0o400), (0o500, 0o400)], ids=["folder", "file", "both"])
def test_it_is_listed_and_shown(folder, modes, capsys):
    path = folder / "results.db"
    one_run(path)
    before = sorted(os.listdir(folder))
    assert not is_read_only(path)
    folder.chmod(modes[0])
    path.chmod(modes[1])
    assert is_read_only(path)
    history(HistoryGiven(BARE, {"database": path}))
    show(Given(BARE, {"database": path}))
    said = capsys.readouterr().out
    assert "quick" in said
    assert "cpugpu-tui run quick" in said
    assert sorted(os.listdir(folder)) == before


def test_it_says_why_nothing_is_saved(folder):
    path = folder / "results.db"
    one_run(path)
    folder.chmod(0o500)
    with closing(open_to_read(path)) as store:
        assert "read-only" in str(store.notice)
        with pytest.raises(StoreError, match="read-only"):
            store.begin_run(STARTED)
        assert [run.number for run in store.runs()] == [1]


def test_where_there_is_none_or_it_can_be_written_nothing_is_special(folder):
    path = folder / "results.db"
    with closing(open_to_read(path)) as store:
        assert store.begin_run(STARTED) == 1
    folder.chmod(0o500)
    assert not is_read_only(folder / "other.db")
    with pytest.raises(StoreError, match=r"other\.db"):
        open_to_read(folder / "other.db")


def test_runs_that_are_in_an_unreadable_journal_are_not_silently_left_out(folder):
    path, copy = folder / "results.db", folder / "copy.db"
    one_run(path)
    with closing(Store.open(path)) as store:
        store.mark_interrupted()
        store._connection.execute("UPDATE run SET name = 'newest'")
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{copy}{end}")
    folder.chmod(0o500)
    with pytest.raises(StoreError, match=r"copy\.db-wal"):
        open_to_read(copy)


def test_an_older_version_cannot_be_upgraded_there_and_is_left_alone(folder):
    path = folder / "results.db"
    one_run(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS) - 1}")
    folder.chmod(0o500)
    with pytest.raises(StoreError, match=f"version {len(schema.MIGRATIONS) - 1} "):
        open_to_read(path)


def test_what_is_no_database_is_said_as_ever(folder):
    path = folder / "results.db"
    path.write_bytes(b"no database, but dear to someone\n" * 100)
    folder.chmod(0o500)
    with pytest.raises(StoreError, match=str(path)):
        open_to_read(path)


def test_a_database_that_another_program_holds_is_read_and_takes_nothing(tmp_path, capsys):
    path = tmp_path / "results.db"
    one_run(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        show(Given(BARE, {"database": path}))
        with closing(open_to_read(path)) as store, pytest.raises(StoreError, match="read-only"):
            store.tag("r1", ["new"])
        other.execute("ROLLBACK")
    assert "quick" in capsys.readouterr().out
