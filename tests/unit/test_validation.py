"""Values from many threads at once: what `msgspec` does not bear."""

from __future__ import annotations

import subprocess
import sys

FIRST_AT_ONCE = """
import sys, threading
from cpugpu_tui.model import Case, Device, DevicesFound, MachineRead, Plan, Reading, RunStarted
from cpugpu_tui.transport.wire import decode, encode
sys.setswitchinterval(1e-6)
lines = [encode(event) for event in (
    RunStarted(run_id="r", series_id="s", plan=Plan("m", (Case("matmul", 64),)), environment={}),
    DevicesFound(devices=(Device("cpu", "x"),)),
    MachineRead(case="c", device="d", edge="begin", readings={"a": Reading(1.0)}),
)]
barrier = threading.Barrier(8)
def read(order):
    barrier.wait()
    for line in lines[::order]:
        assert decode(line) is not None
threads = [threading.Thread(target=read, args=(1 - 2 * (index % 2),)) for index in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_the_first_events_of_many_agents_can_come_at_the_same_time() -> None:
    """A fleet ended with signal 11, in CI and without a word, when two hosts said their first line together."""
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", FIRST_AT_ONCE], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
