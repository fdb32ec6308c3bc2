"""Writes to the history, in order: at once while the database takes them, else from memory until it does again."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from cpugpu_tui.errors import LockedError, LostRunError, ReplacedError, StoreError, UsageError
from cpugpu_tui.model import DeviceSampled, Event, TelemetryRead
from cpugpu_tui.store.database import Store
from cpugpu_tui.store.faults import is_of_the_write

T = TypeVar("T")

PATIENCE_S = 0.25
"""How long one write waits for a lock before it is kept in memory: other runs commit within milliseconds."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 8.0
"""Between two tries to save what waits; doubled after each that failed."""

WRITES_A_TRY = 10
"""Writes of one try that goes well, 1 to 2 ms each: after a long lock they must not take a core from what is timed."""

MOST_BYTES = 256 * 2**20
"""Memory for events that wait. Beyond it readings of telemetry are dropped, then cases that finish are not kept."""

EVENT_BYTES, SAMPLE_BYTES, READING_BYTES = 1_000, 32, 300
"""Memory of an event, of a sample in it (a float and its place in a tuple) and of a reading."""


@dataclass
class Write:
    """What one transaction saves."""

    run_id: str
    save: Callable[[Store, Sequence[Event]], object]
    """Is given the store and `beside`."""
    attempts: Sequence[Sequence[Event]] = ()
    """The events of each case in it; the last one names its case."""
    beside: list[Event] = field(default_factory=list)
    """Events of no case."""
    size_bytes: int = 0
    """About the memory that it takes, once it waits."""

    @property
    def cases(self) -> list[str]:
        """Keys of the cases in it."""
        return [str(getattr(attempt[-1], "case", "")) for attempt in self.attempts]

    def weigh(self) -> None:
        """Find out how much memory it takes."""
        self.size_bytes = sum(_size_bytes(event) for events in (*self.attempts, self.beside) for event in events)

    def drop_readings(self) -> None:
        """Do without the readings of telemetry, which are no results."""
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
    """What of this process's runs is not in the history at a moment."""

    waiting: Mapping[str, int] = field(default_factory=dict)
    """Run id → writes that will be tried again."""
    cases: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Run id → keys of the cases that are over and not saved."""
    cause: StoreError | None = None
    """Why the last try failed; None while nothing waits."""
    lost: Mapping[str, StoreError] = field(default_factory=dict)
    """Run id → why something of it will never be saved."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Run id → its number in the database, once it is there."""

    def __bool__(self) -> bool:
        return bool(self.waiting or self.lost)

    def of(self, run_id: str) -> Unsaved:
        """Return what of it belongs to one run."""

        def own(found: Mapping[str, T]) -> Mapping[str, T]:
            return {run_id: found[run_id]} if run_id in found else {}

        waiting = own(self.waiting)
        return Unsaved(waiting, own(self.cases), self.cause if waiting else None, own(self.lost), own(self.numbers))

    @property
    def text(self) -> str:
        """What a person should know, cause and remedy; empty if everything is saved."""
        lost = [f"Not saved: {cause}" for cause in self._lost_causes]
        return " ".join([*lost, *([f"Not saved yet: {self.cause}"] if self.cause is not None else [])])

    @property
    def final_text(self) -> str:
        """The same once nothing is tried again."""
        causes = dict.fromkeys([*self._lost_causes, *([str(self.cause)] if self.cause is not None else [])])
        return f"Not saved: {' '.join(causes)}"

    @property
    def _lost_causes(self) -> list[str]:
        return list(dict.fromkeys(map(str, self.lost.values())))


