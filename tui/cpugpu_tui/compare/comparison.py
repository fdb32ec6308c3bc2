"""Compare two series of runs: differences in machine and settings, then verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cpugpu_tui.analysis import compare
from cpugpu_tui.analysis.pairs import Change, Pair, together
from cpugpu_tui.compare.series import FREE_CORES_REMEDY, Series
from cpugpu_tui.config.paths import with_database
from cpugpu_tui.decide.stats import median
from cpugpu_tui.errors import UnfitError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import DEVICE, Event, RunStarted
from cpugpu_tui.session.repeat import simulation_text
from cpugpu_tui.state.condition import WORD as NO_CORE_WORD
from cpugpu_tui.state.folding import HARDWARE, MeasuredCase, MeasuredRun, measured

if TYPE_CHECKING:
    from cpugpu_tui.store import Store

CLOCK_MARGIN = 0.02
"""SM clocks within this share are the same: a boost clock moves in steps of 15 MHz of 1980."""

UNKNOWN = "unknown"
"""Text of a fact that no run of a side knows."""

UNREACHED = ("skipped", "pending", "active")
"""Statuses of cases that neither succeeded nor failed."""

FROM_TELEMETRY = ("power limit",)
"""Facts that a run lacks if it ended before telemetry was read; a missing one is not a difference."""


@dataclass(frozen=True)
class Difference:
    """A fact about machine or settings that differs between the two sides."""

    what: str
    base: str
    new: str

    @property
    def is_hardware(self) -> bool:
        """Whether it means another machine."""
        return self.what in HARDWARE


@dataclass(frozen=True)
class SeriesComparison:
    """Two series with their differences and verdicts."""

    base: Series
    new: Series
    differences: tuple[Difference, ...]
    """Most important first."""
    pairs: tuple[Pair, ...]
    """Every case on every device of either side, then the kernel times of the GPUs."""
    judged: tuple[compare.Judged, ...]
    means: Mapping[str, Change]
    """`Pair.label` → geometric mean of the changes of all its cases."""
    bands: Mapping[str, float]
    """Metric → changes within ± this count as no change; for a gate, how much slower a case may be."""
    placebo: tuple[compare.Judged, ...] | None = None
    """Verdicts on one side that was measured twice; None if it was not."""

    @property
    def shared(self) -> tuple[compare.Judged, ...]:
        """The verdicts on the cases that both series have."""
        return tuple(each for each in self.judged if not each.pairs[0].only_in)

    @property
    def placebo_moved(self) -> tuple[compare.Judged, ...]:
        """The verdicts that call that side different from itself: then the comparison proves nothing."""
        return tuple(each for each in self.placebo or () if each.verdict in (compare.FASTER, compare.SLOWER))

    @property
    def is_of_two_codes(self) -> bool:
        """Whether a duet ran different code on each side."""
        return self.is_duet and all(side.runs[0].plan.is_of_two_codes for side in (self.base, self.new))

    @property
    def is_duet(self) -> bool:
        """Whether the runs of both sides belong together in pairs."""
        return bool(common_pairs(self.base.runs, self.new.runs))


def common_pairs(base: Sequence[MeasuredRun], new: Sequence[MeasuredRun]) -> set[str]:
    """Return the pairs of agents that two series of a duet share; empty for series that ran one after the other."""
    return {run.duet for run in base} & {run.duet for run in new} - {""}


def usual_bands(base: Series, new: Series) -> Mapping[str, float]:
    """Return the bands for two series if the user sets none."""
    return compare.DUET_BANDS if common_pairs(base.runs, new.runs) else compare.BANDS


def compare_series(
    base: Series, new: Series, bands: Mapping[str, float] | None = None, *, is_gate: bool = False, sharers: int = 1
) -> SeriesComparison:
    """Compare two series; a gate looks only for slowdowns. `sharers`: see `judge`.

    Raises:
        UsageError: they are the same series, only one is simulated, or they have no timed case in common.
        UnfitError: threads lacked a CPU core in every case that they have in common.
    """
    pairs, bands = comparable_pairs(base, new), bands or usual_bands(base, new)
    sound = [pair for pair in pairs if not pair.trouble]
    labels = dict.fromkeys(pair.label for pair in sound)
    means = {label: _mean([pair for pair in sound if pair.label == label]) for label in labels}
    return SeriesComparison(
        base, new, differences(base.runs, new.runs), pairs,
        compare.judge_slowdowns(pairs, bands, sharers) if is_gate else compare.judge(pairs, bands, sharers=sharers),
        {label: mean for label, mean in means.items() if mean is not None}, bands,
    )  # fmt: skip


def with_placebo(found: SeriesComparison, side: Series, again: Series) -> SeriesComparison:
    """Return the comparison with the verdicts on `side`, measured `again`; if it moved, nothing else has a word.

    The placebo shares the level of a comparison: at most 0.5 % of the comparisons of a side with itself move.
    """
    if not again.runs or not any(pair.base_ns and pair.new_ns for pair in pairs_of(side.runs, again.runs)):
        return found
    found = replace(found, placebo=compare_series(side, again).judged)
    if not found.placebo_moved:
        return found
    withdrawn = (compare.FASTER, compare.SLOWER, compare.SAME, compare.PASSED)
    judged = (replace(each, verdict=compare.UNDECIDED) if each.verdict in withdrawn else each for each in found.judged)
    return replace(found, judged=tuple(judged))


def _mean(pairs: Sequence[Pair]) -> Change | None:
    """Return the geometric mean of the changes. That of a duet has no interval, because verdicts ended the duet."""
    mean = together(pairs)
    return replace(mean, low=None, high=None) if mean is not None and mean.is_duet else mean


# ------------------------------------------------------------------ cases


def comparable_pairs(base: Series, new: Series) -> tuple[Pair, ...]:
    """Return every case on every device of either side.

    Raises:
        UsageError, UnfitError: see `compare_series`.
    """
    if {run.run_id for run in base.runs} & {run.run_id for run in new.runs}:
        raise UsageError(
            f"Cannot compare {base.text} with {new.text}: both belong to the same series.",
            f"Choose a run of another series; `{with_database('cpugpu-tui history')}` lists the runs.",
        )
    if base.runs[0].simulated != new.runs[0].simulated:
        simulated = base if base.runs[0].simulated else new
        raise UsageError(f"Cannot compare a simulated run with a measured one: {simulated.text} is simulated.",
                         "Choose two measured or two simulated runs.")  # fmt: skip
    pairs = pairs_of(base.runs, new.runs)
    if not any(pair.differs or (pair.base_ns and pair.new_ns) for pair in pairs):
        if any(pair.is_starved for pair in pairs):
            raise UnfitError(f"Cannot compare {base.text} with {new.text}: threads had no free CPU core.",
                             FREE_CORES_REMEDY)  # fmt: skip
        names = " and ".join(dict.fromkeys(side.runs[0].name for side in (base, new)))
        raise UsageError(f"{base.text} and {new.text} have no timed case in common ({names}).",
                         "Compare runs that share workload, sizes, dtype and threads.")  # fmt: skip
    return pairs


def pairs_of(base: Sequence[MeasuredRun], new: Sequence[MeasuredRun]) -> tuple[Pair, ...]:
    """Return every case on every device of either side, device by device, in the order of the plans.

    A GPU's latencies are followed by its kernel times, of those cases whose latencies can be compared.
    """
    is_duet = bool(common_pairs(base, new))
    sides = tuple(_cases(runs, is_duet=is_duet) for runs in (base, new))
    caches = tuple("/".join(sorted({run.plan.cache for run in runs})) for runs in (base, new))
    keys = dict.fromkeys(key for side in sides for key in side)
    pairs = [pair for key in keys for device in _devices_of(side.get(key, {}) for side in sides)
             for pair in _pairs(key, device, [side.get(key, {}) for side in sides], caches)]  # fmt: skip
    by_size = any(run.plan.is_of_two_codes for run in base)  # a search adds sizes
    codes = [code for run in new[-1:] for code in run.plan.codes]
    pairs = [replace(pair, code=printable(codes[0].statement, 40)) for pair in pairs] if len(codes) == 1 else pairs
    return tuple(sorted(pairs, key=lambda pair: (pair.device, pair.metric == DEVICE, pair.size if by_size else 0)))


def _cases(runs: Sequence[MeasuredRun], *, is_duet: bool) -> dict[str, dict[str, MeasuredCase]]:
    """Return case → run, in a duet pair of agents → result."""
    found: dict[str, dict[str, MeasuredCase]] = {}
    for run in runs:
        for key, case in run.cases.items():
            found.setdefault(key, {})[run.duet if is_duet else run.run_id] = case
    return found


def _devices_of(sides: Iterable[Mapping[str, MeasuredCase]]) -> list[str]:
    """Return the devices that a case was timed on; `case` if it was not timed at all."""
    return list(
        dict.fromkeys(name for side in sides for case in side.values() for name in (*case.median_ns, *case.starved))
    ) or ["case"]


def _pairs(key: str, device: str, found: Sequence[Mapping[str, MeasuredCase]], caches: Sequence[str]) -> Iterator[Pair]:
    """Yield the latency of a case on a device, then the kernel time, if a side has one."""
    latency = _pair(key, device, *found)
    yield latency
    sides = _together([{run: case.kernel_ns[device] for run, case in side.items() if device in case.kernel_ns}
                       for side in found])  # fmt: skip
    if latency.trouble or not any(sides):
        return
    trouble = " and ".join(
        f"no kernel time in the {name} series" for name, ns in zip(("base", "new"), sides, strict=True) if not ns
    ) or ("" if caches[0] == caches[1] else f"caches {caches[0]} in the base series, {caches[1]} in the new")
    yield replace(latency, metric=DEVICE, base_ns=sides[0], new_ns=sides[1], trouble=trouble, is_starved=False)


def _pair(key: str, device: str, base: Mapping[str, MeasuredCase], new: Mapping[str, MeasuredCase]) -> Pair:
    is_failed = bool(base.keys() & new.keys()) and (_failed(base) or _failed(new))
    base_ns, new_ns = (
        {run: case.median_ns[device] for run, case in side.items()
         if device in case.median_ns and not (is_failed and _failed(side))}
        for side in (base, new)
    )  # fmt: skip
    untimed = [
        _why_untimed(side, name, device) for side, ns, name in ((base, base_ns, "base"), (new, new_ns, "new")) if not ns
    ]
    cases = [*base.values(), *new.values()]
    wrong = differing_results(base, new)
    # A case with status `ok` but without times was not timed on this device.
    lost, statuses = bool(base_ns) and not new_ns, {case.status for case in new.values()}
    sides = _together((base_ns, new_ns))
    return Pair(
        key, device, *sides, cases[0].case.sweep, cases[0].case.size,
        wrong or " and ".join(untimed) or _other_work(base, new), "" if base and new else "base" if base else "new",
        is_lost=is_failed or bool(wrong) or (lost and bool(statuses - {"ok", *UNREACHED})),
        differs=bool(wrong), is_unreached=lost and bool(statuses & {*UNREACHED}),
        is_chosen=any(case.is_chosen for case in cases), is_starved=any(device in case.starved for case in cases),
    )  # fmt: skip


def _failed(side: Mapping[str, MeasuredCase]) -> bool:
    """Return whether a case failed in any run. A duet does not time it again then."""
    return any(case.status not in ("ok", *UNREACHED) for case in side.values())


def _together(sides: Sequence[Mapping[str, float]]) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return the times of both sides; in a duet, only those of pairs of agents that timed the case on both."""
    base, new = sides
    if not base.keys() & new.keys():
        return base, new
    return {run: ns for run, ns in base.items() if run in new}, {run: ns for run, ns in new.items() if run in base}


