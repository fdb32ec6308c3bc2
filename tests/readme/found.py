"""What recordings of an H200 say on a published figure: the columns "found here" and "agree?" of docs/crossovers.md.

`survey.ndjson.gz` is the run of `cpugpu-tui survey` on an NVIDIA H200 with 16 threads of an Intel Xeon (2026-11-28,
version 0.3.0, torch 2.11.0+cu130). It is the run's export without names, without readings of the machine and with two
metrics, latency and the latency with copies. A newer export takes its place with `python -m tests.readme.found EXPORT`;
then `make readme` renews the page.
"""

import gzip
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from cpugpu_tui import model
from cpugpu_tui.demo.recording import shipped
from cpugpu_tui.export.anonymize import anonymized
from cpugpu_tui.export.json_document import read_runs
from cpugpu_tui.export.stream import ExportedRun, ndjson
from cpugpu_tui.model.quantities import count_of, factor, faster, named, rate_text, time_text
from cpugpu_tui.render.crossover_words import ends_text, reason_words, where
from cpugpu_tui.report.conditions import Condition
from cpugpu_tui.report.report import SweepReport, report
from cpugpu_tui.report.segments import CPU, EQUAL, GPU, Size

SURVEYED = Path(__file__).with_name("survey.ndjson.gz")
SURVEY, DEMO = "survey", "demo"
"""The recordings: the file beside this one, and the demo's."""

NEAR = 2.0
"""Two figures agree, and two sizes are compared, if the larger is at most this many times the smaller."""

YES, NO_FIGURE, NO_WINNER, OTHER_SIZE = "yes", "–", "– (no winner)", "– (other size)"
NOT_MEASURED = "– (not measured)"

_LEFT_OUT = (model.MachineRead, model.TelemetryRead, model.TensorsPlaced)
_METRICS = (model.LATENCY, model.PAGEABLE)


class Finding(NamedTuple):
    """What was found here on one figure."""

    text: str
    agrees: str
    """`yes`, `no: …`, or `– (…)` with the reason why nothing compares."""


class Place(NamedTuple):
    """Where a figure's counterpart is recorded."""

    recording: str
    workload: str
    variant: str
    """Empty for the only one that the recording has."""

    def sweeps(self, variant: str = "") -> list[SweepReport]:
        """Return the sweeps of the workload in the recording."""
        wanted = variant or self.variant
        found = [each for run in runs(self.recording) for each in report(run.state).sweeps]
        return [each for each in found if each.sweep[0] == self.workload and wanted in ("", each.rows[0].case.variant)]

    def nearest(self, size: int, *, copies: bool = False, variant: str = "") -> tuple[str, Size] | None:
        """Return the axis, and the size nearest to this one that both devices timed; of equal ones the most rounds."""
        found = [
            (each.axis, timed)
            for each in self.sweeps(variant)
            for timed in (each.with_copies if copies else each.resident).timed
        ]
        return min(found, key=lambda pair: (apart(pair[1].size, size), -_rounds(pair[1])), default=None)


class Query(Protocol):
    """A published figure, and how its counterpart here is found."""

    def finding(self, place: Place) -> Finding:
        """Return the counterpart, and whether it agrees."""


@cache
def runs(recording: str) -> tuple[ExportedRun, ...]:
    """Return the runs of a recording."""
    if recording == DEMO:
        return shipped().runs
    return tuple(read_runs(gzip.decompress(SURVEYED.read_bytes()), SURVEYED.name))


@dataclass(frozen=True)
class Crossover:
    """A size from which the GPU wins; with `high` somewhere between both. Without a size it is not compared."""

    low: float = 0.0
    high: float = 0.0
    copies: bool = False

    def finding(self, place: Place) -> Finding:
        """Return where the GPU wins here, by the sweep with the narrowest bracket."""
        found = [(each.axis, each.with_copies if self.copies else each.resident) for each in place.sweeps()]
        axis, narrowest = min(found, key=lambda pair: _width(pair[1]))
        return Finding(("with copies " if self.copies else "") + where(narrowest, axis, with_bracket=True),
                       self._agrees(narrowest))  # fmt: skip

    def _agrees(self, here: Condition) -> str:
        low, high = bracket_of(here)
        if not self.low:
            return NO_FIGURE
        distance = max(low / (self.high or self.low), self.low / high)
        if distance > NEAR:
            return f"no: {factor(distance)}"
        return YES if low and high < math.inf else NO_WINNER


@dataclass(frozen=True)
class Speedup:
    """CPU time / GPU time at a size, 1 if they were called equally fast; without a ratio it is not compared."""

    size: int
    ratio: float | None = None
    copies: bool = False

    def finding(self, place: Place) -> Finding:
        """Return the speedup here at the nearest size."""
        found = place.nearest(self.size, copies=self.copies)
        if found is None:
            return Finding("–", NOT_MEASURED)
        axis, here = found
        text = f"{named(axis, '=', here.size)}{' with copies' if self.copies else ''}: {speedup_words(here)}"
        return Finding(text, OTHER_SIZE if apart(here.size, self.size) > NEAR else self._agrees(here))

    def _agrees(self, here: Size) -> str:
        if self.ratio is None or here.comparison is None:
            return NO_FIGURE
        if here.winner is None and here.judgement != EQUAL:
            return NO_WINNER
        theirs = GPU if self.ratio > 1 else CPU if self.ratio < 1 else None
        if here.winner != theirs:
            return f"no: the {here.winner} wins" if here.winner else "no: equally fast"
        return within_factor(here.comparison.speedup, self.ratio)


