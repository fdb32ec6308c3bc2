"""Two series of runs side by side: what differed around them first, then the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cpugpu_tui.analysis.compare import Change, Judged, Pair, judge, together
from cpugpu_tui.decide.stats import median
from cpugpu_tui.decide.verdict import EQUIVALENCE
from cpugpu_tui.errors import NoSuchRunError, UnfitError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import Simulation
from cpugpu_tui.plain import to_plain
from cpugpu_tui.state.measured import HARDWARE, MeasuredCase, MeasuredRun, measured
from cpugpu_tui.state.no_core import WORD as NO_CORE_WORD

if TYPE_CHECKING:
    from cpugpu_tui.store import Store

CLOCK_MARGIN = 0.02
"""SM clocks that differ by less are the same: a boost clock moves in steps of 15 MHz of 1980."""

UNREACHED = ("skipped", "pending", "active")
"""Statuses of cases that have no result, good or bad."""

MOST_LOOKED_THROUGH = 200
"""Runs among which the previous series is looked for."""


@dataclass(frozen=True)
class Series:
    """Runs of one plan in one environment."""

    name: str
    """How the person named it, `baseline main`, or `this series`."""
    runs: tuple[MeasuredRun, ...]
    """Oldest first."""

    @property
    def text(self) -> str:
        """`baseline main (runs 3-7)`, `run 12`."""
        numbers = numbers_text([run.number for run in self.runs if run.number is not None])
        if numbers in self.name:  # that of another database says its numbers itself
            return self.name
        return f"{self.name} ({numbers})" if self.name else numbers

    @property
    def starved_cases(self) -> tuple[int, int]:
        """How many cases lacked a core in some run, and of how many."""
        cases = {key for run in self.runs for key in run.cases}
        return len({key for run in self.runs for key, case in run.cases.items() if case.starved}), len(cases)


@dataclass(frozen=True)
class Difference:
    """Something other than the time that is not the same on both sides."""

    what: str
    base: str
    new: str

    @property
    def is_hardware(self) -> bool:
        """Whether it makes it another machine."""
        return self.what in HARDWARE


@dataclass(frozen=True)
class SeriesComparison:
    """All that can be said of two series."""

    base: Series
    new: Series
    differences: tuple[Difference, ...]
    """The most telling first."""
    pairs: tuple[Pair, ...]
    """Every case on every device of either side."""
    judged: tuple[Judged, ...]
    means: Mapping[str, Change]
    """Device → geometric mean of the changes of all its cases."""
    margin: float
    """Changes inside ± this are none."""

    @property
    def other_hardware(self) -> tuple[Difference, ...]:
        """What makes it another machine; empty where it is the same."""
        return tuple(difference for difference in self.differences if difference.is_hardware)


def compare_series(base: Series, new: Series, *, margin: float = EQUIVALENCE) -> SeriesComparison:
    """Compare two series; changes inside ± `margin` (0.02 for 2 %) are none.

    Raises:
        UsageError: they are the same series, made-up numbers stand against real ones, or they have no case in common.
        UnfitError: they have no case in common whose threads had their cores.
    """
    if {run.run_id for run in base.runs} & {run.run_id for run in new.runs}:
        raise UsageError(
            f"{base.text} and {new.text} are of the same series.", "Name a run of another one; `history` lists them."
        )
    if base.runs[0].simulated != new.runs[0].simulated:
        made_up = base if base.runs[0].simulated else new
        raise UsageError(f"The times of {made_up.text} are made up, the others are not.",
                         "Made-up times are not compared with real.")  # fmt: skip
    pairs = pairs_of(base.runs, new.runs)
    if not any(pair.base_ns and pair.new_ns for pair in pairs):
        if any(pair.is_starved for pair in pairs):
            raise UnfitError(f"Nothing of {base.text} and {new.text} can be compared: threads lacked a core.",
                             "Stop other work on this machine and run again, or run with --threads 1.")  # fmt: skip
        names = " and ".join(dict.fromkeys(side.runs[0].name for side in (base, new)))
        raise UsageError(f"{base.text} and {new.text} have timed no case in common ({names}).",
                         "Compare runs that share workload, sizes, dtype and threads.")  # fmt: skip
    sound = [pair for pair in pairs if not pair.trouble]
    means = {device: together([pair for pair in sound if pair.device == device]) for device in _devices(sound)}
    return SeriesComparison(
        base, new, differences(base.runs, new.runs), pairs, judge(pairs, margin=margin),
        {device: mean for device, mean in means.items() if mean is not None}, margin,
    )  # fmt: skip


# ------------------------------------------------------------------ cases


def pairs_of(base: Sequence[MeasuredRun], new: Sequence[MeasuredRun]) -> tuple[Pair, ...]:
    """Return every case on every device of either side, device by device, in the order of the plans."""
    sides = tuple(_cases(runs) for runs in (base, new))
    keys = dict.fromkeys(key for side in sides for key in side)
    pairs = [_pair(key, device, *(side.get(key, {}) for side in sides))
             for key in keys for device in _devices_of(side.get(key, {}) for side in sides)]  # fmt: skip
    devices = _devices(pairs)
    return tuple(sorted(pairs, key=lambda pair: devices.index(pair.device)))


def _devices(pairs: Iterable[Pair]) -> list[str]:
    """Return the devices, CPU first."""
    return sorted({pair.device for pair in pairs})


def _cases(runs: Sequence[MeasuredRun]) -> dict[str, dict[str, MeasuredCase]]:
    """Return case → run → what it says of it."""
    found: dict[str, dict[str, MeasuredCase]] = {}
    for run in runs:
        for key, case in run.cases.items():
            found.setdefault(key, {})[run.run_id] = case
    return found


def _devices_of(sides: Iterable[Mapping[str, MeasuredCase]]) -> list[str]:
    """Return the devices that a case was timed on; `case` stands for it where it was timed nowhere."""
    return list(
        dict.fromkeys(name for side in sides for case in side.values() for name in (*case.median_ns, *case.starved))
    ) or ["case"]


def _pair(key: str, device: str, base: Mapping[str, MeasuredCase], new: Mapping[str, MeasuredCase]) -> Pair:
    base_ns, new_ns = (
        {run: case.median_ns[device] for run, case in side.items() if device in case.median_ns} for side in (base, new)
    )
    untimed = [
        _why_untimed(side, name, device) for side, ns, name in ((base, base_ns, "base"), (new, new_ns, "new")) if not ns
    ]
    cases = [*base.values(), *new.values()]
    # `ok` without times was not timed on that device.
    lost, statuses = bool(base_ns) and not new_ns, {case.status for case in new.values()}
    return Pair(
        key, device, base_ns, new_ns, cases[0].case.sweep, cases[0].case.size,
        " and ".join(untimed) or _other_work(base, new),
        is_lost=lost and bool(statuses - {"ok", *UNREACHED}), is_unreached=lost and bool(statuses & {*UNREACHED}),
        is_chosen=any(case.is_chosen for case in cases), is_starved=any(device in case.starved for case in cases),
    )  # fmt: skip


def _why_untimed(side: Mapping[str, MeasuredCase], name: str, device: str) -> str:
    if not side:
        return f"not in the {name} series"
    if any(device in case.starved for case in side.values()):
        return f"{NO_CORE_WORD} in the {name} series"
    kinds = dict.fromkeys(case.status for case in side.values() if case.status != "ok")
    return f"{', '.join(kinds) or 'not timed on this device'} in the {name} series"


def _other_work(base: Mapping[str, MeasuredCase], new: Mapping[str, MeasuredCase]) -> str:
    """Return what is said where the workload of this name has become another one."""
    sides = [{case.work for case in side.values() if case.status == "ok" and any(case.work)} for side in (base, new)]
    if all(sides) and not sides[0] & sides[1]:
        return "it is other work: FLOPs or bytes of a call differ"
    return ""


# ------------------------------------------------------------------ what differed


def differences(base: Sequence[MeasuredRun], new: Sequence[MeasuredRun]) -> tuple[Difference, ...]:
    """Return which facts differ, within a side too: a series should have one of each."""
    found = []
    for what in dict.fromkeys(name for run in (*base, *new) for name in run.facts):
        sides = [list(dict.fromkeys(fact_text(what, run.facts.get(what)) for run in runs)) for runs in (base, new)]
        if sides[0] != sides[1] or len(sides[0]) > 1:
            found.append(Difference(what, *(" or ".join(side) for side in sides)))
    hardware = [each for each in found if each.is_hardware]
    others = [each for each in found if not each.is_hardware]
    return (*hardware, *_clock_differences(base, new), *others)


def fact_text(what: str, value: Any) -> str:
    """Return a fact in words; `unknown` where it is not known."""
    if what == "inherited variables":
        return ", ".join(f"{name}={setting}" for name, setting in (value or {}).items()) or "none"
    if what == "simulation":
        return _laws(value)
    if value is None:
        return {"CPU quota": "none", "CUDA_VISIBLE_DEVICES": "not set", "MNIST": "drawn"}.get(what, "unknown")
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _laws(simulation: Simulation | None) -> str:
    """Return the constants of a made-up machine that are not the usual ones; the seed of its noise is none of them."""
    if simulation is None:
        return "none"
    usual = to_plain(Simulation())
    laws = {name: law for name, law in to_plain(simulation).items() if name != "seed" and law != usual[name]}
    return ",".join(f"{name}={law}" for name, law in laws.items()) or "default"


def _clock_differences(base: Sequence[MeasuredRun], new: Sequence[MeasuredRun]) -> list[Difference]:
    found = []
    for device in dict.fromkeys(name for run in (*base, *new) for name in run.clocks_mhz):
        clocks = [[run.clocks_mhz[device] for run in runs if device in run.clocks_mhz] for runs in (base, new)]
        middles = [median(side) if side else None for side in clocks]
        low, high = min(map(min, filter(None, clocks))), max(map(max, filter(None, clocks)))
        if None in middles or high > low * (1 + CLOCK_MARGIN):
            texts = ("unknown" if mhz is None else f"{mhz:.0f} MHz" for mhz in middles)
            found.append(Difference(f"SM clock of the {device}", *texts))
    return found


# ------------------------------------------------------------------ from the store


def series_named(store: Store, text: str) -> Series:
    """Return the series that a person names: a baseline, what `Store.find` takes, or a tag of its newest run.

    Raises:
        UsageError: there is no such baseline, run or tag, or its series has not one finished run.
        StoreError: the history cannot be read.
    """
    series_id = store.baseline(text)
    if series_id is not None:
        return series_of_id(store, series_id, f"baseline {text}")
    try:
        return series_of_id(store, store.series_of(store.find(text)))
    except UsageError as error:
        tagged = _newest_tagged(store, text)
        if tagged is None:
            raise _unknown(store, text, error) from error
    return series_of_id(store, tagged, f"tag {text}")


def _unknown(store: Store, text: str, error: UsageError) -> UsageError:
    """Return what is said where nothing has this name; of numbers and of several runs `Store.find` says it."""
    if text.isdigit() or not store.count() or not isinstance(error, NoSuchRunError):
        return error
    baselines = ", ".join(printable(name) for name in store.baselines())
    return UsageError(
        f"There is no baseline, run or tag {printable(text)!r}{f'; baselines are {baselines}' if baselines else ''}.",
        f"`cpugpu-tui baseline {printable(text)} latest` makes the newest series this baseline; "
        "`cpugpu-tui history` lists the runs.",
    )


def _newest_tagged(store: Store, tag: str) -> str | None:
    """Return the series of the newest run with a tag; looked for last, for it takes the whole list of runs."""
    return next((run.series_id for run in store.runs() if tag in run.tags), None)


def series_of_id(store: Store, series_id: str, name: str = "") -> Series:
    """Return a series by its id.

    Raises:
        UsageError: it has not one finished run.
    """
    return series_from(name, [measured(store.load(run_id)) for run_id in store.runs_of(series_id)])


def series_from(name: str, runs: Sequence[MeasuredRun | None]) -> Series:
    """Return a series of these runs, those that began.

    Raises:
        UsageError: there is none.
    """
    known = tuple(run for run in runs if run is not None)
    if not known:
        raise UsageError(
            f"There is no finished run in {name or 'that series'}.", "`cpugpu-tui history` lists the runs."
        )
    return Series(name, known)


def other_series(store: Store, series_id: str, name: str, *, simulated: bool) -> list[tuple[str, str]]:
    """Return (id, name) of what a series may be compared with, the previous one first, then older ones, newest first.

    They are the other series of the same preset or workload, and last the baselines that are not among them; the name
    is `baseline main`, or empty.
    """
    baselines = {each: f"baseline {known}" for known, each in store.baselines().items()}
    found = dict[str, str]()
    for run in store.runs(MOST_LOOKED_THROUGH):
        if run.name == name and run.simulated == simulated and run.cases_ok and run.status != "running":
            found.setdefault(run.series_id, baselines.get(run.series_id, ""))
    # Newer series than this one may be among them: of a saved run the previous is what came before it.
    ids = list(found)
    place = ids.index(series_id) + 1 if series_id in found else 0
    ordered = [*ids[place:], *ids[:place], *baselines]
    return [(each, found.get(each) or baselines.get(each, "")) for each in dict.fromkeys(ordered) if each != series_id]


def numbers_text(numbers: Sequence[int]) -> str:
    """Return `run 3`, `runs 3-7`, `runs 3, 5-7`; empty without any."""
    ordered = sorted(set(numbers))
    runs = [[number for _, number in group] for _, group in groupby(enumerate(ordered), lambda pair: pair[1] - pair[0])]
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"run{'s' if len(ordered) > 1 else ''} {', '.join(parts)}" if parts else ""
