"""What is listed of a saved run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any


@dataclass(frozen=True)
class RunSummary:
    """One run of the history."""

    number: int
    """Number of the run; never reused."""
    run_id: str
    series_id: str
    name: str
    """Preset or workload that was run."""
    status: str
    """`running`, `done`, `stopped`, `failed`, or `interrupted` if its process died before the end."""
    started_wall_ns: int
    duration_ns: int | None
    """None while it runs, or if it was interrupted."""
    hostname: str
    """Host that saved the run."""
    cases_ok: int
    cases_failed: int
    cases_skipped: int
    devices: tuple[str, ...]
    """Labels, in the order of timing."""
    simulated: bool
    """Whether a simulated machine made the numbers."""
    tags: tuple[str, ...] = ()
    """Tags, in alphabetical order."""
    baselines: tuple[str, ...] = ()
    """Names of its series as a baseline."""
    fleet_host: str | None = None
    """Host of the fleet that it ran on, as named in the inventory; None outside a fleet."""
    machine: str = ""
    """Host that it ran on."""
    gpus: tuple[str, ...] = ()
    """Labels of its GPUs."""
    dtypes: tuple[str, ...] = ()
    """Element types of its settled cases."""
    sizes: tuple[int, ...] = ()
    """Sizes of its settled cases, smallest first."""

    @property
    def cpus(self) -> tuple[str, ...]:
        """Labels of its CPUs."""
        return tuple(label for label in self.devices if label not in self.gpus)

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> RunSummary:
        """Return the summary in a row of `_SELECT`."""
        # By place, because looking up 16 columns by name took a third of the time of a list.
        (number, run_id, series_id, name, status, simulated, wall_ns, finished_wall_ns, hostname, machine, fleet_host,
         counts, case_keys, found, tags, baselines) = row  # fmt: skip
        cases_ok, cases_skipped, cases = map(int, counts.split())
        devices, gpus = _devices(found)
        dtypes, sizes = _shapes(case_keys) if case_keys else ((), ())
        return cls(
            number=number, run_id=run_id, series_id=series_id, name=name, status=status, started_wall_ns=wall_ns,
            duration_ns=None if finished_wall_ns is None else max(0, finished_wall_ns - wall_ns), hostname=hostname,
            cases_ok=cases_ok, cases_failed=cases - cases_ok - cases_skipped, cases_skipped=cases_skipped,
            devices=devices, simulated=bool(simulated), tags=tuple(tags.split("\n")) if tags else (),
            baselines=tuple(baselines.split("\n")) if baselines else (), fleet_host=fleet_host,
            machine=machine or hostname, gpus=gpus, dtypes=dtypes, sizes=sizes,
        )  # fmt: skip


def shape_of(case_key: str) -> tuple[str, int] | None:
    """Return dtype and size in the key of a case; None in a key that another program wrote."""
    parts = case_key.rsplit("/", 3)
    is_shape = len(parts) == 4 and parts[1].isdecimal() and len(parts[1]) <= 18
    return (parts[2], int(parts[1])) if is_shape else None


@lru_cache(maxsize=256)
def _shapes(case_keys: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the dtypes and the sizes in the keys of cases; runs that were repeated share them."""
    known = list(filter(None, map(shape_of, case_keys.split("\n"))))
    return tuple(dict.fromkeys(dtype for dtype, _ in known)), tuple(sorted({size for _, size in known}))


@lru_cache(maxsize=256)
def _devices(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels of all devices and of the GPUs in the JSON of a row."""
    devices = json.loads(text)
    return tuple(label for _, label in devices), tuple(label for name, label in devices if name != "cpu")
