"""The judgement of a sweep in words, from its report: where a device wins, what is unclear, and why.

Every face takes its words about several sizes from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from cpugpu_tui.decide.comparison import EQUIVALENCE, OBSERVED_RATIO, OBSERVED_ROUNDS, Change, Comparison
from cpugpu_tui.model.quantities import (
    count_of,
    factor,
    joined,
    named,
    noun_of,
    plus_minus,
    share_text,
    significant,
    size_text,
)
from cpugpu_tui.report import segments
from cpugpu_tui.report.conditions import Condition
from cpugpu_tui.report.segments import Range, Size

MOST_NAMED, MOST_IN_TABLE = 3, 2
"""Sizes that a sentence, and a table or list of many sweeps, name; more than these are counted."""

WIDE = 10.0
"""If ends differ by more than this factor, a bracket is shown without a point in it, a time without its interval."""

NARROW = 0.1
"""Largest half-width that is shown as `± 10 %`. Above it both ends are shown."""

EVEN = 1.01
"""Both ends are also shown if one is this much farther from the ratio than `±` says: 1.24× ± 16 % was 1.14–1.45×."""

WITHIN_START = "within this start"
"""What an interval is about if no other start of the process is known."""

WITHIN_TIE = f"within {share_text(EQUIVALENCE)}"

REASONS = {
    segments.TOO_FEW: "too few rounds", segments.UNSURE: "not sure enough",
    segments.ONE_START: "other starts may differ", segments.CLOSE: "too close to call",
    segments.MARGIN: "a tie is possible", segments.CONTRADICTED: "rounds disagree", segments.NOISY: "too noisy",
    segments.NOT_CONVERGED: "time ran out", segments.NO_CORE: "no core", "oom": "out of memory",
}  # fmt: skip
"""Reason of a size without a winner → its words. The other failures are called by their kind."""

# ------------------------------------------------------------------ one size


def reason_words(size: Size) -> str:
    """Return why a size has no winner, `too noisy`, `only 3 rounds`; empty if it has one."""
    if size.judgement == segments.EQUAL:
        return f"equal {WITHIN_TIE}"
    found = size.comparison
    if size.reason in (segments.TOO_FEW, segments.UNSURE) and found is not None and found.low is None:
        rounds = count_of(found.rounds, "round")
        if size.reason == segments.UNSURE:
            return f"{REASONS[segments.UNSURE]} in {rounds}"
        is_small = 1 / OBSERVED_RATIO < found.speedup < OBSERVED_RATIO
        is_enough = found.rounds >= OBSERVED_ROUNDS
        return f"only {rounds} and under {OBSERVED_RATIO:g}×" if is_small and is_enough else f"only {rounds}"
    return REASONS.get(size.reason, size.reason)


def ends_text(low: float, high: float) -> str:
    """Return both ends of a ratio: `7.41–14.6×`."""
    first, last = significant(low), significant(high)
    return f"{first}×" if first == last else f"{first}–{last}×"


def interval_text(comparison: Comparison) -> str:
    """Return the interval of a ratio: `± 4.2 %`, above ± 10 % or if it is uneven both ends; empty without one."""
    return _ends(comparison.low, comparison.speedup, comparison.high)


def _ends(low: float | None, ratio: float, high: float | None) -> str:
    if low is None or high is None or not 0 < low <= high < math.inf:
        return ""
    share = math.sqrt(high / low) - 1
    is_even = max(high / ratio, ratio / low) <= EVEN * (1 + share)
    return plus_minus(share) if share <= NARROW and is_even else ends_text(low, high)


def printed_interval(found: Comparison, *, is_inverse: bool = False) -> str:
    """Return the interval of a ratio, or of its inverse, and what it is about; empty without one.

    `± 4.2 % within this start` for one start, `8.1–13.0×; within this start 7.4–14.6×` if earlier starts gave it.
    """
    ends = found.low, found.speedup, found.high, found.within_low, found.within_high
    low, ratio, high, within_low, within_high = (1 / end if end and is_inverse else end for end in ends)
    if is_inverse:
        low, high, within_low, within_high = high, low, within_high, within_low
    text, within = _ends(low, ratio or 1.0, high), _ends(within_low, ratio or 1.0, within_high)
    if text and within:
        return f"{text}; {WITHIN_START} {within}"
    return text if not text or found.covers_starts else f"{text} {WITHIN_START}"


def speedup_text(found: Comparison, rounds: tuple[float, float] | None = None) -> str:
    """Return `47.2× ± 1.2 %`, `10.4× (7.41–14.6×)`, and without an interval the range of rounds, if known."""
    if rounds is not None and found.low is None:
        return f"{ends_text(*rounds)} in {count_of(found.rounds, 'round')}"
    interval = interval_text(found)
    return factor(found.speedup) + (f" ({interval})" if interval.endswith("×") else f" {interval}" if interval else "")


# ------------------------------------------------------------------ sizes


def sizes_text(sizes: Sequence[int], conjunction: str = "and", most: int = MOST_NAMED) -> str:
    """Return `200, 500 and 1,000`; more than `most` are counted."""
    if len(sizes) > most:
        return f"{len(sizes)} sizes"
    return joined([size_text(size) for size in sizes]).replace(" and ", f" {conjunction} ")


def span_text(first: int, last: int) -> str:
    """Return `1–4,096`, or one size."""
    return size_text(first) if first == last else f"{size_text(first)}–{size_text(last)}"


def bracket_text(change: Change) -> str:
    """Return the bracket of a change: `192–213`."""
    return span_text(change.low, change.high)


def is_wide(change: Change) -> bool:
    """Whether no point inside a bracket is named: it is too wide, or sizes inside contradict every point."""
    return change.ratio > WIDE or change.gap is None


def point_size(change: Change) -> int:
    """Return the size at which a change is shown: three digits, or more if the sizes beside it are closer than that."""
    # The device above does not win at the lower end, and the one below not at the upper end.
    low, high = change.gap or (change.low, change.high)
    least, most = (low + 1, high) if change.rises else (low, high - 1)
    for number in (round(float(f"{change.point:.3g}")), round(change.point)):
        if least <= number <= most:
            return number
    return min(max(round(change.point), least), most)


def point_text(change: Change, axis: str = "") -> str:
    """Return a change as a size inside its bracket, `n ≈ 205`, or both ends of a wide bracket."""
    if is_wide(change):
        ends = f"somewhere between {size_text(change.low)} and {size_text(change.high)}"
        return " ".join(filter(None, (ends, noun_of(axis))))
    size = point_size(change)
    return named(axis, "=" if change.high - change.low == 1 else "≈", size)


# ------------------------------------------------------------------ where a device wins


def where(found: Condition, axis: str = "", *, with_bracket: bool = False, with_above: bool = True) -> str:
    """Return where the GPU wins: `from n ≈ 205 (192–213)`, `at every size timed (1–4,096)`, `at no size timed`.

    `with_above`: say that nothing was decided above the last size at which it does.
    """
    if found.kind in (segments.ALL_EQUAL, segments.NOT_DECIDED, segments.NONE_TIMED):
        return "unclear" if found.kind == segments.NOT_DECIDED else found.kind
    if found.kind == segments.NEVER:
        return f"at no size {_that_counts(found)} ({_timed_span(found)})"
    ranges = found.ranges
    own = [part for part in ranges if part.winner == segments.GPU]
    if not own:
        return f"not {ranges_text(found)}"
    text = _ranges_text(found, own, axis, with_bracket=with_bracket)
    between = exceptions(found)
    # `GPU from ≈ 161 to 3,001` sounded as if the GPU lost at 9,951, which had been timed in one round.
    is_open = (
        with_above
        and ranges[-1].winner == segments.GPU
        and any(size.judgement == segments.UNDECIDED and size.size > own[-1].last for size in found.outside)
    )
    above = (" and above" if between else ", unclear above") if is_open else ""
    return f"{text}{between}{above}"


def ranges_text(found: Condition) -> str:
    """Return where the only device that wins does, with what is unclear between: `up to 500, unclear at 176`."""
    return f"{_ranges_text(found, found.ranges, '', with_bracket=False)}{exceptions(found)}"


def exceptions(found: Condition) -> str:
    """Return `, unclear at 500`: sizes without a winner between those that one device wins."""
    ranges = found.ranges  # computed at each access
    sizes = [size.size for size in found.outside if any(part.first < size.size < part.last for part in ranges)]
    return f", unclear at {sizes_text(sizes, most=MOST_IN_TABLE)}" if sizes else ""


def who_wins(found: Condition, axis: str, subject: str = "", verb: str = "wins") -> str:
    """Return who wins where, with what is unclear: `the GPU wins from n ≈ 205 (192–213)`."""
    if found.kind == segments.NONE_TIMED:
        return "no size has been timed on both devices yet"
    if found.kind == segments.ALL_EQUAL:
        return f"CPU and GPU are equally fast ({WITHIN_TIE}) at every size {_that_counts(found)}"
    if found.kind == segments.NOT_DECIDED:
        return f"no size has a winner: {open_text(found.outside)}"
    winner = leader(found)
    own = [part for part in found.ranges if part.winner == winner]
    text = f"{subject or f'the {winner}'} {verb} {_ranges_text(found, own, axis, with_bracket=True)}"
    without = [open_text(found.outside)] if found.outside else []
    if found.inside:
        brackets = "bracket" if len(found.changes) == 1 else "brackets"
        without.append(f"{sizes_text([size.size for size in found.inside])} in the {brackets}")
    return "; no winner at ".join([text, *([", nor at ".join(without)] if without else [])])


def leader(found: Condition) -> str:
    """Return the device that a sentence about a sweep is about; empty without a winner."""
    winners = {part.winner for part in found.ranges}
    return segments.GPU if segments.GPU in winners else segments.CPU if winners else ""


def _ranges_text(found: Condition, own: Sequence[Range], axis: str, *, with_bracket: bool) -> str:
    """Return the ranges of one device; many are counted."""
    if found.kind in (segments.ALWAYS, segments.NEVER):
        span, timed = _timed_span(found), _that_counts(found)
        return f"at every size {timed} ({span})" if "–" in span else f"at {span}, the only size {timed}"
    parts = [_range_text(part, found.timed, axis, with_bracket=with_bracket) for part in own]
    if len(parts) > MOST_NAMED:
        return f"in {len(parts)} ranges, the last {parts[-1]}"
    return joined(parts)


def _range_text(part: Range, timed: Sequence[Size], axis: str, *, with_bracket: bool) -> str:
    """Return one range: `from n ≈ 205 (192–213)`, `from 64 to ≈ 500 (450–550) tokens`, `up to n = 500`."""

    def end(change: Change | None, sign: str, size: int, of_axis: str) -> str:
        if change is None:
            return named(of_axis, sign, size)
        if is_wide(change) and not with_bracket:
            return " ".join(filter(None, (bracket_text(change), noun_of(of_axis))))
        text = point_text(change, of_axis)
        return f"{text} ({bracket_text(change)})" if with_bracket and not is_wide(change) else text

    if part.start is None and part.end is None and part.first == part.last:
        return f"at {size_text(part.first)}"
    has_lower = part.start is not None or part.first != timed[0].size
    has_upper = part.end is not None or part.last != timed[-1].size
    # Below its smallest decided size it may win, too: `13 tokens` stood beside `≈ 11` with copies.
    sign = "≤" if has_lower else "="
    if not (has_lower or has_upper):  # the device wins at both ends, and some size between is open
        has_lower = has_upper = True
    # A noun follows the last size: `from 1 to 64 sequences`.
    is_last = has_upper and (not has_lower or bool(noun_of(axis)))
    lower = end(part.start, sign, part.first, "" if is_last else axis) if has_lower else ""
    upper = end(part.end, "=", part.last, axis if is_last else "") if has_upper else ""
    return " ".join(filter(None, (lower and f"from {lower}", upper and f"{'to' if lower else 'up to'} {upper}")))


def lacks_cores(found: Condition) -> bool:
    """Return whether threads had no free core at some size. Such sizes were timed, too, but do not count."""
    return any(size.reason == segments.NO_CORE for size in found.sizes)


def _that_counts(found: Condition) -> str:
    """Return which sizes count."""
    return "timed with free cores" if lacks_cores(found) else "timed"


def _timed_span(found: Condition) -> str:
    timed = found.timed
    return span_text(timed[0].size, timed[-1].size)


def open_text(sizes: Iterable[Size]) -> str:
    """Return the sizes without a winner, grouped by reason: `500 (too noisy) and 1,000 (mismatch)`."""
    groups: dict[str, list[int]] = {}
    for size in sizes:
        failed = "failed: " if size.judgement == segments.NOT_TIMED and size.reason != segments.NO_CORE else ""
        groups.setdefault(f"{failed}{reason_words(size)}", []).append(size.size)
    return joined([f"{sizes_text(group)} ({words})" for words, group in groups.items()])
