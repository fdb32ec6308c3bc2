"""The parts of one GPU call's time, and its time without some of them.

T = copy to the GPU + launch + kernels + wait + copy back + rest (method.md), each term measured separately.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cpugpu_tui import model
from cpugpu_tui.decide.interval import median_interval
from cpugpu_tui.model.quantities import significant

TO_GPU, LAUNCH, KERNELS, WAIT, BACK = "copy to the GPU", "launch", "warm kernels", "wait", "copy back"

UNEXPLAINED = 0.1
"""A rest above this share of the measured time is called unexplained."""

LEAST_REST = 0.005
"""A rest below this share of the measured time is not shown."""

CAUSES = {
    TO_GPU: "copying to the GPU", LAUNCH: "launch overhead", KERNELS: "warm kernel time", WAIT: "waiting for the GPU",
    BACK: "copying back",
}  # fmt: skip
"""Term → its words in a sentence."""


class Decomposition(NamedTuple):
    """One call's time in parts."""

    measured_ns: float
    """Time of the whole call."""
    parts: tuple[tuple[str, float], ...]
    """(term, ns), in order of time."""
    kernels_ns: float
    """Time of all kernels. Without the other terms, the call would still take so long."""

    @property
    def hidden_ns(self) -> float:
        """Time of kernels that run beside other terms."""
        return self.kernels_ns - dict(self.parts)[KERNELS]

    @property
    def rest_ns(self) -> float:
        """Time that the parts do not explain; below 0 if they overlap."""
        return self.measured_ns - sum(part_ns for _, part_ns in self.parts)

    @property
    def is_explained(self) -> bool:
        """Whether the rest is small."""
        return abs(self.rest_ns) <= UNEXPLAINED * self.measured_ns

    def share(self, part_ns: float) -> float:
        """Return a part's share of the whole."""
        return part_ns / self.measured_ns

    @property
    def largest(self) -> tuple[str, float]:
        """The largest part with its share of the whole."""
        name, part_ns = max(self.parts, key=lambda part: part[1])
        return name, self.share(part_ns)


def decompose(
    measured_ns: float | None, launch_ns: float | None, device_ns: float | None, wait_ns: float | None,
    to_gpu_ns: float | None = None, back_ns: float | None = None,
) -> Decomposition | None:  # fmt: skip
    """Return the parts of one call; None if a term was not measured. Without copies it is a resident call.

    `launch_ns` is the time until the call returned, `wait_ns` the wait beyond the kernels. With copies, `to_gpu_ns` is
    the time until the copies returned; `back_ns` fetches the result and so includes the wait for the kernels.
    Kernels run while later ones are queued: only the part of `device_ns` that fits beside the other terms counts.
    """
    moved = to_gpu_ns is not None and back_ns is not None
    others = [(TO_GPU, to_gpu_ns), (LAUNCH, launch_ns), (BACK, back_ns)] if moved else [
        (LAUNCH, launch_ns), (WAIT, wait_ns)
    ]  # fmt: skip
    if any(term is None or not 0 < term < math.inf for term in (measured_ns, device_ns, *(ns for _, ns in others))):
        return None
    known = [(name, ns) for name, ns in others if ns is not None]
    assert measured_ns is not None
    assert device_ns is not None
    visible_ns = min(device_ns, max(0.0, measured_ns - sum(ns for _, ns in known)))
    *first, last = known
    return Decomposition(measured_ns, (*first, (KERNELS, visible_ns), last), device_ns)


Rounds = Mapping[int, float]
"""Round index → ns."""

RESIDENT, END_TO_END, PINNED, TEN_CALLS, HUNDRED_CALLS, NO_LAUNCH, ONE_THREAD = (
    model.RESIDENT, "end to end", "pinned", "10 calls", "100 calls", "no launch cost", "one thread"
)  # fmt: skip


