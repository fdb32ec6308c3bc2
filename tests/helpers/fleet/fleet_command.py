"""`cpugpu-tui fleet` in a process of its own, and the state of each host in its output."""

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
from tests.helpers.command_line import FAST, CommandLine, Outcome

QUICK = ("matmul", "--size", "64", "--simulate", FAST)
"""One case of milliseconds."""

LONG = ("matmul", "--size", "64:1064:1", "--rounds", "4", "--simulate", f"{FAST},pace=1")
"""A run that outlives any test."""


def objects(text: str | bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def ends(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Return host → its object in the last line of the stream."""
    last = objects(outcome.out)[-1]
    assert last["event"] == "FleetFinished"
    assert last["exit_code"] == outcome.code
    return {host["host"]: host for host in last["hosts"]}


def states(outcome: Outcome) -> dict[str, str]:
    return {name: host["state"] for name, host in ends(outcome).items()}


def lines_of(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """Yield objects as they are printed, to the end of the stream."""
    while line := process.stdout.readline():
        yield json.loads(line)


def until(process: subprocess.Popen[bytes], wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    for told in lines_of(process):
        if wanted(told):
            return told
    raise AssertionError("the stream ended before that came")


def all_timing(process: subprocess.Popen[bytes], hosts: Iterable[str]) -> None:
    """Wait until every host has timed something."""
    left = set(hosts)
    for told in lines_of(process):
        if told["event"] == "HalfRoundTimed":
            left.discard(told["host"])
        if not left:
            return
    raise AssertionError(f"the stream ended before {left} timed anything")


def agents_below(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the process ids of interpreters that work as agents below a fleet's command."""
    below = psutil.Process(process.pid).children(recursive=True)
    return [each.pid for each in below if "--alive" in each.cmdline() and each.name().startswith("python")]


def inventory(folder: Path, text: str) -> Path:
    path = folder / "hosts.toml"
    path.write_text(text)
    return path


def fleet(command: CommandLine, *arguments: object) -> Outcome:
    return command("fleet", "run", *arguments, "--json")
