"""What threads and screens tell the app. Threads post these and touch nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from cpugpu_tui.compare.claims import JudgedClaim
    from cpugpu_tui.errors import CpuGpuError
    from cpugpu_tui.model import Ceilings, Device, Event, Hello, TelemetryRead
    from cpugpu_tui.session.estimate import Earlier
    from cpugpu_tui.store import RunSummary
    from cpugpu_tui.store.outbox import Unsaved
    from cpugpu_tui.transport.interpreter_search import Interpreter


class Report(Message):
    """What a thread or a screen tells the app, which passes it on to controllers (`Shell.routes`)."""


@dataclass
class RunAdvanced(Report):
    """A run came to a point at which the screen may show it: its start, a gap, its end."""

    events: tuple[Event, ...]
    """All events since the last such message, in order."""


class SeriesEnded(Report):
    """The worker thread has run all runs of a series, or was stopped; a new one may start."""


@dataclass
class CeilingsKnown(Report):
    """What is kept of this machine was read from the store, or measured."""

    ceilings: tuple[Ceilings, ...]
    """The newest of each device."""
    remark: str = ""
    """Why a device is not among them."""


@dataclass
class CalibrationAdvanced(Report):
    """The agent is about to measure something; nothing is timed until the screen has said so."""

    note: str


@dataclass
class TelemetryArrived(Report):
    """One sweep over the machine. A newer one waiting in the queue replaces it."""

    read: TelemetryRead

    def can_replace(self, message: Message) -> bool:
        """Say whether this message may take the place of `message`."""
        return isinstance(message, TelemetryArrived)


@dataclass
class AgentReported(Report):
    """The standby agent said hello, or why it cannot."""

    outcome: Hello | CpuGpuError


@dataclass
class DevicesReported(Report):
    """An agent told which devices there are, or why it cannot."""

    devices: tuple[Device, ...]
    remark: str = ""
    """Why no GPU is among them."""


@dataclass
class InterpreterFound(Report):
    """A search for an interpreter that can do more than the one in use has ended."""

    found: Interpreter | None
    """The best one."""
    is_complete: bool
    """Whether all were asked: a run ends the search."""


@dataclass
class EarlierKnown(Report):
    """How long earlier runs took was read from the history."""

    earlier: Earlier


@dataclass
class SavingChanged(Report):
    """The history did not take something, or took what waited. A newer one waiting in the queue replaces it."""

    unsaved: Unsaved

    def can_replace(self, message: Message) -> bool:
        """Say whether this message may take the place of `message`."""
        return isinstance(message, SavingChanged)


@dataclass
class NoticeGiven(Report):
    """Something the person should know all the time, such as `not saved`."""

    text: str


@dataclass
class SavedRunChosen(Report):
    """The person wants to see a saved run, or to have it run again."""

    run: RunSummary
    """Its line in the history."""
    again: bool
    """Run its plan instead of showing its rows."""


@dataclass
class ClaimWanted(Report):
    """The person wants what a claim needs to be measured."""

    judged: JudgedClaim


@dataclass
class InputDropped(Message):
    """More was pasted than is taken at once; the rest is lost."""

    characters: int
    """How many were lost."""
    limit: int
    """How many are taken."""

    def __str__(self) -> str:
        lost = f"Dropped {self.characters:,} character{'s' if self.characters > 1 else ''} of pasted text."
        return f"{lost} The limit is {self.limit:,}."
