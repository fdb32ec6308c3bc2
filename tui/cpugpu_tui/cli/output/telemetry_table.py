"""Telemetry as lines of text, like vmstat: a header, then one line per GPU and one for the host."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import GpuTelemetry, Reading, TelemetryRead
from cpugpu_tui.model.throttling import SHARE_KEYS

DASH = "–"
"""Shown for an unknown number. The reason is printed once, below the rows."""
STALE_INTERVALS = 2.5
"""A number older than this many intervals is shown with `~`."""


@dataclass(frozen=True)
class Column:
    """One number of a row."""

    title: str
    unit: str
    gpu_key: str
    host_key: str = ""
    """Empty if the host has no such number. Its cell is blank then."""
    factor: float = 1.0
    """Factor from the reading's unit to `unit`."""
    digits: int = 0

    @property
    def width(self) -> int:
        """Width in cells, at least five: `~1980` must fit."""
        return max(len(self.title), len(self.unit), 5)


COLUMNS = (
    Column("active", "%", "kernel_active_pct", "cpu_pct"),
    Column("memory", "GiB", "memory_used_bytes", "memory_used_bytes", 2**-30, 1),
    Column("clock", "MHz", "sm_clock_mhz", "cpu_freq_mhz"),
    Column("power", "W", "power_mw", factor=1e-3),
    Column("temp", "C", "temperature_c"),
    Column("to GPU", "MB/s", "pcie_rx_bytes_per_s", factor=1e-6),
    Column("from", "MB/s", "pcie_tx_bytes_per_s", factor=1e-6),
)
"""`active` is the share of time in which a kernel ran (GPU), or the share of cores in use (host)."""
GPM_COLUMNS = (
    Column("SM", "%", "sm_occupancy_pct"),
    Column("tensor", "%", "tensor_active_pct"),
    Column("DRAM", "%", "dram_active_pct"),
)
"""Columns that are added by `--gpm`."""


class Table:
    """Turns readings into lines. Identities and remarks are printed only when they change."""

    def __init__(self, interval_s: float, tag: str = "", *, gpm: bool = False, page_lines: int | None = None) -> None:
        """Put `tag` before each row, and repeat the header after `page_lines` lines (None: never)."""
        self._stale_s = STALE_INTERVALS * interval_s
        self._clock = "%H:%M:%S.%f" if interval_s < 1 else "%H:%M:%S"
        self._tag = f"{tag} " if tag else ""
        self._columns = (*COLUMNS, *GPM_COLUMNS) if gpm else COLUMNS
        self._page_lines = page_lines
        self._since_header: int | None = None
        self._identities: dict[int, tuple[str, ...]] = {}
        self._remarks: frozenset[Hashable] = frozenset()

    def lines(self, read: TelemetryRead) -> list[str]:
        """Return the lines for one set of readings."""
        lines = self._new_identities(read.gpus)
        rows = self._rows(read)
        full = self._page_lines is not None and (self._since_header or 0) + len(rows) > self._page_lines
        if self._since_header is None or lines or full:
            lines += self._header(read)
            self._since_header = 0
        remarks = self._new_remarks(read)
        self._since_header += len(rows) + len(remarks)
        return [*lines, *rows, *remarks]

    def _new_identities(self, gpus: Sequence[GpuTelemetry]) -> list[str]:
        """Return a line for each GPU that is new or has changed."""
        new: list[str] = []
        for gpu in gpus:
            before = self._identities.get(gpu.index)
            if before is not None and gpu.uuid and before[1] not in ("", gpu.uuid):
                before = None  # another GPU has this index now
            # A fact that is missing now (the GPU is lost, or not read again yet) has not changed.
            pairs = zip(_facts(gpu), before or _NOTHING, strict=True)
            facts = tuple(now or known for now, known in pairs)
            if facts != before:
                self._identities[gpu.index] = facts
                new.append(self._tag + _identity(gpu.index, facts))
        return new

    def _header(self, read: TelemetryRead) -> list[str]:
        indent = " " * (len(self._tag) + len(self._time(read)) + 9)
        titles = "".join(f" {column.title:>{column.width}}" for column in self._columns)
        units = "".join(f" {column.unit:>{column.width}}" for column in self._columns)
        return [f"{indent}{titles}  throttle, others".rstrip(), f"{indent}{units}".rstrip()]

    def _rows(self, read: TelemetryRead) -> list[str]:
        start = f"{self._tag}{self._time(read)} "
        keys, host_keys = [each.gpu_key for each in self._columns], [each.host_key for each in self._columns]
        rows: list[str] = []
        for gpu in read.gpus:
            rows.append(f"{start}{f'GPU {gpu.index}':<8}{self._cells(gpu.readings, keys)}  {throttle_text(gpu)}")
            for each in gpu.instances:  # only the whole GPU has some values
                own = [key if key in each.readings else "" for key in keys]
                rows.append(f"{start}{f'MIG {gpu.index}.{each.index}':<8}{self._cells(each.readings, own)}")
        rows.append(f"{start}{'host':<8}{self._cells(read.host, host_keys)}  {host_text(read.host)}")
        return [row.rstrip() for row in rows]

    def _time(self, read: TelemetryRead) -> str:
        text = datetime.fromtimestamp(read.wall_ns / 1e9).strftime(self._clock)
        return text[:-5] if "." in text else text

    def _cells(self, readings: Mapping[str, Reading], keys: Sequence[str]) -> str:
        """Return a cell for each column, blank without a key."""
        pairs = zip(self._columns, keys, strict=True)
        return "".join(self._cell(each, readings.get(key)) if key else " " * (each.width + 1) for each, key in pairs)

    def _cell(self, column: Column, reading: Reading | None) -> str:
        if reading is None or reading.value is None:
            return f" {DASH:>{column.width}}"
        text = f"{reading.value * column.factor:.{column.digits}f}"
        return f" {('~' if reading.age_s > self._stale_s else '') + text:>{column.width}}"

    def _new_remarks(self, read: TelemetryRead) -> list[str]:
        """Return the problems, and the reasons for missing numbers, that the previous readings did not have."""
        remarks: dict[Hashable, str] = {}
        if read.problem is not None:
            # The driver's problem has no code. Its text counts the seconds of silence, which alone are not news.
            remarks["driver", _DURATION.sub("", read.problem)] = read.problem
        for gpu in read.gpus:
            name = f"GPU {gpu.index}"
            if gpu.problem is not None:
                remarks[name, gpu.problem] = f"{name}: {gpu.problem}"
                continue
            cells = {column.title: gpu.readings.get(column.gpu_key) for column in self._columns}
            remarks |= _missing(name, {**cells, "throttle": gpu.readings.get("throttle_bits")})
            reserved = gpu.readings.get("memory_reserved_bytes")
            if reserved is not None and reserved.reason == "in-used":
                remarks[name, reserved.reason] = f"{name}: memory includes the driver's reserve: {REASONS['in-used']}"
        remarks |= _missing("host", {c.title: read.host.get(c.host_key) for c in self._columns if c.host_key})
        before, self._remarks = self._remarks, frozenset(remarks)
        return [self._tag + text for key, text in remarks.items() if key not in before]