def _why_untimed(side: Mapping[str, MeasuredCase], name: str, device: str) -> str:
    if not side:
        return f"not in the {name} series"
    if any(device in case.starved for case in side.values()):
        return f"{NO_CORE_WORD} in the {name} series"
    kinds = dict.fromkeys(case.status for case in side.values() if case.status != "ok")
    return f"{', '.join(kinds) or 'not timed on this device'} in the {name} series"


def _other_work(base: Mapping[str, MeasuredCase], new: Mapping[str, MeasuredCase]) -> str:
    """Return why a case cannot be compared if its workload has changed; empty otherwise."""
    sides = [{case.work for case in side.values() if case.status == "ok" and any(case.work)} for side in (base, new)]
    if all(sides) and not sides[0] & sides[1]:
        return "different work: FLOPs or bytes per call differ"
    return ""


def differing_results(base: Mapping[str, MeasuredCase], new: Mapping[str, MeasuredCase]) -> str:
    """Return how the results of two codes differ in some pair of agents, a clause; empty if they do not."""
    for pair in base.keys() & new.keys():
        one, other = base[pair].check, new[pair].check
        if one is None or other is None:
            continue
        if [each.count for each in one.sketches] != [each.count for each in other.sketches]:
            first, second = (" + ".join(f"{each.count:,}" for each in check.sketches) for check in (one, other))
            return f"different results: {first} numbers of OLD and {second} of NEW"
        for mine, theirs in zip(one.sketches, other.sketches, strict=True):
            error = math.dist(mine.sums, theirs.sums) / (max(mine.norm, theirs.norm) or 1.0)
            if not error <= one.tolerance:
                return f"different results: by about {error:.2g} of their norm (allowed: {one.tolerance:g})"
    return ""


