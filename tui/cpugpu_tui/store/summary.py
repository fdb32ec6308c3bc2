"""Query one line of the history for each run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

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
            tags=tuple(row["tags"].split("\n")) if row["tags"] else (),
            baselines=tuple(row["baselines"].split("\n")) if row["baselines"] else (),
            fleet_host=row["fleet_host"],
        )
