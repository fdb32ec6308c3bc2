"""Runs out of the tables, inside a transaction that the caller has begun."""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections import defaultdict
from typing import Any

from cpugpu_tui.errors import NoSuchRunError, UsageError
from cpugpu_tui.model import EVENTS, DevicesFound, Event, Plan, RunFinished, RunStarted
from cpugpu_tui.store import rows

LATEST = "latest"
"""What names the newest run in every command."""

LIST_THEM = "`cpugpu-tui history` lists the runs."

_RUN = """
    SELECT run.*, machine.facts AS machine_facts, environment.facts AS environment_facts
    FROM run LEFT JOIN machine USING (machine_id) LEFT JOIN environment USING (environment_id)
    WHERE run_id = ?
"""


def find_run(connection: sqlite3.Connection, text: str) -> str:
    """Return the id of the run that a person names, see `Store.find`."""
    known = connection.execute("SELECT number, run_id FROM run ORDER BY number DESC").fetchall()
    if not known:
        raise UsageError("There are no saved runs yet.", "`cpugpu-tui run quick` makes one.")
    if text == LATEST:
        return str(known[0]["run_id"])
    exact = [row for row in known if text in (str(row["number"]), row["run_id"])]
    matches = exact or [row for row in known if text and row["run_id"].startswith(text)]
    if len(matches) == 1:
        return str(matches[0]["run_id"])
    if not matches:
        raise NoSuchRunError(f"There is no run {text!r}.", LIST_THEM)
    named = ", ".join(f"{row['run_id']} (run {row['number']})" for row in matches[:5])
    more = f" and {len(matches) - 5} more" if len(matches) > 5 else ""
    raise UsageError(f"{text!r} is the beginning of several runs: {named}{more}.", "Give a number or a longer part.")


def load_run(connection: sqlite3.Connection, run_id: str) -> list[Event]:
    """Return a run's stream, see `Store.load`."""
    run = connection.execute(_RUN, (run_id,)).fetchone()
    if run is None:
        raise UsageError(f"There is no run {run_id!r}.", LIST_THEM)
    events: list[Event] = [_run_started(run)]
    if run["devices_found"]:
        events.append(rows.from_json(run["devices_found"], DevicesFound))
    streams = _case_streams(connection, run["number"])
    streams.append(_stream_beside(connection, run["number"]))
    events += heapq.merge(*streams, key=lambda event: (event.seq, event.wall_ns))
    if run["finished"]:
        events.append(rows.from_json(run["finished"], RunFinished))
    return events


def _run_started(run: sqlite3.Row) -> RunStarted:
    facts: dict[str, Any] = {}
    for part in ("machine_facts", "environment_facts", "environment"):
        facts |= json.loads(run[part] or "{}")
    return RunStarted(
        seq=run["seq"],
        wall_ns=run["wall_ns"],
        mono_ns=run["mono_ns"],
        run_id=run["run_id"],
        series_id=run["series_id"],
        plan=rows.from_json(run["plan"], Plan),
        environment=facts,
        number=run["number"],
    )


def _case_streams(connection: sqlite3.Connection, number: int) -> list[list[Event]]:
    """Return the events of each case, in the order in which the cases were committed."""
    results = connection.execute(
        "SELECT * FROM case_result WHERE run_number = ? ORDER BY case_result_id", (number,)
    ).fetchall()
    calibrations = _details(connection, "calibration", number)
    measurements = _details(connection, "measurement", number)
    ids = [result["case_result_id"] for result in results]
    return [rows.case_events(row, calibrations[key], measurements[key]) for key, row in zip(ids, results, strict=True)]


def _details(connection: sqlite3.Connection, table: str, number: int) -> defaultdict[int, list[sqlite3.Row]]:
    """Return the table's rows of a run by case, each case's in order of position and insertion."""
    found = connection.execute(
        f"SELECT {table}.* FROM {table} JOIN case_result USING (case_result_id) "
        f"WHERE run_number = ? ORDER BY position, {table}.rowid",
        (number,),
    )
    by_case: defaultdict[int, list[sqlite3.Row]] = defaultdict(list)
    for row in found:
        by_case[row["case_result_id"]].append(row)
    return by_case


def _stream_beside(connection: sqlite3.Connection, number: int) -> list[Event]:
    found = connection.execute("SELECT name, event FROM run_event WHERE run_number = ? ORDER BY rowid", (number,))
    return [rows.from_json(row["event"], EVENTS[row["name"]]) for row in found]
