"""Databases written by the code of every released version can be opened, upgraded and read; the old file is kept.

Each holds `run matmul --size 64,2048 --rounds 3 --simulate default` and `run vector-dot --variant dot --size 100,1000
--rounds 3 --simulate error_size=1000`; only the names of the machine were replaced. The last has a tag and a baseline.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.helpers.command_line import ROOT
from tests.helpers.runs.read_back import integrity_check

from cpugpu_tui.errors import StoreError
from cpugpu_tui.model import Calibrated, CaseFinished, CaseStarted, DeviceSampled, DevicesFound, RunFinished, RunStarted
from cpugpu_tui.state.folding import folded
from cpugpu_tui.store import Store, open_read_only, schema

GOLDEN = ROOT / "tests" / "golden"
NEWEST = len(schema.MIGRATIONS)
VERSIONS = range(schema.OLDEST, NEWEST + 1)
OLDER = range(schema.OLDEST, NEWEST)


def golden(version, folder):
    """Return a copy of a version's database."""
    return Path(shutil.copy(GOLDEN / f"v{version}.db", folder / "results.db"))


def test_there_is_a_file_of_every_version():
    assert sorted(file.name for file in GOLDEN.glob("*.db")) == [f"v{version}.db" for version in VERSIONS]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_database_of_any_version_shows_its_runs(version, tmp_path):
    with closing(Store.open(golden(version, tmp_path))) as store:
        assert integrity_check(store) == []
        second, first = store.runs()
        assert (first.name, first.status, first.cases_ok, first.cases_failed) == ("matmul", "done", 2, 0)
        assert (second.name, second.status, second.cases_ok, second.cases_failed) == ("vector-dot", "done", 1, 1)
        assert (first.devices, first.hostname) == (("simulated CPU", "simulated GPU"), "node1")
        state = folded(store.load(first.run_id))
        facts = state.run.environment
        assert (facts["hostname"], facts["cpu"], facts["interpreter"]) == ("node1", "Some CPU", "/opt/python")
        assert facts["argv"][:2] == ["run", "matmul"]
        large = state.rows["matmul/default/2048/float32/tall"]
        assert 35 < large.own_comparison.speedup < 42
        assert isinstance(state.finished, RunFinished)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stream_of_any_version_is_whole(version, tmp_path):
    with closing(Store.open(golden(version, tmp_path))) as store:
        events = store.load(store.find("1"))
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[1], DevicesFound)
    assert isinstance(events[-1], RunFinished)
    for kind, count in ((CaseStarted, 2), (Calibrated, 4), (CaseFinished, 2)):
        assert len([event for event in events if isinstance(event, kind)]) == count, kind
    rounds = [event for event in events if isinstance(event, DeviceSampled) and event.round_index > 0]
    assert len(rounds) == 2 * 2 * 3  # cases, devices, rounds
    assert all(event.samples["latency"] for event in rounds)


@pytest.mark.parametrize("version", OLDER)
def test_an_upgrade_keeps_the_old_file_and_says_where(version, tmp_path):
    path = golden(version, tmp_path)
    with closing(Store.open(path)) as store:
        assert f"from version {version} to {NEWEST}" in store.remark
        assert f"results.db.v{version}" in store.remark
    with closing(sqlite3.connect(tmp_path / f"results.db.v{version}")) as old:
        assert old.execute("PRAGMA user_version").fetchone() == (version,)
        assert old.execute("SELECT count(*) FROM run").fetchone() == (2,)
    with closing(Store.open(path)) as store:
        assert store.remark is None


def test_tags_and_baselines_are_found_again(tmp_path):
    with closing(Store.open(golden(NEWEST, tmp_path))) as store:
        first = store.summary(store.find("1"))
        assert (first.tags, first.baselines) == (("golden",), ("main",))
        assert store.baselines().get("main") == first.series_id


@pytest.mark.parametrize("version", OLDER)
def test_an_older_database_that_cannot_be_written_is_refused_in_a_sentence(version, tmp_path):
    path = golden(version, tmp_path)
    with pytest.raises(StoreError, match=f"version {version} "):
        open_read_only(path).close()
    assert path.read_bytes() == (GOLDEN / f"v{version}.db").read_bytes()
