"""Hosts behind a real sshd: keys, banners, killed agents, killed clients."""

import os
import signal
import socket
import sys

import psutil
import pytest
from tests.helpers.command_line import FAST, PATIENCE_S, Witness
from tests.helpers.fleet import sshd_server
from tests.helpers.fleet.fleet_command import (
    LONG,
    QUICK,
    agents_below,
    all_timing,
    ends,
    fleet,
    inventory,
    lines_of,
    objects,
    states,
)
from tests.helpers.fleet.sshd_server import host_lines, key, server
from tests.helpers.machine.fake_interpreters import interpreter

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK

pytestmark = pytest.mark.skipif(bool(sshd_server.why_not()), reason=sshd_server.why_not())

BANNER = "*** Authorised use only ***\n\x1b]0;owned\x07{}\n" * 50


@pytest.fixture
def node(tmp_path):
    with server(tmp_path / "sshd", banner=BANNER) as node:
        yield node


def defaults():
    return f'[defaults]\npython = "{sys.executable}"\n'


def any_name(node):
    """Return ssh options by which a host of any name is this server."""
    return ["-o", "HostName=127.0.0.1", "-o", f"HostKeyAlias=[127.0.0.1]:{node.port}"]


def test_a_host_behind_ssh_needs_nothing_of_ours(cpugpu, tmp_path, node):
    hosts = inventory(tmp_path, f'{defaults()}pre = "echo loaded"\n{host_lines("127.0.0.1", node.options())}')
    outcome = fleet(cpugpu, "-H", hosts, *QUICK)
    assert outcome.code == EXIT_OK
    assert states(outcome) == {"127.0.0.1": "done"}
    assert "\x1b" not in outcome.out + outcome.err
    (started,) = [told for told in objects(outcome.out) if told["event"] == "RunStarted"]
    assert (started["environment"]["launcher"], started["environment"]["fleet_host"]) == ("ssh", "127.0.0.1")


def test_what_keeps_ssh_out_is_told_apart(cpugpu, tmp_path, node):
    """A refused key, a changed host key, a closed port and an unknown name, beside a host that works."""
    wrong, stranger = key(tmp_path / "wrong"), tmp_path / "stranger"
    stranger.write_text(node.folder.joinpath("known").read_text().replace(
        node.folder.joinpath("host_key.pub").read_text().split()[1], wrong.with_suffix(".pub").read_text().split()[1]
    ))  # fmt: skip
    with socket.socket() as nobody:  # bound, and never listening
        nobody.bind(("127.0.0.1", 0))
        port = str(nobody.getsockname()[1])
        name = any_name(node)
        hosts = inventory(
            tmp_path,
            defaults()
            + host_lines("served", [*node.options(), *name])
            + host_lines("key", [*node.options(wrong), *name])
            + host_lines("hostkey", ["-o", f"UserKnownHostsFile={stranger}", *node.options(), *name])
            + host_lines("port", ["-p", port, *node.options(), *name])
            + host_lines("name.invalid", node.options()),
        )
        outcome = fleet(cpugpu, "-H", hosts, *QUICK)
    assert outcome.code == EXIT_CASES_FAILED
    assert states(outcome) == {
        "served": "done", "key": "auth", "hostkey": "auth", "port": "unreachable", "name.invalid": "unreachable",
    }  # fmt: skip
    said = {name: host["message"] for name, host in ends(outcome).items()}
    assert "Permission denied" in said["key"]
    assert "key" in said["hostkey"]
    assert "refused" in said["port"]
    assert "resolve" in said["name.invalid"]
    assert [run["fleet_host"] for run in cpugpu.here("history", "--json").objects] == ["served"]


@pytest.mark.slow
def test_nobody_is_ever_asked_for_a_password(cpugpu, tmp_path, node):
    """Neither on the terminal nor by an askpass program."""
    asked = tmp_path / "asked"
    program = interpreter(tmp_path / "askpass", f"touch {asked}")
    (node.folder / "sshd_config").write_text(
        (node.folder / "sshd_config").read_text().replace("PasswordAuthentication no", "PasswordAuthentication yes")
    )
    os.kill(node.pid, signal.SIGHUP)
    hosts = inventory(tmp_path, defaults() + host_lines("127.0.0.1", node.options(key(tmp_path / "wrong"))))
    cpugpu("fleet", "run", "-H", hosts, *QUICK, DISPLAY=":0", SSH_ASKPASS=program,
                     SSH_ASKPASS_REQUIRE="force", code=EXIT_CASES_FAILED)  # fmt: skip
    assert not asked.exists()


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_that_somebody_ends_on_one_of_three_hosts_costs_one_case(cpugpu, tmp_path, node, by):
    names = ("n1", "n2", "n3")
    hosts = inventory(
        tmp_path, defaults() + "".join(host_lines(name, [*node.options(), *any_name(node)]) for name in names)
    )
    long = ("matmul", "--size", "64,128,256", "--rounds", "8", "--simulate", f"{FAST},pace=1")
    with cpugpu.start("fleet", "run", "-H", hosts, *long, "--json") as process:
        all_timing(process, names)
        os.kill(agents_below(node)[0], by)
        told = list(lines_of(process))
        assert process.wait(PATIENCE_S) == EXIT_CASES_FAILED
    (failure,) = [each for each in told if each["event"] == "CaseFailed"]
    assert failure["kind"] == "crashed"
    assert by.name in failure["message"]
    assert {each["host"]: (each["state"], each["failed"]) for each in told[-1]["hosts"]} == {
        name: ("done", int(name == failure["host"])) for name in names
    }
    assert [run["cases_ok"] for run in cpugpu.here("history", "--json").objects].count(3) == 2


@pytest.mark.parametrize(
    "whom", ["controller", *(pytest.param(name, marks=pytest.mark.slow) for name in ("client", "server"))]
)
def test_an_agent_goes_with_whoever_it_works_for(cpugpu, tmp_path, node, whom):
    hosts = inventory(tmp_path, defaults() + host_lines("127.0.0.1", node.options()))
    with cpugpu.start("fleet", "run", "-H", hosts, *LONG, "--json") as process:
        all_timing(process, ["127.0.0.1"])
        agents = [Witness(pid) for pid in agents_below(node)]
        assert len(agents) == 1
        if whom == "controller":
            process.kill()
        else:
            children = psutil.Process(process.pid if whom == "client" else node.pid).children()
            (child,) = [each for each in children if each.name() == ("ssh" if whom == "client" else "sshd")]
            child.kill()
        assert all(agent.sees_the_end() for agent in agents)
        if whom == "server":
            told = list(lines_of(process))
            assert told[-1]["hosts"][0]["state"] == "unreachable"
            assert "connection" in told[-1]["hosts"][0]["message"]
            assert process.wait(PATIENCE_S) == EXIT_CASES_FAILED
        else:
            process.kill()
    assert cpugpu.here("history", "--json").objects[0]["status"] in ("interrupted", "failed")
