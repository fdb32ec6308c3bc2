"""Finds values that no working agent sends: negative or absurd times, numbers that overflow, endless lists.

`LIMITS` holds the limits of each field.

Exports come from strangers too. `FACTS` holds the type of each fact of an environment that the program computes with
or prints in parts. Other facts may have any type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from cpugpu_tui import model
from cpugpu_tui.config.validation import convert
from cpugpu_tui.model.line_costs import LINE_REASONS, MOST_LINES

LONGEST_NS = 1e17
"""Three years: no measured time is longer, and sums of many stay finite."""

LARGEST = 1e30
"""Limit of all other numbers, so that products and powers stay finite."""

MOST = 2**63 - 1
"""Largest integer that the database can store."""

MOST_ITEMS = 10_000
"""Most items of a list or table."""

DEEPEST = 20
"""Deepest nesting of lists and tables."""

MOST_METRICS, MOST_MARKS, MOST_DEVICES = 64, 64, 256

MOST_SAMPLES = 200
"""Most samples of a metric in a half-round, unless the plan asks for more blocks."""

LONGEST_NAME = 300
"""Most characters of the name of a device, phase, metric or mark."""

EXIT_CODES = range(1, 5)
"""Exit codes of a run that failed as a whole."""

STATUSES = ("done", "stopped", "failed")

NAMES = ("hostname", "cpu", "kernel", "python", "torch", "driver", "version")
"""Facts that are printed in one line with others."""

_DEVICE = re.compile(r"cpu|cuda:[0-9]{1,3}")

Limits = tuple[float, float]
"""Least and most of a number; least and most characters of a text."""
ANY: Limits = (-LARGEST, LARGEST)
_TIME: Limits = (0, LONGEST_NS)
_COUNT: Limits = (0, MOST)
_NAME: Limits = (0, LONGEST_NAME)
_BY_FIELDS: tuple[tuple[Limits, str], ...] = (
    # Readings of a wrong event clock, such as `pair_ns`, may be anything.
    (_TIME, "elapsed_ns estimate_ns tick_ns latencies_ns starts profiled_ns unprofiled_ns device_ns startup_ns"
            " launch_ns synchronize_ns round_trip_ns step_ns wall_least_ns wall_most_ns limit_ns"),
    (_COUNT, "calls count epoch epochs steps size_bytes operators copies_to_gpu bytes_to_gpu copies_to_host"
             " bytes_to_host on_cpu synchronisations peak_bytes peak_host_bytes line visits operations"
             " checked_wall_ns"),
    ((0, 1e9), "calls_per_block blocks rounds threads max_rounds"),
    ((0, LARGEST), "flops bytes_moved share copy_bytes_per_s bytes_per_s"),
    ((0, 100), "utilisation_pct"),
    (_NAME, "label uuid driver torch boot_id fault file source_line variant gpu_reason"),
)  # fmt: skip
LIMITS = {name: limits for limits, names in _BY_FIELDS for name in names.split()}
"""Field of an event, and of what it holds → limits of its numbers and texts; others have those of all numbers."""


def fault(event: model.Event, plan: model.Plan | None) -> str | None:
    """Return what is impossible in an event, as the end of a sentence; None if it is plausible."""
    if not all(0 <= clock <= MOST for clock in (event.seq, event.wall_ns, event.mono_ns)):
        return "with a clock out of range"
    match event:
        case model.DeviceSampled():
            return _of_half_round(event, plan)
        case model.Progressed():
            return _of_progress(event)
        case model.Gap():
            return None if 0 <= event.duration_ms * 1e6 <= LONGEST_NS else "with an impossible length"
    odd = _odd(event, ANY)
    if odd is not None:
        return odd
    match event:
        case model.Hello():
            wrong = wrong_fact(event.environment)
            if wrong is None:
                wrong = next((name for name in NAMES if len(str(event.environment.get(name))) > LONGEST_NAME), None)
            return None if wrong is None else f"with an impossible {wrong}"
        case model.DevicesFound():
            names = {device.name for device in event.devices}
            fits = len(event.devices) <= MOST_DEVICES and len(names) == len(event.devices)
            return None if fits and _are_devices(*event.devices) else "with impossible devices"
        case model.CaseFailed():
            return None if event.kind in model.FAILURES else "of an unknown kind"
        case model.RunFinished():
            known = event.status in STATUSES
            right = event.exit_code in EXIT_CODES or event.status != "failed"
            return None if known and right else "with an unknown status or exit code"
        case model.CeilingsMeasured():
            found, links = event.ceilings, [each.bytes_per_s for each in event.ceilings.transfers.values()]
            fits = min(found.copy_bytes_per_s, *found.flops.values(), *links) > 0
            fits = fits and (found.clock is None or _is_clock(found.clock))
            return None if fits else "with impossible rates"
        case model.ClockChecked():
            return None if _is_clock(event.clock) else "with impossible times"
        case model.CodeTraced():
            fits = len(event.on_cpu) <= MOST_METRICS and (event.used is None or event.used.processes > 0)
            return None if fits else "with impossible counts"
        case model.LinesProfiled():
            fits = len(event.lines) <= MOST_LINES and all(each.reason in LINE_REASONS for each in event.lines)
            return None if fits else "with impossible lines"
        case model.PeerMeasured():
            return None if _are_devices(event.source, event.target) else "with impossible devices"
    return None


def _of_half_round(event: model.DeviceSampled, plan: model.Plan | None) -> str | None:
    # Half-rounds before the first round have as many samples as the publication printed.
    most = max(MOST_SAMPLES, plan.blocks if plan is not None else 0) if event.round_index else MOST_ITEMS
    if len(event.samples) > MOST_METRICS or any(len(taken) > most for taken in event.samples.values()):
        return "with more samples than its plan asks for"
    if any(taken and not (min(taken) >= 0 and max(taken) <= LONGEST_NS) for taken in event.samples.values()):
        return "with an impossible time"
    clocks = event.started_wall_ns, event.ended_wall_ns, event.started_mono_ns, event.ended_mono_ns
    if not all(0 <= clock <= MOST for clock in clocks) or event.round_index < 0:
        return "with a clock out of range"
    if not 1 <= event.calls_per_block <= 10**9:
        return "with an impossible number of calls"
    words = (*event.samples, *event.marks, *(event.throttled_ns or ()))
    if len(words) > MOST_METRICS + MOST_MARKS or any(len(word) > LONGEST_NAME for word in words):
        return "with too many names, or too long ones"
    numbers = event.sm_clock_mhz, event.sm_clock_end_mhz, event.power_mw, event.watched_ns
    known = (*(number for number in numbers if number is not None), *(event.throttled_ns or {}).values())
    return None if all(abs(number) <= LARGEST for number in known) and event.watched_ns >= 0 else "with absurd numbers"


def _of_progress(event: model.Progressed) -> str | None:
    if max(len(event.phase), len(event.device)) > LONGEST_NAME:
        return "with a name that is too long"
    seconds = event.estimate_s, event.elapsed_s, event.seconds_left
    fits = all(s is None or 0 <= s <= LONGEST_NS / 1e9 for s in seconds) and 0 <= event.round_index <= MOST
    return None if fits else "with an impossible time"


def _are_devices(*devices: model.Device) -> bool:
    return all(_DEVICE.fullmatch(device.name) for device in devices)


def _is_clock(found: model.EventClock) -> bool:
    """Whether the outcome of a check fits its times."""
    has_times = found.pair_ns is not None and found.block_ns is not None and found.step_ns is not None
    return has_times if found.is_sound else found.fault in model.CLOCK_FAULTS


def _odd(value: Any, limits: Limits, name: str = "number", depth: int = 0) -> str | None:
    """Return what is wrong in an event, or in what it holds: a number, or the length of a text or a list."""
    if depth > DEEPEST:
        return "nested too deeply"
    if value is None:
        return None
    low, high = limits
    if isinstance(value, str):
        return f"with a {name} that is too long" if limits is _NAME and len(value) > high else None
    if isinstance(value, (int, float)):
        most = MOST if isinstance(value, int) else LARGEST
        return None if max(low, -most) <= value <= min(high, most) else f"with an impossible {name}"
    if isinstance(value, (list, tuple, dict)):
        if len(value) > MOST_ITEMS:
            return f"with a list of over {MOST_ITEMS:,} items"
        items = [(name, limits, item) for item in (value.values() if isinstance(value, dict) else value)]
    else:
        items = [(each.name, LIMITS.get(each.name, ANY), getattr(value, each.name)) for each in fields(value)]
    return next((odd for name, limits, item in items if (odd := _odd(item, limits, name, depth + 1)) is not None), None)


# ------------------------------------------------------------------ facts of an environment


TEXT, WHOLE, NUMBER, FLAG = str | None, int | None, float | None, bool | None

FACTS: dict[str, Any] = {
    **dict.fromkeys(
        ("hostname", "cpu", "kernel", "python", "interpreter", "version", "worker", "face", "driver"), TEXT
    ),
    **dict.fromkeys(("torch", "torch_error", "torch_git", "torch_cuda", "matmul_precision", "python_option"), TEXT),
    "cuda_visible_devices": TEXT,
    **dict.fromkeys(("fleet", "fleet_host", "launcher", model.DUET), TEXT),
    **dict.fromkeys(("affinity_cores", "physical_cores", "threads"), WHOLE),
    **dict.fromkeys(("memory_total_bytes", "last_level_cache_bytes", "cache_flush_bytes"), WHOLE),
    **dict.fromkeys(("quota_cores", "torch_import_s", "case_timeout_s"), NUMBER),
    **dict.fromkeys(("simulated", "tf32_matmul"), FLAG),
    "inherited": dict[str, str] | None,
    "argv": list[str] | None,
}
"""Name of a fact → its type."""


def wrong_fact(environment: Mapping[str, Any]) -> str | None:
    """Return the name of the first fact of a wrong type; None if all fit."""
    return next((name for name, kind in FACTS.items() if not _fits(environment.get(name), kind)), None)


def _fits(value: Any, kind: Any) -> bool:
    try:
        convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True
