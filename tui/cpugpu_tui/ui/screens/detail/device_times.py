"""One device's part of the details: rounds, metrics, a histogram of its samples, remarks, the place of its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from cpugpu_tui.analysis.ceilings import UNAFFECTED, fault_text
from cpugpu_tui.decide.stats import median, percentile
from cpugpu_tui.model import Device, names
from cpugpu_tui.model.quantities import count_of, faster, percent, time_text
from cpugpu_tui.render.answers import row_with_threads
from cpugpu_tui.render.columns import COLD, COLUMNS, Key, kernels_heading
from cpugpu_tui.render.verdicts import device_marks, mark_words
from cpugpu_tui.state.condition import reason_lines
from cpugpu_tui.state.device_times import ENOUGH_FOR_TAILS, DeviceTimes
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.glyphs import Glyphs, trend_lines, trend_text
from cpugpu_tui.ui.panes.lines import Spans, labelled, paragraph, spelled, width_of, wrapped
from cpugpu_tui.workloads import REGISTRY

OUTLYING = 14.826
"""Median absolute deviations from the median beyond which a sample is an outlier: ten standard deviations of a
normal distribution."""

FEWEST = 10
"""Fewest samples for a histogram."""

HEIGHT = 3
"""Lines of the histogram, which show 24 heights."""


class Distribution(NamedTuple):
    """Samples sorted into bins of equal width; outliers are counted beside them."""

    low_ns: float
    """Lower edge of the first bin: the smallest sample without outliers."""
    high_ns: float
    """Upper edge of the last bin."""
    bins: tuple[int, ...]
    """Samples in each bin; one bin if all samples are equal."""
    median_ns: float
    """Of all samples."""
    outliers: tuple[float, ...]
    """Samples further than `OUTLYING` deviations from the median, ns."""
    can_tell: bool
    """Whether outliers can be found: not if more than half of the samples are equal."""


def distribution(values: Sequence[float]) -> Distribution:
    """Sort samples in ns into bins; the number of bins follows Rice's rule.

    Raises:
        ValueError: `values` is empty.
    """
    middle = median(values)
    deviation = median([abs(value - middle) for value in values])
    outliers = tuple(value for value in values if deviation > 0 and abs(value - middle) > OUTLYING * deviation)
    inner = [value for value in values if deviation == 0 or abs(value - middle) <= OUTLYING * deviation]
    low, high = min(inner), max(inner)
    count = min(max(round(2 * len(inner) ** (1 / 3)), 8), 24) if high > low else 1
    bins = [0] * count
    for value in inner:
        share = (value - low) / (high - low) if high > low else 0.0
        bins[min(int(share * count), count - 1)] += 1
    return Distribution(low, high, tuple(bins), middle, outliers, deviation > 0)


def distribution_lines(times: DeviceTimes, width: int, glyphs: Glyphs, series: str) -> list[Spans]:
    """Return the histogram and the outliers of single calls, or of blocks if no call was timed alone."""
    singles = times.single_calls_ns
    values, noun = (singles, "single calls") if singles else (times.samples.get(names.LATENCY, ()), "blocks of calls")
    if len(values) < FEWEST:
        return []
    found = distribution(values)
    if len(found.bins) == 1:
        same = f"all {len(values) - len(found.outliers)} {noun} took {time_text(found.low_ns)}"
        return [*paragraph(same, width), *_outlying(found, width)]
    title = f"distribution of {len(values)} {noun}, fastest left (highest bar: {max(found.bins)})"
    cell = _cell(found, width)
    heights = [float(count) if count else None for count in found.bins for _ in range(cell)]  # no bar without samples
    drawn = trend_lines(heights, len(heights), HEIGHT, 0.0, max(found.bins), glyphs)
    bars: list[Spans] = [((f"    {line}", series),) for line in drawn]
    return [*paragraph(title, width, "muted"), *bars, *_axis(found, width), *_outlying(found, width)]


def _cell(found: Distribution, width: int) -> int:
    """Return the cells of one bar: one is hard to read, and more than three do not fit into 80 columns."""
    return 3 if 3 * len(found.bins) <= width // 2 else 2


def _axis(found: Distribution, width: int) -> list[Spans]:
    """Return the times under the first and last bar, and their distance."""
    left, right = time_text(found.low_ns), time_text(found.high_ns)
    axis = f"{left}{right:>{_cell(found, width) * len(found.bins) - len(left)}}"
    spread = (found.high_ns - found.low_ns) / found.median_ns if found.median_ns > 0 else 0.0
    return _with_remark(((f"    {axis}", "muted"),), f"{percent(spread)} % of the median apart", width)


def _outlying(found: Distribution, width: int) -> list[Spans]:
    """Return the number of outliers and the furthest; all numbers include them."""
    if not found.can_tell:
        return paragraph("outliers unknown: more than half of the samples are equal", width, "muted")
    count = len(found.outliers)
    beyond = f"further than {OUTLYING:.1f} median deviations from the median"
    if not count:
        return paragraph(f"no outliers ({beyond})", width, "muted")
    least, most = min(found.outliers), max(found.outliers)
    far = f"the slowest {time_text(most)}" if most > found.median_ns else f"the fastest {time_text(least)}"
    text = f"{count_of(count, 'outlier')} ({beyond}), {far}; included in all numbers, but not drawn"
    return paragraph(text, width)


METRICS = {
    names.LATENCY: ("latency", "one call and its wait, warm caches"),
    names.SINGLE: ("single calls", "each call timed separately"),
    names.DEVICE: ("kernels", "the GPU's own work, no launch, no wait"),
    names.THROUGHPUT: ("throughput", "many calls queued, one wait"),
    names.PAGEABLE: (COLUMNS[Key.MOVED].heading, "data starts and ends on the host"),
    names.PINNED: ("same, pinned", "the same in pinned memory"),
    names.AS_WRITTEN: ("paper's clock", "time by the paper's clock"),
    names.SYNCED: ("same, with a wait", "until the device had finished"),
    names.COLD_START: ("first call", "first in the process, loads libraries"),
}
"""Metric → label and meaning."""

COLDER = (
    "Cold kernels take longer than the latency: caches are emptied before each of them, but are warm in the latency."
)


def times_lines(run: RunState, row: Row, device: Device, times: DeviceTimes, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a device's heading, rounds, metrics, distribution and remarks."""
    series = "cpu" if device.is_cpu else "gpu"
    simulated = " (simulated)" if device.simulated else ""
    lines: list[Spans] = [
        ((device.name.upper() if device.is_cpu else device.name, series), (f"  {device.label}{simulated}", "muted"))
    ]
    lines += _how(device, times)
    if row.status != "mismatch":
        lines += _table(times, _words(run, row), width, glyphs)
        lines += _untimed_kernels(run, times, width, glyphs)
        lines += _rounds(times, width, glyphs, series)
        lines += _one_thread(run, row, times, width, glyphs) if device.is_cpu else []
        lines += distribution_lines(times, width, glyphs, series)
    return lines + _odd(times, row, width)


