"""A disk that fills up while an export is written: one error, and the old file is kept."""

import subprocess
import sys

import pytest
from tests.helpers.command_line import FAST
from tests.rooms.store.test_store_full_disk import small_disk, write_for_ever

from cpugpu_tui.errors import EXIT_UNFIT

__all__ = ["small_disk"]

RUN = ("run", "--simulate", FAST, "matmul", "--size", "16,64,256")


@pytest.fixture
def full_disk(small_disk):
    """A disk with an old export and no room left."""
    (small_disk / "x.json").write_text('{"event":"old"}')
    with pytest.raises(OSError, match="No space"):
        write_for_ever(small_disk / "ballast")
    return small_disk


def test_an_export_that_does_not_fit_leaves_the_old_file(cpugpu, full_disk):
    cpugpu(*RUN)
    done = cpugpu.here("export", "-o", full_disk / "x.json", code=EXIT_UNFIT)
    assert (done.err.count(f"{full_disk}/x.json"), done.err.count("full"), done.err.count("\n")) == (1, 1, 1)
    assert (full_disk / "x.json").read_text() == '{"event":"old"}'
    assert sorted(path.name for path in full_disk.iterdir()) == ["ballast", "x.json"]


def test_a_run_whose_files_do_not_fit_is_kept_and_shown(cpugpu, full_disk):
    # A process of its own: what a failed write leaves open would keep the disk from being unmounted.
    done = cpugpu(*RUN, "--export", full_disk / "x.json", "--tensorboard", full_disk, PYTHONUNBUFFERED="1")
    assert (done.code, done.err.count("full")) == (EXIT_UNFIT, 2)
    assert "Traceback" not in done.err
    assert "run 1" in done.out
    assert (full_disk / "x.json").read_text() == '{"event":"old"}'
    assert cpugpu.here("show", "1").code == 0


def test_a_stream_to_a_full_device_is_said(cpugpu):
    cpugpu(*RUN)
    command = [sys.executable, "-m", "cpugpu_tui", "export"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=cpugpu.environment(), timeout=120)
    assert (done.returncode, done.stderr.decode().count("\n")) == (EXIT_UNFIT, 1)
