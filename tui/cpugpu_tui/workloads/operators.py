"""Watch torch's operators while code runs: which, on which device, with which copies and waits.

The watcher sits in torch's dispatcher. Unlike a profiler it leaves nothing behind that would slow later launches.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePath
from types import FrameType
from typing import Any

from cpugpu_tui.model.line_costs import COPY, FALLBACK, SETUP, STATEMENT, WAIT, WORK
from cpugpu_tui.workloads.containers import bytes_in, stored, tensors

WAITING = (
    "_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal",
    "allclose", "is_nonzero", "bincount", "repeat_interleave",
)  # fmt: skip
"""Operators that bring numbers of the GPU to the host, which waits for them."""

INDEXING = ("index", "index_put", "index_put_")
"""Operators that do so if they are given a boolean mask: the number of its elements becomes a size."""

FACTORIES = frozenset({
    "arange", "as_tensor", "bartlett_window", "blackman_window", "empty", "empty_strided", "eye", "full",
    "hamming_window", "hann_window", "kaiser_window", "linspace", "logspace", "normal", "ones", "rand", "randint",
    "randn", "randperm",
    "range", "scalar_tensor", "sparse_coo_tensor", "tensor", "tril_indices", "triu_indices", "zeros",
})  # fmt: skip
"""Functions of torch that make tensors on the default device, unless they are given one."""

COPYING = ("_to_copy", "copy_")


@dataclass
class Operators:
    """What ran. A device kind is `cpu`, `cuda` or `meta`."""

    kind: str
    """Kind of the device that the code is meant for."""
    count: int = 0
    """Operators on that device, without views."""
    on_cpu: list[str] = field(default_factory=list)
    """Operators that ran on the CPU although the device is a GPU, each name once."""
    cpu_line: str = ""
    """Where a person's code called the first of these: `file.py:12`."""
    copies_to_gpu: int = 0
    bytes_to_gpu: int = 0
    copies_to_host: int = 0
    bytes_to_host: int = 0
    synchronisations: int = 0
    makes_tensors: bool = False
    """Whether tensors were made without naming a device."""
    draws: bool = False
    """Whether random numbers were drawn."""
    largest_bytes: int = 0
    """Bytes of the largest result of an operator."""
    narrowest_bytes: int = 8
    """Bytes of an element of the narrowest floating-point result."""
    uses_side_stream: bool = False
    read: set[int] = field(default_factory=set)
    """Addresses of the memory that operators took."""
    written: set[int] = field(default_factory=set)
    """Addresses of the memory that operators wrote, not that of views."""
    device: str = ""
    """Name of that device."""
    other_gpus: list[str] = field(default_factory=list)
    """Other GPUs that results are on."""

    def note(self, func: Any, args: Any, result: Any) -> None:
        """Count one call of an operator."""
        import torch

        name = func.overloadpacket.__name__
        role, sources, results = role_of(func, args, result, self.kind)
        self.draws |= torch.Tag.nondeterministic_seeded in func.tags
        widths = [each.element_size() for each in results if each.is_floating_point()]
        self.narrowest_bytes = min([self.narrowest_bytes, *widths])
        self.largest_bytes = max(self.largest_bytes, bytes_in(result))
        self.read |= memory_of(sources)
        self.written |= memory_of(results) if role else set()
        if role == COPY:
            self._note_copy(sources[-1], results[0])
        elif role in (WORK, WAIT):
            self.count += 1
            self.synchronisations += self.kind == "cuda" and role == WAIT
        elif role == FALLBACK and name not in self.on_cpu:
            self.on_cpu.append(name)
            if not self.cpu_line and (place := own_line(sys._getframe())) is not None:
                self.cpu_line = f"{os.path.basename(place[0])}:{place[1]}"
        others = {str(each.device) for each in results if each.device.type == "cuda"} - {self.device, *self.other_gpus}
        self.other_gpus += sorted(others)
        if self.kind == "cuda":
            self.uses_side_stream |= torch.cuda.current_stream() != torch.cuda.default_stream()

    def _note_copy(self, source: Any, target: Any) -> None:
        count_bytes = target.numel() * target.element_size()
        if target.device.type == "cuda":
            self.copies_to_gpu += 1
            self.bytes_to_gpu += count_bytes
        elif source.device.type == "cuda":
            self.copies_to_host += 1
            self.bytes_to_host += count_bytes
            self.synchronisations += 1


def memory_of(value: Any) -> set[int]:
    """Return the addresses of the memory that holds the numbers of all tensors in a value."""
    parts = (part for each in tensors(value) for part in stored(each))
    return {part.untyped_storage().data_ptr() for part in parts if part.numel() and part.device.type != "meta"}


def role_of(func: Any, args: Any, result: Any, kind: str) -> tuple[str, list[Any], list[Any]]:
    """Return what an operator does in code that is meant for a kind of device, and the tensors it took and returned.

    The role is `COPY` (to another device), `WAIT`, `FALLBACK` (on the CPU instead), `WORK`, or empty for anything else.
    """
    name = func.overloadpacket.__name__
    sources, results = list(tensors(list(args))), list(tensors(result))
    kinds = {each.device.type for each in (*sources, *results)}
    role = ""
    if name in COPYING and sources and results and sources[-1].device.type != results[0].device.type:
        role = COPY
    elif _is_view(func):
        pass
    elif kind in kinds or not kinds:
        role = WAIT if _waits(name, args) else WORK
    elif kind == "cuda" and any(each.numel() > 1 for each in results):
        role = FALLBACK
    return role, sources, results


