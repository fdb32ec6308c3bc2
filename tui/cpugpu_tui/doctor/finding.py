"""The result of one check: verdict, what was found, why it matters and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail", "unknown"]
"""`warn`: results are correct, but slower or noisier than they could be. `fail`: something does not work.
`unknown`: not judged, because the facts are missing. It never counts as ok."""

_WORST_FIRST: tuple[Verdict, ...] = ("fail", "warn", "unknown", "ok")


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    verdict: Verdict
    found: str
    """What the check found: one sentence or list."""
    cause: str = ""
    """Why it matters; empty if ok."""
    remedy: str = ""
    """What to do; empty if there is nothing to do."""
    check: str = ""
    """Stable id of the check, such as `torch.build`."""


def ok(found: str) -> Finding:
    """Return a finding for a check that passed or does not apply."""
    return Finding("ok", found)


def warn(found: str, cause: str, remedy: str) -> Finding:
    """Return a finding for a problem that makes results worse."""
    return Finding("warn", found, cause, remedy)


def fail(found: str, cause: str, remedy: str) -> Finding:
    """Return a finding for something that does not work."""
    return Finding("fail", found, cause, remedy)


def unknown(found: str, cause: str = "", remedy: str = "") -> Finding:
    """Return a finding for a check that was not judged; `found` says why."""
    return Finding("unknown", found, cause, remedy)


def worst(findings: Mapping[str, Finding]) -> Finding:
    """Merge the findings of one check, by subject (`GPU 0`), into one with the worst verdict.

    Each cause and remedy names its subjects, unless all subjects share it.

    Raises:
        ValueError: `findings` is empty.
    """
    verdict = min((finding.verdict for finding in findings.values()), key=_WORST_FIRST.index)
    causes = {subject: finding.cause for subject, finding in findings.items() if finding.cause}
    remedies = {subject: finding.remedy for subject, finding in findings.items() if finding.remedy}
    return Finding(verdict, "; ".join(finding.found for finding in findings.values()), _each(causes), _each(remedies))


def _each(texts: Mapping[str, str]) -> str:
    """Return each text with its subjects; a text that all share stands alone."""
    subjects: dict[str, list[str]] = {}
    for subject, text in texts.items():
        subjects.setdefault(text, []).append(subject)
    if len(subjects) == 1:
        return next(iter(subjects))
    return " ".join(f"{', '.join(who)}: {text}" for text, who in subjects.items())


def sentences(text: str) -> tuple[str, str]:
    """Split a text of two sentences into cause and remedy."""
    cause, dot, remedy = text.partition(". ")
    return cause + ("." if dot else ""), remedy
