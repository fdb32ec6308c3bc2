"""What is read of saved runs without their samples: summaries for lists, finished cases, durations."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

_TEXT = """
    lowered(run.name || char(10) || run.status || char(10) || run.hostname || char(10) || run.run_id
        || char(10) || ifnull((SELECT hostname FROM machine WHERE machine_id = run.machine_id), '')
        || char(10) || ifnull(json_extract(run.environment, '$.fleet_host'), '')
        || char(10) || ifnull((SELECT group_concat(tag, char(10)) FROM tag WHERE run_number = run.number), '')
        || char(10) || ifnull((SELECT group_concat(device.label, char(10)) FROM run_device JOIN device USING (device_id)
            WHERE run_device.run_number = run.number), ''))
"""
"""The text that a filter searches."""

_HAS_WORDS = f"AND NOT EXISTS (SELECT 1 FROM json_each(?) AS word WHERE NOT instr({_TEXT}, word.value))"
_HAS_TAGS = """
    AND NOT EXISTS (SELECT 1 FROM json_each(?) AS wanted WHERE NOT EXISTS (
        SELECT 1 FROM tag WHERE run_number = run.number AND tag = wanted.value))
"""
"""Words are bound as one JSON list, because SQLite refuses a thousand conditions."""

_SELECT = """
    WITH chosen AS (
        SELECT run.number FROM run WHERE run.number < ? {conditions} ORDER BY run.number DESC LIMIT ?
    )
    SELECT run.number, run.run_id, run.series_id, run.name, run.status, run.simulated, run.wall_ns,
        run.finished_wall_ns, run.devices_found, run.hostname,
        json_extract(run.environment, '$.fleet_host') AS fleet_host,
        coalesce(sum(result.status = 'ok'), 0) AS cases_ok,
        coalesce(sum(result.status = 'skipped'), 0) AS cases_skipped,
        count(result.status) AS cases,
        (SELECT group_concat(tag, char(10)) FROM (SELECT tag FROM tag WHERE run_number = run.number ORDER BY tag))
            AS tags,
        (SELECT group_concat(name, char(10)) FROM (SELECT name FROM baseline WHERE series_id = run.series_id
            ORDER BY name)) AS baselines
    FROM chosen JOIN run ON run.number = chosen.number LEFT JOIN case_result AS result ON result.run_number = run.number
    GROUP BY run.number ORDER BY run.number DESC
"""

LAST = 2**63 - 1
"""Above every run number."""


def query(
    limit: int | None, before: int | None, text: str = "", tags: Sequence[str] = ()
) -> tuple[str, tuple[object, ...]]:
    """Return the query for `RunSummary.of_row`, newest first, and its parameters.

    Each word of `text` must be in a run's name, status, host, id, tags or devices; case is ignored.
    """
    words = list(dict.fromkeys(text.lower().split()))
    conditions = (_HAS_WORDS if words else "") + (_HAS_TAGS if tags else "")
    wanted = [json.dumps(list(each)) for each in (words, tags) if each]
    values = (LAST if before is None else before, *wanted, -1 if limit is None else min(limit, LAST))
    return _SELECT.format(conditions=conditions), values


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

    @classmethod
    def of_row(cls, row: sqlite3.Row) -> RunSummary:
        """Return the summary in a row of `query`."""
        finished_wall_ns = row["finished_wall_ns"]
        devices = json.loads(row["devices_found"])["devices"] if row["devices_found"] else []
        return cls(
            number=row["number"], run_id=row["run_id"], series_id=row["series_id"], name=row["name"],
            status=row["status"], started_wall_ns=row["wall_ns"],
            duration_ns=None if finished_wall_ns is None else max(0, finished_wall_ns - row["wall_ns"]),
            hostname=row["hostname"], cases_ok=row["cases_ok"],
            cases_failed=row["cases"] - row["cases_ok"] - row["cases_skipped"], cases_skipped=row["cases_skipped"],
            devices=tuple(device["label"] for device in devices), simulated=bool(row["simulated"]),
            tags=tuple(row["tags"].split("\n")) if row["tags"] else (),
            baselines=tuple(row["baselines"].split("\n")) if row["baselines"] else (), fleet_host=row["fleet_host"],
        )  # fmt: skip


# ------------------------------------------------------------------ past runs


MOST_CALLS = 20_000
"""No older run is read after this many calls: ten runs of 1,000 cases are enough, and take 0.1 s to read."""

_RUNS = """
    SELECT number, wall_ns, finished_wall_ns, status, plan FROM run
    WHERE hostname = ? AND simulated = ? AND status IN ('done', 'stopped') ORDER BY number DESC LIMIT ?
