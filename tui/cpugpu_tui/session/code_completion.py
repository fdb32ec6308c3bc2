"""Completes a typed `file.py:function`. Files are parsed to find their functions, never imported."""

from __future__ import annotations

import ast
import os
import re
import warnings
from functools import lru_cache

MOST = 200
"""Most completions; a folder may hold any number of files."""

LONGEST_FILE = 300_000
"""Bytes of a file that is parsed at a key press: 0.2 s. Functions of longer ones are not offered."""

_PATH = re.compile(r"[^\s:()\[\]{}'\"=,;]*")
_NAME = re.compile(r"[\w.]*")


def completions(text: str) -> list[str]:
    """Return what a path typed so far may become: folders, Python files, then `file.py:function`."""
    path, colon, name = text.partition(":")
    if not _PATH.fullmatch(path) or not _NAME.fullmatch(name):
        return []
    if not colon:
        return _files(path)
    try:
        facts = os.stat(os.path.expanduser(path))
        found = _functions(os.path.expanduser(path), facts.st_mtime_ns, facts.st_size) if path.endswith(".py") else ()
    except OSError:
        return []
    return [f"{path}:{each}" for each in found if each.startswith(name)][:MOST]


def _files(path: str) -> list[str]:
    """Return the Python files whose paths begin like this, then the folders."""
    folder, start = os.path.split(path)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = [(each.name, each.is_dir()) for each in entries if each.name.startswith(start)]
    except (OSError, ValueError):
        return []
    # Hidden files are offered once their dot is typed, as in a shell.
    names = sorted((is_folder, name) for name, is_folder in found if start or not name.startswith((".", "_")))
    return [
        os.path.join(folder, name) + ("/" if is_folder else ":")
        for is_folder, name in names
        if _PATH.fullmatch(name) and name != "__pycache__" and (is_folder or name.endswith(".py"))
    ][:MOST]


@lru_cache(maxsize=32)
def _functions(path: str, _changed_ns: int, size_bytes: int) -> tuple[str, ...]:
    """Return the functions at the top of a file, in its order; those that begin with an underscore come last.

    Raises:
        OSError: the file cannot be read.
    """
    if size_bytes > LONGEST_FILE or not os.path.isfile(path):
        return ()
    with open(path, "rb") as file:
        source = file.read(LONGEST_FILE)
    try:
        with warnings.catch_warnings(action="ignore"):  # of invalid escapes in strings
            body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    names = dict.fromkeys(each.name for each in body if isinstance(each, ast.FunctionDef))
    return tuple(sorted(names, key=lambda name: name.startswith("_")))