def placed_lines(times: DeviceTimes, width: int) -> list[Spans]:
    """Return the shape, dtype and device of inputs and results."""
    placed = times.placed
    if placed is None:
        return []
    lines: list[Spans] = []
    for what, tensors in (("inputs", placed.inputs), ("results", placed.results)):
        for index, text in enumerate(_counted(tensors)):
            head = "tensors" if not lines else ""
            lines += labelled(f"  {head:<9}{'' if index else what}", wrapped(text, width - 19), 19)
    return lines


def _counted(tensors: Sequence[str]) -> list[str]:
    """Return lines without repetitions, with their number: `[64, 64] float32 on cuda:0, twice`."""
    counts = [(text, len(list(same))) for text, same in groupby(tensors)]
    return [text if count == 1 else f"{text}, {'twice' if count == 2 else f'{count} times'}" for text, count in counts]


def _how(device: Device, times: DeviceTimes) -> list[Spans]:
    """Return the number of rounds, blocks and calls, and on a CPU of threads."""
    calibrated = times.calibrated
    if calibrated is None:
        return []
    counts = (max(len(times.round_ns), 1), calibrated.blocks, calibrated.calls_per_block)
    how = " of ".join(count_of(count, noun) for count, noun in zip(counts, ("round", "block", "call"), strict=True))
    if calibrated.rounds * calibrated.blocks * calibrated.calls_per_block == 1:
        how = "timed once: a call takes longer than the budget"
    threads = f", {count_of(calibrated.threads, 'thread')}" if device.is_cpu else ""
    which = f", in the first of {times.starts} starts" if times.starts > 1 else ""
    return [((f"  {how}{threads}{which}", "muted"),)]


def _words(run: RunState, row: Row) -> dict[str, str]:
    """Return metric → label for this row."""
    words = {name: label for name, (label, _) in METRICS.items()} | {names.DEVICE: kernels_heading(run)}
    workload = REGISTRY.get(row.case.workload)
    facts = workload.as_written if workload is not None else None
    if facts is not None and not facts.whole:
        words[names.AS_WRITTEN] = "paper's, 1st call"
    return words


