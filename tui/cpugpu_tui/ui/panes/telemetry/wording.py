"""Readings as text: numbers, reasons, ages, and names from untrusted sources."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import GpuProcess, Reading
from cpugpu_tui.telemetry.reasons import REASONS
from cpugpu_tui.ui.glyphs import ASCII, Glyphs
from cpugpu_tui.ui.panes.telemetry.quantities import SLOW_S, STALE_S, Quantity, bytes_text

UNRESOLVED = "outside namespace"
"""Note at a process that this container or user cannot see: the driver reports only its pid."""


@dataclass(frozen=True)
class Worded:
    """A reading as text."""

    value: float | None
    text: str
    """The number with its unit, or a dash with the reason why there is none."""
    number: str
    """The number with its unit, or only a dash."""
    role: str
    """`muted` without a number, `stale` if it is old, else `text`."""


def worded(quantity: Quantity, reading: Reading | None, none: str) -> Worded:
    """Return a reading as text; `none` is the dash of this terminal."""
    if reading is None or reading.value is None:
        why = REASONS.get(reading.reason or "", "") if reading is not None else ""
        return Worded(None, f"{none} {why}".strip(), none, "muted")
    text = quantity.text(reading.value)
    return Worded(reading.value, text, text, "stale" if quantity.is_stale(reading) else "text")


def age_text(quantity: Quantity, reading: Reading | None) -> str:
    """Return the age of a number; empty without a number.

    A reading that is taken every five seconds has a constant text while it is fresh, so that its line is not repainted.
    """
    if reading is None or reading.value is None:
        return ""
    if reading.age_s > (SLOW_S if quantity.is_slow else STALE_S):
        return f"{reading.age_s:.0f} s old"
    return f"< {SLOW_S:.0f} s old" if quantity.is_slow else "now"


def stranger(text: str, width: int, glyphs: Glyphs) -> str:
    """Return an untrusted name in at most `width` cells, without control characters.

    Names are cleaned when they are read, too; but events also come from files and other machines.
    """
    text = printable(text)
    if glyphs is ASCII:
        text = text.encode("ascii", "replace").decode()
    return set_cell_size(text, max(0, width)).rstrip()


def process_text(process: GpuProcess, width: int, glyphs: Glyphs) -> str:
    """Return `ann  python train.py  12.1 GiB` in at most `width` cells; only the command is cut."""
    memory = f"  {bytes_text(process.memory_bytes)}" if process.memory_bytes is not None else ""
    if process.user is None and process.command is None:
        return f"pid {process.pid} ({UNRESOLVED}){memory}"[:width]
    who = stranger(process.user or "", 12, glyphs) or f"pid {process.pid}"
    room = width - len(memory) - cell_len(who) - 2
    command = stranger(process.command or "", max(room, 8), glyphs) or "command unknown"
    return set_cell_size(f"{who}  {command}{memory}", width).rstrip()


def bus_text(pci_bus_id: str) -> str:
    """Return a PCI address with a domain of four digits; NVML writes eight."""
    domain, _, rest = pci_bus_id.partition(":")
    return f"{domain[4:]}:{rest}" if len(domain) == 8 and domain.startswith("0000") and rest else pci_bus_id