def _waits(name: str, args: Any) -> bool:
    if name not in INDEXING:
        return name in WAITING
    import torch

    masked = any(each.dtype in (torch.bool, torch.uint8) for each in tensors(list(args[1])))
    return masked and (name == "index" or args[2].numel() > 1)  # one number is filled in without a wait


@lru_cache(maxsize=4096)
def is_own_file(file: str) -> bool:
    """Whether a file name of code is a person's: not torch's, Python's, an installed package's or this program's."""
    if file.startswith("<"):
        return file in (SETUP, STATEMENT)
    import torch

    this_program = os.path.dirname(os.path.dirname(__file__))
    foreign = (this_program, os.path.dirname(torch.__file__), os.path.dirname(os.__file__))
    installed = {"site-packages", "dist-packages"} & set(PurePath(file).parts)
    return not installed and not file.startswith(tuple(f"{folder}{os.sep}" for folder in foreign))


def own_line(frame: FrameType | None, named: frozenset[str] = frozenset()) -> tuple[str, int] | None:
    """Return file and number of the innermost line of a person's code at or above a frame; None without such a line.

    Files in `named` count as the person's wherever they are.
    """
    while frame is not None:
        file = frame.f_code.co_filename
        if is_own_file(file) or file in named:
            return file, frame.f_lineno
        frame = frame.f_back
    return None


def _is_view(func: Any) -> bool:
    """Whether an operator gives another view of a tensor without touching its numbers."""
    returned = [each.alias_info for each in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)


@contextmanager
def intercepted(run: Callable[[Any, Any, Any], Any]) -> Iterator[None]:
    """Call `run(operator, args, kwargs)` in place of each operator that this thread calls inside `with`."""
    from torch.utils._python_dispatch import TorchDispatchMode

    def dispatch(_mode: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})

    watcher: Any = type("Watcher", (TorchDispatchMode,), {"__torch_dispatch__": dispatch})
    with watcher():
        yield


@contextmanager
def watched_factories(seen: Operators) -> Iterator[None]:
    """Note whether this thread makes tensors inside `with` and leaves the device to torch.

    The dispatcher cannot tell: it sees the device that a default one has filled in. A default device costs about a
    microsecond for each function of torch, which made twelve small operators twice as slow on the CPU.
    """
    from torch.overrides import TorchFunctionMode

    def call(_mode: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in FACTORIES and (kwargs or {}).get("device") is None:
            seen.makes_tensors |= not any(True for _ in tensors(list(args)))
        return func(*args, **(kwargs or {}))

    watcher: Any = type("Watcher", (TorchFunctionMode,), {"__torch_function__": call})
    with watcher():
        yield


@contextmanager
def watched_operators(device: str) -> Iterator[Operators]:
    """Count the operators that this thread calls inside `with`, in code that is meant for a device such as `cuda:0`."""
    seen = Operators(device.partition(":")[0], device=device)

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        seen.note(func, args, result)
        return result

    before = host_random_states()
    with intercepted(run), watched_factories(seen):
        yield seen
    seen.draws |= host_random_states() != before


def host_random_states() -> tuple[Any, ...]:
    """Return the states of the random generators of Python and, where it is loaded, numpy."""
    numpy = sys.modules.get("numpy")
    return random.getstate(), None if numpy is None else pickle.dumps(numpy.random.get_state())


def settings() -> dict[str, Any]:
    """Return what code can change in torch for every later call."""
    return {name: read() for name, (read, _) in _ways().items()}


def put_back(before: Mapping[str, Any]) -> list[str]:
    """Put settings back to what `settings` returned; return the names of those that were changed."""
    changed = [name for name, (read, _) in _ways().items() if read() != before[name]]
    for name in changed:
        _ways()[name][1](before[name])
    return changed


def remedy_for(changed: Sequence[str]) -> str:
    """Return the remedy for code that changes these settings."""
    gradients = "Use `with torch.no_grad():` inside a function." if GRADIENT_MODE in changed else ""
    others = "Use an option instead, such as --threads, --dtype or --device." if {*changed} - {GRADIENT_MODE} else ""
    return f"{gradients} {others}".strip()


GRADIENT_MODE = "gradient mode"


def _ways() -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Return how each setting is read and set."""
    import torch

    found: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
        "the number of threads": (torch.get_num_threads, torch.set_num_threads),
        "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
        GRADIENT_MODE: (torch.is_grad_enabled, torch.set_grad_enabled),
        "TF32": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    }
    if hasattr(torch, "get_default_device"):  # since torch 2.3
        # None, not the CPU: a default device that is set adds a microsecond to every call.
        found["the default device"] = (
            lambda: str(torch.get_default_device()),
            lambda name: torch.set_default_device(None if name == "cpu" else name),
        )
    return found
