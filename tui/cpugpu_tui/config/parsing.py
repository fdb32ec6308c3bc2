"""Parse threads, dtypes, devices and simulated machines from text, and check what commands were given."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cpugpu_tui import model
from cpugpu_tui.errors import UsageError, did_you_mean, home_path, kind_of

MAX_THREADS = 4096
"""More CPU threads than any machine has."""


class FieldError(UsageError):
    """An invalid value. `field` tells a form where it was entered."""

    def __init__(self, field: str, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.field = field
        """Name of the `PlanRequest` field."""


def list_parts(text: str) -> list[str]:
    """Return the parts of a list; a comma at its end separates nothing."""
    return [part.strip() for part in text.strip().removesuffix(",").split(",")]


def parse_threads(text: str) -> tuple[int, ...]:
    """Return thread counts; 0 stands for `all`.

    Raises:
        FieldError: a part is neither `all` nor a whole number from 1 to `MAX_THREADS`.
    """
    counts: dict[int, None] = {}
    for part in list_parts(text):
        if part == "all":
            counts[0] = None
        elif re.fullmatch(r"\d{1,6}", part) and 1 <= int(part) <= MAX_THREADS:
            counts[int(part)] = None
        else:
            raise FieldError(
                "threads",
                f"Invalid number of CPU threads {part!r}.",
                f"Use `all`, or a number from 1 to {MAX_THREADS:,}.",
            )
    return tuple(counts)


def parse_percent(text: str) -> float:
    """Return 0.05 for `5%`.

    Raises:
        UsageError: the text is not a percentage from 0 to 1000; a bare 0.05 would be ambiguous.
    """
    found = re.fullmatch(r"\s*([+-]?\d{1,9}(?:\.\d+)?)\s*%\s*", text)
    percent = float(found.group(1)) if found else 0.0
    reason = ": it is below 0" if percent < 0 else ": it is above 1000" if percent > 1000 else ""
    if not found or reason:
        remedy = "Use 0% to 1000%." if found else "Write a number and %, for example 5%."
        raise UsageError(f"Invalid percentage {text!r}{reason}.", remedy)
    return percent / 100


BAND_NAMES = {"latency": model.LATENCY, "kernel-time": model.DEVICE}
"""Name of a time in `--band` and `--max-slowdown` → its metric."""


def parse_bands(text: str, usual: Mapping[str, float]) -> dict[str, float]:
    """Return metric → 0.005 for `kernel-time=0.5%,latency=2%`; `2%` is for all, and what is missing is as in `usual`.

    Raises:
        UsageError: a name is unknown, or a part is not a percentage.
    """
    bands = dict(usual)
    for part in list_parts(text):
        name, equals, percent = part.rpartition("=")
        if not percent.strip():
            raise UsageError(f"Invalid band {text!r}: a percentage is missing.", "Write for example latency=2%.")
        if not equals:
            bands = dict.fromkeys(bands, parse_percent(percent))
        elif name.strip() in BAND_NAMES:
            bands[BAND_NAMES[name.strip()]] = parse_percent(percent)
        else:
            raise UsageError(f"Unknown time {name.strip()!r}.", did_you_mean(name.strip(), BAND_NAMES))
    return bands


DTYPE_ALIASES = {
    "fp64": "float64", "f64": "float64", "double": "float64",
    "fp32": "float32", "f32": "float32", "float": "float32", "single": "float32",
    "bf16": "bfloat16", "fp16": "float16", "f16": "float16", "half": "float16",
}  # fmt: skip
"""Other names of dtypes, accepted wherever a dtype is entered."""


def full_dtype(name: str) -> str:
    """Return the full name of a dtype, which may be an alias in any case; another name unchanged."""
    name = name.removesuffix(",")
    folded = name.lower().removeprefix("torch.")
    return DTYPE_ALIASES.get(folded, folded if folded in model.DTYPES else name)


def check_dtype(workload: model.WorkloadInfo, dtype: str) -> str:
    """Return the full name of a dtype, which may be an alias like `bf16` or `half`.

    Raises:
        FieldError: the dtype is unknown, there are several, or this workload does not support it.
    """
    several, (dtype, *others) = dtype, map(full_dtype, list_parts(dtype))
    for each in (dtype, *others):
        if each not in model.DTYPES:
            raise FieldError("dtype", f"Unknown dtype {each!r}.", did_you_mean(each, model.DTYPES))
    if others:
        raise FieldError(
            "dtype", f"Cannot run several dtypes at once: {several!r}.", "Give one, and run once for each."
        )
    if dtype not in workload.dtypes:
        raise FieldError(
            "dtype",
            f"Workload {workload.name!r} does not support {dtype}.",
            f"Use one of: {', '.join(workload.dtypes)}.",
        )
    return dtype


def check_device(device: str) -> None:
    """Accept `auto`, `cpu`, `cuda`, `cuda:N`.

    Raises:
        FieldError: anything else.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", device):
        raise FieldError("devices", f"Unknown device {device!r}.", "Use auto, cpu, cuda, or one GPU like cuda:0.")


