"""What is listed of a saved run, and the filter of such lists, one grammar for the command and the app: `n>1000`."""

from __future__ import annotations

import json
import operator
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, NamedTuple

from cpugpu_tui.config.parsing import DTYPE_ALIASES
from cpugpu_tui.config.paths import with_database
from cpugpu_tui.config.sizes import parse_size
from cpugpu_tui.errors import UsageError, did_you_mean
from cpugpu_tui.machine.text import shortened
from cpugpu_tui.model import DTYPES
from cpugpu_tui.model.quantities import counted

SUMMARIES = """
    SELECT number, run_id, series_id, name,
        -- A run that came to its end without a result has not done its work.
        CASE WHEN status = 'done'
            AND NOT EXISTS (SELECT 1 FROM case_result WHERE run_number = run.number AND case_result.status = 'ok')
            AND EXISTS (SELECT 1 FROM case_result WHERE run_number = run.number AND case_result.status != 'skipped')
            THEN 'failed' ELSE status END,
        simulated, wall_ns, finished_wall_ns, run.hostname,
        machine.hostname,
        -- Most runs have none; looking for the word first saves reading the JSON.
        CASE WHEN instr(run.environment, '"fleet_host"') THEN json_extract(run.environment, '$.fleet_host') END,
        {cases},
        -- CROSS JOIN keeps the order of the index, which is that of the positions; sorting takes twice the time.
        (SELECT json_group_array(json_array(name, label)) FROM run_device CROSS JOIN device USING (device_id)
            WHERE run_number = run.number),
        (SELECT group_concat(tag, char(10)) FROM (SELECT tag FROM tag WHERE run_number = run.number ORDER BY tag)),
        (SELECT group_concat(name, char(10)) FROM (SELECT name FROM baseline WHERE series_id = run.series_id
            ORDER BY name)),
        -- The names of typed code hold four hex digits; other plans are not read.
        CASE WHEN run.name GLOB '*-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]*' AND json_valid(run.plan)
            THEN (SELECT group_concat(json_extract(value, '$.name') || ' ' || json_extract(value, '$.statement'),
                char(10)) FROM json_each(run.plan, '$.codes') WHERE type = 'object') END,
        run.plan GLOB '*"beside":"[^"]*',  -- a fifth of the time of two instr()
        -- Other runs have settled all that they planned.
        CASE WHEN status IN ('running', 'interrupted') AND json_valid(run.plan) THEN
            (SELECT group_concat(CAST(json_extract(value, '$.size') AS INTEGER))
                FROM json_each(run.plan, '$.cases') WHERE type = 'object')
        END
    FROM run LEFT JOIN machine USING (machine_id) WHERE {which} ORDER BY number DESC
"""
"""Selects runs for `RunSummary.of_row`. `which` is a condition; `cases` is `CASES`, or NULL."""

# SQLite scans the index of a run's cases in turn; a join of them took three times as long.
CASES = "(SELECT group_concat(status || ' ' || case_key, char(10)) FROM case_result WHERE run_number = {number})"
"""Selects the cases of a run. `number` is the run's."""


class RunSummary(NamedTuple):
    """One run of the history; a tuple, because 10,000 frozen dataclasses take 25 ms longer."""

    number: int
    """Number of the run; never reused."""
    run_id: str
    series_id: str
    name: str
    """Preset or workload that was run, or the workload made of typed code."""
    status: str
    """`running`, `done`, `stopped`, `failed` (also if every case failed), or `interrupted` if its process died."""
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
    """Sizes of its settled cases and of those that it planned, smallest first."""
    statement: str = ""
    """Typed code, with the other workloads of its run: `matmul + x @ x`; empty without any."""
    is_beside: bool = False
    """Whether its output sets a recorded GPU beside its CPU."""

    @property
    def title(self) -> str:
        """What a person calls it: typed code by its statement, others by their name."""
        return self.statement or self.name

    @property
    def device_texts(self) -> list[str]:
        """Its devices, those of one model counted, and whether a recorded GPU stands beside them."""
        return [*counted(self.devices), *(["beside a recorded GPU"] if self.is_beside else [])]

    @property
    def cases_text(self) -> str:
        """How its cases ended: `8 ok, 5 skipped`."""
        counts = {"ok": self.cases_ok, "failed": self.cases_failed, "skipped": self.cases_skipped}
        return ", ".join(f"{count} {word}" for word, count in counts.items() if count or word == "ok")

    @property
    def cpus(self) -> tuple[str, ...]:
        """Labels of its CPUs."""
        return tuple(label for label in self.devices if label not in self.gpus)

    @classmethod
    def of_row(cls, row: Iterable[Any]) -> RunSummary:
        """Return the summary in a row of `SUMMARIES`."""
        # By place, because looking up 16 columns by name took a third of the time of a list.
        (number, run_id, series_id, name, status, simulated, wall_ns, finished_wall_ns, hostname, machine, fleet_host,
         cases, found, tags, baselines, statements, is_beside, planned) = row  # fmt: skip
        cases_ok, cases_skipped, cases_failed, dtypes, sizes = _results(cases or "")
        devices, gpus = _devices(found)
        sizes = _both(sizes, map(int, planned.split(",")) if planned else ())
        return cls(
            number=number, run_id=run_id, series_id=series_id, name=name, status=status, started_wall_ns=wall_ns,
            duration_ns=None if finished_wall_ns is None else max(0, finished_wall_ns - wall_ns), hostname=hostname,
            cases_ok=cases_ok, cases_failed=cases_failed, cases_skipped=cases_skipped,
            devices=devices, simulated=bool(simulated), tags=tuple(tags.split("\n")) if tags else (),
            baselines=tuple(baselines.split("\n")) if baselines else (), fleet_host=fleet_host,
            machine=machine or hostname, gpus=gpus, dtypes=dtypes, sizes=sizes,
            statement=_typed(name, statements) if statements else "", is_beside=bool(is_beside),
        )  # fmt: skip

    def with_cases(self, cases: str | None) -> RunSummary:
        """Return the summary with what its settled cases tell."""
        ok, skipped, failed, dtypes, sizes = _results(cases or "")
        sizes = _both(self.sizes, sizes)
        return self._replace(cases_ok=ok, cases_skipped=skipped, cases_failed=failed, dtypes=dtypes, sizes=sizes)


