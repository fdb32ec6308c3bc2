"""Text that a person types, into sizes, threads and machines: the same for flags, form and config."""

from __future__ import annotations

import math
import re

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import DTYPES, MAX_SIZE, Simulation, WorkloadInfo

MAX_CASES = 10_000
"""More cases than this are a slip of the keyboard (`1:1e9:1`), not a plan."""

MAX_THREADS = 4096
"""More CPU threads than any machine has."""


class FieldError(UsageError):
    """A value a person gave cannot be used; `field` names which one, for a form."""

    def __init__(self, field: str, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.field = field
        """Name of the `PlanRequest` field."""


def parse_sizes(text: str) -> tuple[int, ...]:
    """Return the sizes that `1:10000:50` or `16,32,1e6` names, in the given order, each once.

    Raises:
        FieldError: a part is no whole number from 1 to `MAX_SIZE`, or the range is empty.
    """
    sizes: dict[int, None] = {}
    for part in (piece.strip() for piece in text.split(",")):
        bounds = [_parse_size(bound) for bound in part.split(":")]
        if len(bounds) == 1:
            sizes[bounds[0]] = None
            continue
        if len(bounds) > 3:
            raise FieldError("sizes", f"The range {part!r} has too many parts.", "Write start:stop or start:stop:step.")
        start, stop, step = (*bounds, 1)[:3]
        if stop <= start:
            raise FieldError(
                "sizes", f"The range {part!r} is empty: its stop is not above its start.", "Write start:stop:step."
            )
        if (stop - start) // step > MAX_CASES:
            raise FieldError("sizes", f"The range {part!r} has more than {MAX_CASES:,} sizes.", "Use a larger step.")
        sizes.update(dict.fromkeys(range(start, stop, step)))
    return tuple(sizes)


def _parse_size(text: str) -> int:
    """Return a whole number from 1 to `MAX_SIZE`, also when written as 1e6."""
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    try:
        number = int(text) if re.fullmatch(r"[+-]?\d{1,30}", text) else float(text)
    except ValueError:
        raise FieldError(
            "sizes", f"{shown!r} is no size.", "Sizes are whole numbers, like 16,32,64 or 1:10000:50."
        ) from None
    if not math.isfinite(number) or number != int(number):
        raise FieldError(
            "sizes", f"The size {shown!r} is not a whole number.", "Write sizes like 16,32,64 or 1:10000:50."
        )
    if number < 1:
        raise FieldError("sizes", f"The size {shown!r} is below 1.", "The smallest size is 1.")
    if number > MAX_SIZE:
        raise FieldError("sizes", f"The size {shown!r} is too large.", f"The largest size is {MAX_SIZE:,}.")
    return int(number)


def parse_threads(text: str) -> tuple[int, ...]:
    """Return thread counts; 0 stands for `all`.

    Raises:
        FieldError: a part is neither `all` nor a number from 1 to `MAX_THREADS`.
    """
    counts: dict[int, None] = {}
    for part in (piece.strip() for piece in text.split(",")):
        if part == "all":
            counts[0] = None
        elif re.fullmatch(r"\d{1,6}", part) and 1 <= int(part) <= MAX_THREADS:
            counts[int(part)] = None
        else:
            raise FieldError("threads", f"{part!r} is no number of CPU threads.", "Write all, or a number from 1 on.")
    return tuple(counts)


def parse_percent(text: str) -> float:
    """Return 0.05 for `5%`.

    Raises:
        UsageError: it is no percentage from 0 to 1000; a bare 0.05 might mean either.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text)
    if not found or float(found.group(1)) > 1000:
        raise UsageError(f"{text!r} is no percentage.", "Write the slow-down that is allowed like 5%.")
    return float(found.group(1)) / 100


SHORT_DTYPES = {
    "fp64": "float64", "double": "float64", "fp32": "float32", "float": "float32",
    "bf16": "bfloat16", "fp16": "float16", "half": "float16",
}  # fmt: skip
"""Other names of dtypes that people type."""


def check_dtype(workload: WorkloadInfo, dtype: str) -> str:
    """Return the dtype by its full name if the workload supports it; `bf16` and `half` are known too.

    Raises:
        FieldError: unknown, or not supported by this workload.
    """
    dtype = SHORT_DTYPES.get(dtype.lower(), dtype)
    if dtype not in DTYPES:
        raise FieldError("dtype", f"There is no dtype {dtype!r}.", f"There are: {', '.join(DTYPES)}.")
    if dtype not in workload.dtypes:
        raise FieldError(
            "dtype", f"Workload {workload.name!r} does not run in {dtype}.", f"It runs in {', '.join(workload.dtypes)}."
        )
    return dtype


def check_device(device: str) -> None:
    """Accept `auto`, `cpu`, `cuda`, `cuda:N`.

    Raises:
        FieldError: anything else.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", device):
        raise FieldError("devices", f"There is no device {device!r}.", "Devices are cpu, cuda and cuda:0, cuda:1, …")


def parse_simulation(text: str) -> Simulation:
    """Return the simulated machine for `default` or `noise=0.02,pace=1,…` (fields of `Simulation`).

    Raises:
        FieldError: an unknown field or a value that is no number.
    """
    values: dict[str, float | int] = {}
    for part in (piece.strip() for piece in text.split(",") if piece.strip() not in ("", "default")):
        name, _, value = part.partition("=")
        kind = Simulation.__dataclass_fields__.get(name)
        if kind is None:
            names = ", ".join(Simulation.__dataclass_fields__)
            raise FieldError("simulation", f"The simulated machine has no {name!r}.", f"It has: {names}.")
        try:
            number = values[name] = int(value) if kind.type == "int" else float(value)
        except ValueError:
            raise FieldError(
                "simulation", f"{name}={value!r} is no number.", "Write, for example, noise=0.02."
            ) from None
        if not 0 <= number < math.inf:
            raise FieldError("simulation", f"{name}={value} is not possible.", "Write a finite number from 0 on.")
    return Simulation(**values)  # type: ignore[arg-type]
