"""Convert events to table rows and back."""

from __future__ import annotations

import json
import math
import sqlite3
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any, TypeVar

from cpugpu_tui import model
from cpugpu_tui.decide.stats import median

T = TypeVar("T")


def to_json(value: Any) -> str:
    """Return a value of the model as JSON.

    Raises:
        ValueError: the value holds NaN or an infinity, which JSON and SQLite's JSON functions do not allow.
    """
    return json.dumps(model.to_plain(value), allow_nan=False, separators=(",", ":"))


def from_json(text: str, kind: type[T]) -> T:
    """Return a value of `kind` from the JSON of `to_json`.

    Raises:
        ValueError: the text does not fit (msgspec's errors are ValueErrors too).
    """
    from cpugpu_tui.config.validation import convert  # 18 ms, for msgspec; a list of runs does without

    return convert(json.loads(text), kind)


def to_blob(samples: Iterable[float]) -> bytes:
    """Return numbers as little-endian float64, without loss."""
    numbers = array("d", samples)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def from_blob(blob: bytes) -> tuple[float, ...]:
    """Return the numbers in a blob of `to_blob`."""
    numbers = array("d")
    numbers.frombytes(blob)
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)


def median_ns(samples: bytes) -> float | None:
    """Return the median of the possible times in a blob, ns; None without one."""
    values = [ns for ns in from_blob(samples) if 0 < ns < math.inf]
    return median(values) if values else None


def lacked_core(marks: str) -> bool:
    """Whether the JSON of a half-round's marks says that threads waited for a core."""
    return model.NO_CORE in marks and model.NO_CORE in json.loads(marks)


# ------------------------------------------------------------------ events to rows


def last_attempt(events: Sequence[model.Event]) -> Sequence[model.Event]:
    """Return the events from the last `CaseStarted`, which cancels those of an agent that died before."""
    starts = [index for index, event in enumerate(events) if isinstance(event, model.CaseStarted)]
    return events[starts[-1] :] if starts else events


def result_row(events: Sequence[model.Event]) -> dict[str, Any]:
    """Return the row of `case_result` for the events of one attempt, without `run_number` and `case_json`.

    Raises:
        ValueError: the last event is neither `CaseFinished` nor `CaseFailed`.
    """
    started = next((event for event in events if isinstance(event, model.CaseStarted)), None)
    ended = events[-1] if events else None
    if isinstance(ended, model.CaseFinished):
        outcome = {"status": "ok", "message": "", "remedy": "", "device": None}
        outcome["check_json"] = to_json(ended.check) if ended.check else None
    elif isinstance(ended, model.CaseFailed):
        outcome = {"status": ended.kind, "message": ended.message, "remedy": ended.remedy, "device": ended.device}
        outcome["check_json"] = None
    else:
        raise ValueError(f"the events of a case must end with its outcome, not with {type(ended).__name__}")
    return {
        "case_key": ended.case, **outcome, "flops": started.flops if started else 0.0,
        "bytes_moved": started.bytes_moved if started else 0.0, "operations": started.operations if started else 0,
        "started_seq": started.seq if started else None, "started_wall_ns": started.wall_ns if started else None,
        "started_mono_ns": started.mono_ns if started else None, "ended_seq": ended.seq, "ended_wall_ns": ended.wall_ns,
        "ended_mono_ns": ended.mono_ns,
    }  # fmt: skip


