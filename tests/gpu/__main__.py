"""`make gpu`: every test of this folder on one GPU, in at most eight minutes; a line for each as it ends.

PART=2/3 runs the second third, every third test. Meanwhile the compiler of `torch.compile` starts, once for this
machine; the tests that need it come last of their group (`conftest.py`) and wait for it. Tests that assert times run
alone, after all others, which share the cores: each worker and the processes that it starts have cores of their own.
GPU_RESULTS names a file that gets a JSON object for each test.
"""

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


def load_compiler() -> None:
    """Start the compiler of `torch.compile` for CPU and GPU, with all cores, so that no test waits for its first start.

    On an H100 server four tests waited for each other's first start, with four cores each, until their time was over.
    """
    import torch

    from cpugpu_tui.timing.compiling import explained, start_compiler
    from cpugpu_tui.timing.timers import CaseError

    def announce(what: str, device: str, _estimate_ns: float = 0.0, note: str = "") -> None:
        print(f"{what} for {device} {note}", flush=True)

    for device in ("cpu", "cuda:0") if torch.cuda.is_available() else ("cpu",):
        started = time.monotonic()
        try:
            with explained():
                start_compiler(device, None if device == "cpu" else torch.cuda.synchronize, announce)
        except CaseError as error:  # the tests of compiled steps say so, too
            print(f"  {error.message}", flush=True)
        print(f"compiler for {device}: {time.monotonic() - started:.1f} s", flush=True)


def main() -> int:
    """Run both groups; return 1 if a test failed."""
    started = time.monotonic()
    workers = max(1, min(MOST_WORKERS, len(os.sched_getaffinity(0)) // CORES_EACH))
    load = [sys.executable, "-u", "-c", "from tests.gpu.__main__ import load_compiler; load_compiler()"]
    common = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "-rN", "-p", "no:cacheprovider",
              "-p", "tests.gpu.lines", "--timeout", TEST_SECONDS, "tests/gpu", *sys.argv[1:]]  # fmt: skip
    together = [*common, "-m", "gpu and not alone", "-n", str(workers), "--dist", "worksteal"]
    alone = [*common, "-m", "gpu and alone", "-n", "0"]
    with subprocess.Popen(load):
        codes = [subprocess.call(together)]
    codes.append(subprocess.call(alone))
    print(f"GPU tests: {'passed' if not any(codes) else 'FAILED'} in {time.monotonic() - started:.0f} s", flush=True)
    return int(any(code not in (0, 5) for code in codes))  # 5: this part has no test of the group


if __name__ == "__main__":
    sys.exit(main())
