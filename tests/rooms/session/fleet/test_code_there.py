"""A person's code on another machine: over a real sshd with another home folder, and on a fleet."""

import signal
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.helpers.command_line import PATIENCE_S, Witness, next_event, until
from tests.helpers.fleet import sshd_server
from tests.helpers.fleet.fleet_command import fleet, inventory, objects, states
from tests.helpers.fleet.sshd_server import host_lines, server

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_UNFIT
from cpugpu_tui.model import CodeTraced, DeviceSampled, RunStarted

SSHD = pytest.mark.skipif(bool(sshd_server.why_not()), reason=sshd_server.why_not())
SOON = ("--n", "64", "--device", "cpu", "--threads", "1", "--rounds", "4")


@pytest.fixture
def code(tmp_path):
    """A function whose file imports one beside it, which imports one of a package."""
    folder = tmp_path / "project"
    (folder / "parts").mkdir(parents=True)
    (folder / "mine.py").write_text("import beside, torch\ndef inputs(n):\n    return torch.ones(n, n)\n"
                                    "def scaled(x):\n    return x @ x * beside.FACTOR\n")  # fmt: skip
    (folder / "beside.py").write_text("from parts.inner import FACTOR\n")
    (folder / "parts" / "__init__.py").touch()
    (folder / "parts" / "inner.py").write_text("FACTOR = 2.0\n")
    (folder / "unused.py").write_text("raise SystemExit\n")
    return f"{folder}/mine.py:scaled"


@pytest.fixture
def node(tmp_path):
    """A server, and an inventory with it: its home and temporary folders are empty ones of its own."""
    for name in ("home", "temporary"):
        (tmp_path / name).mkdir()
    with server(tmp_path / "sshd") as node:
        env = f'env = {{ HOME = "{tmp_path}/home", TMPDIR = "{tmp_path}/temporary" }}\n'
        text = f'[defaults]\npython = "{sys.executable}"\n{env}{host_lines("127.0.0.1", node.options())}'
        yield node, inventory(tmp_path, text)


def left_behind(tmp_path):
    return [path for name in ("home", "temporary") for path in (tmp_path / name).rglob("*")]


def receipt(outcome):
    assert outcome.code == EXIT_OK, outcome.err
    traced = [event for event in outcome.events if isinstance(event, CodeTraced)]
    return tuple(replace(event, seq=0, wall_ns=0, mono_ns=0, peak_host_bytes=None) for event in traced)


@SSHD
def test_code_gives_the_receipt_of_here_and_leaves_nothing(cpugpu, tmp_path, node, code):
    there = cpugpu("time", code, *SOON, "-H", node[1], "--json")
    assert receipt(there) == receipt(cpugpu.here("time", code, *SOON, "--json"))
    assert (
        "Sending mine.py, beside.py, parts/__init__.py and parts/inner.py to 127.0.0.1 (4 files, 0.2 kB)" in there.err
    )
    (started,) = [event for event in there.events if isinstance(event, RunStarted)]
    assert started.plan.codes[0].target == tuple(code.split(":"))
    assert f" -w 127.0.0.1 -H {node[1]} " in cpugpu.here("show", "1").out.partition("Again: ")[2]
    assert not left_behind(tmp_path)
    assert not psutil.Process(node[0].pid).children()


@SSHD
def test_two_codes_are_compared_there_and_leave_nothing(cpugpu, tmp_path, node, code):
    old = Path(code.partition(":")[0]).with_name("old.py")
    old.write_text("import torch\ndef scaled(x):\n    return x @ x * 3.0\n")
    done = cpugpu("time", code, "--against", f"{old}:scaled", "--let", "x=torch.ones(n, n)", *SOON[:-2], "-H", node[1])
    assert (done.code, "NOT COMPARABLE" in done.out) == (EXIT_CASES_FAILED, True), done.err
    assert "Sending mine.py, old.py, beside.py" in done.err
    assert done.err.count("n = 64: different results: ") == 1, "2 in one file there, 3 in the other"
    until(lambda: not left_behind(tmp_path))  # by guardians, no children of ours
    assert not psutil.Process(node[0].pid).children()


@SSHD
@pytest.mark.parametrize("by", ["ctrl+c", "kill -9", "lost connection"])
def test_nothing_is_left_however_it_ends(cpugpu, tmp_path, node, code, by):
    with cpugpu.start("time", code, *SOON[:-2], "--n", "64:2064:1", "-H", node[1], "--json") as process:
        next_event(process, lambda event: isinstance(event, DeviceSampled))
        assert left_behind(tmp_path), "its files are there while it runs"
        below = psutil.Process(node[0].pid).children(recursive=True)
        processes = [Witness(each.pid) for each in below if each.name().startswith(("python", "cpugpu"))]
        assert len(processes) == 2, "the agent and its guardian"
        if by == "lost connection":
            psutil.Process(node[0].pid).children()[0].kill()
        else:
            process.send_signal(signal.SIGINT if by == "ctrl+c" else signal.SIGKILL)
        assert all(each.sees_the_end() for each in processes)
        ended = process.communicate(timeout=PATIENCE_S)[1]
        if by != "kill -9":
            assert process.returncode == (EXIT_INTERRUPTED if by == "ctrl+c" else EXIT_UNFIT), ended
    assert not left_behind(tmp_path)


def test_a_fleet_times_the_same_code_on_every_host(cpugpu, code):
    outcome = fleet(cpugpu, "-w", "a,b", "--launcher", "local", code, *SOON[2:4], "--size", "64", "--rounds", "4",
                    "--threads", "1")  # fmt: skip
    assert states(outcome) == {"a": "done", "b": "done"}, outcome.err
    assert outcome.err.count("Sending mine.py") == 1
    assert " to 2 hosts (4 files" in outcome.err
    assert len([each for each in objects(outcome.out) if each["event"] == "CodeTraced"]) == 2
