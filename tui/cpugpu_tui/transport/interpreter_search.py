"""Finds the interpreter whose torch can use the GPU, for `--python auto`, `doctor` and the app.

Each interpreter is asked in a process of its own. All are killed at the limit, whatever they do.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cpugpu_tui.machine.text import printable
from cpugpu_tui.transport.interpreter_places import interpreters
from cpugpu_tui.transport.obeying import to_kill

LIMIT_S = 10.0
"""For all interpreters together. Importing torch takes 1 s from a warm cache and 5 s from a cold disk."""

AT_ONCE = 8
"""Processes at the same time: each that has torch takes 0.4 GB while it imports it."""

LONGEST_ANSWER = 1 << 16
"""Bytes that an interpreter may write; one that writes more is killed."""

POLL_S = 0.05
"""How often `should_stop` is asked."""

OLDEST = (3, 10)
"""Python that the agent needs."""

_MARK = "cpugpu-tui answer "
_QUESTION = f"""
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import json, os, signal
signal.alarm({2 * LIMIT_S:.0f})
found = {{"python": list(sys.version_info[:2])}}
try:
    import torch
    found["torch"] = str(torch.__version__)
    found["has_cuda"] = bool(torch.version.cuda and torch.cuda.is_available())
except Exception:
    pass
sys.stdout.write("\\n{_MARK}" + json.dumps(found) + "\\n")
sys.stdout.flush()
os._exit(0)
"""
"""Nothing of ours, and nothing of the current folder, is imported; the alarm ends it where nobody else can."""


@dataclass(frozen=True)
class Interpreter:
    """An interpreter that has torch."""

    path: str
    torch: str
    """Version of torch."""
    has_cuda: bool
    """Whether its torch can use an NVIDIA GPU."""

    @property
    def rank(self) -> tuple[bool, tuple[int, ...]]:
        """Larger is better: a usable GPU first, then the newer torch."""
        numbers = self.torch.partition("+")[0].split(".")
        return self.has_cuda, tuple(int(part) for part in numbers if part.isascii() and part.isdecimal())

    @property
    def able(self) -> str:
        """What it can do, as the end of a sentence about it."""
        return f"has torch {self.torch}, {'which can use the GPU' if self.has_cuda else 'for the CPU only'}"


@dataclass(frozen=True)
class Choice:
    """The interpreter that `--python auto` takes."""

    python: str | None
    """Its path; None for the interpreter of this program."""
    sentence: str
    """What a person should know of the choice; empty where it is the default one and can use the GPU."""


def never() -> bool:
    """Return False: nobody stops the search."""
    return False


def choose(should_stop: Callable[[], bool] = never) -> Choice:
    """Return this program's own interpreter if its torch can use the GPU, else the best other one. Blocks for seconds.

    `should_stop` is polled; once it is True the search ends with what it has.
    """
    own = next(iter(ask((sys.executable,), should_stop)), None)
    if own is not None and own.has_cuda:
        return Choice(None, "")
    best = better_than(own, ask(_others(sys.executable, Path.cwd()), should_stop))
    if best is not None:
        return Choice(best.path, f"Using {best.path}: it {best.able}.")
    if own is None:
        return Choice(None, "No interpreter with torch was found.")
    none = "No interpreter was found whose torch can use the GPU"
    return Choice(None, f"{none}: using this program's own torch {own.torch}.")


def find_better(
    python: str | None, should_stop: Callable[[], bool] = never, folder: Path | None = None
) -> Interpreter | None:
    """Return the best interpreter that can do more than `python` (None: this program's own). Blocks for seconds.

    See `interpreters` for `folder`.
    """
    used = sys.executable if python is None else shutil.which(os.path.expanduser(python)) or python
    found = {each.path: each for each in ask((used, *_others(used, folder)), should_stop)}
    return better_than(found.pop(used, None), tuple(found.values()))


def _others(used: str, folder: Path | None) -> tuple[str, ...]:
    return interpreters(os.environ, Path(os.path.expanduser("~")), used, folder)


def better_than(own: Interpreter | None, found: Sequence[Interpreter]) -> Interpreter | None:
    """Return the best of those found; None if it can do no more than `own`, the interpreter used so far."""
    best = max(found, key=lambda each: each.rank, default=None)
    return best if best is not None and (own is None or (best.has_cuda and not own.has_cuda)) else None


def ask(pythons: Sequence[str], should_stop: Callable[[], bool] = never) -> tuple[Interpreter, ...]:
    """Return those of the interpreters that have torch, in the same order; none of them runs afterwards."""
    ends_s = time.monotonic() + LIMIT_S
    waiting, found = deque(pythons), list[Interpreter]()
    with selectors.DefaultSelector() as selector:
        asked: dict[int, _Asked] = {}
        try:
            while (waiting or asked) and time.monotonic() < ends_s and not should_stop():
                while waiting and len(asked) < AT_ONCE:
                    with suppress(OSError):  # it is no program, whatever its mode says
                        each = _Asked(waiting.popleft())
                        asked[each.descriptor] = each
                        selector.register(each.descriptor, selectors.EVENT_READ)
                for key, _ in selector.select(POLL_S):
                    if asked[key.fd].read():
                        continue
                    selector.unregister(key.fd)
                    each = asked.pop(key.fd)
                    each.close()
                    found += filter(None, [each.answer()])
        finally:
            for each in asked.values():
                each.signal(signal.SIGKILL)
            for each in asked.values():
                each.close()
    return tuple(sorted(found, key=lambda each: pythons.index(each.path)))


class _Asked:
    """An interpreter that is being asked, in a process group of its own."""

    def __init__(self, python: str) -> None:
        """Start it.

        Raises:
            OSError: it cannot be executed.
        """
        self._python = python
        self._said = b""
        self._process = subprocess.Popen(
            [python, "-c", _QUESTION], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        to_kill.add(self)

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def descriptor(self) -> int:
        """Where its answer comes from."""
        return self._output.fileno()

    def read(self) -> bool:
        """Take what it has written; return whether more is to be expected."""
        part = os.read(self.descriptor, LONGEST_ANSWER)
        self._said += part
        return bool(part) and len(self._said) < LONGEST_ANSWER and not self._said.endswith(b"}\n")

    def signal(self, number: int) -> None:
        """Send a signal to it and to what it started."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def close(self) -> None:
        """Kill it; one that the kernel cannot end now is left to the kernel."""
        self.signal(signal.SIGKILL)
        self._output.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(POLL_S)

    def answer(self) -> Interpreter | None:
        """Return what it said of itself; None if that is no answer, or it cannot be an agent."""
        lines = self._said[:LONGEST_ANSWER].decode(errors="replace").splitlines()
        texts = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            said = json.loads(texts[-1]) if texts else {}
            if tuple(said["python"]) >= OLDEST and said["torch"]:
                return Interpreter(self._python, printable(str(said["torch"]), 40), said["has_cuda"] is True)
        return None
