"""File locations."""

import os
from pathlib import Path

import pytest

from cpugpu_tui.config import paths
from cpugpu_tui.errors import StoreError


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "CPUGPU_DB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_everything_lies_where_xdg_says_and_nothing_is_created(home):
    assert paths.database_path() == home / ".local/share/cpugpu-tui/results.db"
    assert paths.config_dir() == home / ".config/cpugpu-tui"
    assert paths.log_path().parent == home / ".local/state/cpugpu-tui"
    assert list(home.iterdir()) == []


def test_the_option_wins_over_the_variable_and_the_variable_over_the_default(home, monkeypatch):
    monkeypatch.setenv("CPUGPU_DB", "/srv/team.db")
    assert paths.database_path() == Path("/srv/team.db")
    assert paths.database_path(Path("mine.db")) == Path("mine.db")
    monkeypatch.setenv("CPUGPU_DB", "")
    assert paths.database_path() == paths.default_database_path()


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_a_database_that_is_no_file_is_called_that(kind, tmp_path):
    """`CPUGPU_DB=/dev/null` ended in "disk I/O error"."""
    path = Path("/dev/null") if kind == "device" else tmp_path / "pipe"
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(StoreError) as error:
        paths.prepare_folder(path, create_parents=False)
    assert "device or a pipe" in error.value.message
