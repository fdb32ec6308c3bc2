"""An `Nvml` over the library built from C, in the test's own process."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.helpers.machine.nvml_library import FakeNvml

from cpugpu_tui.machine.nvml.session import Nvml
from cpugpu_tui.model import GpuTelemetry


class Machine:
    """An `Nvml` over the library, in this process, whose seconds pass when a test says so."""

    def __init__(self, fake: FakeNvml, root: Path, gpm: bool = False) -> None:
        fake.use()
        self.now_s = 1000.0
        self.while_paused: Callable[[], None] = lambda: None
        self.pauses = 0
        self.nvml = Nvml(str(root), lambda: self.now_s, gpm, pause=self._pause)

    def _pause(self, seconds: float) -> None:
        assert seconds < 0.033, "a 32-bit counter goes round in that at 128 GB/s"
        self.pauses += 1
        self.while_paused()

    def rows(self, after_s: float = 0.0, quiet: bool = False) -> tuple[GpuTelemetry, ...]:
        self.now_s += after_s
        rows, problem = self.nvml.read(quiet=quiet)
        assert problem is None
        return rows


@pytest.fixture
def machine(fake_nvml: FakeNvml, tmp_path: Path) -> Machine:
    return Machine(fake_nvml, tmp_path)


def unknown(row: GpuTelemetry) -> dict[str, str | None]:
    """Return the reasons of everything that has no number."""
    return {key: reading.reason for key, reading in row.readings.items() if reading.value is None}


NOT_THERE = {
    "nvlink_tx_bytes_per_s": "not-supported",
    "nvlink_rx_bytes_per_s": "not-supported",
    "sm_occupancy_pct": "not-asked",
    "tensor_active_pct": "not-asked",
    "dram_active_pct": "not-asked",
}
"""What a healthy GPU without NVLink has no number for."""
