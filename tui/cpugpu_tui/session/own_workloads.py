"""A person's own presets, workloads and code: from their config, their files and installed packages, or typed.

None of their code runs here: an agent loads it and reports its catalogue. Completions of a typed path are here, too.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING

from cpugpu_tui.config import paths
from cpugpu_tui.errors import UsageError, home_path, kind_of
from cpugpu_tui.model.names import CODE, FILE, GROUP, INSTALLED
from cpugpu_tui.state.value import Value
from cpugpu_tui.workloads.presets import PRESETS, Preset

if TYPE_CHECKING:
    from cpugpu_tui.model import OwnCode, OwnFile, Refused, WorkloadInfo


class OwnWorkloads(Value):
    """Presets and workloads beside the built-in ones."""

    presets: tuple[Preset, ...] = ()
    """From the config."""
    workloads: tuple[WorkloadInfo, ...] = ()
    """As an agent reported them."""
    files: tuple[OwnFile, ...] = ()
    """Files that were loaded for them."""
    codes: tuple[OwnCode, ...] = ()
    """Code that was typed on this command line."""
    loads_installed: bool = False
    """Whether agents also load workloads of installed packages."""

    @property
    def has_commands(self) -> bool:
        """Whether the code is a command, so that each call starts a process."""
        return any(code.argv for code in self.codes)

    def words(self) -> tuple[str, ...]:
        """Return the arguments with which an agent loads the same workloads."""
        files = tuple(word for file in self.files for word in (FILE, file.path))
        return (*files, *([CODE] if self.codes else []), *([INSTALLED] if self.loads_installed else []))

    def infos(self) -> dict[str, WorkloadInfo]:
        """Return all workloads by name."""
        from cpugpu_tui.workloads import catalogue  # not before the app's first frame

        found = (*catalogue(), *self.workloads)
        if self.codes:
            from cpugpu_tui.workloads.own_code import info_of  # 3 ms that the app's first frame need not wait for

            found += tuple(map(info_of, self.codes))
        return {info.name: info for info in found}

    def preset(self, name: str) -> Preset | None:
        """Return a built-in or own preset; None if the name is unknown."""
        return PRESETS.get(name) or next((preset for preset in self.presets if preset.name == name), None)

    def remedy_for(self, name: str, workloads: Iterable[str]) -> str:
        """Return the remedy for a name that no preset and none of these workloads has."""
        import shlex

        known = {*PRESETS, *(preset.name for preset in self.presets), *workloads}
        parts = name.replace(",", " ").split()
        if name[:1].isdigit():
            return f"`cpugpu-tui run` takes sizes as --size {name}."
        if "," in name and known.issuperset(parts):
            return f"Separate names by spaces: {' '.join(parts)}."
        if name.endswith(".py"):
            return f"To run the workloads of a file, add --workloads {shlex.quote(name)}."
        if not re.fullmatch(r"[\w.,-]*", name):
            return f"To time code, use `cpugpu-tui time {shlex.quote(name)}`."
        near = get_close_matches(name.lower(), sorted(known), 1)
        meant = f"Did you mean {near[0]!r}? " if near else ""
        return f"{meant}`cpugpu-tui list` prints all names, and --workloads FILE adds your own."

    def files_of(self, workloads: Iterable[str]) -> tuple[OwnFile, ...]:
        """Return the files that these workloads come from."""
        wanted = set(workloads)
        sources = {info.source for info in self.workloads if info.name in wanted}
        return tuple(file for file in self.files if file.path in sources)


def named_files(texts: Iterable[str]) -> tuple[str, ...]:
    """Return absolute paths of the files that a person named, each once.

    Raises:
        UsageError: one of them does not exist, or its path cannot be passed to an agent.
    """
    files = tuple(dict.fromkeys(map(paths.absolute, texts)))
    for file in files:
        if (kind := kind_of(file)) != "a file":
            trouble = f"is {kind}" if kind else "not found"
            raise UsageError(f"Workload file {file} {trouble}.", "Create one with `cpugpu-tui new-workload NAME`.")
    return files


def learn(
    own: OwnWorkloads, files: tuple[str, ...], python: str | None, *, installed: bool
) -> tuple[OwnWorkloads, tuple[Refused, ...]]:
    """Load files and packages in a short-lived agent; return their workloads, and those that it refused.

    Raises:
        UsageError: one of them ended the agent, or did not finish loading.
        UnfitError: the interpreter cannot run the agent.
    """
    from cpugpu_tui.transport.agent_pool import Agents
    from cpugpu_tui.workloads import catalogue

    words = [word for path in files for word in (FILE, path)]
    # Simulated, because a catalogue does not need torch, which takes seconds to import. Always a process, even with
    # `--worker thread`, so that a file that exits does not end this program.
    agents = Agents(python, simulated=True, own=[*words, INSTALLED] if installed else words)
    try:
        hello = agents.greet()
    finally:
        agents.close()
    built_in = {info.name for info in catalogue()}
    workloads = tuple(info for info in hello.catalogue if info.source and info.name not in built_in)
    return own._replace(workloads=workloads, files=hello.own_files, loads_installed=installed), hello.refused


def has_installed_workloads() -> bool:
    """Whether an installed package declares workloads; nothing of it is loaded.

    Searching the metadata files for our group takes 2 ms. `importlib.metadata` would take 40 ms before the first
    frame, so it is asked only if the group is found.
    """
    if not _may_declare(GROUP.encode()):
        return False
    from cpugpu_tui.workloads.own_files import installed_points

    return bool(installed_points())


def _may_declare(group: bytes) -> bool:
    """Whether any package names this group in its entry points; True if they cannot be searched."""
    for folder in dict.fromkeys(sys.path):
        if os.path.isfile(folder):
            return True  # an archive: only `importlib.metadata` can look inside
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:  # `sys.path` usually names an archive of the standard library that does not exist
            continue
        metadata = (name for name in names if name.lower().endswith("-info"))  # .dist-info, .egg-info, EGG-INFO
        if any(_holds(os.path.join(folder, name, "entry_points.txt"), group) for name in metadata):
            return True
    return False


def _holds(path: str, text: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return text in file.read()
    except OSError:
        return False


# ------------------------------------------------------------------ code completion


MOST_COMPLETIONS = 200
"""Most completions; a folder may hold any number of files."""

LONGEST_FILE_BYTES = 300_000
"""Bytes of a file that is parsed at a key press: 0.2 s. Functions of longer ones are not offered."""

_PATH, _NAME = r"[^\s:()\[\]{}'\"=,;]*", r"[\w.]*"


def completions(text: str) -> list[str]:
    """Return what a path typed so far may become: Python files and folders, or after a colon the file's functions."""
    path, colon, name = text.partition(":")
    if not re.fullmatch(_PATH, path) or not re.fullmatch(_NAME, name):
        return []
    if not colon:
        return _files(path)
    try:
        facts = os.stat(home_path(path))
        found = _functions(home_path(path), facts.st_mtime_ns, facts.st_size) if path.endswith(".py") else ()
    except OSError:
        return []
    return [f"{path}:{each}" for each in found if each.startswith(name)][:MOST_COMPLETIONS]


