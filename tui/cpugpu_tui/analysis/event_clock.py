"""What the check of a GPU's event clock found, in words."""

from __future__ import annotations

from collections.abc import Mapping

from cpugpu_tui.model import EventClock
from cpugpu_tui.model.quantities import percent, time_text

UNAFFECTED = "Latency, winners and crossover do not use that clock."


def clock_text(found: EventClock) -> str:
    """Return the outcome of a check as a predicate: `agrees with the wall clock within 0.2 %, resolves 1.25 µs`."""
    if not found.is_sound:
        return f"is not used, because {fault_text(found, 'it')}"
    floor = "" if found.floor_ns is None else f", resolves {time_text(found.floor_ns)}"
    share = agreement(found)
    within = "" if share is None else f" within {percent(share)} %"
    return f"agrees with the wall clock{within}{floor}"


def agreement(found: EventClock) -> float | None:
    """Return how far the event clock may be from the wall clock, as a share; None if they were not compared."""
    block_ns, least_ns, most_ns = found.block_ns, found.wall_least_ns, found.wall_most_ns
    if not block_ns or not least_ns or not most_ns:
        return None
    return max(abs(block_ns / least_ns - 1), abs(block_ns / most_ns - 1))


def fault_text(found: EventClock, subject: str = "the event clock") -> str:
    """Return why a clock is not used, as a clause; empty for a sound one."""
    read, took = time_text(found.block_ns or 0), time_text(found.wall_most_ns or 0)
    texts = {
        "": "",
        "hang": f"{subject} did not answer within {(found.limit_ns or 0) / 1e6:,.0f} ms",
        "zero": f"{subject} always reads 0",
        "back": f"{subject} stepped back by {time_text(found.back_ns or 0)}",
        "wall": f"{subject} read {read} for work of {took}",
        "coarse": f"{subject} advances in steps of {time_text(found.step_ns or 0)}",
        "late": f"{subject} reads {time_text(found.pair_ns or 0)} where nothing ran",
        "bend": f"{subject} does not grow in proportion to the number of calls ({percent(found.bend or 0)} % off)",
    }
    return texts.get(found.fault, f"{subject} has a fault that this version does not know")


def clock_sentences(clocks: Mapping[str, EventClock]) -> list[str]:
    """Return a sentence for each GPU without kernel times, by its name."""
    return [
        f"{device} has no kernel times: {fault_text(clock, 'its event clock')}. {UNAFFECTED}"
        for device, clock in clocks.items()
        if not clock.is_sound
    ]


def clock_data(clocks: Mapping[str, EventClock]) -> dict[str, dict[str, object]]:
    """Return the outcome for each GPU as JSON values."""
    return {
        device: {
            "sound": clock.is_sound, "fault": clock.fault or None, "text": clock_text(clock),
            "floor_ns": clock.floor_ns, "block_ns": clock.block_ns, "wall_least_ns": clock.wall_least_ns,
            "wall_most_ns": clock.wall_most_ns,
        }
        for device, clock in clocks.items()
    }  # fmt: skip
