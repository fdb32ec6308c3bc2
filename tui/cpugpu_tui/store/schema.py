"""The tables, and how a database of an older version becomes one of this version.

The comments inside the SQL stay in the file (`sqlite3 results.db .schema`), for people who query it themselves.
Only what SQLite 3.24 knows is used: no STRICT, no RETURNING, because servers' libraries are old.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from cpugpu_tui.config.files import create_private
from cpugpu_tui.store.insertion import share_surroundings

Step = str | Callable[[sqlite3.Connection], None]
"""A statement, or what a statement cannot do."""

APPLICATION_ID = 0x63677475
"""`cgtu` in the file's header: tells our databases from other programs'."""

_CLOCKS = "seq INTEGER NOT NULL, wall_ns INTEGER NOT NULL, mono_ns INTEGER NOT NULL"

_VERSION_1 = (
    f"""CREATE TABLE run (
        number INTEGER PRIMARY KEY AUTOINCREMENT, -- the short number; never given twice
        run_id TEXT NOT NULL UNIQUE,
        series_id TEXT NOT NULL,
        name TEXT NOT NULL,
        status TEXT NOT NULL,                     -- running, done, stopped, failed, interrupted
        simulated INTEGER NOT NULL,
        {_CLOCKS},                                -- of RunStarted
        finished_wall_ns INTEGER,
        plan TEXT NOT NULL,                       -- JSON
        environment TEXT NOT NULL,                -- JSON
        devices_found TEXT,                       -- JSON, the event
        finished TEXT,                            -- JSON, the event RunFinished
        hostname TEXT NOT NULL,                   -- the writer: hostname to process_started_ticks
        pid INTEGER NOT NULL,
        boot_id TEXT NOT NULL,
        process_started_ticks INTEGER NOT NULL    -- since boot, /proc/<pid>/stat field 22; 0 if unknown
    )""",
    """CREATE TABLE case_result (
        case_result_id INTEGER PRIMARY KEY,
        run_number INTEGER NOT NULL REFERENCES run(number) ON DELETE CASCADE,
        case_key TEXT NOT NULL,
        case_json TEXT,                           -- NULL for a case that the plan does not list
        status TEXT NOT NULL,                     -- ok, or the kind of failure
        message TEXT NOT NULL,
        remedy TEXT NOT NULL,
        device TEXT,                              -- where it failed
        check_json TEXT,                          -- comparison of the devices' results
        started_seq INTEGER, started_wall_ns INTEGER, started_mono_ns INTEGER, -- NULL if never started
        ended_seq INTEGER NOT NULL, ended_wall_ns INTEGER NOT NULL, ended_mono_ns INTEGER NOT NULL,
        UNIQUE (run_number, case_key)
    )""",
    f"""CREATE TABLE calibration (
        case_result_id INTEGER NOT NULL REFERENCES case_result(case_result_id) ON DELETE CASCADE,
        position INTEGER NOT NULL,                -- among the events of the case
        {_CLOCKS},
        device TEXT NOT NULL,
        estimate_ns REAL NOT NULL,
        calls_per_block INTEGER NOT NULL,
        blocks INTEGER NOT NULL,
        rounds INTEGER NOT NULL,
        threads INTEGER NOT NULL,
        stable INTEGER NOT NULL
    )""",
    f"""CREATE TABLE measurement (                   -- one row per half-round and metric
        case_result_id INTEGER NOT NULL REFERENCES case_result(case_result_id) ON DELETE CASCADE,
        position INTEGER NOT NULL,                -- among the events of the case; rows that share it are one half-round
        {_CLOCKS},
        device TEXT NOT NULL,
        round_index INTEGER NOT NULL,
        calls_per_block INTEGER NOT NULL,
        started_wall_ns INTEGER NOT NULL, ended_wall_ns INTEGER NOT NULL,
        started_mono_ns INTEGER NOT NULL, ended_mono_ns INTEGER NOT NULL,
        marks TEXT NOT NULL,                      -- JSON, list of words
        metric TEXT,                              -- NULL for a half-round without samples
        samples BLOB NOT NULL                     -- ns per call, little-endian float64
    )""",
    f"""CREATE TABLE telemetry (
        run_number INTEGER NOT NULL REFERENCES run(number) ON DELETE CASCADE,
        {_CLOCKS},
        event TEXT NOT NULL                       -- JSON, the event TelemetryRead
    )""",
    "CREATE INDEX calibration_of ON calibration (case_result_id, position)",
    "CREATE INDEX measurement_of ON measurement (case_result_id, position)",
    "CREATE INDEX telemetry_of ON telemetry (run_number)",
)

_VERSION_2 = (
    "ALTER TABLE case_result ADD COLUMN flops REAL NOT NULL DEFAULT 0",
    "ALTER TABLE case_result ADD COLUMN bytes_moved REAL NOT NULL DEFAULT 0",
    "ALTER TABLE case_result ADD COLUMN operations INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE calibration ADD COLUMN max_rounds INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE measurement ADD COLUMN sm_clock_mhz REAL",
    # Events beside the cases: TelemetryRead was the first; EpochFinished and KernelsProfiled came with version 2.
    "ALTER TABLE telemetry RENAME TO run_event",
    "ALTER TABLE run_event ADD COLUMN name TEXT NOT NULL DEFAULT 'TelemetryRead'",
    """CREATE TABLE ceilings (                      -- the last calibration of each device under each torch build
        hostname TEXT NOT NULL,
        torch TEXT NOT NULL,
        identity TEXT NOT NULL,                   -- UUID of a GPU; threads and label of a CPU
        simulated INTEGER NOT NULL,
        measured_wall_ns INTEGER NOT NULL,
        ceilings TEXT NOT NULL,                   -- JSON
        PRIMARY KEY (hostname, torch, identity, simulated)
    )""",
)

_VERSION_3 = (
    # The GPU's state at the other edge of a half-round. MachineRead and EnergyMeasured are events beside the cases.
    "ALTER TABLE measurement ADD COLUMN sm_clock_end_mhz REAL",
    "ALTER TABLE measurement ADD COLUMN throttled_ns TEXT",  # JSON, reason → ns
    "ALTER TABLE measurement ADD COLUMN watched_ns REAL NOT NULL DEFAULT 0",
    "ALTER TABLE measurement ADD COLUMN power_mw REAL",
)

_VERSION_4: tuple[Step, ...] = (
    """CREATE TABLE machine (
        machine_id INTEGER PRIMARY KEY,
        hostname TEXT NOT NULL,
        facts TEXT NOT NULL                       -- JSON: what only a change of the hardware changes
    )""",
    """CREATE TABLE environment (                   -- what is installed and set, once for all runs that share it
        environment_id INTEGER PRIMARY KEY,
        facts TEXT NOT NULL                       -- JSON
    )""",
    """CREATE TABLE device (
        device_id INTEGER PRIMARY KEY,
        machine_id INTEGER NOT NULL REFERENCES machine(machine_id),
        name TEXT NOT NULL,                       -- cpu or cuda:N
        label TEXT NOT NULL,
        uuid TEXT,                                -- NULL for a CPU
        memory_bytes INTEGER,
        simulated INTEGER NOT NULL
    )""",
    """CREATE TABLE run_device (
        run_number INTEGER NOT NULL REFERENCES run(number) ON DELETE CASCADE,
        position INTEGER NOT NULL,                -- order in which they were timed
        device_id INTEGER NOT NULL REFERENCES device(device_id),
        PRIMARY KEY (run_number, position)
    )""",
    """CREATE TABLE series (                        -- runs of one plan taken together
        series_id TEXT PRIMARY KEY,
        name TEXT NOT NULL,                       -- of the plan
        wall_ns INTEGER NOT NULL                  -- when its first run began
    )""",
    """CREATE TABLE baseline (
        name TEXT PRIMARY KEY,
        series_id TEXT NOT NULL REFERENCES series(series_id),
        wall_ns INTEGER NOT NULL                  -- when it was set
    )""",
    """CREATE TABLE tag (
        run_number INTEGER NOT NULL REFERENCES run(number) ON DELETE CASCADE,
        tag TEXT NOT NULL,
        PRIMARY KEY (run_number, tag)
    )""",
    # From here on run.environment has only what is the run's own; the rest is where these two point.
    "ALTER TABLE run ADD COLUMN machine_id INTEGER REFERENCES machine(machine_id)",
    "ALTER TABLE run ADD COLUMN environment_id INTEGER REFERENCES environment(environment_id)",
    # Without these 10 000 runs are read, plans and all, to find the few that are running or of one series.
    "CREATE INDEX run_status ON run (status)",
    "CREATE INDEX run_of_series ON run (series_id)",
    "CREATE INDEX run_of_machine ON run (machine_id)",
    "CREATE INDEX run_of_environment ON run (environment_id)",
    "CREATE INDEX run_of_device ON run_device (device_id)",
    "CREATE INDEX device_of_machine ON device (machine_id)",
    "CREATE INDEX case_status ON case_result (run_number, status)",
    "CREATE INDEX machine_by_content ON machine (facts)",
    "CREATE INDEX environment_by_content ON environment (facts)",
    "INSERT INTO series SELECT series_id, name, min(wall_ns) FROM run GROUP BY series_id",
    share_surroundings,
)

MIGRATIONS: tuple[tuple[Step, ...], ...] = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4)
"""Steps that lead from `user_version` k to k + 1, at index k. A released entry is never edited."""


def version_of(connection: sqlite3.Connection) -> int:
    """Return the schema version that the file carries; 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_foreign(connection: sqlite3.Connection) -> bool:
    """Return whether the file is a database of another program, into which we must not write."""
    # Tables first: a process that creates the database right now commits tables and id together.
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    return tables > 0 and application_id != APPLICATION_ID


