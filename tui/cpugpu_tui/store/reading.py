"""What is read of saved runs: lists, whole runs, times without their samples, durations and peak rates."""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from cpugpu_tui import model
from cpugpu_tui.config.paths import with_database
from cpugpu_tui.decide.starts import MOST_EARLIER
from cpugpu_tui.decide.stats import median
from cpugpu_tui.errors import NoSuchRunError, UsageError
from cpugpu_tui.store.connection import Connected
from cpugpu_tui.store.filtering import CASES, SUMMARIES, RunSummary, how_to_name, parse_filter, without_results
from cpugpu_tui.store.rows import case_events, from_json, lacked_core, median_ns, number_of

LATEST = "latest"
"""Name of the newest run in every command."""

LAST = 2**63 - 1
"""Above every run number."""

_EXACT = "SELECT number, run_id FROM run WHERE number = :number OR run_id = :id ORDER BY number DESC"

_BEGINNING = "SELECT number, run_id FROM run WHERE run_id >= :id AND run_id < :end ORDER BY number DESC"

_TAGGED = " AND number IN (SELECT run_number FROM tag WHERE tag = ?)"

_RUN = """
    SELECT run.*, machine.facts AS machine_facts, environment.facts AS environment_facts
    FROM run LEFT JOIN machine USING (machine_id) LEFT JOIN environment USING (environment_id)
    WHERE run_id = ?
"""

RoundTimes = dict[str, dict[str, dict[int, dict[int, float]]]]
"""`Case.key` → device → start of the process → round → median latency, ns."""

_LATENCIES = """
    SELECT result.case_key, measurement.device, measurement.start, measurement.round_index, measurement.marks,
        measurement.samples
    FROM case_result AS result JOIN measurement USING (case_result_id)
    WHERE result.run_number = ? AND result.status = 'ok' AND measurement.metric = ? AND measurement.round_index > 0
"""

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


@dataclass(frozen=True)
class FinishedCases:
    """The finished cases of a run."""

    run_id: str
    number: int
    has_gpu: bool
    """Whether its devices include a GPU."""
    case_keys: tuple[str, ...]
    """`Case.key` of each."""


MOST_TAGS_ASKED = 100
"""Tags that SQL checks; SQLite refuses a condition of over 1,000 parts. The others are checked here."""


