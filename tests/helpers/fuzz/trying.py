"""Random tries of a surface of the program, each from its own seed: how many, how they ended, and what was wrong."""

import ctypes
import os
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

import psutil

TRY_S = 120.0
"""A try that takes longer than this hangs."""

MOST_BYTES = 8 << 30
"""Address space of this process while it tries: a try that asks for more gets a MemoryError, which is a failure."""

MOST_EXAMPLES = 5
"""Failures of a surface that are printed in full; those at the same place of the code count once."""

PR_SET_CHILD_SUBREAPER = 36


class WrongError(AssertionError):
    """The program ended in a way that it must not; the message says which."""


class HangError(BaseException):
    """A try took longer than `TRY_S`. Not an `Exception`, which the program may catch."""


@dataclass(frozen=True)
class Surface:
    """A part of the program that takes what people or files give it."""

    name: str
    attempt: Callable[[Random], str]
    """Makes one try from random numbers, and returns in one word how it ended.

    Raises:
        WrongError: the program ended in a wrong way.
        Exception: a fault of the program, which would be a traceback.
    """
    starts_processes: bool = False


@dataclass
class Tally:
    """What became of the tries of a surface."""

    tries: int = 0
    elapsed_s: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)
    """Place of the fault → the first try that met it, and how it failed."""
    failed: int = 0


def tries_of(surface: Surface, seed: int, end_s: float) -> Tally:
    """Try until this time of the monotonic clock, at least once."""
    tally, started_s = Tally(), time.monotonic()
    while not tally.tries or time.monotonic() < end_s:
        one_try(surface, seed, tally.tries, tally)
        tally.tries += 1
    tally.elapsed_s = time.monotonic() - started_s
    return tally


def one_try(surface: Surface, seed: int, number: int, tally: Tally) -> None:
    """Make the try that a seed and a number stand for."""
    random, place = Random(f"{seed} {surface.name} {number}"), ""
    try:
        with limited_time():
            tally.outcomes[surface.attempt(random)] += 1
    except WrongError as error:
        place = text = str(error)
    except (Exception, HangError) as error:  # noqa: BLE001 - every fault is wanted
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}"
        text = "".join(traceback.format_exception(error)[-12:])
    if surface.starts_processes and (left := left_over()):
        place = place or "left-over process"
        text = f"left-over processes: {', '.join(left)}"
    if place:
        tally.failed += 1
        tally.failures.setdefault(place[:100], f"BENCH_SEED={seed} BENCH_TRY='{surface.name}:{number}': {text}")


@contextmanager
def limited_time() -> Iterator[None]:
    """Raise `HangError` in this thread after `TRY_S`."""

    def ended(_number: int, _frame: object) -> None:
        raise HangError(f"no end within {TRY_S:g} s")

    before = signal.signal(signal.SIGALRM, ended)
    signal.setitimer(signal.ITIMER_REAL, TRY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def limited_memory() -> Iterator[None]:
    """Limit the address space of this process to `MOST_BYTES`."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def adopt_orphans() -> None:
    """Become the parent of processes whose parent ends, so that `left_over` sees those that outlive a command."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def left_over() -> list[str]:
    """Kill the processes that a try left behind, and return their command lines."""
    found = psutil.Process().children(recursive=True)
    _, alive = psutil.wait_procs(found, timeout=5)
    names = []
    for process in alive:
        try:
            names.append(f"{process.pid} {' '.join(process.cmdline())[:80]}")
            os.kill(process.pid, signal.SIGKILL)
        except (psutil.Error, ProcessLookupError):
            continue
    return names
