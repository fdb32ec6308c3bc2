"""What threads and screens tell the app. Threads post these and touch nothing else."""

from __future__ import annotations

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


class RunAdvanced(Report):
    """A run came to a point at which the screen may show it: its start, a gap, its end."""

    def __init__(self, events: tuple[Event, ...]) -> None:
        """Carry all events since the last such message, in order."""
        super().__init__()
        self.events = events


class SeriesEnded(Report):
    """The worker thread has run all runs of a series, or was stopped; a new one may start."""


class CeilingsKnown(Report):
    """What is kept of this machine was read from the store, or measured."""

    def __init__(self, ceilings: tuple[Ceilings, ...], remark: str = "") -> None:
        """Carry the newest of each device, and what else the card should say: why a device is not among them."""
        super().__init__()
        self.ceilings = ceilings
        self.remark = remark


class CalibrationAdvanced(Report):
    """The agent is about to measure something; nothing is timed until the screen has said so."""

    def __init__(self, note: str) -> None:
        """Carry what."""
        super().__init__()
        self.note = note


class TelemetryArrived(Report):
    """One sweep over the machine. A newer one waiting in the queue replaces it."""

    def __init__(self, read: TelemetryRead) -> None:
        """Carry the readings."""
        super().__init__()
        self.read = read

    def can_replace(self, message: Message) -> bool:
        """Say whether this message may take the place of `message`."""
        return isinstance(message, TelemetryArrived)


class AgentReported(Report):
    """The standby agent said hello, or why it cannot."""

    def __init__(self, outcome: Hello | CpuGpuError) -> None:
        """Carry what it said."""
        super().__init__()
        self.outcome = outcome


class DevicesReported(Report):
    """An agent told which devices there are, or why it cannot."""

    def __init__(self, devices: tuple[Device, ...], remark: str = "") -> None:
        """Carry all of them, and why no GPU is among them."""
        super().__init__()
        self.devices = devices
        self.remark = remark


class InterpreterFound(Report):
    """A search for an interpreter that can do more than the one in use has ended."""

    def __init__(self, found: Interpreter | None, *, is_complete: bool) -> None:
        """Carry the best one, if there is one, and whether all were asked: a run ends the search."""
        super().__init__()
        self.found = found
        self.is_complete = is_complete


class EarlierKnown(Report):
    """How long earlier runs took was read from the history."""

    def __init__(self, earlier: Earlier) -> None:
        """Carry it."""
        super().__init__()
        self.earlier = earlier


class SavingChanged(Report):
    """The history did not take something, or took what waited. A newer one waiting in the queue replaces it."""

    def __init__(self, unsaved: Unsaved) -> None:
        """Carry what is not saved now."""
        super().__init__()
        self.unsaved = unsaved

    def can_replace(self, message: Message) -> bool:
        """Say whether this message may take the place of `message`."""
        return isinstance(message, SavingChanged)


class NoticeGiven(Report):
    """Something the person should know all the time, such as `not saved`."""

    def __init__(self, text: str) -> None:
        """Carry one sentence."""
        super().__init__()
        self.text = text


class SavedRunChosen(Report):
    """The person wants to see a saved run, or to have it run again."""

    def __init__(self, run: RunSummary, *, again: bool) -> None:
        """Carry its line in the history; `again`: run its plan."""
        super().__init__()
        self.run, self.again = run, again


class ClaimWanted(Report):
    """The person wants what a claim needs to be measured."""

    def __init__(self, judged: JudgedClaim) -> None:
        super().__init__()
        self.judged = judged


class InputDropped(Message):
    """More was pasted than is taken at once; the rest is lost."""

    def __init__(self, characters: int, limit: int) -> None:
        """Carry how many were lost, and how many are taken."""
        super().__init__()
        self.characters, self.limit = characters, limit

    def __str__(self) -> str:
        lost = f"Dropped {self.characters:,} character{'s' if self.characters > 1 else ''} of pasted text."
        return f"{lost} The limit is {self.limit:,}."