def _files(path: str) -> list[str]:
    """Return the Python files whose paths begin like this, then the folders."""
    folder, start = os.path.split(path)
    try:
        with os.scandir(home_path(folder) or ".") as entries:
            found = [(each.name, each.is_dir()) for each in entries if each.name.startswith(start)]
    except (OSError, ValueError):
        return []
    # Names that begin with a dot or underscore are offered once that is typed, like hidden files in a shell.
    names = sorted((is_folder, name) for name, is_folder in found if start or not name.startswith((".", "_")))
    return [
        os.path.join(folder, name) + ("/" if is_folder else ":")
        for is_folder, name in names
        if re.fullmatch(_PATH, name) and name != "__pycache__" and (is_folder or name.endswith(".py"))
    ][:MOST_COMPLETIONS]


@lru_cache(maxsize=32)
def _functions(path: str, _changed_ns: int, size_bytes: int) -> tuple[str, ...]:
    """Return the functions at the top of a file, in its order; those that begin with an underscore come last.

    `_changed_ns` and `size_bytes` are there so that a changed file is read again.

    Raises:
        OSError: the file cannot be read.
    """
    if size_bytes > LONGEST_FILE_BYTES or not os.path.isfile(path):
        return ()
    with open(path, "rb") as file:
        source = file.read(LONGEST_FILE_BYTES)
    from cpugpu_tui.workloads.python_text import parsed  # not before the app's first frame

    try:
        body = parsed(source)
    except UsageError:
        return ()
    names = dict.fromkeys(each.name for each in body if isinstance(each, ast.FunctionDef))
    return tuple(sorted(names, key=lambda name: name.startswith("_")))
