"""The answer in at most two sentences, then its reasons: the largest cost, other costs, and the paper's clock.

The answer says where the GPU wins, by how much at the largest size, and the same with copies. That of a survey puts
each workload into one class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cpugpu_tui.analysis import costs
from cpugpu_tui.analysis.costs import Decomposition
from cpugpu_tui.model.quantities import count_of, factor, faster, joined, percent, size_text, time_text
from cpugpu_tui.render.crossover_words import (
    WITHIN_START,
    WITHIN_TIE,
    bracket_text,
    ends_text,
    exceptions,
    is_wide,
    lacks_cores,
    leader,
    point_text,
    printed_interval,
    ranges_text,
    reason_words,
    where,
    who_wins,
)
from cpugpu_tui.report import segments
from cpugpu_tui.report.conditions import BY_KEY, Condition
from cpugpu_tui.report.report import Printed, SweepReport
from cpugpu_tui.report.segments import Size


def sentences(found: SweepReport) -> tuple[str, ...]:
    """Return the answer, then a line each for cause, counterfactuals and the paper's clock, if known."""
    lines = [verdict_sentence(found)]
    if found.resident.kind != segments.NONE_TIMED:
        lines += [cause_sentence(found), counterfactual_sentence(found), clock_sentence(found.printed)]
    return tuple(sentence for sentence in lines if sentence)


# ------------------------------------------------------------------ the answer


def verdict_sentence(found: SweepReport) -> str:
    """Return the answer: at most two sentences, in one line."""
    resident, moved = found.resident, found.with_copies
    timed = resident.timed
    if not timed:
        return "No size has been timed on both devices yet."
    rival = count_of(found.threads, "CPU thread") if found.threads else "the CPU"
    subject = "it" if len(timed) > 1 and leader(resident) == segments.GPU else "the GPU"
    parts = [who_wins(resident, found.axis)] if len(timed) > 1 else []
    if not parts or resident.kind not in (segments.ALL_EQUAL, segments.NOT_DECIDED):
        parts.append(_at_largest(timed, subject, rival))
    sentences = ["; ".join(parts)]
    if moved.kind != segments.NONE_TIMED:
        sentences.append(f"including copies, {_including_copies(moved, found)}")
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences)


def _at_largest(timed: Sequence[Size], subject: str, rival: str) -> str:
    """Return the speedup at the largest size; if that has no winner, also at the largest size that has one."""
    decided = [size for size in timed if size.winner is not None or size.judgement == segments.EQUAL]
    if not decided or decided[-1] is timed[-1]:
        return at_text(timed[-1], subject, rival)
    return f"{at_text(decided[-1], subject, rival)}; {at_text(timed[-1], 'the GPU')}"


def _including_copies(moved: Condition, found: SweepReport) -> str:
    """Return the result including copies, to follow the sentences about inputs on the GPU."""
    timed, resident = moved.timed, leader(found.resident)
    if len(timed) == 1:
        return at_text(timed[0], "it" if resident == segments.GPU else "the GPU")
    text = who_wins(moved, found.axis, "it" if leader(moved) == resident == segments.GPU else "")
    if moved.kind in (segments.ALL_EQUAL, segments.NOT_DECIDED):
        return text
    last = moved.decided[-1]
    return f"{text}; {at_text(last, 'it' if leader(moved) == segments.GPU else 'the GPU')}"


def so_far(sentence: str) -> str:
    """Return a sentence about a run that is still in progress."""
    is_name = sentence[:2].isupper()
    return f"So far, {sentence if is_name else sentence[0].lower() + sentence[1:]}"


