"""The answer in at most three sentences: from which size the GPU wins, by how much at the largest, and with copies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from cpugpu_tui.analysis.costs import END_TO_END, Decomposition
from cpugpu_tui.decide.crossover import ALWAYS, FALLS, NEVER, RISES, SEVERAL, TIES, Crossover, SweepPoint
from cpugpu_tui.decide.interval import MIN_ROUNDS
from cpugpu_tui.decide.verdict import EQUIVALENCE, GPU_WINS, SURE_ROUNDS, TIE, UNDECIDED, Comparison
from cpugpu_tui.model.quantities import count_of, factor, faster, joined, plus_minus

CLOSE = 1.1
"""An interval within 1/1.1 to 1.1 is too close to call; a wider one that contains 1 is too noisy to judge."""

WIDE = 10.0
"""A bracket whose ends differ by more than this factor is shown without a point inside it."""

UNTOLD = 1e3
"""Relative half-widths of this and more are not shown."""

MOST_NAMED = 3
"""Sizes that a sentence names; more than these are counted."""

WITHIN = f"within {EQUIVALENCE:.0%}".replace("%", " %")


class Printed(NamedTuple):
    """Times by the paper's clock at one size, and the GPU's when that clock waits for it; ns."""

    size: int
    cpu_ns: float
    gpu_ns: float
    gpu_waited_ns: float


@dataclass(frozen=True)
class Evidence:
    """The numbers behind the answer about one sweep."""

    measured: Crossover
    """With the inputs on the GPU."""
    threads: int
    """CPU threads in force; 0 if not known."""
    worlds: Mapping[str, Crossover] = field(default_factory=dict)
    """Key of a `WhatIf` → its crossover, for those that have times."""
    resident: Decomposition | None = None
    """A call of the smallest size with the inputs on the GPU."""
    moved: Decomposition | None = None
    """The same call including copies."""
    printed: tuple[Printed, ...] = ()
    """By the paper's clock, in order of size."""
    axis: str = ""
    """The workload's description of a size: `n of two n×n matrices`, `hidden units`."""


# ------------------------------------------------------------------ one size


def not_judged(comparison: Comparison) -> str:
    """Return why a size was not judged, `1 round` or `± 40 %`; empty if it was judged."""
    spread = _spread(comparison)
    if spread is None:
        return count_of(comparison.rounds, "round")
    if comparison.verdict == UNDECIDED and not _is_close(comparison):
        # Away from 1, a narrow interval is that of a winner that the sweep took back, because it had few rounds.
        is_few = spread < CLOSE - 1 and comparison.rounds < SURE_ROUNDS
        return count_of(comparison.rounds, "round") if is_few else plus_minus(spread)
    return ""


def _is_close(comparison: Comparison) -> bool:
    """Whether the devices are equally fast or too close to call."""
    low, high = comparison.low or 0.0, comparison.high or math.inf
    return comparison.verdict == TIE or (comparison.verdict == UNDECIDED and low >= 1 / CLOSE and high <= CLOSE)


def _spread(comparison: Comparison) -> float | None:
    """Return the relative half-width of the interval; None without a usable one."""
    low, high = comparison.low, comparison.high
    if low is None or high is None or not 0 < low <= high < math.inf:
        return None
    spread = comparison.plus_minus
    return spread if spread is not None and spread < UNTOLD else None


def speedup_text(comparison: Comparison) -> str:
    """Return `47.2× ± 1.2 %`, or `47.2×` without an interval."""
    spread = _spread(comparison)
    return factor(comparison.speedup) + (f" {plus_minus(spread)}" if spread is not None else "")


def _aside(comparison: Comparison) -> str:
    """Return the interval of a speedup, or why it has none, to follow in brackets."""
    reason, spread = not_judged(comparison), _spread(comparison)
    if comparison.faster and reason:
        return f"timed this way in only {reason}, too few for a ± value"
    return f"{reason}, not judged" if reason else plus_minus(spread or 0.0)


