"""Set recorded times of a GPU beside a CPU run of this machine. They are joined for output only.

Baselines, gates, claims and thresholds use only measured times, see `folding.measured_part`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from cpugpu_tui import model
from cpugpu_tui.decide.starts import starts_interval
from cpugpu_tui.decide.stats import median
from cpugpu_tui.errors import UsageError
from cpugpu_tui.model.quantities import joined
from cpugpu_tui.state.device_times import ROUND_METRICS, DeviceTimes, Extent
from cpugpu_tui.state.folding import once
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState

if TYPE_CHECKING:
    from cpugpu_tui.state.reference import RecordedCase, Reference, Start

RECORDED = model.RECORDED
"""Name of the recorded GPU among the devices of a run, and also the mark of each row with its times."""

Work = tuple[str, str, str]
"""(workload, variant, dtype). Unlike a `SweepKey` it has no threads, because a GPU's times do not depend on them."""

INTERPOLATED = "interpolated"
"""Mark of a row whose size lies between two recorded ones."""

NOT_RECORDED = "not-recorded"
"""Mark of a row of which the recorded GPU has no time."""


@once
def with_recorded(run: RunState) -> RunState:
    """Return a run with the recorded GPU that it stands beside; unchanged without one, or if its file is gone."""
    if not run.plan.beside or run.gpu is not None:
        return run
    from cpugpu_tui.state.reference import by_hash  # few runs need msgspec to be shown

    reference = by_hash(run.plan.beside)
    if reference is None:
        return run
    curves = _curves(run.plan.beside)
    gpu = model.Device(RECORDED, reference.text, simulated=reference.simulated)
    rows = {key: _joined(row, curves) for key, row in run.rows.items()}
    return replace(run, devices=(*run.devices, gpu), no_gpu=None, rows=rows)


def _joined(row: Row, curves: Mapping[Work, Curve]) -> Row:
    curve = curves.get((row.case.workload, row.case.variant, row.case.dtype))
    times = curve.at(row.case.size) if curve is not None and row.cpu is not None and row.status == "ok" else None
    return row if times is None else replace(row, times={**row.times, RECORDED: times})


def lacks_recorded(run: RunState, row: Row) -> bool:
    """Return whether a timed row has no recorded time beside it."""
    return row.status == "ok" and run.gpu is not None and run.gpu.name == RECORDED and RECORDED not in row.times


def neighbouring_sizes(run: RunState, row: Row) -> tuple[int, ...]:
    """Return the recorded sizes next to that of a row: one below, one above, as far as there are any."""
    curve = _curves(run.plan.beside).get((row.case.workload, row.case.variant, row.case.dtype))
    below, above = ([size for size in (curve.sizes if curve else ()) if (size < row.case.size) == is_below]
                    for is_below in (True, False))  # fmt: skip
    return (*below[-1:], *above[:1])


@lru_cache(maxsize=2)
def _curves(digest: str) -> Mapping[Work, Curve]:
    from cpugpu_tui.state.reference import by_hash

    reference = by_hash(digest)
    return {} if reference is None else curves_of(reference)


def curves_of(reference: Reference) -> Mapping[Work, Curve]:
    """Return workload, variant and dtype → their recorded times over the size."""
    by_work: dict[Work, list[RecordedCase]] = {}
    for each in reference.cases:
        by_work.setdefault(each.sweep, []).append(each)
    return {work: Curve(cases) for work, cases in by_work.items()}


def require_recorded(name: str, reference: Reference, cases: Iterable[model.Case]) -> None:
    """Refuse work of which a reference has no times at any size, such as a person's own code.

    Raises:
        UsageError: a case is of such work.
    """
    works = {each.sweep for each in reference.cases}
    lacking = [case for case in cases if (case.workload, case.variant, case.dtype) not in works]
    if not lacking:
        return
    dtypes = sorted({dtype for workload, variant, dtype in works
                     if (workload, variant) == (lacking[0].workload, lacking[0].variant)})  # fmt: skip
    what = f"{lacking[0].name} in {lacking[0].dtype}" if dtypes else lacking[0].name
    remedy = (
        f"It has {joined(dtypes)}." if dtypes
        else "Run this on a machine with a GPU, or choose from: " + ", ".join(sorted({each[0] for each in works})) + "."
    )  # fmt: skip
    raise UsageError(f"{name} has no recorded times of {what}.", remedy)


