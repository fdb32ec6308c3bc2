"""Readings of the host from fake /proc and /sys trees."""

import os
from pathlib import Path

import pytest

from cpugpu_tui.machine import procfs
from cpugpu_tui.model import Reading
from cpugpu_tui.telemetry.sampler import SLOW_S, Host

GIB = 1 << 30
CPU = "sys/devices/system/cpu"


class Tree:
    """A folder with `proc` and `sys`."""

    def __init__(self, folder):
        self.root = str(folder)

    def write(self, path, text):
        file = Path(self.root, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def cores(self, siblings, allowed):
        self.write("proc/self/status", f"Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t{allowed}\n")
        for cpu, listed in siblings.items():
            self.write(f"{CPU}/cpu{cpu}/topology/thread_siblings_list", f"{listed}\n")


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


HYPERTHREADED = {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7", 4: "0,4", 5: "1,5", 6: "2,6", 7: "3,7"}


@pytest.mark.parametrize(
    ("allowed", "cpus", "cores"),
    [("0-7", (0, 1, 2, 3, 4, 5, 6, 7), 4), ("0,4", (0, 4), 1), ("0-2,5", (0, 1, 2, 5), 3), ("3", (3,), 1)],
)
def test_two_threads_of_a_core_are_one_core(tree, allowed, cpus, cores):
    tree.cores(HYPERTHREADED, allowed)
    assert (procfs.affinity_cores(tree.root), procfs.physical_cores(tree.root)) == (cpus, cores)


def test_without_a_status_line_the_system_call_answers(tree):
    assert procfs.affinity_cores(tree.root) == tuple(sorted(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("files", "quota_cores"),
    [
        ({}, None),
        ({"job/step/cpu.max": "max 100000", "job/cpu.max": "max 100000"}, None),
        ({"job/step/cpu.max": "max 100000", "job/cpu.max": "250000 100000"}, 2.5),
        ({"job/step/cpu.max": "800000 100000", "job/cpu.max": "300000 100000", "cpu.max": "900000 100000"}, 3.0),
        ({"cpu.max": "150000 100000"}, 1.5),  # a container sees its own group at the top
    ],
)
def test_cgroup_v2_quota_is_the_smallest_on_the_way_up(tree, files, quota_cores):
    tree.write("proc/self/cgroup", "0::/job/step\n")
    for name, text in files.items():
        tree.write(f"sys/fs/cgroup/{name}", f"{text}\n")
    assert procfs.cpu_quota_cores(tree.root) == quota_cores


@pytest.mark.parametrize("folder", ["docker/abc/", ""])
def test_cgroup_v1_quota(tree, folder):
    tree.write("proc/self/cgroup", "12:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/ignored\nodd line\n")
    tree.write(f"sys/fs/cgroup/cpu/{folder}cpu.cfs_quota_us", "350000\n")
    tree.write(f"sys/fs/cgroup/cpu/{folder}cpu.cfs_period_us", "100000\n")
    assert procfs.cpu_quota_cores(tree.root) == 3.5


def test_a_path_outside_of_the_container_does_not_leave_the_tree(tree):
    tree.write("proc/self/cgroup", "0::/../../other\n")
    tree.write("sys/fs/cgroup/cpu.max", "100000 100000\n")
    tree.write("sys/fs/cpu.max", "50000 100000\n")
    assert procfs.cpu_quota_cores(tree.root) == 1.0


@pytest.mark.parametrize(
    ("quota", "threads"), [("max 100000", 4), ("290000 100000", 2), ("50000 100000", 1), ("900000 100000", 4)]
)
def test_default_threads_are_cores_within_the_quota_and_at_least_one(tree, quota, threads):
    tree.cores(HYPERTHREADED, "0-7")
    tree.write("proc/self/cgroup", "0::/\n")
    tree.write("sys/fs/cgroup/cpu.max", quota)
    assert procfs.default_threads(tree.root) == threads


# ------------------------------------------------------------------ memory

MEMINFO = "MemTotal:       67108864 kB\nMemFree:  1 kB\nMemAvailable:   50331648 kB\n"


def test_memory_of_the_machine(tree):
    tree.write("proc/meminfo", MEMINFO)
    assert (procfs.memory_total_bytes(tree.root), procfs.memory_used_bytes(tree.root)) == (64 * GIB, 16 * GIB)
    assert procfs.available_memory_bytes(tree.root) == 48 * GIB


def test_a_memory_cgroup_leaves_less_and_file_cache_counts_as_free(tree):
    tree.write("proc/meminfo", MEMINFO)
    tree.write("proc/self/cgroup", "0::/job/step\n")
    tree.write("sys/fs/cgroup/job/step/memory.max", "max\n")
    tree.write("sys/fs/cgroup/job/memory.max", f"{8 * GIB}\n")
    tree.write("sys/fs/cgroup/job/memory.current", f"{6 * GIB}\n")
    tree.write("sys/fs/cgroup/job/memory.stat", f"anon 5\ninactive_file {GIB}\nactive_file 7\n")
    assert procfs.available_memory_bytes(tree.root) == 3 * GIB
    assert procfs.memory_total_bytes(tree.root) == 64 * GIB


def test_a_limited_address_space_leaves_less(tree):
    tree.write("proc/meminfo", MEMINFO)
    tree.write("proc/self/status", f"Name:\tpython\nVmSize:\t{3 * GIB // 1024} kB\n")
    tree.write(
        "proc/self/limits", "Max data size  unlimited  unlimited  bytes\nMax address space  unlimited  unlimited\n"
    )
    assert procfs.available_memory_bytes(tree.root) == 48 * GIB
    tree.write("proc/self/limits", f"Max address space         {4 * GIB}           {4 * GIB}           bytes     \n")
    assert procfs.available_memory_bytes(tree.root) == GIB
    tree.write("proc/self/limits", f"Max address space         {2 * GIB}           {4 * GIB}           bytes     \n")
    assert procfs.available_memory_bytes(tree.root) == 0


def test_memory_cgroup_v1(tree):
    tree.write("proc/meminfo", MEMINFO)
    tree.write("proc/self/cgroup", "9:memory:/job\n")
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    tree.write("sys/fs/cgroup/memory/memory.usage_in_bytes", f"{40 * GIB}\n")
    assert procfs.available_memory_bytes(tree.root) == 48 * GIB
    tree.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", f"{4 * GIB}\n")
    tree.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", f"{5 * GIB}\n")
    assert procfs.available_memory_bytes(tree.root) == 0


# ------------------------------------------------------------------ processor


def test_cache_of_all_chiplets_in_the_mask(tree):
    tree.cores({}, "0-2")
    for cpu, shared in ((0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")):
        for index, (level, size) in enumerate([(1, "32K"), (1, "32K"), (2, "1024K"), (3, "32768K")]):
            tree.write(f"{CPU}/cpu{cpu}/cache/index{index}/level", f"{level}\n")
            tree.write(f"{CPU}/cpu{cpu}/cache/index{index}/size", f"{size}\n")
            tree.write(f"{CPU}/cpu{cpu}/cache/index{index}/shared_cpu_list", shared if level == 3 else f"{cpu}")
    assert procfs.last_level_cache_bytes(tree.root) == 2 * (32 << 20)


def test_frequency_is_the_fastest_cores(tree):
    tree.cores({}, "0-1")
    tree.write(f"{CPU}/cpu0/cpufreq/scaling_cur_freq", "1200000\n")
    tree.write(f"{CPU}/cpu1/cpufreq/scaling_cur_freq", "3400000\n")
    assert procfs.cpu_freq_mhz(tree.root) == 3400


def test_a_constant_in_cpuinfo_is_no_frequency(tree):
    tree.cores({}, "0-1")
    cpuinfo = "model name\t: Some CPU\x1b[31m @ 2.5GHz\ncpu MHz\t\t: 2445.4\nflags\t\t: fpu {}\n\n"
    tree.write("proc/cpuinfo", cpuinfo.format("vme"))
    assert procfs.cpu_freq_mhz(tree.root) is None
    assert procfs.cpu_model(tree.root) == "Some CPU @ 2.5GHz"
    tree.write("proc/cpuinfo", cpuinfo.format("aperfmperf") + "cpu MHz\t\t: 3100.5\n")
    assert procfs.cpu_freq_mhz(tree.root) == 3100.5


def test_busy_share_counts_steal_and_not_waiting_for_disks(tree):
    tree.write("proc/stat", "cpu  10 0 10 100 50 0 0 5 3 0\ncpu0 1 1 1 1\n")
    before = procfs.cpu_ticks(tree.root)
    tree.write("proc/stat", "cpu  40 0 20 130 60 0 0 25 9 0\n")
    after = procfs.cpu_ticks(tree.root)
    assert procfs.busy_pct(before, after) == 60.0
    assert procfs.busy_pct(after, after) is None


def test_an_empty_machine_is_unknown_everywhere(tree):
    for read in (
        procfs.cpu_quota_cores,
        procfs.memory_total_bytes,
        procfs.memory_used_bytes,
        procfs.available_memory_bytes,
        procfs.last_level_cache_bytes,
        procfs.cpu_freq_mhz,
        procfs.cpu_model,
        procfs.load_1min,
        procfs.cpu_ticks,
    ):
        assert read(tree.root) is None, read


# ------------------------------------------------------------------ processes


@pytest.mark.parametrize(
    ("cmdline", "command"),
    [
        (b"/srv/env/bin/python3\0/home/eve/train.py\0--key\0secret\0", "python3 train.py"),
        (b"python\0-m\0torch.distributed.run\0x.py\0", "python torch.distributed.run"),
        (b"./tool\0--password\0secret\0", "tool"),
        (b"ray::worker on /scratch\0", "ray::worker on /scratch"),
        (b"\x1b]0;pwned\x07sh\0", "sh"),
        (b"", "from-comm"),
    ],
)
def test_a_process_is_named_without_its_secrets(tree, cmdline, command):
    tree.write("proc/42/status", "Name:\tx\nUid:\t0\t0\t0\t0\n")
    tree.write("proc/42/comm", "from-comm\n")
    Path(tree.root, "proc/42/cmdline").write_bytes(cmdline)
    assert procfs.process_owner(42, tree.root) == ("root", command)


# ------------------------------------------------------------------ the sweep


def test_host_sweep(tree):
    now_s = [100.0]
    host = Host(tree.root, lambda: now_s[0])
    tree.cores({}, "0")
    tree.write("proc/meminfo", MEMINFO)
    tree.write("proc/loadavg", "1.50 0.70 0.30 1/100 4242\n")
    tree.write("proc/stat", "cpu  10 0 10 100 50 0 0 5 3 0\n")
    tree.write(f"{CPU}/cpu0/cpufreq/scaling_cur_freq", "3400000\n")
    assert host.read() == {
        "cpu_pct": Reading(None, "not-yet"),
        "load_1min": Reading(1.5),
        "memory_used_bytes": Reading(float(16 * GIB)),
        "memory_total_bytes": Reading(float(64 * GIB)),
        "cpu_freq_mhz": Reading(3400.0),
    }
    tree.write("proc/stat", "cpu  40 0 20 130 60 0 0 25 9 0\n")
    tree.write("proc/self/cgroup", "0::/\n")
    tree.write("sys/fs/cgroup/cpu.max", "200000 100000\n")
    now_s[0] += 2
    second = host.read()
    assert second["cpu_pct"] == Reading(60.0)
    assert second["cpu_freq_mhz"] == Reading(3400.0, None, 2.0), "slow values keep their age"
    now_s[0] += SLOW_S
    assert host.read()["cpu_quota_cores"] == Reading(2.0)
