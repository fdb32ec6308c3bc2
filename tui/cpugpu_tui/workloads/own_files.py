"""A person's own workloads, from files and installed packages. Only the agent calls this: it runs strangers' code.

Whatever such code does while it is loaded is a sentence with file and line, and leaves the registry as it was.
"""

from __future__ import annotations

import math
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import DTYPES, ITEMSIZE_BYTES, MAX_SIZE, OwnFile, Refused, WorkloadInfo
from cpugpu_tui.workloads.contract import REGISTRY, SOURCES, Workload, workload
from cpugpu_tui.workloads.presets import PRESETS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "cpugpu_tui.workloads"
"""Entry points of this group are workloads: a class, or a module that registers some."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""Names of workloads and variants: `/` and `+` divide them in keys and commands, and a terminal obeys other signs."""

MAX_SIZES = 1_000
"""Default sizes of one workload at most."""

METHODS = ("inputs", "flops", "bytes_moved", "step", "steps")
"""What a workload writes itself; of the last two one is enough."""

MEND = "Mend the file, or leave it out."

Told = Callable[[str], None]
"""Hears of each source before it is loaded."""


@dataclass(frozen=True)
class Loaded:
    """What came of it."""

    infos: tuple[WorkloadInfo, ...] = ()
    files: tuple[OwnFile, ...] = ()
    refused: tuple[Refused, ...] = ()


def load(files: Iterable[str], told: Told, *, installed: bool = False) -> Loaded:
    """Load files, and if `installed` what packages of this interpreter offer; a bad one costs no other."""
    found = Loaded()
    for path in dict.fromkeys(files):
        told(path)
        try:
            infos, file = load_file(path)
        except UsageError as error:
            found = replace(found, refused=(*found.refused, Refused(path, error.message, error.remedy)))
        else:
            found = replace(found, infos=found.infos + infos, files=(*found.files, file))
    for point in installed_points() if installed else ():
        source = source_of(point)
        told(source)
        try:
            found = replace(found, infos=found.infos + load_entry_point(point, source))
        except UsageError as error:
            found = replace(found, refused=(*found.refused, Refused(source, error.message, error.remedy)))
    return found


def load_file(path: str) -> tuple[tuple[WorkloadInfo, ...], OwnFile]:
    """Run a Python file and return the workloads that it registers, and what it was.

    Raises:
        UsageError: it cannot be read, raises, ends, or registers what is no workload; the sentence names file and line.
    """
    import hashlib  # here: it loads OpenSSL, 4 ms before the first frame

    try:
        source = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(
            f"The workload file {path} cannot be read: {error.strerror}.", "Name a Python file."
        ) from error

    def execute() -> None:
        code = compile(source, path, "exec", dont_inherit=True)
        module = ModuleType(f"cpugpu_own_{re.sub(r'[^0-9A-Za-z_]', '_', Path(path).stem)}")
        module.__file__ = path
        sys.modules[module.__name__] = module
        # Last, not first: modules beside the file can be imported, and none of them stands before torch.
        folder = str(Path(path).parent)
        if folder not in sys.path:
            sys.path.append(folder)
        exec(code, module.__dict__)

    return _registered(execute, path, path), OwnFile(path, hashlib.sha256(source).hexdigest())


