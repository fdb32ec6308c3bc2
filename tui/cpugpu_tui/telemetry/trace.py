"""The format of a trace: telemetry samples as lines of JSON. Pure functions between lines and events.

The first line is the `Header`; each further line is one sample. A GPU's readings are an array in the order of the
header's `gpu_keys`: with names in every line, 8 s at 5 Hz of one GPU would take 90 kB instead of 35. A reading is a
number, a reason (text), null if the sample lacks it, or `[number or reason, age in seconds, 1 if the driver stamped
it]` if it is older than 0.5 ms. Files are untrusted and checked by type.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeVar

import msgspec

from cpugpu_tui.config.validation import convert
from cpugpu_tui.errors import UsageError
from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import GpuProcess, GpuTelemetry, MigInstance, Reading, TelemetryRead

SCHEMA = 1
"""Version of the format; other versions are rejected."""
MAX_LINE_BYTES = 1_000_000
"""Longest line: 16 GPUs with a hundred processes each take 100 kB."""
_MAX_NUMBER = 2**63
_KIND = "cpugpu-tui telemetry"

T = TypeVar("T")
Whole = Annotated[int, msgspec.Meta(ge=0, le=_MAX_NUMBER - 1)]


@dataclass(frozen=True)
class Header:
    """The first line: what was recorded, and when."""

    source: Annotated[str, msgspec.Meta(pattern="^(live|fake|simulated)$")]
    """Source of the readings: a real driver, a fake library in its place, or a simulated machine."""
    recorded: str
    """Date and time of the first sample, ISO 8601 with the offset from UTC."""
    interval_s: Annotated[float, msgspec.Meta(ge=-_MAX_NUMBER, le=_MAX_NUMBER)]
    """Requested interval between samples."""
    gpus: tuple[str, ...] | None = ()
    """Names, by NVML's index; None if the driver was silent when the recording began."""
    driver: str | None = None
    """Version of the NVIDIA driver, None without one."""
    nvml: str | None = None
    """Version of NVML."""
    torch: str | None = None
    """Version of torch, if torch made the load."""
    gpu_keys: tuple[str, ...] = KEYS
    """Names of a GPU's readings, in the order of the arrays."""

    @property
    def tag(self) -> str:
        """Word that marks every output of a replay: `REPLAY`, `REPLAY FAKE`."""
        return "REPLAY" if self.source == "live" else f"REPLAY {self.source.upper()}"

    @property
    def summary(self) -> str:
        """GPUs, driver and time of the recording, in one line."""
        versions = [f"driver {self.driver}"] if self.driver else []
        names = [f"{count} {name}" if count > 1 else name for name, count in Counter(self.gpus or ()).items()]
        nothing = "no GPU" if self.gpus is not None else "the driver listed no GPU"
        return ", ".join([*(names or [nothing]), *versions, f"recorded {self.recorded[:16].replace('T', ' ')}"])


class TraceError(UsageError):
    """A file is not a trace that this version can read."""

    title = "Cannot replay"


class _Wrong(ValueError):
    """Error in one line, as the end of a sentence."""


# ------------------------------------------------------------------ to lines


def header_line(header: Header) -> str:
    """Return the first line of a trace, with its line break."""
    return _line({"trace": _KIND, "schema": SCHEMA, **asdict(header)})


