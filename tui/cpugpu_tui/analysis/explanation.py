"""Why the answer is what it is: the cause, what other costs would change, and what the publication's clock says."""

from __future__ import annotations

import math

from cpugpu_tui.analysis.answer import Evidence, Printed, lead, verdict_sentence
from cpugpu_tui.analysis.costs import CAUSES, END_TO_END, NO_LAUNCH, ONE_THREAD, PINNED, Decomposition
from cpugpu_tui.decide.crossover import ALWAYS, NEVER, Crossover
from cpugpu_tui.model.quantities import factor, faster, percent, time_text


def sentences(evidence: Evidence) -> tuple[str, ...]:
    """Return the answer, then a line each for cause, counterfactual and the publication's clock, where known."""
    said = [verdict_sentence(evidence)]
    if evidence.measured.points:
        said += [cause_sentence(evidence), counterfactual_sentence(evidence), clock_sentence(evidence.printed)]
    return tuple(sentence for sentence in said if sentence)


def cause_sentence(evidence: Evidence) -> str:
    """Return what the GPU's time goes into at the smallest size; empty where that was not measured."""
    if not evidence.measured.points:
        return ""
    smallest = evidence.measured.points[0]
    said = []
    if evidence.resident is not None:
        slower = f"At {smallest.size:,} the GPU is {faster(smallest.comparison.speedup)}"
        said.append(f"{slower}: {_cause(evidence.resident)}.")
    if evidence.moved is not None:
        where = "" if said else f" at {smallest.size:,}"
        said.append(f"Including copies, {_cause(evidence.moved)}{where}.")
    return " ".join(said)


def _cause(taken_apart: Decomposition) -> str:
    name, share = taken_apart.largest
    # A part is timed on its own, where it can take longer than in the call, beside other parts.
    text = (
        f"{CAUSES[name]} takes {f'{percent(share)} %' if share <= 1 else 'all'} of {time_text(taken_apart.measured_ns)}"
    )
    if taken_apart.is_explained:
        return text
    rest = taken_apart.share(taken_apart.rest_ns)
    if rest > 0:
        return f"{text} ({percent(rest)} % unexplained)"
    return f"{text} (timed apart, the parts make {percent(1 - rest)} %)"


COUNTERFACTUALS = (
    (NO_LAUNCH, "without launch overhead"),
    (PINNED, "including copies from pinned memory"),
    (ONE_THREAD, "against one CPU thread"),
)


def counterfactual_sentence(evidence: Evidence) -> str:
    """Return where the crossover would be without launch cost, from pinned memory, against one thread."""
    said = []
    for key, condition in COUNTERFACTUALS:
        world = evidence.worlds.get(key)
        base = evidence.worlds.get(END_TO_END) if key == PINNED else evidence.measured
        if world is None or not _says_something(world, base):
            continue
        even = "even " if base is not None and base.kind == world.kind == NEVER else ""
        words = f"{even}{condition} {lead(world, evidence.axis, verb='would win')}"
        said.append(f"{words[0].upper()}{words[1:]}.")
    return " ".join(said)


def _says_something(world: Crossover, base: Crossover | None) -> bool:
    """Whether a world has a winner, and says anything that the measured one does not."""
    if world.changes == 0 and world.kind not in (ALWAYS, NEVER):
        return False
    return base is None or world.kind != ALWAYS or base.kind != ALWAYS


def clock_sentence(printed: tuple[Printed, ...]) -> str:
    """Return what the publication's clock would have claimed; empty where it is right within a factor of two."""
    usable = [p for p in printed if all(0 < ns < math.inf for ns in (p.cpu_ns, p.gpu_ns, p.gpu_waited_ns))]
    worst = max(usable, key=lambda p: p.gpu_waited_ns / p.gpu_ns, default=None)
    if worst is None or worst.gpu_waited_ns < 2 * worst.gpu_ns:
        return ""
    off = factor(worst.gpu_waited_ns / worst.gpu_ns)
    return f"Timed the paper's way, {_claim(usable)}; the paper's error is up to {off} (at {worst.size:,})."


def _claim(printed: list[Printed]) -> str:
    """Return who would be faster from where, judged from the largest size, by what was printed."""
    last, first = printed[-1], None
    for each in printed:
        first = (each.size if first is None else first) if each.gpu_ns < each.cpu_ns else None
    said = f"{faster(last.cpu_ns / last.gpu_ns)} at {last.size:,}"
    if first is None or first == last.size:
        return f"the GPU seems {said}"
    return f"the GPU seems to win from {first:,}, {said}"
