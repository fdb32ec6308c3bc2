"""Energy of the processor, if the kernel allows reading it (powercap, Intel and AMD; by default only for root)."""

from __future__ import annotations

from pathlib import Path

from cpugpu_tui.model import Reading

TICK_NS = 1e6
"""Approximate refresh interval of the counters."""

_FOLDER = "sys/class/powercap"
_MOST_UJ = 2**63
"""Limit of the kernel's 64-bit counters; present processors wrap at 262 kJ."""


class Rapl:
    """One counter for all processor packages, which starts at 0 and never wraps."""

    def __init__(self, root: str = "/") -> None:
        """Find the packages without reading their counters."""
        folder = Path(root) / _FOLDER
        # Skip parts (core, dram) and the platform (psys); intel-rapl-mmio:* repeats the same packages.
        try:
            found = sorted(folder.glob("intel-rapl:*"))
        except OSError:
            found = []
        self._packages = [path for path in found if _name(path).startswith("package-")]
        self._last_uj: dict[Path, int] = {}
        self._total_uj = 0

    def energy_mj(self) -> Reading:
        """Return the energy since the first reading, mJ, or the reason why it cannot be read."""
        if not self._packages:
            return Reading(None, "not-supported")
        try:
            now_uj = {package: int((package / "energy_uj").read_text()) for package in self._packages}
        except PermissionError:
            return Reading(None, "no-permission")
        except (OSError, ValueError):
            return Reading(None, "not-supported")
        if not all(0 <= value <= _MOST_UJ for value in now_uj.values()):
            return Reading(None, "out-of-range")
        for package, value_uj in now_uj.items():
            step_uj = value_uj - self._last_uj.get(package, value_uj)
            # At 200 W a counter wraps about every 20 minutes (262 kJ).
            self._total_uj += step_uj if step_uj >= 0 else step_uj + _range_uj(package)
        self._last_uj = now_uj
        return Reading(self._total_uj / 1e3)


def _name(package: Path) -> str:
    try:
        return (package / "name").read_text(errors="replace").strip()
    except OSError:
        return ""


def _range_uj(package: Path) -> int:
    """Return the range of a package's counter; if unknown, a value that keeps the step positive."""
    try:
        return int((package / "max_energy_range_uj").read_text())
    except (OSError, ValueError):
        return 2**32
