"""What is read of saved runs without their samples: summaries for lists, finished cases, durations."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import LATENCY, NO_CORE
from cpugpu_tui.store.filtering import FLEET_HOST, Condition, parse_filter
from cpugpu_tui.store.row_mapping import from_blob
from cpugpu_tui.store.run_summary import RunSummary

_SELECT = f"""
    SELECT number, run_id, series_id, name, status, simulated, wall_ns, finished_wall_ns, run.hostname,
        machine.hostname, {FLEET_HOST},
        -- Subqueries that need indexes only. Joining the results took three times as long.
        (SELECT ifnull(sum(status = 'ok'), 0) || ' ' || ifnull(sum(status = 'skipped'), 0) || ' ' || count(*)
            FROM case_result WHERE run_number = run.number),
        (SELECT group_concat(case_key, char(10)) FROM case_result WHERE run_number = run.number),
        -- CROSS JOIN keeps the order of the index, which is that of the positions; sorting takes twice the time.
        (SELECT json_group_array(json_array(name, label)) FROM run_device CROSS JOIN device USING (device_id)
            WHERE run_number = run.number),
        (SELECT group_concat(tag, char(10)) FROM (SELECT tag FROM tag WHERE run_number = run.number ORDER BY tag)),
        (SELECT group_concat(name, char(10)) FROM (SELECT name FROM baseline WHERE series_id = run.series_id
            ORDER BY name))
    FROM run LEFT JOIN machine USING (machine_id) WHERE {{which}} ORDER BY number DESC LIMIT ?
"""

_HAS_TAGS = """
    NOT EXISTS (SELECT 1 FROM json_each(?) AS wanted WHERE NOT EXISTS (
        SELECT 1 FROM tag WHERE run_number = run.number AND tag = wanted.value))
"""

LAST = 2**63 - 1
"""Above every run number."""


def summaries(
    connection: sqlite3.Connection, limit: int | None, before: int | None, text: str, tags: Sequence[str]
) -> list[RunSummary]:
    """Return the newest runs with a number below `before` that match a filter and have all the `tags`.

    Raises:
        UsageError: the filter is invalid.
    """
    conditions = [Condition(None, "run.number < ?", (LAST if before is None else before,))]
    if tags:
        conditions.append(Condition(None, _HAS_TAGS, (json.dumps(list(tags)),)))
    conditions += parse_filter(text).conditions
    values = [value for condition in conditions for value in condition.values]
    which = " AND ".join(condition.sql for condition in conditions)
    rows = connection.execute(_SELECT.format(which=which), (*values, LAST if limit is None else min(limit, LAST)))
    return [RunSummary.of_row(tuple(row)) for row in rows]


# ------------------------------------------------------------------ their times

RoundTimes = dict[str, dict[str, dict[int, float]]]
"""`Case.key` → device → round → median latency, ns."""

_LATENCIES = """
    SELECT result.case_key, measurement.device, measurement.round_index, measurement.marks, measurement.samples
    FROM case_result AS result JOIN measurement USING (case_result_id)
    WHERE result.run_number = ? AND result.status = 'ok' AND measurement.metric = ? AND measurement.round_index > 0
"""

_EARLIER = """
    SELECT number FROM run AS earlier WHERE number < ? AND number >= ? AND name = ? AND simulated = ?
        AND machine_id IS (SELECT machine_id FROM run WHERE number = ?)
        AND EXISTS (SELECT 1 FROM case_result AS mine JOIN case_result AS theirs USING (case_key)
            WHERE mine.run_number = ? AND theirs.run_number = earlier.number
                AND (mine.status, theirs.status) = ('ok', 'ok'))
    ORDER BY number DESC LIMIT 1
"""
MOST_EARLIER = 500
"""Runs among which the one before is searched."""


def round_times(connection: sqlite3.Connection, number: int) -> RoundTimes:
    """Return the latencies of a run's finished cases, without devices whose threads lacked a core."""
    found: RoundTimes = {}
    starved: set[tuple[str, str]] = set()
    for key, device, index, marks, samples in connection.execute(_LATENCIES, (number, LATENCY)):
        if NO_CORE in marks and NO_CORE in json.loads(marks):
            starved.add((key, device))
        values = [ns for ns in from_blob(samples) if 0 < ns < math.inf]
        if values:
            found.setdefault(key, {}).setdefault(device, {})[index] = median(values)
    return {
        key: {device: rounds for device, rounds in devices.items() if (key, device) not in starved}
        for key, devices in found.items()
    }


def run_before(connection: sqlite3.Connection, run: RunSummary) -> int | None:
    """Return the last earlier run of the same name on the same machine that has a finished case in common."""
    values = (run.number, run.number - MOST_EARLIER, run.name, run.simulated, run.number, run.number)
    found = connection.execute(_EARLIER, values).fetchone()
    return None if found is None else int(found[0])


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
