"""One line of the history."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

SELECT = """
    SELECT run.*,
        coalesce(sum(result.status = 'ok'), 0) AS cases_ok,
        coalesce(sum(result.status = 'skipped'), 0) AS cases_skipped,
        count(result.status) AS cases
    FROM run LEFT JOIN case_result AS result ON result.run_number = run.number
    WHERE run.number < ifnull(?, 9223372036854775807)
    GROUP BY run.number ORDER BY run.number DESC LIMIT ?
"""
"""The rows that `RunSummary.of_row` takes, newest first, before a number; NULL and a limit of -1 are none."""


@dataclass(frozen=True)
class RunSummary:
    """What a list of runs says about one of them."""

    number: int
    """Short number, never given twice."""
    run_id: str
    series_id: str
    name: str
    """Preset or workload that was asked for."""
    status: str
    """`running`, `done`, `stopped`, `failed`, or `interrupted` when its process died before the end."""
    started_wall_ns: int
    duration_ns: int | None
    """None while it runs, and when it was interrupted."""
    hostname: str
    """Machine that wrote the run."""
    cases_ok: int
    cases_failed: int
    cases_skipped: int
    devices: tuple[str, ...]
    """Labels, in the order in which they were timed."""
    simulated: bool
    """Whether the numbers are made up."""

    @classmethod
    def of_row(cls, row: sqlite3.Row) -> RunSummary:
        """Return the summary that a row of `SELECT` holds."""
        finished_wall_ns = row["finished_wall_ns"]
        devices = json.loads(row["devices_found"])["devices"] if row["devices_found"] else []
        return cls(
            number=row["number"],
            run_id=row["run_id"],
            series_id=row["series_id"],
            name=row["name"],
            status=row["status"],
            started_wall_ns=row["wall_ns"],
            duration_ns=None if finished_wall_ns is None else max(0, finished_wall_ns - row["wall_ns"]),
            hostname=row["hostname"],
            cases_ok=row["cases_ok"],
            cases_failed=row["cases"] - row["cases_ok"] - row["cases_skipped"],
            cases_skipped=row["cases_skipped"],
            devices=tuple(device["label"] for device in devices),
            simulated=bool(row["simulated"]),
        )
