"""The answer in at most three sentences, then its reasons: the largest cost, other costs, and the paper's clock.

The answer says from which size the GPU wins, by how much at the largest, and the same with copies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cpugpu_tui.analysis.answer import (
    WITHIN,
    Evidence,
    Printed,
    decided_points,
    half_width,
    is_close,
    not_judged,
)
from cpugpu_tui.analysis.costs import CAUSES, END_TO_END, NO_LAUNCH, ONE_THREAD, PINNED, Decomposition
from cpugpu_tui.decide.crossover import ALWAYS, NEVER, Crossover, SweepPoint
from cpugpu_tui.decide.interval import MIN_ROUNDS
from cpugpu_tui.decide.verdict import TIE, Comparison
from cpugpu_tui.model.quantities import count_of, factor, faster, joined, named, percent, plus_minus, time_text
from cpugpu_tui.render.crossover_words import MOST_NAMED, exceptions, open_words, range_text, where


def sentences(evidence: Evidence) -> tuple[str, ...]:
    """Return the answer, then a line each for cause, counterfactuals and the paper's clock, if known."""
    lines = [verdict_sentence(evidence)]
    if evidence.measured.points:
        lines += [cause_sentence(evidence), counterfactual_sentence(evidence), clock_sentence(evidence.printed)]
    return tuple(sentence for sentence in lines if sentence)


# ------------------------------------------------------------------ the answer


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
    span = f"up to {named(axis, '=', decided[-1].size)}" if is_from_start else range_text(found)
    return f"{subject} {verb} {span}{exceptions(found)}"


def _without_winner(points: Sequence[SweepPoint]) -> str:
    """Return why no size of a sweep has a winner, grouped by reason."""
    if all(point.comparison.verdict == TIE for point in points):
        return f"CPU and GPU are equally fast ({WITHIN}) at every size"
    if all(half_width(point.comparison) is None for point in points):
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
    return all(is_close(point.comparison) for point in found.points)


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


def _aside(comparison: Comparison) -> str:
    """Return the interval of a speedup, or why it has none, to follow in brackets."""
    reason, spread = not_judged(comparison), half_width(comparison)
    if comparison.faster and reason:
        return f"timed this way in only {reason}, too few for a ± value"
    return f"{reason}, not judged" if reason else plus_minus(spread or 0.0)


def _at(point: SweepPoint, subject: str, rival: str = "", *, brief: bool = False) -> str:
    """Return `at 2,048 it is 35.8× faster (± 4.2 %) than 16 CPU threads`; `brief` leaves out the interval."""
    found, size = point.comparison, f"{point.size:,}"
    if found.verdict == TIE:
        return f"at {size} {subject} is as fast as {rival or 'the CPU'} ({WITHIN})"
    if is_close(found):
        return f"at {size} {'it is' if subject == 'it' else 'CPU and GPU are'} too close to call ({_aside(found)})"
    aside = "" if brief and not not_judged(found) else f" ({_aside(found)})"
    than = f" than {rival}" if rival else ""
    return f"at {size} {subject} is {faster(found.speedup)}{aside}{than}"


# ------------------------------------------------------------------ its reasons


def cause_sentence(evidence: Evidence) -> str:
    """Return the largest part of the GPU's time at the smallest size; empty if that was not measured."""
    smallest = evidence.measured.points[0]
    parts = []
    if evidence.resident is not None:
        slower = f"At {smallest.size:,} the GPU is {faster(smallest.comparison.speedup)}"
        parts.append(f"{slower}: {_cause(evidence.resident, of='its ')}.")
    if evidence.moved is not None:
        where = "" if parts else f" at {smallest.size:,}"
        is_same = evidence.resident is not None and evidence.resident.largest[0] == evidence.moved.largest[0]
        parts.append(f"Including copies, {_cause(evidence.moved, 'it' if is_same else '')}{where}.")
    return " ".join(parts)


def _cause(decomposition_of: Decomposition, subject: str = "", of: str = "") -> str:
    name, share = decomposition_of.largest
    # Each part is timed separately, and can take longer there than inside the call.
    part = f"{percent(share)} %" if share <= 1 else "all"
    text = f"{subject or CAUSES[name]} takes {part} of {of}{time_text(decomposition_of.measured_ns)}"
    if decomposition_of.is_explained:
        return text
    rest = decomposition_of.share(decomposition_of.rest_ns)
    if rest > 0:
        return f"{text} ({percent(rest)} % unexplained)"
    return f"{text} (timed separately, the parts add up to {percent(1 - rest)} %)"


COUNTERFACTUALS = (
    (NO_LAUNCH, "without launch and wait"),
    (PINNED, "with copies from pinned memory"),
    (ONE_THREAD, "against one CPU thread"),
)


def counterfactual_sentence(evidence: Evidence) -> str:
    """Return the crossover without launch overhead, with copies from pinned memory, and against one thread."""
    parts = []
    for key, condition in COUNTERFACTUALS:
        world = evidence.worlds.get(key)
        base = evidence.worlds.get(END_TO_END) if key == PINNED else evidence.measured
        if world is None or not _says_something(world, base):
            continue
        even = "even " if base is not None and base.kind == world.kind == NEVER else ""
        words = f"{even}{condition} {who_wins(world, evidence.axis, verb='would win')}"
        parts.append(f"{words[0].upper()}{words[1:]}.")
    return " ".join(parts)


def _says_something(world: Crossover, base: Crossover | None) -> bool:
    """Whether a world has a winner and differs from the base."""
    if world.changes == 0 and world.kind not in (ALWAYS, NEVER):
        return False
    return base is None or world.kind != ALWAYS or base.kind != ALWAYS


def clock_sentence(printed: tuple[Printed, ...]) -> str:
    """Return the result by the paper's clock; empty if that clock is right within a factor of two."""
    usable = [p for p in printed if all(0 < ns < math.inf for ns in (p.cpu_ns, p.gpu_ns, p.gpu_waited_ns))]
    worst = max(usable, key=lambda p: p.gpu_waited_ns / p.gpu_ns, default=None)
    if worst is None or worst.gpu_waited_ns < 2 * worst.gpu_ns:
        return ""
    off = factor(worst.gpu_waited_ns / worst.gpu_ns)
    return f"Timed the paper's way, {_claim(usable)}. The paper's error reaches {off} at {worst.size:,}."


def _claim(printed: list[Printed]) -> str:
    """Return from which size the GPU seems to win by the printed times, and the speedup at the largest size."""
    last, first = printed[-1], None
    for each in printed:
        first = (each.size if first is None else first) if each.gpu_ns < each.cpu_ns else None
    text = f"{faster(last.cpu_ns / last.gpu_ns)} at {last.size:,}"
    if first is None or first == last.size:
        return f"the GPU seems {text}"
    return f"the GPU seems to win from {first:,} and to be {text}"
