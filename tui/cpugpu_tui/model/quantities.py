"""Format numbers for people: three or four significant digits, one unit, fixed width."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
"""Units of time with their length in nanoseconds."""


def significant(value: float) -> str:
    """Return three significant digits below a thousand, four above: `0.0352`, `3.52`, `35.2`, `352`, `35,230`."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    size = abs(value)
    if size >= 1e7:
        return f"{value:.3g}".replace("e+0", "e").replace("e+", "e")
    if size >= 999.5:
        digits = 3 - math.floor(math.log10(size))
        return f"{round(value, digits):,.0f}"
    decimals = min(max(2 - math.floor(math.log10(size)), 0), 4)
    text = f"{value:.{decimals}f}"
    if float(text) == 0:
        return "0"
    return text if decimals <= 2 or size < 1 else text[:5]


def duration(seconds: float) -> str:
    """Return `0:42`, `12:05` or `1:02:03`."""
    whole = max(0, round(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def time_text(ns: float) -> str:
    """Return a time in its own best unit: `35.2 µs`, `1.20 s`."""
    unit, length_ns = _unit(ns, 0.9995)
    return f"{significant(ns / length_ns)} {unit}"


def time_span(low_ns: float, high_ns: float) -> str:
    """Return two times in the unit of the longer one: `3.21–4.10 µs`."""
    unit, length_ns = _unit(high_ns, 0.9995)
    first, last = significant(low_ns / length_ns), significant(high_ns / length_ns)
    return f"{last} {unit}" if first == last else f"{first}–{last} {unit}"


def tick_text(ns: float) -> str:
    """Return a round time beside an axis in its own unit: `500 ns`, `10 µs`, `1 ms`."""
    unit, length_ns = _unit(ns, 0.999)
    value = ns / length_ns
    number = f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.4g}"
    return f"{number} {unit}" if ns else "0"


def _unit(ns: float, least: float) -> tuple[str, float]:
    """Return the largest unit of which a time is at least the share `least`, otherwise `ns`."""
    return next((unit for unit in _UNITS if ns >= least * unit[1]), _UNITS[-1])


def size_text(size: int) -> str:
    """Return a size: `1,000`, `1,926,153`; whole millions and billions as `10M`, `2G`."""
    for unit, prefix in ((10**9, "G"), (10**6, "M")):
        if size and size % unit == 0:
            return f"{size // unit:,}{prefix}"
    return f"{size:,}"


def gib(value: float) -> str:
    """Return bytes as GiB without the unit: `12.1`, `0.4`, `141`."""
    number = value / 2**30
    return f"{number:.0f}" if number >= 99.95 else f"{number:.1f}"


def megabytes(size_bytes: int) -> str:
    """Return the size of a file or disk in MB or GB: `12.1 MB`."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"


def rate_text(rate: float, unit: str) -> str:
    """Return a rate in `FLOP/s` or `B/s` with its prefix: `4.05 TB/s`, `940 GFLOP/s`."""
    return f"{significant(rate / 1e12)} T{unit}" if rate >= 1e12 else f"{significant(rate / 1e9)} G{unit}"


LEAST_SHOWN = 0.001
"""Smaller half-widths are shown as this share."""


def percent(share: float) -> str:
    """Return a share in percent without the sign; two significant digits below ten."""
    value = share * 100
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def share_text(share: float, digits: int = 0) -> str:
    """Return a share in percent: `95 %`, with one digit `95.2 %`."""
    return f"{share:.{digits}%}".replace("%", " %")


def of_peak(share: float, whole: str = "", at_peak: str = "at peak") -> str:
    """Return a share of a measured peak rate, `95 %`, followed by `whole`; from 99.5 % on the words `at_peak`.

    The peak is measured, too, so a row can exceed it slightly. `compute 101 %` raised questions.
    """
    return at_peak if share >= 0.995 else f"{percent(share)} %{whole}"


def factor(ratio: float) -> str:
    """Return a speedup or another ratio: `35.8×`, `0.0520×`."""
    return f"{significant(ratio)}×"


def faster(ratio: float) -> str:
    """Return a speedup in words: `35.8× faster`, `19.2× slower`."""
    return f"{factor(ratio)} faster" if ratio >= 1 else f"{factor(1 / ratio)} slower"


def plus_minus(share: float) -> str:
    """Return the half-width of an interval, at least 0.1 %: `± 4.2 %`."""
    return f"± {percent(max(share, LEAST_SHOWN))} %"


def count_of(number: float, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 run`, `2,000 runs`, `1.5 cores`."""
    text = f"{number:,.0f}" if number % 1 == 0 else f"{number:g}"
    return f"{text} {noun if number == 1 else plural or f'{noun}s'}"


def counted(labels: Iterable[str]) -> list[str]:
    """Return each label once, in order of first occurrence; `4 × NVIDIA H200` if it occurs four times."""
    return [label if count == 1 else f"{count} × {label}" for label, count in Counter(labels).items()]


def joined(parts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def named(axis: str, sign: str, size: int) -> str:
    """Return a size with the name of its axis: `n = 2,048`, `n ≈ 205`, `batch 32`, `≈ 4,096 hidden units`."""
    first, noun = axis.split(" ")[0], noun_of(axis)
    if size == 1:
        noun = f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")
    sign = "" if sign == "=" and len(first) != 1 else sign
    return " ".join(filter(None, (sign, size_text(size), noun) if noun else (first, sign, size_text(size))))


def noun_of(axis: str) -> str:
    """Return the noun after a size: `elements` for `elements of each vector`; empty for `n` and `batch`."""
    first = axis.split(" ")[0]
    return "" if len(first) == 1 or first == "batch" else axis.split(" of ")[0].split(" in ")[0]
