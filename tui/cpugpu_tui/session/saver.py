"""Saves a run's events to the history. A case is saved as a whole, with the readings since the previous one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cpugpu_tui import model
from cpugpu_tui.errors import StoreError
from cpugpu_tui.timing.channel import stamped

if TYPE_CHECKING:
    from cpugpu_tui.store import Store
    from cpugpu_tui.store.outbox import Outbox, Unsaved

LONG_NS = 10e9
"""A half-round above it is saved at once: shorter ones are soon timed again."""


class Saver:
    """Collects a run's events until they can be committed. Without an outbox it drops them."""

    def __init__(self, outbox: Outbox | None, run_id: str) -> None:
        self._outbox = outbox
        self._run_id = run_id
        self._cases: dict[str, list[model.Event]] = {}
        self._long: set[str] = set()
        """Keys of cases with a long half-round."""
        self._beside: list[model.Event] = []
        self._begun = False
        self._known: tuple[model.Ceilings, ...] = ()
        """Peak rates that were saved when the run began."""

    @property
    def number(self) -> int | None:
        """The run's number, once it is in the database."""
        return None if self._outbox is None else self._outbox.number(self._run_id)

    @property
    def unsaved(self) -> Unsaved | None:
        """Events of the run that are not in the history yet; None if nothing is to be saved."""
        return None if self._outbox is None else self._outbox.unsaved.of(self._run_id)

    def begin(self, started: model.RunStarted) -> None:
        """Save that the run has started."""
        self._begun = True
        self._put(lambda store, _beside: self._note_number(store.begin_run(started)))

    def _note_number(self, number: int) -> None:
        if self._outbox is not None:
            self._outbox.note_number(self._run_id, number)

    def reopen(self, number: int, max_seconds: float | None) -> None:
        """Save that a saved run continues, with this time limit.

        Raises:
            UsageError: another process is continuing it already.
        """
        self._begun = True
        self._note_number(number)
        self._put(lambda store, _beside: store.reopen_run(self._run_id, max_seconds))

    def devices(self, found: model.DevicesFound) -> None:
        """Save which devices the run uses, if it began (a calibration does not)."""
        if self._begun:
            self._put(lambda store, _beside: store.add_devices(self._run_id, found))

    def tag(self, tags: Sequence[str]) -> None:
        """Add tags to the run, if it began."""
        if self._begun and tags:
            self._put(lambda store, _beside: store.tag(self._run_id, add=tags))

    def note(self, event: model.CaseStarted | model.Calibrated | model.DeviceSampled) -> None:
        """Keep an event until its case is over. Of a case with long half-rounds, save each round at once.

        A server vanished in the 18th minute of one case, and nothing of it was in the history.
        """
        kept = self._cases.setdefault(event.case, [])
        kept.append(event)
        if not isinstance(event, model.DeviceSampled) or not event.round_index:
            return
        if sum(event.samples.get(model.LATENCY, ())) * event.calls_per_block > LONG_NS:
            self._long.add(event.case)
        if event.case not in self._long:
            return
        timed = {each.device for each in kept if isinstance(each, model.DeviceSampled) and each.round_index}
        if timed >= {each.device for each in kept if isinstance(each, model.Calibrated)}:
            # `settle` replaces it. Until then it counts as cut short, see `Row.is_cut`.
            so_far = replace(
                model.CaseFinished(case=event.case), seq=event.seq, wall_ns=event.wall_ns, mono_ns=event.mono_ns
            )
            self._commit([[*kept, so_far]])

    def note_beside(self, event: model.Event) -> None:
        """Keep an event without tables of its own (a reading, an epoch, a profile) until the next commit."""
        self._beside.append(event)

    def ceilings(self, found: model.Ceilings) -> None:
        """Save the peak rates of a device for later runs."""
        self._put(lambda store, _beside: store.keep_ceilings(found))

    def clock(self, found: model.EventClock) -> None:
        """Remember the check of a GPU's event clock with the saved peak rates of that GPU, unless they have it."""
        if any(known.uuid == found.uuid and known.clock != found for known in self._known if known.uuid):
            self._put(lambda store, _beside: store.keep_clock(found))

    def known_ceilings(self, plan: model.Plan, environment: Mapping[str, Any]) -> tuple[model.Ceilings, ...]:
        """Return saved peak rates of an agent's machine, torch and driver; without a store, of those in the plan."""
        store = None if self._outbox is None else self._outbox.store
        try:
            known = plan.ceilings if store is None else store.ceilings()
        except StoreError:
            return ()
        here = (plan.simulation is not None, str(environment.get("hostname")), str(environment.get("torch") or ""))
        self._known = tuple(
            found
            for found in known
            if (found.simulated, found.hostname, found.torch) == here
            and (found.device == "cpu" or found.driver in (None, environment.get("driver")))
        )
        return self._known

    @property
    def keeps_ceilings(self) -> bool:
        """Whether peak rates measured now would be saved for the next run."""
        return self._outbox is not None and self._outbox.is_writable

    def earlier_starts(self) -> list[model.EarlierTimed]:
        """Return what the history has of earlier starts of this run's cases; nothing without a store."""
        store = None if self._outbox is None else self._outbox.store
        try:
            found = [] if store is None or self.number is None else store.earlier_starts(self._run_id)
        except StoreError:
            return []
        return [stamped(event, 0) for event in found]

    def forget_attempts(self) -> None:
        """Drop the events of cases that a dead agent did not finish."""
        self._cases.clear()

    def later(self, events: Sequence[model.Event]) -> None:
        """Save the half-rounds of a further start of the process."""
        if events:
            self._put(lambda store, _beside: store.add_later(self._run_id, events))

    def settle(self, *events: model.CaseFinished | model.CaseFailed) -> None:
        """Commit finished cases in one transaction: 10,000 separate ones would exceed the 2 s after a SIGTERM."""
        if events:
            self._commit([[*self._cases.pop(event.case, []), event] for event in events])

    def _commit(self, attempts: Sequence[Sequence[model.Event]]) -> None:
        self._put(lambda store, beside: store.commit_cases(self._run_id, attempts, beside), attempts)

    def finish(self, finished: model.RunFinished) -> None:
        """Save how the run ended, if it began."""
        outbox = self._outbox
        if not self._begun:
            return

        def save(store: Store, beside: Sequence[model.Event]) -> None:
            assert outbox is not None
            store.finish_run(self._run_id, finished, beside)
            outbox.note_end(self._run_id)

        self._put(save, ())

    def _put(
        self,
        save: Callable[[Store, Sequence[model.Event]], object],
        attempts: Sequence[Sequence[model.Event]] | None = None,
    ) -> None:
        """Hand a write to the outbox. Unless `attempts` is None, the kept events beside the cases go with it."""
        if self._outbox is None:
            return
        from cpugpu_tui.store.outbox import Write

        write = Write(self._run_id, save)
        if attempts is not None:
            write.attempts, write.beside, self._beside = attempts, self._beside, []
        self._outbox.put(write)
