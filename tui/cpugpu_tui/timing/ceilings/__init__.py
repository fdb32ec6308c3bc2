"""What a device is asked in a calibration: bare operations, timed. One gauge per kind of device."""

from __future__ import annotations

from typing import Protocol

from cpugpu_tui.model import Device


class Gauge(Protocol):
    """Times bare operations of one device; the calibration decides which."""

    device: Device
    dtypes: tuple[str, ...]
    """Element types whose products are tried; what fails is left out."""
    directions: tuple[str, ...]
    """Keys of `Ceilings.transfers`; empty where there is no cable."""

    def threads(self) -> int:
        """Return the CPU threads in force."""

    def free_bytes(self) -> float:
        """Return the memory that may be used."""

    def matmul_ns(self, dtype: str, n: int) -> float:
        """Return the time of a product of two n×n matrices."""

    def copy_ns(self, size_bytes: int) -> float:
        """Return the time of a copy within the device's memory."""

    def launch_ns(self) -> float:
        """Return the host time of one call that does next to nothing; on a GPU of queueing it."""

    def synchronize_ns(self) -> float | None:
        """Return the host time of waiting for an idle GPU; None on a CPU."""

    def round_trip_ns(self) -> float | None:
        """Return the host time of queueing the smallest operation and waiting for it; None on a CPU."""

    def transfer_ns(self, direction: str, size_bytes: int) -> float:
        """Return the wall time of a copy over the cable, waited for."""

    def release(self) -> None:
        """Give all memory back."""
