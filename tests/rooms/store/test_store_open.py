"""Opening a database: creation, errors, damage, and older and newer versions."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cpugpu_tui import model
from cpugpu_tui.config import paths
from cpugpu_tui.errors import LockedError, NewerStoreError, StoreError
from cpugpu_tui.store import Store, database, open_store, open_to_read, schema

STARTED = model.RunStarted(
    run_id="r1", series_id="s", plan=model.Plan("quick", (), words=("run", "quick")), environment={}
)
NOBODY = 65534


def refusal(path):
    """Return the error of a database that cannot be opened; it has a cause and a remedy."""
    with pytest.raises(StoreError) as caught:
        Store.open(path).close()
    error = caught.value
    assert str(path.parent) in error.message
    assert error.message.endswith(".")
    assert error.remedy.endswith(".")
    assert "\n" not in str(error)
    return error


def readable(error, folder):
    """Return what people read, without the path of this test's folder."""
    return str(error).replace(str(folder), "/data")


@contextmanager
def without_root():
    """Yield a folder of an ordinary user. Tests run by root become that user, because root may write anywhere."""
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


def test_a_missing_folder_is_named(tmp_path, words):
    words(readable(refusal(tmp_path / "typo" / "results.db"), tmp_path))
    assert not (tmp_path / "typo").exists()


def test_a_file_in_place_of_the_folder_is_named(tmp_path, words):
    (tmp_path / "file").write_text("")
    assert f"{tmp_path}/file" in refusal(tmp_path / "file" / "results.db").message
    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path / "file" / "deeper" / "results.db", create_parents=True)
    words(readable(caught.value, tmp_path))


def test_a_folder_in_place_of_the_file_is_named(tmp_path, words):
    words(readable(refusal(tmp_path), tmp_path))


def test_a_folder_in_which_nothing_can_be_created(words):
    words(str(refusal(Path("/proc/results.db"))))


def test_a_read_only_folder():
    with without_root() as folder:
        folder.chmod(0o500)
        refusal(folder / "results.db")


def test_a_read_only_file(words):
    with without_root() as folder:
        path = folder / "results.db"
        Store.open(path).close()
        path.chmod(0o400)
        error = refusal(path)
    words(readable(error, folder))


def test_a_read_only_folder_around_an_existing_database():
    with without_root() as folder:
        path = folder / "results.db"
        Store.open(path).close()
        folder.chmod(0o500)
        refusal(path)


def test_garbage_is_refused_and_left_alone(tmp_path, words):
    path = tmp_path / "results.db"
    garbage = b"no database, but dear to someone\n" * 100
    path.write_bytes(garbage)
    words(readable(refusal(path), tmp_path))
    assert path.read_bytes() == garbage


def damage(path):
    """Create a database of one run, damage all of it except the header, and return its content."""
    with closing(Store.open(path)) as store:
        store.begin_run(STARTED)
    content = path.read_bytes()
    damaged = content[:100] + b"\xff" * (len(content) - 100)
    path.write_bytes(damaged)
    return damaged


def test_a_damaged_database_is_kept_aside_and_a_new_one_begun(tmp_path, words):
    path = tmp_path / "results.db"
    damaged = damage(path)
    with closing(Store.open(path)) as store:
        (aside,) = tmp_path.glob("results.db.damaged-*")
        words(store.remark.replace(str(tmp_path), "/data").replace(aside.name, "results.db.damaged-TIME"))
        assert aside.read_bytes() == damaged
        assert (store.runs(), store.begin_run(STARTED)) == ([], 1)
    with closing(Store.open(path)) as store:
        assert store.remark is None
        assert len(store.runs()) == 1


def test_two_damaged_databases_of_one_second_are_both_kept(tmp_path):
    path = tmp_path / "results.db"
    for _ in range(2):
        damage(path)
        Store.open(path).close()
    assert len(list(tmp_path.glob("results.db.damaged-*"))) == 2


