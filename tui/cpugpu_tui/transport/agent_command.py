"""Commands that start an agent process: on this machine, or through a launcher on another one."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cpugpu_tui.config.hosts import Host
from cpugpu_tui.errors import CpuGpuError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.transport.agent_output import Gone
from cpugpu_tui.transport.agent_zip import open_agent_zip
from cpugpu_tui.transport.host_failure import Progress, classify_host_failure, no_program
from cpugpu_tui.transport.launchers import BEAT_S, remote_start

HELLO_LIMIT_S = 120.0
"""How long a host may take until its hello. Importing torch from a network file system takes 60 s."""


def nobody_listens() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Start:
    """A command that starts an agent, and how to treat its process."""

    argv: tuple[str, ...]
    name: str
    """The interpreter or host, as error messages name it."""
    descriptors: tuple[int, ...] = ()
    """Passed to the child, then closed here."""
    feed: bytes = b""
    """Written to its stdin before anything else."""
    host: Host | None = None
    """None for this machine."""
    hello_limit_s: float = HELLO_LIMIT_S
    on_reached: Callable[[], None] = nobody_listens
    """Called from another thread once the host is reached and its interpreter is about to start."""

    @property
    def beat_s(self) -> float | None:
        """Seconds between heartbeats; None where the end of stdin tells the agent that its controller is gone."""
        return None if self.host is None else BEAT_S

    @property
    def waits_in_line(self) -> bool:
        """Whether reaching the host may take hours: Slurm starts the agent when the node is free."""
        return self.host is not None and self.host.launcher == "srun"

    def not_started(self, error: OSError) -> CpuGpuError:
        """Return the error for a command that cannot be executed."""
        if self.host is not None:
            return no_program(self.argv[0], error)
        return UsageError(
            f"Cannot start the interpreter {self.name!r}: {error.strerror}.", "Choose another one with --python PATH."
        )

    def seen_here(self, exit_code: int) -> int:
        """Return an exit code as `subprocess` reports it: a shell reports a signal as 128 + its number."""
        return 128 - exit_code if self.host is not None and 128 < exit_code < 192 else exit_code

    def host_failure(self, gone: Gone, progress: Progress) -> CpuGpuError | None:
        """Return the host's failure that ended the agent; None if a case may have crashed it."""
        return None if self.host is None else classify_host_failure(self.host, gone, progress, self.hello_limit_s)


def local_start(python: str | None, words: Sequence[str]) -> Start:
    """Return how to start an agent on this machine; `words` are its arguments.

    Raises:
        UsageError: the interpreter does not exist.
    """
    command, descriptors = agent_command(python)
    return Start((*command, *words), command[0], descriptors)


def host_start(host: Host, words: Sequence[str], on_reached: Callable[[], None], hello_limit_s: float) -> Start:
    """Return how to start an agent on another machine.

    Raises:
        UsageError: the host's name would be parsed as an option.
    """
    argv, feed = remote_start(host, words)
    return Start(tuple(argv), host.host, feed=feed, host=host, on_reached=on_reached, hello_limit_s=hello_limit_s)


def agent_command(python: str | None) -> tuple[list[str], tuple[int, ...]]:
    """Return the command of an agent, and the descriptors to pass to it.

    Raises:
        UsageError: the interpreter does not exist.
    """
    if python is None:
        # -P keeps a stray torch.py in the current folder from being imported.
        return [sys.executable, "-P", "-m", "cpugpu_tui.agent"], ()
    found = shutil.which(os.path.expanduser(python))
    if found is None:
        raise UsageError(
            f"Interpreter {printable(python)!r} not found.", "Use --python PATH with a Python that has torch."
        )
    descriptor = open_agent_zip()
    return [found, f"/proc/self/fd/{descriptor}"], (descriptor,)