def _at(point: SweepPoint, subject: str, rival: str = "", *, brief: bool = False) -> str:
    """Return `at 2,048 it is 35.8× faster (± 4.2 %) than 16 CPU threads`; `brief` leaves out the interval."""
    found, size = point.comparison, f"{point.size:,}"
    if found.verdict == TIE:
        return f"at {size} {subject} is as fast as {rival or 'the CPU'} ({WITHIN})"
    if _is_close(found):
        return f"at {size} {'it is' if subject == 'it' else 'CPU and GPU are'} too close to call ({_aside(found)})"
    aside = "" if brief and not not_judged(found) else f" ({_aside(found)})"
    than = f" than {rival}" if rival else ""
    return f"at {size} {subject} is {faster(found.speedup)}{aside}{than}"


# ------------------------------------------------------------------ where the GPU wins


def decided_points(found: Crossover) -> list[SweepPoint]:
    """Return the sizes that have a winner."""
    return [point for point in found.points if _has_winner(point)]


def _has_winner(point: SweepPoint) -> bool:
    return point.comparison.winner is not None


def where(found: Crossover, axis: str = "", *, with_bracket: bool = False, brief: bool = False) -> str:
    """Return where the GPU wins, in a few words: `from n ≈ 205 (192–213), except at 500 (2 rounds)`.

    `brief` shortens `at every size from 1 to 500` to `every size (1–500)`.
    """
    place = place_text(found, axis, with_bracket=with_bracket, brief=brief)
    if found.kind in (ALWAYS, NEVER):
        return f"{place}{exceptions(found)}"
    return f"{place}{exceptions(found, GPU_WINS)}" if found.kind in (RISES, FALLS) else place


def place_text(found: Crossover, axis: str = "", *, with_bracket: bool = False, brief: bool = False) -> str:
    """Return `where` without the exceptions: `from n ≈ 205 (192–213)`, `nowhere up to 500`."""
    has_bracket = with_bracket and found.low is not None and not is_wide(found)
    bracket = f" ({found.low:,}–{found.high:,})" if has_bracket else ""
    if found.kind == RISES:
        return f"from {point_text(found, axis)}{bracket}{_end(found)}"
    if found.kind == FALLS:
        return f"only up to {point_text(found, axis)}{bracket}"
    if found.kind == ALWAYS:
        return _range(found, brief=brief)
    if found.kind == NEVER:
        return f"nowhere up to {decided_points(found)[-1].size:,}"
    return _ranges(found, axis, bracket) if found.kind == SEVERAL else "undecided"


def open_sweep_words(found: Crossover) -> str:
    """Return why no size of a sweep has a winner, in a few words."""
    if found.kind == TIES:
        return "equally fast"
    return "not judged" if all(not_judged(point.comparison) for point in found.points) else "too close to call"


def is_wide(found: Crossover) -> bool:
    """Whether the bracket is too wide to name a point inside it."""
    return found.ratio is not None and found.ratio > WIDE


def _range(found: Crossover, *, brief: bool = False) -> str:
    """Return the range of sizes that have a winner, if all have the same one."""
    first, last = (decided_points(found)[end].size for end in (0, -1))
    if first == last:
        return f"at {first:,}"
    if len(decided_points(found)) < len(found.points):
        return f"from {first:,} to {last:,}"
    return f"every size ({first:,}–{last:,})" if brief else f"at every size from {first:,} to {last:,}"


def _ranges(found: Crossover, axis: str, bracket: str) -> str:
    """Return each range in which the GPU wins, if the winner changes more than once."""
    groups = [
        (winner, list(points)) for winner, points in groupby(decided_points(found), lambda p: p.comparison.winner)
    ]
    parts = []
    for index, (winner, points) in enumerate(groups):
        first, last = points[0].size, points[-1].size
        if winner != GPU_WINS:
            continue
        if index == len(groups) - 1:
            parts.append(f"from {point_text(found, axis)}{bracket}{_end(found)}")
        elif index == 0:
            parts.append(f"up to {last:,}")
        else:
            parts.append(f"at {first:,}" if first == last else f"from {first:,} to {last:,}")
    if len(parts) <= MOST_NAMED - 1:
        return f"{'' if found.rises else 'only '}{joined(parts)}"
    return f"in {len(parts)} ranges, the last {parts[-1]}"


