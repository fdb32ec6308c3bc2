"""How an agent is started, in this interpreter or on a host, and why a host fails."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cpugpu_tui.config.hosts import Host
from cpugpu_tui.errors import CpuGpuError, UnfitError, UsageError, home_path, kind_of
from cpugpu_tui.machine.text import printable
from cpugpu_tui.transport import launchers
from cpugpu_tui.transport.agent_output import AgentExited

HELLO_LIMIT_S = 120.0
"""How long an agent may take until its hello. Importing torch from a network file system takes 60 s."""


def nobody_listens(*_told: object) -> None:
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
    on_wait: Callable[[str], None] = nobody_listens
    """Called from another thread with the name of an interpreter that takes long to start, and with its limit."""

    @property
    def beat_s(self) -> float | None:
        """Seconds between heartbeats; None where the end of stdin tells the agent that its controller is gone."""
        return None if self.host is None else launchers.BEAT_S

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

    def as_subprocess(self, exit_code: int) -> int:
        """Return an exit code as `subprocess` reports it: a shell reports a signal as 128 + its number."""
        return 128 - exit_code if self.host is not None and 128 < exit_code < 192 else exit_code

    def host_failure(self, gone: AgentExited, progress: Progress) -> CpuGpuError | None:
        """Return the failure of a host or of a start that ended the agent; None if a case may have crashed it."""
        if self.host is not None:
            return classify_host_failure(self.host, gone, progress, self.hello_limit_s)
        if not progress.is_late:
            return None
        return UnfitError(
            f"{self.name} did not answer within {self.hello_limit_s:g} s.{_last_line(gone)}",
            "Check what it waits for, or choose another interpreter with --python PATH.",
        )


def local_start(
    python: str | None, words: Sequence[str], on_wait: Callable[[str], None], hello_limit_s: float
) -> Start:
    """Return how to start an agent on this machine; `words` are its arguments.

    Raises:
        UsageError: the interpreter does not exist.
    """
    command, descriptors = agent_command(python)
    return Start((*command, *words), command[0], descriptors, hello_limit_s=hello_limit_s, on_wait=on_wait)


def host_start(
    host: Host, words: Sequence[str], files: Mapping[str, bytes], on_reached: Callable[[], None], hello_limit_s: float
) -> Start:
    """Return how to start an agent on another machine; `files` go there with it.

    Raises:
        UsageError: the host's name would be parsed as an option.
    """
    argv, feed = launchers.remote_start(host, words, files)
    return Start(tuple(argv), host.host, feed=feed, host=host, on_reached=on_reached, hello_limit_s=hello_limit_s)


def agent_command(python: str | None) -> tuple[list[str], tuple[int, ...]]:
    """Return the command of an agent, and the descriptors to pass to it.

    Raises:
        UsageError: the interpreter does not exist.
    """
    if python is None:
        # -P keeps a stray torch.py in the current folder from being imported.
        return [sys.executable, "-P", "-m", "cpugpu_tui.agent"], ()
    found = interpreter_of(python)
    descriptor = launchers.open_agent_zip()
    return [found, f"/proc/self/fd/{descriptor}"], (descriptor,)


def interpreter_of(python: str) -> str:
    """Return the path of an interpreter.

    Raises:
        UsageError: it does not exist.
    """
    path = home_path(python)
    found = shutil.which(path)
    if found is None:
        kind = kind_of(path)
        unfit = f"is {kind}, and not executable" if kind == "a file" else f"is {kind}"
        trouble = unfit if kind else "not found"
        raise UsageError(f"Interpreter {printable(python)!r} {trouble}.", "Give the path of a Python that has torch.")
    return found


# ------------------------------------------------------------------ host failure


UNREACHABLE, AUTH, NO_PYTHON, NO_TORCH = "unreachable", "auth", "no python", "no torch"
VERSION, CRASHED, TIMEOUT, MISBEHAVING, CANCELLED = "version", "crashed", "timeout", "misbehaving", "cancelled"
KINDS = (UNREACHABLE, AUTH, NO_PYTHON, NO_TORCH, VERSION, CRASHED, TIMEOUT, MISBEHAVING, CANCELLED)
"""Why a host fails, `HostError.kind`."""

_AUTH = re.compile(r"Permission denied|Too many authentication failures|No supported authentication", re.IGNORECASE)
_HOST_KEY = re.compile(r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED", re.IGNORECASE)
_SLURM_REFUSED = re.compile(r"srun: (?:error|fatal): (?!.*task \d+: (?:Exited|Killed|Segmentation|Aborted))")


class HostError(UnfitError):
    """A host cannot be used, or can no longer be used."""

    title = "Host not usable"

    def __init__(self, kind: str, message: str, remedy: str = "") -> None:
        """`kind` is one of `KINDS`."""
        super().__init__(message, remedy)
        self.kind = kind


@dataclass(frozen=True)
class Progress:
    """How far the start of an agent got."""

    is_reached: bool
    """The host has run our shell line."""
    is_ready: bool
    """The agent has said hello."""
    is_late: bool = False
    """The agent was ended because its hello took too long."""


def no_program(program: str, error: OSError) -> HostError:
    """Return the error for a launcher that is not installed on this machine."""
    return HostError(
        UNREACHABLE, f"Cannot start {program} on this machine: {error.strerror}.",
        "Install it, or choose another launcher in the hosts file.",
    )  # fmt: skip


def classify_host_failure(host: Host, gone: AgentExited, progress: Progress, limit_s: float) -> HostError | None:
    """Return why the host ended the agent; None if the agent was at work and died by itself."""
    if progress.is_late:
        return HostError(
            TIMEOUT, f"The agent on {host.host} did not start within {limit_s:g} s.{_last_line(gone)}",
            "Check what its interpreter waits for, or raise --start-timeout.",
        )  # fmt: skip
    lost = _connection(host, gone, is_reached=progress.is_reached)
    if lost is not None:
        return lost
    if progress.is_ready:
        return None
    return _interpreter(host, gone) if progress.is_reached else _not_reached(host, gone)


def _connection(host: Host, gone: AgentExited, *, is_reached: bool) -> HostError | None:
    """Return the failure of a connection that ssh or srun reported."""
    text = "\n".join(gone.last_lines)
    if host.launcher == "ssh" and gone.exit_code == launchers.SSH_FAILED:
        if is_reached:
            return HostError(
                UNREACHABLE, f"The connection to {host.host} was lost.{_last_line(gone)}",
                "Finished cases are saved. Run again when the host answers.",
            )  # fmt: skip
        return _ssh(host, gone, text)
    if host.launcher == "srun" and _SLURM_REFUSED.search(text) and not is_reached:
        return HostError(
            UNREACHABLE, f"Slurm did not start the agent on {host.host}.{_last_line(gone)}",
            f"Try `srun --nodelist={host.host} hostname`, and add missing options to `options` in the hosts file.",
        )  # fmt: skip
    if host.launcher == "srun" and re.search(r"Node failure|NODE FAIL|lost contact", text, re.IGNORECASE):
        return HostError(UNREACHABLE, f"Slurm lost the node {host.host}.{_last_line(gone)}", "Check it with `sinfo`.")
    if host.launcher == "srun" and is_reached and gone.exit_code == -signal.SIGTERM:
        # Slurm sends it after scancel and at a time limit. A further agent would be the job that nobody wants.
        return HostError(
            CANCELLED, f"Slurm ended the job on {host.host}.{_last_line(gone)}",
            "Somebody cancelled it, or its time was over. Finished cases are saved. Run again for the others.",
        )  # fmt: skip
    return None


def _ssh(host: Host, gone: AgentExited, text: str) -> HostError:
    name = shlex.quote(host.host)
    if _HOST_KEY.search(text):
        return HostError(
            AUTH, f"The host key of {host.host} is unknown, or has changed.",
            f"Connect once with `ssh {name}` and check the key.",
        )  # fmt: skip
    if _AUTH.search(text):
        return HostError(
            AUTH, f"{host.host} refused a login without password.{_last_line(gone)}",
            f"Make `ssh -o BatchMode=yes {name} true` work: set a key in ssh_config, or run `ssh-add`.",
        )  # fmt: skip
    return HostError(
        UNREACHABLE, f"Cannot reach {host.host}.{_last_line(gone)}",
        f"Try `ssh {name} true`. The name may need an entry in ssh_config.",
    )  # fmt: skip


def _not_reached(host: Host, gone: AgentExited) -> HostError:
    return HostError(
        UNREACHABLE, f"{host.launcher} did not reach {host.host}: it {gone.manner}.{_last_line(gone)}",
        "Run its command by hand: `cpugpu-tui fleet hosts` prints it.",
    )  # fmt: skip


def _interpreter(host: Host, gone: AgentExited) -> HostError:
    """Return why the interpreter could not run the agent."""
    match gone.exit_code:
        case code if code == launchers.EXIT_PRE:
            return HostError(CRASHED, f"`pre` of {host.host} failed.{_last_line(gone)}", "Fix it in the hosts file.")
        case code if code == launchers.EXIT_OLD:
            found = gone.last_lines[-1] if gone.last_lines else "Its Python"
            return HostError(
                VERSION, f"{host.python} on {host.host} is too old: {found}.",
                "Name Python 3.10 or later with --python or in the hosts file.",
            )  # fmt: skip
        case code if code in (launchers.EXIT_NOT_FOUND, launchers.EXIT_NOT_EXECUTABLE):
            what = "not found" if code == launchers.EXIT_NOT_FOUND else "cannot be executed"
            return HostError(
                NO_PYTHON, f"{host.python} {what} on {host.host}.{_last_line(gone)}",
                "Name one that has torch with --python or in the hosts file, or load one in `pre`.",
            )  # fmt: skip
    return HostError(
        CRASHED, f"{host.python} on {host.host} could not run the agent: it {gone.manner}.{_last_line(gone)}",
        f"Try `{host.python} -c 'import torch'` on that host.",
    )  # fmt: skip


def _last_line(gone: AgentExited) -> str:
    return f" {gone.last_words}" if gone.last_lines else ""
