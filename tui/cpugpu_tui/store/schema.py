"""The tables, and the migration of older databases.

The database keeps the comments in the SQL (`sqlite3 results.db .schema`), for people who query it themselves.
The SQL must work with SQLite 3.24, which servers may have: no STRICT, no RETURNING.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from cpugpu_tui.config.paths import create_private

APPLICATION_ID = 0x63677475
"""`cgtu` in the file's header; identifies databases of this program."""

_CLOCKS = "seq INTEGER NOT NULL, wall_ns INTEGER NOT NULL, mono_ns INTEGER NOT NULL"
"""Number of the event in its run, and its time: ns since 1970, and ns of a clock that is never set."""

_TABLES = (
    f"""CREATE TABLE run (
        number INTEGER PRIMARY KEY AUTOINCREMENT, -- number of the run; never reused
        run_id TEXT NOT NULL UNIQUE,              -- unique in all databases; begins with the date
        series_id TEXT NOT NULL,                  -- shared by runs of the same plan that belong together
        name TEXT NOT NULL,                       -- preset or workload
        status TEXT NOT NULL,                     -- running, done, stopped, failed, interrupted
        simulated INTEGER NOT NULL,               -- 1: a simulated machine made the numbers
        {_CLOCKS}, -- start: event number, ns since 1970, ns of a steady clock
        finished_wall_ns INTEGER,                 -- end, ns since 1970; NULL while it runs
        plan TEXT NOT NULL,                       -- JSON: cases, devices and settings
        environment TEXT NOT NULL,                -- JSON: facts of this run alone
        devices_found TEXT,                       -- JSON: the event DevicesFound
        finished TEXT,                            -- JSON: the event RunFinished
        hostname TEXT NOT NULL,                   -- host that saved the run
        pid INTEGER NOT NULL,                     -- process that saved the run
        boot_id TEXT NOT NULL,                    -- the kernel's id of that host's boot; empty if unknown
        process_started_ticks INTEGER NOT NULL,   -- start of that process, clock ticks since boot; 0 if unknown
        machine_id INTEGER REFERENCES machine(machine_id),             -- facts of the machine
        environment_id INTEGER REFERENCES environment(environment_id)  -- facts of software and settings
    )""",
    """CREATE TABLE case_result (                   -- one row per settled case
        case_result_id INTEGER PRIMARY KEY,
        run_number INTEGER NOT NULL REFERENCES run(number) ON DELETE CASCADE,
        case_key TEXT NOT NULL,                   -- workload/variant/size/dtype/tTHREADS
        case_json TEXT,                           -- NULL for a case that is not in the plan
        status TEXT NOT NULL,                     -- ok, or the kind of failure
        message TEXT NOT NULL,                    -- cause of the failure; empty if ok
        remedy TEXT NOT NULL,                     -- what to do about it; may be empty
        device TEXT,                              -- device that failed
        check_json TEXT,                          -- JSON: comparison of the devices' results
        started_seq INTEGER, started_wall_ns INTEGER, started_mono_ns INTEGER, -- NULL if it never started
        ended_seq INTEGER NOT NULL, ended_wall_ns INTEGER NOT NULL, ended_mono_ns INTEGER NOT NULL,
        flops REAL NOT NULL DEFAULT 0,            -- floating-point operations per call
        bytes_moved REAL NOT NULL DEFAULT 0,      -- memory traffic per call, bytes
        operations INTEGER NOT NULL DEFAULT 0,    -- calls timed by the paper's clock
        UNIQUE (run_number, case_key)
    )""",
    f"""CREATE TABLE calibration (                   -- result of the warm-up, one row per case and device
        case_result_id INTEGER NOT NULL REFERENCES case_result(case_result_id) ON DELETE CASCADE,
        position INTEGER NOT NULL,                -- order among the events of the case
        {_CLOCKS},
        device TEXT NOT NULL,                     -- cpu or cuda:N
        estimate_ns REAL NOT NULL,                -- estimated latency, ns per call
        calls_per_block INTEGER NOT NULL,
        blocks INTEGER NOT NULL,                  -- blocks per round
        rounds INTEGER NOT NULL,                  -- smallest number of rounds
        threads INTEGER NOT NULL,                 -- CPU threads in force
        stable INTEGER NOT NULL,                  -- 1: the latency settled within 1 % before warm-up ended
        max_rounds INTEGER NOT NULL DEFAULT 0     -- most rounds; 0: as rounds
    )""",
    f"""CREATE TABLE measurement (                   -- one row per half-round and metric
        case_result_id INTEGER NOT NULL REFERENCES case_result(case_result_id) ON DELETE CASCADE,
        position INTEGER NOT NULL,                -- order among the events of the case; equal in one half-round
        {_CLOCKS},
        device TEXT NOT NULL,                     -- cpu or cuda:N
        round_index INTEGER NOT NULL,             -- from 1; 0 for samples taken once before the rounds
        calls_per_block INTEGER NOT NULL,
        started_wall_ns INTEGER NOT NULL, ended_wall_ns INTEGER NOT NULL, -- ns since 1970
        started_mono_ns INTEGER NOT NULL, ended_mono_ns INTEGER NOT NULL, -- ns of a clock that is never set
        marks TEXT NOT NULL,                      -- JSON: list of marks, such as "starved"
        metric TEXT,                              -- such as latency; NULL for a half-round without samples
        samples BLOB NOT NULL,                    -- ns per call, little-endian float64
        sm_clock_mhz REAL,                        -- GPU clock before the half-round, MHz
        sm_clock_end_mhz REAL,                    -- GPU clock after the half-round, MHz
        throttled_ns TEXT,                        -- JSON: reason of throttling, its duration in ns
        watched_ns REAL NOT NULL DEFAULT 0,       -- time that throttled_ns covers, ns
        power_mw REAL                             -- GPU power at the end of the half-round, mW
    )""",
    f"""CREATE TABLE run_event (
        run_number INTEGER NOT NULL REFERENCES run(number) ON DELETE CASCADE,
        {_CLOCKS},
        event TEXT NOT NULL,                      -- JSON: an event outside cases, such as TelemetryRead
        name TEXT NOT NULL DEFAULT 'TelemetryRead' -- type of the event
    )""",
    """CREATE TABLE ceilings (                      -- peak rates: last calibration by device and torch version
        hostname TEXT NOT NULL,
        torch TEXT NOT NULL,                      -- version of torch
        identity TEXT NOT NULL,                   -- UUID and driver of a GPU; label and threads of a CPU
        simulated INTEGER NOT NULL,               -- 1: a simulated machine made the numbers
        measured_wall_ns INTEGER NOT NULL,        -- ns since 1970
        ceilings TEXT NOT NULL,                   -- JSON: FLOP/s, bytes per second, ns
        PRIMARY KEY (hostname, torch, identity, simulated)
    )""",
    """CREATE TABLE machine (
        machine_id INTEGER PRIMARY KEY,
        hostname TEXT NOT NULL,
        facts TEXT NOT NULL                       -- JSON: facts that change only with the hardware
    )""",
    """CREATE TABLE environment (                   -- software and settings, stored once for all runs that share them
        environment_id INTEGER PRIMARY KEY,
        facts TEXT NOT NULL                       -- JSON
    )""",
    """CREATE TABLE device (
        device_id INTEGER PRIMARY KEY,
        machine_id INTEGER NOT NULL REFERENCES machine(machine_id),
        name TEXT NOT NULL,                       -- cpu or cuda:N
        label TEXT NOT NULL,                      -- model
        uuid TEXT,                                -- NULL for a CPU
        memory_bytes INTEGER,                     -- memory of a GPU
        simulated INTEGER NOT NULL                -- 1: a simulated device
    )""",
    """CREATE TABLE run_device (
        run_number INTEGER NOT NULL REFERENCES run(number) ON DELETE CASCADE,
        position INTEGER NOT NULL,                -- order of timing, from 0
        device_id INTEGER NOT NULL REFERENCES device(device_id),
        PRIMARY KEY (run_number, position)
    )""",
    """CREATE TABLE series (                        -- runs of the same plan that belong together
        series_id TEXT PRIMARY KEY,
        name TEXT NOT NULL,                       -- preset or workload
        wall_ns INTEGER NOT NULL                  -- start of its first run, ns since 1970
    )""",
    """CREATE TABLE baseline (                      -- named series to compare later runs with
        name TEXT PRIMARY KEY,
        series_id TEXT NOT NULL REFERENCES series(series_id),
        wall_ns INTEGER NOT NULL                  -- time of setting it, ns since 1970
    )""",
    """CREATE TABLE tag (                           -- words that people gave to runs
        run_number INTEGER NOT NULL REFERENCES run(number) ON DELETE CASCADE,
        tag TEXT NOT NULL,
        PRIMARY KEY (run_number, tag)
    )""",
    "CREATE INDEX calibration_of ON calibration (case_result_id, position)",
    "CREATE INDEX measurement_of ON measurement (case_result_id, position)",
    "CREATE INDEX telemetry_of ON run_event (run_number)",
    # Without an index SQLite reads all runs with their plans to find those that are running or of one series.
    "CREATE INDEX run_status ON run (status)",
    "CREATE INDEX run_of_series ON run (series_id)",
    "CREATE INDEX run_of_machine ON run (machine_id)",
    "CREATE INDEX run_of_environment ON run (environment_id)",
    "CREATE INDEX run_of_device ON run_device (device_id)",
    "CREATE INDEX device_of_machine ON device (machine_id)",
    "CREATE INDEX case_status ON case_result (run_number, status)",
    "CREATE INDEX machine_by_content ON machine (facts)",
    "CREATE INDEX environment_by_content ON environment (facts)",
)

