"""Read a file that `cpugpu-tui thresholds make` wrote, and choose the faster device by it.

This one file is all that a program needs. It imports nothing but the standard library, so it may be copied into another
project. Python 3.10 or later.

    thresholds = load("thresholds.json")
    device = thresholds.choose("matmul", n=300, dtype="float32", resident=False) or "cpu"
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
import sys
from bisect import bisect_left
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

__all__ = ["Threshold", "Thresholds", "ThresholdsError", "load"]

FORMAT = "cpugpu-tui thresholds"
"""Name of the format in the file."""

VERSION = 2
"""Increased when readers of the previous version could choose wrongly; additions do not change it."""

CPU, GPU = "cpu", "cuda"
"""The devices, as torch names them."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,=-]{0,59}")
"""Names of operations, variants and dtypes. They become C identifiers and variables, and never a path."""

SIMULATE = "CPUGPU_SIMULATE"
"""Variable that must be set to use a file that was made with `--simulate`, for example in tests."""

MOST_BYTES = 1_000_000
"""Larger files are not of this format."""

MOST = 2**63 - 1
"""Largest size, that of C's `long long`."""

UNUSABLE = (TypeError, ValueError, RuntimeError)
"""What comparing or printing an argument of a wrong type raises."""

Part = tuple[str, int, int]
"""Device, smallest and largest size at which it is faster, or at most 10 % slower."""

Span = tuple[int, int]
"""Smallest and largest size."""


class ThresholdsError(ValueError):
    """The file is missing, damaged, or of another version. The message is one sentence and a remedy."""


class Threshold(NamedTuple):
    """Which device is faster at which sizes, for one operation in one form."""

    operation: str
    variant: str
    dtype: str
    threads: int
    """CPU threads; 0 for all."""
    resident: bool
    """Whether the inputs are on the GPU already. Otherwise the time of the copies is included."""
    best: bool
    """Whether this is the fastest measured variant of the operation, which answers if no variant is named."""
    axis: str
    """Meaning of the size n, such as `n of two n×n matrices`."""
    timed: tuple[int, ...]
    """Sizes that were timed on both devices, in rising order."""
    faster: tuple[Part, ...]
    """Where a device costs at most 10 % more than the other at the timed sizes, which are at most 2.5× apart."""
    equal: tuple[Span, ...]
    """Where either device does. In all other sizes the file names no device."""
    compared: tuple[tuple[Any, ...], ...] = ()
    """What was found at each of `timed` by itself, so that sizes can be added and all judged together: speedup, both
    ends of its interval, rounds, verdict, starts and degrees of freedom. Empty in files that only name devices."""

    @property
    def answered(self) -> tuple[Part, ...]:
        """The parts of both kinds in order of size; the device is empty where either will do."""
        return tuple(sorted((*self.faster, *(("", *span) for span in self.equal)), key=lambda part: part[1]))

    def why(self, n: int) -> str:
        """Return what the file says about a size, without the end of the sentence."""
        for device, first, last in self.answered:
            if first <= n <= last:
                name = {CPU: "The CPU is faster or", GPU: "The GPU is faster or"}.get(device, "Either device")
                where = f"from {first:,} to {last:,}" if first < last else f"at {n:,}"
                return f"{name} costs at most 10 % more {where}"
        if not self.timed[0] <= n <= self.timed[-1]:
            return f"{n:,} is outside the measured range, {self.timed[0]:,} to {self.timed[-1]:,}"
        place = bisect_left(self.timed, n)
        if self.timed[place] == n:
            return f"{n:,} was timed, but the wrong device may cost more than 10 % there"
        low, high = self.timed[place - 1], self.timed[place]
        if high > 2.5 * low:
            return f"{n:,} lies between {low:,} and {high:,}: no size was timed between these two, over 2.5× apart"
        return f"{n:,} lies between {low:,} and {high:,}: the winner changes there, or was not decided"


