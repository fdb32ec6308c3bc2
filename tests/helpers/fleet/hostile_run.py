"""Hostile agents beside the command: a fleet of them and one good host, or one of them in a run of this machine."""

import json
import os
import shlex
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.machine.fake_interpreters import interpreter

from cpugpu_tui.model import Plan, Simulation
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.session.planning import PlanRequest, build_plan

SIZES = "64,128"
FAST = "cpu_overhead_ns=200000,launch_ns=200000,first_call_ns=0"
GOOD = "good"
MOST_BYTES = 200_000_000
"""Memory limit under attack; a normal command needs 50 MB."""

AGENT = Path(__file__).with_name("hostile_agent.py")


def plan() -> Plan:
    """Return the plan that all of these get."""
    noise = {name: float(value) for name, value in (pair.split("=") for pair in FAST.split(","))}
    return build_plan(PlanRequest(("matmul",), sizes=SIZES, simulation=Simulation(**noise)))  # type: ignore[arg-type]


def record(path: Path) -> Path:
    """Write down what a real agent sends for that plan."""
    with subprocess.Popen(
        [sys.executable, "-m", "cpugpu_tui.agent", "--simulated"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as agent:
        agent.stdin.write(json.dumps(to_plain(plan())).encode() + b"\n")
        agent.stdin.flush()  # and left open: its end would end the agent
        agent.stdout.readline()  # it runs
        path.write_bytes(agent.stdout.read())
    return path


def python_of(folder: Path, variant: str, recorded: Path, *, host: bool = False) -> Path:
    """Write a program that plays a variant in an interpreter's place, or in a launcher's."""
    path = folder / f"{variant.replace(':', '-')}{'-host' if host else ''}"
    words = shlex.join([sys.executable, "-S", str(AGENT), variant, str(recorded), "host" if host else "here"])
    return Path(interpreter(path, f'exec {words} "$@"'))


def fleet_of(folder: Path, variants: tuple[str, ...], recorded: Path) -> list[str]:
    """Return the words of a fleet of one good host and these; each host has the name of its variant."""
    lines = ["[launchers]"]
    names = {variant: variant.replace(":", "-") for variant in variants}
    for variant, name in names.items():
        lines.append(f'{name} = [{json.dumps(str(python_of(folder, variant, recorded, host=True)))}, "{{host}}"]')
    lines.append(f'[[hosts]]\nhost = "{GOOD}"\nlauncher = "local"\npython = {json.dumps(sys.executable)}')
    lines += [f'[[hosts]]\nhost = "{name}"\nlauncher = "{name}"' for name in names.values()]
    path = folder / "hosts.toml"
    path.write_text("\n".join(lines) + "\n")
    return ["fleet", "run", "-H", str(path), "matmul", "--size", SIZES, "--simulate", FAST, "--json"]


def run_of(folder: Path, variant: str, recorded: Path) -> list[str]:
    """Return the words of a run whose agent on this machine plays a variant."""
    python = str(python_of(folder, variant, recorded))
    return ["run", "matmul", "--size", SIZES, "--simulate", FAST, "--json", "--starts", "1", "--python", python]


@dataclass(frozen=True)
class Ended:
    """Outcome of a command."""

    code: int
    """-9 for one that had to be killed at its deadline."""
    out: str
    err: str
    peak_bytes: int
    """Most memory that the command itself had resident."""

    @property
    def last(self) -> dict[str, Any]:
        """The last line of its stream."""
        return dict(json.loads(self.out.splitlines()[-1]))

    @property
    def hosts(self) -> dict[str, dict[str, Any]]:
        """Host → its object in the last line."""
        return {host["host"]: host for host in self.last["hosts"]}

    @property
    def fault(self) -> str:
        """What no command may do, whatever its agents send; empty if it did not."""
        if self.code < 0:
            return "no end in time"
        if "Traceback" in self.err or "Internal error" in self.out:
            return "a traceback"
        if self.peak_bytes > MOST_BYTES:
            return f"{self.peak_bytes / 1e6:.0f} MB"
        if "\x1b" in self.out + self.err:
            return "an escape sequence came through"
        return "" if self.out else "nothing on stdout"


def watch(words: list[str], database: Path, deadline_s: float = 120.0) -> Ended:
    """Run the command to its end, and look at its memory."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CPUGPU_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "cpugpu_tui", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**environment, "CPUGPU_DB": str(database)}, text=True,
    )  # fmt: skip
    peaks, over = [0], threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            peaks.append(peak_bytes(process.pid) or peaks[-1])

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        out, err = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    finally:
        over.set()
        looking.join()
    return Ended(process.returncode, out, err, max(peaks))


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process had resident; 0 where it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)
