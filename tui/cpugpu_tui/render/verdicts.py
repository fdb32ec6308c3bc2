"""The outcome of a row in a word: which device is faster, or why there is no verdict."""

from __future__ import annotations

from dataclasses import dataclass

from cpugpu_tui.decide.verdict import TIE, TOO_FEW, UNDECIDED, Comparison
from cpugpu_tui.model import NO_CORE
from cpugpu_tui.state.core_contention import WORD as NO_CORE_WORD
from cpugpu_tui.state.state import Row

PENDING, ACTIVE, TIMED, FAILED, SKIPPED = "pending", "active", "timed", "failed", "skipped"
"""Codes of outcomes in addition to those of `decide.verdict` and `NO_CORE`."""

NO_WINNER_WORDS = {TIE: "tie", UNDECIDED: "unclear", TOO_FEW: "too few"}
"""Verdicts that name no device, in at most seven cells."""

FAILURE_WORDS = {"oom": "OOM", "unsupported": "not here", "mismatch": "mismatch", "error": "error",
                 "timeout": "timeout", "crashed": "crashed", "skipped": "skipped"}  # fmt: skip
"""Failures in at most eight cells."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a row."""

    code: str
    """A verdict of `decide.verdict`, `NO_CORE`, or one of the codes above."""
    word: str


def winner(comparison: Comparison) -> str:
    """Return the faster device, or why there is none, in a word."""
    return comparison.faster or NO_WINNER_WORDS.get(comparison.verdict, comparison.verdict)


def failure_word(kind: str) -> str:
    """Return the word for a kind of failure."""
    return FAILURE_WORDS.get(kind, kind)


def outcome(row: Row) -> Outcome:
    """Return the winner or other outcome of a row; while it runs, the rounds done on every device."""
    if row.failure is not None:
        return Outcome(SKIPPED if row.failure.kind == "skipped" else FAILED, failure_word(row.failure.kind))
    if row.is_starved:
        return Outcome(NO_CORE, NO_CORE_WORD)
    found = row.comparison
    if row.status in (ACTIVE, PENDING) and (found is None or found.low is None):
        return Outcome(row.status, _progress(row) if row.status == ACTIVE else "")
    return Outcome(TIMED, "timed") if found is None else Outcome(found.verdict, winner(found))


def _progress(row: Row) -> str:
    """Return `3 of 8` rounds."""
    calibrated = [times.calibrated for times in row.times.values() if times.calibrated is not None]
    had = min((len(times.round_ns) for times in row.times.values()), default=0)
    wanted = max((each.rounds for each in calibrated), default=0)
    if had >= wanted:  # further rounds run until the interval is narrow
        wanted = max((each.max_rounds or each.rounds for each in calibrated), default=0)
    return f"{had} of {wanted}" if wanted else "warm-up"
