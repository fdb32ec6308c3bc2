"""What is listed of a saved run, and the filter of such lists, one grammar for the command and the app: `n>1000`."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from cpugpu_tui.config.parsing import DTYPE_ALIASES, parse_size
from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import DTYPES


@dataclass(frozen=True)
class RunSummary:
    """One run of the history."""

    number: int
    """Number of the run; never reused."""
    run_id: str
    series_id: str
    name: str
    """Preset or workload that was run."""
    status: str
    """`running`, `done`, `stopped`, `failed`, or `interrupted` if its process died before the end."""
    started_wall_ns: int
    duration_ns: int | None
    """None while it runs, or if it was interrupted."""
    hostname: str
    """Host that saved the run."""
    cases_ok: int
    cases_failed: int
    cases_skipped: int
    devices: tuple[str, ...]
    """Labels, in the order of timing."""
    simulated: bool
    """Whether a simulated machine made the numbers."""
    tags: tuple[str, ...] = ()
    """Tags, in alphabetical order."""
    baselines: tuple[str, ...] = ()
    """Names of its series as a baseline."""
    fleet_host: str | None = None
    """Host of the fleet that it ran on, as named in the inventory; None outside a fleet."""
    machine: str = ""
    """Host that it ran on."""
    gpus: tuple[str, ...] = ()
    """Labels of its GPUs."""
    dtypes: tuple[str, ...] = ()
    """Element types of its settled cases."""
    sizes: tuple[int, ...] = ()
    """Sizes of its settled cases, smallest first."""

    @property
    def cpus(self) -> tuple[str, ...]:
        """Labels of its CPUs."""
        return tuple(label for label in self.devices if label not in self.gpus)

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> RunSummary:
        """Return the summary in a row of `_SELECT`."""
        # By place, because looking up 16 columns by name took a third of the time of a list.
        (number, run_id, series_id, name, status, simulated, wall_ns, finished_wall_ns, hostname, machine, fleet_host,
         counts, case_keys, found, tags, baselines) = row  # fmt: skip
        cases_ok, cases_skipped, cases = map(int, counts.split())
        devices, gpus = _devices(found)
        dtypes, sizes = _shapes(case_keys) if case_keys else ((), ())
        return cls(
            number=number, run_id=run_id, series_id=series_id, name=name, status=status, started_wall_ns=wall_ns,
            duration_ns=None if finished_wall_ns is None else max(0, finished_wall_ns - wall_ns), hostname=hostname,
            cases_ok=cases_ok, cases_failed=cases - cases_ok - cases_skipped, cases_skipped=cases_skipped,
            devices=devices, simulated=bool(simulated), tags=tuple(tags.split("\n")) if tags else (),
            baselines=tuple(baselines.split("\n")) if baselines else (), fleet_host=fleet_host,
            machine=machine or hostname, gpus=gpus, dtypes=dtypes, sizes=sizes,
        )  # fmt: skip


def shape_of(case_key: str) -> tuple[str, int] | None:
    """Return dtype and size in the key of a case; None in a key that another program wrote."""
    parts = case_key.rsplit("/", 3)
    is_shape = len(parts) == 4 and parts[1].isdecimal() and len(parts[1]) <= 18
    return (parts[2], int(parts[1])) if is_shape else None


@lru_cache(maxsize=256)
def _shapes(case_keys: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the dtypes and the sizes in the keys of cases; runs that were repeated share them."""
    known = list(filter(None, map(shape_of, case_keys.split("\n"))))
    return tuple(dict.fromkeys(dtype for dtype, _ in known)), tuple(sorted({size for _, size in known}))


