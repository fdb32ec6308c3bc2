"""Write runs to the history in order. While the database cannot be written, writes wait in memory."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from cpugpu_tui.errors import LockedError, LostRunError, ReplacedError, StoreError, UsageError
from cpugpu_tui.model import DeviceSampled, Event, TelemetryRead
from cpugpu_tui.store.connection import is_of_the_write
from cpugpu_tui.store.database import Store

T = TypeVar("T")

PATIENCE_S = 0.25
"""How long a write waits for a lock before it is queued in memory. Other runs commit within milliseconds."""

SILENT_TRY_S = 0.3
"""How long a locked database is tried before a person reads of it: the other side of a comparison lets go at once."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 8.0
"""Pauses between attempts to save queued writes; doubled after each failure."""

WRITES_A_TRY = 10
"""Limit of writes in one attempt (1 to 2 ms each), so that saving takes no core from the timed work."""

MOST_BYTES = 256 * 2**20
"""Memory limit of queued events. Above it telemetry is dropped first, then newly finished cases."""

EVENT_BYTES, SAMPLE_BYTES, READING_BYTES = 1_000, 32, 300
"""Estimated memory of an event, of a sample in it (a float and its slot in a tuple), and of a reading."""


@dataclass
class Write:
    """The content of one transaction."""

    run_id: str
    save: Callable[[Store, Sequence[Event]], object]
    """Called with the store and `beside`."""
    attempts: Sequence[Sequence[Event]] = ()
    """The events of each case; the last event names the case."""
    beside: list[Event] = field(default_factory=list)
    """Events outside cases."""
    size_bytes: int = 0
    """Estimated memory; 0 until it is queued."""

    @property
    def cases(self) -> list[str]:
        """Keys of its cases."""
        return [str(getattr(attempt[-1], "case", "")) for attempt in self.attempts]

    def weigh(self) -> None:
        """Update `size_bytes`."""
        self.size_bytes = sum(_size_bytes(event) for events in (*self.attempts, self.beside) for event in events)

    def drop_readings(self) -> None:
        """Drop the telemetry readings, because they are not results."""
        kept = [event for event in self.beside if not isinstance(event, TelemetryRead)]
        if len(kept) < len(self.beside):
            self.beside = kept
            self.weigh()


def _size_bytes(event: Event) -> int:
    if isinstance(event, DeviceSampled):
        return EVENT_BYTES + SAMPLE_BYTES * sum(map(len, (event.samples or {}).values()))
    if isinstance(event, TelemetryRead):
        return EVENT_BYTES + READING_BYTES * (len(event.host) + sum(len(gpu.readings) for gpu in event.gpus))
    return EVENT_BYTES


@dataclass(frozen=True)
class Unsaved:
    """A snapshot of what is not saved of this process's runs."""

    waiting: Mapping[str, int] = field(default_factory=dict)
    """Run id → number of queued writes."""
    cases: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Run id → keys of settled cases that are not saved."""
    cause: StoreError | None = None
    """Why the last attempt failed; None while nothing is queued."""
    lost: Mapping[str, StoreError] = field(default_factory=dict)
    """Run id → why a part of it will never be saved."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Run id → its number in the database, once saved."""

    def __bool__(self) -> bool:
        return bool(self.waiting or self.lost)

    def of(self, run_id: str) -> Unsaved:
        """Return the part that belongs to one run."""

        def own(found: Mapping[str, T]) -> Mapping[str, T]:
            return {run_id: found[run_id]} if run_id in found else {}

        waiting = own(self.waiting)
        return Unsaved(waiting, own(self.cases), self.cause if waiting else None, own(self.lost), own(self.numbers))

    @property
    def text(self) -> str:
        """Causes and remedies for the status line; empty if everything is saved."""
        lost = [f"Not saved: {cause}" for cause in self._lost_causes]
        return " ".join([*lost, *([f"Not saved yet: {self.cause}"] if self.cause is not None else [])])

    @property
    def final_text(self) -> str:
        """The same text once there are no further attempts."""
        causes = dict.fromkeys([*self._lost_causes, *([str(self.cause)] if self.cause is not None else [])])
        return f"Not saved: {' '.join(causes)}"

    @property
    def _lost_causes(self) -> list[str]:
        return list(dict.fromkeys(map(str, self.lost.values())))


