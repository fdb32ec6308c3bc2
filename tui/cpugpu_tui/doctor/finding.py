"""What one check says: ok, warn, fail or unknown, what was found, why that matters and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail", "unknown"]
"""`warn`: results are true but worse, or harder to judge, than they could be. `fail`: something cannot be done.
`unknown`: not judged, because nobody could be asked or nothing was answered; never counted as ok."""

_WORST_FIRST: tuple[Verdict, ...] = ("fail", "warn", "unknown", "ok")


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
    """Return that all is well, or that there is nothing here that could be wrong."""
    return Finding("ok", found)


def warn(found: str, cause: str, remedy: str) -> Finding:
    """Return that results suffer."""
    return Finding("warn", found, cause, remedy)


def fail(found: str, cause: str, remedy: str) -> Finding:
    """Return that something cannot be done."""
    return Finding("fail", found, cause, remedy)


def unknown(found: str, cause: str = "", remedy: str = "") -> Finding:
    """Return that it was not judged; `found` says why unless a line above it does."""
    return Finding("unknown", found, cause, remedy)


def worst(findings: Mapping[str, Finding]) -> Finding:
    """Return the findings of one check by their subjects (`GPU 0`) as one: the worst verdict, and all that was found.

    Causes and remedies are each subject's own; what several have in common is said once.

    Raises:
        ValueError: there is none.
    """
    verdict = min((finding.verdict for finding in findings.values()), key=_WORST_FIRST.index)
    causes = {subject: finding.cause for subject, finding in findings.items() if finding.cause}
    remedies = {subject: finding.remedy for subject, finding in findings.items() if finding.remedy}
    return Finding(verdict, "; ".join(finding.found for finding in findings.values()), _each(causes), _each(remedies))


def _each(texts: Mapping[str, str]) -> str:
    """Return different texts behind their subjects, one that all share without."""
    subjects: dict[str, list[str]] = {}
    for subject, text in texts.items():
        subjects.setdefault(text, []).append(subject)
    if len(subjects) == 1:
        return next(iter(subjects))
    return " ".join(f"{', '.join(who)}: {text}" for text, who in subjects.items())


def sentences(text: str) -> tuple[str, str]:
    """Return cause and remedy of a text that is one sentence of each, as all our failures are."""
    cause, dot, remedy = text.partition(". ")
    return cause + ("." if dot else ""), remedy