class WhatIf(NamedTuple):
    """A hypothetical case with other costs."""

    key: str
    label: str
    """Its name beside a chart."""
    question: str
    """What the crossover under these costs answers."""
    metric: str = model.LATENCY
    """The GPU's times that it takes."""
    calls: int = 1
    """Number of calls that share the copies of one."""
    base: str = RESIDENT
    """Key of the condition that it is compared with: what-ifs about copies with pageable copies."""


WHAT_IFS: tuple[WhatIf, ...] = (
    WhatIf(RESIDENT, "inputs on the GPU", "What if the inputs are on the GPU?"),
    WhatIf(END_TO_END, "with copies", "What if the copies are included?", model.PAGEABLE),
    WhatIf(PINNED, "copies from pinned memory", "What if copies use pinned memory?", model.PINNED, base=END_TO_END),
    WhatIf(TEN_CALLS, "one copy for 10 calls", "What if one copy serves 10 calls?", model.PAGEABLE, 10, END_TO_END),
    WhatIf(
        HUNDRED_CALLS, "one copy for 100 calls", "What if one copy serves 100 calls?", model.PAGEABLE, 100, END_TO_END
    ),
    WhatIf(NO_LAUNCH, "no launch and wait", "What if launch and wait cost nothing?", model.DEVICE_WARM),
    WhatIf(ONE_THREAD, "one CPU thread", "What if the CPU uses one thread?"),
)
"""In the order in which a key cycles through them; the first was measured."""


def gpu_rounds(what_if: WhatIf, measured: Mapping[str, Rounds]) -> Rounds:
    """Return a GPU's times under a `WhatIf`, from those of each metric; empty if it needs one without times.

    If calls share copies, it is the latency plus its part of the copies' time, for the rounds that have both.
    """
    found, latency = measured.get(what_if.metric, {}), measured.get(model.LATENCY, {})
    if what_if.calls == 1:
        return found
    return {
        index: latency[index] + max(0.0, found[index] - latency[index]) / what_if.calls
        for index in found
        if index in latency
    }


# ------------------------------------------------------------------ cost ratio


WANTED_HALF_WIDTH = 0.01
"""Rounds continue until the half-width of the ratio's 95 % interval is this small."""

LEAST_ROUNDS = 8
"""As for a case (method.md, step 7)."""

ALLOWED = 1.01
"""Largest ratio allowed for telemetry at its default rate beside a launch-bound loop."""


NEVER = math.inf


def calls_to_pay(compile_ns: float, eager_ns: float | None, compiled_ns: float | None) -> float | None:
    """Return the number of calls after which compiling has paid; `NEVER` if calls became no faster, None if unknown."""
    if eager_ns is None or compiled_ns is None:
        return None
    return math.ceil(compile_ns / (eager_ns - compiled_ns)) if eager_ns > compiled_ns else NEVER


class CostRatio(NamedTuple):
    """Time of a call with telemetry over its time without, with its 95 % interval."""

    ratio: float
    low: float
    high: float
    rounds: int

    @property
    def half_width(self) -> float:
        """Half the length of the interval of ln(ratio)."""
        return math.log(self.high / self.low) / 2

    @property
    def is_settled(self) -> bool:
        """Whether there are enough rounds and the interval is narrow enough."""
        return self.rounds >= LEAST_ROUNDS and self.half_width <= WANTED_HALF_WIDTH

    @property
    def is_allowed(self) -> bool:
        """Whether the cost is known well enough and within `ALLOWED`."""
        return self.is_settled and self.ratio <= ALLOWED


def cost_ratio(rounds: Sequence[tuple[float, float]]) -> CostRatio | None:
    """Return the ratio of (off_ns, on_ns) per call, one pair a round in order of time; None below 6 rounds.

    The interval of the median of ln(on / off), widened for serial correlation: slow drift of the clock affects several
    rounds alike.
    """
    interval = median_interval([math.log(on_ns / off_ns) for off_ns, on_ns in rounds])
    if interval is None:
        return None
    return CostRatio(math.exp(interval.center), math.exp(interval.low), math.exp(interval.high), len(rounds))