class Outbox:
    """Saves the runs of this process. Usable from any thread.

    A write is attempted at once, in the caller's thread. If it fails, it is queued in memory, a thread repeats the
    attempt, and later writes queue behind it.
    """

    def __init__(self, open_store: Callable[[float], Store], store: Store | None = None) -> None:
        """`open_store` opens the database; its argument is how long to wait for a lock, in seconds."""
        self._open_store = open_store
        self.store = store
        """The open database, for reading; None while it cannot be opened."""
        self.on_change: Callable[[], None] = lambda: None
        """Called from any thread when `unsaved` has changed."""
        self._lock = threading.Lock()
        self._waiting: deque[Write] = deque()
        self._cause: StoreError | None = None
        self._lost: dict[str, StoreError] = {}
        self._lost_cases: dict[str, set[str]] = {}
        self._numbers: dict[str, int] = {}
        self._live: dict[str, int] = {}
        """Run id → number, of runs that have not ended."""
        self._trying = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    # ---------------------------------------------------------------- what is known

    @property
    def unsaved(self) -> Unsaved:
        """What is not saved at this moment."""
        with self._lock:
            cases = {run_id: set(keys) for run_id, keys in self._lost_cases.items()}
            for write in self._waiting:
                cases.setdefault(write.run_id, set()).update(write.cases)
            return Unsaved(
                Counter(write.run_id for write in self._waiting),
                {run_id: frozenset(keys) for run_id, keys in cases.items() if keys},
                self._cause if self._waiting else None,
                dict(self._lost),
                dict(self._numbers),
            )

    @property
    def is_writable(self) -> bool:
        """Whether the database is open for writing."""
        return self.store is not None and self.store.notice is None

    def number(self, run_id: str) -> int | None:
        """Return the number of a run; None while it is not in the database."""
        return self._numbers.get(run_id)

    def note_number(self, run_id: str, number: int) -> None:
        """Record the number of a live run that is in the database."""
        self._numbers[run_id] = self._live[run_id] = number

    def note_end(self, run_id: str) -> None:
        """Record that the end of a run is in the database."""
        self._live.pop(run_id, None)

    # ---------------------------------------------------------------- writing

    def put(self, write: Write) -> None:
        """Save a write now, or queue it if the database cannot be written now.

        Raises:
            UsageError: the run continues in another process, so this write must not be saved.
        """
        if (cause := self._lost.get(write.run_id)) is not None and write.run_id not in self._numbers:
            self._lose(write, cause)  # without its run nothing else can be saved
            self.on_change()
            return
        cause = None
        if not self._waiting:
            with self._trying:
                # Another run may have found the database locked while this one waited.
                cause = None if self._waiting else self._tried(write)
                if cause is None and not self._waiting:
                    return
        with self._lock:
            self._cause = cause or self._cause
            self._keep(write)
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._retry, name="saving", daemon=True)
                self._thread.start()
        self.on_change()

    def _keep(self, write: Write) -> None:
        """Queue a write, within the memory limit."""
        write.weigh()
        self._waiting.append(write)
        if sum(each.size_bytes for each in self._waiting) <= MOST_BYTES:
            return
        for each in self._waiting:
            each.drop_readings()
        if write.attempts and sum(each.size_bytes for each in self._waiting) > MOST_BYTES:
            self._waiting.pop()
            megabytes = MOST_BYTES // 2**20
            self._lose(write, StoreError(f"More than {megabytes} MiB of results were waiting for the database.",
                                         str(self._cause.remedy) if self._cause is not None else ""))  # fmt: skip

    def _lose(self, write: Write, cause: StoreError) -> None:
        self._lost.setdefault(write.run_id, cause)
        self._lost_cases.setdefault(write.run_id, set()).update(write.cases)

    def _retry(self) -> None:
        """Repeat attempts until the queue is empty. Body of the thread `saving`."""
        pause_s = FIRST_PAUSE_S
        while not self._ended.wait(pause_s):
            pause_s = FIRST_PAUSE_S if self._try_waiting() else min(2 * pause_s, LONGEST_PAUSE_S)
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return

    def flush(self, within_s: float) -> None:
        """Save queued writes; while the database is locked, repeat for up to `within_s`."""
        deadline = time.monotonic() + within_s
        while self._waiting and not self._ended.is_set():
            if not self._try_waiting():
                if not isinstance(self._cause, LockedError) or time.monotonic() > deadline:
                    return
                time.sleep(FIRST_PAUSE_S / 5)

    def keep_aside(self, open_other: Callable[[], Store]) -> None:
        """Move to another database: copy the live runs there, and save there what waits.

        Raises:
            StoreError: it cannot be used either; what waits still waits.
        """
        with self._trying:
            self._move_to(open_other)
        self.flush(0)

    def close(self) -> None:
        """Close the database and give up queued writes."""
        self._ended.set()
        with self._trying:
            if self.store is not None:
                self.store.close()

    def _try_waiting(self) -> bool:
        """Save up to `WRITES_A_TRY` queued writes; return whether all of them succeeded."""
        went_well = True
        with self._trying:
            for _ in range(WRITES_A_TRY):
                if not self._waiting or self._ended.is_set():
                    break
                write = self._waiting[0]
                try:
                    cause = self._tried(write)
                except UsageError as error:
                    cause = None
                    self._lose(write, StoreError(error.message, error.remedy))
                if cause is not None:
                    went_well = False
                    self._cause = cause
                    break
                with self._lock:
                    self._waiting.popleft()
        self.on_change()
        return went_well

    def _tried(self, write: Write) -> StoreError | None:
        """Attempt a write; return the cause of a failure that may pass. Record a write that can never be saved as lost.

        Raises:
            UsageError: see `put`.
        """
        store = self.store
        try:
            store = self._writable()
            with store.patience(PATIENCE_S):
                write.save(store, write.beside)
        except ReplacedError as error:
            try:
                self._begin_anew()
            except StoreError as cause:
                return cause
            return self._tried(write) if self.store is not store else error
        except LostRunError as error:
            self._numbers.pop(write.run_id, None)
            self._live.pop(write.run_id, None)
            self._lose(write, error)
        except StoreError as error:
            if store is not self.store or not is_of_the_write(error):
                return error
            if write.attempts and write.beside:
                write.beside = []  # save the case even if a reading beside it cannot be saved
                return self._tried(write)
            self._lose(write, error)
        return None

    # ---------------------------------------------------------------- the database

    def _writable(self) -> Store:
        """Return the database; open it again if it was not open, or open for reading only.

        Raises:
            StoreError: it still cannot be written.
        """
        store = self.store
        if store is not None and self.is_writable:
            return store
        found = self._open_store(PATIENCE_S)
        if found.notice is not None:
            refusal = StoreError(found.notice)
            found.close()
            raise refusal
        self.store = found
        return found

    def _begin_anew(self) -> None:
        """Open the file now at the database's path, and copy the live runs into it from the one that was open.

        Raises:
            StoreError: the new file cannot be used; the old one stays open.
        """
        old = self.store
        assert old is not None
        old.checkpoint()
        if old.is_in_place:  # only its journal was deleted, and its content is in the file by now
            self.store = None
            old.close()
            self.store = self._open_store(PATIENCE_S)
            return
        self._move_to(lambda: self._open_store(PATIENCE_S))

    def _move_to(self, open_other: Callable[[], Store]) -> None:
        """Copy the live runs from the open database into another one, and use that from now on."""
        old = self.store
        streams = {} if old is None else {run_id: old.load(run_id) for run_id in self._live}
        found = open_other()
        try:
            for run_id, events in streams.items():
                self.note_number(run_id, found.adopt_run(events, self._live[run_id]))
        except BaseException:
            found.close()
            raise
        self.store = found
        if old is not None:
            old.close()
