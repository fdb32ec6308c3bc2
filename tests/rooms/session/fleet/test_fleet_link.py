"""Hosts in network namespaces: a link that breaks during a run, and a host that does not answer."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack

import psutil
import pytest
from tests.helpers.command_line import COMMAND, FAST, PATIENCE_S, Witness
from tests.helpers.fleet import sshd_server
from tests.helpers.fleet.fleet_command import all_timing, inventory, lines_of
from tests.helpers.fleet.sshd_server import host_lines, server

from cpugpu_tui.errors import EXIT_CASES_FAILED
from cpugpu_tui.transport.launchers import SILENCE_S

BUDGET_S = 2 * 1.0
"""ServerAliveInterval times ServerAliveCountMax, as the inventory below has them."""

SLACK_S = 4.0
"""Allowance for ssh's last wait and a busy machine."""


def why_not():
    if reason := sshd_server.why_not():
        return reason
    if shutil.which("ip") is None:
        return "no ip (Debian: iproute2)"
    tried = subprocess.run(["ip", "netns", "add", "cpugpu-probe"], capture_output=True)
    subprocess.run(["ip", "netns", "del", "cpugpu-probe"], capture_output=True)
    return "" if tried.returncode == 0 else "network namespaces are not allowed here"


pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]


class Network:
    """One namespace for the controller and one for each host, linked by a veth pair."""

    def __init__(self, hosts):
        self.tag = f"cg{os.getpid() % 100_000}"
        self.hosts = hosts
        self.controller = f"{self.tag}-ctl"
        self._ip("netns", "add", self.controller)
        for index, host in enumerate(hosts):
            name = self.name(host)
            self._ip("netns", "add", name)
            self._ip("-n", self.controller, "link", "add", f"to{index}", "type", "veth", "peer", "eth0", "netns", name)
            self._ip("-n", self.controller, "addr", "add", f"10.99.{index}.1/24", "dev", f"to{index}")
            self._ip("-n", self.controller, "link", "set", f"to{index}", "up")
            self._ip("-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            self._ip("-n", name, "link", "set", "eth0", "up")

    def name(self, host):
        return f"{self.tag}-{host}"

    def address(self, host):
        return f"10.99.{self.hosts.index(host)}.2"

    def inside(self, name):
        return ["ip", "netns", "exec", name]

    def cut(self, host):
        """Take the host's link down."""
        self._ip("-n", self.name(host), "link", "set", "eth0", "down")

    def _ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True, timeout=PATIENCE_S)

    def close(self):
        for name in (self.controller, *map(self.name, self.hosts)):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.fixture
def network():
    network = Network(("a", "b", "dead"))
    try:
        yield network
    finally:
        network.close()


@pytest.fixture
def nodes(network, tmp_path):
    """A server on each host except the dead one, whose link is down."""
    with ExitStack() as stack:
        yield {
            host: stack.enter_context(
                server(tmp_path / host, network.address(host), network.inside(network.name(host)))
            )
            for host in ("a", "b")
        }  # fmt: skip


def written(folder, network, nodes):
    quick = ["-o", "ConnectTimeout=2", "-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2"]
    lines = [f'[defaults]\npython = "{sys.executable}"\n']
    for host, node in {**nodes, "dead": nodes["a"]}.items():
        alias = f"HostKeyAlias=[{node.address}]:{node.port}"
        lines.append(
            host_lines(host, [*quick, *node.options(), "-o", f"HostName={network.address(host)}", "-o", alias])
        )
    return inventory(folder, "".join(lines))


def test_a_link_that_goes_down_loses_one_host_in_time_and_the_other_finishes(cpugpu, tmp_path, network, nodes):
    network.cut("dead")
    hosts = written(tmp_path, network, nodes)
    plan = ("matmul", "--size", "64:84:1", "--rounds", "8", "--simulate", f"{FAST},pace=1")
    process = subprocess.Popen(
        [*network.inside(network.controller), *COMMAND, "fleet", "run", "-H", str(hosts), *plan, "--json"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=cpugpu.environment(), bufsize=0,
    )  # fmt: skip
    with process:
        all_timing(process, ("a", "b"))
        (agent,) = [
            Witness(each.pid) for each in psutil.Process(nodes["a"].pid).children(recursive=True)
            if "--alive" in each.cmdline() and each.name().startswith("python")
        ]  # fmt: skip
        network.cut("a")
        cut_s = time.monotonic()
        lost_s = 0.0
        for told in lines_of(process):
            if told["event"] == "HostChanged" and (told["host"], told["state"]) == ("a", "unreachable"):
                lost_s = time.monotonic()
            last = told
        assert process.wait(PATIENCE_S) == EXIT_CASES_FAILED
    assert 0 < lost_s - cut_s < BUDGET_S + SLACK_S
    ends = {host["host"]: host for host in last["hosts"]}
    assert {name: host["state"] for name, host in ends.items()} == {
        "a": "unreachable", "b": "done", "dead": "unreachable",
    }  # fmt: skip
    assert "connection" in ends["a"]["message"]
    assert ends["b"]["settled"] == 20
    # Nobody ends the agent's stdin: it is the silence that does.
    assert agent.sees_the_end(SILENCE_S + SLACK_S)
    runs = {run["fleet_host"]: run for run in cpugpu.here("history", "--json").objects}
    assert (runs["a"]["status"], runs["b"]["status"]) == ("failed", "done")


def test_a_host_that_nobody_answers_for_costs_its_timeout_alone(cpugpu, tmp_path, network, nodes):
    """Packets go nowhere, as behind a firewall: neither refused nor unreachable."""
    subprocess.run(["ip", "-n", network.controller, "neigh", "add", network.address("dead"), "lladdr",
                    "02:00:00:00:00:01", "dev", "to2"], check=True)  # fmt: skip
    hosts = written(tmp_path, network, nodes)
    started_s = time.monotonic()
    process = subprocess.Popen(
        [*network.inside(network.controller), *COMMAND, "fleet", "run", "-H", str(hosts), "-w", "dead,b", "matmul",
         "--size", "64", "--simulate", FAST, "--json"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=cpugpu.environment(), bufsize=0,
    )  # fmt: skip
    took_s = 0.0
    with process:
        for told in lines_of(process):
            if told["event"] == "HostChanged" and told["host"] == "dead" and told["state"] == "unreachable":
                took_s = time.monotonic() - started_s
                assert "timed out" in told["message"]
            last = told
    assert {host["host"]: host["state"] for host in last["hosts"]} == {"dead": "unreachable", "b": "done"}
    assert 2.0 < took_s < 2.0 + SLACK_S
