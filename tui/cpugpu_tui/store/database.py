"""The database of all runs. A finished case is committed before it is shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from cpugpu_tui import model
from cpugpu_tui.config.paths import create_private, journal_mode, mounts, prepare_folder, tighten
from cpugpu_tui.errors import NewerStoreError, StoreError, UsageError
from cpugpu_tui.store import rows, schema
from cpugpu_tui.store.connection import WAIT_S, confirm, explained, is_damaged, set_aside
from cpugpu_tui.store.saved_runs import SavedRuns

MEMORY = ":memory:"
"""SQLite's name for a database without a file."""


class Store(SavedRuns):
    """An open database, usable from any thread.

    Every method raises `StoreError` if the file cannot be used. A write that raises leaves nothing behind.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, refusal: StoreError | None = None) -> None:
        super().__init__(connection, path, refusal)
        self._cases: dict[str, dict[str, model.Case]] = {}

    # ---------------------------------------------------------------- opening

    @classmethod
    def open(cls, path: Path, create_parents: bool = False, keep_aside: bool = True, wait_s: float = WAIT_S) -> Store:
        """Open the database. Create a missing one, upgrade an older one, and mark runs whose process died.

        `create_parents` is for the default path. A damaged database of this program is renamed and a new one created,
        see `remark`; without `keep_aside` it stays where it is and raises. New files are readable by their owner only,
        and so are all files at the default path.

        Raises:
            StoreError: the folder is missing (without `create_parents`) or cannot be created; the file or its folder
                is read-only; the file is damaged, not a database, or another program's; the disk is full; or
                another program holds the lock.
        """
        with explained(path):
            prepare_folder(path, create_parents)
            tightened = tighten(path) if create_parents else None
            try:
                store = cls._opened(path, wait_s)
                store.remark = " ".join(filter(None, (store.remark, tightened))) or None
                return store
            except (sqlite3.DatabaseError, StoreError) as error:
                cause = error.__cause__ if isinstance(error, StoreError) else error
                if not (keep_aside and isinstance(cause, sqlite3.DatabaseError)):
                    raise
                if not is_damaged(cause, path, default_place=create_parents):
                    raise
            aside = set_aside(path)
            store = cls._opened(path, wait_s)
            store.remark = (
                f"The database {path} was damaged. It was renamed to {aside.name}, and a new one was created. "
                f"To recover its runs, try `sqlite3 {aside.name} .recover`."
            )
            return store

    @classmethod
    def in_memory(cls) -> Store:
        """Return an empty database in memory, which is lost when it is closed."""
        return cls._opened(Path(MEMORY))

    @classmethod
    def _opened(cls, path: Path, wait_s: float = WAIT_S) -> Store:
        if str(path) != MEMORY:
            create_private(path)
        # isolation_level None: transactions are explicit here, Python must not open its own.
        connection = sqlite3.connect(path, timeout=wait_s, isolation_level=None, check_same_thread=False)
        try:
            store = cls(connection, path)
            store._set_up()
            connection.execute(f"PRAGMA busy_timeout = {WAIT_S * 1000:.0f}")
        except BaseException:
            connection.close()
            raise
        return store

    def _set_up(self) -> None:
        connection = self._connection
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        if schema.is_foreign(connection):
            raise StoreError(
                f"The file {self.path} is another program's database.", choose="It was not changed. Choose another file"
            )
        version, known = schema.version_of(connection), len(schema.MIGRATIONS)
        if version > known:
            self._refusal = NewerStoreError(
                f"A newer cpugpu-tui wrote the database {self.path} (version {version}, supported {known}). "
                "Its runs can be read, but nothing can be saved.",
                choose="Update cpugpu-tui, or choose another file",
            )
            return
        self._choose_journal()
        # NORMAL may lose the last commits on a power failure. FULL is 30 % slower: 770 commits a second.
        connection.execute("PRAGMA synchronous = FULL")
        self.remark = schema.upgrade(connection, self.path)
        confirm(connection, self.path)
        # Changes nothing, but fails on a read-only file, which SQLite opens without an error.
        connection.execute("UPDATE run SET status = status WHERE 0")
        self.mark_interrupted()
        self.remember_files()  # last, because the first write creates the journals

    def _choose_journal(self) -> None:
        mode = journal_mode(self.path.resolve().parent, mounts())
        try:
            self._connection.execute(f"PRAGMA journal_mode = {mode}")
        except sqlite3.OperationalError as error:
            # SQLite does not wait here: 7 of 480 openings failed when eight processes created a database at once.
            # The file remembers its mode, so whoever was faster has set it; any mode is safe until then.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise

    # ---------------------------------------------------------------- writing

    def begin_run(self, started: model.RunStarted) -> int:
        """Save the start of a run and return its number, one more than any number given before.

        A known run keeps its number: a commit that failed on a full disk may have been written.
        """
        with self._writing() as connection:
            known = connection.execute("SELECT number FROM run WHERE run_id = ?", (started.run_id,)).fetchone()
            if known is not None:
                return int(known["number"])
            return rows.insert_run(connection, started, "running", rows.Owner.current())

    def reopen_run(self, run_id: str, max_seconds: float | None) -> None:
        """Save that a run continues in this process, with this time limit.

        Its end, the results of skipped cases, and further starts are deleted.

        Raises:
            UsageError: the run is still running.
        """
        with self._writing() as connection:
            number = rows.number_of(connection, run_id)
            owner = asdict(rows.Owner.current())
            reopened = connection.execute(
                f"UPDATE run SET status = 'running', finished = NULL, finished_wall_ns = NULL, "
                f"plan = json_set(plan, '$.max_seconds', ?), "
                f"{', '.join(f'{name} = ?' for name in owner)} WHERE number = ? AND status != 'running'",
                (max_seconds, *owner.values(), number),
            )
            if not reopened.rowcount:
                raise UsageError(f"Run {number} is still running.", "Wait for it to end, or stop it.")
            connection.execute("DELETE FROM case_result WHERE run_number = ? AND status = 'skipped'", (number,))
            connection.execute(
                "DELETE FROM measurement WHERE start > 0 AND case_result_id IN "
                "(SELECT case_result_id FROM case_result WHERE run_number = ?)", (number,),
            )  # fmt: skip

    def adopt_run(self, events: Sequence[model.Event], number: int) -> int:
        """Save a live run of this process in a new database, as far as it has come; return its number.

        `events` are as `load` returns them. The run keeps its number unless another run here has it.
        """
        started = events[0]
        assert isinstance(started, model.RunStarted)
        adopted = self.import_run(events, number)
        with self._writing() as connection:
            owner = asdict(rows.Owner.current())
            connection.execute(
                f"UPDATE run SET status = 'running', {', '.join(f'{name} = ?' for name in owner)} WHERE number = ?",
                (*owner.values(), adopted),
            )
        return adopted

    def add_devices(self, run_id: str, found: model.DevicesFound) -> None:
        """Save the devices of a run. A later call, after a restart of the agent, replaces them."""
        with self._writing() as connection:
            rows.put_devices(connection, rows.number_of(connection, run_id), found)

    def commit_cases(
        self, run_id: str, cases: Sequence[Sequence[model.Event]], beside: Sequence[model.Event] = ()
    ) -> None:
        """Save settled cases and the events outside cases since the last commit, in one transaction.

        Several, because a stopped run skips thousands at once. The events of each case are in order; the last is its
        `CaseFinished` or `CaseFailed`. An earlier result of the same case is replaced.

        Raises:
            StoreError: nothing was saved.
        """
        attempts = [rows.last_attempt(case_events) for case_events in cases]
        results = [rows.result_row(attempt) for attempt in attempts]
        with self._writing() as connection:
            number = rows.number_of(connection, run_id)
            known = self._cases_of(number, run_id)
            for chosen in (event for event in beside if isinstance(event, model.CasesChosen)):
                known.update((case.key, case) for case in chosen.cases)
            for attempt, result in zip(attempts, results, strict=True):
                rows.insert_case(connection, number, known.get(result["case_key"]), attempt, result)
            rows.insert_beside(connection, number, beside)

    def add_later(self, run_id: str, events: Sequence[model.Event]) -> None:
        """Save the half-rounds of a further start of the process, whose cases are saved already."""
        with self._writing() as connection:
            rows.insert_later(connection, rows.number_of(connection, run_id), events)

    def finish_run(self, run_id: str, finished: model.RunFinished, beside: Sequence[model.Event] = ()) -> None:
        """Save the end of a run, and the events outside cases since the last commit."""
        with self._writing() as connection:
            number = rows.number_of(connection, run_id)
            connection.execute(
                "UPDATE run SET status = ?, finished_wall_ns = ?, finished = ? WHERE number = ?",
                (finished.status, finished.wall_ns, rows.to_json(finished), number),
            )
            rows.insert_beside(connection, number, beside)
        self._cases.pop(run_id, None)

    def keep_ceilings(self, found: model.Ceilings) -> None:
        """Save the peak rates of a device. They replace earlier ones, but quick ones never replace full ones."""
        row = rows.ceilings_row(found)
        with self._writing() as connection:
            known = connection.execute(
                "SELECT ceilings FROM ceilings WHERE (hostname, torch, identity, simulated) = (?, ?, ?, ?)", row[:4]
            ).fetchone()
            if not found.quick or known is None or rows.from_json(known["ceilings"], model.Ceilings).quick:
                connection.execute("INSERT OR REPLACE INTO ceilings VALUES (?, ?, ?, ?, ?, ?)", row)

    def keep_clock(self, found: model.EventClock) -> None:
        """Save the check of a GPU's event clock with the saved peak rates of that GPU, driver and torch."""
        same = [
            each for each in self.ceilings(None, found.torch)
            if each.uuid and (each.uuid, each.driver) == (found.uuid, found.driver) and each.clock != found
        ]  # fmt: skip
        if same:
            with self._writing() as connection:
                for each in same:
                    row = rows.ceilings_row(replace(each, clock=found))
                    connection.execute("INSERT OR REPLACE INTO ceilings VALUES (?, ?, ?, ?, ?, ?)", row)

    def mark_interrupted(self) -> int:
        """Mark `running` runs whose process has ended as `interrupted`; return their number."""
        with self._writing() as connection:
            running = connection.execute(
                "SELECT number, hostname, pid, boot_id, process_started_ticks FROM run WHERE status = 'running'"
            )
            gone = [(number,) for number, *owner in running.fetchall() if rows.Owner(*owner).is_gone()]
            connection.executemany("UPDATE run SET status = 'interrupted' WHERE number = ?", gone)
        return len(gone)

    # ---------------------------------------------------------------- inside

    def _cases_of(self, number: int, run_id: str) -> dict[str, model.Case]:
        """Return key → case of a run's plan; cached, because parsing a plan of 10,000 cases takes 50 ms."""
        if run_id not in self._cases:
            text = self._connection.execute("SELECT plan FROM run WHERE number = ?", (number,)).fetchone()[0]
            self._cases[run_id] = {case.key: case for case in rows.from_json(text, model.Plan).cases}
        return self._cases[run_id]
