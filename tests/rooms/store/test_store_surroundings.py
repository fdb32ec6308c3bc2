"""How the store depends on the machine: its processes and file systems."""

import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cpugpu_tui.config import paths
from cpugpu_tui.config.paths import journal_mode
from cpugpu_tui.store import Store, open_store
from cpugpu_tui.store.rows import Owner

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
40 22 0:35 / /home rw,relatime shared:20 - nfs4 filer:/export/home rw,vers=4.2
41 40 254:1 / /home/local rw,relatime - xfs /dev/nvme0n1 rw
42 22 0:36 / /mnt/big\\040share rw - lustre mds@tcp:/scratch rw
43 22 0:37 / /labs rw - ext4 /dev/sdb rw
44 22 0:38 / /labs rw - fuse.sshfs someone@host: rw
a line that is none
"""


@pytest.mark.parametrize(
    ("folder", "mode"),
    [
        ("/var/lib", "WAL"),
        ("/home/ada", "DELETE"),
        ("/home", "DELETE"),
        ("/homes/ada", "WAL"),
        ("/home/local/ada", "WAL"),
        ("/mnt/big share/ada", "DELETE"),
        ("/labs/ada", "DELETE"),
    ],
)
def test_network_file_systems_get_no_wal(folder, mode):
    assert journal_mode(Path(folder), MOUNTS) == mode


def test_without_a_mount_table_it_is_wal():
    assert journal_mode(Path("/home/ada"), "") == "WAL"


def test_this_process_is_alive():
    assert not Owner.current().is_gone()


def test_an_ended_process_is_gone():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(timeout=120)
    assert replace(Owner.current(), pid=child.pid, process_started_ticks=0).is_gone()


def test_a_process_that_ended_and_that_nobody_waits_for_is_gone():
    """In a container whose first process never waits, a killed run was shown as running, and could not be resumed."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert replace(Owner.current(), pid=child.pid, process_started_ticks=0).is_gone()
    child.wait()


def test_a_pid_given_to_another_process_is_gone():
    assert replace(Owner.current(), process_started_ticks=1).is_gone()


def test_a_process_before_the_reboot_is_gone():
    assert replace(Owner.current(), boot_id="another").is_gone()


def test_another_persons_process_is_alive():
    init = replace(Owner.current(), pid=1, process_started_ticks=0)
    if os.geteuid() != 0:
        assert not init.is_gone()
        return
    os.setresuid(65534, 65534, 0)  # the real user too: it is the one that signals are judged by
    try:
        with pytest.raises(PermissionError):
            os.kill(1, 0)
        assert not init.is_gone()
    finally:
        os.setresuid(0, 0, 0)


def test_nothing_is_said_about_another_hosts_process():
    assert not replace(Owner.current(), hostname="elsewhere", boot_id="another", pid=2**22 + 1).is_gone()


# ------------------------------------------------------------------ a home on a network file system


@pytest.fixture
def cluster_home(tmp_path, monkeypatch):
    """A data folder that all nodes of a cluster share; this host is node 7."""
    monkeypatch.delenv("CPUGPU_DB", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "not-yet" / "data"))
    monkeypatch.setattr(paths, "mounts", lambda: f"1 0 0:1 / {tmp_path} rw - nfs4 server:/home rw")
    monkeypatch.setattr("cpugpu_tui.machine.procfs.hostname", lambda: "node/7")
    return paths.data_dir()


def test_a_network_home_has_a_database_for_each_machine(cluster_home):
    assert paths.default_database_path() == cluster_home / "results-node_7.db"
    with closing(open_store()) as store:
        assert store.path == cluster_home / "results-node_7.db"
        assert store.remark is None


def test_a_database_that_is_named_keeps_its_name_there(cluster_home):
    assert paths.database_path(cluster_home / "mine.db").name == "mine.db"


def test_the_runs_from_before_are_named_once(cluster_home):
    cluster_home.mkdir(parents=True)
    Store.open(cluster_home / "results.db").close()
    with closing(open_store()) as store:
        assert f"history merge {cluster_home / 'results.db'}" in str(store.remark)
    with closing(open_store()) as store:
        assert store.remark is None
