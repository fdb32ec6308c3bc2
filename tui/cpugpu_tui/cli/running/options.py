"""What a command runs with beside its plan: interpreter, simulated machine, the user's own workloads."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cpugpu_tui import model
from cpugpu_tui.config import load_config
from cpugpu_tui.config.parsing import check_worker
from cpugpu_tui.config.paths import absolute
from cpugpu_tui.errors import UsageError, code_not_typed, print_notice
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.names import FILE, INSTALLED
from cpugpu_tui.session.own_workloads import OwnWorkloads, has_installed_workloads, learn, named_files
from cpugpu_tui.session.request import PlanRequest
from cpugpu_tui.state.value import Value

if TYPE_CHECKING:  # the app's first frame need not wait for them
    from cpugpu_tui.config.hosts import Host
    from cpugpu_tui.transport.agent_pool import Agents


def with_own(request: PlanRequest, files: Iterable[str], python: str | None) -> PlanRequest:
    """Return a request with the presets of the config, the named files, and installed packages if a name needs them.

    Raises:
        UsageError: the config or a file is wrong, or a file ended the agent.
        UnfitError: the interpreter cannot run an agent.
    """
    own = request.own._replace(presets=load_config().presets)
    paths = named_files(files)
    if paths:
        own, refused = learn(own, paths, python, installed=False)
        refuse(refused)
    # Load packages only for a name that is still unknown, so that a broken package fails no other run.
    if _lacks(request, own) and (python is not None or has_installed_workloads()):
        own, refused = learn(own, paths, python, installed=True)
        say(refused)
    return request._replace(own=own)


def all_own(
    files: Iterable[str], python: str | None = None, *, installed: bool
) -> tuple[OwnWorkloads, tuple[model.Refused, ...]]:
    """Return all of the user's workloads and presets, and those that could not be loaded, for lists and the app.

    Those of packages are among them if any are `installed`.

    Raises:
        UsageError: the config is wrong, or a file ended the agent.
    """
    own = OwnWorkloads(presets=load_config().presets)
    paths = named_files(files)
    if not (paths or installed):
        return own, ()
    return learn(own, paths, found_python(python), installed=installed)


def _lacks(request: PlanRequest, own: OwnWorkloads) -> bool:
    """Return whether a name, or a workload of a named preset, is still unknown."""
    infos = own.infos()
    presets = {name: own.preset(name) for name in request.names}
    needed = {part.workload for preset in presets.values() if preset is not None for part in preset.parts}
    needed |= {name for name, preset in presets.items() if preset is None}
    return not needed <= set(infos)


def words_for(plan: model.Plan, files: Iterable[str], number: int | None = None) -> tuple[str, ...]:
    """Return the arguments of `Agents` that load the workloads of a saved plan, of the run with this number.

    The plan may come from someone else's export, so its files run only if the user names them again.

    Raises:
        UsageError: a file does not exist, or a file that the plan needs is not named.
    """
    if plan.codes:
        raise code_not_typed(number)
    named = named_files(files)
    for file in plan.own_files:
        if file.path not in named:
            raise UsageError(f"This run needs the workloads of {file.path}.", f"Add --workloads {file.path}.")
    words = tuple(word for path in named for word in (FILE, path))
    from cpugpu_tui.workloads import catalogue

    built_in = {info.name for info in catalogue()}
    if not plan.own_files and {case.workload for case in plan.cases} - built_in and has_installed_workloads():
        return (*words, INSTALLED)
    return words


def check_unchanged(plan: model.Plan) -> None:
    """Refuse to resume a run whose workload files have changed.

    Raises:
        UsageError: a file has changed since the run began.
    """
    from cpugpu_tui.workloads.own_code import hash_of_file

    for file in plan.own_files:
        if hash_of_file(file.path) != file.sha256:
            raise UsageError(f"{file.path} has changed since this run began.", "Start a new run without --resume.")


def refuse(refused: tuple[model.Refused, ...]) -> None:
    """Raise the first loading error, after printing the others on stderr.

    Raises:
        UsageError: `refused` is not empty.
    """
    if refused:
        say(refused[1:])
        raise UsageError(refused[0].message, refused[0].remedy)


def say(refused: tuple[model.Refused, ...]) -> None:
    """Print loading errors on stderr."""
    for each in refused:
        print_notice(f"cpugpu-tui: {each.message} {each.remedy}".strip())


# ------------------------------------------------------------------ options


class RunOptions(Value):
    """How to run a plan.

    Raises:
        UsageError: the worker is neither `process` nor `thread`.
    """

    began_s: float
    """When the program began, by the monotonic clock: its time limit counts from here."""
    worker: str = "process"
    python: str | None = None
    database: Path | None = None
    save: bool = True
    workloads: tuple[str, ...] = ()
    """Files with the user's own workloads."""
    ceilings: bool = True
    """Whether a run may measure peak rates for `limited by`, if the history has none."""
    host: Host | None = None
    """Another machine to run on; None for this one."""
    files: Mapping[str, bytes] = MappingProxyType({})
    """Files of typed code that go there with each agent, by path."""
    hello_limit_s: float | None = None
    """How long an agent may take to start; None for the usual time."""

    def __init__(self, **named: Any) -> None:
        """Set the fields by name."""
        super().__init__(**{"began_s": time.monotonic(), **named})
        check_worker(self.worker)

    def agents(self, python: str | None, own: OwnWorkloads, *, simulated: bool) -> Agents:
        """Return the agents of an interpreter, here or on the host."""
        from cpugpu_tui.transport.agent_command import HELLO_LIMIT_S
        from cpugpu_tui.transport.agent_pool import Agents

        host = self.host if self.host is None or python is None else replace(self.host, python=python)
        return Agents(python, self.worker, simulated=simulated, own=own.words(), host=host, files=self.files,
                      hello_limit_s=self.hello_limit_s or HELLO_LIMIT_S)  # fmt: skip

    @property
    def facts(self) -> dict[str, object]:
        """What this program adds to the environment of a run."""
        from cpugpu_tui.session.fleet_running import facts_of

        return {"argv": sys.argv[1:], **facts_of(self.host)}


def found_python(python: str | None, worker: str = "process", simulation: model.Simulation | None = None) -> str | None:
    """Return the interpreter of `--python`. For `auto`, search for one and print on stderr which one was found."""
    if python is None:
        return None
    from cpugpu_tui.transport.interpreter_search import AUTO, choose

    if python != AUTO:
        return python
    if worker == "thread" or simulation is not None:  # torch is not imported in another interpreter
        return None
    choice = choose()
    if choice.sentence:
        print_notice(f"cpugpu-tui: {choice.sentence}")
    return choice.python


def mnist_folder(given: Path | None, *, is_typed: bool) -> str | None:
    """Return the absolute path of `--mnist`.

    Raises:
        UsageError: it is typed, and not a folder. One of the config file may be for other runs than this one.
    """
    if given is None:
        return None
    path = absolute(str(given))
    if is_typed and not os.path.isdir(path):
        raise UsageError(f"{printable(str(given))} is not a folder.", "Give --mnist the folder of the MNIST files.")
    return path
