"""Which cases a run finished, without their samples."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

SELECT = """
    SELECT run.run_id, run.number,
        EXISTS (SELECT 1 FROM json_each(run.devices_found, '$.devices') AS device
            WHERE json_extract(device.value, '$.name') <> 'cpu') AS has_gpu,
        group_concat(result.case_key, char(10)) AS case_keys
    FROM run JOIN case_result AS result ON result.run_number = run.number
    WHERE run.hostname = ? AND run.simulated = ? AND result.status = 'ok'
        AND substr(result.case_key, 1, instr(result.case_key, '/') - 1) IN ({marks})
    GROUP BY run.number ORDER BY run.number DESC LIMIT ?
"""
"""The rows that `FinishedCases.of_row` takes, newest first; `marks` is one question mark for each workload."""


@dataclass(frozen=True)
class FinishedCases:
    """What one run finished of some workloads."""

    run_id: str
    number: int
    has_gpu: bool
    """Whether a GPU was among its devices."""
    case_keys: tuple[str, ...]
    """`Case.key` of each."""

    @classmethod
    def of_row(cls, row: sqlite3.Row) -> FinishedCases:
        """Return what a row of `SELECT` holds."""
        return cls(row["run_id"], row["number"], bool(row["has_gpu"]), tuple(row["case_keys"].split("\n")))