def check_worker(worker: str) -> None:
    """Accept `process` and `thread`.

    Raises:
        UsageError: anything else.
    """
    if worker not in ("process", "thread"):
        raise UsageError(f"Invalid worker {worker!r}.", "Use process or thread.")


def check_seconds(seconds: float, field: str = "case_timeout_s") -> None:
    """Accept a time limit in seconds.

    Raises:
        FieldError: it is not above 0, or longer than 30 years.
    """
    if not 0 < seconds < 1e9:
        raise FieldError(field, f"Invalid time: {seconds:g} s.", "Use a number of seconds above 0.")


USUAL_SETTINGS = ("seed", "noise", "pace", "gpus")
"""Fields of `Simulation` that an error proposes, out of about fifty."""

ALL_SETTINGS = "`Simulation` in `cpugpu-tui export --schema`"
"""Where all of them are described."""


def parse_simulation(text: str) -> model.Simulation:
    """Return the simulated machine for `default` or for fields of `Simulation` like `noise=0.02,pace=1`.

    Raises:
        FieldError: a field is unknown, or a value is not a finite number from 0 up.
    """
    from cpugpu_tui.model.simulation import EVENT_CLOCKS

    values: dict[str, float | int | str] = {}
    for part in (piece.strip() for piece in text.split(",") if piece.strip() not in ("", "default")):
        name, _, value = part.partition("=")
        kind = model.Simulation.__dataclass_fields__.get(name)
        if kind is None:
            known = ("default", *model.Simulation.__dataclass_fields__)
            usual = f"Use {', '.join(USUAL_SETTINGS)}, or see {ALL_SETTINGS}."
            message = f"Unknown setting {name!r} of the simulated machine."
            raise FieldError("simulation", message, did_you_mean(name, known, usual))
        if kind.type == "str":
            if value not in EVENT_CLOCKS:
                message = f"Invalid value {value!r} for {name}."
                raise FieldError("simulation", message, did_you_mean(value, EVENT_CLOCKS))
            values[name] = value
            continue
        try:
            number = values[name] = int(value) if kind.type == "int" else float(value)
        except ValueError:
            raise FieldError(
                "simulation",
                f"Invalid value {value!r} for {name}.",
                "Write a whole number, for example gpus=2."
                if kind.type == "int"
                else "Write a number, for example noise=0.02.",
            ) from None
        if not 0 <= number < math.inf:
            raise FieldError("simulation", f"Invalid value {value!r} for {name}.", "Write a finite number from 0 up.")
    return model.Simulation(**values)  # type: ignore[arg-type]


# ------------------------------------------------------------------ what commands were given


def refuse_same_file(values: Mapping[str, object]) -> None:
    """Refuse two options, by option → value, with the same file: what one of them writes, the other would replace.

    Raises:
        UsageError: they have.
    """
    named: dict[str, str] = {}
    for option, value in values.items():
        for path in value if isinstance(value, (list, tuple)) else (value,):
            kind = kind_of(home_path(path)) if isinstance(path, Path) else "no path"
            if kind in ("", "a file"):
                place = os.path.abspath(home_path(path))
                other = named.setdefault(os.path.realpath(place) if kind else place, option)
                if other != option:
                    raise UsageError(f"{other} and {option} name the same file, {path}.", "Give each its own file.")


def check_variables(variables: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Check the values of options that come from variables, by option → variable and option → value.

    Raises:
        UsageError: a value is wrong. The message begins with the name of the variable, which may be set long ago.
    """
    for option in variables:
        try:
            check(option, values[option])
        except UsageError as error:
            raise UsageError(f"{variables[option]}: {error.message}", error.remedy) from None


def check(option: str, value: Any) -> None:
    """Check a value (UsageError). Errors of other options show a path, or are made where the variable is read."""
    checks: dict[str, Callable[[Any], object]] = {
        "band": lambda text: parse_bands(text, {}), "case_timeout": _check_seconds,
        "device": _check_devices, "simulate": parse_simulation, "worker": check_worker,
    }  # fmt: skip
    if option in checks:
        checks[option](value)


def _check_seconds(value: str | float) -> None:
    try:
        check_seconds(float(value))
    except ValueError:
        raise UsageError(f"{value!r} is not a number.", "Give seconds, for example 60.") from None


def _check_devices(devices: Sequence[str]) -> None:
    for device in devices:
        check_device(device)
