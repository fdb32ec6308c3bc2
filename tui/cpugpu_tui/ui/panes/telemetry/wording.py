"""How each reading is shown (label, number with unit, range of its history), reasons for throttling, names of GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from cpugpu_tui import model
from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model.quantities import gib, significant
from cpugpu_tui.model.throttling import ALARMING, NORMAL, QUIET, SHARE_KEYS, THROTTLE_REASONS, WARNING, severity
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import sanitized

STALE_S = 2.5
"""Readings older than this (two readings, one per second) are dimmed."""
SLOW_S = 6.0
"""Greatest normal age of readings that are taken every five seconds."""
SLOW_STALE_S = 12.5
"""Like STALE_S, for readings taken every five seconds: the host's clock and quota, a GPU's limits."""
LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""PCIe generation → bytes per second of one lane in one direction, after line coding."""
NVLINK_BYTES_PER_S = 25e9
"""Per link and direction, from Volta to Hopper (18 links: 450 GB/s). Faster links reach the edge of the range."""

Readings = Mapping[str, "model.Reading"]


class Quantity(NamedTuple):
    """How one key of `readings` is shown."""

    label: str
    text: Callable[[float], str]
    """Formats a number with its unit."""
    top: float | str | None = None
    """Upper end of its history (the lower is 0): a number, or the key of a reading. None if it has no history."""
    else_top: float | None = None
    """Upper end if that reading is unknown. The range never follows the values, so that bars stay comparable."""
    is_slow: bool = False
    """Whether it is read only every five seconds."""

    def is_stale(self, reading: model.Reading) -> bool:
        """Whether a number is old."""
        return reading.value is not None and reading.age_s > (SLOW_STALE_S if self.is_slow else STALE_S)


def percent_text(value: float) -> str:
    """Format a percentage: `97%`; `<1%` for values between 0 and 0.5."""
    return "<1%" if 0 < value < 0.5 else f"{value:.0f}%"


def bytes_text(value: float) -> str:
    """Format bytes: `12.1 GiB`."""
    return f"{gib(value)} GiB"


def bandwidth_text(value: float) -> str:
    """Format a rate: `63 GB/s` or `300 MB/s`."""
    return f"{value / 1e9:.3g} GB/s" if value >= 1e9 else f"{value / 1e6:.0f} MB/s"


def _form(form: str, scale: float = 1.0) -> Callable[[float], str]:
    return lambda value: form.format(value / scale)


def _energy_text(value: float) -> str:
    joules = value / 1e3
    for size, unit in ((1e9, "GJ"), (1e6, "MJ"), (1e3, "kJ")):
        if joules >= size:
            return f"{significant(joules / size)} {unit}"
    return f"{significant(joules)} J"


def _share(label: str, is_slow: bool = False) -> Quantity:
    return Quantity(label, percent_text, 100.0, is_slow=is_slow)


_MHZ, _WATTS, _CELSIUS, _COUNT = _form("{:.0f} MHz"), _form("{:.0f} W", 1000.0), _form("{:.0f} C"), _form("{:,.0f}")