def detail_rows(events: Sequence[model.Event]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (table, row) for the events between start and outcome of a case, except `Gap` and `Progressed`."""
    for position, event in enumerate(events):
        if isinstance(event, model.Calibrated):
            yield "calibration", {"position": position, **_columns(event, leave_out=("case",))}
        elif isinstance(event, model.DeviceSampled):
            shared = {"position": position, **_columns(event, leave_out=("case", "samples"))}
            shared["marks"] = to_json(event.marks)
            shared["throttled_ns"] = None if event.throttled_ns is None else to_json(event.throttled_ns)
            none: dict[str | None, tuple[float, ...]] = {None: ()}
            for metric, samples in (event.samples or none).items():
                yield "measurement", {**shared, "metric": metric, "samples": to_blob(samples)}


def clock_columns(event: model.Event) -> dict[str, int]:
    """Return the columns `seq`, `wall_ns` and `mono_ns` of an event."""
    return {"seq": event.seq, "wall_ns": event.wall_ns, "mono_ns": event.mono_ns}


def _columns(event: model.Event, leave_out: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of an event by name, which are the columns of its table."""
    return {field.name: getattr(event, field.name) for field in fields(event) if field.name not in leave_out}


def ceilings_row(found: model.Ceilings) -> tuple[object, ...]:
    """Return the row of the table `ceilings`."""
    identity = found.uuid or f"{found.device} {found.label} t{found.threads}"
    if found.uuid and found.driver:  # peak rates depend on the driver
        identity += f" {found.driver}"
    return found.hostname, found.torch, identity, found.simulated, found.measured_wall_ns, to_json(found)


# ------------------------------------------------------------------ rows to events


def case_events(
    result: sqlite3.Row, calibrations: Iterable[sqlite3.Row], measurements: Iterable[sqlite3.Row]
) -> list[model.Event]:
    """Return the events of one case in order, from its rows; calibrations and measurements are sorted by position."""
    case = result["case_key"]
    details: list[tuple[int, model.Event]] = [(row["position"], _calibrated(case, row)) for row in calibrations]
    for position, rows in groupby(measurements, key=lambda row: int(row["position"])):
        details.append((position, _half_round(case, list(rows))))
    details.sort(key=lambda detail: detail[0])
    started = [] if result["started_seq"] is None else [_started(case, result)]
    # Further starts of the process time a case after the first one has finished it.
    first, later = ([event for _, event in details if is_later(event) == late] for late in (False, True))
    return [*started, *first, _outcome(result), *later]


def is_later(event: model.Event) -> bool:
    """Return whether an event is a half-round of a further start, which comes after the end of its case."""
    return isinstance(event, model.DeviceSampled) and event.start > 0


def _started(case: str, result: sqlite3.Row) -> model.CaseStarted:
    facts = {name: result[name] for name in ("flops", "bytes_moved", "operations")}
    return model.CaseStarted(case=case, **facts, **_clocks(result, "started_"))


def _outcome(result: sqlite3.Row) -> model.Event:
    clocks = _clocks(result, "ended_")
    if result["status"] == "ok":
        check = from_json(result["check_json"], model.Check) if result["check_json"] else None
        return model.CaseFinished(case=result["case_key"], check=check, **clocks)
    return model.CaseFailed(
        case=result["case_key"], kind=result["status"], message=result["message"], remedy=result["remedy"],
        device=result["device"], **clocks,
    )  # fmt: skip


def _calibrated(case: str, row: sqlite3.Row) -> model.Calibrated:
    names = ("device", "estimate_ns", "calls_per_block", "blocks", "rounds", "threads", "max_rounds")
    return model.Calibrated(
        case=case, stable=bool(row["stable"]), **{name: row[name] for name in names}, **_clocks(row)
    )


def _half_round(case: str, rows: Sequence[sqlite3.Row]) -> model.DeviceSampled:
    names = (
        "device", "round_index", "calls_per_block", "sm_clock_mhz", "sm_clock_end_mhz", "watched_ns", "power_mw",
        "start",
    )  # fmt: skip
    throttled = rows[0]["throttled_ns"]
    times = ("started_wall_ns", "ended_wall_ns", "started_mono_ns", "ended_mono_ns")
    stored = {row["metric"]: from_blob(row["samples"]) for row in rows if row["metric"] is not None}
    # Drop impossible times (damaged or edited file), which would lead to a speedup of NaN.
    samples = {metric: tuple(ns for ns in values if _can_be(metric, ns)) for metric, values in stored.items()}
    damaged = ("damaged",) if samples != stored else ()
    return model.DeviceSampled(
        case=case,
        samples={metric: values for metric, values in samples.items() if values or not stored[metric]},
        marks=(*from_json(rows[0]["marks"], tuple[str, ...]), *damaged),
        throttled_ns=None if throttled is None else from_json(throttled, dict[str, float]),
        **{name: rows[0][name] for name in (*names, *times)},
        **_clocks(rows[0]),
    )


def _can_be(metric: str, ns: float) -> bool:
    """Return whether a time is possible. Only CPU time can be 0, because it is counted in steps of 10 ms."""
    return 0 < ns < math.inf or (ns == 0 and metric in (model.USER, model.SYSTEM))


def _clocks(row: sqlite3.Row, prefix: str = "") -> dict[str, Any]:
    return {name: row[prefix + name] for name in ("seq", "wall_ns", "mono_ns")}
