"""Load user-defined workloads from files and installed packages. Only the agent calls this: it runs foreign code.

Any failure of such code is reported as one error with file and line, and leaves the registry unchanged.
"""

from __future__ import annotations

import math
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, NamedTuple

from cpugpu_tui import model
from cpugpu_tui.errors import UsageError
from cpugpu_tui.model.names import GROUP
from cpugpu_tui.workloads.contract import REGISTRY, SOURCES, Workload, workload
from cpugpu_tui.workloads.presets import PRESETS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""Names of workloads and variants. `/` and `+` are separators in keys and commands; others could control a terminal."""

MAX_SIZES = 1_000
"""Largest number of default sizes of one workload."""

METHODS = ("inputs", "step", "steps", "flops", "bytes_moved", "costs")
"""Methods that a workload may implement. It must have the first one, and one of `step` and `steps`."""

MEND = "Correct the file, or run without it."

OnLoading = Callable[[str], None]
"""Called with each file or package before it is loaded."""


class Loaded(NamedTuple):
    """Workloads and files that were loaded, and those that were refused."""

    infos: tuple[model.WorkloadInfo, ...] = ()
    files: tuple[model.OwnFile, ...] = ()
    refused: tuple[model.Refused, ...] = ()


def load(files: Iterable[str], on_loading: OnLoading, *, installed: bool = False) -> Loaded:
    """Load files, and with `installed` also the packages of this interpreter. A bad one does not affect the others."""
    found = Loaded()
    for path in dict.fromkeys(files):
        on_loading(path)
        try:
            infos, file = load_file(path)
        except UsageError as error:
            found = found._replace(refused=(*found.refused, model.Refused(path, error.message, error.remedy)))
        else:
            found = found._replace(infos=found.infos + infos, files=(*found.files, file))
    for point in installed_points() if installed else ():
        source = source_of(point)
        on_loading(source)
        try:
            found = found._replace(infos=found.infos + load_entry_point(point, source))
        except UsageError as error:
            found = found._replace(refused=(*found.refused, model.Refused(source, error.message, error.remedy)))
    return found


def load_file(path: str) -> tuple[tuple[model.WorkloadInfo, ...], model.OwnFile]:
    """Run a Python file and return the workloads that it registers, and its path and hash.

    Raises:
        UsageError: the file is unreadable, raises, exits, or registers an invalid workload; names file and line.
    """
    import hashlib  # here, because it loads OpenSSL: 4 ms before the first frame

    try:
        source = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(
            f"Cannot read the workload file {path}: {error.strerror}.", "Give the path of a Python file."
        ) from error

    def execute() -> None:
        code = compile(source, path, "exec", dont_inherit=True)
        module = ModuleType(f"cpugpu_own_{re.sub(r'[^0-9A-Za-z_]', '_', Path(path).stem)}")
        module.__file__ = path
        sys.modules[module.__name__] = module
        # Appended, so that modules beside the file can be imported but do not shadow torch.
        folder = str(Path(path).parent)
        if folder not in sys.path:
            sys.path.append(folder)
        exec(code, module.__dict__)

    return _registered(execute, path, path), model.OwnFile(path, hashlib.sha256(source).hexdigest())


def installed_points() -> tuple[EntryPoint, ...]:
    """Return the workload entry points of this interpreter's packages, without loading them."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=GROUP))


def source_of(point: EntryPoint) -> str:
    """Return package and name of an entry point, for display."""
    package = point.dist.name if point.dist is not None else "an unknown package"
    return f"{package} ({point.name})"


def load_entry_point(point: EntryPoint, source: str) -> tuple[model.WorkloadInfo, ...]:
    """Load an entry point: a `Workload` class, or a module that registers workloads.

    Raises:
        UsageError: as in `load_file`.
    """

    def execute() -> None:
        offered = point.load()
        is_class = isinstance(offered, type) and issubclass(offered, Workload)
        if is_class and not any(type(known) is offered for known in REGISTRY.values()):
            workload(offered)

    return _registered(execute, source, None)


def _registered(execute: Callable[[], None], source: str, path: str | None) -> tuple[model.WorkloadInfo, ...]:
    """Return the checked workloads that `execute` registers; any failure restores the registry."""
    before = dict(REGISTRY)
    try:
        execute()
        for name, known in before.items():
            if REGISTRY.get(name) is not known:
                raise UsageError(f"The file replaces the workload {name!r}.", "Register workloads only with @workload.")
        fresh = {name: item for name, item in REGISTRY.items() if name not in before}
        if not fresh:
            raise UsageError("No workload is registered.", "Put @workload above a class, as `new-workload` does.")
        infos = tuple(replace(checked(name, item), source=source) for name, item in fresh.items())
    except BaseException as error:  # noqa: BLE001 - foreign code may raise anything, also SystemExit
        REGISTRY.clear()
        REGISTRY.update(before)
        message, remedy = described(error, source, path)
        raise UsageError(message, remedy) from None
    SOURCES.update((info.name, source) for info in infos)
    return infos


