"""The facts that the telemetry pane shows of each GPU and of the host, most important first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

from cpugpu_tui.model.quantities import count_of, gib
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import sanitized
from cpugpu_tui.ui.panes.telemetry import wording
from cpugpu_tui.ui.panes.telemetry.wording import GPU, HOST, Readings, Worded, known, top_of, worded

if TYPE_CHECKING:
    from cpugpu_tui.model import Device, GpuTelemetry, MigInstance

History = Mapping[str, tuple[float | None, ...]]
BUSY_PCT = 50.0
"""Least kernel-active of a GPU under load."""
BUSY_SWEEPS = 8
"""Busy readings in a row before a link is judged.

A GeForce drops to generation 1 at idle, and the reading of the link may be five seconds old.
"""
LEAST_RATE = 5e6
"""Least bytes per second of a rate that is shown: 5 MB/s is a ten-thousandth of what a slot can carry."""
SHOWN_PROCESSES = 4
"""Processes that the pane lists; the GPU page lists all."""


class Fact(NamedTuple):
    """A label with its text and, for some, a history."""

    label: str
    text: str
    role: str = "text"
    trend: tuple[float | None, ...] | None = None
    high: float | None = 100.0
    """Top of the trend's range; the bottom is 0. None if the range is unknown: then nothing is drawn."""
    short: str | None = None
    """Text for a shared line; None for `text`, empty to leave it out there."""
    brief: str | None = None
    """Text for 80 columns; None for `short`."""
    sign: str = ""
    """Sign before the text: says the same as the role without colour."""
    is_mark: bool = False
    """Whether it is shown only sometimes. Marks come last, so that columns stay aligned."""

    is_essential: bool = False
    """Whether it comes before others if a line has not room for all."""

    is_extra: bool = False
    """Whether it is shown only in room that is left: no other fact is shortened for it."""

    @property
    def short_or_text(self) -> str:
        """Text for a shared line."""
        return self.text if self.short is None else self.short


class Subject(NamedTuple):
    """A GPU or the host."""

    label: str
    name: str
    """Model name; empty for the host."""
    problem: str | None
    facts: tuple[Fact, ...]
    series: str
    """Role of its histories."""
    identity: tuple[str, ...] = ()
    """Other names: torch's, NVML's, UUID, PCI address."""
    parts: tuple[str, ...] = ()
    """Lines of MIG instances and processes."""


def gpu_subject(gpu: GpuTelemetry, history: History, devices: Sequence[Device], width: int, glyphs: Glyphs) -> Subject:
    """Return a GPU with all facts for a pane of this width."""
    room = min(width - 1, 60)
    name, facts = sanitized(gpu.name, 60, glyphs) or "unnamed", tuple(gpu_facts(gpu, history, glyphs, devices))
    instances = (instance_text(gpu, instance, devices, room, glyphs) for instance in gpu.instances)
    parts = (*instances, *_process_lines(gpu, room, glyphs))
    identity = wording.mapping(gpu, devices, glyphs)
    return Subject(f"GPU {gpu.index}", name, gpu.problem, facts, "gpu", identity, parts)


def host_subject(host: Readings, history: History, glyphs: Glyphs) -> Subject:
    """Return the host with all its facts."""
    return Subject("host", "", None, tuple(host_facts(host, history, glyphs)), "cpu")


# ------------------------------------------------------------------ a GPU


def gpu_facts(gpu: GpuTelemetry, history: History, glyphs: Glyphs, devices: Sequence[Device] = ()) -> list[Fact]:
    """Return the facts of a GPU, most important first."""
    past = {key: history.get(f"gpu{gpu.index}/{key}", ()) for key in GPU}
    readings, none = gpu.readings, glyphs.none
    throttle, memory_clock = _throttle(gpu, none, glyphs), _worded("memory_clock_mhz", readings, none)
    facts = [
        _active(readings, past["kernel_active_pct"], none),
        _power(gpu, past["power_mw"], none),
        _clock(readings, past["sm_clock_mhz"], none),
        _others(gpu, glyphs),
        _link(readings, past["kernel_active_pct"], glyphs),
        *_errors(readings),
        _memory(readings, past["memory_used_bytes"], none),
        _temperature(readings, past["temperature_c"], none),
        Fact("memory clock", memory_clock.text, memory_clock.role, short=""),
        *_rates(readings),
    ]
    facts.insert(1 if throttle.sign.startswith("!") else 3, throttle)
    if gpu.persistence is False:
        facts.append(Fact("persistence", "off", "warn", short="persistence off", sign="!", is_mark=True))
    names = wording.torch_names(gpu, devices)
    if names:
        # Wider layouts show the name in `identity`.
        facts.append(Fact("torch", "", short=names[0], is_mark=True, is_extra=True))
    return facts


