"""The answer in sentences: who wins from which size on, by how much, why not before; and what a wrong clock says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from cpugpu_tui.analysis.costs import CAUSES, Decomposition
from cpugpu_tui.analysis.crossover import (
    ALWAYS,
    FALLS,
    NEVER,
    NO_WINNER,
    NOTHING,
    RISES,
    TIES,
    TOO_FEW_ROUNDS,
    Crossover,
    SweepPoint,
)
from cpugpu_tui.analysis.quantities import factor, percent, plus_minus, significant, time_text
from cpugpu_tui.analysis.stats import MIN_ROUNDS
from cpugpu_tui.analysis.verdict import CPU_WINS, EQUIVALENCE, GPU_WINS, Comparison
from cpugpu_tui.analysis.what_if import END_TO_END, NO_LAUNCH, ONE_THREAD, PINNED


@dataclass(frozen=True)
class Printed:
    """What the publication's clock shows at one size, and how long the same takes when the GPU is waited for; ns."""

    size: int
    cpu_ns: float
    gpu_ns: float
    gpu_waited_ns: float


@dataclass(frozen=True)
class Evidence:
    """All that an answer about one sweep is made of."""

    measured: Crossover
    """With the inputs on the device."""
    threads: int
    """CPU threads in force; 0 if not known."""
    worlds: Mapping[str, Crossover] = field(default_factory=dict)
    """Key of a `WhatIf` → where the crossover would be; those that have times."""
    resident: Decomposition | None = None
    """A call of the smallest size with the inputs on the device."""
    moved: Decomposition | None = None
    """The same with data that starts and ends on the host."""
    printed: tuple[Printed, ...] = ()
    """By the publication's clock, sizes rising."""


def sentences(evidence: Evidence) -> tuple[str, ...]:
    """Return the answer, most important first; the first sentence is never missing."""
    said = [verdict_sentence(evidence)]
    if evidence.measured.points:
        said += [cause_sentence(evidence), counterfactual_sentence(evidence), clock_sentence(evidence.printed)]
    return tuple(sentence for sentence in said if sentence)


def verdict_sentence(evidence: Evidence) -> str:
    """Return who wins from which size on, resident and end to end, against how many CPU threads."""
    found, against = evidence.measured, _against(evidence.threads)
    if found.kind in (NOTHING, TOO_FEW_ROUNDS):
        return f"{_too_little(found, against)}."
    if found.kind in (TIES, NO_WINNER):
        words = _no_winner(found, against)
    elif len(found.points) == 1:
        last = found.points[0]
        words = f"At {last.size:,} the {last.comparison.verdict} is faster, {_whose(last)}{against}"
    else:
        last = found.points[-1]
        words = f"{_lead(found)}, {_whose(last)} at {last.size:,}{against}"
    moved = evidence.worlds.get(END_TO_END)
    return f"{words}{_end_to_end(moved, found) if moved is not None else ''}."


def _against(threads: int) -> str:
    """Return how many threads the GPU was up against, to follow a word; nothing where that is not known."""
    return f" against {threads} CPU thread{'s' if threads != 1 else ''}" if threads else ""


def _lead(found: Crossover) -> str:
    if found.kind in (ALWAYS, NEVER):
        winner = "GPU" if found.rises else "CPU"
        return f"The {winner} is faster {_span(found)}{_open_ends(found)}"
    if found.kind == RISES:
        words = f"The GPU is faster from {_about(found)} on ({_bracket(found)})"
    elif found.kind == FALLS:
        words = f"The GPU is faster only up to {_about(found)} ({_bracket(found)})"
    else:
        words = (
            f"The {'GPU' if found.rises else 'CPU'} is faster from {_about(found)} on ({_bracket(found)}, "
            f"the last of {found.changes} changes; the GPU first ahead at {found.first_win:,})"
        )
    return words + _open_ends(found)


def _decided(found: Crossover) -> list[int]:
    """Return the sizes that have a winner."""
    return [point.size for point in found.points if point.comparison.verdict in (CPU_WINS, GPU_WINS)]