class Reading(Connected):
    """The part of `Store` that only reads."""

    # ---------------------------------------------------------------- runs

    def runs(
        self, limit: int | None = None, before: int | None = None, text: str = "", tags: Sequence[str] = ()
    ) -> list[RunSummary]:
        """Return runs, newest first; with `before` only those with a lower number.

        A run has all the `tags` and matches `text`, a filter such as `gpu:h200 dtype:bf16 n>1000`.

        Raises:
            UsageError: the filter is invalid.
        """
        matches, wanted = parse_filter(text), list(dict.fromkeys(tags))
        asked, left = wanted[:MOST_TAGS_ASKED], wanted[MOST_TAGS_ASKED:]
        # Half of the time goes to the cases. They are read only of runs that match apart from them.
        apart = without_results(text)
        is_likely = parse_filter(apart)
        with self._reading() as connection:
            which = "number < ?" + _TAGGED * len(asked)
            select = SUMMARIES.format(which=which, cases="NULL" if apart else CASES.format(number="run.number"))
            runs: Iterator[RunSummary] = map(
                RunSummary.of_row, connection.execute(select, (LAST if before is None else before, *asked))
            )
            if apart:
                cases = f"SELECT {CASES.format(number='?')}"
                runs = (run.with_cases(*connection.execute(cases, (run.number,)).fetchone())
                        for run in runs if is_likely(run))  # fmt: skip
            found = (run for run in runs if matches(run) and set(left).issubset(run.tags))
            return list(islice(found, None if limit is None else min(limit, LAST)))

    def summary(self, run_id: str) -> RunSummary:
        """Return the current summary of a run.

        Raises:
            StoreError: the run is not in the database.
        """
        with self._reading() as connection:
            number = number_of(connection, run_id)
            select = SUMMARIES.format(which="run.number = ?", cases=CASES.format(number="run.number"))
            row = connection.execute(select, (number,)).fetchone()
            return RunSummary.of_row(row)

    def count(self) -> int:
        """Return the number of runs."""
        with self._reading() as connection:
            return int(connection.execute("SELECT count(*) FROM run").fetchone()[0])

    def find(self, text: str) -> str:
        """Return the id of a run from its number, `latest`, or a unique prefix of its id.

        Up to 7 digits are a number: after run 1 was deleted, `rm 1` deleted the run whose id begins with 1.

        Raises:
            UsageError: no run or several runs match, or the history is empty.
        """
        with self._reading() as connection:
            newest = connection.execute("SELECT run_id FROM run ORDER BY number DESC LIMIT 1").fetchone()
            if newest is None:
                raise UsageError(
                    "The history is empty.", f"Start a run with `{with_database('cpugpu-tui run quick')}`."
                )
            if text == LATEST:
                return str(newest["run_id"])
            # Both use an index: reading every number and id took longer, the more runs there are.
            is_number = text.isdecimal() and len(text) < len(str(LAST)) and text == str(int(text))
            known = {"number": int(text) if is_number else None, "id": text, "end": f"{text}\U0010ffff"}
            matches = connection.execute(_EXACT, known).fetchall()
            if text and not matches and not (is_number and len(text) < 8):
                matches = connection.execute(_BEGINNING, known).fetchall()
        if len(matches) == 1:
            return str(matches[0]["run_id"])
        if not matches:
            raise NoSuchRunError(f"No run matches {text!r}.", how_to_name(text))
        named = ", ".join(f"{row['run_id']} (run {row['number']})" for row in matches[:5])
        more = f" and {len(matches) - 5} more" if len(matches) > 5 else ""
        raise UsageError(
            f"{text!r} matches several runs: {named}{more}.", "Use a number, or more characters of the id."
        )

    def load(self, run_id: str) -> list[model.Event]:
        """Return the events of a run, except `Gap`, `Progressed` and `Hello`.

        The order is `RunStarted` with the run's number, `DevicesFound`, cases and telemetry by `seq` and then wall
        time, and `RunFinished` if the run has ended. The events of one case always keep their order.

        Raises:
            UsageError: the run does not exist.
        """
        with self._reading() as connection:
            run = connection.execute(_RUN, (run_id,)).fetchone()
            if run is None:
                raise UsageError(f"No run has the id {run_id!r}.", how_to_name(run_id))
            events: list[model.Event] = [_run_started(run)]
            if run["devices_found"]:
                events.append(from_json(run["devices_found"], model.DevicesFound))
            events += heapq.merge(*_streams(connection, run["number"]), key=lambda event: (event.seq, event.wall_ns))
            if run["finished"]:
                events.append(from_json(run["finished"], model.RunFinished))
            return events

    # ---------------------------------------------------------------- their times

    def round_times(self, runs: Iterable[int]) -> dict[int, RoundTimes]:
        """Return the latencies of these runs, by number."""
        with self._reading() as connection:
            return {number: _round_times(connection, number) for number in runs}

    def earlier_starts(self, run_id: str) -> list[model.EarlierTimed]:
        """Return the times of a run's finished cases in earlier starts of the same work on the same machine."""
        with self._reading() as connection:
            return earlier_starts(connection, run_id)

    def ceilings(self, hostname: str | None = None, torch: str | None = None) -> tuple[model.Ceilings, ...]:
        """Return saved peak rates, newest first: those of one host and torch build, or all."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT ceilings FROM ceilings WHERE hostname = ifnull(?, hostname) AND torch = ifnull(?, torch) "
                "ORDER BY measured_wall_ns DESC", (hostname, torch),
            )  # fmt: skip
            return tuple(from_json(row["ceilings"], model.Ceilings) for row in found)

    def finished_cases(
        self, workloads: Collection[str], hostname: str, *, simulated: bool, limit: int
    ) -> list[FinishedCases]:
        """Return the finished cases of these workloads on one host, newest run first, for up to `limit` runs."""
        select = _FINISHED.format(marks=", ".join("?" * len(workloads)))
        with self._reading() as connection:
            return [
                FinishedCases(row["run_id"], row["number"], bool(row["has_gpu"]), tuple(row["case_keys"].split("\n")))
                for row in connection.execute(select, (hostname, simulated, *workloads, limit))
            ]

    def timed_runs(self, hostname: str, *, simulated: bool, limit: int) -> list[TimedRun]:
        """Return up to `limit` runs of one host that are done or stopped, newest first."""
        runs: list[TimedRun] = []
        with self._reading() as connection:
            for row in connection.execute(_RUNS, (hostname, simulated, limit)):
                ended_ns = row["finished_wall_ns"] if row["status"] == "done" else None
                duration_ns = None if ended_ns is None else max(0, ended_ns - row["wall_ns"])
                calls = connection.execute(_CALLS, (row["number"],))
                call_ns = {(key, device): (label or "", call) for key, device, call, label in calls}
                runs.append(TimedRun(row["number"], row["wall_ns"], duration_ns, row["plan"], call_ns))
                if sum(len(run.call_ns) for run in runs) > MOST_CALLS:
                    break
        return runs


def _round_times(connection: sqlite3.Connection, number: int) -> RoundTimes:
    """Return the latencies of a run's finished cases, without devices whose threads lacked a core."""
    found: RoundTimes = {}
    starved: set[tuple[str, str]] = set()
    for key, device, start, index, marks, samples in connection.execute(_LATENCIES, (number, model.LATENCY)):
        if lacked_core(marks):
            starved.add((key, device))
        if (ns := median_ns(samples)) is not None:
            found.setdefault(key, {}).setdefault(device, {}).setdefault(start, {})[index] = ns
    return {
        key: {device: starts for device, starts in devices.items() if (key, device) not in starved}
        for key, devices in found.items()
    }