def installed_points() -> tuple[EntryPoint, ...]:
    """Return what installed packages of this interpreter offer; only names are read, nothing is loaded."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=GROUP))


def source_of(point: EntryPoint) -> str:
    """Return which package an entry point belongs to, for people."""
    package = point.dist.name if point.dist is not None else "an unknown package"
    return f"{package} ({point.name})"


def load_entry_point(point: EntryPoint, source: str) -> tuple[WorkloadInfo, ...]:
    """Load what an installed package offers: a `Workload` class, or a module that registers some.

    Raises:
        UsageError: as of `load_file`.
    """

    def execute() -> None:
        offered = point.load()
        is_class = isinstance(offered, type) and issubclass(offered, Workload)
        if is_class and not any(type(known) is offered for known in REGISTRY.values()):
            workload(offered)

    return _registered(execute, source, None)


def _registered(execute: Callable[[], None], source: str, path: str | None) -> tuple[WorkloadInfo, ...]:
    """Return what `execute` registers, checked; whatever is wrong leaves the registry as it was."""
    before = dict(REGISTRY)
    try:
        execute()
        for name, known in before.items():
            if REGISTRY.get(name) is not known:
                raise UsageError(f"It replaces the workload {name!r}.", "Register workloads with @workload alone.")
        fresh = {name: item for name, item in REGISTRY.items() if name not in before}
        if not fresh:
            raise UsageError("It registers no workload.", "Write @workload above a class; `new-workload` shows how.")
        infos = tuple(replace(checked(name, item), source=source) for name, item in fresh.items())
    except BaseException as error:  # noqa: BLE001 - a stranger's code raises what it likes, SystemExit included
        REGISTRY.clear()
        REGISTRY.update(before)
        message, remedy = described(error, source, path)
        raise UsageError(message, remedy) from None
    SOURCES.update((info.name, f"that of {source}") for info in infos)
    return infos


def described(error: BaseException, source: str, path: str | None) -> tuple[str, str]:
    """Return what went wrong as a sentence with file and line, and the remedy."""
    line = error.lineno if isinstance(error, SyntaxError) else last_line(error.__traceback__, path)
    where = f"{source}, line {line}" if line else source
    if isinstance(error, UsageError):
        return f"{where}: {error.message}", error.remedy or MEND
    if isinstance(error, SystemExit):
        return f"{where}: It ends the program (exit code {error.code}).", "Let it only define workloads, not run them."
    first = text_of(error).strip().split("\n")[0][:300]
    said = f"{type(error).__name__}: {first}" if first else type(error).__name__
    remedy = "Install it where the kernels run, see --python." if isinstance(error, ImportError) else MEND
    return f"{where}: {said.rstrip('.')}.", remedy


def text_of(error: BaseException) -> str:
    """Return what an error says; nothing where its own code fails to say it."""
    try:
        return str(error.msg if isinstance(error, SyntaxError) else error)
    except Exception:  # noqa: BLE001 - a stranger's `__str__`
        return ""


def last_line(trace: TracebackType | None, path: str | None) -> int | None:
    """Return the line of a file that was at work when something was raised; None where it was not."""
    lines = [line for frame, line in traceback.walk_tb(trace) if frame.f_code.co_filename == path]
    return lines[-1] if lines else None


def checked(name: str, item: object) -> WorkloadInfo:
    """Return the facts of a workload, each looked at.

    Raises:
        UsageError: a fact is missing or impossible.
        Exception: what its methods raise.
    """
    kind = type(item)
    if not isinstance(item, Workload):
        raise UsageError(f"{kind.__name__} is no Workload.", "Let it inherit from cpugpu_tui.Workload.")
    if item.name != name or not isinstance(name, str) or not NAME.fullmatch(name):
        raise UsageError(
            f"{item.name!r} is no name for a workload.", "Use letters, digits, dots and dashes, at most 40."
        )
    if name in PRESETS:
        raise UsageError(f"The name {name!r} is that of a preset.", "Rename the workload.")
    overridden = {each for each in METHODS if getattr(kind, each) is not getattr(Workload, each)}
    lacking = [each for each in ("inputs", "flops", "bytes_moved") if each not in overridden]
    if not {"step", "steps"} & overridden:
        lacking.append("step")
    if lacking:
        raise UsageError(
            f"Workload {name!r} has no {' and no '.join(lacking)}.",
            "Write it; return 0.0 where a count has no meaning.",
        )
    info = item.info()
    _check_sizes(info)
    _check_text(info)
    for variant in info.variants:
        costs = item.costs(variant, info.sizes[0], ITEMSIZE_BYTES[info.dtypes[0]])
        for what in ("flops", "bytes_moved", "memory_bytes"):
            value = getattr(costs, what)
            if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
                raise UsageError(f"Workload {name!r} has {what} of {value!r}.", "Return a number from 0 on.")
    return info


def _check_sizes(info: WorkloadInfo) -> None:
    sizes: object = info.sizes
    if not isinstance(sizes, tuple) or not 1 <= len(sizes) <= MAX_SIZES:
        raise UsageError(
            f"Workload {info.name!r} has no tuple of sizes.", "Write, for example, sizes = (1_000, 10_000)."
        )
    for size in sizes:
        if type(size) is not int or not 1 <= size <= MAX_SIZE:
            raise UsageError(f"Workload {info.name!r} has a size of {size!r}.", f"Sizes are whole, 1 to {MAX_SIZE:,}.")
    if not isinstance(info.dtypes, tuple) or not info.dtypes or not set(info.dtypes) <= set(DTYPES):
        raise UsageError(f"Workload {info.name!r} has dtypes {info.dtypes!r}.", f"There are: {', '.join(DTYPES)}.")


def _check_text(info: WorkloadInfo) -> None:
    if not info.variants:
        raise UsageError(f"Workload {info.name!r} has no variant.", "Let `steps` return at least one.")
    for variant in info.variants:
        if not isinstance(variant, str) or not NAME.fullmatch(variant):
            raise UsageError(f"{variant!r} is no name for a variant.", "Use letters, digits, dots and dashes.")
    for what, text in (("axis", info.axis), ("summary", info.summary)):
        if not isinstance(text, str) or not text.isprintable() or len(text) > 200:
            raise UsageError(
                f"The {what} of workload {info.name!r} is no text of one line.",
                "Write plain words, at most 200 characters.",
            )
