"""The agent's greeting, after a person's own workloads are loaded: each is announced, in case it is the last word."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import PROTOCOL, Hello, Refused, WorkloadsLoading
from cpugpu_tui.timing.control import FILE, INSTALLED
from cpugpu_tui.timing.emitter import Emit
from cpugpu_tui.workloads import catalogue
from cpugpu_tui.workloads.loading import Loaded, load

MOST_TEXT = 400
"""Characters of a sentence about a file: what a stranger's code raises may be of any length."""


def wanted(arguments: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the files that an agent's command names, and whether installed packages are wanted."""
    files = tuple(after for word, after in pairwise(arguments) if word == FILE)
    return files, INSTALLED in arguments


def hello(environment: dict[str, Any], files: Sequence[str], emit: Emit, *, installed: bool = False) -> Hello:
    """Load what was named and return the greeting that tells of it."""
    built_in = catalogue()
    found = Loaded()
    if files or installed:

        def told(source: str) -> None:
            emit(WorkloadsLoading(source=source))
            emit.flush()

        found = load(files, told, installed=installed)
    refused = tuple(
        Refused(each.source, printable(each.message, MOST_TEXT), printable(each.remedy, MOST_TEXT))
        for each in found.refused
    )
    # What a file did to the built-in ones' facts is no fact of theirs: they were asked before it was loaded.
    return Hello(
        protocol=PROTOCOL,
        environment=environment,
        catalogue=(*built_in, *found.infos),
        refused=refused,
        own_files=found.files,
    )
