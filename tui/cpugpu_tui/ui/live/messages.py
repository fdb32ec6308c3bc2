"""Messages from threads and screens to the app, and work on a thread. Threads touch nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

from textual.dom import DOMNode
from textual.message import Message

from cpugpu_tui.errors import CpuGpuError

if TYPE_CHECKING:
    from cpugpu_tui.compare.claims import JudgedClaim
    from cpugpu_tui.model import Ceilings, Device, Event, Hello, TelemetryRead
    from cpugpu_tui.session.estimate import Earlier
    from cpugpu_tui.store import RunSummary
    from cpugpu_tui.store.outbox import Unsaved
    from cpugpu_tui.transport.interpreter_search import Interpreter

Found = TypeVar("Found")


def in_background(
    node: DOMNode, group: str, body: Callable[[], Found], then: Callable[[Found], object],
    failed: Callable[[CpuGpuError], object] = lambda _: None,
) -> None:  # fmt: skip
    """Run `body` on a thread, then `then(result)` or `failed(error)` on the app's thread, as a callback of `node`."""

    def run() -> None:
        try:
            found = body()
        except CpuGpuError as error:
            node.call_later(failed, error)
        else:
            node.call_later(then, found)

    node.run_worker(run, thread=True, exit_on_error=False, group=group)


@dataclass_transform(eq_default=False)
class Report(Message):
    """A message to the app, which passes it on to controllers (`Shell.routes`). Annotations are its fields, in order.

    A dataclass each would take 4 ms before the first frame.
    """

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__()
        vars(self).update(zip(type(self).__annotations__, values, strict=False), **named)


class RunAdvanced(Report):
    """A run reached its start, a gap or its end, where the screen may be painted."""

    events: tuple[Event, ...]
    """All events since the last such message, in order."""


class SeriesEnded(Report):
    """The series is over or was stopped; a new one may start."""


class CeilingsKnown(Report):
    """Peak rates of this machine were read from the store, or measured."""

    ceilings: tuple[Ceilings, ...]
    """The newest of each device."""
    remark: str = ""
    """Why a device is missing."""


class CalibrationAdvanced(Report):
    """The agent is about to measure `note`; it waits until the screen shows it."""

    note: str


class TelemetryArrived(Report):
    """One reading of the machine. A newer one must not replace it: each is a point of the sparklines."""

    read: TelemetryRead


class AgentReported(Report):
    """The standby agent is ready, or failed to start."""

    outcome: Hello | CpuGpuError


class AgentAwaited(Report):
    """The standby agent takes long to start."""

    text: str


class DevicesReported(Report):
    """An agent reported all devices, or failed."""

    devices: tuple[Device, ...]
    remark: str = ""
    """Why there is no GPU."""


class InterpreterFound(Report):
    """A search for an interpreter that can do more than the one in use has ended."""

    found: Interpreter | None
    """The best one."""
    is_complete: bool
    """Whether all were tried; False if a run ended the search."""


class EarlierKnown(Report):
    """The durations of earlier runs were read from the history."""

    earlier: Earlier


class SavingChanged(Report):
    """The history refused something, or saved what was waiting."""

    unsaved: Unsaved

    def can_replace(self, message: Message) -> bool:
        """Whether this message may replace `message` in the queue: only the latest matters."""
        return isinstance(message, SavingChanged)


class NoticeGiven(Report):
    """A standing notice such as `not saved`; empty removes it."""

    text: str


class RowChosen(Report):
    """Enter was pressed on a row of the timings, or a row was double-clicked."""

    row_key: str


class HeadingClicked(Report):
    """A heading of the timings was clicked."""

    column_key: str


class PairChosen(Report):
    """Two saved runs are to be compared, by number."""

    base: int
    new: int


class SavedRunChosen(Report):
    """A saved run was chosen, to be shown or run again."""

    run: RunSummary
    """Its line in the history."""
    again: bool
    """True to run its plan, False to show its rows."""


class NoiseWanted(Report):
    """The noise floor of this machine is to be measured."""


class ClaimWanted(Report):
    """Measuring a claim was requested."""

    judged: JudgedClaim


class InputDropped(Report):
    """Typed or pasted text exceeded the limit and was dropped."""

    characters: int
    """Number of dropped characters."""
    limit: int
    """Number of characters that are accepted."""

    def __str__(self) -> str:
        lost = f"Dropped {self.characters:,} character{'s' if self.characters > 1 else ''} of pasted text."
        return f"{lost} The limit is {self.limit:,}."
