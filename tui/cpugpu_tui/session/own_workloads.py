"""What a person added to the built-in presets and workloads: their config's presets, their files, their packages.

Nothing of theirs is run here: an agent loads it and tells its catalogue.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

from cpugpu_tui.config import paths
from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import OwnCode, OwnFile, Refused, WorkloadInfo
from cpugpu_tui.timing.control import CODE, FILE, INSTALLED
from cpugpu_tui.workloads import PRESETS, Preset, catalogue
from cpugpu_tui.workloads.own_code import info_of


@dataclass(frozen=True)
class OwnWorkloads:
    """Presets and workloads beside the built-in ones."""

    presets: tuple[Preset, ...] = ()
    """From the config."""
    workloads: tuple[WorkloadInfo, ...] = ()
    """As an agent told."""
    files: tuple[OwnFile, ...] = ()
    """Where those come from that are from files."""
    codes: tuple[OwnCode, ...] = ()
    """Code that was typed on this command line."""
    is_installed: bool = False
    """Whether agents are to load what installed packages offer."""

    def words(self) -> tuple[str, ...]:
        """Return what `Agents` takes, so that each of them knows the same workloads."""
        files = tuple(word for file in self.files for word in (FILE, file.path))
        return (*files, *([CODE] if self.codes else []), *([INSTALLED] if self.is_installed else []))

    def infos(self) -> dict[str, WorkloadInfo]:
        """Return every workload that there is, by name."""
        return {info.name: info for info in (*catalogue(), *self.workloads, *map(info_of, self.codes))}

    def preset(self, name: str) -> Preset | None:
        """Return a preset of either kind; None where there is none of this name."""
        return PRESETS.get(name) or next((preset for preset in self.presets if preset.name == name), None)

    def files_of(self, workloads: Iterable[str]) -> tuple[OwnFile, ...]:
        """Return the files that these workloads come from."""
        wanted = set(workloads)
        sources = {info.source for info in self.workloads if info.name in wanted}
        return tuple(file for file in self.files if file.path in sources)


def named_files(texts: Iterable[str]) -> tuple[str, ...]:
    """Return absolute paths of the files that a person named, each once.

    Raises:
        UsageError: one of them does not exist, or cannot be told to an agent.
    """
    files = tuple(dict.fromkeys(map(paths.absolute, texts)))
    for file in files:
        if not os.path.isfile(file):
            raise UsageError(f"There is no workload file {file}.", "Write one with `cpugpu-tui new-workload NAME`.")
    return files


def learn(
    own: OwnWorkloads, files: tuple[str, ...], python: str | None, *, installed: bool
) -> tuple[OwnWorkloads, tuple[Refused, ...]]:
    """Ask a short-lived agent what files and packages offer; return that, and what it refused.

    Raises:
        UsageError: one of them ended the agent, or never came to an end.
        UnfitError: the interpreter cannot become an agent.
    """
    from cpugpu_tui.transport.agent_pool import Agents

    words = [word for path in files for word in (FILE, path)]
    # Simulated: no catalogue needs torch, which takes seconds to import; a process also where the kernels will
    # run on a thread of this one, so that a file that ends it ends another.
    agents = Agents(python, simulated=True, own=[*words, INSTALLED] if installed else words)
    try:
        hello = agents.greet()
    finally:
        agents.close()
    built_in = {info.name for info in catalogue()}
    workloads = tuple(info for info in hello.catalogue if info.source and info.name not in built_in)
    return replace(own, workloads=workloads, files=hello.own_files, is_installed=installed), hello.refused


def offers_installed() -> bool:
    """Whether a package of this interpreter says that it has workloads; nothing of it is loaded.

    Without `importlib.metadata` where no installed package names our group: importing and asking it takes 40 ms before
    the first frame, looking for the name in the files that it would read takes 2.
    """
    from cpugpu_tui.workloads.own_files import GROUP, installed_points

    return _is_named(GROUP.encode()) and bool(installed_points())


def _is_named(group: bytes) -> bool:
    """Whether any package's list of entry points has this name in it; True also where that cannot be told."""
    for folder in dict.fromkeys(sys.path):
        if os.path.isfile(folder):
            return True  # an archive, into which only `importlib.metadata` looks
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:  # where Python expects an archive of its library there mostly is none
            continue
        facts = (name for name in names if name.lower().endswith("-info"))  # .dist-info, .egg-info, EGG-INFO
        if any(_holds(os.path.join(folder, name, "entry_points.txt"), group) for name in facts):
            return True
    return False


def _holds(path: str, text: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return text in file.read()
    except OSError:
        return False
