"""Readings, reasons for throttling, and names of GPUs and processes as text; names come from untrusted sources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from cpugpu_tui.machine.text import REASONS, printable
from cpugpu_tui.model import Device, GpuProcess, GpuTelemetry, MigInstance, Reading
from cpugpu_tui.model.throttling import ALARMING, NORMAL, QUIET, SHARE_KEYS, THROTTLE_REASONS, WARNING, severity
from cpugpu_tui.ui.glyphs import ASCII, Glyphs
from cpugpu_tui.ui.panes.telemetry.quantities import SLOW_S, STALE_S, Quantity, bytes_text, known

UNRESOLVED = "outside namespace"
"""Note at a process that this container or user cannot see: the driver reports only its pid."""


class Worded(NamedTuple):
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
    """Return an untrusted name in at most `width` cells, without control characters; empty if it takes no cell.

    Names are cleaned when they are read, too; but events also come from files and other machines.
    """
    text = printable(text)
    if glyphs is ASCII:
        text = text.encode("ascii", "replace").decode()
    text = set_cell_size(text, max(0, width)).rstrip()
    return text if cell_len(text) else ""  # accents without a letter


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


ROLES = {ALARMING: "bad", WARNING: "warn", NORMAL: "text"}
"""Severity → role of its text."""
BRIEF = {"power-capped": "capped", "sync-boost": "sync"}
MEANINGS = {
    "power-brake": "the server's power supply limits this GPU. Do not trust measurements now; ask the administrator of"
    " the machine.",
    "hw-thermal": "too hot: the hardware cuts the clock to half or less. Check fans and air flow before you measure.",
    "hw-slowdown": "the hardware lowers the clock because of heat, a power brake or a failing power supply.",
    "thermal": "too hot: the driver lowers the clock. Times depend on earlier load. Check fans and air flow.",
    "power-capped": "at the power limit. This is normal under full load.",
    "sync-boost": "the clock follows those of other GPUs.",
    "idle": "nothing runs at this moment. Kernel-active covers up to the last second.",
    "app-clocks": "the clock is fixed by a setting (application clocks).",
    "display": "the clock is set by a display.",
}
"""Word → meaning for a measurement."""
NAMELESS = "unknown to this version. Run `nvidia-smi -q -d PERFORMANCE` to see the driver's name for it."
"""Meaning of `unknown 0x400`, and of a later version's words in a recording."""
_NAMELESS_BITS = re.compile(r"unknown 0x[0-9a-f]{1,16}")


class Throttle(NamedTuple):
    """One reason, active now or at some time since the last reading."""

    word: str
    share_pct: float | None
    """Share of the time since the last reading; None if the driver does not count it."""
    is_now: bool

    @property
    def role(self) -> str:
        """Role of its text; `sign_of` says the same without colour."""
        return ROLES[severity(self.word)]

    @property
    def share_text(self) -> str:
        """`43%`; empty if it is not counted."""
        return f"{self.share_pct:.0f}%" if self.share_pct is not None and self.share_pct >= 0.5 else ""

    def text(self, brief: bool = False) -> str:
        """Return `power-capped 43%`."""
        return f"{BRIEF.get(self.word, self.word) if brief else self.word} {self.share_text}".strip()


def throttles(gpu: GpuTelemetry) -> tuple[Throttle, ...]:
    """Return the reasons that throttle this GPU, worst first, without those that do not matter.

    A reason that was active only between two readings is known from its counter.
    """
    found = []
    known_words = [word for word in THROTTLE_REASONS if severity(word) != QUIET]
    for word in (*known_words, *sorted(filter(_is_word, set(gpu.throttle) - set(THROTTLE_REASONS)))):
        share = known(gpu.readings, SHARE_KEYS[word]) if word in SHARE_KEYS else None
        if word in gpu.throttle or (share is not None and share >= 0.5):
            found.append(Throttle(word, share, word in gpu.throttle))
    return tuple(found)


def _is_word(text: str) -> bool:
    """Whether a text looks like a reason of a later version, and not like arbitrary text from a file."""
    is_name = text.isascii() and text.replace("-", "").isalpha() and len(text) <= 20
    return is_name or _NAMELESS_BITS.fullmatch(text) is not None


def quiet_words(gpu: GpuTelemetry) -> tuple[str, ...]:
    """Return the active reasons that do not affect a measurement."""
    return tuple(word for word in gpu.throttle if severity(word) == QUIET)


def sign_of(found: tuple[Throttle, ...], glyphs: Glyphs) -> str:
    """Return the sign of the worst reason: `!!` spoils a measurement, `!` may, an arrow down is normal at full load."""
    if not found:
        return ""
    return {"bad": "!!", "warn": "!"}.get(found[0].role, glyphs.down)


UUID_WIDTH = 13
"""Cells of `GPU-1234abcd…`: enough of a UUID for nvidia-smi and CUDA_VISIBLE_DEVICES."""


def torch_names(gpu: GpuTelemetry, devices: Sequence[Device]) -> tuple[str, ...]:
    """Return torch's names of this GPU and its MIG instances in this run: `cuda:0`."""
    uuids = {gpu.uuid, *(instance.uuid for instance in gpu.instances)} - {None}
    return tuple(device.name for device in devices if device.uuid in uuids)


def torch_name(uuid: str | None, devices: Sequence[Device]) -> str | None:
    """Return torch's name of the GPU or MIG instance with this UUID; None if the run does not use it."""
    return next((device.name for device in devices if uuid is not None and device.uuid == uuid), None)


def mapping(
    gpu: GpuTelemetry, devices: Sequence[Device], glyphs: Glyphs, *, instance: MigInstance | None = None,
    full: bool = False,
) -> tuple[str, ...]:  # fmt: skip
    """Return the known parts of `cuda:0 ↔ NVML 3 ↔ GPU-1234abcd… ↔ 0000:04:00.0`.

    Those of an instance are `cuda:0 ↔ MIG 1 of NVML 3 ↔ MIG-1234abcd…`.
    """
    uuid = gpu.uuid if instance is None else instance.uuid
    number = f"NVML {gpu.index}" if instance is None else f"MIG {instance.index} of NVML {gpu.index}"
    parts = [torch_name(uuid, devices) or "", number, "" if uuid is None else uuid_text(uuid, glyphs, full=full)]
    if instance is None and gpu.pci_bus_id is not None:
        parts.append(stranger(bus_text(gpu.pci_bus_id), 16, glyphs))
    return tuple(part for part in parts if part)


def uuid_text(uuid: str, glyphs: Glyphs, *, full: bool = False) -> str:
    """Return a UUID, shortened unless `full`."""
    if full or len(uuid) <= UUID_WIDTH:
        return stranger(uuid, 80, glyphs)
    return stranger(uuid, UUID_WIDTH - 1, glyphs) + glyphs.ellipsis


def linked(parts: Sequence[str], glyphs: Glyphs) -> str:
    """Join the parts of a mapping."""
    return f" {glyphs.link} ".join(parts)
