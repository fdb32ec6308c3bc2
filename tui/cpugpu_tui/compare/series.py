"""Series of runs, and finding them by name in an open history."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import groupby
from statistics import NormalDist, fmean
from typing import NamedTuple

from cpugpu_tui.analysis.compare import FALSE_WORDS, GATE_RUNS, MIN_RUNS
from cpugpu_tui.analysis.pairs import SINGLE
from cpugpu_tui.config.paths import with_database
from cpugpu_tui.decide.stats import Variance, moderated, quantile
from cpugpu_tui.errors import NoSuchRunError, UnfitError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import DEVICE, LATENCY, Plan, Simulation
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.state.folding import MeasuredRun, measured
from cpugpu_tui.store import RunSummary, Store

MOST_LOOKED_THROUGH = 200
"""Most runs among which the previous series is searched."""

LIKE = 0.7
"""How much a name must resemble another one to be meant, for `difflib`: `last` and `latest` have 0.8."""


@dataclass(frozen=True)
class Series:
    """Runs of one plan in one environment."""

    name: str
    """Its name as the user gave it, `baseline main`, or `this series`."""
    runs: tuple[MeasuredRun, ...]
    """Oldest first."""

    @property
    def text(self) -> str:
        """`baseline main (runs 3-7)`, `run 12`."""
        numbers = numbers_text([run.number for run in self.runs if run.number is not None])
        if numbers in self.name:  # a name from another database contains its numbers
            return self.name
        return f"{self.name} ({numbers})" if self.name else numbers

    @property
    def starved_cases(self) -> tuple[int, int]:
        """Number of cases that had no free CPU core in some run, and number of all cases."""
        cases = {key for run in self.runs for key in run.cases}
        return len({key for run in self.runs for key, case in run.cases.items() if case.starved}), len(cases)


FREE_CORES_REMEDY = "Stop other work on this machine and run again."
"""Remedy for cases whose threads lacked a CPU core. One thread may have lacked it, too."""


def series_named(store: Store, text: str) -> Series:
    """Return the series with this name: a baseline, a name that `Store.find` knows, or a tag of its newest run.

    Raises:
        UsageError: the baseline, run or tag is unknown, or its series has no finished run.
        StoreError: the history cannot be read.
    """
    series_id = store.baselines().get(text)
    if series_id is not None:
        return series_of_id(store, series_id, f"baseline {text}")
    try:
        return series_of_id(store, store.series_of(store.find(text)), typed=text)
    except UsageError as error:
        tagged = store.runs(1, tags=[text])
        if not tagged:
            raise _unknown(store, text, error) from error
    return series_of_id(store, tagged[0].series_id, f"tag {text}")


def _unknown(store: Store, text: str, error: UsageError) -> UsageError:
    """Return the error for an unknown name; for numbers and ambiguous names the one of `Store.find`."""
    if text.isdigit() or not store.count() or not isinstance(error, NoSuchRunError):
        return error
    known = list(store.baselines())
    baselines = ", ".join(map(printable, known))
    message = f"Unknown baseline, run or tag {printable(text)!r}.{f' Known baselines: {baselines}.' if known else ''}"
    near = get_close_matches(text, ["latest", *known], 1, LIKE)
    if near or not is_baseline_name(text) or text.endswith((".json", ".ndjson")):
        return UsageError(message, f"Did you mean {printable(near[0])!r}?" if near else error.remedy)
    create = with_database(f"cpugpu-tui baseline {shlex.quote(text)} latest")
    history = with_database("cpugpu-tui history")
    return UsageError(message, f"To list runs, use `{history}`. To create this baseline, use `{create}`.")


def series_of_id(store: Store, series_id: str, name: str = "", typed: str = "") -> Series:
    """Return a series by its id. An error calls it by its name, or as it was `typed`.

    Raises:
        UsageError: it has no finished run.
    """
    return series_from(name, [measured(store.load(run_id)) for run_id in store.runs_of(series_id)], typed)


def series_from(name: str, runs: Sequence[MeasuredRun | None], typed: str = "") -> Series:
    """Return a series of those runs that began.

    Raises:
        UsageError: none of them began.
    """
    known = tuple(run for run in runs if run is not None)
    if not known:
        called = name or (f"the series of {printable(typed)!r}" if typed else "that series")
        raise UsageError(
            f"No run of {called} has a timed case.", f"List runs with `{with_database('cpugpu-tui history')}`."
        )
    return Series(name, known)


def other_series(store: Store, series_id: str, name: str, *, simulated: bool) -> list[tuple[str, str]]:
    """Return (id, name) of the series to compare a series with: the previous one first, then older ones.

    They are the other series of the same preset or workload, followed by the other baselines. The name is
    `baseline main`, or empty.
    """
    baselines = {each: f"baseline {known}" for known, each in store.baselines().items()}
    ids = series_called(store.runs(MOST_LOOKED_THROUGH), name, simulated=simulated)
    # A saved run may be followed by newer series, which come after the older ones.
    place = ids.index(series_id) + 1 if series_id in ids else 0
    ordered = [*ids[place:], *ids[:place], *baselines]
    return [(each, baselines.get(each, "")) for each in dict.fromkeys(ordered) if each != series_id]


def series_called(runs: Iterable[RunSummary], name: str, *, simulated: bool) -> list[str]:
    """Return the ids of the series of a preset or workload that have results, in the order of their runs."""
    return list(dict.fromkeys(
        run.series_id for run in runs
        if run.name == name and run.simulated == simulated and run.cases_ok and run.status != "running"
    ))  # fmt: skip


def checked_baseline(name: str) -> str:
    """Return the name of a new baseline.

    Raises:
        UsageError: the name could be mistaken for a run or a file, or is not printable.
    """
    if not is_baseline_name(name):
        raise UsageError(f"Invalid baseline name {printable(name, 40)!r}.", "Use a word such as main.")
    return name


def set_baseline(store: Store, name: str, series_id: str, typed: str = "") -> tuple[Series, str, str]:
    """Name a series as a baseline. Return it, a sentence with the runs that it replaces, and a remark for `gate`.

    The remark is empty if `gate` has enough runs.

    Raises:
        UsageError: the series has no finished run.
        UnfitError: in every case, threads lacked a core.
    """
    series = series_of_id(store, series_id, typed=typed)
    count = sum(run.has_times for run in series.runs)
    if series.starved_cases[0] and not count:
        raise UnfitError(
            f"{series.text.capitalize()} cannot be a baseline: in every case, threads lacked a core.", FREE_CORES_REMEDY
        )
    old = store.set_baseline(name, series_id)
    # At 40 columns the app shows only the beginning.
    replaced = f" (was {numbers_text(old)})" if old else ""
    few = f"`gate` needs {GATE_RUNS} runs." if count < GATE_RUNS else _short_cases(series)
    return series, f"Baseline {name} is {series.text}{replaced}.", few


def _short_cases(series: Series) -> str:
    """Return how many planned cases some runs skipped, so that `gate` cannot judge them; empty without any."""
    cases = (case for run in series.runs for case in run.cases.values() if case.median_ns and not case.is_chosen)
    timed = Counter(case.case.key for case in cases)
    short = sum(count < GATE_RUNS for count in timed.values())
    return f"`gate` needs {GATE_RUNS} runs of each case: {short} of {len(timed)} cases had fewer." if short else ""


def is_baseline_name(name: str) -> bool:
    """Whether a baseline may have this name."""
    is_other = not name or name.isdigit() or name == "latest" or ":" in name or "/" in name
    return not is_other and printable(name) == name


def numbers_text(numbers: Sequence[int]) -> str:
    """Return `run 3`, `runs 3-7`, `runs 3, 5-7`; empty without any."""
    ordered = sorted(set(numbers))
    runs = [[number for _, number in group] for _, group in groupby(enumerate(ordered), lambda pair: pair[1] - pair[0])]
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"run{'s' if len(ordered) > 1 else ''} {', '.join(parts)}" if parts else ""


NAME = "noise"
"""Name of its runs in the history."""

REPEATS = 5
"""Runs of a series, each in a fresh process."""

SIZES = "64,512,2048"
"""Matrix products of microseconds, of about a millisecond on a CPU, and of tens of them."""

MOST_S = 8.0
"""Time limit of a run, so that five of them and their starts end within a minute."""

ROUNDS = 8

RUNS = (1, 5, 10)
"""Runs on each side for which the floor is told."""

FOUND = NormalDist().inv_cdf(0.9)
"""A change as large as the floor is found in 90 % of comparisons."""

MUCH_NOISIER = 1.5
"""A spread that grew by this factor is told. Two spreads of five runs each differ by 2.5 times in 5 % by chance, and
six classes together by 1.5 times."""


@dataclass(frozen=True)
class Floor:
    """How much a time of one case varies between fresh processes, and what that hides."""

    case: str
    """`Case.key`."""
    device: str
    """`CPU`, `GPU` or `GPU 2`."""
    metric: str
    """`LATENCY`, or `DEVICE` for kernel time."""
    median_ns: float
    """Geometric mean over the runs of their medians."""
    spread: float
    """Standard deviation of ln(time) between runs, moderated within its class (`stats.moderated`)."""
    degrees: float
    """Degrees of freedom of `spread`."""
    lent: float
    """Those of them that other cases of the class lend, to a comparison as well."""

    @property
    def label(self) -> str:
        """`CPU`, `GPU`, or `GPU kernels` for kernel time."""
        return f"{self.device} kernels" if self.metric == DEVICE else self.device

    def change(self, runs: int) -> float:
        """Return the smallest change that shows with so many runs on each side, 0.05 for 5 %.

        With `MIN_RUNS` or more: found in 90 % of comparisons of this case alone, at the level of their words. With
        fewer there is no word; a larger change would be chance in 5 % of pairs of runs.
        """
        error = self.spread * math.sqrt(2 / runs)
        if runs < MIN_RUNS:
            return math.expm1(quantile(SINGLE, self.degrees) * error)
        degrees = 2 * (runs - 1) + self.lent
        least = quantile(FALSE_WORDS, degrees)
        # The noncentral t that exceeds `least` in 90 % (Johnson and Welch 1940, doi:10.1093/biomet/31.3-4.362).
        return math.expm1((least + FOUND * math.sqrt(1 + least**2 / (2 * degrees))) * error)


class Noise(NamedTuple):
    """The noise floor of a machine, and the series that showed it before."""

    now: Series
    floors: tuple[Floor, ...]
    before: Series | None


def noise_plan(devices: tuple[str, ...], simulation: Simulation | None) -> Plan:
    """Return the plan of a run that measures the noise floor."""
    asked = PlanRequest(("matmul",), sizes=SIZES, devices=devices, max_seconds=MOST_S, simulation=simulation)
    return replace(build_plan(asked), name=NAME, metrics=(LATENCY, DEVICE), rounds=ROUNDS, max_rounds=ROUNDS)


def newest(series: Iterable[Series]) -> Noise | None:
    """Return the floor of the first of these series that has one, and the next series; None without any."""
    rest = iter(series)
    found = next(((each, own) for each in rest if (own := floors(each.runs))), None)
    return Noise(*found, next(rest, None)) if found is not None else None


def floors(runs: Sequence[MeasuredRun]) -> tuple[Floor, ...]:
    """Return the floor of each time that two runs or more have, device by device in the order of the plan."""
    classes: dict[tuple[str, str], list[Floor]] = {}
    for key in dict.fromkeys(key for run in runs for key in run.cases):
        cases = [run.cases[key] for run in runs if key in run.cases]
        for metric, found in ((LATENCY, [each.median_ns for each in cases]), (DEVICE, [c.kernel_ns for c in cases])):
            for device in dict.fromkeys(name for times in found for name in times):
                own = _floor(key, device, metric, [times[device] for times in found if device in times])
                if own is not None:
                    classes.setdefault((device, metric), []).append(own)
    return tuple(each for alike in classes.values() for each in _moderated(alike))


def _floor(case: str, device: str, metric: str, times_ns: Sequence[float]) -> Floor | None:
    logs = [math.log(ns) for ns in times_ns]
    if len(logs) < 2:
        return None
    middle, degrees = fmean(logs), len(logs) - 1
    spread = math.sqrt(math.fsum((each - middle) ** 2 for each in logs) / degrees)
    return Floor(case, device, metric, math.exp(middle), spread, degrees, 0.0) if spread else None


def _moderated(alike: Sequence[Floor]) -> list[Floor]:
    shared = moderated([Variance(each.spread**2, each.degrees) for each in alike])
    return [
        replace(each, spread=math.sqrt(new.value), degrees=new.degrees, lent=new.degrees - each.degrees)
        for each, new in zip(alike, shared, strict=True)
    ]


def by_class(found: Sequence[Floor]) -> Mapping[str, float]:
    """Return `Floor.label` → spread of its times, in quadratic mean."""
    labels = dict.fromkeys(each.label for each in found)
    return {label: math.sqrt(fmean(each.spread**2 for each in found if each.label == label)) for label in labels}


def grown(before: Sequence[Floor], now: Sequence[Floor]) -> Mapping[str, float]:
    """Return label → factor for the classes whose spread grew by `MUCH_NOISIER` or more."""
    old, new = by_class(before), by_class(now)
    factors = {label: new[label] / old[label] for label in new if old.get(label)}
    return {label: factor for label, factor in factors.items() if factor >= MUCH_NOISIER}
