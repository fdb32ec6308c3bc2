"""What Slurm says of its nodes: a task is given no more CPUs and GPUs than are asked for."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from tempfile import TemporaryFile

from cpugpu_tui.config.hosts import Host
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.machine.text import printable

ASK = ("sinfo", "--noheader", "--Node", "--Format=NodeList:256,CPUs:16,Gres:512")
"""A line for each node and partition."""

ANSWER_WITHIN_S = 20.0
"""`sinfo` asks a controller over the network."""


def with_resources(hosts: Iterable[Host]) -> tuple[Host, ...]:
    """Return the hosts; those of Slurm that do not say how many GPUs and CPUs they want are to have all of the node's.

    Raises:
        UnfitError: one of them does not say it, and Slurm cannot be asked.
    """
    known = tuple(hosts)
    if not any(_is_open(host) for host in known):
        return known
    nodes = nodes_in(_asked())
    return tuple(_filled(host, nodes) if _is_open(host) else host for host in known)


def _is_open(host: Host) -> bool:
    return host.launcher == "srun" and (host.gpus is None or host.cpus is None)


def _filled(host: Host, nodes: dict[str, tuple[int, int]]) -> Host:
    # A node that Slurm does not know is left to srun, whose complaint becomes that host's state.
    cpus, gpus = nodes.get(host.host, (0, 0))
    return replace(host, cpus=cpus if host.cpus is None else host.cpus, gpus=gpus if host.gpus is None else host.gpus)


def _asked() -> str:
    remedy = "Say `gpus` and `cpus` of each host in the hosts file, or run this where Slurm's commands are."
    # Into files: whoever reads pipes waits for everybody who holds them, not only for sinfo.
    with TemporaryFile("w+", errors="replace") as out, TemporaryFile("w+", errors="replace") as err:
        try:
            done = subprocess.run(ASK, stdout=out, stderr=err, timeout=ANSWER_WITHIN_S, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise UnfitError(f"sinfo cannot be started: {error.strerror}.", remedy) from error
        except subprocess.TimeoutExpired as error:
            raise UnfitError(f"sinfo said nothing for {ANSWER_WITHIN_S:g} s.", remedy) from error
        out.seek(0)
        err.seek(0)
        if done.returncode:
            said = printable((err.read().strip().splitlines() or ["nothing"])[-1])
            raise UnfitError(f"sinfo failed: {said}.", remedy)
        return out.read()


def nodes_in(text: str) -> dict[str, tuple[int, int]]:
    """Return node → CPUs and GPUs, from what `ASK` prints; lines that are none are passed over."""
    found: dict[str, tuple[int, int]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].isdigit():
            found[words[0]] = int(words[1]), _gpus_in(" ".join(words[2:]))
    return found


def _gpus_in(gres: str) -> int:
    """Return 8 for `gpu:a100:8(S:0-1),nvme:1`; kinds are added up."""
    without_sockets = re.sub(r"\([^)]*\)", "", gres)
    counts = (re.fullmatch(r"gpu(?::[^:,]+)*?(?::(\d+))?", part.strip()) for part in without_sockets.split(","))
    return sum(int(count[1] or 1) for count in counts if count is not None)