def _run_started(run: sqlite3.Row) -> model.RunStarted:
    facts: dict[str, Any] = {}
    for part in ("machine_facts", "environment_facts", "environment"):
        facts |= json.loads(run[part] or "{}")
    return model.RunStarted(
        seq=run["seq"], wall_ns=run["wall_ns"], mono_ns=run["mono_ns"], run_id=run["run_id"],
        series_id=run["series_id"], plan=from_json(run["plan"], model.Plan), environment=facts, number=run["number"],
    )  # fmt: skip


def _streams(connection: sqlite3.Connection, number: int) -> Iterator[list[model.Event]]:
    """Yield the events of each case, in the order in which the cases were committed, then those outside cases."""
    calibrations, measurements = (_details(connection, table, number) for table in ("calibration", "measurement"))
    for row in connection.execute("SELECT * FROM case_result WHERE run_number = ? ORDER BY case_result_id", (number,)):
        key = row["case_result_id"]
        yield case_events(row, calibrations[key], measurements[key])
    beside = connection.execute("SELECT name, event FROM run_event WHERE run_number = ? ORDER BY rowid", (number,))
    yield [from_json(row["event"], model.EVENTS[row["name"]]) for row in beside]


def _details(connection: sqlite3.Connection, table: str, number: int) -> defaultdict[int, list[sqlite3.Row]]:
    """Return a run's rows of a table by case, in order of position and insertion."""
    found = connection.execute(
        f"SELECT {table}.* FROM {table} JOIN case_result USING (case_result_id) "
        f"WHERE run_number = ? ORDER BY position, {table}.rowid",
        (number,),
    )
    by_case: defaultdict[int, list[sqlite3.Row]] = defaultdict(list)
    for row in found:
        by_case[row["case_result_id"]].append(row)
    return by_case


MOST_RUNS = 500
"""Runs before it that are looked at."""

MOST_HALF_ROUNDS = 50_000
"""No older run is read for earlier starts after this many half-rounds, which take half a second."""