class Outbox:
    """The way of every run of this process into the history. Usable from any thread.

    A write is tried at once, in the caller's thread. If the database does not take it, it waits in memory, a thread
    tries again, and later writes queue behind it.
    """

    def __init__(self, open_store: Callable[[float], Store], store: Store | None = None) -> None:
        """`open_store` opens the database, given how long it may wait for a lock; None: it is not open yet."""
        self._open_store = open_store
        self.store = store
        """The database as it is open now, for reading; None while it cannot be opened."""
        self.on_change: Callable[[], None] = lambda: None
        """Called, in any thread, when `unsaved` has changed."""
        self._lock = threading.Lock()
        self._waiting: deque[Write] = deque()
        self._cause: StoreError | None = None
        self._lost: dict[str, StoreError] = {}
        self._lost_cases: dict[str, set[str]] = {}
        self._numbers: dict[str, int] = {}
        self._live: dict[str, int] = {}
        """Runs that have begun and not ended, with their numbers."""
        self._trying = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    # ---------------------------------------------------------------- what is known

    @property
    def unsaved(self) -> Unsaved:
        """What is not in the history now."""
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
        """Return a run's number, None as long as it is not in the database."""
        return self._numbers.get(run_id)

    def note_number(self, run_id: str, number: int) -> None:
        """Take note that a live run is in the database."""
        self._numbers[run_id] = self._live[run_id] = number

    def note_end(self, run_id: str) -> None:
        """Take note that the end of a run is in the database."""
        self._live.pop(run_id, None)

    # ---------------------------------------------------------------- writing

    def put(self, write: Write) -> None:
        """Save something now or, if the database does not take it now, later.

        Raises:
            UsageError: it must not be saved (the run goes on in another process).
        """
        if (cause := self._lost.get(write.run_id)) is not None and write.run_id not in self._numbers:
            self._lose(write, cause)  # of a run that is not there nothing more can be saved
            self.on_change()
            return
        cause = None
        if not self._waiting:
            with self._trying:
                # Another run may have found the database locked while this one waited for its turn.
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
        """Let a write wait, within the bound on memory."""
        write.weigh()
        self._waiting.append(write)
        if sum(each.size_bytes for each in self._waiting) <= MOST_BYTES:
            return
        for each in self._waiting:
            each.drop_readings()
        if write.attempts and sum(each.size_bytes for each in self._waiting) > MOST_BYTES:
            self._waiting.pop()
            megabytes = MOST_BYTES // 2**20
            self._lose(write, StoreError(f"More than {megabytes} MB of results waited for the database.",
                                         str(self._cause.remedy) if self._cause is not None else ""))  # fmt: skip

    def _lose(self, write: Write, cause: StoreError) -> None:
        self._lost.setdefault(write.run_id, cause)
        self._lost_cases.setdefault(write.run_id, set()).update(write.cases)

    def _retry(self) -> None:
        """Try again until nothing waits. Body of the thread `saving`."""
        pause_s = FIRST_PAUSE_S
        while not self._ended.wait(pause_s):
            pause_s = FIRST_PAUSE_S if self._try_waiting(WRITES_A_TRY) else min(2 * pause_s, LONGEST_PAUSE_S)
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return

    def flush(self, within_s: float) -> None:
        """Save what waits; while the database is locked, and for so long, try again."""
        deadline = time.monotonic() + within_s
        while self._waiting and not self._ended.is_set():
            if not self._try_waiting(WRITES_A_TRY):
                if not isinstance(self._cause, LockedError) or time.monotonic() > deadline:
                    return
                time.sleep(FIRST_PAUSE_S / 5)

    def close(self) -> None:
        """Close the database; what waits is given up."""
        self._ended.set()
        with self._trying:
            if self.store is not None:
                self.store.close()

    def _try_waiting(self, most: int) -> bool:
        """Save up to `most` of the writes that wait; return whether all of these went well."""
        went_well = True
        with self._trying:
            for _ in range(most):
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
        """Save something; return why not if that may pass. What can never be saved is lost, and noted.

        Raises:
            UsageError: it must not be saved.
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
                write.beside = []  # a reading that cannot be written must not cost a case
                return self._tried(write)
            self._lose(write, error)
        return None

    # ---------------------------------------------------------------- the database

    def _writable(self) -> Store:
        """Return the database, opened again if it was not there, or only for reading.

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
        """Open what is at the database's place now, and bring the live runs along, from the file that is gone.

        Raises:
            StoreError: there is no usable database; the one that was open stays.
        """
        old = self.store
        assert old is not None
        old.checkpoint()
        if old.is_in_place:  # only its journal was deleted, and by now all of that is in the file
            self.store = None
            old.close()
            self.store = self._open_store(PATIENCE_S)
            return
        streams = {run_id: old.load(run_id) for run_id in self._live}
        found = self._open_store(PATIENCE_S)
        try:
            for run_id, events in streams.items():
                self.note_number(run_id, found.adopt_run(events, self._live[run_id]))
        except BaseException:
            found.close()
            raise
        self.store = found
        old.close()