class Thresholds:
    """The content of a file."""

    def __init__(self, document: Any, here: Mapping[str, Any]) -> None:
        """Check a document. `here` holds the facts of the machine that are compared with those of the document.

        Raises:
            ThresholdsError: the document is not valid.
        """
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ThresholdsError("It is not a file of thresholds.")
        version = document.get("version")
        if type(version) is not int or version != VERSION:  # 1.0 and true are equal to 1
            raise ThresholdsError(f"It has version {_shown(version)}; this program reads {VERSION}.")
        try:
            self.machine = dict(document["machine"])
            """Facts of the machine that was measured."""
            self.made = _shown(document["made"])
            """Date and time in UTC, as ISO 8601."""
            self.entries = tuple(map(_entry, document["thresholds"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ThresholdsError(f"It is damaged ({type(error).__name__}: {_shown(error)}).") from None
        if not self.entries:
            raise ThresholdsError("It has no thresholds.")
        self.differences = differences(self.machine, here)
        """Why it must not be used on this machine, a sentence each. If there are any, `choose` returns None."""
        table: dict[tuple[Any, ...], Threshold] = {}
        for each in self.entries:
            for variant in (each.variant, None) if each.best else (each.variant,):
                key = (each.operation, each.dtype, each.resident, variant, each.threads)
                if table.setdefault(key, each) is not each:
                    raise ThresholdsError(f"It is damaged ({each.operation} occurs twice).")
        self._table = {} if self.differences else table

    def choose(
        self, operation: str, n: int, dtype: Any = "float32", resident: bool = True, variant: str | None = None,
        threads: int = 0,
    ) -> str | None:  # fmt: skip
        """Return the device for size `n`, `cpu` or `cuda`, or None if the file does not tell; see `why`.

        `dtype` is a name or torch's own dtype. `variant` None is the fastest one; `threads` 0 is all.

        Raises:
            ThresholdsError: an argument has a wrong type.
        """
        try:
            found = self._table.get((operation, dtype, resident, variant, threads))
            if found is None:
                found = self._table.get((operation, _dtype_name(dtype), resident, variant, threads))
                if found is None:
                    return None
                self._table[operation, dtype, resident, variant, threads] = found
            for device, first, last in found.faster:
                if first <= n <= last:
                    return device
        except UNUSABLE:
            raise _wrong_type(operation, n, dtype, resident, variant, threads) from None
        return None

    def why(
        self, operation: str, n: int, dtype: Any = "float32", resident: bool = True, variant: str | None = None,
        threads: int = 0,
    ) -> str:  # fmt: skip
        """Return the reason for what `choose` returns, as a sentence.

        Raises:
            ThresholdsError: an argument has a wrong type.
        """
        if self.differences:
            return self.differences[0]
        try:
            return self._why(operation, n, dtype, resident, variant, threads)
        except UNUSABLE:
            raise _wrong_type(operation, n, dtype, resident, variant, threads) from None

    def _why(self, operation: str, n: int, dtype: Any, resident: bool, variant: str | None, threads: int) -> str:
        if not NAME.fullmatch(str(operation)):
            return f"Invalid name {str(operation)[:60]!r}: use letters, digits, dots, dashes and underscores."
        dtype, where = _dtype_name(dtype), "with the inputs on the GPU" if resident else "with copies"
        found = self._table.get((operation, dtype, resident, variant, threads))
        if found is None:
            form = ", ".join([*([str(variant)] if variant else []), dtype, f"{threads or 'all'} CPU threads", where])
            return f"{operation} was not measured ({_shown(form)})."
        return f"{found.why(n)} ({where})."


def load(path: str | os.PathLike[str], here: Mapping[str, Any] | None = None) -> Thresholds:
    """Read a file, and compare its machine with this one, or with the facts in `here`. torch is not imported.

    Raises:
        ThresholdsError: the file is missing, damaged, or of another version, or an argument has a wrong type.
    """
    try:
        name = os.fsdecode(os.fsencode(path))
    except (TypeError, ValueError):
        name = "\0"
    if not name or "\0" in name:
        shown = ascii(path)[:100] if isinstance(path, (str, bytes)) else f"of type {type(path).__name__}"
        raise ThresholdsError(f"Invalid path {shown}. Give the path of a file.")
    if here is not None and not isinstance(here, Mapping):
        raise ThresholdsError(f"Invalid facts here of type {type(here).__name__}. Give a dictionary.")
    name = name[:500] if name.isprintable() else ascii(name[:500])
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # reading from a pipe or a terminal may wait for ever
            raise ThresholdsError("It is not a regular file.")
        with open(path, "rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise ThresholdsError(f"It has more than {MOST_BYTES / 1e6:.0f} MB.")
        return Thresholds(json.loads(text, object_pairs_hook=_once), this_machine() if here is None else here)
    except OSError as error:
        reason = f"Cannot read {name}: {error.strerror}."
    except ThresholdsError as error:
        reason = f"Cannot use {name}. {error}"
    except (ValueError, RecursionError):
        reason = f"Cannot use {name}. It holds no JSON, so it is damaged or another file, such as a C header."
    raise ThresholdsError(f"{reason} Make a new one with `cpugpu-tui thresholds make`.")


def _wrong_type(*given: Any) -> ThresholdsError:
    """Return the error for arguments of `choose` and `why`. It names the first that cannot be used."""
    name, value = "n", None
    for name, value in zip(("operation", "n", "dtype", "resident", "variant", "threads"), given, strict=True):
        try:
            _ = (value >= 1, f"{value:,}") if name == "n" else (hash(value), str(value), bool(value))
        except UNUSABLE:
            break
    return ThresholdsError(f"Invalid {name} of type {type(value).__name__}.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a file.

    Raises:
        ThresholdsError: a key stands twice in it, of which JSON would keep the last.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key in found if [each for each, _ in pairs].count(key) > 1)
        raise ThresholdsError(f"It is damaged (the key {_shown(twice)} occurs twice).")
    return found


def _entry(data: Mapping[str, Any]) -> Threshold:
    """Return one threshold of a file.

    Raises:
        KeyError, TypeError, ValueError: it is not valid.
    """
    timed = tuple(data["timed"])
    faster = tuple((str(device), first, last) for device, first, last in data["faster"])
    equal = tuple((first, last) for first, last in data["equal"])
    parts = [part[1:] for part in faster]
    spans = sorted([*parts, *equal])
    ends = [end for span in spans for end in span]
    are_sizes = all(type(size) is int and 1 <= size <= MOST for size in (*timed, *ends))
    are_apart = ends == sorted(ends) and all(below[1] < above[0] for below, above in pairwise(spans))
    in_order = parts == sorted(parts) and [*equal] == sorted(equal)
    if not (ends and are_sizes and are_apart and in_order) or [*timed] != sorted({*timed, ends[0], ends[-1]}):
        raise ValueError("invalid sizes")
    if not {device for device, _, _ in faster} <= {CPU, GPU}:
        raise ValueError("unknown device")
    operation, variant, dtype = names = data["operation"], data["variant"], data["dtype"]
    for name in names:
        if not NAME.fullmatch(name):
            raise ValueError(f"invalid name {name[:60]!r}")
    threads, resident, best = data["threads"], data["resident"], data["best"]
    if [type(value) for value in (threads, resident, best)] != [int, bool, bool] or threads < 0:
        raise ValueError("invalid form")
    axis = _shown(data.get("axis", ""))
    compared = tuple(map(_compared, data.get("compared", ())))
    if compared and len(compared) != len(timed):
        raise ValueError("invalid comparisons")
    return Threshold(operation, variant, dtype, threads, resident, best, axis, timed, faster, equal, compared)


def _compared(row: list[Any]) -> tuple[Any, ...]:
    """Return one of `Threshold.compared`.

    Raises:
        TypeError, ValueError: it is not valid.
    """
    speedup, low, high, rounds, verdict, starts, degrees = row
    ends = [speedup] if low is None and high is None else [low, speedup, high]
    are_numbers = all(type(each) in (int, float) and 0 < each < 1e300 for each in ends) and ends == sorted(ends)
    if not are_numbers or type(verdict) is not str or len(verdict) > 60:
        raise ValueError("invalid comparison")
    if not all(type(count) is int and 0 <= count <= MOST for count in (rounds, starts, degrees)):
        raise ValueError("invalid comparison")
    return tuple(row)


def _dtype_name(dtype: Any) -> str:
    """Return the name of a dtype: `float32` for `torch.float32`."""
    return str(dtype).rpartition(".")[2]


def _shown(value: Any) -> str:
    """Return a value of a file as text for messages, which may not hold escape sequences of terminals."""
    text = str(value)[:100]
    return text if text.isprintable() else ascii(text)


# ------------------------------------------------------------------ machine

FACTS = {"cpu": "CPU", "cores": "CPU cores", "gpu": "GPU", "driver": "NVIDIA driver", "torch": "torch"}
"""Facts that are compared → their names."""


def this_machine() -> dict[str, Any]:
    """Return the facts of this machine that the driver and Python know without torch; None if unknown."""
    models = [_found(r"Model:\s*(.+)", path) for path in sorted(glob.glob("/proc/driver/nvidia/gpus/*/information"))]
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1")
    return {
        "cpu": _found(r"model name\s*:\s*(.+)", "/proc/cpuinfo"),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "gpu": " + ".join(dict.fromkeys(filter(None, models))) or None,
        "driver": None if is_hidden else _found(r"\s(\d{3,4}(?:\.\d+)+)\s", "/proc/driver/nvidia/version"),
        "torch": _torch_version(),
        "simulated": bool(os.environ.get(SIMULATE)),
    }


def _found(pattern: str, path: str) -> str | None:
    """Return what the first matching line of a file holds; None without one."""
    try:
        with open(path, errors="replace") as file:
            for line in file:  # /proc/cpuinfo has megabytes on large machines, and its first line is enough
                if match := re.search(pattern, line):
                    return match.group(1).strip()
    except OSError:
        pass
    return None


def _torch_version() -> str | None:
    """Return the version of torch that is loaded, or else the one that an import would find."""
    if loaded := getattr(sys.modules.get("torch"), "__version__", None):
        return str(loaded)
    pattern = r"^__version__ *= *['\"]([^'\"]+)"
    files = (os.path.join(folder, "torch", "version.py") for folder in sys.path)
    return next((found for file in files if (found := _found(pattern, file))), None)


def differences(made: Mapping[str, Any], here: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how two machines differ in the facts that `here` has, a sentence each, the hardware first."""
    if made.get("simulated"):
        remedy = f"To use it in a test of a program, set {SIMULATE}."
        is_same = here.get("simulated", True)
        return () if is_same else (f"Another machine: the file was made on a simulated one. {remedy}",)
    found = []
    for fact, name in FACTS.items():
        then, now = made.get(fact), here.get(fact)
        if fact == "gpu" and then and now:
            # MIG slices add to the name of their GPU, and any GPU of this machine may be meant.
            whole = str(then).removeprefix("NVIDIA ").partition(" MIG ")[0]
            now = then if whole in (name.removeprefix("NVIDIA ") for name in str(now).split(" + ")) else now
        # Without a driver no GPU can be used. What else is unknown is not compared.
        is_known = then is not None and fact in here and (now is not None or fact == "driver")
        if is_known and then != now:
            kind = "Outdated" if fact in ("driver", "torch") and now else "Another machine"
            found.append(f"{kind}: {name} {_shown(then)} in the file, {now or 'none'} here.")
    return tuple(found)
