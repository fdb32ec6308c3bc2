"""Disturbances of the host: page faults of new memory, and timing threads that wait for a core."""

import os
import subprocess
import sys
import threading
import time

import pytest
from tests.helpers.command_line import until

from cpugpu_tui.machine import cores
from cpugpu_tui.machine.cores import Waited
from cpugpu_tui.machine.processes import is_running
from cpugpu_tui.model import Device
from cpugpu_tui.timing import host_watch
from cpugpu_tui.timing.host_watch import HostWatch, is_starved, lacks_core

CPU, GPU = Device("cpu", "made up"), Device("cuda:0", "made up")
POOL = 4_000_001
"""A thread of torch's pool: Python does not know it."""


class Host:
    """A fake process: this thread, a thread of a pool, and one of Python's others; clock and page faults."""

    def __init__(self, root, own, interface):
        self.root = root
        self.now_s = 100.0
        self.faults = 0
        self.own, self.interface = own, interface
        for tid in (own, POOL, interface):
            (root / f"proc/self/task/{tid}").mkdir(parents=True)
            self.write(tid, 1_000_000, 0)
        (root / "proc/self/status").write_text("Cpus_allowed_list:\t0-1\n")

    def write(self, tid, ran_ns, waited_ns):
        (self.root / f"proc/self/task/{tid}/schedstat").write_text(f"{ran_ns} {waited_ns} 7\n")


@pytest.fixture
def host(tmp_path, monkeypatch):
    done = threading.Event()
    interface = threading.Thread(target=done.wait)
    interface.start()
    made = Host(tmp_path, threading.get_native_id(), interface.native_id)

    class Usage:
        @property
        def ru_minflt(self):
            return made.faults

    monkeypatch.setattr(host_watch, "perf_counter", lambda: made.now_s)
    monkeypatch.setattr(cores, "perf_counter_ns", lambda: int(made.now_s * 1e9))
    monkeypatch.setattr(host_watch.resource, "getrusage", lambda who: Usage())
    yield made
    done.set()
    interface.join()


def watched(host, device=CPU, *, seconds=0.01, faults=0, **waits):
    """Watch a window in which `own`, `pool` and `interface` wait this long, ns, and run the rest of the time."""
    watch = HostWatch(str(host.root))
    watch.begin(device)
    host.now_s += seconds
    host.faults += faults
    tids = {"own": host.own, "pool": POOL, "interface": host.interface}
    for name, tid in tids.items():
        host.write(tid, 1_000_000 + int(seconds * 1e9) - waits.get(name, 0), waits.get(name, 0))
    return watch.end()


def test_fresh_memory_is_named_by_its_page_faults(host):
    """400 MB of new pages in 0.6 s, as in `r + a*b` of 10⁸ numbers."""
    assert watched(host, seconds=0.6, faults=97_656).marks == ("page-faults",)
    assert watched(host, seconds=0.6, faults=100).marks == ()


def test_a_thread_of_the_pool_that_waits_is_a_share_of_what_both_wanted(host):
    """One of two threads had no core for 8 of 10 ms: 40 % of wall × threads."""
    found = watched(host, pool=8_000_000)
    assert found.waited.share == pytest.approx(0.4)
    assert is_starved(found.waited)


def test_beside_a_gpu_only_the_launching_thread_counts(host):
    assert not is_starved(watched(host, GPU, pool=8_000_000).waited)
    found = watched(host, GPU, own=8_000_000)
    assert found.waited.share == pytest.approx(0.8)


def test_idle_threads_do_not_dilute_what_one_waited(host):
    """A small case uses one thread while fifteen sleep, so waiting 2 of 10 ms is 20 %, not 1 %."""
    before = {tid: (0, 0) for tid in range(16)}
    after = {**before, 3: (8_000_000, 2_000_000)}
    assert cores.waited(before, after, 1e7).share == pytest.approx(0.2)


def test_a_kernel_that_does_not_count_costs_only_that_mark(host):
    """With files missing, or zeros although the thread runs, no waiting is reported and no half-round repeated."""
    for tid in (host.own, POOL, host.interface):
        host.write(tid, 0, 0)
    watch = HostWatch(str(host.root))
    watch.begin(CPU)
    host.now_s += 0.01
    assert watch.end().waited is None
    assert not is_starved(None)
    for tid in (host.own, POOL, host.interface):
        (host.root / f"proc/self/task/{tid}/schedstat").unlink()
    watch = HostWatch(str(host.root))
    watch.begin(CPU)
    assert watch.end().waited is None


def test_no_file_stays_open_and_the_next_window_opens_them_anew(host):
    watch = HostWatch(str(host.root))
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        watch.begin(CPU)
    opened = len(set(os.listdir("/proc/self/fd")) - before)
    assert opened <= 4, "one for each thread, however often a window begins"
    watch.close()
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    watch.begin(CPU)
    assert watch.end().waited is not None
    watch.close()


def test_one_of_many_threads_that_waits_for_half_of_the_time_lacks_a_core():
    """One of 16 cores is busy with another process, and the other threads wait at every barrier."""
    before = {tid: (0, 0) for tid in range(16)}
    after = {tid: (10_000_000, 0) for tid in range(15)} | {15: (5_000_000, 5_000_000)}
    told = cores.waited(before, after, 10_000_000.0)
    assert told.share == pytest.approx(0.03, abs=0.002)
    assert lacks_core(told)
    assert not lacks_core(Waited(5.0, 100.0, 0.1))
    assert is_starved(Waited(5.0, 100.0, 0.1))


# ------------------------------------------------------------------ the reader of the events

READER = """
import os, sys
while line := os.read(0, 1):
    os.write(1, b"busy\\n")
    while line == b"b" and not os.path.exists(sys.argv[1]):
        pass
"""
"""Reads its stdin. A `b` keeps it busy until a file exists."""


def test_the_pause_after_events_ends_when_their_reader_sleeps_again(tmp_path):
    """5 ms before each CPU half-round were 25 of the 277 s of a survey."""
    theirs, ours = os.pipe()
    command = [sys.executable, "-c", READER, str(tmp_path / "done")]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE) as reader:
        watch = HostWatch(reader=reader.pid)
        os.write(ours, b"b")
        reader.stdout.readline()
        started_s = time.perf_counter()
        watch.await_reader()
        assert time.perf_counter() - started_s >= host_watch.READING_S
        assert is_running(reader.pid)
        (tmp_path / "done").touch()
        until(lambda: not is_running(reader.pid))
        pauses_s: list[float] = []
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(host_watch, "sleep", pauses_s.append)
            watch.await_reader()
            HostWatch().await_reader()
        assert pauses_s == [host_watch.LOOK_S, host_watch.READING_S], "all of it if the reader is unknown"
        os.close(ours)
        os.close(theirs)
