"""The machine's condition during a case: clock, throttling, temperature, energy, other processes, missing cores.

An unknown value has a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cpugpu_tui.analysis.costs import Energy, above_idle, energy
from cpugpu_tui.decide.stats import median
from cpugpu_tui.machine import device_state
from cpugpu_tui.model import EDGES, CoreUse, CoreWait, OwnCode, Reading, typed_name, work_name
from cpugpu_tui.model.quantities import count_of, percent, size_text, time_text
from cpugpu_tui.model.throttling import COUNTER_KEYS
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.workloads.contract import REGISTRY

NOT_READ = Reading(None, "not-asked")
"""Reading in runs of older versions, which did not read machines."""


class Condition(NamedTuple):
    """Condition of the machine during one case on one device."""

    sm_clock_mhz: Reading
    """Median of the clocks at start and end of all half-rounds, MHz."""
    throttles: tuple[device_state.Throttle, ...]
    """Largest share first; empty if nothing throttled, or if it is unknown."""
    unthrottled_reason: str | None
    """Why throttling is unknown; None if it is known."""
    temperature_begin_c: Reading
    temperature_end_c: Reading
    watts: Reading
    """Power in the energy window, else in half-rounds long enough for the sensor."""
    energy: Energy
    above_idle: Reading
    """Energy per call minus the energy of the idle device, J."""
    gflop_per_j: Reading
    company: device_state.Company | None
    """Other processes on the GPU; None on a CPU, and if they cannot be listed."""


def condition(run: RunState, row: Row, times: DeviceTimes) -> Condition:
    """Return the condition of a device during a case."""
    found = energy(times.energy)
    clocks = (*times.clocks_mhz, *times.end_clocks_mhz)
    begin, end = (_readings(times, edge) for edge in EDGES)
    is_cpu = times.device == "cpu"
    unread = Reading(None, "not-supported") if is_cpu else NOT_READ
    otherwise = begin.get("sm_clock_mhz", unread)
    return Condition(
        sm_clock_mhz=Reading(median(clocks)) if clocks else Reading(None, otherwise.reason or "not-yet"),
        throttles=_throttles(times), unthrottled_reason=_why_unknown(times),
        temperature_begin_c=begin.get("temperature_c", unread), temperature_end_c=end.get("temperature_c", unread),
        watts=_watts(times, found, is_cpu=is_cpu),
        energy=found, above_idle=above_idle(times.energy, run.idle.get(times.device)),
        gflop_per_j=_gflop_per_j(row, found), company=None if is_cpu else _company(times),
    )  # fmt: skip


def _readings(times: DeviceTimes, edge: str) -> Mapping[str, Reading]:
    read = times.edges.get(edge)
    return read.readings if read is not None else {}


def _throttles(times: DeviceTimes) -> tuple[device_state.Throttle, ...]:
    """Return throttle reasons: counted in half-rounds, counted over the case (slow counters), or seen in masks."""
    if not times.watched_ns:
        return device_state.throttles_seen(times.mark_counts, len(times.round_ns))
    if times.watched_ns >= device_state.LEAST_COUNTED_NS:
        cheap = device_state.throttles(times.throttled_ns, times.watched_ns, device_state.BY_COUNTER)
    else:
        cheap = device_state.throttles_seen(times.mark_counts, len(times.round_ns))
    end = times.edges.get(EDGES[1])
    before, after = (_counters(_readings(times, edge)) for edge in EDGES)
    whole = {
        word: ns for word, ns in (device_state.counted(before, after) or {}).items() if word not in times.throttled_ns
    }
    return cheap + device_state.throttles(whole, end.elapsed_ns if end is not None else 0.0, device_state.BY_CASE)


def _counters(readings: Mapping[str, Reading]) -> dict[str, float]:
    known = ((word, readings.get(key, NOT_READ).value) for word, key in COUNTER_KEYS.items())
    return {word: value for word, value in known if value is not None}


def _why_unknown(times: DeviceTimes) -> str | None:
    """Return why throttling is unknown, else None. If the clock could be read, the throttle mask could be too."""
    if times.watched_ns or times.clocks_mhz:
        return None
    if times.device == "cpu":
        return "not-supported"
    return _readings(times, EDGES[0]).get("throttled_power_cap_ns", NOT_READ).reason


def _watts(times: DeviceTimes, found: Energy, *, is_cpu: bool) -> Reading:
    if found.watts.value is not None:
        return found.watts
    if times.powers_mw:
        return Reading(sum(times.powers_mw) / len(times.powers_mw) / 1e3)
    if is_cpu:
        return Reading(None, found.watts.reason)
    counter = _readings(times, EDGES[0]).get("energy_mj", NOT_READ)
    return Reading(None, counter.reason or "window-too-short")


def _gflop_per_j(row: Row, found: Energy) -> Reading:
    joules = found.joules_per_call
    if joules.value is None or row.started is None or not row.started.flops:
        return Reading(None, joules.reason or "not-supported")
    return Reading(row.started.flops / joules.value / 1e9)


def _company(times: DeviceTimes) -> device_state.Company | None:
    reads = [times.edges[edge] for edge in EDGES if edge in times.edges]
    return device_state.company([(read.processes, read.readings.get("memory_used_bytes", NOT_READ)) for read in reads])


# ------------------------------------------------------------------ as data


def conditions_data(run: RunState) -> list[dict[str, Any]]:
    """Return the condition of every case and device as JSON values."""
    return [
        {"case": row.case.key, "device": times.device, **condition_data(condition(run, row, times))}
        for row in run.rows.values()
        for times in row.times.values()
    ]


def condition_data(found: Condition) -> dict[str, Any]:
    """Return a condition as JSON values; an unknown value is null, with a reason beside it."""
    readings = {
        "sm_clock_mhz": found.sm_clock_mhz, "temperature_begin_c": found.temperature_begin_c,
        "temperature_end_c": found.temperature_end_c, "power_w": found.watts,
        "joules_per_call": found.energy.joules_per_call, "joules_per_call_above_idle": found.above_idle,
        "gflop_per_j": found.gflop_per_j,
    }  # fmt: skip
    others = found.company
    return {
        **{key: {"value": reading.value, "reason": reading.reason} for key, reading in readings.items()},
        "throttled": None
        if found.unthrottled_reason
        else [{"by": t.word, "share": t.share, "basis": t.basis, "severity": t.severity} for t in found.throttles],
        "throttled_reason": found.unthrottled_reason,
        "energy_plus_minus": found.energy.plus_minus,
        "energy_scope": found.energy.scope,
        "energy_disputed": found.energy.is_disputed,
        "polled_power_w": found.energy.polled_watts,
        "shared": None if others is None else others.is_shared,
        "others": None if others is None else [device_state.process_text(process) for process in others.others],
        "unexplained_bytes": None if others is None else others.unexplained_bytes.value,
    }


# ------------------------------------------------------------------ core contention


WORD = "no core"
"""Verdict of rows whose threads lacked a core."""

LEAST_CORES = 0.05
"""Smaller uses of cores are not shown."""

MOST_CORES, MOST_NAMED = 1e6, 5
"""Limits of the number of cores and names shown."""


def no_core_lines(run: RunState) -> tuple[str, ...]:
    """Return a sentence for each sweep with rows whose threads lacked a core; these rows have no winner."""
    found = []
    for rows in run.sweeps.values():
        starved = [row for row in rows if row.is_starved and row.failure is None]  # not one that a stop has ended
        if starved:
            found.append(f"{_cases_text(starved, run.plan.codes)}: {WORD}: {_why(starved)}")
    return tuple(found)


def _cases_text(rows: Sequence[Row], codes: Sequence[OwnCode]) -> str:
    case = rows[0].case
    name = work_name((typed_name(case.workload, codes), *case.sweep[1:]))
    workload, is_typed = REGISTRY.get(case.workload), any(code.name == case.workload for code in codes)
    axis = "n = " if is_typed else f"{workload.axis.split()[0]} = " if workload is not None else ""
    sizes = sorted(row.case.size for row in rows)
    if is_typed and sizes == [1]:  # code without n has this size
        return name
    if len(sizes) == 1:
        return f"{name} {axis}{sizes[0]:,}"
    return f"{name} {axis}{sizes[0]:,} to {sizes[-1]:,} ({len(sizes)} sizes)"


def _why(rows: Sequence[Row]) -> str:
    """Return the reason in the row with the longest wait. The latency of one thread is that of the smallest size."""
    known = [
        (row.case.size, times.device, times.cores)
        for row in rows
        for times in row.times.values()
        if times.is_starved and times.cores is not None
    ]
    if not known:
        return "the threads waited for a core."
    _, device, worst = max(known, key=lambda each: each[2].share)
    sentences = [_waited(device, worst, at_most=len(known) > 1), *use_lines(worst.use)]
    singles = [(size, cores) for size, _, cores in known if cores.one_thread_ns and not _is_single_starved(cores)]
    if singles:
        size, cores = min(singles, key=lambda each: each[0])
        where = f"At {size_text(size)}, one" if len(rows) > 1 else "One"
        sentences.append(f"{where} thread takes {time_text(median(cores.one_thread_ns))}.")
    return " ".join((*sentences, _remedy(worst)))


def reason_lines(times: DeviceTimes) -> tuple[str, ...]:
    """Return the sentences about one row and device; none if its threads had their cores."""
    cores = times.cores
    if cores is None:
        return ("The threads waited for a core.",) if times.is_starved else ()
    count = len(cores.discarded)
    repeated = f"{count} half-round{'s were' if count != 1 else ' was'} repeated because threads waited for a core."
    sentences = [*([_waited(times.device, cores)] if times.is_starved else []), *([repeated] if count else [])]
    sentences += use_lines(cores.use)
    return (*sentences, *((*_one_thread(cores), _remedy(cores)) if times.is_starved else ()))


def _waited(device: str, cores: CoreWait, *, at_most: bool = False) -> str:
    """Return a sentence like `the 2 threads waited for a core 43 % of the time.`; `at_most` adds `up to`."""
    share = f"{'up to ' if at_most else ''}{percent(cores.share)} % of the time"
    if device != "cpu":
        return f"the launching thread waited for a core {share}."
    if cores.threads > cores.cores:
        return f"{cores.threads} threads on {count_of(cores.cores, 'core')} waited for a core {share}."
    if cores.threads == 1:
        return f"the only thread waited for a core {share}."
    return f"the {cores.threads} threads waited for a core {share}."


def use_lines(use: CoreUse | None) -> list[str]:
    """Return sentences about other users of the cores, as far as they are known."""
    if use is None:
        return []
    sentences = []
    if use.other_processes:
        named = use.others[:MOST_NAMED]
        names = ", ".join(f"{user.command or 'a process'} {min(user.cores, MOST_CORES):.1f}" for user in named)
        processes = f"{use.other_processes} other process{'es' if use.other_processes != 1 else ''}"
        sentences.append(f"{processes} used {_cores(use.other_cores)} ({names}).")
    if use.ended_cores is not None and use.ended_cores >= LEAST_CORES:
        sentences.append(f"Processes that have ended since used {_cores(use.ended_cores)}.")
    if use.unseen_cores is not None and use.unseen_cores >= LEAST_CORES:
        sentences.append(f"Work outside this container used {_cores(use.unseen_cores)}.")
    if use.stolen_cores is not None and use.stolen_cores >= LEAST_CORES:
        sentences.append(f"The hypervisor gave {_cores(use.stolen_cores)} to other virtual machines.")
    if use.throttled_periods:
        held = time_text(use.throttled_ns or 0.0)
        sentences.append(f"The CPU quota paused threads for {held}, in {count_of(use.throttled_periods, 'period')}.")
    return sentences


def _one_thread(cores: CoreWait) -> list[str]:
    """Return the latency of one thread, or that it waited as well; nothing if it was not timed."""
    if not cores.one_thread_ns:
        return []
    if _is_single_starved(cores):
        return [f"One thread also waited, {percent(cores.one_thread_share or 0.0)} % of the time."]
    return [f"One thread takes {time_text(median(cores.one_thread_ns))}."]


def _remedy(cores: CoreWait) -> str:
    """Return the remedy for rows whose threads lacked a core."""
    if cores.threads > cores.cores:
        return f"Run with --threads {cores.cores}."
    what = "Raise the CPU quota" if cores.use and cores.use.throttled_periods else "Stop other work on this machine"
    helps = cores.threads > 1 and not _is_single_starved(cores)
    return f"{what}{', or run with --threads 1' if helps else ''}."


def _is_single_starved(cores: CoreWait) -> bool:
    from cpugpu_tui.timing.host_watch import STARVED_SHARE

    return cores.one_thread_share is not None and cores.one_thread_share > STARVED_SHARE


def _cores(number: float) -> str:
    text = f"{min(number, MOST_CORES):.1f}"  # limited, so that any agent's number stays short
    return f"{text} core{'' if text == '1.0' else 's'}"
