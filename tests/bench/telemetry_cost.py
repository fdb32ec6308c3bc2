"""The cost of our telemetry for a loop that launches a tiny kernel and synchronises: blocks with and without it."""

import subprocess
import sys
import time

from tests.helpers.bench.figures import record
from tests.helpers.bench.ratios import alternate, cap_seconds
from tests.helpers.bench.surroundings import gpu_names

from cpugpu_tui.telemetry.sampler import Sampler

INTERVAL_S = 1.0
"""The default rate of the app and of `run`; a block is as long, so that it holds at least one sweep."""

LOOP = f"""
import sys, time, torch
add, synchronize = torch.zeros(1, device="cuda:0").add_, torch.cuda.synchronize
for _ in sys.stdin:
    began, calls = time.perf_counter_ns(), 0
    while (elapsed_ns := time.perf_counter_ns() - began) < {INTERVAL_S} * 1e9:
        for _ in range(200):
            add(1.0)
            synchronize()
        calls += 200
    print(elapsed_ns / calls, flush=True)
"""


def main() -> None:
    """Print by how much a launch with synchronise becomes slower."""
    if not gpu_names():
        print("Left out: this machine has no GPU.")
        return
    with subprocess.Popen(
        [sys.executable, "-c", LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as loop:

        def block_ns() -> float:
            print(file=loop.stdin, flush=True)
            return float(loop.stdout.readline())

        def watched_ns() -> float:
            swept: list[object] = []
            sampler = Sampler(INTERVAL_S, swept.append, set)
            sampler.start()
            while not swept:  # opening the driver's session is no part of the cost
                time.sleep(0.01)
            sampler.quiet = True  # as during a run
            try:
                return block_ns()
            finally:
                sampler.stop()

        block_ns()  # an idle GPU needs up to half a second to reach its full clock
        ratio, _ = alternate(watched_ns, block_ns, half_width_pct=1.0, cap_s=cap_seconds(60))
        loop.stdin.close()
    record("Telemetry at its default rate adds to a launch with synchronise", ratio.text().replace("-", "−"))