def _span(found: Crossover) -> str:
    """Return where the only winner of a sweep wins."""
    won = _decided(found)
    between = [point.size for point in found.points if won[0] <= point.size <= won[-1]]
    if len(won) == 1:
        return f"at {won[0]:,}"
    if len(won) < len(between):
        return f"at {len(won)} of {len(between)} sizes from {won[0]:,} to {won[-1]:,}"
    return f"at every size from {won[0]:,} to {won[-1]:,}"


def _open_ends(found: Crossover) -> str:
    """Return below and above which size there is no winner: nothing is claimed there."""
    won, sizes = _decided(found), [point.size for point in found.points]
    if not won:
        return ""
    ends = [f"below {won[0]:,}"] if sizes[0] < won[0] else []
    ends += [f"above {won[-1]:,}"] if sizes[-1] > won[-1] else []
    return f", no clear winner {' and '.join(ends)}" if ends else ""


def _end_to_end(moved: Crossover, measured: Crossover) -> str:
    """Return where the GPU wins when data is moved, to follow what is said of data that is there already."""
    if not moved.points:
        return ""
    bracket = f" ({_bracket(moved)})" if moved.low is not None else ""
    # Only after a sentence about the GPU is it clear who is meant: "The CPU is faster …; end to end nowhere".
    is_clear = measured.kind in (ALWAYS, RISES, FALLS) or measured.rises or moved.kind in _UNSETTLED
    subject = "" if is_clear else "the GPU is faster "
    open_ends = _open_ends(moved) if _open_ends(moved) != _open_ends(measured) else ""
    return f"; end to end {subject}{_wins(moved)}{bracket}{open_ends}, {speedup_text(moved.points[-1].comparison)}"


_UNSETTLED = (NOTHING, TOO_FEW_ROUNDS, TIES, NO_WINNER)
"""Nobody wins anywhere."""


def where(found: Crossover) -> str:
    """Return where the GPU wins in one world, in a few words, and where nobody knows."""
    return _wins(found) + _open_ends(found)


def _wins(found: Crossover) -> str:
    match found.kind:
        case "crossover" | "several" if found.rises:
            return f"from {_about(found)} on"
        case "several":
            return f"last up to {_about(found)}"
        case "falls behind":
            return f"only up to {_about(found)}"
        case "always":
            return _span(found)
        case "never":
            return f"at no size up to {_decided(found)[-1]:,}"
        case "ties":
            return "a tie"
        case _:
            return "undecided"


def _about(found: Crossover) -> str:
    """Return the point as a size at which the winner above it wins, or of neighbours the one above, as it is.

    It has three digits, or more where the bracket is so narrow that three lie outside.
    """
    assert found.point is not None
    assert found.low is not None
    assert found.high is not None
    # The lower end is the other's; where the lead is lost, the GPU's last size is the lower end.
    least, most = (found.low, found.high - 1) if found.kind == FALLS else (found.low + 1, found.high)
    if least >= most:
        return f"{most:,}"
    for number in (round(float(f"{found.point:.3g}")), round(found.point)):
        if least <= number <= most:
            return f"about {number:,}"
    return f"about {min(max(round(found.point), least), most):,}"


def _bracket(found: Crossover) -> str:
    return f"{found.low:,} to {found.high:,}"


def _whose(point: SweepPoint) -> str:
    """Return the speed-up, with whose it is where the sentence is about the CPU."""
    return f"{'GPU ' if point.comparison.verdict == CPU_WINS else ''}{speedup_text(point.comparison)}"


def speedup_text(comparison: Comparison) -> str:
    """Return `47.2× ± 1.2 %`, without the second part where there is no interval."""
    spread = _spread(comparison)
    return factor(comparison.speedup) + (f" {plus_minus(spread)}" if spread is not None else "")


def _spread(comparison: Comparison) -> float | None:
    """Return the relative half-width of the interval; None where its ends are no numbers to divide."""
    low, high = comparison.low, comparison.high
    if low is None or high is None or not 0 < low <= high < math.inf:
        return None
    spread = comparison.plus_minus
    return spread if spread is not None and math.isfinite(spread) else None


def _too_little(found: Crossover, against: str) -> str:
    if found.kind == NOTHING:
        return "No size has been timed on both devices yet"
    return f"Undecided{against}: a verdict takes at least {MIN_ROUNDS} rounds"


