"""The filter of saved runs, `gpu:h200 dtype:bf16 n>1000`: one grammar for the command and the app's list."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from cpugpu_tui.config.parsing import SHORT_DTYPES, parse_size
from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import DTYPES

if TYPE_CHECKING:
    from cpugpu_tui.store.summary import RunSummary

STATUSES = ("running", "done", "stopped", "failed", "interrupted")

EXAMPLE = "gpu:h200 dtype:bf16 n>1000"

_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "=": operator.eq, ":": operator.eq,
}  # fmt: skip
_SIZE = re.compile(r"n(>=|<=|>|<|=|:)(.*)", re.IGNORECASE)
_SIZE_REMEDY = "Write a whole number, for example n>1000 or n<=1e6."

Test = Callable[["RunSummary"], bool]


@dataclass(frozen=True)
class Filter:
    """The parts of a filter; a run must match all of them."""

    words: tuple[str, ...]
    """Words in lower case that the text of a run must contain."""
    tests: tuple[Test, ...]
    """Conditions on dtype, size and other facts."""
    needs_cases: bool
    """Whether a condition is about dtype or size, which are facts of cases."""

    def matches(self, run: RunSummary, text: str | None = None) -> bool:
        """Whether a run matches; `text` is its `searched_text`, if known."""
        if not all(test(run) for test in self.tests):
            return False
        if not self.words:
            return True
        text = searched_text(run) if text is None else text
        return all(word in text for word in self.words)


def parse_filter(text: str) -> Filter:
    """Return the filter in a text: words, and conditions such as `dtype:bf16` and `n>1000`, separated by spaces.

    Raises:
        UsageError: a condition has an unknown name or an invalid value.
    """
    words: dict[str, None] = {}
    tests: list[Test] = []
    needs_cases = False
    for part in text.split():
        size, (name, colon, value) = _SIZE.fullmatch(part), part.lower().partition(":")
        needs_cases = needs_cases or size is not None or name == "dtype"
        if size is not None:
            tests.append(_size_test(size[1], size[2], part))
        elif re.match(r"\w+[<>]", part):
            raise UsageError(f"Unknown filter {part!r}.", "Only sizes can be compared, for example n>1000.")
        elif not colon or name == "text":
            words[value if colon else name] = None
        elif name not in _CONDITIONS:
            near = get_close_matches(name, _CONDITIONS, 1)
            raise UsageError(
                f"Unknown filter {name + ':'!r}.",
                f"Did you mean {near[0]}:?" if near else
                f"Use {', '.join(f'{known}:' for known in _CONDITIONS)}, n>1000, or text:{part} for the text itself.",
            )  # fmt: skip
        elif not value:
            raise UsageError(f"The filter {part!r} has no value.", f"Write one after the colon, for example {EXAMPLE}.")
        else:
            tests.append(_CONDITIONS[name](value))
    return Filter(tuple(words), tuple(tests), needs_cases)


def searched_text(run: RunSummary) -> str:
    """Return the text in which the words of a filter are searched, in lower case."""
    started = datetime.fromtimestamp(run.started_wall_ns / 1e9)
    parts = [
        str(run.number), run.run_id, run.name, run.status, run.hostname, run.machine, run.fleet_host or "",
        started.isoformat()[:10], *run.devices, *(f"#{tag}" for tag in run.tags),
        *(f"baseline {name}" for name in run.baselines), "simulated" if run.simulated else "",
    ]  # fmt: skip
    return "\n".join(parts).lower()


# ------------------------------------------------------------------ conditions


def _size_test(relation: str, value: str, part: str) -> Test:
    if not value:
        raise UsageError(f"The filter {part!r} has no number.", _SIZE_REMEDY)
    wanted, compare = parse_size(value, remedy=_SIZE_REMEDY), _RELATIONS[relation]
    return lambda run: any(compare(size, wanted) for size in run.sizes)


def _dtype(value: str) -> Test:
    """Return the test for a dtype: its name, another name of it, or the first letters of either."""
    names = {**{name: name for name in DTYPES}, **SHORT_DTYPES}
    exact = {names[value]} if value in names else set()
    wanted = exact or {dtype for name, dtype in names.items() if name.startswith(value)}
    if not wanted:
        raise UsageError(f"Unknown dtype {value!r}.", f"Use one of: {', '.join(DTYPES)}.")
    return lambda run: not wanted.isdisjoint(run.dtypes)


def _status(value: str) -> Test:
    if not any(status.startswith(value) for status in STATUSES):
        raise UsageError(f"Unknown status {value!r}.", f"Use one of: {', '.join(STATUSES)}.")
    return lambda run: run.status.startswith(value)


def _date(value: str) -> Test:
    if re.fullmatch(r"\d{1,4}(-\d{0,2}){0,2}", value) is None:
        raise UsageError(f"Invalid date {value!r}.", "Write a day, month or year, for example date:2026-01-31.")
    return lambda run: f"{datetime.fromtimestamp(run.started_wall_ns / 1e9):%Y-%m-%d}".startswith(value)


def _among(texts: Callable[[RunSummary], tuple[str, ...]]) -> Callable[[str], Test]:
    """Return a condition that one of a run's texts contains the value."""
    return lambda value: lambda run: any(value in text.lower() for text in texts(run))


_CONDITIONS: dict[str, Callable[[str], Test]] = {
    "gpu": _among(lambda run: run.gpus),
    "cpu": _among(lambda run: tuple(label for label in run.devices if label not in run.gpus)),
    "dtype": _dtype,
    "name": _among(lambda run: (run.name,)),
    "status": _status,
    "date": _date,
    "host": _among(lambda run: (run.hostname, run.machine, run.fleet_host or "")),
    "tag": _among(lambda run: run.tags),
    "baseline": _among(lambda run: run.baselines),
}
"""Name before the colon → test for the value after it."""
