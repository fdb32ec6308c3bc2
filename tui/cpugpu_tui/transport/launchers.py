"""Commands that start an agent on another machine: argv templates around one shell line. Nothing is installed there.

The line reports that the host was reached. Then it starts an interpreter, which reads the agent's zip from stdin into
anonymous memory and runs it. No file is written on that machine. `shlex` quotes everything that a person wrote.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

from cpugpu_tui.config.hosts import Host, check_host
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.timing.channel import ALIVE, REACHED, SENT

SSH = (
    "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
    # Use a connection that is open already, so that two-factor logins work, but never share ours.
    "-o", "ControlMaster=no",
)  # fmt: skip
"""Options of the OpenSSH client. `Host.options` come before them, and ssh uses the first value of an option."""

SSH_FAILED = 255
"""Exit code of ssh when the connection failed."""

BEAT_S = 5.0
"""Seconds between heartbeats of the controller."""

SILENCE_S = 20.0
"""How long an agent continues without a heartbeat: a broken link does not end stdin. Longer than ssh's own 15 s."""

EXIT_PRE, EXIT_OLD, EXIT_NOT_FOUND, EXIT_NOT_EXECUTABLE = 90, 91, 127, 126
"""Exit codes of the shell line: the person's `pre` commands failed, Python is too old, and the shell's own two."""

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
"""Reads exactly the zip, because the plan follows it. It has no double quote, `!` or backslash, so it passes through
every kind of login shell. The alarm ends an interrupted transfer."""


def shell_line(host: Host, arguments: Sequence[str], zip_bytes: int) -> str:
    """Return the command line for a POSIX shell on the host."""
    # An empty line first: a profile or banner may end without a newline, which would hide the next line.
    parts = [f"echo; echo {shlex.quote(REACHED.decode())}"]
    if host.pre:
        # A separate `eval` each: a comment or an open quote would reach into the next command. `command` keeps dash
        # from exiting on an error. They get neither stdin, which holds the zip, nor the agent's stdout.
        pre = " && ".join(f"command eval {shlex.quote(command)}" for command in host.pre)
        parts.append(f"{{ {pre}; }} </dev/null >&2 || exit {EXIT_PRE}")
    parts += [f"export {name}={shlex.quote(value)}" for name, value in host.env.items()]
    words = ["-c", f"exec({SOURCE!r})", str(zip_bytes), *arguments, ALIVE, f"{SILENCE_S:g}"]
    # Not `exec`: ssh exits alike for a killed process and a lost connection, while the shell exits with 128 + signal.
    parts.append(f"{_interpreter(host.python)} {shlex.join(words)}")
    parts.append("exit $?")
    return "; ".join(parts)


def _interpreter(python: str) -> str:
    return f'"$HOME"/{shlex.quote(python[2:])}' if python.startswith("~/") else shlex.quote(python)


def launch_argv(host: Host, line: str) -> list[str]:
    """Return the command that runs a shell line on the host with our stdin, stdout and stderr.

    Raises:
        UsageError: the host's name would be parsed as an option.
    """
    name = check_host(host.host)
    # A login shell's profile defines `module` and the like. Without `pre`, skip the profile and its output.
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
    """Return the srun command: without `--exclusive` and `-c` a task gets one CPU, which makes every GPU look fast."""
    words = ["srun", "-N1", "-n1", f"--nodelist={name}", "--exclusive", "--unbuffered", "--job-name=cpugpu-tui"]
    if host.gpus:
        words.append(f"--gres=gpu:{host.gpus}")
    if host.cpus:
        words += ["-c", str(host.cpus)]
    return [*words, *host.options]


def _filled(template: Sequence[str], name: str, shell: list[str]) -> list[str]:
    """Fill in a template. The shell's arguments come last, or replace `{command}` as one word."""
    if not any("{command}" in word for word in template):
        return [*(word.replace("{host}", name) for word in template), *shell]
    command = shlex.join(shell)
    return [command.join(part.replace("{host}", name) for part in word.split("{command}")) for word in template]


def remote_start(
    host: Host, arguments: Sequence[str], files: Mapping[str, bytes] | None = None
) -> tuple[list[str], bytes]:
    """Return the command that starts an agent on a host, and the first bytes for its stdin, with `files` by path.

    Raises:
        UsageError: the host's name would be parsed as an option.
    """
    data = agent_zip(tuple((files or {}).items()))
    return launch_argv(host, shell_line(host, arguments, len(data))), data


