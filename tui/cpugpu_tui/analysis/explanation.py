"""The reasons behind an answer: the largest cost, what other costs would change, and the paper's clock."""

from __future__ import annotations

import math

from cpugpu_tui.analysis.answer import Evidence, Printed, verdict_sentence, who_wins
from cpugpu_tui.analysis.costs import CAUSES, END_TO_END, NO_LAUNCH, ONE_THREAD, PINNED, Decomposition
from cpugpu_tui.decide.crossover import ALWAYS, NEVER, Crossover
from cpugpu_tui.model.quantities import factor, faster, percent, time_text


def sentences(evidence: Evidence) -> tuple[str, ...]:
    """Return the answer, then a line each for cause, counterfactuals and the paper's clock, if known."""
    lines = [verdict_sentence(evidence)]
    if evidence.measured.points:
        lines += [cause_sentence(evidence), counterfactual_sentence(evidence), clock_sentence(evidence.printed)]
    return tuple(sentence for sentence in lines if sentence)


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
