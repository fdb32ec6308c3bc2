"""A full disk: the error of the case that does not fit, and all earlier cases are kept."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from itertools import count

import pytest
from tests.helpers.command_line import ROOT
from tests.helpers.runs.read_back import integrity_check
from tests.helpers.runs.store_writer import case_events, run_started

from cpugpu_tui.errors import StoreError
from cpugpu_tui.model import CaseFinished
from cpugpu_tui.store import Store, open_to_read

FILLING = """
import os, signal, sys
from pathlib import Path
from itertools import count
from tests.helpers.runs.store_writer import case_events, run_started
from cpugpu_tui.errors import StoreError
from cpugpu_tui.store import Store
store = Store.open(Path(sys.argv[1]))
store.begin_run(run_started("r"))
try:
    for index in count(1):
        store.commit_cases("r", [case_events(index)], [])
except StoreError:
    pass
try:
    for index in count(1):  # what a whole case did not fit into
        store.tag("r", [str(index)])
except StoreError:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 1 MiB; mounting one needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def commit_for_ever(store, committed):
    for index in count(1):
        store.commit_cases("r", [case_events(index)], [])
        committed.append(index)


def write_for_ever(path):
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def cases_in(store):
    return sum(isinstance(event, CaseFinished) for event in store.load("r"))


def test_a_case_that_does_not_fit_is_said_and_the_rest_stays(small_disk):
    path = small_disk / "results.db"
    with closing(Store.open(path)) as store:
        store.begin_run(run_started("r"))
        committed: list[int] = []
        with pytest.raises(StoreError, match="is full") as caught:
            commit_for_ever(store, committed)
        assert "--db" in caught.value.remedy
        fitted = len(committed)
        assert fitted > 5
        assert cases_in(store) == fitted
        assert integrity_check(store) == []
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    with closing(Store.open(path)) as store:
        assert integrity_check(store) == []
        assert cases_in(store) == fitted
        store.commit_cases("r", [case_events(fitted + 1)], [])
        assert cases_in(store) == fitted + 1


def test_a_disk_that_is_full_from_the_start_is_said(small_disk):
    with pytest.raises(OSError, match="No space"):
        write_for_ever(small_disk / "ballast")
    with pytest.raises(StoreError, match="full"):
        Store.open(small_disk / "results.db")


def test_the_history_of_a_full_disk_can_be_looked_at(small_disk):
    """The writer was killed, so the last cases are in the journal, and the disk is full."""
    path = small_disk / "results.db"
    killed = subprocess.run([sys.executable, "-c", FILLING, str(path)], capture_output=True, text=True, cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with pytest.raises(OSError, match="space"):
        write_for_ever(small_disk / "ballast")
    with pytest.raises(StoreError, match="is full"):
        Store.open(path)
    with closing(open_to_read(path)) as seen:
        assert cases_in(seen) > 5
