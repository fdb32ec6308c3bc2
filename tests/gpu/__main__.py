"""`make gpu`: every test of this folder on one GPU, in at most eight minutes; a line for each as it ends.

PART=2/3 runs the second third, every third test. Tests that assert times run alone, after all others, which share the
cores: each worker and the processes that it starts have cores of their own (`conftest.py`). GPU_RESULTS names a file
that gets a JSON object for each test.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

CORES_EACH = 4
"""Cores of a worker. With fewer, threads of the CPU's cases wait for each other, and rows have no winner."""

MOST_WORKERS = 6
"""More would put more contexts on the GPU at a time than its memory and its clocks stand."""

TEST_SECONDS = "120"
"""A test that hangs ends then, so that the others are reached."""


def main() -> int:
    """Run both groups; return 1 if a test failed."""
    started = time.monotonic()
    workers = max(1, min(MOST_WORKERS, len(os.sched_getaffinity(0)) // CORES_EACH))
    common = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "-rN", "-p", "no:cacheprovider",
              "-p", "tests.gpu.lines", "--timeout", TEST_SECONDS, "tests/gpu", *sys.argv[1:]]  # fmt: skip
    together = [*common, "-m", "gpu and not alone", "-n", str(workers), "--dist", "worksteal"]
    alone = [*common, "-m", "gpu and alone", "-n", "0"]
    codes = [subprocess.call(each) for each in (together, alone)]
    print(f"GPU tests: {'passed' if not any(codes) else 'FAILED'} in {time.monotonic() - started:.0f} s", flush=True)
    return int(any(code not in (0, 5) for code in codes))  # 5: this part has no test of the group


if __name__ == "__main__":
    sys.exit(main())