def _typed(name: str, statements: str) -> str:
    """Return the name of a run with its typed code in the place of the workloads made of it."""
    typed = dict(line.split(" ", 1) for line in statements.split("\n") if " " in line)
    return " + ".join(dict.fromkeys(typed.get(each, each) for each in name.split("+")))


def _both(sizes: tuple[int, ...], more: Iterable[int]) -> tuple[int, ...]:
    """Return all of these sizes, smallest first."""
    return tuple(sorted({*sizes, *more}))


def shape_of(case_key: str) -> tuple[str, int] | None:
    """Return dtype and size in the key of a case; None in a key that another program wrote."""
    parts = case_key.rsplit("/", 3)
    is_shape = len(parts) == 4 and parts[1].isdecimal() and len(parts[1]) <= 18
    return (parts[2], int(parts[1])) if is_shape else None


@lru_cache(maxsize=256)
def _results(cases: str) -> tuple[int, int, int, tuple[str, ...], tuple[int, ...]]:
    """Return the numbers of finished, skipped and failed cases, their dtypes and their sizes, from lines `status key`.

    Cached, because runs that were repeated share them.
    """
    lines = [line.partition(" ") for line in cases.split("\n") if line]
    known = list(filter(None, (shape_of(key) for _, _, key in lines)))
    statuses = [status for status, _, _ in lines]
    ok, skipped = statuses.count("ok"), statuses.count("skipped")
    dtypes, sizes = dict.fromkeys(dtype for dtype, _ in known), {size for _, size in known}
    return ok, skipped, len(lines) - ok - skipped, tuple(dtypes), tuple(sorted(sizes))


