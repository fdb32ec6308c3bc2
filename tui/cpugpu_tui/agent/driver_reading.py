"""One reading of this machine's GPUs through NVML, for a controller elsewhere or beside a calibration."""

from __future__ import annotations

from cpugpu_tui.model import GpuTelemetry, Reading, Simulation, TelemetryRead


def driver_read(simulation: Simulation | None) -> TelemetryRead:
    """Return the readings of all GPUs, those of the simulated ones if the machine is simulated."""
    if simulation is not None:
        return TelemetryRead(gpus=tuple(_simulated(index, simulation) for index in range(simulation.gpus)))
    from cpugpu_tui.machine.nvml.session import Nvml  # few plans need it

    nvml = Nvml()
    try:
        gpus, problem = nvml.read()
    finally:
        nvml.close()
    return TelemetryRead(gpus=gpus, problem=problem)


def _simulated(index: int, simulation: Simulation) -> GpuTelemetry:
    values = {
        "power_limit_mw": 300_000.0, "sm_clock_max_mhz": 1980.0, "memory_clock_max_mhz": 3201.0,
        "memory_total_bytes": float(16 << 30), "ecc_uncorrected_count": 0.0, "ecc_corrected_count": 0.0,
        "pcie_generation": 4.0, "pcie_width": float(simulation.pcie_width), "pcie_max_generation": 4.0,
        "pcie_max_width": 16.0,
    }  # fmt: skip
    readings = {name: Reading(value) for name, value in values.items()}
    return GpuTelemetry(
        index, f"GPU-SIM{index}", "simulated GPU", f"00000000:{index:02X}:00.0", readings, processes=(),
        persistence=True,
    )  # fmt: skip
