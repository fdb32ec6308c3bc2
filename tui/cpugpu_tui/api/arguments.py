"""Checks the arguments of the Python functions: each becomes a value of its type, or one error that names it.

Callers pass what their program has: numbers of numpy, tensors of one element, `torch.device`. What works as such a
number or name is taken as one. Nothing else reaches the parts behind, whose errors would not name the argument.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from cpugpu_tui.api.subject import Subject, article, subject_of
from cpugpu_tui.config.installing import packages_of
from cpugpu_tui.config.parsing import MAX_THREADS, parse_simulation
from cpugpu_tui.config.sizes import MAX_CASES
from cpugpu_tui.errors import UnfitError, UsageError
from cpugpu_tui.model import MAX_SIZE
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.request import MOST_STARTS, PlanRequest, usual_starts
from cpugpu_tui.workloads.python_text import LONGEST_QUOTE


class Rows:
    """A result with `rows`, each a dataclass."""

    rows: tuple[Any, ...]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as plain dictionaries."""
        return [asdict(row) for row in self.rows]

    def frame(self) -> Any:
        """Return the rows as a DataFrame.

        Raises:
            UnfitError: pandas is not installed.
        """
        try:
            import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError as error:
            raise UnfitError(
                "A DataFrame needs the package pandas, which is not installed.",
                f"Use records(), or install it with: {sys.executable} -m pip install pandas",
            ) from error
        return pandas.DataFrame(self.records())


def axes_for(axes: Any) -> Any:
    """Return these axes of matplotlib; new ones for None.

    Raises:
        UsageError: these are not axes of matplotlib.
        UnfitError: matplotlib is not installed.
    """
    with packages_of("plot", "The plot needs"):
        from matplotlib import pyplot
        from matplotlib.axes import Axes
    if axes is None:
        return pyplot.subplots(layout="constrained")[1]
    if not isinstance(axes, Axes):
        raise wrong("axes", axes, "Use axes of matplotlib, or None for new ones.")
    return axes


MOST_ROUNDS = 1000
"""Largest number of rounds."""

_SHOWN = (bool, int, float, complex, str, bytes, type(None))
"""Types whose values an error repeats; of others it names the type."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call, checked."""

    subject: Subject
    sizes: str
    """As `--n` takes them."""
    request: PlanRequest
    """The same with all that says how to time."""
    save: bool


def checked(
    what: object, n: object, *, setup: object, let: object, inputs: Any, dtype: object, threads: object,
    device: object, in_place: object, rounds: object, starts: object,
    max_seconds: object, simulate: object, save: object,
    called: tuple[str, str, str] = ("what", "n", "setup"),
) -> Arguments:  # fmt: skip
    """Return the arguments of a call; `called` are the names of the first three, which functions call differently.

    Raises:
        UsageError: one of them has a wrong type or value; it is named.
    """
    simulate = simulate if simulate is not None else os.environ.get("CPUGPU_SIMULATE") or None
    machine = None if simulate is None else parse_simulation(_text("simulate", simulate, "Use text such as 'default'."))
    if let is not None and not isinstance(let, Mapping):
        raise wrong("let", let, "Use a dictionary of names and values, for example let={'k': 3}.")
    for name in let or ():
        _text("name in let", name, "Use a Python name, for example let={'k': 3}.")
    if inputs is not None and not callable(inputs):
        raise wrong("inputs", inputs, "Use a function of the size that returns the arguments.")
    if not isinstance(what, str) and not callable(what):
        raise wrong(called[0], what, "Use an expression, 'file.py:function' or a function.")
    code = _text(called[2], setup, "Use lines of Python as one text.")
    subject = subject_of(what, code, let or {}, inputs, in_place=_flag("in_place", in_place))
    asked = None if starts is None else _whole("starts", starts, MOST_STARTS)
    if subject.own is not None and (asked or 1) > 1:
        raise UsageError(f"Invalid starts {asked}: a function of this process runs in it, which is one start.",
                         "Leave starts out, or time code as text or as 'file.py:function'.")  # fmt: skip
    sizes = _sizes(called[1], n)
    request = PlanRequest(
        names=(subject.code.name,), sizes=sizes, own=OwnWorkloads(codes=(subject.code,)), simulation=machine,
        dtype=None if dtype is None else _name("dtype", dtype, "Use 'float64' or torch.float64."),
        threads=None if threads is None else _threads(threads),
        devices=_devices(device), rounds=None if rounds is None else _whole("rounds", rounds, MOST_ROUNDS),
        starts=asked or (usual_starts(os.environ) if subject.own is None else 1),
        max_seconds=None if max_seconds is None else _seconds("max_seconds", max_seconds),
    )  # fmt: skip
    return Arguments(subject, sizes, request, _flag("save", save))