def _worded(key: str, readings: Readings, none: str) -> Worded:
    return worded(GPU[key], readings.get(key), none)


def _active(readings: Readings, past: tuple[float | None, ...], none: str) -> Fact:
    shown = _worded("kernel_active_pct", readings, none)
    short = f"kernel-active {shown.number:>4}"
    return Fact("kernel-active", shown.text, shown.role, past, 100.0, short=short, is_essential=True)


def _power(gpu: GpuTelemetry, past: tuple[float | None, ...], none: str) -> Fact:
    shown, limit = _worded("power_mw", gpu.readings, none), known(gpu.readings, "power_limit_mw")
    if shown.value is None:
        return Fact("power", shown.text, shown.role, short=f"power {none}")
    of = f"/{limit / 1000:.0f}" if limit else ""
    text = f"{shown.value / 1000:>{max(len(of) - 1, 0)}.0f}{of} W"
    capped = any(throttle.word == "power-capped" for throttle in wording.throttles(gpu))
    # The sensor measures the whole board: a MIG instance has no sensor of its own.
    label = "power, whole board" if gpu.instances else "power"
    return Fact(label, text.strip(), shown.role, past, top_of(GPU["power_mw"], gpu.readings), short=text,
                brief=f"{shown.value / 1000:.0f} W" if capped else None,  # the mark `capped` already names the limit
                is_essential=True)  # fmt: skip


def _clock(readings: Readings, past: tuple[float | None, ...], none: str) -> Fact:
    shown, most = _worded("sm_clock_mhz", readings, none), known(readings, "sm_clock_max_mhz")
    if shown.value is None:
        return Fact("SM clock", shown.text, shown.role, short=f"clock {none}")
    text = f"{shown.value:.0f}{f'/{most:.0f}' if most else ''} MHz"
    return Fact("SM clock", text, shown.role, past, top_of(GPU["sm_clock_mhz"], readings),
                short=f"{shown.value:>4.0f} MHz")  # fmt: skip


def _memory(readings: Readings, past: tuple[float | None, ...], none: str) -> Fact:
    shown, total = _worded("memory_used_bytes", readings, none), known(readings, "memory_total_bytes")
    if shown.value is None:
        return Fact("memory", shown.text, shown.role, short=f"memory {none}")
    of = f"/{gib(total)}" if total is not None else ""
    text = f"{gib(shown.value):>{max(len(of) - 1, 0)}}{of} GiB"
    brief = f"{shown.value / 2**30:>3.0f}{f'/{total / 2**30:.0f}' if total is not None else ''} GiB"
    if is_with_reserve(readings):
        text, brief = f"{text} +reserve", f"{brief} +res"
    return Fact("memory", text.strip(), shown.role, past, total, short=text, brief=brief, is_essential=True)


def is_with_reserve(readings: Readings) -> bool:
    """Whether an old driver counts its own reserve among the used bytes."""
    reserved = readings.get("memory_reserved_bytes")
    return reserved is not None and reserved.reason == "in-used"


def _temperature(readings: Readings, past: tuple[float | None, ...], none: str) -> Fact:
    shown, slow = _worded("temperature_c", readings, none), known(readings, "slowdown_temperature_c")
    if shown.value is None:
        return Fact("temperature", shown.text, shown.role, short="")
    text, top = f"{shown.value:.0f}C", top_of(GPU["temperature_c"], readings)
    if slow is None:
        return Fact("temperature", text, shown.role, past, top, short=text)
    hot = shown.value >= slow
    return Fact("temperature", f"{text}, throttles at {slow:.0f}C", "warn" if hot else shown.role, past, top,
                short=f"{shown.value:.0f}/{slow:.0f}C", sign="!" if hot else "")  # fmt: skip


