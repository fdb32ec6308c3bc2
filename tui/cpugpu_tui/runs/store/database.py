"""The database of all runs. A finished case is committed before it is shown."""

from __future__ import annotations

import heapq
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cpugpu_tui.errors import StoreError, UsageError
from cpugpu_tui.model import EVENTS, Case, CasesChosen, Ceilings, DevicesFound, Event, Plan, RunFinished, RunStarted
from cpugpu_tui.runs.store import finished, rows, schema, summary
from cpugpu_tui.runs.store.faults import explained
from cpugpu_tui.runs.store.filesystem import journal_mode, mounts, prepare_folder
from cpugpu_tui.runs.store.finished import FinishedCases
from cpugpu_tui.runs.store.owner import Owner
from cpugpu_tui.runs.store.summary import RunSummary

LATEST = "latest"
"""What names the newest run in every command."""

_LIST_THEM = "`cpugpu-tui history` lists the runs."


class Store:
    """An open database, usable from any thread.

    Every method raises `StoreError` when the file fails it; a write that raised has left nothing behind.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, refusal: StoreError | None = None) -> None:
        """Wrap a connection, to which nothing is written if there is a `refusal`; `Store.open` gives a store."""
        self.path = path
        """The file, as it was named."""
        self._connection = connection
        self._lock = threading.Lock()
        self._refusal = refusal
        self._cases: dict[str, dict[str, Case]] = {}

    @property
    def notice(self) -> str | None:
        """Why nothing can be saved here although it can be read: a newer version's, or read-only; else None."""
        return str(self._refusal) if self._refusal else None

    # ---------------------------------------------------------------- opening and closing

    @classmethod
    def open(cls, path: Path, create_parents: bool = False) -> Store:
        """Open the database, create it if there is none, upgrade an older one, mark runs whose process died.

        Raises:
            StoreError: the folder is missing (and `create_parents` is off) or cannot be created, the file or
                its folder is read-only, the file is no database, another program's or damaged, the disk is full,
                or another program holds the lock.
        """
        with explained(path):
            prepare_folder(path, create_parents)
            # isolation_level None: transactions are spelled out below, Python opens none behind our back.
            connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
            try:
                store = cls(connection, path)
                store._set_up()
            except BaseException:
                connection.close()
                raise
            return store

    def _set_up(self) -> None:
        connection = self._connection
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA busy_timeout = 5000")
        connection.execute("PRAGMA foreign_keys = ON")
        if schema.is_foreign(connection):
            raise StoreError(
                f"The file {self.path} is another program's database.",
                "It was left as it is; name another file with --db.",
            )
        version, known = schema.version_of(connection), len(schema.MIGRATIONS)
        if version > known:
            self._refusal = StoreError(
                f"The database {self.path} was written by a newer cpugpu-tui (its version is {version}, known is "
                f"{known}), so it can be read and nothing is saved.",
                "Update cpugpu-tui, or name another file with --db.",
            )
            return
        self._choose_journal()
        # NORMAL may lose the last commits when power fails; FULL costs 30 % and still does 770 a second.
        connection.execute("PRAGMA synchronous = FULL")
        schema.upgrade(connection, self.path)
        # Changes nothing, but SQLite opens read-only files and even begins to write to them without a word.
        connection.execute("UPDATE run SET status = status WHERE 0")
        self.mark_interrupted()

    def _choose_journal(self) -> None:
        mode = journal_mode(self.path.resolve().parent, mounts())
        try:
            self._connection.execute(f"PRAGMA journal_mode = {mode}")
        except sqlite3.OperationalError as error:
            # SQLite does not wait here: 7 of 480 openings failed when eight processes created a database at once.
            # The file remembers its mode, so whoever was faster has set it; any mode is safe until then.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise

    def close(self) -> None:
        """Close the file. Harmless when called twice."""
        with self._lock, explained(self.path):
            self._connection.close()

    def integrity_check(self) -> list[str]:
        """Return what is wrong inside the file, one line per finding; empty when it is sound."""
        with self._reading() as connection:
            findings = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            orphans = [
                f"{row[0]} row {row[1]} has no {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")
            ]
        return [finding for finding in findings if finding != "ok"] + orphans

    # ---------------------------------------------------------------- writing

    def begin_run(self, started: RunStarted) -> int:
        """Save that a run has started and return its number, one more than any number given before."""
        with self._writing() as connection:
            return _insert(
                connection,
                "run",
                {
                    "run_id": started.run_id,
                    "series_id": started.series_id,
                    "name": started.plan.name,
                    "status": "running",
                    "simulated": started.plan.simulation is not None,
                    **rows.clock_columns(started),
                    "plan": rows.to_json(started.plan),
                    "environment": rows.to_json(started.environment),
                    **asdict(Owner.current()),
                },
            )

    def add_devices(self, run_id: str, found: DevicesFound) -> None:
        """Save which devices the run uses; a later call (the agent was started anew) replaces an earlier one."""
        with self._writing() as connection:
            connection.execute(
                "UPDATE run SET devices_found = ? WHERE number = ?", (rows.to_json(found), _number(connection, run_id))
            )

    def commit_case(self, run_id: str, case_events: Sequence[Event], beside: Sequence[Event] = ()) -> None:
        """Save one case that is over, and the events beside the cases since the last commit, in one transaction.

        `case_events` are the case's events in order; the last is its `CaseFinished` or `CaseFailed`. Committed
        again, a case replaces what was there.

        Raises:
            StoreError: nothing of it was saved.
        """
        self.commit_cases(run_id, [case_events], beside)

    def commit_cases(self, run_id: str, cases: Sequence[Sequence[Event]], beside: Sequence[Event] = ()) -> None:
        """Save several cases as `commit_case` does, in one transaction: a stopped sweep skips thousands at once."""
        attempts = [rows.last_attempt(case_events) for case_events in cases]
        results = [rows.result_row(attempt) for attempt in attempts]
        with self._writing() as connection:
            number = _number(connection, run_id)
            known = self._cases_of(number, run_id)
            for chosen in (event for event in beside if isinstance(event, CasesChosen)):
                known.update((case.key, case) for case in chosen.cases)
            for attempt, result in zip(attempts, results, strict=True):
                _insert_case(connection, number, known.get(result["case_key"]), attempt, result)
            _insert_beside(connection, number, beside)

    def finish_run(self, run_id: str, finished: RunFinished, beside: Sequence[Event] = ()) -> None:
        """Save how the run ended, and the events beside the cases since the last commit."""
        with self._writing() as connection:
            number = _number(connection, run_id)
            connection.execute(
                "UPDATE run SET status = ?, finished_wall_ns = ?, finished = ? WHERE number = ?",
                (finished.status, finished.wall_ns, rows.to_json(finished), number),
            )
            _insert_beside(connection, number, beside)
        self._cases.pop(run_id, None)

    def keep_ceilings(self, found: Ceilings) -> None:
        """Save what a device reached; its last calibration under this torch build is replaced."""
        with self._writing() as connection:
            connection.execute("INSERT OR REPLACE INTO ceilings VALUES (?, ?, ?, ?, ?, ?)", rows.ceilings_row(found))

    def mark_interrupted(self) -> int:
        """Mark runs as `interrupted` that say `running` while their process is gone; return how many."""
        with self._writing() as connection:
            running = connection.execute(
                "SELECT number, hostname, pid, boot_id, process_started_ticks FROM run WHERE status = 'running'"
            )
            gone = [(number,) for number, *owner in running.fetchall() if Owner(*owner).is_gone()]
            connection.executemany("UPDATE run SET status = 'interrupted' WHERE number = ?", gone)
        return len(gone)

    # ---------------------------------------------------------------- reading

    def runs(self, limit: int | None = None, before: int | None = None) -> list[RunSummary]:
        """Return the newest runs first, all of them without a limit; `before`: those with a lower number, a page."""
        with self._reading() as connection:
            found = connection.execute(summary.SELECT, (before, -1 if limit is None else limit))
            return [RunSummary.of_row(row) for row in found]

    def find(self, text: str) -> str:
        """Return the id of the run that a person names: its number, `latest`, or a unique prefix of its id.

        A number wins over an id that begins with the same digits.

        Raises:
            UsageError: there is no such run, there are several, or there are none at all.
        """
        with self._reading() as connection:
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
            raise UsageError(f"There is no run {text!r}.", _LIST_THEM)
        named = ", ".join(f"{row['run_id']} (run {row['number']})" for row in matches[:5])
        more = f" and {len(matches) - 5} more" if len(matches) > 5 else ""
        raise UsageError(
            f"{text!r} is the beginning of several runs: {named}{more}.", "Give a number or a longer part."
        )

    def load(self, run_id: str) -> list[Event]:
        """Return the run's stream: what a live run's observers were told, less `Gap`, `Progressed` and `Hello`.

        The first is `RunStarted`, with its number; then `DevicesFound`; then cases and telemetry by `seq`, and by wall
        time where that is equal, though a case's own events always keep their order; `RunFinished` is last, if there
        was an end.

        Raises:
            UsageError: there is no such run.
        """
        with self._reading() as connection:
            run = connection.execute("SELECT * FROM run WHERE run_id = ?", (run_id,)).fetchone()
            if run is None:
                raise UsageError(f"There is no run {run_id!r}.", _LIST_THEM)
            events: list[Event] = [_run_started(run)]
            if run["devices_found"]:
                events.append(rows.from_json(run["devices_found"], DevicesFound))
            streams = _case_streams(connection, run["number"])
            streams.append(_stream_beside(connection, run["number"]))
            events += heapq.merge(*streams, key=lambda event: (event.seq, event.wall_ns))
            if run["finished"]:
                events.append(rows.from_json(run["finished"], RunFinished))
        return events

    def ceilings(self, hostname: str | None = None, torch: str | None = None) -> tuple[Ceilings, ...]:
        """Return the kept ceilings, newest first: of one machine and torch build, or all."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT ceilings FROM ceilings WHERE hostname = ifnull(?, hostname) AND torch = ifnull(?, torch) "
                "ORDER BY measured_wall_ns DESC", (hostname, torch),
            )  # fmt: skip
            return tuple(rows.from_json(row["ceilings"], Ceilings) for row in found)

    def finished_cases(
        self, workloads: Collection[str], hostname: str, *, simulated: bool, limit: int
    ) -> list[FinishedCases]:
        """Return what runs of a machine finished of these workloads, newest first, at most so many runs."""
        with self._reading() as connection:
            found = connection.execute(
                finished.SELECT.format(marks=", ".join("?" * len(workloads))),
                (hostname, simulated, *workloads, limit),
            )
            return [FinishedCases.of_row(row) for row in found]

    # ---------------------------------------------------------------- inside

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Give the connection inside a transaction, so that several queries see the same state."""
        with self._lock, explained(self.path), _transaction(self._connection, "BEGIN"):
            yield self._connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Give the connection inside a transaction that may write: committed at the end, or undone as a whole."""
        if self._refusal:
            raise self._refusal
        with self._lock, explained(self.path), _transaction(self._connection, "BEGIN IMMEDIATE"):
            yield self._connection

    def _cases_of(self, number: int, run_id: str) -> dict[str, Case]:
        """Return key → case of the run's plan; kept, because a plan of 10 000 cases takes 50 ms to read."""
        if run_id not in self._cases:
            text = self._connection.execute("SELECT plan FROM run WHERE number = ?", (number,)).fetchone()[0]
            self._cases[run_id] = {case.key: case for case in rows.from_json(text, Plan).cases}
        return self._cases[run_id]


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk makes SQLite roll back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> int:
    """Insert column → value and return the row's id."""
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    row_id = connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values())).lastrowid
    assert row_id is not None
    return row_id