GPU_GROUPS: dict[str, dict[str, Quantity]] = {
    "Work": {
        "kernel_active_pct": _share("kernel-active"),
        "memory_active_pct": _share("memory-active"),
        "sm_occupancy_pct": _share("SM occupancy"),
        "tensor_active_pct": _share("tensor cores active"),
        "dram_active_pct": _share("DRAM active"),
    },
    "Memory": {
        "memory_used_bytes": Quantity("used", bytes_text, "memory_total_bytes"),
        "memory_reserved_bytes": Quantity("reserved by the driver", bytes_text, "memory_total_bytes"),
        "memory_total_bytes": Quantity("total", bytes_text),
    },
    "Clocks": {
        "sm_clock_mhz": Quantity("SM clock", _MHZ, "sm_clock_max_mhz", 3000.0),
        "sm_clock_max_mhz": Quantity("max SM clock", _MHZ, is_slow=True),
        "memory_clock_mhz": Quantity("memory clock", _MHZ, "memory_clock_max_mhz", 15000.0),
        "memory_clock_max_mhz": Quantity("max memory clock", _MHZ, is_slow=True),
        "performance_state": Quantity("performance state", _form("P{:.0f}"), is_slow=True),
    },
    "Power": {
        "power_mw": Quantity("power now", _WATTS, "power_limit_mw", 1_000_000.0),
        "power_average_mw": Quantity("power, 1 s average", _WATTS, "power_limit_mw", 1_000_000.0),
        "power_limit_mw": Quantity("power limit", _WATTS, is_slow=True),
        "energy_mj": Quantity("energy since driver load", _energy_text, is_slow=True),
    },
    "Temperature": {
        "temperature_c": Quantity("GPU", _CELSIUS, "slowdown_temperature_c", 100.0),
        "slowdown_temperature_c": Quantity("throttles at", _CELSIUS, is_slow=True),
        "temperature_margin_c": Quantity("margin to throttling", _CELSIUS, 100.0, is_slow=True),
        "memory_temperature_c": Quantity("memory", _CELSIUS, 110.0, is_slow=True),
        "fan_pct": _share("fan", is_slow=True),
    },
    "Throttling (share of time)": {
        "throttled_power_cap_pct": _share("by the power cap"),
        "throttled_sync_boost_pct": _share("by sync boost"),
        "throttled_thermal_pct": _share("by heat (driver)"),
        "throttled_hw_thermal_pct": _share("by heat (hardware)", is_slow=True),
        "throttled_power_brake_pct": _share("by the power brake", is_slow=True),
        "throttle_bits": Quantity("current reasons (bit mask)", lambda value: f"0x{int(value):x}"),
    },
    "Links": {
        "pcie_generation": Quantity("PCIe generation", _COUNT, "pcie_max_generation", 6.0, is_slow=True),
        "pcie_max_generation": Quantity("max PCIe generation", _COUNT, is_slow=True),
        "pcie_width": Quantity("PCIe lanes", _COUNT, "pcie_max_width", 16.0, is_slow=True),
        "pcie_max_width": Quantity("max PCIe lanes", _COUNT, is_slow=True),
        "pcie_tx_bytes_per_s": Quantity("PCIe, GPU to host", bandwidth_text, "pcie"),
        "pcie_rx_bytes_per_s": Quantity("PCIe, host to GPU", bandwidth_text, "pcie"),
        "nvlink_links": Quantity("NVLink links", _COUNT, is_slow=True),
        "nvlink_tx_bytes_per_s": Quantity("NVLink, sent", bandwidth_text, "nvlink"),
        "nvlink_rx_bytes_per_s": Quantity("NVLink, received", bandwidth_text, "nvlink"),
    },
    "Memory errors (ECC) since driver load": {
        "ecc_corrected_count": Quantity("corrected", _COUNT, is_slow=True),
        "ecc_uncorrected_count": Quantity("uncorrected", _COUNT, is_slow=True),
    },
}  # fmt: skip
"""Heading → key → how it is shown, in reading order; holds every key of `machine.nvml.values`."""

GPU = {key: quantity for group in GPU_GROUPS.values() for key, quantity in group.items()}
"""`GPU_GROUPS` without the headings."""

HOST = {
    "cpu_pct": _share("CPU busy"),
    "load_1min": Quantity("load, 1 min average", _form("{:.2f}")),
    "memory_used_bytes": Quantity("memory used", bytes_text, "memory_total_bytes"),
    "memory_total_bytes": Quantity("memory total", bytes_text),
    "cpu_freq_mhz": Quantity("CPU clock", _MHZ, 6000.0, is_slow=True),
    "cpu_quota_cores": Quantity("cores allowed (cgroup)", _form("{:.3g}"), is_slow=True),
}
"""Keys of `TelemetryRead.host`, in reading order."""

PROCESS = {
    "kernel_active_pct": _share("GPU share", is_slow=True),
    "cpu_cores": Quantity("CPU share", lambda value: f"{value:.{1 if value < 99.95 else 0}f} cores", is_slow=True),
}
"""Keys of `GpuProcess.readings`, in reading order."""


def known(readings: Readings, key: str) -> float | None:
    """Return a reading's number; None if there is none."""
    reading = readings.get(key)
    return reading.value if reading is not None else None


def top_of(quantity: Quantity, readings: Readings) -> float | None:
    """Return the upper end of a history's range; None if it has no fixed one."""
    if isinstance(quantity.top, float) or quantity.top is None:
        return quantity.top
    if quantity.top == "pcie":
        # The slot's rate in one direction at its maximum; an idle link is slower.
        generation, lanes = known(readings, "pcie_max_generation"), known(readings, "pcie_max_width")
        if generation is None or lanes is None:
            return None
        return LANE_BYTES_PER_S.get(int(generation), LANE_BYTES_PER_S[6]) * lanes
    if quantity.top == "nvlink":
        links = known(readings, "nvlink_links")
        return links * NVLINK_BYTES_PER_S if links else None
    return known(readings, quantity.top) or quantity.else_top


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


