"""Fleets on this machine that are stopped, or whose agents lose their controller."""

import signal
import subprocess
import sys

import pytest
from tests.helpers.command_line import PATIENCE_S, Witness
from tests.helpers.fleet.fleet_command import LONG, agents_below, all_timing, inventory, objects, until
from tests.helpers.machine.fake_interpreters import interpreter
from tests.rooms.session.fleet.test_fleet_local import here

from cpugpu_tui.errors import EXIT_INTERRUPTED

__all__ = ["here"]


# ------------------------------------------------------------------ stopping and dying


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, EXIT_INTERRUPTED), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_ends_all_hosts_and_keeps_what_is_finished(cpugpu, number, code):
    with cpugpu.start("fleet", "run", "-w", "n[1-3]", "--launcher", "local", *LONG, "--json") as process:
        until(process, lambda told: told["event"] == "CaseFinished")
        agents = [Witness(pid) for pid in agents_below(process)]
        assert len(agents) == 3
        process.send_signal(number)
        rest = process.stdout.read()
        assert process.wait(PATIENCE_S) == code
        assert all(agent.sees_the_end() for agent in agents)
    last = objects(rest)[-1]
    assert {host["state"] for host in last["hosts"]} == {"stopped"}
    runs = cpugpu.here("history", "--json").objects
    assert {run["status"] for run in runs} == {"stopped"}
    assert any(run["cases_ok"] for run in runs)


def test_a_killed_controller_leaves_no_agent(cpugpu):
    with cpugpu.start("fleet", "run", "-w", "n[1-3]", "--launcher", "local", *LONG, "--json") as process:
        all_timing(process, ("n1", "n2", "n3"))
        agents = [Witness(pid) for pid in agents_below(process)]
        assert len(agents) == 3
        process.kill()
        assert all(agent.sees_the_end() for agent in agents)
    assert {run["status"] for run in cpugpu.here("history", "--json").objects} == {"interrupted"}


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_fleet(cpugpu):
    with cpugpu.start("fleet", "run", "-w", "n[1-2]", "--launcher", "local", *LONG, "--json") as process:
        all_timing(process, ("n1", "n2"))
        agents = [Witness(pid) for pid in agents_below(process)]
        process.stdout.close()
        process.wait(PATIENCE_S)
        assert all(agent.sees_the_end() for agent in agents)


def agent(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "cpugpu_tui.agent", "--simulated", *words],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0,
    )  # fmt: skip


def test_an_agent_whose_controller_is_silent_ends_itself():
    """A broken link does not end stdin."""
    with agent("--alive", "0.3") as process:
        assert process.wait(PATIENCE_S) == 1


@pytest.mark.slow
def test_an_agent_that_hears_of_its_controller_stays():
    """It runs three times as long as a silence may last."""
    with agent("--alive", "2.0") as process:
        for _ in range(12):
            process.stdin.write(b"alive\n")
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 1


def test_the_commands_that_are_printed_can_be_tried_by_hand(cpugpu, tmp_path):
    """Each word of a template or of `options` is one word again after a shell has parsed it."""
    came = interpreter(tmp_path / "get in", 'shift; echo "$1" >> came; shift; exec "$@"')
    hosts = inventory(
        tmp_path,
        f"""[launchers]\nbox = ["{came}", "-x", "to; {{host}}"]\n
[[hosts]]\nhost = "n1"\nlauncher = "box"\n""",
    )
    out = cpugpu("fleet", "hosts", "-H", hosts, COLUMNS="400").out
    (line,) = [line for line in out.splitlines() if line.startswith(" n1")]
    subprocess.run(line[line.index("'") :], shell=True, check=True, cwd=tmp_path, timeout=PATIENCE_S)
    assert (tmp_path / "came").read_text() == "to; n1\n"