def at_text(size: Size, subject: str, rival: str = "") -> str:
    """Return `at 2,048 it is 35.8× faster (± 4.2 %) than 16 CPU threads`, or why the size has no winner."""
    found, at = size.comparison, f"at {size_text(size.size)}"
    assert found is not None
    than = f" than {rival}" if rival else ""
    if size.judgement == segments.EQUAL:
        return f"{at} {subject} is as fast as {rival or 'the CPU'} ({WITHIN_TIE})"
    if size.rounds is not None and found.low is None:
        text = f"{at} {subject} was {range_words(*size.rounds)}{than} in {count_of(found.rounds, 'round')}"
        if size.winner is not None:
            return text
        return f"{text}, {'not sure enough' if size.reason == segments.UNSURE else 'too few to judge'}"
    shown = printed_interval(found, is_inverse=found.speedup < 1)
    if size.winner is None:
        ends = range_words(found.low, found.high) if shown and found.low and found.high else faster(found.speedup)
        within = "" if found.covers_starts or not shown else f" {WITHIN_START}"
        return f"{at} it is unclear ({reason_words(size)}): the GPU is {ends}{within}"
    return f"{at} {subject} is {faster(found.speedup)}{f' ({shown})' if shown else ''}{than}"


def range_words(low: float, high: float) -> str:
    """Return both ends of a speedup in words: `34.0–40.1× faster`, `1.20× slower to 1.50× faster`."""
    if low >= 1:
        return f"{ends_text(low, high)} faster"
    if high <= 1:
        return f"{ends_text(1 / high, 1 / low)} slower"
    return f"{faster(low)} to {faster(high)}"


# ------------------------------------------------------------------ its reasons


def cause_sentence(found: SweepReport) -> str:
    """Return the largest part of the GPU's time at the smallest size; empty if that was not measured."""
    smallest = found.resident.timed[0]
    resident, moved = found.cause(moved=False), found.cause(moved=True)
    parts = []
    at = f"t {size_text(smallest.size)}"
    if resident is not None:
        is_known = smallest.winner is not None and smallest.comparison is not None
        slower = f" the GPU is {faster(smallest.comparison.speedup)}:" if is_known and smallest.comparison else ","
        owner = "its " if is_known else "the GPU's "
        # `launch overhead takes 98 % of its 118 µs` sounds as if 2 % were left without it.
        is_hidden = resident.share(resident.hidden_ns) > costs.UNEXPLAINED
        beside = f", during which warm kernels run for {time_text(resident.kernels_ns)}" if is_hidden else ""
        parts.append(f"A{at}{slower} {_cause(resident, of=owner, beside=beside)}.")
    if moved is not None:
        where = "" if parts else f" a{at}"
        is_same = resident is not None and resident.largest[0] == moved.largest[0]
        parts.append(f"Including copies, {_cause(moved, 'it' if is_same else '')}{where}.")
    return " ".join(parts)


def _cause(decomposition_of: Decomposition, subject: str = "", of: str = "", beside: str = "") -> str:
    name, share = decomposition_of.largest
    # Each part is timed separately, and can take longer there than inside the call.
    alone = f", {time_text(share * decomposition_of.measured_ns)} alone," if share > 1 else ""
    part = f"{percent(share)} %" if share <= 1 else "all"
    subject = subject or costs.CAUSES[name]
    text = f"{subject}{alone} takes {part} of {of}{time_text(decomposition_of.measured_ns)}{beside}"
    if decomposition_of.is_explained:
        return text
    rest = decomposition_of.share(decomposition_of.rest_ns)
    if rest > 0:
        return f"{text} ({percent(rest)} % unexplained)"
    return f"{text} (timed separately, the parts add up to {percent(1 - rest)} %)"


COUNTERFACTUALS = (
    (costs.NO_LAUNCH, "without launch and wait"),
    (costs.PINNED, "with copies from pinned memory"),
    (costs.ONE_THREAD, "against one CPU thread"),
)


def counterfactual_sentence(found: SweepReport) -> str:
    """Return where the GPU would win without launch overhead, with pinned memory, and against one thread."""
    parts = []
    for key, condition in COUNTERFACTUALS:
        world, base = found.under(key), found.under(BY_KEY[key].base)
        is_same = world.kind == base.kind == segments.ALWAYS
        if is_same or world.kind in (segments.NONE_TIMED, segments.NOT_DECIDED, segments.ALL_EQUAL):
            continue
        even = "even " if leader(world) == segments.CPU and base.kind in (segments.NEVER, segments.UP_TO) else ""
        words = f"{even}{condition} {who_wins(world, found.axis, verb='would win')}"
        parts.append(f"{words[0].upper()}{words[1:]}.")
    return " ".join(parts)


