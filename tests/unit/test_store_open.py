"""Opening: what is created, what is refused in one sentence, what older and newer databases become."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cpugpu_tui.errors import StoreError
from cpugpu_tui.model import CaseFinished, Plan, RunFinished, RunStarted
from cpugpu_tui.runs import paths
from cpugpu_tui.runs.store import Store, open_store, schema

STARTED = RunStarted(run_id="r1", series_id="s", plan=Plan("quick", ()), environment={})
NOBODY = 65534


def refusal(path: Path) -> StoreError:
    """Open a database that cannot be opened; check that what the person reads is a cause and a remedy."""
    with pytest.raises(StoreError) as caught:
        Store.open(path).close()
    error = caught.value
    assert str(path.parent) in error.message
    assert error.message.endswith(".")
    assert error.remedy.endswith(".")
    assert "\n" not in str(error)
    return error


@contextmanager
def without_root() -> Iterator[Path]:
    """Give a folder of an ordinary user and, where the tests run as root, become that user: root may write anywhere."""
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    try:
        if root:
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


# ------------------------------------------------------------------ what is refused


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "typo" / "results.db").message
    assert not (tmp_path / "typo").exists()


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "does not exist" in refusal(tmp_path / "file" / "results.db").message
    with pytest.raises(StoreError, match="cannot be created: Not a directory"):
        Store.open(tmp_path / "file" / "deeper" / "results.db", create_parents=True)


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path).message


def test_a_folder_in_which_nothing_can_be_created() -> None:
    assert "neither be opened nor created" in refusal(Path("/proc/results.db")).message


def test_a_read_only_folder() -> None:
    with without_root() as folder:
        folder.chmod(0o500)
        refusal(folder / "results.db")


def test_a_read_only_file() -> None:
    with without_root() as folder:
        path = folder / "results.db"
        Store.open(path).close()
        path.chmod(0o400)
        assert "read-only" in refusal(path).message


def test_a_read_only_folder_around_an_existing_database() -> None:
    with without_root() as folder:
        path = folder / "results.db"
        Store.open(path).close()
        folder.chmod(0o500)
        refusal(path)


def test_garbage_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    garbage = b"no database, but dear to someone\n" * 100
    path.write_bytes(garbage)
    assert "is not a database" in refusal(path).message
    assert path.read_bytes() == garbage


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with closing(Store.open(path)) as store:
        store.begin_run(STARTED)
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    assert "is damaged" in refusal(path).message


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "cookies.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE cookie (name)")
    before = path.read_bytes()
    assert "another program's database" in refusal(path).message
    assert path.read_bytes() == before


def test_a_database_that_another_program_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.db"
    with closing(Store.open(path)) as store, closing(sqlite3.connect(path)) as other:
        store._connection.execute("PRAGMA busy_timeout = 0")  # five seconds is long for a test
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked by another program"):
            store.begin_run(STARTED)
        assert store.runs() == []  # reading goes on
        other.execute("ROLLBACK")
        assert store.begin_run(STARTED) == 1


# ------------------------------------------------------------------ what is created


def test_the_default_place_is_created_and_a_named_folder_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CPUGPU_DB", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "deep" / "data"))
    open_store().close()
    assert paths.default_database_path().is_file()
    with pytest.raises(StoreError, match="does not exist"):
        open_store(tmp_path / "typo" / "results.db")
    monkeypatch.setenv("CPUGPU_DB", str(tmp_path / "typo" / "results.db"))
    with pytest.raises(StoreError, match="does not exist"):
        open_store()


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    path.touch()
    with closing(Store.open(path)) as store:
        assert store.begin_run(STARTED) == 1
        assert store.notice is None


def test_a_commit_survives_a_power_cut(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "results.db")) as store:
        pragmas = ("journal_mode", "synchronous", "foreign_keys", "user_version")
        values = [store._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
        assert values == ["wal", 2, 1, 1]  # 2 is FULL


# ------------------------------------------------------------------ newer and older


def test_a_newer_database_can_be_read_and_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with closing(Store.open(path)) as store:
        store.begin_run(STARTED)
        store.finish_run("r1", RunFinished(status="done"))
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with closing(Store.open(path)) as store:
        assert store.notice is not None
        assert "newer cpugpu-tui" in store.notice
        assert "Update" in store.notice
        assert store.runs()[0].status == "done"
        assert store.load("r1")[0] == RunStarted(
            run_id="r1", series_id="s", plan=Plan("quick", ()), environment={}, number=1
        )
        with pytest.raises(StoreError, match="newer"):
            store.begin_run(STARTED)
        with pytest.raises(StoreError, match="newer"):
            store.commit_case("r1", [CaseFinished(case="x")], [])
    assert path.read_bytes() == before


def test_a_newer_database_without_a_column_we_read_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with closing(Store.open(path)) as store:
        store.begin_run(STARTED)
    with closing(sqlite3.connect(path)) as other:
        other.execute("ALTER TABLE run RENAME COLUMN environment TO facts")
        other.execute("PRAGMA user_version = 99")
    with closing(Store.open(path)) as store, pytest.raises(StoreError, match="cannot be used"):
        store.load("r1")


def test_an_older_database_is_copied_then_upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.db"
    with closing(Store.open(path)) as store:
        store.begin_run(STARTED)
    second = ("ALTER TABLE run ADD COLUMN note TEXT", "CREATE TABLE baseline (name TEXT)")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, second))
    with closing(Store.open(path)) as store:
        assert [run.run_id for run in store.runs()] == ["r1"]
    with closing(sqlite3.connect(path)) as new, closing(sqlite3.connect(tmp_path / "results.db.v1")) as old:
        assert new.execute("PRAGMA user_version").fetchone() == (2,)
        assert new.execute("SELECT note FROM run").fetchone() == (None,)
        assert old.execute("PRAGMA user_version").fetchone() == (1,)
        assert old.execute("SELECT run_id FROM run").fetchone() == ("r1",)


def test_an_upgrade_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.db"
    with closing(Store.open(path)) as store:
        store.begin_run(STARTED)
    broken = ("CREATE TABLE baseline (name TEXT)", "CREATE TABLE run (twice TEXT)")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, broken))
        assert "already exists" in refusal(path).message
    with closing(Store.open(path)) as store:
        assert [run.run_id for run in store.runs()] == ["r1"]
        assert not store._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'baseline'").fetchall()
