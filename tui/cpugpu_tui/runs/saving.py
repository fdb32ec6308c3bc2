"""What of a run goes into the store, and when: a case at its end, whole, with the readings since the last one."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cpugpu_tui.errors import LostRunError, StoreError
from cpugpu_tui.model import (
    Calibrated,
    CaseFailed,
    CaseFinished,
    CasesChosen,
    CaseStarted,
    Ceilings,
    DevicesFound,
    EnergyMeasured,
    EpochFinished,
    Event,
    HalfRoundTimed,
    KernelsProfiled,
    MachineRead,
    PeerMeasured,
    RunFinished,
    RunStarted,
    TensorsPlaced,
)

BESIDE = (EpochFinished, KernelsProfiled, CasesChosen, TensorsPlaced, MachineRead, EnergyMeasured, PeerMeasured)
"""An agent's events that are kept as they are, with no tables of their own."""

NOT_SAVED, SAVED_IN_PART = "Not saved:", "Not saved from here on:"
"""How a notice begins of a run that is not in the history, or only its beginning."""

if TYPE_CHECKING:
    from cpugpu_tui.runs.store import Store


def new_id() -> str:
    """Return an id that sorts by time: 11 digits of milliseconds in hex, then random ones."""
    return f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(4)}"


class Saver:
    """Collects a run's events until they can be committed; without a store it only forgets them."""

    def __init__(self, store: Store | None, run_id: str) -> None:
        self._store = store
        self._run_id = run_id
        self._cases: dict[str, list[Event]] = {}
        self._beside: list[Event] = []
        self.number: int | None = None
        """The run's number, once it is in the database."""
        self.notice: str | None = None
        """Why the run is not saved, if it should be and is not."""

    def begin(self, started: RunStarted) -> None:
        """Save that the run has started."""

        def write(store: Store) -> None:
            self.number = store.begin_run(started)

        self._save(write)

    def reopen(self, number: int) -> None:
        """Save that a saved run goes on.

        Raises:
            UsageError: it is going on already, in another process.
        """
        self._save(lambda store: store.reopen_run(self._run_id))
        if self._store is not None:
            self.number = number

    def devices(self, found: DevicesFound) -> None:
        """Save which devices the run uses, if it ever began (a calibration does not)."""
        if self.number is not None:
            self._save(lambda store: store.add_devices(self._run_id, found))

    def note(self, event: CaseStarted | Calibrated | HalfRoundTimed) -> None:
        """Keep an event until its case is over."""
        self._cases.setdefault(event.case, []).append(event)

    def note_beside(self, event: Event) -> None:
        """Keep what belongs to no open case (a reading, an epoch, a profile) until the next commit."""
        self._beside.append(event)

    def ceilings(self, found: Ceilings) -> None:
        """Keep what a device reached, for later runs."""
        self._save(lambda store: store.keep_ceilings(found))

    def known_ceilings(self, environment: Mapping[str, Any], *, simulated: bool) -> tuple[Ceilings, ...]:
        """Return what the devices of an agent's machine reached under its torch build; nothing without a store."""
        if self._store is None:
            return ()
        try:
            known = self._store.ceilings(str(environment.get("hostname")), str(environment.get("torch") or ""))
        except StoreError:
            return ()
        return tuple(found for found in known if found.simulated == simulated)

    def forget_attempts(self) -> None:
        """Drop the events of cases that a dead agent did not finish."""
        self._cases.clear()

    def settle(self, event: CaseFinished | CaseFailed) -> None:
        """Commit a case that is over."""
        self._save(lambda store: store.commit_case(self._run_id, self._whole(event), self._taken()))

    def settle_all(self, events: Sequence[CaseFailed]) -> None:
        """Commit cases that were not reached, in one transaction: 10,000 would outlast the 2 s of a SIGTERM."""
        if events:
            self._save(
                lambda store: store.commit_cases(self._run_id, [self._whole(event) for event in events], self._taken())
            )

    def finish(self, finished: RunFinished) -> None:
        """Save how the run ended, if it ever began."""
        if self.number is not None:
            self._save(lambda store: store.finish_run(self._run_id, finished, self._taken()))

    def _whole(self, event: CaseFinished | CaseFailed) -> list[Event]:
        return [*self._cases.pop(event.case, []), event]

    def _taken(self) -> list[Event]:
        taken, self._beside = self._beside, []
        return taken

    def _save(self, write: Callable[[Store], None]) -> None:
        """Write to the store; a store that fails is given up for this run, and said, once."""
        if self._store is None:
            return
        try:
            write(self._store)
        except StoreError as error:
            self.notice = f"{NOT_SAVED if isinstance(error, LostRunError) else SAVED_IN_PART} {error}"
            self._store = None