def test_who_only_reads_leaves_a_damaged_database_where_it_is(tmp_path, words):
    path = tmp_path / "results.db"
    damaged = damage(path)
    with pytest.raises(StoreError) as caught:
        open_to_read(path)
    words(readable(caught.value, tmp_path))
    assert path.read_bytes() == damaged


def overwrite_end(path, pages):
    """Overwrite the last pages of a database."""
    content = bytearray(path.read_bytes())
    content[-pages * 4096 :] = b"\xff" * (pages * 4096)
    path.write_bytes(content)


def test_damage_that_is_met_later_is_looked_for_at_the_next_start(tmp_path):
    """Opening reads the first pages only, so every later run would meet the same damage."""
    path = tmp_path / "results.db"
    with closing(Store.open(path)) as store:
        store.begin_run(replace(STARTED, run_id="large", environment={"padding": "x" * 200_000}))
    overwrite_end(path, 8)  # the end of that text: it alone is so large
    with closing(Store.open(path)) as store:
        assert store.remark is None
        with pytest.raises(StoreError, match="damaged"):
            store.load("large")
    with closing(Store.open(path)) as store:
        assert "damaged" in str(store.remark)
        assert store.runs() == []
    assert len(list(tmp_path.iterdir())) <= 4  # old and new, and the new one's journals


@pytest.mark.parametrize("pages", [3, 4, 5, 6, 30])
def test_damage_that_is_met_while_opening_ends_no_command(tmp_path, pages):
    """Every start looks for interrupted runs. Damage met there ended this command and the next one."""
    path = tmp_path / "results.db"
    with closing(Store.open(path)) as store:
        for index in range(40):
            store.begin_run(replace(STARTED, run_id=f"r{index}", environment={"padding": "x" * 3000}))
    overwrite_end(path, pages)
    with closing(Store.open(path)) as store, suppress(StoreError):
        store.runs()  # which page holds what is SQLite's choice: damage may be met only here
    with closing(Store.open(path)) as store:
        store.begin_run(replace(STARTED, run_id="next"))


def test_at_the_default_place_anything_that_is_no_database_is_kept_aside(tmp_path, monkeypatch):
    """After a power cut a file may hold only zeros. At the default path nobody mistyped its name."""
    monkeypatch.delenv("CPUGPU_DB", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    path = paths.default_database_path()
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(8192))
    with closing(open_store()) as store:
        assert "damaged" in str(store.remark)
    assert [file.read_bytes() for file in path.parent.glob("*.damaged-*")] == [bytes(8192)]


def test_another_programs_database_is_refused_and_left_alone(tmp_path, words):
    path = tmp_path / "cookies.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE cookie (name)")
    before = path.read_bytes()
    words(readable(refusal(path), tmp_path))
    assert path.read_bytes() == before


def test_a_database_that_another_program_holds(tmp_path, monkeypatch, words):
    path = tmp_path / "results.db"
    with closing(Store.open(path)) as store, closing(sqlite3.connect(path)) as other:
        store._connection.execute("PRAGMA busy_timeout = 0")  # five seconds is long for a test
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LockedError) as caught:
            store.begin_run(STARTED)
        words(readable(caught.value, tmp_path))
        assert store.runs() == []  # reading goes on
        monkeypatch.setattr(database, "journal_mode", lambda *_: "DELETE")
        store._choose_journal()  # the lock prevents it, and any mode is safe
        other.execute("ROLLBACK")
        assert store.begin_run(STARTED) == 1


# ------------------------------------------------------------------ what is created


def test_the_default_place_is_created_and_a_named_folder_is_not(tmp_path, monkeypatch):
    monkeypatch.delenv("CPUGPU_DB", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "deep" / "data"))
    open_store().close()
    assert paths.default_database_path().is_file()
    with pytest.raises(StoreError, match="typo"):
        open_store(tmp_path / "typo" / "results.db")
    monkeypatch.setenv("CPUGPU_DB", str(tmp_path / "typo" / "results.db"))
    with pytest.raises(StoreError, match="typo"):
        open_store()


