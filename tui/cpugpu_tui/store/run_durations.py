"""What earlier runs of a machine tell about the time that another one will take, without their samples."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

MOST_CALLS = 20_000
"""Calls after which no older run is looked into: ten sweeps of 1 000 cases tell enough, and take 0.1 s to read."""

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
    """How long one run took, and what a call of each of its cases took."""

    number: int
    wall_ns: int
    """When it began."""
    duration_ns: int | None
    """None unless it came to its own end; a pause, and the time until it was resumed, are part of it."""
    plan: str
    """As JSON."""
    call_ns: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)
    """(`Case.key`, device) → label of the device, ns of a call as the run's calibration found it."""


def timed_runs(connection: sqlite3.Connection, hostname: str, *, simulated: bool, limit: int) -> list[TimedRun]:
    """Return the newest runs of a machine that were not broken off, newest first."""
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
