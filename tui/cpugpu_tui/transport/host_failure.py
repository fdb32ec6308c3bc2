"""Why a host has no agent, or none any more: what a launcher and a shell said, in one sentence with a remedy."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from cpugpu_tui.config.hosts import Host
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.transport.inbox import Gone
from cpugpu_tui.transport.launchers import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_OLD, EXIT_PRE, SSH_FAILED

UNREACHABLE, AUTH, NO_PYTHON, NO_TORCH = "unreachable", "auth", "no python", "no torch"
VERSION, CRASHED, TIMEOUT, MISBEHAVING = "version", "crashed", "timeout", "misbehaving"

_AUTH = re.compile(r"Permission denied|Too many authentication failures|No supported authentication", re.IGNORECASE)
_HOST_KEY = re.compile(r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED", re.IGNORECASE)
_SLURM_REFUSED = re.compile(r"srun: (?:error|fatal): (?!.*task \d+: (?:Exited|Killed|Segmentation|Aborted))")


class HostError(UnfitError):
    """A host cannot be used, or no longer."""

    title = "Host not usable"

    def __init__(self, kind: str, message: str, remedy: str = "") -> None:
        """`kind` is a word of this module."""
        super().__init__(message, remedy)
        self.kind = kind


@dataclass(frozen=True)
class Progress:
    """How far an agent came."""

    is_reached: bool
    """Its host has run our shell line."""
    is_ready: bool
    """It has said hello."""
    is_late: bool = False
    """It was ended because it took too long to say so."""


def no_program(program: str, error: OSError) -> HostError:
    """Return the sentence for a launcher that is not installed here."""
    return HostError(
        UNREACHABLE, f"{program} cannot be started here: {error.strerror}.",
        "Install it, or choose another launcher in the hosts file.",
    )  # fmt: skip


def classify_host_failure(host: Host, gone: Gone, progress: Progress, limit_s: float) -> HostError | None:
    """Return why an agent's end is its host's affair; None where an agent that was at work died by itself."""
    if progress.is_late:
        return HostError(
            TIMEOUT, f"{host.host} gave no agent within {limit_s:g} s.{_said(gone)}",
            "Look what its interpreter waits for, or raise --start-timeout.",
        )  # fmt: skip
    lost = _connection(host, gone, is_reached=progress.is_reached)
    if lost is not None:
        return lost
    if progress.is_ready:
        return None
    return _interpreter(host, gone) if progress.is_reached else _not_reached(host, gone)


def _connection(host: Host, gone: Gone, *, is_reached: bool) -> HostError | None:
    """Return what ssh and srun say of themselves."""
    text = "\n".join(gone.last_lines)
    if host.launcher == "ssh" and gone.exit_code == SSH_FAILED:
        if is_reached:
            return HostError(
                UNREACHABLE, f"The connection to {host.host} was lost.{_said(gone)}",
                "Cases that were finished are saved; run it again when the host answers.",
            )  # fmt: skip
        return _ssh(host, gone, text)
    if host.launcher == "srun" and _SLURM_REFUSED.search(text) and not is_reached:
        return HostError(
            UNREACHABLE, f"Slurm does not start it on {host.host}.{_said(gone)}",
            f"Try `srun --nodelist={host.host} hostname`, and say what it needs in `options`.",
        )  # fmt: skip
    if host.launcher == "srun" and re.search(r"Node failure|NODE FAIL|lost contact", text, re.IGNORECASE):
        return HostError(UNREACHABLE, f"Slurm lost the node {host.host}.{_said(gone)}", "Look at it with `sinfo`.")
    return None


def _ssh(host: Host, gone: Gone, text: str) -> HostError:
    name = shlex.quote(host.host)
    if _HOST_KEY.search(text):
        return HostError(
            AUTH, f"The key of {host.host} is not known here, or not the known one.",
            f"Connect once with `ssh {name}` and look at the key.",
        )  # fmt: skip
    if _AUTH.search(text):
        return HostError(
            AUTH, f"{host.host} does not let this account in without a password.{_said(gone)}",
            f"Make `ssh -o BatchMode=yes {name} true` work: a key in ssh_config, or `ssh-add`.",
        )  # fmt: skip
    return HostError(
        UNREACHABLE, f"{host.host} cannot be reached.{_said(gone)}",
        f"Try `ssh {name} true`; the name may need an entry in ssh_config.",
    )  # fmt: skip


def _not_reached(host: Host, gone: Gone) -> HostError:
    return HostError(
        UNREACHABLE, f"{host.launcher} did not get to {host.host}: it {gone.manner}.{_said(gone)}",
        "Try its command by hand; `cpugpu-tui fleet hosts` prints it.",
    )  # fmt: skip


def _interpreter(host: Host, gone: Gone) -> HostError:
    """Return what became of the interpreter that was to be the agent."""
    match gone.exit_code:
        case code if code == EXIT_PRE:
            return HostError(CRASHED, f"`pre` of {host.host} failed.{_said(gone)}", "Mend it in the hosts file.")
        case code if code == EXIT_OLD:
            found = gone.last_lines[-1] if gone.last_lines else "Its Python"
            return HostError(
                VERSION, f"{host.python} on {host.host} is too old: {found}.",
                "Name a Python of version 3.10 or later by `python` in the hosts file.",
            )  # fmt: skip
        case code if code in (EXIT_NOT_FOUND, EXIT_NOT_EXECUTABLE):
            missing = code == EXIT_NOT_FOUND
            what = f"There is no {host.python} on" if missing else f"{host.python} cannot be executed on"
            return HostError(
                NO_PYTHON, f"{what} {host.host}.{_said(gone)}",
                "Name an interpreter that has torch by `python` in the hosts file, or load it in `pre`.",
            )  # fmt: skip
    return HostError(
        CRASHED, f"{host.python} on {host.host} did not become an agent: it {gone.manner}.{_said(gone)}",
        f"Try `{host.python} -c 'import torch'` there.",
    )  # fmt: skip


def _said(gone: Gone) -> str:
    return f" {gone.last_words}" if gone.last_lines else ""