_DURATION = re.compile(r"\b\d+ s\b")

_NOTHING = ("",) * 6
"""As long as the result of `_facts`."""


def _facts(gpu: GpuTelemetry) -> tuple[str, ...]:
    """Return the constant facts of a GPU as text, empty where unknown."""
    total, limit = (gpu.readings.get(key) for key in ("memory_total_bytes", "power_limit_mw"))
    return (
        "" if gpu.name == f"GPU {gpu.index}" else gpu.name,  # a placeholder for an unknown name
        gpu.uuid or "",
        f"PCI {gpu.pci_bus_id}" if gpu.pci_bus_id else "",
        f"{total.value / 2**30:.0f} GiB" if total is not None and total.value is not None else "",
        f"limit {limit.value / 1000:.0f} W" if limit is not None and limit.value is not None else "",
        "" if gpu.persistence is None else f"persistence {'on' if gpu.persistence else 'off'}",
    )


def _identity(index: int, facts: tuple[str, ...]) -> str:
    """Return one line: `GPU 0: NVIDIA H200, GPU-…, PCI …, 140 GiB, limit 700 W`."""
    name, uuid, *others = facts
    who = [name, uuid or "UUID not known"] if name else [uuid or "name and UUID not known"]
    return f"GPU {index}: {', '.join(filter(None, [*who, *others]))}"


def throttle_text(gpu: GpuTelemetry) -> str:
    """Return the throttle reasons, with their share of time if known, and the number of foreign processes."""
    shares = {word: gpu.readings.get(key) for word, key in SHARE_KEYS.items()}
    counted = {word: reading.value for word, reading in shares.items() if reading is not None and reading.value}
    words = [f"{w} {counted[w]:.0f}%" if w in counted else w for w in dict.fromkeys([*gpu.throttle, *counted])]
    bits = gpu.readings.get("throttle_bits")
    unknown = not words and (bits is None or bits.value is None)
    others = sum(not process.own for process in gpu.everyone or ())
    company = [f"{others} process{'es' if others > 1 else ''}"] if others else []
    return ", ".join([*(words or [DASH if unknown else "none"]), *company])


def host_text(host: Mapping[str, Reading]) -> str:
    """Return the host's load average and CPU quota."""
    load, quota = host.get("load_1min"), host.get("cpu_quota_cores")
    parts = [f"load {load.value:.2f}"] if load is not None and load.value is not None else []
    parts += [f"quota {quota.value:.3g} cores"] if quota is not None and quota.value is not None else []
    return ", ".join(parts)


def _missing(row: str, readings: Mapping[str, Reading | None]) -> dict[Hashable, str]:
    """Return a sentence for each reason why numbers of a row are missing, by row, reason and numbers."""
    titles: dict[str, list[str]] = {}
    for title, reading in readings.items():
        if reading is None or reading.value is None:
            reason = "not-supported" if reading is None else reading.reason or "unknown"
            titles.setdefault(reason, []).append(title)
    return {
        (row, reason, *names): f"{DASH} {row}, {', '.join(names)}: {REASONS.get(reason, reason)}"
        for reason, names in titles.items()
    }
