"""Events of runs that have something to show in a chart: copies, launches, a crossover in every world."""

import re
from collections.abc import Sequence

from cpugpu_tui.model import DEVICE, DEVICE_WARM, LATENCY, PAGEABLE, Calibrated, Case, CaseStarted, DeviceSampled, Event

EDGE = re.compile(r"^ *(\d[\d.,]*( [nµum]?s)?)? ?[│┤|+]")
"""A label and the left edge of a line of curves."""


def timed(case: Case, devices: Sequence[str] = ("cpu", "cuda:0"), threads: int = 16) -> list[Event]:
    """A case with CPU times of n³: the GPU leads from about 65, from 40 without launches, from 223 end to end."""
    n = case.size
    cpu_ns = (1_000 + 0.04 * n**3) * (16 / threads) ** 0.5
    gpu_ns, moved_ns, kernel_ns = 12_000 + 0.0008 * n**3, 40_000 + 8 * n**2, 4_000 + 0.0008 * n**3
    events: list[Event] = [CaseStarted(case=case.key)]
    events += [
        Calibrated(case=case.key, device=name, estimate_ns=1e3, calls_per_block=1, blocks=1, rounds=8, threads=threads)
        for name in devices
    ]
    for index in range(1, 9):
        wobble = 1 + 0.003 * (index * 7 % 5 - 2)
        samples = {
            "cpu": {LATENCY: (cpu_ns * wobble,)},
            "cuda:0": {LATENCY: (gpu_ns,), PAGEABLE: (moved_ns,), DEVICE: (kernel_ns,), DEVICE_WARM: (kernel_ns,)},
        }
        events += [
            DeviceSampled(case=case.key, device=name, round_index=index, calls_per_block=1, samples=samples[name])
            for name in devices
        ]
    return events
