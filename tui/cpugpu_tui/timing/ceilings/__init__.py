"""Interface of gauges, which time bare operations of a device for a calibration. One class per kind of device."""

from __future__ import annotations

from typing import Protocol

from cpugpu_tui.model import Device


class Gauge(Protocol):
    """Times bare operations of one device; the calibration decides which."""

    device: Device
    dtypes: tuple[str, ...]
    """Element types to try in matrix products; those that fail are left out."""
    directions: tuple[str, ...]
    """Keys of `Ceilings.transfers`; empty on a CPU."""

    def threads(self) -> int:
        """Return the number of CPU threads that torch uses."""

    def free_bytes(self) -> float:
        """Return the free memory of the device, bytes."""

    def matmul_ns(self, dtype: str, n: int) -> float:
        """Return the time of a product of two n×n matrices, ns."""

    def copy_ns(self, size_bytes: int) -> float:
        """Return the time of a copy within the device's memory, ns."""

    def launch_ns(self) -> float:
        """Return the launch overhead, ns: host time of the smallest call, on a GPU of queueing it."""

    def synchronize_ns(self) -> float | None:
        """Return the host time of synchronising with an idle GPU, ns; None on a CPU."""

    def round_trip_ns(self) -> float | None:
        """Return the host time of queueing the smallest operation and synchronising, ns; None on a CPU."""

    def transfer_ns(self, direction: str, size_bytes: int) -> float:
        """Return the wall time of a synchronised copy between host and GPU, ns."""

    def release(self) -> None:
        """Free all memory."""
