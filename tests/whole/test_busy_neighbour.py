"""A real neighbour on every core: the run says so, names it, and calls nothing a result that is none."""

import os
import subprocess
import sys
from contextlib import ExitStack

import pytest

from cpugpu_tui.errors import EXIT_OK
from cpugpu_tui.model import Device
from cpugpu_tui.state.folding import folded
from cpugpu_tui.timing.host_watch import STARVED_SHARE, HostWatch

SPIN = "import os, sys; os.sched_setaffinity(0, [int(sys.argv[1])]); print(flush=True)\nwhile True: pass"


@pytest.fixture
def busy_cores():
    """A process that spins on each core that we may use; how many."""
    cores = os.sched_getaffinity(0)
    with ExitStack() as stack:
        for core in cores:
            spinner = subprocess.Popen([sys.executable, "-c", SPIN, str(core)], stdout=subprocess.PIPE)
            stack.callback(spinner.communicate)
            stack.callback(spinner.kill)
            spinner.stdout.readline()
        yield len(cores)


@pytest.mark.slow
def test_threads_without_a_core_are_told_with_who_used_it(cpugpu, busy_cores):
    watch = HostWatch()
    watch.begin(Device("cpu", "this one"))
    if watch.end().waited is None:
        pytest.skip("this kernel does not count how long threads wait")
    done = cpugpu("run", "matmul", "--size", "300", "--device", "cpu", "--json", code=EXIT_OK)
    (row,) = folded(done.events).rows.values()
    assert row.is_starved
    told = row.cpu.cores
    assert told.share > STARVED_SHARE
    assert told.discarded, "it was repeated before it was given up"
    assert told.use.other_processes >= busy_cores
    assert told.use.other_cores > 0.2 * busy_cores
    assert any((user.command or "").startswith("python") for user in told.use.others)
    if told.threads > 1:
        assert told.one_thread_ns