def _table(times: DeviceTimes, words: Mapping[str, str], width: int, glyphs: Glyphs) -> list[Spans]:
    """Return one line per metric with the columns that fit, and why p90 and p99 are missing."""
    samples = {name: times.samples[name] for name in METRICS if times.samples.get(name)}
    if not samples:
        return [(("  no samples yet", "muted"),)]
    singles = times.single_calls_ns
    columns = ("median", "p90", "p99", "least")[: max((width - 25) // 11, 1)]
    header = f"  {'':<17}{'n':>6}{''.join(f'{name:>11}' for name in columns)}"
    lines: list[Spans] = [((header, "muted"),)]
    for name, values in samples.items():
        # The mean of a block hides the tails of latency; only calls timed separately show them.
        has_tails = len(values) >= ENOUGH_FOR_TAILS and (name != names.LATENCY or values == singles)
        tails = [time_text(percentile(values, p)) if has_tails else glyphs.none for p in (90, 99)]
        # The median is over all starts, the samples are of the first: its least was above the median.
        least_ns = min([*values, *(ns for rounds in times.later.values() for ns in rounds.get(name, {}).values())])
        numbers = [time_text(times.median_ns(name) or median(values)), *tails, time_text(least_ns)]
        text = f"{len(values):>6}" + "".join(f"{number:>11}" for number in numbers[: len(columns)])
        room = width - len(header) - 2
        helped = METRICS[name][1] if len(METRICS[name][1]) <= room else ""
        lines.append(((f"  {words[name]:<17}", "text"), (text, "strong" if name == names.LATENCY else "text"),
                      (f"  {helped}", "muted")))  # fmt: skip
    kernels_ns, latency_ns = times.median_ns(names.DEVICE), times.latency_ns
    has_kernels = words[names.DEVICE] == COLD and times.samples.get(names.DEVICE)
    if has_kernels and kernels_ns and latency_ns and kernels_ns > latency_ns:
        lines += paragraph(COLDER, width, "muted")
    why = f"for means of blocks, and for fewer than {ENOUGH_FOR_TAILS} samples"
    if len(singles) < ENOUGH_FOR_TAILS:
        why = f"they need {ENOUGH_FOR_TAILS} single calls, this row has {len(singles) or 'none'}"
    return [*lines, *paragraph(f"{glyphs.none} no p90 and p99: {why}", width, "muted")]


def _untimed_kernels(run: RunState, times: DeviceTimes, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a dash and the reason if the kernels were not timed because the event clock failed its check."""
    clock = run.clocks.get(times.device)
    if clock is None or clock.is_sound or not times.samples:
        return []
    text = f"{glyphs.none} not timed: {fault_text(clock)}. {UNAFFECTED}"
    return labelled(f"  {kernels_heading(run):<17}", wrapped(text, width - 19, "warn"), 19)


def _rounds(times: DeviceTimes, width: int, glyphs: Glyphs, series: str) -> list[Spans]:
    values = list(times.round_ns.values())
    if len(values) < 2:
        return []
    middle = median(values)
    relative = [value / middle - 1 for value in values] if middle > 0 else []
    bars = trend_text(relative, min(len(values), max(10, width - 50)), -rows.ROUND_RANGE, rows.ROUND_RANGE, glyphs)
    spread = (max(values) - min(values)) / middle if middle > 0 else 0.0
    line: Spans = (("  rounds           ", "text"), (bars, series))
    return _with_remark(line, f"spread {percent(spread)} % of the median", width)


def _with_remark(line: Spans, remark: str, width: int) -> list[Spans]:
    """Return a line with a remark behind it, or below it where it would be cut."""
    behind: Spans = ((f"  {remark}", "muted"),)
    return [(*line, *behind)] if width_of((*line, *behind)) <= width else [line, *paragraph(remark, width, "muted")]


def _one_thread(run: RunState, row: Row, times: DeviceTimes, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return the latency with one thread, if the run has that row."""
    other = row_with_threads(run, row, 1)
    single_ns = other.cpu.latency_ns if other is not None and other.cpu is not None else None
    if single_ns is None or not times.latency_ns:
        return []
    count = times.calibrated.threads if times.calibrated is not None else 0
    against = f"with {count}" if count else "here"
    ratio = faster(times.latency_ns / single_ns)
    text = f"one thread takes {time_text(single_ns)}, {ratio} than {against}"
    return paragraph(spelled(text, glyphs), width, "text")


def _odd(times: DeviceTimes, row: Row, width: int) -> list[Spans]:
    """Return marks and their effect; marked half-rounds always count."""
    lines: list[Spans] = []
    if not times.has_settled:
        lines += paragraph("~ warm-up did not settle to 1 % before its limit", width, "warn")
    for sentence in reason_lines(times):
        lines += paragraph(f"{sentence[0].upper()}{sentence[1:]}", width, "warn" if times.is_starved else "text")
    marks = device_marks(row, times)
    for mark in marks:
        lines += paragraph(f"~ {mark}: {mark_words(mark)}", width, "warn")
    if not marks or times.latency_ns is None or row.status == "mismatch":
        return lines
    if not times.clean_ns:
        return [*lines, *paragraph("all half-rounds have a mark, so a latency without them is unknown", width, "text")]
    clean_ns = median(times.clean_ns)
    changes = abs(clean_ns / times.latency_ns - 1) >= 0.005
    text = f"is {time_text(clean_ns)}" if changes else "is the same"
    return [*lines, *paragraph(f"without the marked half-rounds the latency {text}", width, "text")]
