"""The answer in sentences: who wins from which size on, by how much, why not before; and what a wrong clock says."""

from __future__ import annotations

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
from cpugpu_tui.analysis.quantities import percent, significant, time_text
from cpugpu_tui.analysis.stats import MIN_ROUNDS
from cpugpu_tui.analysis.verdict import Comparison
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
    if found.kind in (NOTHING, TOO_FEW_ROUNDS, TIES, NO_WINNER):
        return _no_winner(found, against)
    last = found.points[-1]
    if len(found.points) == 1:
        words = f"At {last.size:,} the {last.comparison.verdict} is faster, {speedup_text(last.comparison)}"
    else:
        words = f"{_lead(found)}, {speedup_text(last.comparison)} at {last.size:,}"
    moved = evidence.worlds.get(END_TO_END)
    end_to_end = f"; end to end {_in_short(moved)}" if moved is not None and moved.points else ""
    return f"{words}{end_to_end}; {against}."


def _against(threads: int) -> str:
    if not threads:
        return "against the CPU"
    return f"against {threads} CPU thread{'s' if threads != 1 else ''}"


def _lead(found: Crossover) -> str:
    smallest, largest = found.points[0].size, found.points[-1].size
    if found.kind == ALWAYS:
        return f"The GPU is faster at every size from {smallest:,} on that has a winner"
    if found.kind == NEVER:
        return f"The CPU is faster at every size up to {largest:,} that has a winner, no crossover found"
    if found.kind == RISES:
        return f"The GPU is faster from about {_about(found)} on ({_bracket(found)})"
    if found.kind == FALLS:
        return f"The GPU is faster up to about {_about(found)} ({_bracket(found)}) and slower above"
    who = "GPU" if found.rises else "CPU"
    return (
        f"The lead changes {found.changes} times: the GPU is first ahead at {found.first_win:,}, "
        f"the {who} stays ahead from about {_about(found)} on ({_bracket(found)})"
    )


def _in_short(found: Crossover) -> str:
    """Return where the GPU wins, in a few words that follow a `;`."""
    at_last = speedup_text(found.points[-1].comparison)
    match found.kind:
        case "crossover":
            return f"from about {_about(found)} on ({_bracket(found)}), {at_last}"
        case "several":
            who = "" if found.rises else "the CPU "
            return f"{who}from about {_about(found)} on, after {found.changes} changes, {at_last}"
        case "always":
            return f"at every size, {at_last}"
        case "never":
            return f"nowhere up to {found.points[-1].size:,}, {at_last}"
        case "falls behind":
            return f"only up to about {_about(found)} ({_bracket(found)}), {at_last}"
        case _:
            return f"undecided, {at_last}"


def where(found: Crossover) -> str:
    """Return where the GPU wins in one world, in a few words."""
    match found.kind:
        case "crossover" | "several" if found.rises:
            return f"from about {_about(found)} on"
        case "falls behind" | "several":
            return f"up to about {_about(found)}"
        case "always":
            return f"at every size from {found.points[0].size:,} on"
        case "never":
            return f"nowhere up to {found.points[-1].size:,}"
        case _:
            return "undecided"


def _about(found: Crossover) -> str:
    assert found.point is not None
    return f"{float(f'{found.point:.3g}'):,.0f}"


def _bracket(found: Crossover) -> str:
    return f"{found.low:,} to {found.high:,}"


def speedup_text(comparison: Comparison) -> str:
    """Return `×47.2 ±1.2%`, without the second part where there is no interval."""
    spread = comparison.plus_minus
    half = "" if spread is None else f" ±{percent(spread)}%"
    return f"×{significant(comparison.speedup)}{half}"