def _end(found: Crossover) -> str:
    """Return ` to 800` if a larger size contradicts the last winner; empty if the GPU wins without an upper end."""
    last = decided_points(found)[-1]
    beyond = (point for point in found.points if point.size > last.size)
    return f" to {last.size:,}" if any(contradicts(point, last) for point in beyond) else ""


def exceptions(found: Crossover, winner: str | None = None) -> str:
    """Return the sizes inside a range of wins (of `winner`, if named) that contradict it or are too close to call."""
    against: list[SweepPoint] = []
    inside: list[SweepPoint] = []
    before: SweepPoint | None = None
    for after in found.points:  # one pass: a quadratic search took two thirds of the app's time at 10,000 rows
        if not _has_winner(after):
            inside.append(after)
            continue
        same = before is not None and before.comparison.winner == after.comparison.winner
        if before is not None and same and winner in (None, before.comparison.winner):
            between = (point for point in inside if before.size < point.size < after.size)
            against += [point for point in between if contradicts(point, before)]
        before, inside = after, []
    if not against:
        return ""
    sizes = joined([f"{point.size:,}" for point in against])
    whose = sizes if len(against) <= MOST_NAMED else f"{len(against)} sizes"
    reasons = dict.fromkeys(open_words(point.comparison) for point in against)
    return f", except at {whose} ({', '.join(reasons) if len(reasons) == 1 else 'not judged or too close'})"


def contradicts(point: SweepPoint, decided: SweepPoint) -> bool:
    """Whether a size without a winner is too close to call, or points to the other device than `decided`."""
    same_side = (point.comparison.speedup > 1) == (decided.comparison.winner == GPU_WINS)
    return _is_close(point.comparison) or not same_side


def open_words(comparison: Comparison) -> str:
    """Return why a size has no winner."""
    if comparison.verdict == TIE:
        return f"equal {WITHIN}"
    reason = not_judged(comparison)
    return f"not judged, {reason}" if reason else "too close to call"


def point_text(found: Crossover, axis: str) -> str:
    """Return the crossover as a size inside the bracket, or both ends of a wide bracket.

    The size has three digits, or more if the bracket is so narrow that three digits lie outside it.
    """
    assert found.point is not None
    assert found.low is not None
    assert found.high is not None
    if is_wide(found):
        return " ".join(filter(None, (f"somewhere between {found.low:,} and {found.high:,}", _noun(axis))))
    # The GPU does not win at the lower end, except where it loses above the bracket.
    least, most = (found.low, found.high - 1) if found.kind == FALLS else (found.low + 1, found.high)
    if least >= most:
        return named(axis, "=", most)
    for number in (round(float(f"{found.point:.3g}")), round(found.point)):
        if least <= number <= most:
            return named(axis, "≈", number)
    return named(axis, "≈", min(max(round(found.point), least), most))


def named(axis: str, sign: str, size: int) -> str:
    """Return a size with the name of its axis: `n = 2,048`, `n ≈ 205`, `batch 32`, `≈ 4,096 hidden units`."""
    first, noun = axis.split(" ")[0], _noun(axis)
    noun = noun.removesuffix("s") if size == 1 else noun
    sign = "" if sign == "=" and len(first) != 1 else sign
    return " ".join(filter(None, (sign, f"{size:,}", noun) if noun else (first, sign, f"{size:,}")))


def _noun(axis: str) -> str:
    """Return the noun after a size: `elements` for `elements of each vector`; empty for `n` and `batch`."""
    first = axis.split(" ")[0]
    return "" if len(first) == 1 or first == "batch" else axis.split(" of ")[0].split(" in ")[0]


# ------------------------------------------------------------------ the sentences