def _no_winner(found: Crossover, against: str) -> str:
    single = f"at {found.points[0].size:,}" if len(found.points) == 1 else ""
    margin = f"{EQUIVALENCE:.0%}"
    if found.kind == TIES:
        return f"A tie{against}: CPU and GPU differ by less than {margin} {single or 'at every size'}"
    spreads = [spread for point in found.points if (spread := _spread(point.comparison)) is not None]
    noise = f" (±{percent(min(spreads))}%{'' if single else ' at best'})" if spreads else ""
    return f"Undecided{against}: neither is clearly {margin} faster {single or 'at any size'}{noise}"


def cause_sentence(evidence: Evidence) -> str:
    """Return what the GPU's time goes into at the smallest size; empty where that was not measured."""
    if not evidence.measured.points:
        return ""
    smallest = evidence.measured.points[0]
    parts = [
        _cause(taken_apart, how)
        for taken_apart, how in ((evidence.resident, ""), (evidence.moved, " end to end"))
        if taken_apart is not None
    ]
    return f"At {smallest.size:,} {_lost(smallest)}: {'; '.join(parts)}." if parts else ""


def _lost(point: SweepPoint) -> str:
    speedup = point.comparison.speedup
    if speedup < 1:
        return f"the GPU takes ×{significant(1 / speedup)} as long as the CPU"
    return f"the GPU is ×{significant(speedup)} as fast as the CPU"


def _cause(taken_apart: Decomposition, how: str) -> str:
    name, share = taken_apart.largest
    whole = f"{time_text(taken_apart.measured_ns)}{how}"
    # A part is timed on its own, where it can take longer than in the call, beside other parts.
    text = f"{CAUSES[name]} is {f'{percent(share)}%' if share <= 1 else 'all'} of {whole}"
    if taken_apart.is_explained:
        return text
    rest = taken_apart.share(taken_apart.rest_ns)
    if rest > 0:
        return f"{text} ({percent(rest)}% unexplained)"
    return f"{text} (timed apart, the parts make {percent(1 - rest)}%)"


def counterfactual_sentence(evidence: Evidence) -> str:
    """Return where the crossover would be without launch cost, from pinned memory, against one thread."""
    parts = []
    for key, words in ((NO_LAUNCH, "if launching and waiting cost nothing"), (PINNED, "end to end with pinned memory"),
                       (ONE_THREAD, "against one CPU thread")):  # fmt: skip
        world = evidence.worlds.get(key)
        if world is not None and _says_something(key, world, evidence):
            open_ends = _open_ends(world).removeprefix(", ")
            parts.append(f"{_wins(world)} {words}{f' ({open_ends})' if open_ends else ''}")
    return f"The GPU would be faster {'; '.join(parts)}." if parts else ""


def _says_something(key: str, world: Crossover, evidence: Evidence) -> bool:
    """Whether a world says anything that the measured one does not."""
    base = evidence.worlds.get(END_TO_END) if key == PINNED else evidence.measured
    if world.kind in _UNSETTLED:
        return False
    return base is None or world.kind != ALWAYS or base.kind != ALWAYS


def clock_sentence(printed: tuple[Printed, ...]) -> str:
    """Return what the publication's clock would have claimed; empty where it is right within a factor of two."""
    usable = [p for p in printed if all(0 < ns < math.inf for ns in (p.cpu_ns, p.gpu_ns, p.gpu_waited_ns))]
    worst = max(usable, key=lambda p: p.gpu_waited_ns / p.gpu_ns, default=None)
    if worst is None or worst.gpu_waited_ns < 2 * worst.gpu_ns:
        return ""
    off = significant(worst.gpu_waited_ns / worst.gpu_ns)
    return f"By the publication's clock {_claim(usable)}; that clock is off by up to ×{off} (at {worst.size:,})."


def _claim(printed: list[Printed]) -> str:
    """Return who would be faster from where, judged from the largest size, by what was printed."""
    last, first = printed[-1], None
    for each in printed:
        first = (each.size if first is None else first) if each.gpu_ns < each.cpu_ns else None
    speedup = f"×{significant(last.cpu_ns / last.gpu_ns)}"
    if first is None:
        return f"the CPU would be faster at {last.size:,}, GPU {speedup}"
    if first == last.size:
        return f"the GPU would be faster at {last.size:,}, {speedup}"
    return f"the GPU would be faster from {first:,} on, {speedup} at {last.size:,}"