def _insert_case(
    connection: sqlite3.Connection, number: int, case: Case | None, attempt: Sequence[Event], result: dict[str, Any]
) -> None:
    connection.execute("DELETE FROM case_result WHERE run_number = ? AND case_key = ?", (number, result["case_key"]))
    case_json = None if case is None else rows.to_json(case)
    case_result_id = _insert(connection, "case_result", {**result, "run_number": number, "case_json": case_json})
    for table, row in rows.detail_rows(attempt):
        _insert(connection, table, {"case_result_id": case_result_id, **row})


def _insert_beside(connection: sqlite3.Connection, number: int, events: Iterable[Event]) -> None:
    for event in events:
        row = {"run_number": number, **rows.clock_columns(event), "event": rows.to_json(event)}
        _insert(connection, "run_event", {**row, "name": type(event).__name__})


def _number(connection: sqlite3.Connection, run_id: str) -> int:
    row = connection.execute("SELECT number FROM run WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        raise StoreError(f"The run {run_id} is no longer in the database.", "Start it again.")
    return int(row[0])


def _run_started(run: sqlite3.Row) -> RunStarted:
    return RunStarted(
        seq=run["seq"],
        wall_ns=run["wall_ns"],
        mono_ns=run["mono_ns"],
        run_id=run["run_id"],
        series_id=run["series_id"],
        plan=rows.from_json(run["plan"], Plan),
        environment=rows.from_json(run["environment"], dict[str, Any]),
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