LEAST_NS = 1e9
"""Shorter windows give no energy (method.md, step 10)."""

LEAST_TICKS = 10
"""Windows of fewer counter steps give no energy either."""

DISPUTED = 0.1
"""Counter and polled power contradict each other if they differ by more than this share."""

SCOPE_WORDS = {
    "gpu": "",
    "board": "whole board, all MIG instances",
    "module": "whole module, including the processor",
    "package": "processor packages, all cores",
}
"""Scope of a counter → what it covers, in words; empty if it covers just the device."""


class Energy(NamedTuple):
    """Energy and power of a window, each as a value or a reason."""

    joules: model.Reading
    """Energy of the whole window."""
    joules_per_call: model.Reading
    watts: model.Reading
    """Mean power of the window."""
    plus_minus: float | None = None
    """Relative error: one counter step as a share of the window."""
    polled_watts: float | None = None
    """Mean of the polled power, to check the counter; None without readings."""
    scope: str = "gpu"
    """See `EnergyMeasured.scope`."""

    @property
    def is_disputed(self) -> bool:
        """Whether counter and polled power are more than `DISPUTED` apart."""
        watts = self.watts.value
        return bool(watts and self.polled_watts and abs(self.polled_watts / watts - 1) > DISPUTED)


def missing(reason: str, scope: str = "gpu") -> Energy:
    """Return an energy without numbers, for this reason."""
    reading = model.Reading(None, reason)
    return Energy(reading, reading, reading, scope=scope)


def energy(window: model.EnergyMeasured | None) -> Energy:
    """Return the energy of a window; `not-asked` without one."""
    if window is None:
        return missing("not-asked")
    reason = _why_not(window)
    if reason is not None or window.begin_mj is None or window.end_mj is None:
        return missing(reason or "unknown", window.scope)
    joules = (window.end_mj - window.begin_mj) / 1e3
    per_call = model.Reading(joules / window.calls) if window.calls else model.Reading(None, "not-asked")
    return Energy(
        model.Reading(joules), per_call, model.Reading(joules / (window.elapsed_ns / 1e9)),
        window.tick_ns / window.elapsed_ns,
        sum(window.power_mw) / len(window.power_mw) / 1e3 if window.power_mw else None, window.scope,
    )  # fmt: skip


def _why_not(window: model.EnergyMeasured) -> str | None:
    if window.reason is not None:
        return window.reason
    if window.begin_mj is None or window.end_mj is None:
        return "unknown"
    if window.elapsed_ns < max(LEAST_NS, LEAST_TICKS * window.tick_ns):
        return "window-too-short"
    if window.end_mj < window.begin_mj:
        return "counter-reset"
    # A counter that did not move has longer steps than assumed.
    return "window-too-short" if window.end_mj == window.begin_mj else None


def above_idle(window: model.EnergyMeasured | None, idle: model.EnergyMeasured | None) -> model.Reading:
    """Return the joules of a call above the idle power, or the reason why they are not known."""
    found, waiting = energy(window), energy(idle)
    if window is None or found.joules.value is None or not window.calls:
        return model.Reading(None, found.joules.reason or "not-asked")
    if waiting.watts.value is None:
        return model.Reading(None, waiting.watts.reason)
    return model.Reading((found.joules.value - waiting.watts.value * window.elapsed_ns / 1e9) / window.calls)


def joules_text(joules: float) -> str:
    """Return an energy with a unit that suits it: `35.2 µJ`, `1.20 J`."""
    for limit, size, unit in ((1e-6, 1e-9, "nJ"), (1e-3, 1e-6, "µJ"), (1.0, 1e-3, "mJ"), (1e3, 1.0, "J")):
        if abs(joules) < limit:
            return f"{significant(joules / size)} {unit}"
    return f"{significant(joules / 1e3)} kJ"
