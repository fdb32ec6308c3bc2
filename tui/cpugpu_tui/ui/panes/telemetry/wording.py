"""Readings in words: numbers, reasons, ages, and text from strangers."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import GpuProcess, Reading
from cpugpu_tui.telemetry.reasons import REASONS
from cpugpu_tui.ui.glyphs import ASCII, Glyphs
from cpugpu_tui.ui.panes.telemetry.quantities import SLOW_S, STALE_S, Quantity, bytes_text

UNRESOLVED = "outside namespace"
"""Of a process that this container or user cannot see: the driver tells its number alone."""


def reason_text(reading: Reading | None, none: str) -> str:
    """Return the dash with the reason why there is no number."""
    words = REASONS.get(reading.reason or "", "") if reading is not None else ""
    return f"{none} {words}".strip()


def value_text(quantity: Quantity, reading: Reading | None, none: str) -> str:
    """Return the number with its unit, or the dash with the reason."""
    if reading is None or reading.value is None:
        return reason_text(reading, none)
    return quantity.text(reading.value)


def number_text(quantity: Quantity, reading: Reading | None, none: str) -> str:
    """Return the number with its unit, or the dash alone: for places without room for reasons."""
    return none if reading is None or reading.value is None else quantity.text(reading.value)


def role_of(quantity: Quantity, reading: Reading | None) -> str:
    """Return how a value looks: without a number quiet, old ones dimmed."""
    if reading is None or reading.value is None:
        return "muted"
    return "stale" if quantity.is_stale(reading) else "text"


def age_text(quantity: Quantity, reading: Reading | None) -> str:
    """Return how old a number is; nothing where there is none.

    What is read every five seconds says so, instead of counting to five over and over: a line that says nothing new
    is not painted.
    """
    if reading is None or reading.value is None:
        return ""
    if reading.age_s > (SLOW_S if quantity.is_slow else STALE_S):
        return f"{reading.age_s:.0f} s old"
    return f"< {SLOW_S:.0f} s old" if quantity.is_slow else "now"


def stranger(text: str, width: int, glyphs: Glyphs) -> str:
    """Return a name that a stranger chose, in at most `width` cells: nothing in it that a terminal obeys.

    It was made harmless where it was read; but events also come from files and from other machines.
    """
    text = printable(text)
    if glyphs is ASCII:
        text = text.encode("ascii", "replace").decode()
    return set_cell_size(text, max(0, width)).rstrip()


def process_text(process: GpuProcess, width: int, glyphs: Glyphs) -> str:
    """Return `ann  python train.py  12.1 GiB` in at most `width` cells; the command is what is cut."""
    memory = f"  {bytes_text(process.memory_bytes)}" if process.memory_bytes is not None else ""
    if process.user is None and process.command is None:
        return f"pid {process.pid} ({UNRESOLVED}){memory}"[:width]
    who = stranger(process.user or "", 12, glyphs) or f"pid {process.pid}"
    room = width - len(memory) - cell_len(who) - 2
    command = stranger(process.command or "", max(room, 8), glyphs) or "command unknown"
    return set_cell_size(f"{who}  {command}{memory}", width).rstrip()


def bus_text(pci_bus_id: str) -> str:
    """Return a PCI address as people know it: NVML writes the domain with eight digits."""
    domain, _, rest = pci_bus_id.partition(":")
    return f"{domain[4:]}:{rest}" if len(domain) == 8 and domain.startswith("0000") and rest else pci_bus_id