# ------------------------------------------------------------------ Slurm's nodes


ASK = ("sinfo", "--noheader", "--Node", "--Format=NodeList:256,CPUs:16,Gres:512")
"""Prints a line for each node and partition."""

ANSWER_WITHIN_S = 20.0
"""Time limit of `sinfo`, which asks a controller over the network."""


def with_resources(hosts: Iterable[Host]) -> tuple[Host, ...]:
    """Return the hosts; a Slurm host without `gpus` or `cpus` gets all of its node's.

    Raises:
        UnfitError: a host lacks one of them, and Slurm cannot be asked.
    """
    known = tuple(hosts)
    if not any(_lacks_resources(host) for host in known):
        return known
    nodes = nodes_in(_output_of_sinfo())
    return tuple(_with_node(host, nodes) if _lacks_resources(host) else host for host in known)


def _lacks_resources(host: Host) -> bool:
    return host.launcher == "srun" and (host.gpus is None or host.cpus is None)


def _with_node(host: Host, nodes: dict[str, tuple[int, int]]) -> Host:
    # srun reports an unknown node, and its error becomes the host's state.
    cpus, gpus = nodes.get(host.host, (0, 0))
    return replace(host, cpus=cpus if host.cpus is None else host.cpus, gpus=gpus if host.gpus is None else host.gpus)


def _output_of_sinfo() -> str:
    remedy = "Set `gpus` and `cpus` of each host in the hosts file, or run this on a machine with Slurm."
    # Into files: reading a pipe would wait for every process that holds it, not only for sinfo.
    with TemporaryFile("w+", errors="replace") as out, TemporaryFile("w+", errors="replace") as err:
        try:
            done = subprocess.run(ASK, stdout=out, stderr=err, timeout=ANSWER_WITHIN_S, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise UnfitError(f"Cannot start sinfo: {error.strerror}.", remedy) from error
        except subprocess.TimeoutExpired as error:
            raise UnfitError(f"sinfo did not answer within {ANSWER_WITHIN_S:g} s.", remedy) from error
        out.seek(0)
        err.seek(0)
        if done.returncode:
            why = printable((err.read().strip().splitlines() or ["without a message"])[-1])
            raise UnfitError(f"sinfo failed: {why}.", remedy)
        return out.read()


def nodes_in(text: str) -> dict[str, tuple[int, int]]:
    """Return node → (CPUs, GPUs) from the output of `ASK`; other lines are ignored."""
    found: dict[str, tuple[int, int]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].isdigit():
            found[words[0]] = int(words[1]), _gpus_in(" ".join(words[2:]))
    return found


def _gpus_in(gres: str) -> int:
    """Return the number of GPUs, 8 for `gpu:a100:8(S:0-1),nvme:1`; several kinds are added up."""
    without_sockets = re.sub(r"\([^)]*\)", "", gres)
    counts = (re.fullmatch(r"gpu(?::[^:,]+)*?(?::(\d+))?", part.strip()) for part in without_sockets.split(","))
    return sum(int(count[1] or 1) for count in counts if count is not None)


# ------------------------------------------------------------------ agent zip


ROOMS = ("__init__.py", "errors.py", "model", "workloads", "machine", "decide", "timing", "simulation", "agent")
"""The rooms in the zip; an import contract limits them to the standard library, torch and pynvml."""

MAIN = "agent/__main__.py"
"""The file that becomes the zip's `__main__.py`."""


@lru_cache(maxsize=1)
def agent_zip(files: Sequence[tuple[str, bytes]] = ()) -> bytes:
    """Return a zip that runs as a script: the rooms above, NVML's bindings, and `files` of the person.

    Cached: making it takes 50 ms, and a fleet needs it for each host.
    """
    package = Path(__file__).resolve().parents[1]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for room in ROOMS:
            path = package / room
            for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
                name = str(file.relative_to(package))
                archive.write(file, "__main__.py" if name == MAIN else f"cpugpu_tui/{name}")
        bindings = find_spec("pynvml")
        if bindings is not None and bindings.origin is not None:
            archive.write(bindings.origin, "pynvml.py")
        for place, content in files:
            archive.writestr(f"{SENT}{place}", content)
    return buffer.getvalue()


def open_agent_zip() -> int:
    """Return a descriptor of the zip in anonymous memory, so that nothing is left on disk after kill -9."""
    descriptor = os.memfd_create("cpugpu-tui-agent.zip")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(agent_zip())
    return descriptor
