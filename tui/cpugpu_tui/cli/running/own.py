"""A person's own workloads and presets, for the commands that plan or list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from cpugpu_tui.cli.running.options import found_python
from cpugpu_tui.config import config
from cpugpu_tui.errors import UsageError, print_notice
from cpugpu_tui.model import Plan, Refused
from cpugpu_tui.session.own_workloads import OwnWorkloads, learn, named_files, offers_installed
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.timing.control import FILE, INSTALLED
from cpugpu_tui.workloads import catalogue


def with_own(request: PlanRequest, files: Iterable[str], python: str | None) -> PlanRequest:
    """Return a request that knows the presets of the config, the files named, and packages if a name needs them.

    Raises:
        UsageError: the config or a file is wrong, or a file ended the agent.
        UnfitError: the interpreter cannot become an agent.
    """
    own = replace(request.own, presets=config.load().presets)
    paths = named_files(files)
    if paths:
        own, refused = learn(own, paths, python, installed=False)
        refuse(refused)
    # Packages are loaded only for a name that nobody else has: a bad one must not spoil a run that has no use for it.
    if _lacks(request, own) and (python is not None or offers_installed()):
        own, refused = learn(own, paths, python, installed=True)
        say(refused)
    return replace(request, own=own)


def all_own(files: Iterable[str], python: str | None = None) -> tuple[OwnWorkloads, tuple[Refused, ...]]:
    """Return everything that there is, and what could not be loaded: for lists and the app.

    Raises:
        UsageError: the config is wrong, or a file ended the agent.
    """
    own = OwnWorkloads(presets=config.load().presets)
    paths, installed = named_files(files), offers_installed()
    if not (paths or installed):
        return own, ()
    return learn(own, paths, found_python(python), installed=installed)


def _lacks(request: PlanRequest, own: OwnWorkloads) -> bool:
    """Whether a name, or a workload of a named preset, is known to nobody yet."""
    infos = own.infos()
    presets = {name: own.preset(name) for name in request.names}
    needed = {part.workload for preset in presets.values() if preset is not None for part in preset.parts}
    needed |= {name for name, preset in presets.items() if preset is None}
    return not needed <= set(infos)


def words_for(plan: Plan, files: Iterable[str]) -> tuple[str, ...]:
    """Return what `Agents` takes for a saved plan: its files only if the person names them again.

    A plan may come from a stranger's export, and no file is run that nobody named.

    Raises:
        UsageError: a file does not exist, or one that the plan needs is not named.
    """
    if plan.codes:
        raise UsageError(
            "This run timed typed code, which is run only when it is typed again.",
            "Copy its command from `cpugpu-tui show` and read it first.",
        )
    named = named_files(files)
    for file in plan.own_files:
        if file.path not in named:
            raise UsageError(f"This run needs the workloads of {file.path}.", f"Add --workloads {file.path}.")
    words = tuple(word for path in named for word in (FILE, path))
    built_in = {info.name for info in catalogue()}
    if not plan.own_files and {case.workload for case in plan.cases} - built_in and offers_installed():
        return (*words, INSTALLED)
    return words


def check_unchanged(plan: Plan) -> None:
    """Refuse to go on with a run whose workloads are others by now.

    Raises:
        UsageError: a file has changed since the run began.
    """
    import hashlib  # here: it loads OpenSSL, 4 ms before the first frame

    for file in plan.own_files:
        if hashlib.sha256(Path(file.path).read_bytes()).hexdigest() != file.sha256:
            raise UsageError(f"{file.path} has changed since this run began.", "Run it anew, without --resume.")


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
        print_notice(f"cpugpu-tui: {each.message} {each.remedy}".strip())
