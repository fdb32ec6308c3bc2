"""Events as table rows: converted, inserted, and converted back. The caller has begun the transaction."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from typing import Any, TypeVar

from cpugpu_tui import model
from cpugpu_tui.decide.stats import median
from cpugpu_tui.errors import LostRunError
from cpugpu_tui.machine import procfs

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
    """Return numbers as float64 without loss; little-endian, as every machine with a supported GPU is."""
    return array("d", samples).tobytes()


def from_blob(blob: bytes) -> tuple[float, ...]:
    """Return the numbers in a blob of `to_blob`."""
    return tuple(array("d", blob))


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
    started: list[model.Event] = []
    if result["started_seq"] is not None:
        facts = {name: result[name] for name in ("flops", "bytes_moved", "operations")}
        started = [model.CaseStarted(case=case, **facts, **_clocks(result, "started_"))]
    # Further starts of the process time a case after the first one has finished it.
    first, later = ([event for _, event in details if is_later(event) == late] for late in (False, True))
    return [*started, *first, _outcome(result), *later]


def is_later(event: model.Event) -> bool:
    """Return whether an event is a half-round of a further start, which comes after the end of its case."""
    return isinstance(event, model.DeviceSampled) and event.start > 0


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
    # Drop impossible times (damaged or edited file), which would lead to a speedup of NaN. Only CPU time can be 0,
    # because it is counted in steps of 10 ms.
    samples = {
        metric: tuple(ns for ns in values if 0 < ns < math.inf or (ns == 0 and metric in (model.USER, model.SYSTEM)))
        for metric, values in stored.items()
    }
    damaged = ("damaged",) if samples != stored else ()
    return model.DeviceSampled(
        case=case,
        samples={metric: values for metric, values in samples.items() if values or not stored[metric]},
        marks=(*from_json(rows[0]["marks"], tuple[str, ...]), *damaged),
        throttled_ns=None if throttled is None else from_json(throttled, dict[str, float]),
        **{name: rows[0][name] for name in (*names, *times)},
        **_clocks(rows[0]),
    )


def _clocks(row: sqlite3.Row, prefix: str = "") -> dict[str, Any]:
    return {name: row[prefix + name] for name in ("seq", "wall_ns", "mono_ns")}


# ------------------------------------------------------------------ inserting


def insert(connection: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> int:
    """Insert a row, given as column → value, and return its id."""
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    row_id = connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values())).lastrowid
    assert row_id is not None
    return row_id


def insert_run(
    connection: sqlite3.Connection, started: model.RunStarted, status: str, owner: Owner, number: int | None = None
) -> int:
    """Insert a run, and its series, machine and environment if they are new; return its number.

    Without a `number` the run gets the next one.
    """
    series = (started.series_id, started.plan.name, started.wall_ns)
    connection.execute("INSERT OR IGNORE INTO series VALUES (?, ?, ?)", series)
    of_machine, of_environment, of_run = _parted(started.environment)
    return insert(
        connection,
        "run",
        {
            "number": number, "run_id": started.run_id, "series_id": started.series_id, "name": started.plan.name,
            "status": status, "simulated": started.plan.simulation is not None, **clock_columns(started),
            "plan": to_json(started.plan), "environment": to_json(of_run),
            **_shared(connection, of_machine, of_environment, owner.hostname), **asdict(owner),
        },
    )  # fmt: skip


def _shared(
    connection: sqlite3.Connection, machine: Mapping[str, Any], environment: Mapping[str, Any], hostname: str
) -> dict[str, int]:
    """Return the ids of a run's machine and environment, by column."""
    host = {"hostname": str(machine.get("hostname") or hostname), "facts": to_json(machine)}
    return {
        "machine_id": _known(connection, "machine", host),
        "environment_id": _known(connection, "environment", {"facts": to_json(environment)}),
    }


def _known(connection: sqlite3.Connection, table: str, content: Mapping[str, Any]) -> int:
    """Return the id of the row with this content; insert it if it is new."""
    same = " AND ".join(f"{name} IS ?" for name in content)
    found = connection.execute(f"SELECT {table}_id FROM {table} WHERE {same}", tuple(content.values())).fetchone()
    return int(found[0]) if found else insert(connection, table, content)