def clock_sentence(printed: tuple[Printed, ...]) -> str:
    """Return the result by the paper's clock; empty if that clock is right within a factor of two."""
    usable = [p for p in printed if all(0 < ns < math.inf for ns in (p.cpu_ns, p.gpu_ns, p.gpu_waited_ns))]
    worst = max(usable, key=lambda p: p.gpu_waited_ns / p.gpu_ns, default=None)
    if worst is None or worst.gpu_waited_ns < 2 * worst.gpu_ns:
        return ""
    off = factor(worst.gpu_waited_ns / worst.gpu_ns)
    return f"Timed the paper's way, {_claim(usable)}. The paper's error reaches {off} at {size_text(worst.size)}."


def _claim(printed: list[Printed]) -> str:
    """Return from which size the GPU seems to win by the printed times, and the speedup at the largest size."""
    last, first = printed[-1], None
    for each in printed:
        first = (each.size if first is None else first) if each.gpu_ns < each.cpu_ns else None
    text = f"{faster(last.cpu_ns / last.gpu_ns)} at {size_text(last.size)}"
    if first is None or first == last.size:
        return f"the GPU seems {text}"
    return f"the GPU seems to win from {size_text(first)} and to be {text}"


# ------------------------------------------------------------------ a survey


Named = Sequence[tuple[str, SweepReport]]
"""Workloads of a survey with their names."""

CLASS_WORDS = {
    segments.ALWAYS: "faster at every size timed", segments.FROM: "faster from a size on",
    segments.WITHIN: "faster in a range, unclear beyond it", segments.SEVERAL: "faster in several ranges",
    segments.FALLS: "faster up to a size", segments.NEVER: "not faster at any size timed",
    segments.UP_TO: "slower in a range, otherwise unclear", segments.ALL_EQUAL: "not faster because both are equal",
    segments.NOT_DECIDED: "unclear", segments.NONE_TIMED: "not timed",
}  # fmt: skip
"""Class → its words, most important first."""


def classes_of(found: Named, key: str) -> dict[str, list[str]]:
    """Return class → names of the workloads in it, without empty classes."""
    classes: dict[str, list[str]] = {}
    for name, each in found:
        classes.setdefault(each.under(key).kind, []).append(name)
    return classes


def survey_sentences(found: Named, *, is_recorded: bool = False) -> tuple[str, str]:
    """Return which workloads are faster on the GPU, and which not; and the same including copies."""
    gpu = "the recorded" if is_recorded else "this"
    resident, moved = (_classes_text(found, key) for key in (costs.RESIDENT, costs.END_TO_END))
    return f"On {gpu} GPU, {resident}.", f"Including copies, {moved}."


def _classes_text(found: Named, key: str) -> str:
    """Return each class with its workloads, and these with the sizes that the class leaves open."""
    texts: dict[str, list[str]] = {}
    for name, each in found:
        condition = each.under(key)
        texts.setdefault(condition.kind, []).append(f"{name}{_class_sizes(condition)}")
    return "; ".join(f"{words}: {joined(texts[kind])}" for kind, words in CLASS_WORDS.items() if kind in texts)


def _class_sizes(found: Condition) -> str:
    """Return the sizes of a class in brackets: ` (≈ 2,870)`, ` (500)`; empty for classes without a size."""
    if found.kind in (segments.ALWAYS, segments.NEVER, segments.ALL_EQUAL, segments.NOT_DECIDED, segments.NONE_TIMED):
        # Sizes without a free core are in the table beside it, where a winner at every size would be untrue.
        return " (where cores were free)" if lacks_cores(found) and found.kind != segments.NONE_TIMED else ""
    if found.kind == segments.UP_TO:
        return f" ({ranges_text(found)})"
    if found.kind != segments.FROM:
        return f" ({where(found, with_above=False)})"
    change = found.crossover
    if change is None:
        first = found.ranges[-1].first
        at = size_text(first) if first == found.timed[0].size else f"≤ {size_text(first)}"  # below it is unclear
    else:
        at = bracket_text(change) if is_wide(change) else point_text(change)
    return f" ({at}{exceptions(found)})"
