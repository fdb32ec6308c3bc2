"""What the store reads of the machine: processes, file systems."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cpugpu_tui.runs.store.filesystem import journal_mode
from cpugpu_tui.runs.store.owner import Owner

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
def test_network_file_systems_get_no_wal(folder: str, mode: str) -> None:
    assert journal_mode(Path(folder), MOUNTS) == mode


def test_without_a_mount_table_it_is_wal() -> None:
    assert journal_mode(Path("/home/ada"), "") == "WAL"


def test_this_process_is_alive() -> None:
    assert not Owner.current().is_gone()


def test_an_ended_process_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(timeout=60)
    assert replace(Owner.current(), pid=child.pid, process_started_ticks=0).is_gone()


def test_a_pid_given_to_another_process_is_gone() -> None:
    assert replace(Owner.current(), process_started_ticks=1).is_gone()


def test_a_process_before_the_reboot_is_gone() -> None:
    assert replace(Owner.current(), boot_id="another").is_gone()


def test_another_persons_process_is_alive() -> None:
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


def test_nothing_is_said_about_another_hosts_process() -> None:
    assert not replace(Owner.current(), hostname="elsewhere", boot_id="another", pid=2**22 + 1).is_gone()
