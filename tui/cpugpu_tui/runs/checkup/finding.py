"""What one check says: ok, warn or fail, what was found, why that matters and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail"]
"""`warn`: results are true but worse, or harder to judge, than they could be. `fail`: something cannot be done."""

_WORST_FIRST: tuple[Verdict, ...] = ("fail", "warn", "ok")


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    verdict: Verdict
    found: str
    """What is there, one sentence or list."""
    cause: str = ""
    """Why it is worth a line; empty when all is well."""
    remedy: str = ""
    """What to do about it; empty when nothing need be done."""
    check: str = ""
    """Stable id of the check, like `torch.build`."""


def ok(found: str) -> Finding:
    """Return that all is well, or that there is nothing to judge."""
    return Finding("ok", found)


def warn(found: str, cause: str, remedy: str) -> Finding:
    """Return that results suffer."""
    return Finding("warn", found, cause, remedy)


def fail(found: str, cause: str, remedy: str) -> Finding:
    """Return that something cannot be done."""
    return Finding("fail", found, cause, remedy)


def worst(findings: Sequence[Finding]) -> Finding:
    """Return several findings of one check (one a GPU) as one: the worst verdict, everything found, its cause.

    Raises:
        ValueError: there is none.
    """
    verdict = min((finding.verdict for finding in findings), key=_WORST_FIRST.index)
    first = next(finding for finding in findings if finding.verdict == verdict)
    return Finding(verdict, "; ".join(finding.found for finding in findings), first.cause, first.remedy)


def sentences(text: str) -> tuple[str, str]:
    """Return cause and remedy of a text that is one sentence of each, as all our failures are."""
    cause, dot, remedy = text.partition(". ")
    return cause + ("." if dot else ""), remedy
