"""Query finished cases and durations of earlier runs, without their samples."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass, field

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