def verdict_sentence(evidence: Evidence) -> str:
    """Return the answer: at most three sentences, in one line."""
    found = evidence.measured
    if not found.points:
        return "No size has been timed on both devices yet."
    threads = evidence.threads
    rival = count_of(threads, "CPU thread") if threads else "the CPU"
    subject = "it" if len(found.points) > 1 and _leader(found) == "the GPU" else "the GPU"
    sentences = [who_wins(found, evidence.axis)] if len(found.points) > 1 else []
    sentences += [] if sentences and _is_even(found) else [_at_largest(found, subject, rival)]
    moved = evidence.worlds.get(END_TO_END)
    if moved is not None and moved.points:
        sentences.append(f"including copies, {_including_copies(moved, evidence)}")
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences)


def _leader(found: Crossover) -> str:
    """Return the subject of a sentence about a sweep; empty without a winner."""
    if not decided_points(found):
        return ""
    return "the CPU" if found.kind == NEVER else "the GPU"


def who_wins(found: Crossover, axis: str, subject: str = "", verb: str = "wins") -> str:
    """Return who wins where: `the GPU wins from n ≈ 205 (192–213)`, or why nobody does."""
    if not decided_points(found):
        return _without_winner(found.points)
    subject = subject or _leader(found)
    if found.kind != NEVER:
        return f"{subject} {verb} {where(found, axis, with_bracket=True)}"
    decided = decided_points(found)
    is_from_start = decided[0] is found.points[0]
    span = f"up to {named(axis, '=', decided[-1].size)}" if is_from_start else _range(found)
    return f"{subject} {verb} {span}{exceptions(found)}"


def _without_winner(points: Sequence[SweepPoint]) -> str:
    """Return why no size of a sweep has a winner, grouped by reason."""
    if all(point.comparison.verdict == TIE for point in points):
        return f"CPU and GPU are equally fast ({WITHIN}) at every size"
    if all(_spread(point.comparison) is None for point in points):
        return f"no size was judged: each has fewer than {MIN_ROUNDS} rounds"
    groups: dict[str, list[int]] = {}
    for point in points:
        is_even = point.comparison.verdict == TIE
        words = "not judged" if not_judged(point.comparison) and not is_even else open_words(point.comparison)
        groups.setdefault(words, []).append(point.size)
    parts = [
        f"{words} at {joined([f'{size:,}' for size in sizes]) if len(sizes) <= MOST_NAMED else f'{len(sizes)} sizes'}"
        for words, sizes in groups.items()
    ]
    return f"no size has a winner: {'; '.join(parts)}"


def _at_largest(found: Crossover, subject: str, rival: str) -> str:
    """Return the speedup at the largest size; if that was not judged, also at the largest size with a winner."""
    largest = found.points[-1]
    decided = decided_points(found)
    if not not_judged(largest.comparison) or not decided or decided[-1] is largest:
        return _at(largest, subject, rival)
    return f"{_at(decided[-1], subject, rival)}; {_at(largest, subject)}"


def _is_even(found: Crossover) -> bool:
    """Whether every size is equally fast or too close to call, so that the first sentence says it all."""
    return all(_is_close(point.comparison) for point in found.points)


def _including_copies(moved: Crossover, evidence: Evidence) -> str:
    """Return the result including copies, to follow the sentences about inputs on the GPU."""
    measured = "the GPU" if len(evidence.measured.points) == 1 else _leader(evidence.measured)
    if len(moved.points) == 1:
        return _at(moved.points[0], "it" if measured == "the GPU" else "the GPU", brief=True)
    text = who_wins(moved, evidence.axis, "it" if _leader(moved) == measured == "the GPU" else "")
    if _is_even(moved):
        return text
    whose = "it" if (_leader(moved) or measured) == "the GPU" else "the GPU"
    return f"{text}; {_at(moved.points[-1], whose, brief=True)}"


def so_far(sentence: str) -> str:
    """Return a sentence about a run that is still in progress."""
    is_name = sentence[:2].isupper()
    return f"So far, {sentence if is_name else sentence[0].lower() + sentence[1:]}"
