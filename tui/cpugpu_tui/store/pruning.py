"""Which runs a person lets go of. Pure: nothing here touches the database."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cpugpu_tui.errors import UsageError
from cpugpu_tui.store.summary import RunSummary

_UNITS_NS = {"min": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9, "w": 604_800 * 10**9}


@dataclass(frozen=True)
class Pruning:
    """What goes, and what was spared although it is old."""

    going: tuple[RunSummary, ...]
    spared: tuple[RunSummary, ...]
    """Runs that have a tag, are a baseline's, or are running."""


def age_ns(text: str) -> int:
    """Return the length of `30d`, `12h`, `90min` or `2w`.

    Raises:
        UsageError: it is something else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(min|h|d|w)", text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no age.", "Write 30d, 12h, 90min or 2w.")
    # Who wrote four hundred digits means for ever, which is more than a float holds.
    return int(min(float(found[1]) * _UNITS_NS[found[2]], 1e30))


def pruning(runs: Sequence[RunSummary], keep: int | None, before_wall_ns: int | None) -> Pruning:
    """Judge all runs, newest first: beyond the newest `keep`, and begun before a time, where these are given."""
    old = [
        run
        for position, run in enumerate(runs)
        if (keep is None or position >= keep) and (before_wall_ns is None or run.started_wall_ns < before_wall_ns)
    ]
    return Pruning(
        tuple(run for run in old if not is_dear(run)),
        tuple(run for run in old if is_dear(run)),
    )


def is_dear(run: RunSummary) -> bool:
    """Return whether a run stays whatever its age: tagged, a baseline's, or running."""
    return bool(run.tags or run.baselines) or run.status == "running"
