"""A person's own workloads and presets, for the commands that plan or list."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import Refused
from cpugpu_tui.runs import config
from cpugpu_tui.runs.own import Own, learn, named_files, offers_installed
from cpugpu_tui.runs.planning import PlanRequest


def with_own(request: PlanRequest, files: Iterable[str], python: str | None) -> PlanRequest:
    """Return a request that knows the presets of the config, the files named, and packages if a name needs them.

    Raises:
        UsageError: the config or a file is wrong, or a file ended the agent.
        UnfitError: the interpreter cannot become an agent.
    """
    own = Own(presets=config.load().presets)
    paths = named_files(files)
    if paths:
        own, refused = learn(own, paths, python, installed=False)
        refuse(refused)
    # Packages are loaded only for a name that nobody else has: a bad one must not spoil a run that has no use for it.
    if _lacks(request, own) and (python is not None or offers_installed()):
        own, refused = learn(own, paths, python, installed=True)
        say(refused)
    return replace(request, own=own)


def all_own(files: Iterable[str], python: str | None = None) -> tuple[Own, tuple[Refused, ...]]:
    """Return everything that there is, and what could not be loaded: for lists and the app.

    Raises:
        UsageError: the config is wrong, or a file ended the agent.
    """
    own = Own(presets=config.load().presets)
    paths, installed = named_files(files), offers_installed()
    return learn(own, paths, python, installed=installed) if paths or installed else (own, ())


def _lacks(request: PlanRequest, own: Own) -> bool:
    """Whether a name, or a workload of a named preset, is known to nobody yet."""
    infos = own.infos()
    presets = {name: own.preset(name) for name in request.names}
    needed = {part.workload for preset in presets.values() if preset is not None for part in preset.parts}
    needed |= {name for name, preset in presets.items() if preset is None}
    return not needed <= set(infos)


def refuse(refused: tuple[Refused, ...]) -> None:
    """Raise the first of what could not be loaded; say the others on stderr.

    Raises:
        UsageError: there is one.
    """
    if refused:
        say(refused[1:])
        raise UsageError(refused[0].message, refused[0].remedy)


def say(refused: tuple[Refused, ...]) -> None:
    """Say on stderr what could not be loaded."""
    for each in refused:
        print(f"cpugpu-tui: {each.message} {each.remedy}".strip(), file=sys.stderr)