def test_an_empty_file_becomes_a_database(tmp_path):
    path = tmp_path / "results.db"
    path.touch()
    with closing(Store.open(path)) as store:
        assert store.begin_run(STARTED) == 1
        assert store.notice is None


def test_a_commit_survives_a_power_cut(tmp_path):
    with closing(Store.open(tmp_path / "results.db")) as store:
        pragmas = ("journal_mode", "synchronous", "foreign_keys", "user_version")
        values = [store._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
        assert values == ["wal", 2, 1, 5]  # 2 is FULL


# ------------------------------------------------------------------ newer and older


def test_a_newer_database_can_be_read_and_is_not_written(tmp_path, words):
    path = tmp_path / "results.db"
    with closing(Store.open(path)) as store:
        store.begin_run(STARTED)
        store.finish_run("r1", model.RunFinished(status="done"))
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with closing(Store.open(path)) as store:
        words(store.notice.replace(str(tmp_path), "/data"))
        assert store.runs()[0].status == "done"
        assert store.load("r1")[0] == model.RunStarted(
            run_id="r1", series_id="s", plan=model.Plan("quick", (), words=("run", "quick")), environment={}, number=1
        )
        with pytest.raises(NewerStoreError):
            store.begin_run(STARTED)
        with pytest.raises(NewerStoreError):
            store.commit_cases("r1", [[model.CaseFinished(case="x")]], [])
    assert path.read_bytes() == before


def test_a_newer_database_without_a_column_we_read_is_a_sentence(tmp_path, words):
    path = tmp_path / "results.db"
    with closing(Store.open(path)) as store:
        store.begin_run(STARTED)
    with closing(sqlite3.connect(path)) as other:
        other.execute("ALTER TABLE run RENAME COLUMN environment TO facts")
        other.execute("PRAGMA user_version = 99")
    with closing(Store.open(path)) as store, pytest.raises(StoreError) as caught:
        store.load("r1")
    words(readable(caught.value, tmp_path))


def test_a_database_from_before_the_first_release_is_left_alone(tmp_path):
    path = tmp_path / "results.db"
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {schema.OLDEST - 1}")
    assert "another program's database" in refusal(path).message


def ceilings_of(device, wall_ns, **more):
    usual: dict[str, Any] = {"label": "H200", "uuid": None, "hostname": "node1", "torch": "2.11", "threads": 16}
    usual |= {"flops": {"float32": 5e13}, "matmul_sizes": {"float32": 8192}, "copy_bytes_per_s": 4e12}
    usual |= {"copy_bytes": 2**30, "launch_ns": 1e4, "transfers": {"h2d_pinned": model.Line(7e3, 5.5e10)}}
    return model.Ceilings(device=device, measured_wall_ns=wall_ns, **(usual | more))


def test_ceilings_are_kept_per_machine_and_torch_build_the_newest_of_each_device(tmp_path):
    with closing(Store.open(tmp_path / "results.db")) as store:
        for found in (
            ceilings_of("cpu", 1), ceilings_of("cpu", 3), ceilings_of("cuda:0", 2, uuid="GPU-1"),
            ceilings_of("cpu", 9, hostname="node2"), ceilings_of("cpu", 9, torch="2.13"),
        ):  # fmt: skip
            store.keep_ceilings(found)
        assert store.ceilings("node1", "2.11") == (ceilings_of("cpu", 3), ceilings_of("cuda:0", 2, uuid="GPU-1"))
        assert (store.ceilings("node3", "2.11"), len(store.ceilings())) == ((), 4)


def test_an_upgrade_that_fails_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "results.db"
    with closing(Store.open(path)) as store:
        store.begin_run(STARTED)
    broken = ("CREATE TABLE later (name TEXT)", "CREATE TABLE run (twice TEXT)")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, broken))
        assert "already exists" in refusal(path).message
    with closing(Store.open(path)) as store:
        assert [run.run_id for run in store.runs()] == ["r1"]
        assert not store._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'later'").fetchall()