def differing_pairs(store: Store, events: Sequence[Event]) -> tuple[tuple[Pair, ...], str]:
    """Return the pairs of a saved run and the other code of its duet whose results differ, and the command for both."""
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    is_of_two = started is not None and started.plan.is_of_two_codes
    other_id = store.other_side(started.run_id) if started is not None and is_of_two else None
    both = [run for each in (events, store.load(other_id)) if (run := measured(each))] if other_id else []
    if len(both) < 2:
        return (), ""
    old, new = sorted(both, key=lambda run: -run.plan.turns)
    pairs = tuple(pair for pair in pairs_of((old,), (new,)) if pair.differs)
    return pairs, with_database(f"cpugpu-tui compare {old.number} {new.number}")


# ------------------------------------------------------------------ what differed


def differences(base: Sequence[MeasuredRun], new: Sequence[MeasuredRun]) -> tuple[Difference, ...]:
    """Return the facts that differ between the sides, or between the runs of one side."""
    found = []
    for what in dict.fromkeys(name for run in (*base, *new) for name in run.facts):
        sides = [_texts(what, runs) for runs in (base, new)]
        if what in FROM_TELEMETRY and not all(sides):
            continue
        if sides[0] != sides[1] or len(sides[0]) > 1:
            found.append(Difference(what, *(" or ".join(side) for side in sides)))
    hardware = [each for each in found if each.is_hardware]
    others = [each for each in found if not each.is_hardware]
    return (*hardware, *_clock_differences(base, new), *others)


