"""One run whose history meets a fault, and what must be true of both afterwards."""

import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.helpers.command_line import CommandLine
from tests.helpers.runs.read_back import integrity_check

from cpugpu_tui.errors import EXIT_OK, EXIT_UNFIT
from cpugpu_tui.model import CaseFinished, Event, RunFinished
from cpugpu_tui.store import Store
from cpugpu_tui.transport.agent_output import decode

LIMIT_S, CASES = 240.0, 12
RUN = ("run", "matmul", "--size", f"64:{64 + CASES}:1", "--rounds", "1", "--json")
MACHINE = "pace=1,cpu_overhead_ns=200000,launch_ns=200000,first_call_ns=0"
"""A case takes about 0.2 s."""
JOURNALS = ("", "-wal", "-shm")


class FaultError(Exception):
    """Something was not as designed."""


class Attempt:
    """A run with its history, to which a fault comes."""

    def __init__(self, folder: Path, moments: random.Random) -> None:
        self.folder, self.moments = folder, moments
        self.database = folder / "results.db"
        self.words: tuple[str, ...] = RUN
        self.environment: dict[str, str] = {}
        self.shown: list[str] = []
        """Cases that the run said were finished."""
        self.err = ""
        self.earlier = 0
        """Cases of runs before this one."""
        self.is_sound = True
        """False if the fault itself destroys saved data."""
        self._news = threading.Condition()

    def start(self) -> None:
        environment = CommandLine(self.database).environment(**self.environment)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cpugpu_tui", *self.words, "--simulate", MACHINE],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
        )  # fmt: skip
        self._readers = [threading.Thread(target=each) for each in (self._read_events, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read_events(self) -> None:
        for line in self.process.stdout:
            event = decode(line) if b'"FleetFinished"' not in line and b'"HostChanged"' not in line else None
            with self._news:
                self.shown += [event.case] if isinstance(event, CaseFinished) else []
                self._news.notify_all()

    def _read_errors(self) -> None:
        self.err = self.process.stderr.read().decode()

    def cases(self, count: int) -> None:
        """Wait until so many cases have been shown, and for a random moment more."""
        with self._news:
            if not self._news.wait_for(lambda: len(self.shown) >= count, LIMIT_S):
                raise FaultError(f"{count} cases were never shown")
        self.pause(0, 0.3)

    def middle(self) -> None:
        """Wait for a moment between the first case and the last."""
        self.cases(self.moments.randrange(1, CASES - 4))

    def pause(self, least_s: float, most_s: float) -> None:
        time.sleep(self.moments.uniform(least_s, most_s))

    def end(self) -> int:
        """Wait for the end and return the exit code."""
        try:
            code = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            raise FaultError("the run did not end") from error
        for reader in self._readers:
            reader.join()
        return code

    def files(self) -> list[Path]:
        return [self.database.with_name(self.database.name + ending) for ending in JOURNALS]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the write lock, as another program would."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def small_disk(attempt: Attempt) -> Iterator[Path]:
    """Put the history on a disk of 2 MiB."""
    disk = attempt.folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=True)
    attempt.database = disk / "results.db"
    try:
        yield disk
    finally:
        # What is judged lies on the disk.
        for path in attempt.files():
            if path.exists():
                shutil.copy(path, attempt.folder / path.name)
        attempt.database = attempt.folder / "results.db"
        subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with (disk / "ballast").open("ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


def judge(attempt: Attempt, right: set[int], code: int) -> None:
    """Compare what was shown and said with what is in the history.

    Raises:
        FaultError: something is not as designed.
    """
    if "Traceback" in attempt.err:
        raise FaultError("a traceback")
    if code not in right:
        raise FaultError(f"exit code {code}, not {right}")
    says_unsaved = "Not saved: " in attempt.err
    if code == EXIT_UNFIT and not says_unsaved:
        raise FaultError("exit code 4, and no word why")
    saved, whole = saved_cases(attempt)
    missing = attempt.earlier + len(attempt.shown) - saved
    if code == EXIT_OK and attempt.is_sound and (missing or not whole or says_unsaved):
        raise FaultError(f"exit code 0, and {missing} of {len(attempt.shown)} cases are missing, whole: {whole}")
    if missing > 0 and attempt.is_sound and not says_unsaved:
        raise FaultError(f"{missing} cases are missing without a word")


def saved_cases(attempt: Attempt) -> tuple[int, bool]:
    """Return how many cases the history has, and whether every run in it has its end; it must be sound.

    Raises:
        FaultError: it is not, or a run in it cannot be shown.
    """
    if not attempt.database.exists() or not attempt.is_sound:
        return 0, True
    with closing(Store.open(attempt.database)) as store:
        if findings := integrity_check(store):
            raise FaultError(f"damaged: {findings[:3]}")
        runs = store.runs()
        streams: list[list[Event]] = [store.load(run.run_id) for run in runs]
    for run in runs:
        shown = CommandLine(attempt.database)("show", run.number)
        if shown.code != EXIT_OK:
            raise FaultError(f"show {run.number} exited {shown.code}: {shown.err}")
    count = sum(isinstance(event, CaseFinished) for events in streams for event in events)
    return count, all(isinstance(events[-1], RunFinished) for events in streams)