def _throttle(gpu: GpuTelemetry, none: str, glyphs: Glyphs) -> Fact:
    found = wording.throttles(gpu)
    if found:
        text = ", ".join(throttle.text() for throttle in found)
        brief = found[0].text(brief=True) + (f" +{len(found) - 1}" if len(found) > 1 else "")
        sign = wording.sign_of(found, glyphs)
        return Fact("throttle", text, found[0].role, short=text, brief=brief, sign=sign, is_mark=True)
    bits = gpu.readings.get("throttle_bits")
    if bits is not None and bits.value is None:
        shown = worded(GPU["throttle_bits"], bits, none)
        return Fact("throttle", shown.text, shown.role, short="", is_mark=True)
    return Fact("throttle", ", ".join(wording.quiet_words(gpu)) or "none", short="", is_mark=True)


def _others(gpu: GpuTelemetry, glyphs: Glyphs) -> Fact:
    """Return who else uses the GPU: another process makes a light kernel look 15 % slower (method.md)."""
    everyone = gpu.everyone
    if everyone is None:
        return Fact("processes", "cannot be listed", "muted", short="", is_mark=True)
    others = [process for process in everyone if not process.own]
    if not others:
        return Fact("processes", "no others", short="", is_mark=True)
    count = count_of(len(others), "other")
    who = dict.fromkeys(sanitized(process.user or "", 12, glyphs) or f"pid {process.pid}" for process in others)
    return Fact("processes", f"{count}: {', '.join(who)}", "warn", short=f"shared with {len(others)}", brief=count,
                sign="!", is_mark=True)  # fmt: skip


def _link(readings: Readings, active: tuple[float | None, ...], glyphs: Glyphs) -> Fact:
    """Return the PCIe link, with a warning if it is below its maximum under load."""
    now, most = _link_text(readings, "", glyphs), _link_text(readings, "max_", glyphs)
    shown = _worded("pcie_generation", readings, glyphs.none)
    if now is None:
        return Fact("PCIe", shown.text if shown.value is None else glyphs.none, "muted", short="", is_mark=True)
    slow = link_problem(readings, active, glyphs)
    if slow:
        return Fact("PCIe", slow, "warn", short=f"PCIe {slow}", brief="slow PCIe", sign="!", is_mark=True)
    text = f"{now} (idle; max {most})" if _is_reduced(readings) else now
    return Fact("PCIe", text, shown.role, short="", is_mark=True)


def link_problem(readings: Readings, active: Sequence[float | None], glyphs: Glyphs) -> str:
    """Return `gen 1 ×16 of gen 5 ×16` if the PCIe link is below its maximum under load, else an empty text."""
    if not _is_reduced(readings) or not is_loaded(active):
        return ""
    return f"{_link_text(readings, '', glyphs)} of {_link_text(readings, 'max_', glyphs)}"


def _link_text(readings: Readings, prefix: str, glyphs: Glyphs) -> str | None:
    generation, lanes = (known(readings, f"pcie_{prefix}{what}") for what in ("generation", "width"))
    return None if generation is None or lanes is None else f"gen {generation:.0f} {glyphs.times}{lanes:.0f}"


def _is_reduced(readings: Readings) -> bool:
    """Whether generation or width is known to be below its maximum."""
    pairs = ((known(readings, f"pcie_{what}"), known(readings, f"pcie_max_{what}")) for what in ("generation", "width"))
    return any(now is not None and most is not None and now < most for now, most in pairs)


def is_loaded(active: Sequence[float | None]) -> bool:
    """Whether a GPU was busy at each of its last readings, so that its link should be at full speed."""
    last = active[-BUSY_SWEEPS:]
    return len(last) == BUSY_SWEEPS and all(value is not None and value >= BUSY_PCT for value in last)


