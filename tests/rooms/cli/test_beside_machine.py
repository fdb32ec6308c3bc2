"""GPUs beside a recorded one, on this machine and on many hosts: faults come first, causes only if they were read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cpugpu_tui import model
from cpugpu_tui.agent.main import facts, work
from cpugpu_tui.cli.fleet.health import Gauge, metrics_text
from cpugpu_tui.compare.cards import Quantity
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_CHECK_FAILED, EXIT_OK, EXIT_UNFIT, EXIT_USAGE
from cpugpu_tui.model import Simulation
from cpugpu_tui.render.gpus import SIMULATED
from cpugpu_tui.session.fleet_state import DONE, HostChanged
from cpugpu_tui.state.reference import packed, recorded
from cpugpu_tui.timing.channel import CallEmitter, Control

Deliver = Callable[[str, Any], None]
LINKED = {"pcie_width": 8, "pinned_bytes_per_ns": 25.0}


def told_by_an_agent(plan, deliver):
    """Deliver what an agent sends for a plan on a simulated machine."""
    environment = facts(simulated=True)
    deliver(model.RunStarted(run_id="a", series_id="b", plan=plan, environment=environment))
    work(plan, environment, CallEmitter(deliver), Control())


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A reference of the simulated GPU, with its peak rates and limits but without cases."""
    from cpugpu_tui.compare.cards import DriverReadings
    from cpugpu_tui.state.state import RunState

    events: list[Any] = []
    plan = model.Plan("machine", (), ("cuda:0",), calibrate=True, reads_driver=True, simulation=Simulation(drift=0))
    told_by_an_agent(plan, events.append)
    state, driver = RunState(), DriverReadings()
    for event in events:
        state = state.apply(event)
        driver.see(event)
    (peaks,) = [event.ceilings for event in events if isinstance(event, model.CeilingsMeasured)]
    path = tmp_path_factory.mktemp("reference") / "gpu.json.gz"
    path.write_bytes(packed(recorded([state], peaks, driver.of("GPU-SIM0"), "test")))
    return path


@pytest.fixture
def hosts(monkeypatch):
    """Hosts with a fault: settings of their simulated machine, or None if no agent starts. All others are alike."""
    faults: dict[str, Any] = {}

    class SimulatedFleet:
        stopping, signal_exit = False, 0

        def __init__(self, asked):
            self.asked = asked

        def run(self, deliver):
            known: dict[str, list[Any]] = {}
            for host in (each.host for each in self.asked.hosts):
                changes = faults.get(host, {})
                if changes is None:
                    deliver(host, HostChanged("no python", f"No interpreter on {host}.", "Set `python`."))
                    continue
                if (events := known.setdefault(str(changes), [])) == []:
                    simulation = replace(self.asked.plan.simulation, **changes)
                    told_by_an_agent(replace(self.asked.plan, simulation=simulation), events.append)
                for event in (*events, HostChanged(DONE)):
                    deliver(host, event)

        def kill(self): ...

        stop = kill

    monkeypatch.setattr("cpugpu_tui.session.fleet_running.Fleet", SimulatedFleet)
    return faults


MANY = ("-w", "n[001-200]", "--launcher", "local", "--simulate", "default")


def test_a_slow_link_is_named_with_the_cause_that_the_driver_read(cpugpu, file):
    planted = ",".join(f"{name}={value}" for name, value in LINKED.items())
    done = cpugpu.here("machine", "--beside", file, "--simulate", planted)
    assert (done.code, done.err) == (EXIT_OK, "")
    assert "Your simulated GPU (cuda:0) against a recorded server (simulated GPU" in done.out
    text = " ".join(done.out.split())
    assert re.search(r"pinned copies to the GPU 50 % slower .* \(PCIe gen 4 × 8 instead of gen 4 × 16\)", text)
    assert "8 % on average and by up to 22 %" in text
    slow = cpugpu.here("machine", "--beside", file, "--simulate", "gpu_ns_per_flop=0.0001")
    assert "float32 compute 50 % slower. Cards" in " ".join(slow.out.split())  # nothing was read that explains it
    like = cpugpu.here("machine", "--beside", file, "--simulate", "default", "--json").objects[0]
    assert (like["problem"], like["same_model"], like["limits"]["PCIe"]["here"]) == (None, True, "gen 4 × 16")


def test_another_model_is_shown_but_not_judged(cpugpu):
    done = cpugpu.here("machine", "--beside", "h100", "--simulate", "default", code=EXIT_OK)
    assert done.out.startswith(SIMULATED)
    assert "They are different models, so no difference is judged." in done.out
    assert re.search(r" % longer +\n one round trip .* % longer", done.out)


@pytest.mark.parametrize(
    ("here", "unit", "said"),
    [(7.99, "ns", "243 % longer"), (1.165, "ns", "50 % shorter"), (1.165, "B/s", "50 % slower"),
     (4.66, "FLOP/s", "100 % faster"), (2.33, "ns", "the same")],
)  # fmt: skip
def test_a_time_is_longer_by_a_share_of_the_recorded_one(here, unit, said):
    """A synchronisation that took 3.4 times as long was 71 % slower."""
    assert Quantity("a", "a", here, 2.33, unit).difference == said


def test_without_a_gpu_or_with_a_simulated_reference_it_says_what_can_be_done(cpugpu, file):
    none = cpugpu.here("machine", "--beside", "h100", "--simulate", "gpus=0", code=EXIT_UNFIT)
    assert "cpugpu-tui run quick --beside h100" in none.err
    assert cpugpu.here("machine", "--beside", file).code == EXIT_USAGE
    assert cpugpu.here("machine", "--beside", "h100", "--device", "cpu").code == EXIT_USAGE


