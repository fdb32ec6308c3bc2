"""On a real GPU: readings equal those of nvidia-smi, idle and under load, within its resolution."""

import csv
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import count

import pytest

from cpugpu_tui.machine.nvml.session import Nvml
from cpugpu_tui.model import GpuTelemetry

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

FIELDS = {
    "kernel_active_pct": ("utilization.gpu", 1.0, 1.0),
    "memory_active_pct": ("utilization.memory", 1.0, 1.0),
    "memory_used_bytes": ("memory.used", 2.0**20, 2.0**20),
    "sm_clock_mhz": ("clocks.sm", 1.0, 1.0),
    "memory_clock_mhz": ("clocks.mem", 1.0, 1.0),
    "power_mw": ("power.draw.instant", 1000.0, 10.0),
    "power_average_mw": ("power.draw.average", 1000.0, 10.0),
    "temperature_c": ("temperature.gpu", 1.0, 1.0),
    "memory_temperature_c": ("temperature.memory", 1.0, 1.0),
    "power_limit_mw": ("enforced.power.limit", 1000.0, 10.0),
    "pcie_generation": ("pcie.link.gen.current", 1.0, 0.0),
    "pcie_width": ("pcie.link.width.current", 1.0, 0.0),
    "pcie_max_generation": ("pcie.link.gen.max", 1.0, 0.0),
    "ecc_uncorrected_count": ("ecc.errors.uncorrected.volatile.total", 1.0, 0.0),
}
"""Our key → nvidia-smi's field, factor between the units, and nvidia-smi's resolution in our unit."""

LOAD = """
import torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize()
print("ready", flush=True)
while True:
    for _ in range(50):
        a @ a
    torch.cuda.synchronize()
"""


SETTLED_S = 12.0
"""Rest after the previous test: averages cover one second, and heat fades slowly."""


@contextmanager
def load(name):
    """Keep a GPU at its power limit while the block runs, or idle."""
    if name == "idle":
        end_s = time.monotonic() + SETTLED_S
        while time.monotonic() < end_s and nvidia_smi()["power_average_mw"] > 1.1 * nvidia_smi()["power_mw"]:
            pass
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", LOAD], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == "ready"
        end_s = time.monotonic() + 2.0  # averages are over one second
        while time.monotonic() < end_s:
            assert process.poll() is None
        yield
    finally:
        process.kill()
        process.wait()


def nvidia_smi():
    names = ",".join(field for field, _, _ in FIELDS.values())
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={names}", "--format=csv,noheader,nounits"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (words,) = csv.reader(text.splitlines())
    found = {}
    for (key, (_, unit, _)), word in zip(FIELDS.items(), words, strict=True):
        try:
            found[key] = float(word.strip()) * unit
        except ValueError:  # [N/A]
            continue
    return found


@pytest.mark.parametrize("name", ["idle", "load"])
def test_our_values_are_those_of_nvidia_smi(name):
    with load(name):
        # A clock of our own: what is read every five seconds is read at every sweep, so that ages agree.
        clock_s = count(step=10.0)
        nvml = Nvml(clock_s=lambda: float(next(clock_s)))
        ours: list[GpuTelemetry] = []
        theirs = []
        for _ in range(4):
            ours += [nvml.read()[0][0] for _ in range(3)]
            theirs.append(nvidia_smi())
        ours += [nvml.read()[0][0] for _ in range(3)]
        nvml.close()
    compared = 0
    for key, (field, _, step) in FIELDS.items():
        values = [gpu.readings[key].value for gpu in ours]
        known = [value for value in values if value is not None]
        said = [found[key] for found in theirs if key in found]
        assert bool(known) == bool(said), (field, values[:3], said)
        if not known:
            continue
        # Both move while they are read: a value of theirs lies within what ours went through.
        spread = max(known) - min(known)
        low, high = min(known) - spread - step, max(known) + spread + step
        print(f"{name}: {field} {said[0]:g} ours {min(known):g} to {max(known):g}")
        assert all(low <= value <= high for value in said), (field, known, said)
        compared += 1
    assert compared >= 10