def is_offered(run: RunState) -> bool:
    """Return whether a run that found no GPU can be set beside the recorded one that is offered."""
    from cpugpu_tui.state.reference import OFFERED, read, shipped

    if run.no_gpu is None or run.plan.beside or "cpu" in run.plan.devices:  # nobody wanted a GPU
        return False
    with suppress(UsageError):
        require_recorded(OFFERED, read(shipped()[OFFERED], OFFERED), run.plan.cases)
        return True
    return False


class Curve:
    """The recorded times of a workload over its size."""

    def __init__(self, cases: Sequence[RecordedCase]) -> None:
        self._cases = sorted(cases, key=lambda case: case.size)
        self._by_size = {case.size: case for case in cases}

    @property
    def sizes(self) -> tuple[int, ...]:
        """The recorded sizes, in rising order."""
        return tuple(case.size for case in self._cases)

    def at(self, size: int) -> DeviceTimes | None:
        """Return the GPU's times at a size; None if it is neither recorded nor safely between two recorded sizes."""
        if (case := self._by_size.get(size)) is not None:
            return _times(case.starts, (RECORDED,))
        for low, high in pairwise(self._cases):
            if low.size < size < high.size:
                metrics = [metric for metric in (model.LATENCY, *ROUND_METRICS) if self._is_straight(low, high, metric)]
                starts = _between(low, high, size, metrics)
                return _times(starts, (RECORDED, INTERPOLATED)) if model.LATENCY in metrics else None
        return None

    def _is_straight(self, low: RecordedCase, high: RecordedCase, metric: str) -> bool:
        """Return whether the curve is straight on log-log around two neighbours, as far as the recorded sizes tell.

        Both have to lie on the line between their own neighbours; an end of the curve has only one and is not tested.
        """
        places = [place for each in (low, high) if 0 < (place := self._cases.index(each)) < len(self._cases) - 1]
        return bool(places) and all(self._is_on_line(place, metric) for place in places)

    def _is_on_line(self, place: int, metric: str) -> bool:
        """Return whether the line between a size's neighbours runs through the confidence interval of its times."""
        before, case, after = self._cases[place - 1 : place + 2]
        logs = [math.log(median(start[metric])) for start in case.starts if start.get(metric)]
        predicted = [math.log(median(start[metric]))
                     for start in _between(before, after, case.size, [metric]) if start.get(metric)]  # fmt: skip
        interval = starts_interval(logs)
        if interval is None or not predicted:
            return False
        return interval.low <= math.fsum(predicted) / len(predicted) <= interval.high


def _between(low: RecordedCase, high: RecordedCase, size: int, metrics: Sequence[str]) -> tuple[Start, ...]:
    """Return the times at a size between two others in each start that timed both, on a straight line in log-log."""
    share = math.log(size / low.size) / math.log(high.size / low.size)
    return tuple(
        {
            metric: [a ** (1 - share) * b**share for a, b in zip(one[metric], other[metric], strict=False)]
            for metric in metrics
            if one.get(metric) and other.get(metric)
        }
        for one, other in zip(low.starts, high.starts, strict=False)
    )


def _times(starts: Sequence[Start], marks: tuple[str, ...]) -> DeviceTimes:
    first, *later = (
        {metric: dict(enumerate(rounds, 1)) for metric, rounds in start.items() if rounds} for start in starts
    )
    others = {metric: rounds for metric, rounds in first.items() if metric != model.LATENCY}
    further = {metric: [ns for start in later for ns in start.get(metric, {}).values()] for metric in first}
    return DeviceTimes(
        RECORDED, round_ns=first.get(model.LATENCY, {}), other_round_ns=others, later=dict(enumerate(later, 1)),
        later_extent={metric: Extent(len(ns), min(ns), max(ns)) for metric, ns in further.items() if ns},
        samples={metric: tuple(rounds.values()) for metric, rounds in first.items()}, marks=marks,
    )  # fmt: skip