def test_of_200_hosts_three_faults_come_first(cpugpu, file, tmp_path, hosts):
    hosts |= {"n017": None, "n101": LINKED, "n155": {"gpu_ns_per_flop": 0.0001}}
    metrics = tmp_path / "gpus.prom"
    done = cpugpu.here("fleet", "machine", *MANY, "--beside", file, "--metrics", metrics, code=EXIT_CASES_FAILED)
    lines = done.out.splitlines()
    assert lines[0].startswith("SIMULATED")
    assert lines[1].startswith("fail n017: no python: No interpreter on n017.")
    faults = {line.split()[0]: line for line in lines[2:4]}
    assert "pinned copies" in faults["n101"]
    assert "PCIe gen 4 × 8 instead of gen 4 × 16" in faults["n101"]
    assert "float32 compute 50 % slower" in faults["n155"]
    assert len([line for line in lines if line.startswith("n")]) == 199
    assert not any(" slower (" in line or "50 %" in line for line in lines[4:])
    assert lines[-1] == "1 of 200 hosts failed. 2 of 199 GPUs are slow."
    text = metrics.read_text()
    assert text.endswith("\n# EOF\n")
    assert text.count("cpugpu_gpu_slow{") == 199
    assert 'cpugpu_gpu_slow{host="n101",device="cuda:0",gpu="simulated GPU"} 1.0' in text
    assert 'cpugpu_host_up{host="n017"} 0.0' in text
    first, *others = cpugpu.here("fleet", "machine", *MANY, "--beside", file, "--json").objects
    assert first == {"host": "n017", "state": "no python", "message": "No interpreter on n017. Set `python`.",
                     "remedy": "Set `python`."}  # fmt: skip
    assert [each["host"] for each in others if each["problem"]] == [each["host"] for each in others[:2]]


def test_of_200_hosts_three_failed_checks_come_first(cpugpu, tmp_path, hosts):
    hosts |= {"n017": None, "n101": {"pcie_width": 8}, "n155": {"event_clock": "slow5"}}
    metrics = tmp_path / "checks.prom"
    for _ in range(2):  # the file is written again
        done = cpugpu.here("fleet", "doctor", *MANY, "--metrics", metrics)
    assert done.code == EXIT_CASES_FAILED
    lines = done.out.splitlines()
    assert [line.split()[1] for line in lines[1:-1]] in (["n017:", "n155:", "n101:"], ["n017:", "n101:", "n155:"])
    assert any(line.startswith("warn n101: gpu.pcie: GPU 0: gen 4 x8, of at most gen 4 x16. ") for line in lines)
    assert lines[-1] == "1 of 200 hosts failed. Checks failed or warned on 2 of the other 199."
    assert 'cpugpu_check{host="n101",check="gpu.pcie",verdict="warn"} 1.0' in metrics.read_text()
    told = cpugpu.here("fleet", "doctor", *MANY, "--json").objects
    assert {each["host"] for each in told[:3]} == {"n017", "n101", "n155"}
    del hosts["n017"]
    hosts["n155"] = {}
    done = cpugpu.here("fleet", "doctor", *MANY)
    assert done.code == EXIT_OK  # a warning is no failure
    assert done.out.splitlines()[-1] == "200 hosts answered. Checks failed or warned on 1 of 200."
    hosts.clear()
    assert (
        cpugpu.here("fleet", "doctor", *MANY).out.splitlines()[-1] == "200 hosts answered. No check failed or warned."
    )


def test_a_label_of_a_metric_ends_no_line_and_no_quote():
    text = metrics_text([Gauge("cpugpu_x", "What it is.", "", (({"gpu": 'a"b\\c\nd\x1b[31m'}, 1.0),))])
    assert text.splitlines()[2].startswith('cpugpu_x{gpu="a\\"b\\\\c')
    assert len(text.splitlines()) == 4


def test_what_many_hosts_share_is_counted(cpugpu, hosts):
    hosts |= {f"n{number:03d}": {"pcie_width": 8} for number in range(1, 101)} | {"n150": {"pcie_width": 4}}
    lines = cpugpu.here("fleet", "doctor", *MANY).out.splitlines()
    assert "warn gpu.pcie: 96 more hosts." in lines
    assert len(lines) == 8


def test_a_host_that_never_answers_is_reported(cpugpu, monkeypatch):
    silent = SimpleNamespace(stopping=True, signal_exit=0, run=lambda deliver: None, kill=lambda: None)
    monkeypatch.setattr("cpugpu_tui.session.fleet_running.Fleet", lambda asked: silent)
    monkeypatch.setattr("threading.Timer", lambda *_: SimpleNamespace(
        start=lambda: None, cancel=lambda: None, is_alive=lambda: False, daemon=True
    ))  # fmt: skip
    done = cpugpu.here("fleet", "doctor", "-w", "n1", "--launcher", "local", "--simulate", "default")
    assert done.code == EXIT_CASES_FAILED
    assert "fail n1: waiting: It did not answer in time." in done.out


def test_an_agent_of_a_host_reads_its_driver(cpugpu, file):
    """With a real agent from the zip, which reads this machine's driver, if any."""
    done = cpugpu.here("fleet", "doctor", "-w", "n1", "--launcher", "local", "--json")
    assert done.code in (EXIT_OK, EXIT_CHECK_FAILED)
    assert {each["check"] for each in done.objects} >= {"driver", "torch", "cuda.devices", "gpu.pcie"}