def wrong(name: str, value: object, remedy: str) -> UsageError:
    """Return the error that an argument has a wrong type or value."""
    text = ""
    if isinstance(value, _SHOWN):
        try:
            text = f" {value!r}"
        except ValueError:  # an integer of more than 4,300 digits has no text
            text = " (a very large integer)"
    if not text or len(text) > LONGEST_QUOTE:
        return UsageError(f"Invalid {name}: it is {article(type(value).__name__)}.", remedy)
    return UsageError(f"Invalid {name}{text}.", remedy)


def _text(name: str, value: object, remedy: str) -> str:
    if not isinstance(value, str):
        raise wrong(name, value, remedy)
    return str(value)


def _name(name: str, value: object, remedy: str) -> str:
    """Return a text, or the name of something of torch's: `float64` is a `torch.dtype`."""
    if type(value).__module__ == "torch" and type(value).__name__ in ("dtype", "device"):
        return str(value)
    return _text(name, value, remedy)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):  # numpy's
        raise wrong(name, value, "Use True or False.")
    return bool(value)


def _number(name: str, value: Any, remedy: str) -> int | float:
    """Return a whole number or a float. Tensors and arrays of one element are numbers, too; texts and bools are not."""
    is_number = hasattr(type(value), "__float__") or hasattr(type(value), "__index__")  # float() also reads bytes
    if is_number and not isinstance(value, bool) and type(value).__name__ != "bool_":
        for convert in (operator.index, float):
            try:
                found: int | float = convert(value)
            except Exception:  # noqa: BLE001 - whatever a foreign type raises, it is no such number
                continue
            return found
        if isinstance(value, int):
            return value  # too large for a float
    raise wrong(name, value, remedy)


def _whole(name: str, value: object, most: int, remedy: str = "") -> int:
    remedy = remedy or f"Use a whole number from 1 to {most:,}."
    number = _number(name, value, remedy)
    if not 1 <= number <= most or number != int(number):
        raise wrong(name, value, remedy)
    return int(number)


def _seconds(name: str, value: object) -> float:
    remedy = "Use a number of seconds above 0."
    number = _number(name, value, remedy)
    if not 0 < number < 1e9:
        raise wrong(name, value, remedy)
    return float(number)


def _threads(value: object) -> str:
    return value if isinstance(value, str) else str(_whole("threads", value, MAX_THREADS))


def _devices(value: object) -> tuple[str, ...]:
    remedy = "Use 'auto', 'cpu', 'cuda' or 'cuda:0', or a list of them."
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(_name("device", each, remedy) for each in value) or ("auto",)
    return ("auto",) if value is None else (_name("device", value, remedy),)


def _sizes(name: str, n: object) -> str:
    """Return sizes as `--n` takes them."""
    if isinstance(n, str):
        return n.strip()
    if isinstance(n, Iterable) and not isinstance(n, (bytes, bytearray, Mapping)):
        try:
            found = list(islice(n, MAX_CASES + 1))
        except Exception:  # noqa: BLE001 - a tensor without dimensions says that it is iterable, and raises
            return str(_whole(name, n, MAX_SIZE))
        if not 0 < len(found) <= MAX_CASES:
            reason = f"it names more than {MAX_CASES:,} sizes" if found else "it names no size"
            raise UsageError(f"Invalid {name}: {reason}.", SIZES)
        return ", ".join(each.strip() if isinstance(each, str) else str(_whole(name, each, MAX_SIZE)) for each in found)
    return str(_whole(name, n, MAX_SIZE))


SIZES = "Use a size such as 512, a list of them, or text such as '16:4096'."


# ------------------------------------------------------------------ saved runs


def run_name(name: object) -> str:
    """Return the name of a saved run.

    Raises:
        UsageError: it is neither text nor a number of a run.
    """
    remedy = "Use the number of a run, the first characters of its id, or 'latest'."
    return name if isinstance(name, str) else str(_whole("name", name, MAX_SIZE, remedy))


def database_path(database: object) -> Path | None:
    """Return the path of a history; None for the usual one.

    Raises:
        UsageError: it is not a path.
    """
    if database is None or isinstance(database, Path):
        return database
    path = os.fspath(database) if isinstance(database, (str, os.PathLike)) else None
    if not path or not isinstance(path, str):
        raise wrong("database", database, "Use the path of a file.")
    return Path(path)
