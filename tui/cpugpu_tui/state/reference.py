"""A reference: what a GPU server took for the work of a survey, in one file that others set their CPU beside."""

from __future__ import annotations

import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from importlib import resources
from pathlib import Path

import msgspec

from cpugpu_tui import model
from cpugpu_tui.config.paths import create_private_folder, data_dir, read_at_most
from cpugpu_tui.errors import UsageError, home_path
from cpugpu_tui.machine.text import printable
from cpugpu_tui.state.device_times import ROUND_METRICS
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState

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
    def sweep(self) -> tuple[str, str, str]:
        """What it has in common with its other sizes."""
        return self.workload, self.variant, self.dtype


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

    @property
    def text(self) -> str:
        """What was recorded, in brief: `H200, 16-core Xeon, torch 2.11`."""
        name = re.sub(r"\((?:R|TM)\)|\b(?:Intel|AMD|CPU|Processor|\d+-Core)\b|@.*", "", self.host).split()
        version = ".".join(re.findall(r"\d+", self.torch)[:2])
        gpu = re.sub(r"^NVIDIA | \d+ ?GB\b.*", "", self.gpu)  # `NVIDIA H100 80GB HBM3`
        parts = [gpu, f"{self.cores}-core {name[0] if name else 'CPU'}"]
        return ", ".join([*parts, *([f"torch {version}"] if version else [])])


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
        starts=len(states), simulated=first.simulated, ceilings=_nameless(ceilings),
        readings={name: readings[name] for name in READINGS if name in readings},
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


# ------------------------------------------------------------------ reading

MOST_BYTES = 1_000_000
"""Largest unpacked size: a small file may unpack to one that fills the memory."""

MOST_STARTS, MOST_ROUNDS, LONGEST_NS = 20, 100, 1e15

LONGEST_NAME = 80

_NAME = re.compile(r"[a-z0-9-]{1,40}")
"""Names of workloads, variants and dtypes."""

FOLDER = "references"
"""Folder of the shipped files beside this one, and of those that a person gave, in the data folder."""

OFFERED = "h100"
"""The shipped reference that is offered to a person without a GPU."""

_REMEDY = "Give a file that `cpugpu-tui reference make` wrote."


class Found(msgspec.Struct, frozen=True):
    """A reference with the hash of its file."""

    reference: Reference
    sha256: str


def shipped() -> dict[str, bytes]:
    """Return the references in the package: name → file."""
    folder = resources.files("cpugpu_tui.state").joinpath(FOLDER)
    files = sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else []
    return {file.name.partition(".")[0]: file.read_bytes() for file in files if file.name.endswith(".json.gz")}


