"""Bytecode of torch is kept in the user's cache only where its own installation cannot keep it."""

import os
import subprocess
import sys

import pytest

MODULE = "tested_torch"

START = """
import sys
from importlib.machinery import PathFinder
from cpugpu_tui.timing import compiler_cache
find = PathFinder.find_spec
PathFinder.find_spec = lambda name: find("tested_torch" if name == "torch" else name)
compiler_cache.keep_bytecode()
PathFinder.find_spec = find
import tested_torch
print(sys.pycache_prefix or "")
"""


@pytest.fixture
def package(tmp_path):
    """A package without bytecode."""
    folder = tmp_path / "site" / MODULE
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("VALUE = 1\n")
    return folder


def started(package, *, writes):
    """Import the package in a new Python; return the folder of bytecode, and the files that it holds afterwards."""
    cache = package.parents[1] / "cache"
    named = {"XDG_CACHE_HOME": str(cache), "PYTHONDONTWRITEBYTECODE": "" if writes else "1"}
    path = os.pathsep.join([str(package.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", START], env={**os.environ, **named, "PYTHONPATH": path}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return done.stdout.strip(), [each.name for each in cache.rglob(f"{MODULE}/*.pyc")]


def test_where_python_may_not_write_the_cache_keeps_it_for_this_user_alone(package):
    folder, kept = started(package, writes=False)
    assert folder == str(package.parents[1] / "cache" / "cpugpu-tui" / "bytecode")
    assert len(kept) == 1
    assert os.stat(folder).st_mode & 0o777 == 0o700


def test_where_python_writes_it_or_has_written_it_the_cache_stays_empty(package):
    assert started(package, writes=True) == ("", [])
    assert (package / "__pycache__").is_dir()
    assert started(package, writes=False) == ("", [])


def test_a_folder_that_others_may_write_is_not_used(package):
    folder = package.parents[1] / "cache" / "cpugpu-tui" / "bytecode"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert started(package, writes=False) == ("", [])
