"""Manage saved runs: series, baselines, tags, deletion and import."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import Literal, cast

from cpugpu_tui import model
from cpugpu_tui.errors import UsageError
from cpugpu_tui.store import rows
from cpugpu_tui.store.connection import explained
from cpugpu_tui.store.filtering import how_to_name
from cpugpu_tui.store.reading import Reading


class SavedRuns(Reading):
    """The part of `Store` that a live run does not need."""

    # ---------------------------------------------------------------- series and baselines

    def series_of(self, run_id: str) -> str:
        """Return the id of a run's series.

        Raises:
            UsageError: the run does not exist.
        """
        return str(self._of_run(run_id, "series_id"))

    def plan_of(self, run_id: str) -> model.Plan:
        """Return the plan of a run.

        Raises:
            UsageError: the run does not exist.
        """
        return rows.from_json(self._of_run(run_id, "plan"), model.Plan)

    def code_plans(self, limit: int) -> list[model.Plan]:
        """Return the plans with typed code among the newest `limit` runs, newest first."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT plan FROM (SELECT number, plan FROM run ORDER BY number DESC LIMIT ?) "
                """WHERE plan LIKE '%"codes":[{%' ORDER BY number DESC""",
                (limit,),
            )
            return [rows.from_json(row["plan"], model.Plan) for row in found]

    def _of_run(self, run_id: str, column: Literal["series_id", "plan"]) -> str:
        """Return a column of a run; raise UsageError if the run does not exist."""
        with self._reading() as connection:
            found = connection.execute(f"SELECT {column} FROM run WHERE run_id = ?", (run_id,)).fetchone()
        if found is None:
            raise UsageError(f"No run has the id {run_id!r}.", how_to_name(run_id))
        return cast(str, found[column])

    def runs_of(self, series_id: str) -> list[str]:
        """Return the ids of a series' ended runs with at least one finished case, oldest first."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT run_id FROM run WHERE series_id = ? AND status != 'running' AND EXISTS "
                "(SELECT 1 FROM case_result WHERE run_number = run.number AND case_result.status = 'ok') "
                "ORDER BY wall_ns, number",
                (series_id,),
            )
            return [str(row["run_id"]) for row in found]

    def other_side(self, run_id: str) -> str | None:
        """Return the id of the run that was timed in turn with this one, in the same pair of agents; None without."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT other.run_id FROM run JOIN run AS other ON other.run_id != run.run_id AND "
                f"json_extract(other.environment, '$.{model.DUET}') = json_extract(run.environment, '$.{model.DUET}') "
                "WHERE run.run_id = ?",
                (run_id,),
            ).fetchone()
            return None if found is None else str(found["run_id"])

    def set_baseline(self, name: str, series_id: str) -> list[int]:
        """Name a series as a baseline; another series loses this name. Return the numbers of its runs.

        Raises:
            UsageError: the series does not exist.
        """
        with self._writing() as connection:
            if not connection.execute("SELECT 1 FROM series WHERE series_id = ?", (series_id,)).fetchone():
                raise UsageError(f"No series has the id {series_id!r}.", how_to_name(series_id))
            old = connection.execute(
                "SELECT number FROM run JOIN baseline USING (series_id) "
                "WHERE baseline.name = ? AND series_id != ? ORDER BY number",
                (name, series_id),
            ).fetchall()
            connection.execute("INSERT OR REPLACE INTO baseline VALUES (?, ?, ?)", (name, series_id, time.time_ns()))
            return [row["number"] for row in old]

    def delete_baseline(self, name: str) -> None:
        """Delete a baseline; its runs stay."""
        with self._writing() as connection:
            connection.execute("DELETE FROM baseline WHERE name = ?", (name,))

    def baseline_for(self, plan_name: str) -> tuple[str, str] | None:
        """Return name and series of the newest baseline of a preset or workload, else of the newest one at all."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT baseline.name, series_id FROM baseline JOIN series USING (series_id) "
                "ORDER BY series.name = ? DESC, baseline.wall_ns DESC LIMIT 1", (plan_name,),
            ).fetchone()  # fmt: skip
            return None if found is None else (str(found[0]), str(found[1]))

    def baselines(self) -> dict[str, str]:
        """Return the baselines as name → id of the series, sorted by name."""
        with self._reading() as connection:
            found = connection.execute("SELECT name, series_id FROM baseline ORDER BY name")
            return {str(row["name"]): str(row["series_id"]) for row in found}

    # ---------------------------------------------------------------- tags, deletion

    def tag(self, run_id: str, add: Iterable[str] = (), remove: Iterable[str] = ()) -> tuple[str, ...]:
        """Remove and add tags of a run; return its tags in alphabetical order."""
        with self._writing() as connection:
            number = rows.number_of(connection, run_id)
            connection.executemany("DELETE FROM tag WHERE run_number = ? AND tag = ?", [(number, t) for t in remove])
            connection.executemany("INSERT OR IGNORE INTO tag VALUES (?, ?)", [(number, tag) for tag in add])
            found = connection.execute("SELECT tag FROM tag WHERE run_number = ? ORDER BY tag", (number,))
            return tuple(str(row["tag"]) for row in found)

    def delete(self, *run_ids: str, force: bool = False) -> None:
        """Delete runs with their results, and baselines that have no run left: all of them or, on an error, none.

        `force` also deletes runs with status `running`, because a process on another host cannot be checked.
        """
        with self._writing() as connection:
            for run_id in run_ids:
                number = rows.number_of(connection, run_id)
                status = connection.execute("SELECT status FROM run WHERE number = ?", (number,)).fetchone()["status"]
                if status == "running" and not force:
                    raise UsageError(f"Run {number} is still running.", "Stop it first, or delete it with --force.")
                connection.execute("DELETE FROM run WHERE number = ?", (number,))
            _forget_unused(connection)

    def shrink(self) -> None:
        """Free the disk space of deleted runs. Needs as much free space as the file has afterwards."""
        with self._lock, explained(self.path):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # ---------------------------------------------------------------- runs from elsewhere

    def import_run(self, events: Sequence[model.Event], number: int | None = None) -> int:
        """Save a run from its events, as `Store.load` returns them; return its number. A known run stays unchanged.

        The run gets `number` unless another run has it. Without an end its status is `interrupted`. Events of unsettled
        cases are left out.

        Raises:
            UsageError: the first event is not `RunStarted`.
        """
        started = events[0] if events else None
        if not isinstance(started, model.RunStarted):
            raise UsageError("The first event of a run must be RunStarted.", "Export the run again.")
        ended = next((event for event in events if isinstance(event, model.RunFinished)), None)
        with self._writing() as connection:
            known = connection.execute("SELECT number FROM run WHERE run_id = ?", (started.run_id,)).fetchone()
            if known is not None:
                return int(known["number"])
            owner = rows.Owner(str(started.environment.get("hostname") or ""), 0, "", 0)
            taken = connection.execute("SELECT 1 FROM run WHERE number = ?", (number,)).fetchone()
            status = ended.status if ended else "interrupted"
            number = rows.insert_run(connection, started, status, owner, None if taken else number)
            _insert_stream(connection, number, started, events)
            if ended is not None:
                connection.execute(
                    "UPDATE run SET finished_wall_ns = ?, finished = ? WHERE number = ?",
                    (ended.wall_ns, rows.to_json(ended), number),
                )
        return number


def _insert_stream(
    connection: sqlite3.Connection, number: int, started: model.RunStarted, events: Sequence[model.Event]
) -> None:
    cases: dict[str, model.Case] = {case.key: case for case in started.plan.cases}
    open_cases: dict[str, list[model.Event]] = {}
    insert_last = [event for event in events if rows.is_later(event)]
    # Stored elsewhere, or not at all.
    not_kept = (model.RunStarted, model.RunFinished, model.Hello, model.Gap, model.Progressed)
    for event in events:
        if rows.is_later(event):
            continue
        if isinstance(event, model.CaseStarted | model.Calibrated | model.DeviceSampled):
            open_cases.setdefault(event.case, []).append(event)
        elif isinstance(event, model.CaseFinished | model.CaseFailed):
            attempt = rows.last_attempt([*open_cases.pop(event.case, []), event])
            rows.insert_case(connection, number, cases.get(event.case), attempt, rows.result_row(attempt))
        elif isinstance(event, model.DevicesFound):
            rows.put_devices(connection, number, event)
        elif not isinstance(event, not_kept):
            if isinstance(event, model.CasesChosen):
                cases.update((case.key, case) for case in event.cases)
            rows.insert_beside(connection, number, [event])
    rows.insert_later(connection, number, insert_last)


def _forget_unused(connection: sqlite3.Connection) -> None:
    """Delete rows that only deleted runs referred to."""
    for statement in (
        "DELETE FROM baseline WHERE series_id NOT IN (SELECT series_id FROM run)",
        "DELETE FROM series WHERE series_id NOT IN (SELECT series_id FROM run)",
        "DELETE FROM device WHERE device_id NOT IN (SELECT device_id FROM run_device)",
        "DELETE FROM machine WHERE machine_id NOT IN (SELECT machine_id FROM run WHERE machine_id IS NOT NULL) "
        "AND machine_id NOT IN (SELECT machine_id FROM device)",
        "DELETE FROM environment WHERE environment_id NOT IN "
        "(SELECT environment_id FROM run WHERE environment_id IS NOT NULL)",
    ):
        connection.execute(statement)
