"""Finds values that no working agent sends: negative or absurd times, numbers that overflow, endless lists.

Exports come from strangers too. `FACTS` holds the type of each fact of an environment that the program computes with
or prints in parts. Other facts may have any type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from cpugpu_tui import model
from cpugpu_tui.config.validation import convert
from cpugpu_tui.model.event import to_plain
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
            return None if _is_time(event.duration_ms * 1e6) else "with an impossible length"
    try:
        odd = _odd(to_plain(event))
    except RecursionError:
        odd = "nested too deeply"
    if odd is not None:
        return odd
    match event:
        case model.Hello():
            return _of_hello(event)
        case model.DevicesFound():
            return _of_devices(event)
        case model.CaseStarted():
            wrong = min(event.flops, event.bytes_moved, event.operations) < 0
            return "with a negative amount of work" if wrong else None
        case model.Calibrated():
            counts = event.calls_per_block, event.blocks, event.rounds, event.threads, event.max_rounds
            fits = _is_time(event.estimate_ns) and all(0 <= count <= 10**9 for count in counts)
            return None if fits else "with an impossible estimate"
        case model.CaseFailed():
            return None if event.kind in model.FAILURES else "of an unknown kind"
        case model.RunFinished():
            known = event.status in STATUSES
            right = event.exit_code in EXIT_CODES or event.status != "failed"
            return None if known and right else "with an unknown status or exit code"
        case model.CeilingsMeasured():
            return _of_ceilings(event.ceilings)
        case model.ClockChecked():
            return None if _is_clock(event.clock) else "with impossible times"
    return None if _times_fit(event) else "with an impossible time"


def _times_fit(event: model.Event) -> bool:
    match event:
        case model.CodeTraced():
            counts = (
                event.operators, event.copies_to_gpu, event.bytes_to_gpu, event.copies_to_host, event.bytes_to_host,
                event.synchronisations, event.peak_bytes or 0, event.peak_host_bytes or 0,
            )  # fmt: skip
            fits = len(event.on_cpu) <= MOST_METRICS and _is_use(event.used)
            return fits and all(0 <= count <= MOST for count in counts)
        case model.LinesProfiled():
            times = event.profiled_ns, event.unprofiled_ns
            return all(map(_is_time, times)) and len(event.lines) <= MOST_LINES and all(map(_is_line, event.lines))
        case model.CodeCompiled():
            return _is_time(event.elapsed_ns) and len(event.variant) <= LONGEST_NAME
        case model.KernelsProfiled():
            return _is_time(event.elapsed_ns) and event.count >= 0
        case model.EpochFinished():
            return _is_time(event.elapsed_ns) and min(event.epoch, event.epochs, event.steps) >= 0
        case model.EarlierTimed():
            return all(_is_time(ns) for metrics in event.starts for ns in metrics.values())
        case model.EnergyMeasured():
            return _is_time(event.elapsed_ns) and _is_time(event.tick_ns) and event.calls >= 0
        case model.MachineRead():
            return _is_time(event.elapsed_ns)
        case model.PeerMeasured():
            if not _are_devices(event.source, event.target):
                return False
            return event.size_bytes >= 0 and all(map(_is_time, (*event.latencies_ns, *event.elapsed_ns)))
    return True


def _is_line(cost: model.LineCost) -> bool:
    """Whether the cost of a line is possible; its text is a line of a stranger's file."""
    counts = cost.line, cost.visits, cost.operators, cost.on_cpu, cost.synchronisations
    fits = all(0 <= count <= MOST for count in (*counts, cost.bytes_to_gpu, cost.bytes_to_host)) and all(
        map(_is_time, (cost.elapsed_ns, cost.device_ns))
    )
    is_short = max(len(cost.file), len(cost.source_line)) <= LONGEST_NAME
    return fits and is_short and 0 <= cost.share <= LARGEST and cost.reason in LINE_REASONS


def _is_use(use: model.CommandUse | None) -> bool:
    if use is None:
        return True
    is_share = 0 <= (use.utilisation_pct or 0) <= 100
    return (
        use.processes > 0 and is_share and _is_time(use.startup_ns or 0) and len(use.gpu_reason or "") <= LONGEST_NAME
    )


def _is_time(elapsed_ns: float) -> bool:
    return 0 <= elapsed_ns <= LONGEST_NS


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


def _of_hello(event: model.Hello) -> str | None:
    wrong = wrong_fact(event.environment)
    if wrong is None:
        wrong = next((name for name in NAMES if len(str(event.environment.get(name))) > LONGEST_NAME), None)
    return None if wrong is None else f"with an impossible {wrong}"


def _of_devices(event: model.DevicesFound) -> str | None:
    names = {device.name for device in event.devices}
    fits = len(event.devices) <= MOST_DEVICES and len(names) == len(event.devices) and _are_devices(*event.devices)
    return None if fits else "with impossible devices"


def _are_devices(*devices: model.Device) -> bool:
    return all(
        _DEVICE.fullmatch(device.name) and max(len(device.label), len(device.uuid or "")) <= LONGEST_NAME
        for device in devices
    )


def _of_ceilings(found: model.Ceilings) -> str | None:
    rates = [found.copy_bytes_per_s, *found.flops.values(), *map(_rate, found.transfers.values())]
    times = found.launch_ns, found.synchronize_ns or 0.0, found.round_trip_ns or 0.0
    fits = all(rate > 0 for rate in rates) and all(map(_is_time, times)) and found.threads >= 0
    fits = fits and (found.clock is None or _is_clock(found.clock))
    return None if fits and max(map(len, (found.device, found.label))) <= LONGEST_NAME else "with impossible rates"


def _is_clock(found: model.EventClock) -> bool:
    """Whether a check is possible; readings of a wrong clock may be anything."""
    times = found.step_ns or 0, found.wall_least_ns or 0, found.wall_most_ns or 0, found.limit_ns or 0, found.elapsed_ns
    texts = found.fault, found.uuid or "", found.driver or "", found.torch, found.boot_id
    fits = all(map(_is_time, times)) and 0 <= found.checked_wall_ns <= MOST and max(map(len, texts)) <= LONGEST_NAME
    has_times = found.pair_ns is not None and found.block_ns is not None and found.step_ns is not None
    return fits and (has_times if found.is_sound else found.fault in model.CLOCK_FAULTS)


def _rate(line: model.Line) -> float:
    return line.bytes_per_s


def _odd(value: Any, depth: int = 0) -> str | None:
    """Return what is wrong with a number, or with the length of a list, in plain data."""
    if depth > DEEPEST:
        return "nested too deeply"
    if isinstance(value, float):
        return None if math.isfinite(value) and abs(value) <= LARGEST else "with an impossible number"
    if isinstance(value, int):
        return None if abs(value) <= MOST else "with an impossible number"
    if isinstance(value, (list, dict)):
        if len(value) > MOST_ITEMS:
            return f"with a list of over {MOST_ITEMS:,} items"
        items = value.values() if isinstance(value, dict) else value
        return next((odd for item in items if (odd := _odd(item, depth + 1)) is not None), None)
    return None


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