"""

_CALLS = """
    SELECT result.case_key, calibration.device, calibration.estimate_ns,
        (SELECT label FROM run_device JOIN device USING (device_id)
            WHERE run_device.run_number = result.run_number AND device.name = calibration.device) AS label
    FROM case_result AS result JOIN calibration USING (case_result_id)
    WHERE result.run_number = ? AND result.status = 'ok'
"""


@dataclass(frozen=True)
class TimedRun:
    """Duration of a run, and latency of its cases."""

    number: int
    wall_ns: int
    """Start of the run, in ns since 1970."""
    duration_ns: int | None
    """None unless the run is done. Pauses, and the time before it was resumed, are included."""
    plan: str
    """The plan as JSON."""
    call_ns: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)
    """(`Case.key`, device) → label of the device, and ns per call from the run's calibration."""


def timed_runs(connection: sqlite3.Connection, hostname: str, *, simulated: bool, limit: int) -> list[TimedRun]:
    """Return runs of a host that are done or stopped, newest first."""
    runs: list[TimedRun] = []
    for row in connection.execute(_RUNS, (hostname, simulated, limit)):
        runs.append(_timed(connection, row))
        if sum(len(run.call_ns) for run in runs) > MOST_CALLS:
            break
    return runs


def _timed(connection: sqlite3.Connection, row: sqlite3.Row) -> TimedRun:
    ended_ns = row["finished_wall_ns"] if row["status"] == "done" else None
    duration_ns = None if ended_ns is None else max(0, ended_ns - row["wall_ns"])
    calls = connection.execute(_CALLS, (row["number"],))
    call_ns = {(key, device): (label or "", call) for key, device, call, label in calls}
    return TimedRun(row["number"], row["wall_ns"], duration_ns, row["plan"], call_ns)


_FINISHED = """
    SELECT run.run_id, run.number,
        EXISTS (SELECT 1 FROM json_each(run.devices_found, '$.devices') AS device
            WHERE json_extract(device.value, '$.name') <> 'cpu') AS has_gpu,
        group_concat(result.case_key, char(10)) AS case_keys
    FROM run JOIN case_result AS result ON result.run_number = run.number
    WHERE run.hostname = ? AND run.simulated = ? AND result.status = 'ok'
        AND substr(result.case_key, 1, instr(result.case_key, '/') - 1) IN ({marks})
    GROUP BY run.number ORDER BY run.number DESC LIMIT ?
"""
"""`marks` holds a question mark for each workload."""


@dataclass(frozen=True)
class FinishedCases:
    """The finished cases of a run."""

    run_id: str
    number: int
    has_gpu: bool
    """Whether its devices include a GPU."""
    case_keys: tuple[str, ...]
    """`Case.key` of each."""


def finished_cases(
    connection: sqlite3.Connection, workloads: Collection[str], hostname: str, *, simulated: bool, limit: int
) -> list[FinishedCases]:
    """Return the finished cases of these workloads on one host, newest run first."""
    select = _FINISHED.format(marks=", ".join("?" * len(workloads)))
    return [
        FinishedCases(row["run_id"], row["number"], bool(row["has_gpu"]), tuple(row["case_keys"].split("\n")))
        for row in connection.execute(select, (hostname, simulated, *workloads, limit))
    ]
