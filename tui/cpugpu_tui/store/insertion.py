"""Insert events into the tables. The caller has begun the transaction."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cpugpu_tui import model
from cpugpu_tui.errors import LostRunError
from cpugpu_tui.machine import procfs
from cpugpu_tui.store import row_mapping


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
            "status": status, "simulated": started.plan.simulation is not None, **row_mapping.clock_columns(started),
            "plan": row_mapping.to_json(started.plan), "environment": row_mapping.to_json(of_run),
            **_shared(connection, of_machine, of_environment, owner.hostname), **asdict(owner),
        },
    )  # fmt: skip


def _shared(
    connection: sqlite3.Connection, machine: Mapping[str, Any], environment: Mapping[str, Any], hostname: str
) -> dict[str, int]:
    """Return the ids of a run's machine and environment, by column."""
    host = {"hostname": str(machine.get("hostname") or hostname), "facts": row_mapping.to_json(machine)}
    return {
        "machine_id": _known(connection, "machine", host),
        "environment_id": _known(connection, "environment", {"facts": row_mapping.to_json(environment)}),
    }


def share_surroundings(connection: sqlite3.Connection) -> None:
    """Move facts of runs into the tables machine, environment and device, for the migration to version 4."""
    known = "SELECT number, environment, hostname, devices_found FROM run WHERE environment_id IS NULL"
    for number, text, hostname, devices in connection.execute(known).fetchall():
        of_machine, of_environment, of_run = _parted(json.loads(text))
        shared = _shared(connection, of_machine, of_environment, hostname)
        connection.execute(
            "UPDATE run SET environment = ?, machine_id = ?, environment_id = ? WHERE number = ?",
            (row_mapping.to_json(of_run), shared["machine_id"], shared["environment_id"], number),
        )
        if devices:
            put_devices(connection, number, row_mapping.from_json(devices, model.DevicesFound))


def _known(connection: sqlite3.Connection, table: str, content: Mapping[str, Any]) -> int:
    """Return the id of the row with this content; insert it if it is new."""
    same = " AND ".join(f"{name} IS ?" for name in content)
    found = connection.execute(f"SELECT {table}_id FROM {table} WHERE {same}", tuple(content.values())).fetchone()
    return int(found[0]) if found else insert(connection, table, content)


def put_devices(connection: sqlite3.Connection, number: int, found: model.DevicesFound) -> None:
    """Save the devices of a run, replacing earlier ones."""
    connection.execute("UPDATE run SET devices_found = ? WHERE number = ?", (row_mapping.to_json(found), number))
    machine_id = connection.execute("SELECT machine_id FROM run WHERE number = ?", (number,)).fetchone()[0]
    connection.execute("DELETE FROM run_device WHERE run_number = ?", (number,))
    for position, device in enumerate(found.devices):
        content = {name: value for name, value in asdict(device).items() if name in DEVICE_COLUMNS}
        device_id = _known(connection, "device", {"machine_id": machine_id, **content})
        insert(connection, "run_device", {"run_number": number, "position": position, "device_id": device_id})


DEVICE_COLUMNS = ("name", "label", "uuid", "memory_bytes", "simulated")
"""Fields of `Device` with a column. `run.devices_found` holds all fields."""


def insert_case(
    connection: sqlite3.Connection, number: int, case: model.Case | None, attempt: Sequence[model.Event],
    result: dict[str, Any],
) -> None:  # fmt: skip
    """Insert a settled case, replacing an earlier result of the same case."""
    connection.execute("DELETE FROM case_result WHERE run_number = ? AND case_key = ?", (number, result["case_key"]))
    case_json = None if case is None else row_mapping.to_json(case)
    case_result_id = insert(connection, "case_result", {**result, "run_number": number, "case_json": case_json})
    for table, row in row_mapping.detail_rows(attempt):
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
        for table, row in row_mapping.detail_rows(sampled) if known else ():
            position = known[1] + 1 + row["position"]
            insert(connection, table, {"case_result_id": known[0], **row, "position": position})


def insert_beside(connection: sqlite3.Connection, number: int, events: Iterable[model.Event]) -> None:
    """Insert events that have no table of their own."""
    for event in events:
        row = {"run_number": number, **row_mapping.clock_columns(event), "event": row_mapping.to_json(event)}
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
        now = _started_ticks(self.pid)
        return bool(now and self.process_started_ticks) and now != self.process_started_ticks


def _started_ticks(pid: int) -> int:
    found = procfs.read_process(pid)
    return found.started_ticks if found is not None else 0
