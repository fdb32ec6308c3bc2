"""Three virtual nodes with two GPUs each under a real Slurm, started here."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from unittest import mock

import psutil
import pytest
from tests.helpers.command_line import FAST, Witness
from tests.helpers.fleet import fleet_command, slurm_cluster
from tests.helpers.fleet.slurm_cluster import GPUS_EACH, NODES, cluster

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK
from cpugpu_tui.model import CodeTraced

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(slurm_cluster.why_not()), reason=slurm_cluster.why_not())]

ALL = ("-w", "cpugpu-n[1-3]", "--launcher", "srun", "--python", sys.executable)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("slurm")) as variables, mock.patch.dict(os.environ, variables):
        yield variables


def agents_of_slurm():
    """Return the agents of this cluster: children of Slurm's step daemons. Other tests have clusters of their own."""
    ours, found = os.environ["SLURM_CONF"], []
    for each in psutil.process_iter(["pid", "cmdline", "name", "environ"]):
        is_ours = (each.info["environ"] or {}).get("SLURM_CONF") == ours
        if is_ours and "--alive" in each.info["cmdline"] and each.info["name"].startswith("python"):
            parents = {parent.name() for parent in each.parents()}
            found += [each.info["pid"]] if any(name.startswith("slurmstepd") for name in parents) else []
    return found


def test_every_gpu_of_every_node_exactly_once(cpugpu, slurm):
    outcome = fleet_command.fleet(cpugpu, *ALL, "matmul", "--size", "64", "--simulate", f"{FAST},gpus={GPUS_EACH}")
    assert outcome.code == EXIT_OK
    started = {each["host"]: each for each in fleet_command.objects(outcome.out) if each["event"] == "RunStarted"}
    assert set(started) == set(NODES)
    visible = {host: each["environment"]["cuda_visible_devices"] for host, each in started.items()}
    assert visible == dict.fromkeys(NODES, "0,1")  # what Slurm gave: all of the node's, and no more
    table = cpugpu("fleet", "run", *ALL, "matmul", "--size", "64", "--simulate", f"{FAST},gpus={GPUS_EACH}").out
    rows = [tuple(line.split()[1:3]) for line in table.splitlines() if line.split()[:1] == ["64"]]
    assert rows == [(node, gpu) for node in NODES for gpu in "01"]


def test_a_node_gives_all_its_cpus(cpugpu, slurm):
    """Slurm's default of one CPU a task would make every GPU look fast."""
    told = cpugpu("fleet", "hosts", *ALL, "--json").objects
    for host in told:
        assert host["argv"][host["argv"].index("-c") + 1] == "2"
        assert f"--gres=gpu:{GPUS_EACH}" in host["argv"]


def test_a_node_that_is_none_is_told_apart(cpugpu, slurm, tmp_path):
    hosts = fleet_command.inventory(
        tmp_path,
        f'[defaults]\nlauncher = "srun"\npython = "{sys.executable}"\n[[hosts]]\nhost = "{NODES[0]}"\n'
        '[[hosts]]\nhost = "nobody"\n',
    )
    outcome = fleet_command.fleet(cpugpu, "-H", hosts, *fleet_command.QUICK)
    assert outcome.code == EXIT_CASES_FAILED
    assert fleet_command.states(outcome) == {NODES[0]: "done", "nobody": "unreachable"}
    assert "Slurm" in fleet_command.ends(outcome)["nobody"]["message"]


def test_a_busy_node_is_waited_for_while_the_others_work(cpugpu, slurm):
    busy = NODES[-1]
    job = ["srun", f"--nodelist={busy}", "--exclusive", "sh", "-c", "echo begun; exec sleep 600"]
    with (
        subprocess.Popen(job, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as other,
        cpugpu.start("fleet", "run", *ALL, *fleet_command.QUICK, "--json") as process,
    ):
        assert other.stdout.readline() == b"begun\n"
        ended, over = dict[str, str](), {}
        for told in fleet_command.lines_of(process):
            if told["event"] == "HostChanged" and told["state"] == "done":
                ended[told["host"]] = told["state"]
                if len(ended) == len(NODES) - 1:
                    assert busy not in ended
                    other.terminate()
            over = told
    assert (over["event"], over["exit_code"]) == ("FleetFinished", EXIT_OK)
    assert set(ended) == set(NODES)


def test_a_host_whose_job_is_cancelled_says_so_and_starts_no_other_job(cpugpu, slurm):
    cancelled = NODES[1]
    with cpugpu.start("fleet", "run", *ALL, *fleet_command.LONG, "--json") as process:
        fleet_command.all_timing(process, NODES)
        subprocess.run(["scancel", "--name=cpugpu-tui", f"--nodelist={cancelled}"], check=True)
        fleet_command.until(process, lambda told: told["event"] == "HostChanged" and told["host"] == cancelled)
        process.send_signal(signal.SIGINT)
        last = fleet_command.objects(process.stdout.read())[-1]
    hosts = {each["host"]: each for each in last["hosts"]}
    assert {name: each["state"] for name, each in hosts.items()} == {
        **dict.fromkeys(NODES, "stopped"), cancelled: "cancelled",
    }  # fmt: skip
    assert (hosts[cancelled]["failed"], bool(hosts[cancelled]["message"])) == (0, True)


def test_own_code_gives_the_receipt_of_here_and_leaves_nothing(cpugpu, slurm, tmp_path):
    for name in ("home", "temporary"):
        (tmp_path / name).mkdir()
    (tmp_path / "beside.py").write_text("FACTOR = 2.0\n")
    code = tmp_path / "mine.py"
    code.write_text("import beside, torch\ndef inputs(n):\n    return torch.ones(n, n)\n"
                    "def scaled(x):\n    return x @ x * beside.FACTOR\n")  # fmt: skip
    env = f'env = {{ HOME = "{tmp_path}/home", TMPDIR = "{tmp_path}/temporary" }}\n'
    hosts = fleet_command.inventory(
        tmp_path, f'[[hosts]]\nhost = "{NODES[0]}"\nlauncher = "srun"\npython = "{sys.executable}"\n{env}'
    )
    line = ("time", f"{code}:scaled", "--n", "64", "--device", "cpu", "--threads", "1", "--rounds", "4", "--json")
    there, here = cpugpu(*line, "-H", hosts), cpugpu.here(*line)
    assert (there.code, here.code) == (EXIT_OK, EXIT_OK), there.err
    receipts = [[replace(event, seq=0, wall_ns=0, mono_ns=0, peak_host_bytes=None)
                 for event in done.events if isinstance(event, CodeTraced)] for done in (there, here)]  # fmt: skip
    assert receipts[0] == receipts[1] != []
    assert agents_of_slurm() == []
    assert [path for name in ("home", "temporary") for path in (tmp_path / name).rglob("*")] == []


@pytest.mark.parametrize("whom", ["controller", "srun"])
def test_no_agent_outlives_its_controller(cpugpu, slurm, whom):
    with cpugpu.start("fleet", "run", *ALL, *fleet_command.LONG, "--json") as process:
        fleet_command.all_timing(process, NODES)
        agents = [Witness(pid) for pid in agents_of_slurm()]
        assert len(agents) == len(NODES)
        if whom == "controller":
            process.kill()
        else:
            for each in psutil.Process(process.pid).children():
                os.kill(each.pid, signal.SIGKILL)
        assert all(agent.sees_the_end() for agent in agents)
        process.kill()
