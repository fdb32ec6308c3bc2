"""Estimates time and memory of a plan before it starts, and says where each comes from.

A time is that of an earlier run of the same plan. Without one, it is the least time of the protocol, with call times
from earlier runs, or from FLOPs, bytes and the machine card's rates. Otherwise it is unknown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from cpugpu_tui import model
from cpugpu_tui.analysis import ceilings
from cpugpu_tui.errors import UsageError
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.timing.warm_up import least_device_ns, limit_s, most_device_ns
from cpugpu_tui.workloads import Costs, case_costs
from cpugpu_tui.workloads.transfer import link_of

if TYPE_CHECKING:
    from cpugpu_tui.model import Case, Ceilings, Device, Plan
    from cpugpu_tui.store.reading import TimedRun

MOST_RUNS = 50
"""Most saved runs that are searched, newest first."""

MOST_PLAN = 200_000
"""Longest saved plan, in characters, that is compared. 2,000 cases take 10 ms, after each run."""

LEAST_CASE = len('{"workload":"","size":1,"dtype":"","threads":0,"variant":""}')
"""Fewest characters of a saved case."""

ALIKE = (
    "cases", "devices", "metrics", "rounds", "max_rounds", "blocks", "window", "budget_s", "max_seconds", "cache",
    "scale", "mnist", "simulation", "own_files", "starts",
)  # fmt: skip
"""Fields of a plan that decide how long it takes; `likeness` adds the limits of a search."""


class Earlier(NamedTuple):
    """Times of earlier runs on this machine."""

    runs: Mapping[str, tuple[int, int]]
    """Likeness of a plan → (number of its newest run, ns of its shortest run, which was paused the least)."""
    calls: Mapping[tuple[str, str], tuple[str, float, int]]
    """(`Case.key`, device) → (label of the device, ns of a call, number of the run), from the newest run."""


NOTHING_EARLIER = Earlier({}, {})
NEVER_TIMED = ("", None, None)


class Estimate(NamedTuple):
    """Expected time and memory of a plan."""

    seconds: float | None
    """None if unknown."""
    most_seconds: float | None
    """About how long it takes if each case spends its whole budget; None if there is no limit."""
    is_least: bool
    """Whether `seconds` is a lower bound: rounds continue until an interval is narrow, and results are compared."""
    source: str
    """Where the time comes from, or why it is unknown."""
    memory_bytes: float | None
    """Memory that the largest case needs on each device; None if only an agent knows."""
    memory_case: Case | None = None
    """The largest case."""


def likeness(plan: Mapping[str, Any]) -> str:
    """Return a hash that two plans (as plain data) share if they take equally long on one machine."""
    import hashlib  # here: it loads OpenSSL, 4 ms before the first frame

    told = {name: plan.get(name) for name in ALIKE}
    told["parallel"] = bool(plan.get("parallel"))  # missing in plans of older versions
    search = plan.get("search") or {}
    told["search"] = {
        name: search.get(name) for name in ("most_cases", "most_steps", "ratio", "full", "limit_s", "device_s")
    }
    # A plan of 10,000 cases is 1 MB, and this is cached for fifty runs.
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def earlier_of(found: Sequence[TimedRun]) -> Earlier:
    """Return the times in these runs, which are sorted newest first."""
    runs: dict[str, tuple[int, int]] = {}
    calls: dict[tuple[str, str], tuple[str, float, int]] = {}
    for run in found:
        for key, (label, call_ns) in run.call_ns.items():
            calls.setdefault(key, (label, call_ns, run.number))
        if run.duration_ns is not None and len(run.plan) <= MOST_PLAN:
            alike = likeness(json.loads(run.plan))
            number, shortest_ns = runs.get(alike, (run.number, run.duration_ns))
            runs[alike] = (number, min(shortest_ns, run.duration_ns))
    return Earlier(runs, calls)


def devices_of(plan: Plan, known: Sequence[Device]) -> tuple[Device, ...] | None:
    """Return the devices that a plan will use; None if one is not among those that an agent reported."""
    gpus = [device for device in known if not device.is_cpu]
    used: dict[str, Device] = {}
    for wanted in plan.devices:
        names = {"auto": ["cpu", *(gpu.name for gpu in gpus[:1])], "cuda": [gpu.name for gpu in gpus] or [""]}
        for name in names.get(wanted, [wanted]):
            device = next((device for device in known if device.name == name), None)
            if device is None:
                return None
            used[name] = device
    return tuple(used.values())


def estimate(
    plan: Plan, repeats: int, known: Sequence[Device], earlier: Earlier, ceilings: Sequence[Ceilings]
) -> Estimate:
    """Return the estimate of a plan; `known` are the devices that an agent of this machine reported."""
    memory_bytes, case = _memory(plan)
    # `earlier_of` skips larger plans, and the likeness of 9,000 cases would take 60 ms at each key of the form.
    comparable = len(plan.cases) * LEAST_CASE <= MOST_PLAN
    found = earlier.runs.get(_likeness_of(plan)) if comparable else None
    if found is not None:
        number, duration_ns = found
        source = f"like run {number} of the same plan"
        seconds = duration_ns / 1e9 * repeats
        return Estimate(seconds, seconds, False, source, memory_bytes, case)
    devices = devices_of(plan, known)
    bounds, source = _bounds_s(plan, devices, earlier, ceilings)
    if bounds is None:
        return Estimate(None, None, True, source, memory_bytes, case)
    longest_s = limit_s(plan, len(devices or ()))
    if plan.search is not None:  # it chooses further sizes as it runs
        bounds = bounds[0], longest_s
    least, most = (min(bound, longest_s) * repeats for bound in bounds)
    return Estimate(least, most if most < math.inf else None, True, source, memory_bytes, case)


def _bounds_s(
    plan: Plan, devices: Sequence[Device] | None, earlier: Earlier, ceilings: Sequence[Ceilings]
) -> tuple[tuple[float, float] | None, str]:
    """Return (least and most seconds of a plan, source), or (None, why) if the time of a case is unknown."""
    if plan.simulation is not None:
        return None, "no earlier run of this plan, and simulated times cannot be predicted"
    if devices is None:
        return None, "no earlier run of this plan, and torch has not named its devices yet"
    cards = {
        device.name: next((card for card in ceilings if (card.device, card.label) == (device.name, device.label)), None)
        for device in devices
    }
    least_ns, most_ns, runs, by_card = 0.0, 0.0, set(), 0
    for case, costs in zip(plan.cases, _costs(plan), strict=True):
        key = case.key
        for device in devices:
            label, call_ns, run = earlier.calls.get((key, device.name), NEVER_TIMED)
            if label != device.label:  # another device with the same name
                call_ns, run = None, None
            if call_ns is None:
                call_ns = _card_ns(case, costs, device, cards[device.name])
            if call_ns is None:
                return None, f"no earlier run of {case_name(case)} on {device.name}, and {_unknown_rate(costs, device)}"
            least_ns += (device_ns := least_device_ns(call_ns, plan))
            # Rates of a card are peaks: a call beyond the budget may take any time (a Jacobian 15 minutes, not 3).
            is_open = run is None and call_ns > plan.budget_ns
            most_ns += math.inf if is_open else max(device_ns, most_device_ns(call_ns, plan))
            by_card += run is None
            runs.add(run)
    return (least_ns / 1e9, most_ns / 1e9), _sources(plan, runs - {None}, by_card)


def _card_ns(case: Case, costs: Costs | None, device: Device, card: Ceilings | None) -> float | None:
    """Return the ns of a call by the machine card of a device; None if the card lacks a rate."""
    if card is None or costs is None or (device.is_cpu and case.threads not in (0, card.threads)):
        return None
    line = card.transfers.get(link_of(case.variant) or "")
    if line is not None:
        return line.elapsed_ns(costs.bytes_moved)
    bound = ceilings.least_ns(costs.flops, costs.bytes_moved, case.dtype, card)
    return None if bound is None else bound[1] + costs.launches * card.launch_ns


def _unknown_rate(costs: Costs | None, device: Device) -> str:
    """Return why FLOPs and bytes give no time, and how to change that."""
    if costs is None:
        return "only its agent knows its FLOPs and bytes"
    return f"the machine card has no rate for it: M measures {device.name}"


def _sources(plan: Plan, runs: set[int | None], by_card: int) -> str:
    """Return where the least time of a plan comes from."""
    parts = []
    if runs:
        numbers = sorted(number for number in runs if number is not None)
        named = f"run {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} earlier runs"
        parts.append(f"call times of {named}")
    if by_card:
        parts.append("FLOPs and bytes at the machine card's rates")
    chosen = ", for the first sizes only" if plan.search is not None else ""
    return " and ".join(parts) + chosen


def case_name(case: Case) -> str:
    """Return a case as a person writes it, `matmul 512`."""
    return f"{case.workload} {size_text(case.size)}"


def costs_of(case: Case) -> Costs | None:
    """Return FLOPs, bytes and memory of a call; None for a person's own workload, which only an agent loads."""
    try:
        return case_costs(case)
    except UsageError:
        return None


@lru_cache(maxsize=64)  # called at every key of the form
def _likeness_of(plan: Plan) -> str:
    return likeness(json.loads(json.dumps(model.to_plain(plan))))


@lru_cache(maxsize=8)  # takes 20 ms for 9,000 cases, and both time and memory need it
def _costs(plan: Plan) -> tuple[Costs | None, ...]:
    return tuple(costs_of(case) for case in plan.cases)


@lru_cache(maxsize=64)
def _memory(plan: Plan) -> tuple[float | None, Case | None]:
    """Return (bytes on a device, case) of the case that needs most memory."""
    largest: tuple[float, Case | None] = (0.0, None)
    for case, costs in zip(plan.cases, _costs(plan), strict=True):
        if costs is None:
            return None, None
        if costs.memory_bytes > largest[0]:
            largest = (costs.memory_bytes, case)
    return largest
