"""Writes the trace whose driver is a fake: `python -m tests.traces.make_fake FILE`.

Two GPUs behind the real pynvml for 12 sweeps at 5 Hz: the first is idle, works, reaches its power cap, is hot and cools
again, the second works for somebody else and is lost half-way.
"""

import sys
import tempfile
from pathlib import Path

import pynvml
import pytest
from tests.helpers.machine.fake_nvml_library import LOST, Clock, FakeGpu, FakeLibrary

from cpugpu_tui.machine.nvml.session import Nvml
from cpugpu_tui.model import Reading, TelemetryRead
from cpugpu_tui.telemetry.recording import Recorder, header_of

INTERVAL_S = 0.2
START_NS = 1_760_000_000_000_000_000
IDLE, BUSY, CAPPED, HOT = (1, 345, 78_200, 32, 0), (0, 1980, 420_000, 48, 100), (4, 1575, 699_000, 63, 100), (
    0x24, 1200, 560_000, 88, 100,
)  # fmt: skip
"""Throttle bits, SM clock in MHz, power in mW, temperature in °C, kernel-active in %."""
ACTS = (IDLE, IDLE, BUSY, BUSY, CAPPED, CAPPED, CAPPED, HOT, HOT, BUSY, IDLE, IDLE)


def main(path: Path) -> None:
    """Write the trace."""
    first = FakeGpu()
    second = FakeGpu(uuid=b"GPU-99999999-1111-2222-3333-444444444444", bus_id=b"00000000:05:00.0")
    second.processes = [(99_999, 1 << 30)]
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as root:
        patch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        patch.setattr(pynvml, "nvmlLib", FakeLibrary([first, second]))
        nvml, recorder = Nvml(root, clock), Recorder(path)
        for number, (bits, clock_mhz, power_mw, temperature_c, active_pct) in enumerate(ACTS):
            first.throttle_bits, first.clocks_mhz[1], first.active_pct = bits, clock_mhz, active_pct
            first.power_mw, first.temperature_c = power_mw, temperature_c
            second.dead = LOST if number >= 6 else 0
            gpus, problem = nvml.read()
            elapsed_ns = int(number * INTERVAL_S * 1e9)
            host = {
                "cpu_pct": Reading(5.0 + number) if number else Reading(None, "not-yet"),
                "load_1min": Reading(0.42),
                "memory_used_bytes": Reading(8e9),
                "memory_total_bytes": Reading(64e9),
                "cpu_freq_mhz": Reading(None, "not-supported"),
            }
            read = TelemetryRead(
                gpus=gpus, host=host, problem=problem, wall_ns=START_NS + elapsed_ns, mono_ns=10**12 + elapsed_ns
            )
            if number == 0:
                recorder.header(header_of(read, "fake", INTERVAL_S, ("0.0", "0.0")))
            recorder.sample(read)
            clock.now_s += INTERVAL_S
        recorder.close()
        nvml.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
