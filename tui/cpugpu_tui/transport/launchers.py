"""How an agent is started on another machine: argv templates round one shell line. Nothing is installed there.

The line says that the host was reached, then gives an interpreter a few lines that read the agent's zip from stdin
into anonymous memory and run it: no file is written on that machine, also when it is killed. Everything that a person
wrote goes through `shlex`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from cpugpu_tui.config.hosts import Host, check_host
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
