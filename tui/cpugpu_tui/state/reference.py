"""A reference: what a GPU server took for the work of a survey, in one file that others set their CPU beside."""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from cpugpu_tui import model
from cpugpu_tui.machine.text import printable
from cpugpu_tui.state.device_times import ROUND_METRICS
from cpugpu_tui.state.state import Row, RunState

KIND = "cpugpu-tui reference"
SCHEMA = 1

METRICS = (model.LATENCY, *ROUND_METRICS)
"""What a reference holds of each case: latency, copies, kernel time."""

READINGS = (
    "power_limit_mw", "sm_clock_max_mhz", "memory_clock_max_mhz", "memory_total_bytes",
    "pcie_generation", "pcie_width", "pcie_max_generation", "pcie_max_width",
)  # fmt: skip
"""Readings of the GPU that it holds, as telemetry names them."""

DIGITS = 4
"""Significant digits of its times; rounds differ by more than 1 %."""

Start = dict[str, list[float]]
"""Metric → time of each round in one start of the process, ns."""


class RecordedCase(msgspec.Struct, frozen=True, array_like=True):
    """A case in each start of the process that timed it."""

    workload: str
    variant: str
    size: int
    dtype: str
    starts: tuple[Start, ...]
    marks: tuple[str, ...] = ()

    @property
    def case(self) -> model.Case:
        """The case itself."""
        return model.Case(self.workload, self.size, self.dtype, variant=self.variant)


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A machine and its times."""

    kind: str = KIND
    schema: int = SCHEMA
    gpu: str
    """Model of the GPU."""
    host: str
    """Model of the CPU, which launches the work and copies."""
    cores: int
    torch: str
    driver: str
    made_by: str
    """Version of this program, and the commit of its source if known."""
    made_wall_ns: int
    starts: int
    """Starts of the process in which the cases were timed."""
    simulated: bool = False
    ceilings: model.Ceilings | None = None
    """Peak rates and overheads of the GPU; None if they were not measured."""
    readings: dict[str, float] = {}
    cases: tuple[RecordedCase, ...] = ()


def recorded(states: Sequence[RunState], ceilings: model.Ceilings | None, readings: Mapping[str, float],
             made_by: str) -> Reference:  # fmt: skip
    """Return the reference of runs on one GPU, a start of the process each. The first one has timed every case."""
    first = states[0]
    assert first.run is not None
    assert first.gpu is not None
    facts = first.facts
    text = {name: printable(str(facts.get(name) or "")) for name in ("cpu", "torch", "driver")}
    return Reference(
        gpu=printable(first.gpu.label), host=text["cpu"], cores=int(facts.get("physical_cores") or 0),
        torch=text["torch"], driver=text["driver"], made_by=made_by, made_wall_ns=first.run.wall_ns,
        starts=len(states), simulated=first.simulated, ceilings=_nameless(ceilings), readings=dict(readings),
        cases=tuple(_case(key, states) for key, row in first.rows.items() if _start(row)),
    )  # fmt: skip


def _nameless(found: model.Ceilings | None) -> model.Ceilings | None:
    """Return peak rates without what identifies one machine."""
    return None if found is None else replace(found, hostname="", uuid=None, clock=None)


def _case(key: str, states: Sequence[RunState]) -> RecordedCase:
    rows = [state.rows[key] for state in states if key in state.rows]
    case, marks = rows[0].case, dict.fromkeys(mark for row in rows for mark in row.marks)
    starts = tuple(start for row in rows if (start := _start(row)))
    return RecordedCase(case.workload, case.variant, case.size, case.dtype, starts, tuple(marks))


def _start(row: Row) -> Start:
    """Return the rounds of a row's GPU; empty if it has no result."""
    if row.status != "ok" or row.gpu is None or row.gpu.is_starved:
        return {}
    rounds = {model.LATENCY: row.gpu.round_ns, **row.gpu.other_round_ns}
    return {
        metric: [float(f"{ns:.{DIGITS}g}") for _, ns in sorted(rounds[metric].items())]
        for metric in METRICS if rounds.get(metric)
    }  # fmt: skip


def packed(reference: Reference) -> bytes:
    """Return the file of a reference. Its header says what it is, so that it may be written again."""
    file = io.BytesIO()
    with gzip.GzipFile(KIND, "wb", fileobj=file, mtime=0) as packer:
        packer.write(msgspec.json.encode(reference))
    return file.getvalue()
