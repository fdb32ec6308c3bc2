"""Setup of a host and other runs of ours from fake /proc and /sys trees, and of the driver from a fake library."""

from concurrent.futures import Future

import pytest

from cpugpu_tui.doctor import collect
from cpugpu_tui.doctor.collect import DEADLINE_S, Section, examine, history_facts
from cpugpu_tui.doctor.driver_child import Asked, driver_facts
from cpugpu_tui.doctor.facts import Facts, host_setup, own_runs
from cpugpu_tui.machine.nvml.calls import has_nvidia_gpu
from cpugpu_tui.store import Store
from cpugpu_tui.transport.agent_pool import Agents

CPU = "sys/devices/system/cpu"


def write(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def process(root, pid, parent, *words):
    write(root, f"proc/{pid}/stat", f"{pid} (a (strange) name) S {parent} {'1 ' * 20}")
    write(root, f"proc/{pid}/cmdline", "\0".join(words) + "\0")
    write(root, f"proc/{pid}/status", "Uid:\t99999999\t1\t1\t1\n")


def test_two_sockets_with_threads(tmp_path):
    write(tmp_path, "proc/self/status", "Cpus_allowed_list:\t0-3\n")
    for cpu, (siblings, node) in enumerate([("0,2", 0), ("1,3", 1), ("0,2", 0), ("1,3", 1)]):
        write(tmp_path, f"{CPU}/cpu{cpu}/topology/thread_siblings_list", siblings)
        write(tmp_path, f"{CPU}/cpu{cpu}/cpufreq/scaling_governor", "powersave\n")
        write(tmp_path, f"sys/devices/system/node/node{node}/cpu{cpu}/x", "")
    write(tmp_path, f"{CPU}/cpu0/cpufreq/scaling_driver", "acpi-cpufreq\n")
    write(tmp_path, f"{CPU}/smt/active", "1\n")
    found = host_setup(str(tmp_path))
    assert (found.logical_cores, found.physical_cores, found.smt, found.numa_nodes) == (4, 2, True, (0, 1))
    assert (found.governor, found.frequency_driver) == ("powersave", "acpi-cpufreq")


def test_a_kernel_that_tells_nothing_gives_unknowns(tmp_path):
    found = host_setup(str(tmp_path))
    assert (found.smt, found.numa_nodes, found.governor, found.frequency_mhz) == (None, (), None, None)
    assert has_nvidia_gpu(str(tmp_path)) is None


def test_a_gpu_is_told_from_nvidias_other_devices(tmp_path):
    devices = "sys/bus/pci/devices"
    write(tmp_path, f"{devices}/0000:01:00.1/vendor", "0x10de\n")
    write(tmp_path, f"{devices}/0000:01:00.1/class", "0x040300\n")  # the sound of a graphics card
    assert has_nvidia_gpu(str(tmp_path)) is False
    write(tmp_path, f"{devices}/0000:04:00.0/vendor", "0x10de\n")
    write(tmp_path, f"{devices}/0000:04:00.0/class", "0x030200\n")
    assert has_nvidia_gpu(str(tmp_path))


def test_another_run_is_found_without_its_agents_and_without_ourselves(tmp_path):
    process(tmp_path, 10, 1, "/bin/bash")
    process(tmp_path, 11, 10, "/usr/bin/python3", "/usr/bin/cpugpu-tui", "doctor")
    process(tmp_path, 12, 11, "/usr/bin/python3", "-P", "-m", "cpugpu_tui.agent")
    process(tmp_path, 20, 1, "/usr/bin/python3.12", "-m", "cpugpu_tui", "run")
    process(tmp_path, 21, 20, "/usr/bin/python3.12", "-P", "-m", "cpugpu_tui.agent")
    process(tmp_path, 30, 1, "vim", "cpugpu-tui")
    process(tmp_path, 31, 1, "/usr/bin/python3", "-m", "http.server")
    assert [run.pid for run in own_runs(str(tmp_path), me=11)] == [20]
    assert [run.pid for run in own_runs(str(tmp_path), me=30)] == [11, 20]


# ------------------------------------------------------------------ driver


@pytest.mark.parametrize("code", [9, 18, 4, 999])
def test_each_way_a_driver_can_refuse_has_its_sentence(library, code, words):
    library.init_code = code
    found = driver_facts(set())
    assert found.setup.init_code == code
    finding = examine(Facts(driver=found))[0]
    assert finding.verdict == "fail"
    words([finding.found, finding.cause, finding.remedy])


def test_a_driver_that_hangs_is_given_up_after_two_seconds(library, words):
    library.hang_on = "nvmlDeviceGetHandleByIndex_v2"
    assert DEADLINE_S <= 2
    value, fault = Section("driver", lambda: driver_facts(set()), 0.2).result()
    assert value is None
    words(fault)


def test_cuda_is_not_asked_where_the_driver_hangs(words):
    """CUDA would hang too, and an agent that hangs in a driver cannot always be killed."""
    driver: Future[Asked] = Future()
    driver.set_result(Asked(None, "It has not answered.", hangs=True))
    agents = Agents()
    try:
        found = collect.agent_facts(agents, None, driver)
    finally:
        agents.close()
    assert found.environment is not None
    assert found.devices is None
    finding = next(line for line in examine(Facts(agent=found)) if line.check == "cuda.devices")
    assert finding.verdict == "unknown"
    words(finding.found)


# ------------------------------------------------------------------ history


def test_a_real_database_is_known_by_its_header_and_left_as_it_is(tmp_path):
    path = tmp_path / "results.db"
    Store.open(path).close()
    before = path.stat()
    found = history_facts(path)
    finding = next(finding for finding in examine(Facts(history=found)) if finding.check == "history.file")
    assert finding.verdict == "ok"
    assert f"version {found.known_version}" in finding.found
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert sorted(child.name for child in tmp_path.iterdir()) == ["results.db"]