def described(error: BaseException, source: str, path: str | None) -> tuple[str, str]:
    """Return an error's sentence with file and line, and its remedy."""
    line = error.lineno if isinstance(error, SyntaxError) else last_line(error.__traceback__, path)
    where = f"{source}, line {line}" if line else source
    if isinstance(error, UsageError):
        return f"{where}: {error.message}", error.remedy or MEND
    if isinstance(error, SystemExit):
        return f"{where}: The file exits the program (code {error.code}).", "Only define workloads in it."
    first = text_of(error).strip().split("\n")[0][:300]
    text = f"{type(error).__name__}: {first}" if first else type(error).__name__
    remedy = "Install it in the interpreter of --python." if isinstance(error, ImportError) else MEND
    return f"{where}: {text.rstrip('.')}.", remedy


def text_of(error: BaseException) -> str:
    """Return an error's message; empty if its own `__str__` raises."""
    try:
        return str(error.msg if isinstance(error, SyntaxError) else error)
    except Exception:  # noqa: BLE001 - foreign `__str__`
        return ""


def last_line(trace: TracebackType | None, path: str | None) -> int | None:
    """Return the innermost line of a file in a traceback; None if the file is not in it."""
    lines = [line for frame, line in traceback.walk_tb(trace) if frame.f_code.co_filename == path]
    return lines[-1] if lines else None


def running_line(frame: FrameType | None, source: str) -> str:
    """Return a file or module with its innermost line at or above a frame; without a line if it does not run."""
    while frame is not None:
        if source in (frame.f_code.co_filename, frame.f_globals.get("__name__")):
            return f"{source}, line {frame.f_lineno}"
        frame = frame.f_back
    return source


def checked(name: str, item: object) -> model.WorkloadInfo:
    """Return the description of a workload after checking each field.

    Raises:
        UsageError: a field or method is missing or invalid.
        Exception: raised by the workload's own methods.
    """
    kind = type(item)
    if not isinstance(item, Workload):
        raise UsageError(f"Class {kind.__name__} is not a workload.", "Inherit from cpugpu_tui.Workload.")
    if item.name != name or not isinstance(name, str) or not NAME.fullmatch(name):
        raise UsageError(f"Invalid workload name {item.name!r}.", "Use at most 40 letters, digits, dots and dashes.")
    if name in PRESETS:
        raise UsageError(f"The workload name {name!r} is taken by a preset.", "Rename this workload.")
    overridden = {each for each in METHODS if getattr(kind, each) is not getattr(Workload, each)}
    lacking = [] if "inputs" in overridden else ["inputs"]
    if not {"step", "steps"} & overridden:
        lacking.append("step")
    if lacking:
        raise UsageError(f"Workload {name!r} does not define {' and '.join(lacking)}.", "Define inputs and step.")
    info = item.info()
    _check_sizes(info)
    _check_text(info)
    stays: object = item.stays
    if type(stays) is not int or stays < 0:
        raise UsageError(
            f"Invalid stays {stays!r} in workload {name!r}.", "Use the number of inputs that stay, 0 or more."
        )
    if item.compiles and type(item).checked is not Workload.checked:
        raise UsageError(
            f"Workload {name!r} defines `checked`, which does not check compiled code.", "Remove it, or `compiles`."
        )
    is_counted = "costs" in overridden or {"flops", "bytes_moved"} <= overridden  # else torch would have to be loaded
    for variant in info.variants if is_counted else ():
        costs = item.costs(variant, info.sizes[0], model.ITEMSIZE_BYTES[info.dtypes[0]])
        for what in ("flops", "bytes_moved", "memory_bytes"):
            value = getattr(costs, what)
            if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
                raise UsageError(f"Workload {name!r} returns {what} = {value!r}.", "Return a number >= 0.")
    return info


def _check_sizes(info: model.WorkloadInfo) -> None:
    sizes: object = info.sizes
    if not isinstance(sizes, tuple) or not 1 <= len(sizes) <= MAX_SIZES:
        raise UsageError(
            f"The sizes of workload {info.name!r} are not a tuple of 1 to {MAX_SIZES:,} integers.",
            "Write, for example, sizes = (1_000, 10_000).",
        )
    for size in sizes:
        if type(size) is not int or not 1 <= size <= model.MAX_SIZE:
            raise UsageError(
                f"Invalid size {size!r} in workload {info.name!r}.", f"Use integers from 1 to {model.MAX_SIZE:,}."
            )
    if not isinstance(info.dtypes, tuple) or not info.dtypes or not set(info.dtypes) <= set(model.DTYPES):
        raise UsageError(
            f"Invalid dtypes {info.dtypes!r} in workload {info.name!r}.", f"Choose from: {', '.join(model.DTYPES)}."
        )


def _check_text(info: model.WorkloadInfo) -> None:
    if not info.variants:
        raise UsageError(f"Workload {info.name!r} has no variant.", "Return at least one from `steps`.")
    if len(set(info.variants)) < len(info.variants):
        raise UsageError(f"Workload {info.name!r} has two variants 'compiled'.", "Rename yours, or remove `compiles`.")
    for variant in info.variants:
        if not isinstance(variant, str) or not NAME.fullmatch(variant):
            raise UsageError(f"Invalid variant name {variant!r}.", "Use letters, digits, dots and dashes.")
    for what, text in (("axis", info.axis), ("summary", info.summary)):
        if not isinstance(text, str) or not text.isprintable() or len(text) > 200:
            raise UsageError(
                f"The {what} of workload {info.name!r} is not one printable line of at most 200 characters.",
                "Use plain text.",
            )
