"""How an agent is started on another machine: argv templates round one shell line. Nothing is installed there.

The line says that the host was reached, then gives an interpreter a few lines that read the agent's zip from stdin
into anonymous memory and run it: no file is written on that machine, also when it is killed. Everything that a person
wrote goes through `shlex`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from tempfile import TemporaryFile

from cpugpu_tui.config.hosts import Host, check_host
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.timing.control import ALIVE
from cpugpu_tui.transport.agent_zip import agent_zip

SSH = (
    "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
    # A connection that the person has open is used, which is how two factors go; ours is never one for others.
    "-o", "ControlMaster=no",
)  # fmt: skip
"""Options of the OpenSSH client; `Host.options` stand before them, and the first one wins."""

SSH_FAILED = 255
"""What ssh exits with when it is the connection that failed."""

BEAT_S = 5.0
"""How often the controller says that it lives."""

SILENCE_S = 20.0
"""How long an agent goes on without that: a link that is down ends nobody's stdin. Longer than ssh's own 15 s."""

EXIT_PRE, EXIT_OLD, EXIT_NOT_FOUND, EXIT_NOT_EXECUTABLE = 90, 91, 127, 126
"""What the shell line exits with: the person's own commands failed; Python is too old; the shell's own two."""

REACHED = b'{"event":"HostReached"}'
"""What the shell line prints first: from here on it is not the connection that fails."""

SOURCE = """\
import os, signal, sys
if sys.version_info < (3, 10):
    sys.stderr.write('Python %d.%d' % sys.version_info[:2] + os.linesep)
    sys.stderr.flush()
    os._exit(OLD)
import runpy
signal.alarm(120)
left = int(sys.argv[1])
place = os.memfd_create('cpugpu-tui-agent.zip')
while left:
    piece = os.read(0, min(left, 65536))
    if not piece:
        os._exit(1)
    os.write(place, piece)
    left -= len(piece)
signal.alarm(0)
sys.path[:] = [path for path in sys.path if path]
sys.argv[1:2] = []
runpy.run_path('/proc/self/fd/%d' % place, run_name='__main__')
""".replace("OLD", str(EXIT_OLD))
"""Reads no byte more than the zip, for the plan comes behind it. No double quote, no `!`, no backslash: it passes
through login shells of every kind. An interrupted transfer ends by itself."""


def shell_line(host: Host, arguments: Sequence[str], zip_bytes: int) -> str:
    """Return what a POSIX shell on the host is to run."""
    # An empty line first: what a profile or a banner left without an end would swallow the line that counts.
    parts = [f"echo; echo {shlex.quote(REACHED.decode())}"]
    if host.pre:
        # `eval`, each by itself: a comment or an open quote would reach into what follows. `command` keeps dash from
        # ending over it. stdin is not theirs, a command that reads would eat the zip; nor is the agent's stdout.
        pre = " && ".join(f"command eval {shlex.quote(command)}" for command in host.pre)
        parts.append(f"{{ {pre}; }} </dev/null >&2 || exit {EXIT_PRE}")
    parts += [f"export {name}={shlex.quote(value)}" for name, value in host.env.items()]
    words = ["-c", f"exec({SOURCE!r})", str(zip_bytes), *arguments, ALIVE, f"{SILENCE_S:g}"]
    # Not `exec`: what ssh says of a killed process cannot be told from a lost connection, 128 + signal can.
    parts.append(f"{_interpreter(host.python)} {shlex.join(words)}")
    parts.append("exit $?")
    return "; ".join(parts)


def _interpreter(python: str) -> str:
    return f'"$HOME"/{shlex.quote(python[2:])}' if python.startswith("~/") else shlex.quote(python)


def launch_argv(host: Host, line: str) -> list[str]:
    """Return the command that runs a shell line on the host with our stdin, stdout and stderr.

    Raises:
        UsageError: the host's name would be read as an option.
    """
    name = check_host(host.host)
    # `module` and the like are defined by a login shell's profile; who needs none is spared what profiles print.
    shell = ["sh", "-lc" if host.pre else "-c", line]
    if host.template:
        return _filled(host.template, name, shell)
    match host.launcher:
        case "local":
            return shell
        case "srun":
            return [*_srun(host, name), *shell]
        case _:
            return ["ssh", *host.options, *SSH, "--", name, f"exec {shlex.join(shell)}"]


def _srun(host: Host, name: str) -> list[str]:
    """Return Slurm's words: without `--exclusive` and `-c` a task gets one CPU, which makes every GPU look fast."""
    words = ["srun", "-N1", "-n1", f"--nodelist={name}", "--exclusive", "--unbuffered", "--job-name=cpugpu-tui"]
    if host.gpus:
        words.append(f"--gres=gpu:{host.gpus}")
    if host.cpus:
        words += ["-c", str(host.cpus)]
    return [*words, *host.options]


def _filled(template: Sequence[str], name: str, shell: list[str]) -> list[str]:
    """Return a template with its host; the shell's words come last, or as one word where `{command}` stands."""
    if not any("{command}" in word for word in template):
        return [*(word.replace("{host}", name) for word in template), *shell]
    command = shlex.join(shell)
    return [command.join(part.replace("{host}", name) for part in word.split("{command}")) for word in template]


def remote_start(host: Host, arguments: Sequence[str]) -> tuple[list[str], bytes]:
    """Return the command of an agent on a host, and what goes to its stdin before anything else.

    Raises:
        UsageError: the host's name would be read as an option.
    """
    data = agent_zip()
    return launch_argv(host, shell_line(host, arguments, len(data))), data


# ------------------------------------------------------------------ Slurm's nodes


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
    return tuple(_with_node(host, nodes) if _is_open(host) else host for host in known)


def _is_open(host: Host) -> bool:
    return host.launcher == "srun" and (host.gpus is None or host.cpus is None)


def _with_node(host: Host, nodes: dict[str, tuple[int, int]]) -> Host:
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
