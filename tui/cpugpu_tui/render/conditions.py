"""The machine of a run as tables: its state while the cases were timed, and its peak rates."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.machine.device_state import process_text
from cpugpu_tui.machine.text import REASONS, printable
from cpugpu_tui.model import Ceilings, Device, Reading
from cpugpu_tui.model.quantities import percent, rate_text, time_text
from cpugpu_tui.render.columns import NONE
from cpugpu_tui.state.condition import Condition, condition
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import RunState

STATE_HEADS = (
    "device", "model", "SM clock", "temperature", "power", "throttled", "other processes", "waited for a core"
)  # fmt: skip
"""Columns of `device_states`."""


def device_states(run: RunState) -> list[tuple[str, ...]]:
    """Return a line for each timed device: its state over all cases, in the columns of `STATE_HEADS`."""
    lines = []
    for device in run.devices:
        timed = [(row, row.times[device.name]) for row in run.rows.values() if device.name in row.times]
        found = [condition(run, row, times) for row, times in timed if times.samples]
        if found:
            lines.append(_state(device, found, [times for _, times in timed]))
    return lines


def _state(device: Device, found: Sequence[Condition], times: Sequence[DeviceTimes]) -> tuple[str, ...]:
    temperatures = [reading for each in found for reading in (each.temperature_begin_c, each.temperature_end_c)]
    waited = sum(each.is_starved for each in times)
    of_gpu = (_span([each.sm_clock_mhz for each in found], "MHz"), _span(temperatures, "°C"))
    seen = (_throttled(found), _others(found))
    return (
        device.name, printable(device.label), *((NONE, NONE) if device.is_cpu else of_gpu),
        _span([each.watts for each in found], "W"), *((NONE, NONE) if device.is_cpu else seen),
        f"in {waited} of {len(times)} cases" if waited else "never",
    )  # fmt: skip


def _span(readings: Sequence[Reading], unit: str) -> str:
    """Return the smallest and the largest value; if none is known, why."""
    known = [reading.value for reading in readings if reading.value is not None]
    if not known:
        return REASONS.get(readings[0].reason or "", "not read") if readings else NONE
    low, high = f"{min(known):,.0f}", f"{max(known):,.0f}"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _throttled(found: Sequence[Condition]) -> str:
    """Return each reason for low clocks with its number of cases and its largest share of one."""
    known = [each for each in found if each.unthrottled_reason is None]
    if not known:
        return REASONS.get(found[0].unthrottled_reason or "", "not read")
    shares: dict[str, list[float]] = {}
    for each in known:
        for throttle in each.throttles:
            shares.setdefault(throttle.word, []).append(throttle.share)
    texts = [
        f"{word} in {len(parts)} of {len(known)} cases (up to {percent(min(max(parts), 1.0))} %)"
        for word, parts in shares.items()
    ]
    return ", ".join(texts) or "never"


def _others(found: Sequence[Condition]) -> str:
    known = [each.company for each in found if each.company is not None]
    if not known:
        return "unknown"
    named = dict.fromkeys(printable(process_text(process)) for company in known for process in company.others)
    shared = sum(company.is_shared for company in known)
    return f"in {shared} of {len(known)} cases: {'; '.join(named) or 'memory without a process'}" if shared else "none"


# ------------------------------------------------------------------ peak rates


def peak_rates(known: Sequence[Ceilings]) -> list[tuple[str, ...]]:
    """Return lines of a name and a text for each device; lines that no device has are left out."""
    if not known:
        return []
    lines = [
        ("float32 compute", *(_rate(each.flops.get("float32"), "FLOP/s") for each in known)),
        ("memory bandwidth", *(_rate(each.copy_bytes_per_s, "B/s") for each in known)),
        ("one launch, or call on the CPU", *(_time(each.launch_ns) for each in known)),
        ("one synchronisation", *(_time(each.synchronize_ns) for each in known)),
        ("one round trip", *(_time(each.round_trip_ns) for each in known)),
    ]
    ways = {"h2d": "to the GPU", "d2h": "to the host"}
    for name in dict.fromkeys(name for each in known for name in each.transfers):
        way, _, memory = name.partition("_")
        rates = (each.transfers[name].bytes_per_s if name in each.transfers else None for each in known)
        lines.append((f"{memory} copy {ways.get(way, way)}", *(_rate(rate, "B/s") for rate in rates)))
    return [line for line in lines if set(line[1:]) != {NONE}]


def _rate(value: float | None, unit: str) -> str:
    return rate_text(value, unit) if value else NONE


def _time(ns: float | None) -> str:
    return NONE if ns is None else time_text(ns)