def _errors(readings: Readings) -> list[Fact]:
    """Return the counts of memory errors above 0."""
    return [
        Fact(
            "ECC errors", f"{count:,.0f} {words}", role, short=f"{short} {words}", brief=short, sign=sign, is_mark=True
        )
        for words, role, sign in (("uncorrected", "bad", "!!"), ("corrected", "warn", "!"))
        if (count := known(readings, f"ecc_{words}_count")) and (short := count_of(count, "ECC error"))
    ]


def _rates(readings: Readings) -> list[Fact]:
    """Return the rates of PCIe and NVLink that are worth showing."""
    facts = []
    for label, sent, received in (
        ("PCIe rate", "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s"),
        ("NVLink rate", "nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s"),
    ):
        out, into = known(readings, sent), known(readings, received)
        if max(out or 0.0, into or 0.0) >= LEAST_RATE:
            texts = [f"{value / 1e9:.3g}" if value is not None else "?" for value in (into, out)]
            role = _worded(sent if out is not None else received, readings, "").role
            text = f"in {texts[0]} out {texts[1]} GB/s"
            facts.append(Fact(label, text, role, short=f"{label.partition(' ')[0]} {text}", is_mark=True,
                              is_extra=True))  # fmt: skip
    return facts


def instance_text(
    gpu: GpuTelemetry, instance: MigInstance, devices: Sequence[Device], width: int, glyphs: Glyphs, *,
    full: bool = False,
) -> str:  # fmt: skip
    """Return `MIG 0 1g.18gb  2.1/17.5 GiB  9 s old  cuda:0`. Only the memory of an instance can be read.

    The part of the name that repeats the GPU's is dropped. The age of a fresh reading is added only with `full`.
    """
    quantity, used = GPU["memory_used_bytes"], instance.readings.get("memory_used_bytes")
    total = known(instance.readings, "memory_total_bytes")
    parts = [worded(quantity, used, glyphs.none).text]
    if used is not None and used.value is not None:
        parts = [f"{gib(used.value)}{f'/{gib(total)}' if total is not None else ''} GiB"]
        parts += [wording.age_text(quantity, used)] if full or quantity.is_stale(used) else []
    parts += filter(None, [wording.torch_name(instance.uuid, devices)])
    profile = instance.name.removeprefix(gpu.name).strip().removeprefix("MIG ") or instance.name
    head, rest = f"MIG {instance.index} ", "".join(f"  {part}" for part in parts)
    if len(head) + cell_len(profile) + len(rest) > width:
        rest = rest.replace("  ", " ")
    return f"{head}{sanitized(profile, max(width - len(head) - len(rest), 12), glyphs)}{rest}"


def _process_lines(gpu: GpuTelemetry, width: int, glyphs: Glyphs) -> list[str]:
    others = [process for process in gpu.everyone or () if not process.own]
    lines = [wording.process_text(process, width, glyphs) for process in others[:SHOWN_PROCESSES]]
    more = len(others) - len(lines)
    return [*lines, f"and {more} more"] if more > 0 else lines


# ------------------------------------------------------------------ the host


def host_facts(host: Readings, history: History, glyphs: Glyphs) -> list[Fact]:
    """Return the facts of the host, most important first."""
    none = glyphs.none
    cpu, load, clock = (worded(HOST[key], host.get(key), none) for key in ("cpu_pct", "load_1min", "cpu_freq_mhz"))
    facts = [
        Fact("CPU", cpu.text, cpu.role, history.get("host/cpu_pct", ()), short=f"CPU {cpu.number:>4}"),
        _memory(host, history.get("host/memory_used_bytes", ()), none),
        Fact("load", load.text, load.role, short=f"load {load.number}"),
        Fact("frequency", f"{none} not available", "muted", short="") if clock.value is None
        else Fact("frequency", clock.text, clock.role),
    ]  # fmt: skip
    quota = worded(HOST["cpu_quota_cores"], host.get("cpu_quota_cores"), none)
    if quota.value is not None:
        facts.append(Fact("quota", f"{quota.text} cores", quota.role, short=f"quota {quota.text}"))
    return facts
