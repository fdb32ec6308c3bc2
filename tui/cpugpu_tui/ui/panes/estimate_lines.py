"""Sentences about the time and memory that a plan needs, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from cpugpu_tui.model import Device, GpuTelemetry, Plan
from cpugpu_tui.model.quantities import duration, size_text
from cpugpu_tui.session.estimate import Estimate, devices_of, estimate
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.state.state import TelemetryState
from cpugpu_tui.ui.app_state import AppState

LONG_S = 100.0
"""Times from here are written in minutes."""


@lru_cache(maxsize=64)  # a plan of 9000 cases takes 65 ms to build, and each gap of a run redraws the pane
def plan_of(request: PlanRequest) -> Plan:
    """Return the plan of a request.

    Raises:
        UsageError: the request is invalid.
    """
    return build_plan(request)


def estimate_of(state: AppState, plan: Plan, repeat: int) -> Estimate:
    """Estimate `repeat` runs of a plan from earlier runs and peak rates in the state."""
    return estimate(plan, repeat, state.devices, state.earlier, state.own.ceilings)


def time_words(found: Estimate, repeats: int) -> str:
    """Return the expected time and its source: `about 9 s, …`."""
    if found.seconds is None:
        return f"unknown: {found.source}."
    text = seconds_text(found.seconds)
    times = f" for {repeats} runs" if repeats > 1 else ""
    if found.is_least and found.most_seconds is None:
        return f"at least {text}{times}: {found.source}."
    if found.is_least and found.most_seconds is not None:
        return f"{text} to {seconds_text(found.most_seconds)}{times}: {found.source}."
    return f"about {text}{times}, {found.source}."


def memory_words(found: Estimate, free_bytes: Mapping[str, float]) -> tuple[str, str]:
    """Return the memory that a plan needs per device, and the role of the text.

    `free_bytes` maps each device of the plan to its free memory.
    """
    case = found.memory_case
    if found.memory_bytes is None or case is None:
        return "unknown: its agent did not report it.", "text"
    most = f"{bytes_words(found.memory_bytes)} per device, at {case.workload} {size_text(case.size)}"
    short = {name: free for name, free in free_bytes.items() if free < found.memory_bytes}
    if short:
        name = min(short, key=lambda name: short[name])
        return f"{most}, but {name} has only {bytes_words(short[name])} free. Choose smaller sizes.", "warn"
    return f"{most}, estimated by the workload{_free_words(free_bytes)}.", "text"


def _free_words(free_bytes: Mapping[str, float]) -> str:
    each = [f"{bytes_words(free)} on {name}" for name, free in free_bytes.items()]
    return f"; free: {', '.join(each)}" if each else ""


def free_bytes(state: AppState, plan: Plan) -> dict[str, float]:
    """Return the free memory of each device that a plan uses, if the newest reading has it. The CPU's is the host's."""
    used = devices_of(plan, state.devices) or ()
    found = {device.name: _free(device, state.own.telemetry) for device in used}
    return {name: free for name, free in found.items() if free is not None}


def _free(device: Device, telemetry: TelemetryState) -> float | None:
    read = telemetry.latest
    if read is None:
        return None
    gpu: GpuTelemetry | None = next((gpu for gpu in read.gpus if gpu.uuid and gpu.uuid == device.uuid), None)
    readings = read.host if device.is_cpu else gpu.readings if gpu is not None else {}
    used, total = readings.get("memory_used_bytes"), readings.get("memory_total_bytes")
    if used is None or total is None or used.value is None or total.value is None:
        return None
    return total.value - used.value


def seconds_text(seconds: float) -> str:
    """Format a duration: `0.4 s`, `42 s`, `12:05 min`."""
    if seconds < LONG_S:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{duration(seconds)} {'h' if seconds >= 3600 else 'min'}"


def bytes_words(count: float) -> str:
    """Format bytes in a suitable unit: `48 MiB`."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}" if count < 1000 * factor else f"{count / factor:.0f} {unit}"
    return f"{count:.0f} B"