_ALIKE = """
    SELECT theirs.number, theirs.plan, mine.plan FROM run AS mine
    JOIN run AS theirs USING (machine_id, environment_id, simulated)
    WHERE mine.run_id = ? AND theirs.number < mine.number AND theirs.number >= mine.number - ?
        AND json_extract(theirs.environment, '$.worker') IS json_extract(mine.environment, '$.worker')
        AND NOT EXISTS (
            SELECT 1 FROM run_device AS own LEFT JOIN run_device AS other
                ON other.run_number = theirs.number AND other.device_id = own.device_id
            WHERE own.run_number = mine.number AND other.device_id IS NULL)
    ORDER BY theirs.number DESC
"""
"""Earlier runs on the same devices, with the same software and settings of the machine."""

_STARTS = """
    SELECT result.case_key, measurement.device, measurement.start, measurement.metric, measurement.marks,
        measurement.samples
    FROM case_result AS result JOIN measurement USING (case_result_id)
    WHERE result.run_number = ? AND result.status = 'ok' AND measurement.round_index > 0
        AND measurement.metric IN (?, ?, ?, ?)
"""

METRICS = (model.LATENCY, model.PAGEABLE, model.PINNED, model.DEVICE)
"""Those that are compared between devices."""

SAME_WORK = ("codes", "own_files", "cache", "flush_denormals", "scale", "mnist", "seed", "parallel")
"""Fields of a plan that decide what a case is, besides its key. Of `simulation` all but the seeds do."""

_FINISHED_KEYS = """
    SELECT case_key FROM case_result JOIN run ON number = run_number WHERE run_id = ? AND case_result.status = 'ok'
"""

Start = dict[str, dict[str, float]]
"""Device → metric → median of the rounds of a start, ns."""


def earlier_starts(connection: sqlite3.Connection, run_id: str) -> list[model.EarlierTimed]:
    """Return the newest earlier starts of a run's finished cases, on the same machine with the same software."""
    found: dict[str, list[Start]] = {key: [] for (key,) in connection.execute(_FINISHED_KEYS, (run_id,))}
    read = 0
    for number, theirs, mine in connection.execute(_ALIKE, (run_id, MOST_RUNS)).fetchall():
        if read > MOST_HALF_ROUNDS or all(len(starts) >= MOST_EARLIER for starts in found.values()):
            break
        if _work(theirs) == _work(mine):
            rows = [row for row in connection.execute(_STARTS, (number, *METRICS)) if row[0] in found]
            read += len(rows)
            for key, starts in _starts(rows).items():
                found[key] += starts
    return [
        model.EarlierTimed(case=key, device=device, starts=tuple(each.get(device, {}) for each in starts))
        for key, newest_first in found.items()
        for starts in [newest_first[:MOST_EARLIER][::-1]]
        for device in sorted({device for each in starts for device in each})
    ]


def _work(plan: str) -> list[Any]:
    """Return what decides, besides a case's key, whether two runs timed the same work."""
    found = json.loads(plan)
    simulation = {**(found.get("simulation") or {}), "seed": 0, "drift_seed": 0, "start": 0}
    return [simulation, *(found.get(name) for name in SAME_WORK)]


def _starts(rows: Iterable[Sequence[Any]]) -> dict[str, list[Start]]:
    """Return case key → for each start, the newest first: device → metric → median of its rounds, ns."""
    rounds: dict[tuple[str, int, str, str], list[float]] = {}
    starved = set[tuple[str, int]]()
    for key, device, start, metric, marks, samples in rows:
        if lacked_core(marks):
            starved.add((key, start))
        elif (ns := median_ns(samples)) is not None:
            rounds.setdefault((key, start, device, metric), []).append(ns)
    cases: dict[str, dict[int, Start]] = {}
    for (key, start, device, metric), values in rounds.items():
        if (key, start) not in starved:
            cases.setdefault(key, {}).setdefault(start, {}).setdefault(device, {})[metric] = median(values)
    return {key: [found for _, found in sorted(starts.items(), reverse=True)] for key, starts in cases.items()}