@lru_cache(maxsize=256)
def _devices(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels of all devices and of the GPUs in the JSON of a row."""
    devices = json.loads(text)
    return tuple(label for _, label in devices), tuple(label for name, label in devices if name != "cpu")


def how_to_name(text: str) -> str:
    """Return the remedy for a text that names no run, such as an id that is not in the database."""
    if re.fullmatch(r"\d+([,-]\d+)+", text):
        return "Write each number alone, with spaces between them."
    if text.endswith((".json", ".ndjson")):
        return f"To read a file, use `{with_database(f'cpugpu-tui import {shlex.quote(text)}')}`."
    return f"Use a number from `{with_database('cpugpu-tui history')}`, or 'latest' for the newest run."


# ------------------------------------------------------------------ the filter


STATUSES = ("running", "done", "stopped", "failed", "interrupted")

EXAMPLE = "gpu:h200 dtype:bf16 n>1000"

_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "=": operator.eq, ":": operator.eq,
}  # fmt: skip
_SIZE = re.compile(r"n(>=|<=|>|<|=|:)(.*)", re.IGNORECASE)
_SIZE_REMEDY = "Write a whole number, for example n>1000 or n<=1e6."

Condition = Callable[[RunSummary], bool]
"""Tells whether a run matches a filter, or a part of one."""


def parse_filter(text: str) -> Condition:
    """Return the filter in a text: words, and conditions such as `dtype:bf16` and `n>1000`, separated by spaces.

    Raises:
        UsageError: a condition has an unknown name or an invalid value.
    """
    found, error = parse_while_typed(text)
    if error is not None:
        raise error
    return found


def without_results(text: str) -> str:
    """Return a filter without its conditions on the sizes and dtypes of cases, which take longest to read."""
    return " ".join(part for part in text.split() if not (_SIZE.fullmatch(part) or part.lower().startswith("dtype:")))


def parse_while_typed(text: str) -> tuple[Condition, UsageError | None]:
    """Return the filter in a text without its invalid parts, and the error of the first of them."""
    conditions: list[Condition] = []
    words: list[str] = []
    errors: list[UsageError] = []
    for part in dict.fromkeys(text.split()):
        try:
            found = _condition(part)
            if isinstance(found, str):
                words.append(found)
            else:
                conditions.append(found)
        except UsageError as error:
            errors.append(error)
    if words:
        conditions.append(_of_words(words))
    whole = conditions[0] if len(conditions) == 1 else lambda run: all(holds(run) for holds in conditions)
    return whole, errors[0] if errors else None


def _of_words(words: Sequence[str]) -> Condition:
    """Return the condition that a run's texts contain each word. Only a word of digits looks for its day."""
    days = {word for word in words if re.fullmatch("[0-9-]+", word) and len(word) <= len("2026-01-31")}

    def holds(run: RunSummary) -> bool:
        text = _searched_text(run)
        return all(word in text or (word in days and word in _day(run)) for word in words)

    return holds


def _condition(part: str) -> Condition | str:
    """Return a condition, or the word to search in the text of a run."""
    size, (name, colon, value) = _SIZE.fullmatch(part), part.lower().partition(":")
    shown = shortened(part)
    if size is not None:
        return _of_size(size[1], size[2], part)
    if re.fullmatch(r"[<>]=?\d*", part):
        raise UsageError(f"Invalid condition {shown!r}.", "Write it without spaces, for example n>1000.")
    if re.match(r"\w+[<>]", part):
        raise UsageError(f"Unknown filter {shown!r}.", "Only sizes can be compared, for example n>1000.")
    if not colon or name == "text":
        return value if colon else name
    if name not in _CONDITIONS:
        known = [f"{condition}:" for condition in _CONDITIONS]
        usual = f"Use {', '.join(known)}, n>1000, or text:{shown} for the text itself."
        raise UsageError(f"Unknown filter {shown.partition(':')[0] + ':'!r}.", did_you_mean(f"{name}:", known, usual))
    if not value:
        raise UsageError(f"The filter {shown!r} has no value.", f"Write one after the colon, for example {EXAMPLE}.")
    return _CONDITIONS[name](value)


def _searched_text(run: RunSummary) -> str:
    """Return the text in which the words of a filter are searched, in lower case, without the day of the run."""
    parts = [
        str(run.number), run.run_id, run.name, run.statement, run.status, run.hostname, run.machine,
        run.fleet_host or "", *run.devices, *(f"#{tag}" for tag in run.tags),
        *(f"baseline:{name}" for name in run.baselines), "simulated" if run.simulated else "",
    ]  # fmt: skip
    return "\n".join(parts).lower()


# ------------------------------------------------------------------ conditions


def _of_size(relation: str, value: str, part: str) -> Condition:
    if not value:
        raise UsageError(f"The filter {shortened(part)!r} has no number.", _SIZE_REMEDY)
    wanted, compare = parse_size(value, remedy=_SIZE_REMEDY), _RELATIONS[relation]
    return lambda run: any(compare(size, wanted) for size in run.sizes)


def _dtype(value: str) -> Condition:
    """Return the condition for a dtype: its name, another name of it, or the first letters of either."""
    names = {**{name: name for name in DTYPES}, **DTYPE_ALIASES}
    exact = {names[value]} if value in names else set()
    wanted = exact or {dtype for name, dtype in names.items() if name.startswith(value)}
    if not wanted:
        raise UsageError(f"Unknown dtype {shortened(value)!r}.", did_you_mean(value, DTYPES))
    return lambda run: not wanted.isdisjoint(run.dtypes)


def _status(value: str) -> Condition:
    if not any(status.startswith(value) for status in STATUSES):
        raise UsageError(f"Unknown status {shortened(value)!r}.", did_you_mean(value, STATUSES))
    return lambda run: run.status.startswith(value)


def _date(value: str) -> Condition:
    if re.fullmatch(r"[0-9]{1,4}(-([01]?|0[1-9]|1[0-2])(-([0-3]?|[0-2][0-9]|3[01]))?)?", value) is None:
        raise UsageError(
            f"Invalid date {shortened(value)!r}.", "Write a day, month or year, for example date:2026-01-31."
        )
    return lambda run: _day(run).startswith(value)


def _day(run: RunSummary) -> str:
    """Return the day on which a run began, in local time."""
    return date.fromtimestamp(run.started_wall_ns // 10**9).isoformat()


def _among(texts: Callable[[RunSummary], tuple[str, ...]]) -> Callable[[str], Condition]:
    """Return a kind of condition: one of a run's texts contains the value."""
    return lambda value: lambda run: any(value in text.lower() for text in texts(run))


_CONDITIONS: dict[str, Callable[[str], Condition]] = {
    "gpu": _among(lambda run: run.gpus),
    "cpu": _among(lambda run: run.cpus),
    "dtype": _dtype,
    "name": _among(lambda run: (run.name,)),
    "status": _status,
    "date": _date,
    "host": _among(lambda run: (run.hostname, run.machine, run.fleet_host or "")),
    "tag": _among(lambda run: tuple(f"#{tag}" for tag in run.tags)),
    "baseline": _among(lambda run: run.baselines),
}
"""Name before the colon → condition on the value after it."""