def find(name: str) -> Found:
    """Return the reference of this name in the package, or in the file at this path. It is kept for runs that name it.

    Raises:
        UsageError: there is none, or the file is not a reference, is damaged, too large or of another version.
    """
    known, path = shipped(), Path(home_path(name))
    try:
        data = known.get(name.lower()) or read_at_most(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        choices = f"Use {', '.join(known)}, or give" if known else "Give"
        remedy = f"{choices} the path of a file that `cpugpu-tui reference make` wrote."
        raise UsageError(f"Unknown reference {name!r}: {reason}.", remedy) from None
    found = Found(read(data, printable(name, LONGEST_NAME)), sha256(data).hexdigest())
    _keep(found.sha256, data)
    return found


def find_for(name: str, *, is_simulated: bool) -> Found:
    """Return the reference of this name for a machine that is simulated or not.

    Raises:
        UsageError: see `find`; or measured times would stand beside those of a simulated GPU.
    """
    found = find(name)
    if found.reference.simulated and not is_simulated:
        remedy = "Choose a measured reference, or add --simulate."
        raise UsageError(f"Cannot set measured times beside the simulated GPU of {name}.", remedy)
    return found


def _keep(digest: str, data: bytes) -> None:
    """Keep a file under its hash, by which a saved run names it. Without a writable folder it is not found again."""
    with suppress(OSError):
        create_private_folder(data_dir() / FOLDER)
        (data_dir() / FOLDER / f"{digest}.json.gz").write_bytes(data)


@lru_cache(maxsize=8)
def by_hash(digest: str) -> Reference | None:
    """Return the reference whose file has this hash; None if it is not here any more."""
    for name, data in shipped().items():
        if sha256(data).hexdigest() == digest:
            return read(data, name)
    if not re.fullmatch("[0-9a-f]{64}", digest):
        return None
    with suppress(OSError, UsageError):
        data = read_at_most(data_dir() / FOLDER / f"{digest}.json.gz", MOST_BYTES)
        return read(data, digest) if sha256(data).hexdigest() == digest else None
    return None


def read(data: bytes, name: str) -> Reference:
    """Return the reference in these bytes; `name` is that of its file, for errors. Its text is made printable.

    Raises:
        UsageError: they are no reference, damaged, too large, of another version, or hold an impossible value.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            plain = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        raise UsageError(f"{name} is not a reference, or it is damaged.", _REMEDY) from None
    if len(data) > MOST_BYTES or len(plain) > MOST_BYTES:
        raise UsageError(f"{name} is larger than {MOST_BYTES // 10**6} MB.", _REMEDY)
    try:
        found = msgspec.json.decode(plain, type=Reference)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{name} is not a reference: {printable(str(error))}.", _REMEDY) from None
    if found.kind != KIND:
        raise UsageError(f"{name} is not a reference.", _REMEDY)
    if found.schema != SCHEMA:
        remedy = "Update cpugpu-tui." if found.schema > SCHEMA else "Make the file again."
        raise UsageError(f"{name} has schema {found.schema}, but this version reads {SCHEMA}.", remedy)
    if wrong := next(_wrong(found), ""):
        raise UsageError(f"{name} has an impossible {wrong}.", _REMEDY)
    texts = {key: printable(getattr(found, key), LONGEST_NAME) for key in ("gpu", "host", "torch", "driver", "made_by")}
    peaks = found.ceilings
    peaks = None if peaks is None else replace(_nameless(peaks) or peaks, label=texts["gpu"], torch="", driver=None)
    return msgspec.structs.replace(found, **texts, ceilings=peaks)


def _wrong(found: Reference) -> Iterator[str]:
    """Yield the names of values that no machine can have."""
    if not printable(found.gpu).strip():
        yield "name of a GPU"
    if not {*found.readings} <= {*READINGS}:
        yield "name of a reading"
    if not 0 < found.cores < 1e5:
        yield "number of cores"
    if not 0 < found.starts <= MOST_STARTS:
        yield "number of starts"
    if not all(0 <= value < math.inf for value in found.readings.values()):
        yield "reading"
    if (peaks := found.ceilings) is not None:
        lines = peaks.transfers.values()
        costs = (*(line.alpha_ns for line in lines), peaks.synchronize_ns or 0.0, peaks.round_trip_ns or 0.0)
        rates = (*peaks.flops.values(), *(line.bytes_per_s for line in lines), peaks.copy_bytes_per_s)
        # A fit may find no fixed cost.
        if not all(0 < each < math.inf for each in (*rates, peaks.launch_ns)) or not all(
            0 <= each < math.inf for each in costs
        ):
            yield "peak rate"
    keys = [(*each.sweep, each.size) for each in found.cases]
    if len(set(keys)) < len(keys):
        yield "list of cases: one is in it twice"
    for each in found.cases:
        if not all(_NAME.fullmatch(name) for name in each.sweep):  # they are shown where work is refused
            yield "name of work"
        if not 0 < each.size <= model.MAX_SIZE:
            yield "size"
        if not 0 < len(each.starts) <= MOST_STARTS or not all(start.get(model.LATENCY) for start in each.starts):
            yield "number of starts"
        for start in each.starts:
            if not {*start} <= {*METRICS} or any(len(rounds) > MOST_ROUNDS for rounds in start.values()):
                yield "number of rounds"
            if not all(0 < ns < LONGEST_NS for rounds in start.values() for ns in rounds):
                yield "time"