def upgrade(connection: sqlite3.Connection, path: Path) -> str | None:
    """Bring an older or empty database to the current version, all steps in one transaction.

    An older database with content is first copied to `<name>.v<its version>` beside it; the sentence that says so is
    returned.
    """
    version = version_of(connection)
    if version >= len(MIGRATIONS):
        return None
    copy = path.with_name(f"{path.name}.v{version}")
    if version > 0:
        back_up(connection, copy)
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again: another process may have upgraded while this one waited for the lock.
        for step in range(version_of(connection), len(MIGRATIONS)):
            for statement in MIGRATIONS[step]:
                if isinstance(statement, str):
                    connection.execute(statement)
                else:
                    statement(connection)
            connection.execute(f"PRAGMA user_version = {step + 1}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if version == 0:
        return None
    return (
        f"The database {path} was brought from version {version} to {len(MIGRATIONS)}; as it was, it is kept as {copy}."
    )


def back_up(connection: sqlite3.Connection, target: Path) -> None:
    """Copy the database; the copy appears under its name only when it is whole."""
    unfinished = target.with_name(f"{target.name}.{os.getpid()}")
    create_private(unfinished)
    with closing(sqlite3.connect(unfinished)) as copy:
        connection.backup(copy)
    os.replace(unfinished, target)