def worded(quantity: Quantity, reading: model.Reading | None, none: str) -> Worded:
    """Return a reading as text; `none` is the dash of this terminal."""
    if reading is None or reading.value is None:
        why = REASONS.get(reading.reason or "", "") if reading is not None else ""
        return Worded(None, f"{none} {why}".strip(), none, "muted")
    text = quantity.text(reading.value)
    return Worded(reading.value, text, text, "stale" if quantity.is_stale(reading) else "text")


def age_text(quantity: Quantity, reading: model.Reading | None) -> str:
    """Return the age of a number; empty without a number.

    A reading that is taken every five seconds has a constant text while it is fresh, so that its line is not repainted.
    """
    if reading is None or reading.value is None:
        return ""
    if reading.age_s > (SLOW_S if quantity.is_slow else STALE_S):
        return f"{reading.age_s:.0f} s old"
    return f"< {SLOW_S:.0f} s old" if quantity.is_slow else "now"


def process_text(process: model.GpuProcess, width: int, glyphs: Glyphs) -> str:
    """Return `ann  python train.py  12.1 GiB` in at most `width` cells; only the command is cut."""
    memory = f"  {bytes_text(process.memory_bytes)}" if process.memory_bytes is not None else ""
    if process.user is None and process.command is None:
        return f"pid {process.pid} ({UNRESOLVED}){memory}"[:width]
    who = sanitized(process.user or "", 12, glyphs) or f"pid {process.pid}"
    room = width - len(memory) - cell_len(who) - 2
    command = sanitized(process.command or "", max(room, 8), glyphs) or "command unknown"
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

    def text(self, brief: bool = False) -> str:
        """Return `power-capped 43%`, without the share if it is not counted."""
        share = f" {self.share_pct:.0f}%" if self.share_pct is not None and self.share_pct >= 0.5 else ""
        return f"{BRIEF.get(self.word, self.word) if brief else self.word}{share}"


def throttles(gpu: model.GpuTelemetry) -> tuple[Throttle, ...]:
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


def quiet_words(gpu: model.GpuTelemetry) -> tuple[str, ...]:
    """Return the active reasons that do not affect a measurement."""
    return tuple(word for word in gpu.throttle if severity(word) == QUIET)


def sign_of(found: tuple[Throttle, ...], glyphs: Glyphs) -> str:
    """Return the sign of the worst reason: `!!` spoils a measurement, `!` may, an arrow down is normal at full load."""
    if not found:
        return ""
    return {"bad": "!!", "warn": "!"}.get(found[0].role, glyphs.down)


UUID_WIDTH = 13
"""Cells of `GPU-1234abcd…`: enough of a UUID for nvidia-smi and CUDA_VISIBLE_DEVICES."""


def torch_names(gpu: model.GpuTelemetry, devices: Sequence[model.Device]) -> tuple[str, ...]:
    """Return torch's names of this GPU and its MIG instances in this run: `cuda:0`."""
    uuids = {gpu.uuid, *(instance.uuid for instance in gpu.instances)} - {None}
    return tuple(device.name for device in devices if device.uuid in uuids)


def torch_name(uuid: str | None, devices: Sequence[model.Device]) -> str | None:
    """Return torch's name of the GPU or MIG instance with this UUID; None if the run does not use it."""
    return next((device.name for device in devices if uuid is not None and device.uuid == uuid), None)


def mapping(
    gpu: model.GpuTelemetry, devices: Sequence[model.Device], glyphs: Glyphs, *,
    instance: model.MigInstance | None = None, full: bool = False,
) -> tuple[str, ...]:  # fmt: skip
    """Return the known parts of `cuda:0 ↔ NVML 3 ↔ GPU-1234abcd… ↔ 0000:04:00.0`.

    Those of an instance are `cuda:0 ↔ MIG 1 of NVML 3 ↔ MIG-1234abcd…`.
    """
    uuid = gpu.uuid if instance is None else instance.uuid
    number = f"NVML {gpu.index}" if instance is None else f"MIG {instance.index} of NVML {gpu.index}"
    parts = [torch_name(uuid, devices) or "", number, "" if uuid is None else uuid_text(uuid, glyphs, full=full)]
    if instance is None and gpu.pci_bus_id is not None:
        parts.append(sanitized(bus_text(gpu.pci_bus_id), 16, glyphs))
    return tuple(part for part in parts if part)


def uuid_text(uuid: str, glyphs: Glyphs, *, full: bool = False) -> str:
    """Return a UUID, shortened unless `full`."""
    if full or len(uuid) <= UUID_WIDTH:
        return sanitized(uuid, 80, glyphs)
    return sanitized(uuid, UUID_WIDTH - 1, glyphs) + glyphs.ellipsis


def linked(parts: Sequence[str], glyphs: Glyphs) -> str:
    """Join the parts of a mapping."""
    return f" {glyphs.link} ".join(parts)
