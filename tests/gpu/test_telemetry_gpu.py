"""On a real GPU: readings are numbers, and constant ones equal those of nvidia-smi."""

import csv
import queue
import subprocess
import sys
import threading
import time

import pytest

from cpugpu_tui.machine.nvml.processes import kernel_shares
from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.model import GpuProcess, Reading, TelemetryRead
from cpugpu_tui.telemetry.sampler import Sampler

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


def nvidia_smi(*fields):
    """Return one list of words per GPU."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [[word.strip() for word in line] for line in csv.reader(text.splitlines())]


@pytest.fixture(scope="module")
def event():
    """The first event with GPUs."""
    seen: list[TelemetryRead] = []
    enough = threading.Event()

    def emit(event):
        if event.gpus:
            seen.append(event)
            enough.set()

    sampler = Sampler(0.1, emit)
    sampler.start()
    try:
        assert enough.wait(60)
    finally:
        sampler.stop()
    return seen[0]


def test_identity_and_limits_are_nvidia_smis(event):
    assert event.problem is None
    theirs = nvidia_smi("index", "name", "uuid", "memory.total", "enforced.power.limit", "pci.bus_id")
    ours = [
        [
            str(gpu.index),
            gpu.name,
            gpu.uuid,
            f"{(gpu.readings['memory_total_bytes'].value or 0) / 2**20:.0f}",
            f"{(gpu.readings['power_limit_mw'].value or 0) / 1000:.2f}",
            gpu.pci_bus_id,
        ]
        for gpu in event.gpus
    ]
    assert ours == theirs


def test_every_value_is_a_number_where_nvidia_smi_has_one(event):
    fields = ("utilization.gpu", "memory.used", "clocks.sm", "clocks.mem", "power.draw.instant", "temperature.gpu")
    keys = ("kernel_active_pct", "memory_used_bytes", "sm_clock_mhz", "memory_clock_mhz", "power_mw", "temperature_c")
    for gpu, words in zip(event.gpus, nvidia_smi(*fields), strict=True):
        assert gpu.problem is None
        assert tuple(gpu.readings) == KEYS
        for key, word in zip(keys, words, strict=True):
            assert (gpu.readings[key].value is not None) == word.replace(".", "").isdecimal(), (key, word)


def test_readings_are_plausible(event):
    for gpu in event.gpus:
        values = {key: reading.value for key, reading in gpu.readings.items() if reading.value is not None}
        assert 0 <= values.get("kernel_active_pct", 0) <= 100
        assert 0 <= values.get("memory_used_bytes", 0) <= values.get("memory_total_bytes", 1 << 60)
        assert 0 < values.get("power_mw", 1) < 2 * values.get("power_limit_mw", 1e9)
        assert 0 < values.get("temperature_c", 1) < values.get("slowdown_temperature_c", 200)


def test_our_own_process_is_found_and_torch_agrees_on_the_uuid():
    torch = pytest.importorskip("torch")
    from cpugpu_tui.machine.nvml.session import Nvml

    held = torch.ones(1 << 20, device="cuda:0")
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    nvml = Nvml()
    rows, problem = nvml.read()
    nvml.close()
    assert problem is None
    (row,) = [row for row in rows if row.uuid == uuid]
    (own,) = [process for process in row.processes or () if process.own]
    assert own.command is not None
    assert own.memory_bytes is None or own.memory_bytes > held.nbytes


NOT_READ = Reading(None, "not-asked")
BUSY = """
import torch
a = torch.ones(4096, 4096, device="cuda")
print("ready", flush=True)
while True:
    a @ a
    torch.cuda.synchronize()
"""


def test_a_process_that_computes_has_its_shares_of_gpu_and_cores():
    """In a container the driver uses the host's process ids, so the process is known by its work."""
    seen: queue.SimpleQueue[TelemetryRead] = queue.SimpleQueue()
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as busy:
        sampler = Sampler(1.0, seen.put)
        try:
            assert busy.stdout.readline() == "ready\n"
            sampler.start()
            ends_s = time.monotonic() + 60
            found: list[GpuProcess] = []
            while not found and time.monotonic() < ends_s:
                processes = [each for gpu in seen.get(timeout=60).gpus for each in gpu.processes or ()]
                shares = [(each, each.readings.get("kernel_active_pct", NOT_READ)) for each in processes]
                found = [each for each, share in shares if (share.value or 0) > 50]
            assert found, processes
            cores = found[0].readings["cpu_cores"]
            assert cores.reason in ("not-yet", "unresolved") or 0.5 < (cores.value or 0) < 2
        finally:
            sampler.stop()
            busy.kill()


def test_asking_for_the_shares_takes_no_longer_than_the_energy_counter():
    import pynvml

    pynvml.nvmlInit()
    try:
        handle, took_ms = pynvml.nvmlDeviceGetHandleByIndex(0), []
        for _ in range(50):
            begun_s = time.perf_counter()
            kernel_shares(pynvml, handle, int(time.time() * 1e6) - 5_000_000)
            took_ms.append(1000 * (time.perf_counter() - begun_s))
    finally:
        pynvml.nvmlShutdown()
    print(f"GPU shares of processes: median {sorted(took_ms)[25]:.3f} ms, longest {max(took_ms):.3f} ms")
    assert sorted(took_ms)[25] < 16
