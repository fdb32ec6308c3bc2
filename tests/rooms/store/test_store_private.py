"""Only its owner may read a history, whatever the umask. A folder that the user chose is not changed."""

import os
import sqlite3
import stat
from contextlib import closing

import pytest
from tests.rooms.store.test_store_open import STARTED, damage

from cpugpu_tui.config import paths
from cpugpu_tui.export import target
from cpugpu_tui.store import Store, open_store, schema
from cpugpu_tui.telemetry.recording import Recorder


@pytest.fixture(autouse=True, params=[0o000, 0o022], ids=["umask-0", "umask-022"])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def default_place(tmp_path, monkeypatch):
    """The path of the default database, which does not exist yet."""
    monkeypatch.delenv("CPUGPU_DB", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return paths.default_database_path()


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def modes(folder):
    return {path.name: mode(path) for path in folder.iterdir()}


def test_the_database_and_its_journals_are_for_their_owner(default_place):
    with closing(open_store()) as store:
        store.begin_run(STARTED)
        assert mode(default_place.parent) == 0o700
        assert modes(default_place.parent) == dict.fromkeys(("results.db", "results.db-wal", "results.db-shm"), 0o600)
        assert store.remark is None


def test_a_new_file_in_a_persons_own_folder_is_for_its_owner_and_the_folder_stays(tmp_path):
    tmp_path.chmod(0o755)
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "target.db")  # dangling: SQLite would create what it leads to
    for path in (tmp_path / "x.db", link):
        with closing(Store.open(path)) as store:
            store.begin_run(STARTED)
            assert mode(path) == 0o600
    assert mode(tmp_path) == 0o755


def test_what_others_could_read_at_the_default_place_is_tightened_once_and_said(default_place):
    open_store().close()
    default_place.parent.chmod(0o755)
    default_place.chmod(0o644)
    with closing(open_store()) as store:
        assert "0700" in str(store.remark)
    assert (mode(default_place.parent), mode(default_place)) == (0o700, 0o600)
    with closing(open_store()) as store:
        assert store.remark is None


def test_what_a_person_shares_on_purpose_stays_shared(tmp_path):
    path = tmp_path / "shared.db"
    Store.open(path).close()
    tmp_path.chmod(0o755)
    path.chmod(0o640)
    with closing(Store.open(path)) as store:
        assert store.remark is None
    assert (mode(tmp_path), mode(path)) == (0o755, 0o640)


def test_backups_and_damaged_files_at_the_default_place_are_for_their_owner(default_place, monkeypatch):
    with closing(open_store()) as store:
        store.begin_run(STARTED)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("CREATE TABLE later (name TEXT)",)))
        open_store().close()
    default_place.unlink()
    damage(default_place)
    default_place.chmod(0o644)
    open_store().close()
    found = modes(default_place.parent)
    assert len(found) == 3, found
    assert set(found.values()) == {0o600}


def test_a_backup_is_never_readable_by_others_not_even_while_it_is_written(tmp_path):
    seen: list[int] = []

    class Watched(sqlite3.Connection):
        def backup(self, copy, **more):  # type: ignore[override]
            seen.extend(modes(tmp_path / "copies").values())
            super().backup(copy)

    (tmp_path / "copies").mkdir()
    Store.open(tmp_path / "x.db").close()
    with closing(sqlite3.connect(tmp_path / "x.db", factory=Watched)) as connection:
        schema.back_up(connection, tmp_path / "copies" / "x.db.v1")
    assert seen == [0o600]
    assert modes(tmp_path / "copies") == {"x.db.v1": 0o600}


def test_a_trace_is_for_its_owner(tmp_path):
    Recorder(tmp_path / "trace.ndjson")
    assert mode(tmp_path / "trace.ndjson") == 0o600


def test_an_export_into_our_own_folder_is_for_its_owner(default_place, tmp_path):
    open_store().close()
    target.write(default_place.parent / "run.json", [b"{}"])
    assert mode(default_place.parent / "run.json") == 0o600
    target.write(tmp_path / "run.json", [b"{}"])
    assert mode(tmp_path / "run.json") & 0o044 == 0o044
