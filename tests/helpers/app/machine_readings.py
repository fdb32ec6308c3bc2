"""Whole sweeps over machines that do not exist: every key is there, as the sampler promises."""

from dataclasses import replace
from typing import Any

from cpugpu_tui.machine.nvml.values import KEYS, SLOW_KEYS
from cpugpu_tui.model import GpuProcess, GpuTelemetry, MigInstance, Reading, TelemetryRead
from cpugpu_tui.state.state import TelemetryState
from cpugpu_tui.ui.panes.lines import Spans, plain

H200: dict[str, float] = {
    "kernel_active_pct": 97.0, "memory_active_pct": 41.0, "memory_used_bytes": 13e9, "memory_reserved_bytes": 0.6e9,
    "memory_total_bytes": 150e9, "sm_clock_mhz": 1575.0, "memory_clock_mhz": 3201.0, "power_mw": 698_000.0,
    "power_average_mw": 695_000.0, "temperature_c": 61.0, "throttle_bits": 4.0, "throttled_power_cap_pct": 43.0,
    "throttled_sync_boost_pct": 0.0, "throttled_thermal_pct": 0.0, "pcie_tx_bytes_per_s": 1.2e9,
    "pcie_rx_bytes_per_s": 0.3e9, "nvlink_tx_bytes_per_s": 0.0, "nvlink_rx_bytes_per_s": 0.0,
    "power_limit_mw": 700_000.0, "slowdown_temperature_c": 87.0, "temperature_margin_c": 26.0,
    "memory_temperature_c": 58.0, "performance_state": 0.0, "sm_clock_max_mhz": 1980.0, "memory_clock_max_mhz": 3201.0,
    "pcie_generation": 5.0, "pcie_width": 16.0, "pcie_max_generation": 5.0, "pcie_max_width": 16.0,
    "nvlink_links": 18.0, "ecc_corrected_count": 0.0, "ecc_uncorrected_count": 0.0, "energy_mj": 4.2e12,
    "throttled_hw_thermal_pct": 0.0, "throttled_power_brake_pct": 0.0,
}  # fmt: skip
REASONS = {"fan_pct": "not-supported", "sm_occupancy_pct": "not-asked", "tensor_active_pct": "not-asked",
           "dram_active_pct": "not-asked"}  # fmt: skip
PROCESSES = (
    GpuProcess(4242, 12 * 2**30, "ann", "python train.py --epochs 90", own=False),
    GpuProcess(99999, None, None, None, own=False),
    GpuProcess(77, 2**29, "me", "python agent", own=True),
)


def reading(key: str, value: float | None = None, age_s: float | None = None) -> Reading:
    """One reading as an H200 under load gives it."""
    age_s = age_s if age_s is not None else 3.0 if key in SLOW_KEYS else 0.1
    if key in REASONS and value is None:
        return Reading(None, REASONS[key], age_s)
    return Reading(H200[key] if value is None else value, None, age_s)


def gpu(index: int = 0, *, values: dict[str, float | Reading] | None = None, **fields: Any) -> GpuTelemetry:
    """A GPU under load at its power limit; `values` replace numbers, `fields` everything else."""
    readings = {key: reading(key) for key in KEYS}
    for key, value in (values or {}).items():
        readings[key] = value if isinstance(value, Reading) else reading(key, value)
    found = GpuTelemetry(
        index=index,
        uuid=f"GPU-{index}234abcd-1111-2222-3333-444455556666",
        name="NVIDIA H200",
        pci_bus_id=f"00000000:{4 + index:02X}:00.0",
        readings=readings,
        throttle=("power-capped",),
        processes=(),
        persistence=True,
    )
    return replace(found, **fields)


def idle(index: int = 0, **values: float) -> GpuTelemetry:
    """The same GPU with nothing to do."""
    quiet = {"kernel_active_pct": 0.0, "sm_clock_mhz": 345.0, "power_mw": 77_000.0, "throttle_bits": 1.0,
             "throttled_power_cap_pct": 0.0, "pcie_tx_bytes_per_s": 0.0, "pcie_rx_bytes_per_s": 0.0}  # fmt: skip
    return gpu(index, values={**quiet, **values}, throttle=("idle",))


def lost(index: int = 0) -> GpuTelemetry:
    """A GPU that has fallen off the bus."""
    readings = {key: Reading(None, "gpu-lost") for key in KEYS}
    return gpu(index, values=readings, throttle=(), processes=None, problem=f"GPU {index} is lost. Reboot the machine.")


def mig(index: int = 0) -> GpuTelemetry:
    """A GPU in two slices."""
    slices = tuple(
        MigInstance(
            number, f"MIG-{number}bcd0000-1111-2222-3333-444455556666", "1g.18gb",
            {"memory_used_bytes": Reading(2.1 * 2**30), "memory_total_bytes": Reading(17.5 * 2**30)}, (),
        )
        for number in range(2)
    )  # fmt: skip
    return gpu(index, values={"kernel_active_pct": Reading(None, "mig")}, instances=slices)


HOST = {
    "cpu_pct": Reading(12.0), "memory_used_bytes": Reading(31e9), "memory_total_bytes": Reading(256e9),
    "load_1min": Reading(0.52), "cpu_freq_mhz": Reading(2400.0, None, 3.0), "cpu_quota_cores": Reading(16.0, None, 3.0),
}  # fmt: skip


def sweep(*gpus: GpuTelemetry, **fields: Any) -> TelemetryRead:
    """One event of the sampler."""
    return TelemetryRead(gpus=gpus, host=dict(HOST), **fields)


def state(*sweeps: TelemetryRead) -> TelemetryState:
    """What the panes know after these sweeps, each a second after the one before unless it has a clock."""
    known = TelemetryState()
    for second, read in enumerate(sweeps, 1):
        known = known.apply(read if read.mono_ns else replace(read, mono_ns=second * 10**9))
    return known


def moving(second: int, count: int = 8) -> TelemetryRead:
    """A sweep over busy GPUs none of whose values are those of the second before."""
    gpus = tuple(
        gpu(index, values={
            "kernel_active_pct": float((37 * second + 11 * index) % 101),
            "memory_used_bytes": 13e9 + 1e9 * ((second + index) % 90),
            "sm_clock_mhz": 1200.0 + (second * 45 + 15 * index) % 780,
            "power_mw": 1000.0 * (200 + (second * 67 + 31 * index) % 500),
            "temperature_c": 40.0 + (second + index) % 40,
            "throttled_power_cap_pct": float((second * 29 + index) % 100),
            "pcie_tx_bytes_per_s": 1e9 * ((second * 7 + index) % 50),
            "pcie_rx_bytes_per_s": 1e9 * ((second * 3 + index) % 50),
        })
        for index in range(count)
    )  # fmt: skip
    host = {**HOST, "cpu_pct": Reading(float(second * 13 % 101)), "load_1min": Reading(second * 0.37 % 64)}
    return TelemetryRead(gpus=gpus, host=host, mono_ns=(second + 1) * 10**9)


def text_of(lines: list[Spans]) -> str:
    """Lines as a person reads them."""
    return "\n".join(plain(line) for line in lines)


def marked(lines: list[Spans]) -> str:
    """Lines as a person sees them: what warns or is old stands in brackets behind its role, `‹warn ! 2 others›`."""
    return "\n".join(
        "".join(f"‹{role} {text}›" if role in ("warn", "bad", "stale") else text for text, role in line)
        for line in lines
    )