def _no_winner(found: Crossover, against: str) -> str:
    if found.kind == NOTHING:
        return "No size has been timed on both devices yet."
    if found.kind == TOO_FEW_ROUNDS:
        return f"Undecided {against}, because there are too few rounds: it takes {MIN_ROUNDS} at least."
    if found.kind == TIES:
        return f"A tie {against}: CPU and GPU differ by less than 2 % at every size."
    spreads = [p.comparison.plus_minus for p in found.points if p.comparison.plus_minus is not None]
    noise = f" (±{percent(min(spreads))}% at best)" if spreads else ""
    return f"Undecided {against}, because no size differs by more than the noise{noise}."


def cause_sentence(evidence: Evidence) -> str:
    """Return what the GPU's time goes into at the smallest size; empty where that was not measured."""
    smallest = evidence.measured.points[0]
    parts = [
        _cause(taken_apart, how)
        for taken_apart, how in ((evidence.resident, ""), (evidence.moved, " end to end"))
        if taken_apart is not None
    ]
    if not parts:
        return ""
    return f"At {smallest.size:,} {_lost(smallest)}: {'; '.join(parts)}."


def _lost(point: SweepPoint) -> str:
    speedup = point.comparison.speedup
    if speedup < 1:
        return f"the GPU takes ×{significant(1 / speedup)} as long as the CPU"
    return f"the GPU is ×{significant(speedup)} as fast as the CPU"


def _cause(taken_apart: Decomposition, how: str) -> str:
    name, share = taken_apart.largest
    text = f"{CAUSES[name]} is {percent(share)}% of {time_text(taken_apart.measured_ns)}{how}"
    if taken_apart.is_explained:
        return text
    rest = taken_apart.share(taken_apart.rest_ns)
    return f"{text} ({percent(rest)}% unexplained)" if rest > 0 else f"{text} (parts overlap by {percent(-rest)}%)"


def counterfactual_sentence(evidence: Evidence) -> str:
    """Return where the crossover would be without launch cost, from pinned memory, against one thread."""
    parts = []
    for key, words in ((NO_LAUNCH, "if launching and waiting cost nothing"), (PINNED, "end to end from pinned memory"),
                       (ONE_THREAD, "against one CPU thread")):  # fmt: skip
        world = evidence.worlds.get(key)
        if world is not None and world.points and _says_something(key, world, evidence):
            parts.append(f"{words} {where(world)}")
    return f"The GPU would be faster {'; '.join(parts)}." if parts else ""


def _says_something(key: str, world: Crossover, evidence: Evidence) -> bool:
    """Whether a world says anything that the measured one does not."""
    base = evidence.worlds.get(END_TO_END) if key == PINNED else evidence.measured
    settled = (NOTHING, TOO_FEW_ROUNDS, TIES, NO_WINNER)
    if world.kind in settled:
        return False
    return base is None or world.kind != ALWAYS or base.kind != ALWAYS


def clock_sentence(printed: tuple[Printed, ...]) -> str:
    """Return what the publication's clock would have claimed; empty where it is right within a factor of two."""
    usable = [p for p in printed if min(p.cpu_ns, p.gpu_ns, p.gpu_waited_ns) > 0]
    worst = max(usable, key=lambda p: p.gpu_waited_ns / p.gpu_ns, default=None)
    if worst is None or worst.gpu_waited_ns < 2 * worst.gpu_ns:
        return ""
    last = usable[-1]
    claim = f"×{significant(last.cpu_ns / last.gpu_ns)} at {last.size:,}"
    first = _from_on(usable)
    start = "" if first is None or len(usable) < 2 else f"the GPU from {first:,} on, "
    off = significant(worst.gpu_waited_ns / worst.gpu_ns)
    return f"The publication's clock would have claimed {start}{claim}: it is off by up to ×{off} ({worst.size:,})."


def _from_on(printed: list[Printed]) -> int | None:
    """Return the smallest size from which on the printed times favour the GPU; None if the last one does not."""
    first = None
    for each in printed:
        first = (each.size if first is None else first) if each.gpu_ns < each.cpu_ns else None
    return first
