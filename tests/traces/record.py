"""Records the traces in tests/traces on a machine with a GPU: `python -m tests.traces.record FOLDER [NAME…]`.

Each trace is six seconds of the first GPU at 5 Hz: one before the load, four under it, one after. The load is a process
of its own, as an agent is. What could name a machine or its people (UUID, bus address, users, commands) is replaced.
A folder that has a file of that name already is left as it is, and said so.
"""

import os
import queue
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cpugpu_tui.model import GpuTelemetry, TelemetryRead
from cpugpu_tui.telemetry.nvml_thread import PATIENCE_S, Versions
from cpugpu_tui.telemetry.recording import Recorder, header_of
from cpugpu_tui.telemetry.sampler import Sampler

INTERVAL_S = 0.2
BEFORE, UNDER, AFTER = 5, 20, 5
"""Sweeps before, under and after the load."""
MAX_BYTES = 40_000
"""Largest size of a trace in the repository."""
LOADS = ("idle", "matmul", "copies", "small-kernels")


# ------------------------------------------------------------------ the load, a process of its own


def work(name: str, seconds: float) -> None:
    """Prepare, report it, wait for a line, work, and report the end."""
    import torch

    step = _step(torch, name)
    step()
    torch.cuda.synchronize()
    print(torch.__version__, flush=True)
    sys.stdin.readline()
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        step()
    torch.cuda.synchronize()
    sys.stdin.readline()


def _step(torch: Any, name: str) -> Callable[[], None]:
    """Return a call that runs about 20 ms of the load and waits for its end."""
    if name == "copies":
        host = torch.empty(256 << 20, dtype=torch.uint8, pin_memory=True)
        device = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")

        def copy() -> None:
            device.copy_(host, non_blocking=True)
            host.copy_(device, non_blocking=True)
            torch.cuda.synchronize()

        return copy
    size, dtype, calls = (8192, torch.bfloat16, 10) if name == "matmul" else (64, torch.float32, 1000)
    left, right = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty_like(left)

    def multiply() -> None:
        for _ in range(calls):
            torch.matmul(left, right, out=out)
        torch.cuda.synchronize()

    return multiply


# ------------------------------------------------------------------ the recording


def record(name: str, path: Path) -> None:
    """Record one load."""
    sweeps: queue.SimpleQueue[TelemetryRead] = queue.SimpleQueue()
    found = Versions().known(PATIENCE_S)  # before the sampler opens a session
    pids: set[int] = set()
    sampler = Sampler(INTERVAL_S, sweeps.put, lambda: pids)
    sampler.start()
    load = None
    try:
        gpu = _first_gpu(sweeps)
        torch_version = None
        if name != "idle":
            load = _start(name, gpu.uuid or "")
            pids.add(load.pid)
            torch_version = _line_of(load)
            _let_pass(sweeps, 3.0)  # the first kernels have warmed the GPU
        recorder = Recorder(path)
        for number in range(BEFORE + UNDER + AFTER):
            if load is not None and number == BEFORE:
                _tell(load)
            read = _fresh(sweeps) if number == 0 else sweeps.get(timeout=10)
            kept = anonymous(read, gpu.index)
            if number == 0:
                recorder.header(replace(header_of(kept, "live", INTERVAL_S, found), torch=torch_version))
            recorder.sample(kept)
        recorder.close()
    finally:
        sampler.stop()
        if load is not None:
            load.kill()
            load.wait()


def anonymous(read: TelemetryRead, index: int) -> TelemetryRead:
    """Return the sweep with one GPU, without names of machines or people."""
    return replace(read, gpus=tuple(_nameless(gpu) for gpu in read.gpus if gpu.index == index))


def _nameless(gpu: GpuTelemetry) -> GpuTelemetry:
    processes = gpu.processes
    if processes is not None:
        processes = tuple(
            replace(each, pid=1000 + number, user=each.user and "user", command=each.command and "python")
            for number, each in enumerate(processes)
        )
    return replace(
        gpu, index=0, uuid="GPU-00000000-0000-0000-0000-000000000000", pci_bus_id="00000000:04:00.0",
        processes=processes,
    )  # fmt: skip


def _first_gpu(sweeps: queue.SimpleQueue[TelemetryRead]) -> GpuTelemetry:
    """Return the first GPU that can be read."""
    end_s = time.monotonic() + 30
    while time.monotonic() < end_s:
        read = sweeps.get(timeout=10)
        for gpu in read.gpus:
            if gpu.problem is None:
                return gpu
        if read.problem is not None:
            raise SystemExit(read.problem)
    raise SystemExit("No GPU can be read.")


def _fresh(sweeps: queue.SimpleQueue[TelemetryRead]) -> TelemetryRead:
    """Return the next sweep; drop older ones in the queue."""
    while not sweeps.empty():
        sweeps.get()
    return sweeps.get(timeout=10)


def _let_pass(sweeps: queue.SimpleQueue[TelemetryRead], seconds: float) -> None:
    _fresh(sweeps)
    for _ in range(round(seconds / INTERVAL_S)):
        sweeps.get(timeout=10)


def _start(name: str, uuid: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.traces.record", "--work", name, str(UNDER * INTERVAL_S)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def _line_of(load: subprocess.Popen[str]) -> str:
    line = load.stdout.readline().strip()
    if not line:
        raise SystemExit(f"The load ended before it began, with code {load.wait(10)}.")
    return line


def _tell(load: subprocess.Popen[str]) -> None:
    load.stdin.write("go\n")
    load.stdin.flush()


def main(folder: Path, names: list[str]) -> None:
    """Record the loads that are named, or all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or LOADS:
        path = folder / f"{name}.ndjson"
        if path.exists():
            print(f"{path.name}: exists already")
            continue
        record(name, path)
        size = path.stat().st_size
        print(f"{path.name}: {BEFORE + UNDER + AFTER} sweeps, {size} bytes{' – TOO LARGE' if size > MAX_BYTES else ''}")


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work(sys.argv[2], float(sys.argv[3]))
    else:
        main(Path(sys.argv[1]), sys.argv[2:])