def sample_line(read: TelemetryRead, gpu_keys: Sequence[str] = KEYS) -> str:
    """Return one sample as a line; ages are kept to a millisecond, fractions to four digits.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    data: dict[str, Any] = {
        "wall_ns": read.wall_ns,
        "mono_ns": read.mono_ns,
        "host": {key: _cell(reading) for key, reading in read.host.items()},
        "gpus": [_gpu_data(gpu, gpu_keys) for gpu in read.gpus],
    }
    # A gap in `seq` is a sample that was dropped; older traces have no `seq`.
    seq = {"seq": read.seq} if read.seq else {}
    problem = {"problem": read.problem} if read.problem else {}
    return _line(seq | data | problem | ({"is_silent": True} if read.is_silent else {}))


def _line(data: dict[str, Any]) -> str:
    # ASCII: names may hold lone surrogates, which have no UTF-8 form.
    return json.dumps(data, allow_nan=False, separators=(",", ":")) + "\n"


def _gpu_data(gpu: GpuTelemetry, keys: Sequence[str]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, "pci": gpu.pci_bus_id,
        "readings": [_cell(gpu.readings.get(key)) for key in keys], "throttle": list(gpu.throttle),
        "processes": _processes_data(gpu.processes),
    }  # fmt: skip
    data |= _use_data(gpu.processes)
    optional = {"problem": gpu.problem, "persistence": gpu.persistence}
    data |= {key: value for key, value in optional.items() if value is not None}
    if gpu.instances:
        data["instances"] = [
            {
                "index": instance.index, "uuid": instance.uuid, "name": instance.name,
                "readings": {key: _cell(reading) for key, reading in instance.readings.items()},
                "processes": _processes_data(instance.processes), **_use_data(instance.processes),
            }
            for instance in gpu.instances
        ]  # fmt: skip
    return data


def _processes_data(processes: Sequence[GpuProcess] | None) -> list[list[Any]] | None:
    if processes is None:
        return None
    return [[each.pid, each.memory_bytes, each.user, each.command, int(each.own)] for each in processes]


def _use_data(processes: Sequence[GpuProcess] | None) -> dict[str, Any]:
    """Return `use`: pid → its readings. Version 0.1 reads traces with it, but not longer arrays of processes."""
    use = {each.pid: {key: _cell(found) for key, found in each.readings.items()} for each in processes or ()}
    return {"use": {pid: readings for pid, readings in use.items() if readings}} if any(use.values()) else {}


def _cell(reading: Reading | None) -> Any:
    """Return the shortest form of a reading."""
    if reading is None:
        return None
    what = _short(reading.value, 4) if reading.value is not None else reading.reason or "unknown"
    age_s = _short(reading.age_s, 3)
    if not age_s and not reading.is_stamped:
        return what
    return [what, age_s, 1] if reading.is_stamped else [what, age_s]


def _short(number: float, digits: int) -> float | int:
    """Round a number to the digits that sensors have; whole numbers stay exact."""
    rounded = float(number) if float(number).is_integer() else round(float(number), digits)
    return int(rounded) if rounded.is_integer() else rounded


# ------------------------------------------------------------------ from lines


def parse(lines: Iterable[str], name: str) -> tuple[Header, Iterator[TelemetryRead]]:
    """Return a trace's header and an iterator over its samples. `name` is the file's, for messages.

    Raises:
        TraceError: the header is invalid; or, during iteration, a sample is.
    """
    rest = iter(lines)
    first = next(rest, None)
    if first is None:
        raise TraceError(f"{name} is empty.", "Record a trace with `cpugpu-tui telemetry --record FILE`.")
    header = parse_header(first, name)
    return header, _samples(rest, header, name)


def _samples(lines: Iterator[str], header: Header, name: str) -> Iterator[TelemetryRead]:
    number = 1
    for number, line in enumerate(lines, 2):
        yield parse_sample(line, header, name, number)
    if number == 1:
        raise TraceError(f"{name} contains no samples.", "Record it again for at least one interval.")


def parse_header(line: str, name: str) -> Header:
    """Return the header from the first line.

    Raises:
        TraceError: the line does not begin a trace that this version can read.
    """
    try:
        data = _object(line)
    except _Wrong:
        data = {}
    if data.get("trace") != _KIND:
        raise TraceError(
            f"{name} is not a telemetry trace.", "Name a file that `cpugpu-tui telemetry --record FILE` wrote."
        )
    if data.get("schema") != SCHEMA:
        raise TraceError(
            f"{name} has trace schema {_shown(data.get('schema'))}, but this version reads {SCHEMA}.",
            "Replay it with the cpugpu-tui that recorded it, or record it again.",
        )
    try:
        return _checked(data, Header)
    except _Wrong as wrong:
        raise _damaged(name, 1, wrong) from None


def parse_sample(line: str, header: Header, name: str, number: int) -> TelemetryRead:
    """Return the sample on line `number`; keys of `KEYS` that the trace lacks have the reason `not-asked`.

    Raises:
        TraceError: the line is incomplete, not JSON, or not a sample.
    """
    if not line.endswith("\n"):
        raise TraceError(f"{name} ends in the middle of line {number}.", f"Remove line {number} to replay the rest.")
    try:
        found = _checked(_object(line), _Sweep)
        return TelemetryRead(
            gpus=tuple(each.as_event(header.gpu_keys) for each in found.gpus),
            host=_readings(found.host),
            problem=found.problem, is_silent=found.is_silent, seq=found.seq, wall_ns=found.wall_ns,
            mono_ns=found.mono_ns,
        )  # fmt: skip
    except _Wrong as wrong:
        raise _damaged(name, number, wrong) from None


def _damaged(name: str, number: int, wrong: _Wrong) -> TraceError:
    return TraceError(
        f"{name} is damaged: line {number} {wrong}.",
        "Record it again. A line other than the first can also be removed.",
    )


def _object(line: str) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise _Wrong(f"is longer than {MAX_LINE_BYTES} characters")
    try:
        # Not msgspec: names may contain lone surrogates.
        data = json.loads(line, parse_constant=_no_constant)
    except _Wrong:
        raise
    except (ValueError, RecursionError):  # RecursionError: a hundred thousand brackets
        raise _Wrong("is not JSON") from None
    if not isinstance(data, dict):
        raise _Wrong("is not a JSON object")
    return data


def _no_constant(word: str) -> float:
    raise _Wrong(f"contains {word}, which JSON does not allow")


def _checked(data: dict[str, Any], kind: type[T]) -> T:
    try:
        return convert(_printable(data), kind)
    except (msgspec.ValidationError, OverflowError) as error:
        raise _Wrong(f"does not fit: {printable(str(error))}") from None


def _printable(value: Any, limit: int = 200) -> Any:
    """Return JSON data with all text safe to print on a terminal."""
    if isinstance(value, str):
        return printable(value, limit)
    if isinstance(value, list):
        return [_printable(each) for each in value]
    if isinstance(value, dict):
        return {printable(key): _printable(each, 2000 if key == "problem" else 200) for key, each in value.items()}
    return value


# ------------------------------------------------------------------ structure of a line

_Process = tuple[Whole, Whole | None, str | None, str | None, Whole]
_Use = dict[str, dict[str, Any]]


class _Instance(msgspec.Struct):
    index: Whole
    readings: dict[str, Any]
    uuid: str | None = None
    name: str | None = None
    processes: list[_Process] | None = None
    use: _Use = {}

    def as_event(self) -> MigInstance:
        readings = _readings(self.readings)
        return MigInstance(self.index, self.uuid, self.name or "", readings, _processes(self.processes, self.use))


class _Gpu(msgspec.Struct):
    index: Whole
    readings: list[Any]
    throttle: tuple[str, ...]
    uuid: str | None = None
    name: str | None = None
    pci: str | None = None
    processes: list[_Process] | None = None
    use: _Use = {}
    problem: str | None = None
    instances: list[_Instance] = []
    persistence: bool | None = None

    def as_event(self, keys: Sequence[str]) -> GpuTelemetry:
        if len(self.readings) != len(keys):
            raise _Wrong(f"has {len(self.readings)} readings instead of {len(keys)}")
        cells = zip(keys, self.readings, strict=True)
        found = {key: _reading(cell, key) for key, cell in cells if cell is not None}
        # Panes need every key; older recordings have fewer.
        readings = {key: found.get(key) or Reading(None, "not-asked") for key in dict.fromkeys([*KEYS, *found])}
        return GpuTelemetry(
            self.index, self.uuid, self.name or "", self.pci, readings, self.throttle,
            _processes(self.processes, self.use), self.problem,
            tuple(each.as_event() for each in self.instances), self.persistence,
        )  # fmt: skip


class _Sweep(msgspec.Struct):
    wall_ns: Whole
    mono_ns: Whole
    host: dict[str, Any]
    gpus: list[_Gpu]
    seq: Whole = 0
    problem: str | None = None
    is_silent: bool = False


def _processes(found: list[_Process] | None, use: _Use) -> tuple[GpuProcess, ...] | None:
    if found is None:
        return None
    return tuple(
        GpuProcess(*each[:4], own=bool(each[4]), readings=_readings(use.get(str(each[0]), {}))) for each in found
    )


def _readings(cells: dict[str, Any]) -> dict[str, Reading]:
    return {key: _reading(cell, key) for key, cell in cells.items() if cell is not None}


def _reading(cell: Any, key: str) -> Reading:
    what, age_s, is_stamped = cell, 0.0, False
    if isinstance(cell, list):
        if len(cell) not in (2, 3):
            raise _Wrong(f"has a {key} of {len(cell)} parts")
        what, age_s, is_stamped = cell[0], _number(cell[1], f"age of {key}"), cell[2:] == [1]
    if isinstance(what, str):
        return Reading(None, what, age_s, is_stamped)
    return Reading(_number(what, key), None, age_s, is_stamped)


def _number(value: Any, what: str) -> float:
    """Return a finite number; true, text and 1e999 are rejected."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not abs(value) <= _MAX_NUMBER:  # this form rejects NaN too
        raise _Wrong(f"has {_shown(value)} as {what}")
    return float(value)


def _shown(value: Any) -> str:
    """Return a short form of a value, for messages."""
    return printable(str(value)[:60], 30) if value is not None else "none"