# ALTER TABLE appends its text before the closing parenthesis, so a comment there needs an end: /* */.
_VERSION_5 = (
    "ALTER TABLE measurement ADD COLUMN start INTEGER NOT NULL DEFAULT 0 /* start of the process within the run */",
)

OLDEST = 4
"""Version of cpugpu-tui 0.1, the first that was released."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (_TABLES, *[()] * (OLDEST - 1), _VERSION_5)
"""Statements from `user_version` k to k + 1, at index k. Released ones never change, except their comments."""


def version_of(connection: sqlite3.Connection) -> int:
    """Return the schema version of the file; 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_foreign(connection: sqlite3.Connection) -> bool:
    """Return whether no released cpugpu-tui wrote the database, which must not be changed then."""
    # Count tables first: a process that creates the database now commits tables and id together.
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    return tables > 0 and (application_id != APPLICATION_ID or version_of(connection) < OLDEST)


def upgrade(connection: sqlite3.Connection, path: Path) -> str | None:
    """Upgrade an older or empty database in one transaction; return a notice if it had content.

    An older database is first copied to `<name>.v<its version>` beside it.
    """
    version = version_of(connection)
    if version >= len(MIGRATIONS):
        return None
    copy = path.with_name(f"{path.name}.v{version}")
    if version > 0:
        back_up(connection, copy)
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read the version again: another process may have upgraded while this one waited for the lock.
        for step in range(version_of(connection), len(MIGRATIONS)):
            for statement in MIGRATIONS[step]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {step + 1}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if version == 0:
        return None
    return f"The database {path} was upgraded from version {version} to {len(MIGRATIONS)}. The backup is {copy}."


def back_up(connection: sqlite3.Connection, target: Path) -> None:
    """Copy the database. The copy gets its name only once it is complete."""
    unfinished = target.with_name(f"{target.name}.{os.getpid()}")
    create_private(unfinished)
    with closing(sqlite3.connect(unfinished)) as copy:
        connection.backup(copy)
    os.replace(unfinished, target)