@dataclass(frozen=True)
class Gain:
    """The claim that the speedup is higher at the larger of two sizes."""

    small: int
    large: int

    def finding(self, place: Place) -> Finding:
        """Return both speedups here."""
        below, above = (Speedup(size).finding(place).text for size in (self.small, self.large))
        ends = [found[1] for size in (self.small, self.large) if (found := place.nearest(size))]
        first, last = (each.comparison.speedup if each.comparison and each.winner else math.nan for each in ends)
        return Finding(f"{below}; {above}", NO_WINNER if math.isnan(first + last) else YES if last > first else "no")


@dataclass(frozen=True)
class Pinned:
    """Bandwidth of copies to the GPU from pinned memory / from pageable memory."""

    size_bytes: int
    ratio: float

    def finding(self, place: Place) -> Finding:
        """Return both bandwidths here at the nearest size, the same for both."""
        sizes: list[Size] = []
        for kind in ("pinned", "pageable"):
            found = place.nearest(sizes[0].size if sizes else self.size_bytes, variant=f"h2d-{kind}")
            assert found is not None, kind
            sizes.append(found[1])
        pinned, pageable = (size.size / size.gpu_ns for size in sizes if size.gpu_ns)
        unit, unit_bytes = ("GiB", 2**30) if sizes[0].size >= 2**30 else ("MiB", 2**20)
        text = f"{sizes[0].size / unit_bytes:g} {unit}: pinned {rate_text(pinned * 1e9, 'B/s')}, pageable "
        near = apart(sizes[0].size, self.size_bytes) <= NEAR
        agrees = within_factor(pinned / pageable, self.ratio) if near else OTHER_SIZE
        return Finding(f"{text}{rate_text(pageable * 1e9, 'B/s')}", agrees)


@dataclass(frozen=True)
class GpuTime:
    """Time of one call on the GPU at the smallest size, ns."""

    ns: float

    def finding(self, place: Place) -> Finding:
        """Return the time here."""
        found = place.nearest(1)
        if found is None or found[1].gpu_ns is None:
            return Finding("–", NOT_MEASURED)
        axis, here = found
        return Finding(f"{named(axis, '=', here.size)}: {time_text(found[1].gpu_ns)}",
                       within_factor(found[1].gpu_ns, self.ns))  # fmt: skip


def speedup_words(here: Size) -> str:
    """Return `10.1× faster (7.94–12.6×)`, or `unclear: 0.994× (0.868–1.62×), too noisy`."""
    found = here.comparison
    assert found is not None
    interval = ""
    if found.low and found.high:
        ends = (1 / found.high, 1 / found.low) if here.winner == CPU else (found.low, found.high)
        interval = f" ({ends_text(*ends)})"
    if here.winner is None:
        unclear = "" if here.judgement == EQUAL else "unclear: "
        return f"{unclear}{factor(found.speedup)}{interval}, {reason_words(here)}"
    return f"{faster(found.speedup)}{interval or ', ' + count_of(found.rounds, 'round')}"


def bracket_of(here: Condition) -> tuple[float, float]:
    """Return the sizes between which the GPU begins to win; 0 or infinite where an end is not known."""
    rising = [change for change in here.changes if change.rises]
    if rising:
        return rising[-1].low, rising[-1].high
    wins: dict[str | None, list[int]] = {CPU: [0], GPU: []}
    for size in here.decided:
        wins[size.winner].append(size.size)
    return max(wins[CPU]), min(wins[GPU], default=math.inf)


def within_factor(here: float, theirs: float) -> str:
    """Return `yes` for two figures that agree, else `no` with the factor between them."""
    distance = apart(here, theirs)
    return YES if distance <= NEAR else f"no: {factor(distance)}"


def apart(one: float, other: float) -> float:
    """Return the larger of two figures / the smaller."""
    return max(one / other, other / one)


def _rounds(size: Size) -> int:
    return size.comparison.rounds if size.comparison else 0


def _width(here: Condition) -> float:
    low, high = bracket_of(here)
    return high / low if low else math.inf


def trimmed(run: ExportedRun) -> ExportedRun:
    """Return a run with only what its report needs: neither readings of the machine nor other metrics."""
    return ExportedRun(tuple(
        replace(event, samples={name: event.samples[name] for name in _METRICS if name in event.samples})
        if isinstance(event, model.DeviceSampled) else event
        for event in run.events if not isinstance(event, _LEFT_OUT)
    ))  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Replace the recording of the survey by the first run of an export."""
    data = Path(arguments[0]).read_bytes()
    plain = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    runs = [trimmed(run) for run in anonymized(read_runs(plain, arguments[0])[:1], messages=True)]
    SURVEYED.write_bytes(gzip.compress(b"".join(ndjson(runs)), 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1:])