def _texts(what: str, runs: Sequence[MeasuredRun]) -> list[str]:
    """Return the different texts of a fact. A run that ended too early to know it does not differ in it."""
    values = [run.facts.get(what) for run in runs]
    if what == "code" and not any(values):  # a command or an expression is in no file
        values = [", ".join(dict.fromkeys(code.statement for code in run.plan.codes)) or None for run in runs]
    known = [value for value in values if value is not None]
    if what in FROM_TELEMETRY or (known and fact_text(what, None) == UNKNOWN):
        values = known
    return list(dict.fromkeys(fact_text(what, value) for value in values))


def fact_text(what: str, value: Any) -> str:
    """Return a fact in words; `unknown` if it is not known."""
    if what == "inherited variables":
        return ", ".join(f"{name}={setting}" for name, setting in (value or {}).items()) or "none"
    if what == "simulation":  # its constants without the seed, which differs between runs
        return "none" if value is None else simulation_text(replace(value, seed=0))
    if value is None:
        return {"CPU quota": "none", "CUDA_VISIBLE_DEVICES": "not set", "MNIST": "drawn"}.get(what, UNKNOWN)
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _clock_differences(base: Sequence[MeasuredRun], new: Sequence[MeasuredRun]) -> list[Difference]:
    found = []
    for device in dict.fromkeys(name for run in (*base, *new) for name in run.clocks_mhz):
        clocks = [[run.clocks_mhz[device] for run in runs if device in run.clocks_mhz] for runs in (base, new)]
        middles = [median(side) if side else None for side in clocks]
        low, high = min(map(min, filter(None, clocks))), max(map(max, filter(None, clocks)))
        if None in middles or high > low * (1 + CLOCK_MARGIN):
            texts = (UNKNOWN if mhz is None else f"{mhz:.0f} MHz" for mhz in middles)
            found.append(Difference(f"SM clock of the {device}", *texts))
    return found