def put_devices(connection: sqlite3.Connection, number: int, found: model.DevicesFound) -> None:
    """Save the devices of a run, replacing earlier ones."""
    connection.execute("UPDATE run SET devices_found = ? WHERE number = ?", (to_json(found), number))
    machine_id = connection.execute("SELECT machine_id FROM run WHERE number = ?", (number,)).fetchone()[0]
    connection.execute("DELETE FROM run_device WHERE run_number = ?", (number,))
    for position, device in enumerate(found.devices):
        columns = ("name", "label", "uuid", "memory_bytes", "simulated")  # `run.devices_found` holds all fields
        content = {name: getattr(device, name) for name in columns}
        device_id = _known(connection, "device", {"machine_id": machine_id, **content})
        insert(connection, "run_device", {"run_number": number, "position": position, "device_id": device_id})


def insert_case(
    connection: sqlite3.Connection, number: int, case: model.Case | None, attempt: Sequence[model.Event],
    result: dict[str, Any],
) -> None:  # fmt: skip
    """Insert a settled case, replacing an earlier result of the same case."""
    connection.execute("DELETE FROM case_result WHERE run_number = ? AND case_key = ?", (number, result["case_key"]))
    case_json = None if case is None else to_json(case)
    case_result_id = insert(connection, "case_result", {**result, "run_number": number, "case_json": case_json})
    for table, row in detail_rows(attempt):
        insert(connection, table, {"case_result_id": case_result_id, **row})


def insert_later(connection: sqlite3.Connection, number: int, events: Sequence[model.Event]) -> None:
    """Insert half-rounds of a further start behind those of their cases; without a result of its case, one is lost."""
    by_case: dict[str, list[model.Event]] = {}
    for event in events:
        by_case.setdefault(str(getattr(event, "case", "")), []).append(event)
    for key, sampled in by_case.items():
        known = connection.execute(
            "SELECT case_result_id, (SELECT ifnull(max(position), 0) FROM measurement "
            "WHERE measurement.case_result_id = case_result.case_result_id) "
            "FROM case_result WHERE run_number = ? AND case_key = ?", (number, key),
        ).fetchone()  # fmt: skip
        for table, row in detail_rows(sampled) if known else ():
            position = known[1] + 1 + row["position"]
            insert(connection, table, {"case_result_id": known[0], **row, "position": position})


def insert_beside(connection: sqlite3.Connection, number: int, events: Iterable[model.Event]) -> None:
    """Insert events that have no table of their own."""
    for event in events:
        row = {"run_number": number, **clock_columns(event), "event": to_json(event)}
        insert(connection, "run_event", {**row, "name": model.WIRE_TAGS[type(event)]})


def number_of(connection: sqlite3.Connection, run_id: str) -> int:
    """Return the number of a run.

    Raises:
        LostRunError: the run is not in the database.
    """
    row = connection.execute("SELECT number FROM run WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        raise LostRunError(f"The run {run_id} is no longer in the database.", "Start it again.")
    return int(row[0])


# ------------------------------------------------------------------ the facts of a run


MACHINE = ("hostname", "cpu", "physical_cores", "memory_total_bytes", "last_level_cache_bytes")
"""Facts that change only with the hardware."""

OF_THE_RUN = (
    "argv", "torch_import_s", "worker", "python_option", "case_timeout_s", "face", "fleet", "fleet_host", "launcher",
    "hosts_file", model.DUET,
)  # fmt: skip
"""Facts that may differ from run to run."""


def _parted(facts: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Split a run's facts into those of machine, environment and run.

    Each part is sorted by name, so that equal parts have equal JSON.
    """
    machine, environment, run = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    for name in sorted(facts):
        (machine if name in MACHINE else run if name in OF_THE_RUN else environment)[name] = facts[name]
    return machine, environment, run


# ------------------------------------------------------------------ who writes a run


@dataclass(frozen=True)
class Owner:
    """A process, identified even if its pid is reused, as it often is in containers."""

    hostname: str
    pid: int
    boot_id: str
    """The kernel's random id of this boot; empty if unknown."""
    process_started_ticks: int
    """Start of the process in clock ticks since boot; 0 if unknown."""

    @classmethod
    def current(cls) -> Owner:
        """Return the current process as an owner."""
        return cls(procfs.hostname(), os.getpid(), procfs.boot_id(), _started_ticks(os.getpid()))

    def is_gone(self) -> bool:
        """Return whether the process has certainly ended.

        False for a process on another host, which cannot be checked from here. Clusters share home folders.
        """
        if self.hostname != procfs.hostname():
            return False
        if self.boot_id != procfs.boot_id():
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # it runs, as another user
        found = procfs.read_process(self.pid)
        if found is None:
            return False
        return found.has_ended or self.process_started_ticks not in (0, found.started_ticks)


def _started_ticks(pid: int) -> int:
    found = procfs.read_process(pid)
    return found.started_ticks if found is not None else 0
