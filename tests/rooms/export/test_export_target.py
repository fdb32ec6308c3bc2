"""Files are written completely or not at all, and an unwritable target is an error before the work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cpugpu_tui.errors import UsageError
from cpugpu_tui.export.target import check_file, check_folder, write


def broken():
    yield b"half"
    raise RuntimeError("in the middle")


def test_a_file_that_could_not_be_finished_leaves_the_old_one(tmp_path):
    path = tmp_path / "x.json"
    write(path, [b"old"])
    with pytest.raises(RuntimeError):
        write(path, broken())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_others_may_read_what_the_persons_umask_lets_them(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "x", [b""])
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_a_replaced_file_keeps_its_mode(tmp_path):
    path = tmp_path / "x"
    path.touch(0o600)
    write(path, [b"new"])
    assert (path.stat().st_mode & 0o777, path.read_bytes()) == (0o600, b"new")


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", [b"new"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_device_is_written_to_and_stays_one():
    check_file(Path("/dev/null"))
    write(Path("/dev/null"), [b"gone"])
    assert Path("/dev/null").is_char_device()


def test_a_file_needs_its_folder_and_a_folder_is_made(tmp_path, words):
    with pytest.raises(UsageError) as caught:
        check_file(tmp_path / "missing" / "x.json")
    words(str(caught.value).replace(str(tmp_path), "/data"))
    check_folder(tmp_path / "runs" / "x")
    assert list((tmp_path / "runs" / "x").iterdir()) == []


def test_a_link_to_itself_is_no_place(tmp_path):
    (tmp_path / "loop.json").symlink_to("loop.json")
    for attempt in (lambda path: check_file(path), lambda path: write(path, [b"x"])):
        with pytest.raises(UsageError):
            attempt(tmp_path / "loop.json")
    assert [each.name for each in tmp_path.iterdir()] == ["loop.json"]


def test_a_place_where_nobody_may_look_is_said(tmp_path, words):
    """In a process of its own, because it gives up the rights of root."""
    (tmp_path / "closed").mkdir(mode=0o700)
    attempts = (
        "import os, sys; from pathlib import Path\n"
        "from cpugpu_tui.errors import UnfitError\n"
        "from cpugpu_tui.export.target import check_file, check_folder\n"
        "os.geteuid() or os.setresuid(65534, 65534, 65534)\n"
        "for check in (check_file, check_folder):\n"
        "    try: check(Path('closed/in/x.json'))\n"
        "    except UnfitError as error: print(error.message)\n"
    )
    if os.geteuid() != 0:
        (tmp_path / "closed").chmod(0)
    done = subprocess.run([sys.executable, "-c", attempts], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    words(done.stdout)


@pytest.mark.parametrize("content", [
    b"mine", b"a,b\n1,2\n", b'{"a": 1}', b"# Notes\n| a |\n| --- |", b"\x89PNG", b"# How I use cpugpu-tui\n",
    b"## Our GPUs\ncpugpu-tui run\n| a |\n| :-- |", b"import cpugpu_tui\n", b'{"scripts": "cpugpu-tui"}',
    b"SQLite format 3\0cpugpu",
])  # fmt: skip
def test_a_file_of_somebody_else_is_not_replaced(content, tmp_path):
    """`thresholds make -o keep.txt` replaced it without a word, and `--summary` one that names the program."""
    path = tmp_path / "keep.txt"
    path.write_bytes(content)
    with pytest.raises(UsageError) as error:
        check_file(path)
    assert str(path) in error.value.message
    assert error.value.remedy
    path.write_bytes(b"")
    check_file(path)
