"""Times of a run's cases in earlier starts of the process, from the runs before it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from cpugpu_tui import model
from cpugpu_tui.decide.starts import MOST_EARLIER
from cpugpu_tui.decide.stats import median
from cpugpu_tui.store.row_mapping import lacked_core, median_ns

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

_FINISHED = """
    SELECT case_key FROM case_result JOIN run ON number = run_number WHERE run_id = ? AND case_result.status = 'ok'
"""

Start = dict[str, dict[str, float]]
"""Device → metric → median of the rounds of a start, ns."""


def earlier_starts(connection: sqlite3.Connection, run_id: str) -> list[model.EarlierTimed]:
    """Return the newest earlier starts of a run's finished cases, on the same machine with the same software."""
    found: dict[str, list[Start]] = {key: [] for (key,) in connection.execute(_FINISHED, (run_id,))}
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
