"""What it takes to start an agent's process: here, or by way of a launcher on another machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cpugpu_tui.config.hosts import Host
from cpugpu_tui.errors import CpuGpuError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.transport.agent_zip import open_agent_zip
from cpugpu_tui.transport.host_failure import Progress, classify_host_failure, no_program
from cpugpu_tui.transport.inbox import Gone
from cpugpu_tui.transport.launchers import BEAT_S, remote_start

HELLO_LIMIT_S = 120.0
"""How long a host may take to its hello: torch from a network file system takes 60 s."""


def nobody_listens() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Start:
    """A command, and what is special about it."""

    argv: tuple[str, ...]
    name: str
    """What sentences call whom it starts: an interpreter or a host."""
    descriptors: tuple[int, ...] = ()
    """Handed over, and closed here."""
    feed: bytes = b""
    """What goes to its stdin before anything else."""
    host: Host | None = None
    """None for this very machine."""
    hello_limit_s: float = HELLO_LIMIT_S
    on_reached: Callable[[], None] = nobody_listens
    """Called from another thread when the host has been reached and its interpreter is about to start."""

    @property
    def beat_s(self) -> float | None:
        """How often it wants to hear that we live; None where the end of its stdin tells."""
        return None if self.host is None else BEAT_S

    @property
    def waits_in_line(self) -> bool:
        """Whether it may be hours until the host is reached: Slurm starts it when the node is free."""
        return self.host is not None and self.host.launcher == "srun"

    def not_started(self, error: OSError) -> CpuGpuError:
        """Return the sentence for a command that cannot be executed."""
        if self.host is not None:
            return no_program(self.argv[0], error)
        return UsageError(
            f"The interpreter {self.name!r} cannot be started: {error.strerror}.", "Name a Python with --python PATH."
        )

    def seen_here(self, exit_code: int) -> int:
        """Return an exit code as `subprocess` has it: a shell tells of a signal as 128 + its number."""
        return 128 - exit_code if self.host is not None and 128 < exit_code < 192 else exit_code

    def host_failure(self, gone: Gone, progress: Progress) -> CpuGpuError | None:
        """Return why its end is no crash of a case; None where it may be one."""
        return None if self.host is None else classify_host_failure(self.host, gone, progress, self.hello_limit_s)


def local_start(python: str | None, words: Sequence[str]) -> Start:
    """Return how an agent of this machine is started; `words` are those of its command.

    Raises:
        UsageError: no such interpreter.
    """
    command, descriptors = agent_command(python)
    return Start((*command, *words), command[0], descriptors)


def host_start(host: Host, words: Sequence[str], on_reached: Callable[[], None], hello_limit_s: float) -> Start:
    """Return how an agent of another machine is started.

    Raises:
        UsageError: the host's name would be read as an option.
    """
    argv, feed = remote_start(host, words)
    return Start(tuple(argv), host.host, feed=feed, host=host, on_reached=on_reached, hello_limit_s=hello_limit_s)


def agent_command(python: str | None) -> tuple[list[str], tuple[int, ...]]:
    """Return the command of an agent, and descriptors to hand over.

    Raises:
        UsageError: no such interpreter.
    """
    if python is None:
        # -P keeps a stray torch.py in the current folder from being imported.
        return [sys.executable, "-P", "-m", "cpugpu_tui.agent"], ()
    found = shutil.which(os.path.expanduser(python))
    if found is None:
        raise UsageError(
            f"There is no interpreter {printable(python)!r}.", "Name a Python that has torch with --python PATH."
        )
    descriptor = open_agent_zip()
    return [found, f"/proc/self/fd/{descriptor}"], (descriptor,)
