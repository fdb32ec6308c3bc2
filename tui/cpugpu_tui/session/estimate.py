"""How long a plan will take and how much memory it needs, before it starts, and where each of the two is known from.

Nothing is guessed: a time is that of an earlier run of the same plan; or the least that the protocol takes, with calls
as earlier runs timed them or, where none did, with their FLOPs and bytes at the machine card's rates; or unknown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cpugpu_tui.analysis import roofline
from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import Case, Ceilings, Device, Plan
from cpugpu_tui.model.plain_data import to_plain
from cpugpu_tui.timing.warm_up import least_device_ns, most_device_ns
from cpugpu_tui.workloads import Costs, case_costs
from cpugpu_tui.workloads.transfer import link_of

if TYPE_CHECKING:
    from cpugpu_tui.store.past_runs import TimedRun

MOST_RUNS = 50
"""Saved runs that are looked into, newest first."""

MOST_PLAN = 200_000
"""Characters of a saved plan that is compared: 2 000 cases take 10 ms, and each end of a run asks."""

LEAST_CASE = len('{"workload":"","size":1,"dtype":"","threads":0,"variant":""}')
"""Characters of a saved case at least."""

ALIKE = (
    "cases", "devices", "metrics", "rounds", "max_rounds", "blocks", "window", "budget_s", "max_seconds", "cache",
    "scale", "mnist", "simulation", "own_files",
)  # fmt: skip
"""Fields of a plan that decide how long it takes; of a search its limits too."""


@dataclass(frozen=True)
class Earlier:
    """What is known of the time of earlier runs of this machine."""

    runs: Mapping[str, tuple[int, int]]
    """Likeness of a plan → number of the newest run of it, and ns of the shortest: none was paused less."""
    calls: Mapping[tuple[str, str], tuple[str, float, int]]
    """(`Case.key`, device) → label of the device, ns of a call, number of the run; the newest of each."""


NOTHING_EARLIER = Earlier({}, {})
NEVER_TIMED = ("", None, None)


@dataclass(frozen=True)
class Estimate:
    """What is known before a plan starts."""

    seconds: float | None
    """None where it is unknown."""
    most_seconds: float | None
    """The same where no interval becomes narrow before the budget is spent, about; None where that has no end."""
    is_least: bool
    """Whether it may well take longer: rounds go on until an interval is narrow, results are compared."""
    source: str
    """Where the time is known from; why it is unknown where it is."""
    memory_bytes: float | None
    """What the largest case occupies on each device; None where only an agent can tell."""
    memory_case: Case | None = None
    """That case."""


def likeness(plan: Mapping[str, Any]) -> str:
    """Return a text that two plans (as plain data) share if they take equally long on one machine."""
    import hashlib  # here: it loads OpenSSL, 4 ms before the first frame

    told = {name: plan.get(name) for name in ALIKE}
    told["parallel"] = bool(plan.get("parallel"))  # plans of older versions have no word of it
    search = plan.get("search") or {}
    told["search"] = {name: search.get(name) for name in ("most_cases", "most_steps", "ratio", "full")}
    # A plan of 10 000 cases is 1 MB, and this is kept for fifty runs.
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def earlier_of(found: Sequence[TimedRun]) -> Earlier:
    """Return what these runs, newest first, tell."""
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
    """Return the devices that a plan will use, of those that an agent reported; None where it did not report them."""
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
    """Return what a plan will take; `known` are the devices that an agent of this machine reported."""
    memory_bytes, case = _memory(plan)
    # No larger plan is among those of `earlier_of`; the likeness of 9 000 cases takes 60 ms at each key of the form.
    comparable = len(plan.cases) * LEAST_CASE <= MOST_PLAN
    found = earlier.runs.get(_likeness_of(plan)) if comparable else None
    if found is not None:
        number, duration_ns = found
        source = f"as run {number} of the same plan took"
        seconds = duration_ns / 1e9 * repeats
        return Estimate(seconds, seconds, False, source, memory_bytes, case)
    bounds, source = _bounds_s(plan, devices_of(plan, known), earlier, ceilings)
    if bounds is None:
        return Estimate(None, None, True, source, memory_bytes, case)
    least, most = (min(bound, plan.max_seconds or bound) * repeats for bound in bounds)
    # A search goes on with sizes that nobody knows yet.
    ends = plan.search is None or plan.max_seconds is not None
    return Estimate(least, most if ends else None, True, source, memory_bytes, case)


def _bounds_s(
    plan: Plan, devices: Sequence[Device] | None, earlier: Earlier, ceilings: Sequence[Ceilings]
) -> tuple[tuple[float, float] | None, str]:
    """Return least and most seconds of a plan, and their source; (None, why) where a case is of unknown length."""
    if plan.simulation is not None:
        return None, "no earlier run of this plan, and made-up times tell nothing of this machine"
    if devices is None:
        return None, "no earlier run of this plan, and no agent has told yet which devices there are"
    cards = {
        device.name: next((card for card in ceilings if (card.device, card.label) == (device.name, device.label)), None)
        for device in devices
    }
    least_ns, most_ns, runs, by_card = 0.0, 0.0, set(), 0
    for case, costs in zip(plan.cases, _costs(plan), strict=True):
        key = case.key
        for device in devices:
            label, call_ns, run = earlier.calls.get((key, device.name), NEVER_TIMED)
            if label != device.label:  # another device of this name
                call_ns, run = None, None
            if call_ns is None:
                call_ns = _card_ns(case, costs, device, cards[device.name])
            if call_ns is None:
                return None, f"no earlier run of {case_name(case)} on {device.name}, and {_unknown_rate(costs, device)}"
            least_ns += least_device_ns(call_ns, plan)
            most_ns += most_device_ns(call_ns, plan)
            by_card += run is None
            runs.add(run)
    return (least_ns / 1e9, most_ns / 1e9), _sources(plan, runs - {None}, by_card)


def _card_ns(case: Case, costs: Costs | None, device: Device, card: Ceilings | None) -> float | None:
    """Return ns of a call by the machine card of a device; None where that cannot tell."""
    if card is None or costs is None or (device.is_cpu and case.threads not in (0, card.threads)):
        return None
    line = card.transfers.get(link_of(case.variant) or "")
    if line is not None:
        return line.elapsed_ns(costs.bytes_moved)
    bound = roofline.least_ns(costs.flops, costs.bytes_moved, case.dtype, card)
    return None if bound is None else bound[1] + card.launch_ns


def _unknown_rate(costs: Costs | None, device: Device) -> str:
    """Return why FLOPs and bytes tell no time, and what would."""
    if costs is None:
        return "only its agent knows what it costs"
    return f"the machine card has no rate for it: M measures {device.name}"


def _sources(plan: Plan, runs: set[int | None], by_card: int) -> str:
    """Return where the least time of a plan is known from."""
    parts = []
    if runs:
        numbers = sorted(number for number in runs if number is not None)
        named = f"run {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} earlier runs"
        parts.append(f"calls as {named} timed them")
    if by_card:
        parts.append("FLOPs and bytes at the machine card's rates")
    chosen = " of the first sizes; more are chosen as it goes" if plan.search is not None else ""
    return " and ".join(parts) + chosen


def case_name(case: Case) -> str:
    """Return a case as a person writes it, `matmul 512`."""
    return f"{case.workload} {case.size:,}"


def costs_of(case: Case) -> Costs | None:
    """Return what a call of a case needs; None for a person's own workload, which only an agent loads."""
    try:
        return case_costs(case)
    except UsageError:
        return None


@lru_cache(maxsize=64)  # asked at every key of the form
def _likeness_of(plan: Plan) -> str:
    return likeness(json.loads(json.dumps(to_plain(plan))))


@lru_cache(maxsize=8)  # of 9 000 cases: 20 ms, wanted for time and memory
def _costs(plan: Plan) -> tuple[Costs | None, ...]:
    return tuple(costs_of(case) for case in plan.cases)


@lru_cache(maxsize=64)
def _memory(plan: Plan) -> tuple[float | None, Case | None]:
    """Return the bytes of the case that needs most on a device, and that case."""
    largest: tuple[float, Case | None] = (0.0, None)
    for case, costs in zip(plan.cases, _costs(plan), strict=True):
        if costs is None:
            return None, None
        if costs.memory_bytes > largest[0]:
            largest = (costs.memory_bytes, case)
    return largest
