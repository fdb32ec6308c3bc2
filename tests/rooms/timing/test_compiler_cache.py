"""The folder that keeps the compiler's start: made once, trusted only if it is this user's alone, never half made."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from cpugpu_tui.machine.processes import SCRATCH
from cpugpu_tui.timing import compiler_cache
from cpugpu_tui.timing.compiler_cache import kept_folder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "cpugpu-tui"


def started(kind="cpu", *, ends_well=True):
    """Start the compiler once; return whether it was kept before, and the folder."""
    with kept_folder(kind) as folder:
        was_ready = folder.is_ready
        (Path(folder.path) / "probe.so").touch()
        if ends_well:
            folder.note_ready()
    return was_ready, Path(folder.path)


def test_a_second_start_finds_what_the_first_one_left_in_a_folder_of_this_user_alone():
    assert [started()[0], started()[0]] == [False, True]
    _, folder = started()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "probe.so").exists()


def test_what_an_interrupted_start_left_is_removed():
    _, folder = started(ends_well=False)
    assert (folder / "probe.so").exists()
    with kept_folder("cpu") as again:
        assert not again.is_ready
        assert os.listdir(again.path) == [compiler_cache.LOCK]


def test_another_compiler_has_another_folder(monkeypatch):
    _, usual = started()
    monkeypatch.setenv("CXX", "/bin/false")
    was_ready, other = started()
    assert not was_ready
    assert other != usual


def open_to_all(folder):
    folder.chmod(0o777)


def linked(folder):
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(folder.with_name("moved"))


def replaced_by_a_file(folder):
    folder.rename(folder.with_name("moved"))
    folder.touch()


@pytest.mark.parametrize("change", [open_to_all, linked, replaced_by_a_file])
def test_a_folder_that_others_may_write_is_not_trusted(change):
    _, folder = started()
    change(folder)
    with kept_folder("cpu") as found:
        assert (found.path, found.is_ready) != (str(folder), True)
        assert "Not a folder of this user alone" in found.why_temporary
        found.note_ready()
        assert not found.is_ready
    assert not os.path.exists(found.path)


def test_without_a_place_to_keep_it_the_start_is_made_in_a_temporary_folder(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    with kept_folder("cpu") as found:
        assert found.path.startswith(f"{tempfile.gettempdir()}/{SCRATCH}")
        assert found.why_temporary.startswith("/proc/none/")
    assert not os.path.exists(found.path)


def test_two_agents_do_not_fill_it_at_once(monkeypatch):
    monkeypatch.setattr(compiler_cache, "LOCK_LIMIT_S", 0.0)
    with kept_folder("cpu") as first, kept_folder("cpu") as second:
        assert first.path != second.path
        assert second.why_temporary
    with kept_folder("cpu") as third:
        assert third.path == first.path


def test_agents_that_only_load_it_do_not_wait_for_each_other(monkeypatch):
    started()
    monkeypatch.setattr(compiler_cache, "LOCK_LIMIT_S", 0.0)
    with kept_folder("cpu") as first, kept_folder("cpu") as second:
        assert first.is_ready
        assert second.path == first.path


def test_what_the_cpu_runs_is_remembered_with_what_it_was_built_from():
    with kept_folder("cpu") as first:
        first.note_works("avx2 -mavx2 code")
        first.note_ready()
    with kept_folder("cpu") as second:
        assert [second.works("avx2 -mavx2 code"), second.works("avx2 -mavx2 other code")] == [True, False]
