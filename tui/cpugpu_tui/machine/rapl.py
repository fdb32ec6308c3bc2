"""Energy of the processor, where the kernel lets us read it (powercap, Intel and AMD; by default for root alone)."""

from __future__ import annotations

from pathlib import Path

from cpugpu_tui.model import Reading

TICK_NS = 1e6
"""The counters are refreshed about every millisecond."""

_FOLDER = "sys/class/powercap"
_MOST_UJ = 2**63
"""The kernel's counters have 64 bits; those of today go round at 262 kJ."""


class Rapl:
    """All processor packages together, as one counter that begins at 0 and never wraps."""

    def __init__(self, root: str = "/") -> None:
        """Find the packages; nothing is read before it is asked for."""
        folder = Path(root) / _FOLDER
        # Not their parts (core, dram) nor the whole (psys); intel-rapl-mmio:* counts the same packages once more.
        try:
            found = sorted(folder.glob("intel-rapl:*"))
        except OSError:
            found = []
        self._packages = [path for path in found if _name(path).startswith("package-")]
        self._last_uj: dict[Path, int] = {}
        self._total_uj = 0

    def energy_mj(self) -> Reading:
        """Return the energy since the first reading, mJ, or why it cannot be read."""
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
            # A package at 200 W comes round to 0 every 20 minutes or so (262 kJ).
            self._total_uj += step_uj if step_uj >= 0 else step_uj + _range_uj(package)
        self._last_uj = now_uj
        return Reading(self._total_uj / 1e3)


def _name(package: Path) -> str:
    try:
        return (package / "name").read_text(errors="replace").strip()
    except OSError:
        return ""


def _range_uj(package: Path) -> int:
    """Return where a package's counter begins again; without the kernel's word, what makes the step 0 at least."""
    try:
        return int((package / "max_energy_range_uj").read_text())
    except (OSError, ValueError):
        return 2**32