@lru_cache(maxsize=256)
def _devices(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels of all devices and of the GPUs in the JSON of a row."""
    devices = json.loads(text)
    return tuple(label for _, label in devices), tuple(label for name, label in devices if name != "cpu")


# ------------------------------------------------------------------ the filter


STATUSES = ("running", "done", "stopped", "failed", "interrupted")

EXAMPLE = "gpu:h200 dtype:bf16 n>1000"

MOST_PARTS = 50
"""Parts of a filter. SQLite refuses expressions with a thousand."""

_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "=": operator.eq, ":": operator.eq,
}  # fmt: skip
_SIZE = re.compile(r"n(>=|<=|>|<|=|:)(.*)", re.IGNORECASE)
_SIZE_REMEDY = "Write a whole number, for example n>1000 or n<=1e6."


@dataclass(frozen=True)
class Condition:
    """One part of a filter, for runs in memory and for rows of the table `run`; both must agree."""

    test: Callable[[RunSummary], bool] | None
    """None for a word, which is searched in the text of a run."""
    sql: str
    values: tuple[str | int, ...]
    """For the question marks in `sql`; for a word its text comes first."""


@dataclass(frozen=True)
class Filter:
    """The parts of a filter; a run must match all of them."""

    conditions: tuple[Condition, ...] = ()

    def matches(self, run: RunSummary, text: str | None = None) -> bool:
        """Whether a run matches; `text` is its `searched_text`, if known."""
        for condition in self.conditions:
            if condition.test is None:
                text = searched_text(run) if text is None else text
                if str(condition.values[0]) not in text:
                    return False
            elif not condition.test(run):
                return False
        return True


def parse_filter(text: str) -> Filter:
    """Return the filter in a text: words, and conditions such as `dtype:bf16` and `n>1000`, separated by spaces.

    Raises:
        UsageError: a condition has an unknown name or an invalid value.
    """
    found, error = parse_while_typed(text)
    if error is not None:
        raise error
    return found


def parse_while_typed(text: str) -> tuple[Filter, UsageError | None]:
    """Return the filter in a text without its invalid parts, and the error of the first of them."""
    # A command line may hold bytes that are no text; SQLite takes text only.
    parts = list(dict.fromkeys(text.encode("utf-8", "backslashreplace").decode().split()))
    conditions: list[Condition] = []
    errors: list[UsageError] = []
    for part in parts[:MOST_PARTS]:
        try:
            conditions.append(_condition(part))
        except UsageError as error:
            errors.append(error)
    if len(parts) > MOST_PARTS:
        errors.append(UsageError(f"The filter has {len(parts):,} parts.", f"Use at most {MOST_PARTS}."))
    return Filter(tuple(conditions)), errors[0] if errors else None


def _condition(part: str) -> Condition:
    size, (name, colon, value) = _SIZE.fullmatch(part), part.lower().partition(":")
    shown = _short(part)
    if size is not None:
        return _of_size(size[1], size[2], part)
    if re.match(r"\w+[<>]", part):
        raise UsageError(f"Unknown filter {shown!r}.", "Only sizes can be compared, for example n>1000.")
    if not colon or name == "text":
        return _word(value if colon else name)
    if name not in _CONDITIONS:
        near = get_close_matches(name, _CONDITIONS, 1)
        raise UsageError(
            f"Unknown filter {shown.partition(':')[0] + ':'!r}.",
            f"Did you mean {near[0]}:?" if near else
            f"Use {', '.join(f'{known}:' for known in _CONDITIONS)}, n>1000, or text:{shown} for the text itself.",
        )  # fmt: skip
    if not value:
        raise UsageError(f"The filter {shown!r} has no value.", f"Write one after the colon, for example {EXAMPLE}.")
    return _CONDITIONS[name](value)


def _short(text: str) -> str:
    """Return a text as an error message can show it."""
    return text if len(text) <= 40 else f"{text[:40]}…"


def searched_text(run: RunSummary) -> str:
    """Return the text in which the words of a filter are searched, in lower case."""
    parts = [
        str(run.number), run.run_id, run.name, run.status, run.hostname, run.machine, run.fleet_host or "",
        _day(run), *run.devices, *(f"#{tag}" for tag in run.tags),
        *(f"baseline:{name}" for name in run.baselines), "simulated" if run.simulated else "",
    ]  # fmt: skip
    return "\n".join(parts).lower()


FUNCTIONS: dict[str, Callable[[str], str | int | None]] = {
    "lowered": str.lower,  # SQLite's own lower() converts ASCII letters only
    "dtype_of": lambda case_key: (shape_of(case_key) or (None, None))[0],
    "size_of": lambda case_key: (shape_of(case_key) or (None, None))[1],
}
"""Functions of one text that the conditions call in SQL."""


# ------------------------------------------------------------------ conditions


FLEET_HOST = (
    """CASE WHEN instr(run.environment, '"fleet_host"') THEN json_extract(run.environment, '$.fleet_host') END"""
)
"""Most runs have none; looking for the word first saves reading the JSON."""
_SQL_DAY = "strftime('%Y-%m-%d', run.wall_ns / 1000000000, 'unixepoch', 'localtime')"

# The inner queries find few rows (machines, devices, tags, baselines), once for the whole table.
_TAGS = "run.number IN (SELECT run_number FROM tag WHERE instr('#' || lowered(tag), ?))"
_BASELINES = "run.series_id IN (SELECT series_id FROM baseline WHERE instr('baseline:' || lowered(name), ?))"
_NAMED_BASELINES = "run.series_id IN (SELECT series_id FROM baseline WHERE instr(lowered(name), ?))"
_MACHINES = "run.machine_id IN (SELECT machine_id FROM machine WHERE instr(lowered(hostname), ?))"
_DEVICES = """run.number IN (SELECT run_number FROM run_device WHERE device_id IN
    (SELECT device_id FROM device WHERE {which} AND instr(lowered(label), ?)))"""
_CASES = """run.number IN (SELECT run_number FROM case_result WHERE case_key IN
    (SELECT case_key FROM (SELECT DISTINCT case_key FROM case_result) WHERE {which}))"""
_HOST = f"(instr(lowered(run.hostname || char(10) || ifnull({FLEET_HOST}, '')), ?) OR {_MACHINES})"
_WORD = f"""(instr(lowered(run.number || char(10) || run.run_id || char(10) || run.name || char(10) || run.status
        || char(10) || ifnull({_SQL_DAY}, '') || char(10) || CASE run.simulated WHEN 1 THEN 'simulated' ELSE '' END), ?)
    OR {_HOST} OR {_DEVICES.format(which="1")} OR {_TAGS} OR {_BASELINES})"""


def _word(word: str) -> Condition:
    return Condition(None, _WORD, (word,) * _WORD.count("?"))


def _of_size(relation: str, value: str, part: str) -> Condition:
    if not value:
        raise UsageError(f"The filter {_short(part)!r} has no number.", _SIZE_REMEDY)
    wanted, compare = parse_size(value, remedy=_SIZE_REMEDY), _RELATIONS[relation]
    sql = _CASES.format(which=f"size_of(case_key) {relation.replace(':', '=')} ?")
    return Condition(lambda run: any(compare(size, wanted) for size in run.sizes), sql, (wanted,))


def _dtype(value: str) -> Condition:
    """Return the condition for a dtype: its name, another name of it, or the first letters of either."""
    names = {**{name: name for name in DTYPES}, **DTYPE_ALIASES}
    exact = {names[value]} if value in names else set()
    wanted = sorted(exact or {dtype for name, dtype in names.items() if name.startswith(value)})
    if not wanted:
        raise UsageError(f"Unknown dtype {_short(value)!r}.", f"Use one of: {', '.join(DTYPES)}.")
    sql = _CASES.format(which=f"dtype_of(case_key) IN ({', '.join('?' * len(wanted))})")
    return Condition(lambda run: not set(wanted).isdisjoint(run.dtypes), sql, tuple(wanted))


def _status(value: str) -> Condition:
    if not any(status.startswith(value) for status in STATUSES):
        raise UsageError(f"Unknown status {_short(value)!r}.", f"Use one of: {', '.join(STATUSES)}.")
    return Condition(lambda run: run.status.startswith(value), "run.status LIKE ? || '%'", (value,))


def _date(value: str) -> Condition:
    if re.fullmatch(r"[0-9]{1,4}(-[0-9]{0,2}){0,2}", value) is None:
        raise UsageError(f"Invalid date {_short(value)!r}.", "Write a day, month or year, for example date:2026-01-31.")
    return Condition(lambda run: _day(run).startswith(value), f"{_SQL_DAY} LIKE ? || '%'", (value,))


def _day(run: RunSummary) -> str:
    """Return the day on which a run began, in local time."""
    return datetime.fromtimestamp(run.started_wall_ns // 10**9).isoformat()[:10]


def _among(texts: Callable[[RunSummary], tuple[str, ...]], sql: str) -> Callable[[str], Condition]:
    """Return a kind of condition: one of a run's texts contains the value."""
    return lambda value: Condition(
        lambda run: any(value in text.lower() for text in texts(run)), sql, (value,) * sql.count("?")
    )


_CONDITIONS: dict[str, Callable[[str], Condition]] = {
    "gpu": _among(lambda run: run.gpus, _DEVICES.format(which="name <> 'cpu'")),
    "cpu": _among(lambda run: run.cpus, _DEVICES.format(which="name = 'cpu'")),
    "dtype": _dtype,
    "name": _among(lambda run: (run.name,), "instr(lowered(run.name), ?)"),
    "status": _status,
    "date": _date,
    "host": _among(lambda run: (run.hostname, run.machine, run.fleet_host or ""), _HOST),
    "tag": _among(lambda run: tuple(f"#{tag}" for tag in run.tags), _TAGS),
    "baseline": _among(lambda run: run.baselines, _NAMED_BASELINES),
}
"""Name before the colon → condition on the value after it."""
