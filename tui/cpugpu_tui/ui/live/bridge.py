"""Connects the threads of a run with the app: collects events and posts messages to the app."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from textual.message import Message

from cpugpu_tui import model
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.ui.live import messages
from cpugpu_tui.ui.live.backend import Backend, RunningSession

if TYPE_CHECKING:
    from cpugpu_tui.compare.in_turn import Side
    from cpugpu_tui.model import Ceilings, Event, Plan
    from cpugpu_tui.session.duet import Duet
    from cpugpu_tui.session.request import PlanRequest
    from cpugpu_tui.transport.agent_pool import Agents
    from cpugpu_tui.ui.live.duet import DuetView
    from cpugpu_tui.ui.live.saved_runs import SavedRuns


class DisturbingError(CpuGpuError):
    """Reading the history now would disturb the timing."""

    title = "Not during a run"


class Bridge:
    """Owns the session of the run. Worker threads reach the app only by messages."""

    def __init__(self, backend: Backend, post: Callable[[Message], bool]) -> None:
        """Post messages with `post`, which must be thread-safe and must not block."""
        self.backend = backend
        """Opens, suspends and closes what a run needs. Its outbox is closed by the caller of the app."""
        self._post = post
        self._lock = threading.RLock()
        self._events: list[Event] = []
        self._session: RunningSession | None = None
        self._streaming = False
        self._has_sampler = False
        """Whether readings come from `_telemetry_read`. A demo's readings are events of its recording."""
        self._measured: list[Ceilings] = []
        """Peak rates that the runs of the series measured."""
        self._opened = threading.Event()
        """Set once everything is open. Keys work from the first frame, so a run may be requested before that."""
        self._stop = self._killed = self._paused = self._leaving = self._ended = False
        self._is_writable = True
        """Whether the history was writable at the last check."""
        self.repeat_number = 1
        """Number of the current run in its series."""
        self._reading = threading.Lock()
        self._searching = threading.Lock()
        self.duet: DuetView | None = None
        """The last duet, also while it is played."""
        self._begun = False
        """Whether a series was requested and is not over. Meanwhile comparisons do not read the history."""

    # ---------------------------------------------------------------- on worker threads

    def open(self) -> None:
        """Open everything that a run needs. Runs on the worker thread `open`."""
        self.backend.on_wait, self.backend.on_notice = self._agent_awaited, self._notice
        try:
            self.backend.open(self._agent_reported, self._telemetry_read, self._notice)
        except CpuGpuError as error:
            self._post(messages.AgentReported(error))
        finally:
            if (outbox := self.backend.outbox) is not None:
                self._is_writable = outbox.is_writable
                outbox.on_change = self._saving_changed
            self._opened.set()
        if notice := self.backend.store_notice:
            self._notice(notice)
        self._post(messages.CeilingsKnown(self.backend.ceilings()))
        # Imported ahead of the first `r`, whose paint they would delay (122-262 ms instead of 63-77).
        from cpugpu_tui.compare import changes  # noqa: F401

        self._post(messages.EarlierKnown(self.backend.earlier()))

    def survey(self) -> None:
        """Ask an agent for all devices. Runs on the worker thread `survey`."""
        self._wait_until_open()
        try:
            found = self.backend.survey()
        except CpuGpuError as error:
            self._post(messages.DevicesReported((), str(error)))
        else:
            devices, remark = (found.devices, found.no_gpu or "") if found is not None else ((), "")
            self._post(messages.DevicesReported(devices, remark))

    def search_python(self) -> None:
        """Look for an interpreter that can do more than that of the agents. Runs on the worker thread `search`."""
        self._wait_until_open()
        with self._searching:
            found = self.backend.better_python(lambda: self._begun)
        self._post(messages.InterpreterFound(found, is_complete=not self._begun))

    def use_python(self, python: str) -> None:
        """Switch to another interpreter, unless a run has begun. Runs on the worker thread `search`."""
        self._wait_until_open()
        with self._searching:
            if self._begun:
                return
            try:
                self.backend.use_python(python)
            except CpuGpuError as error:
                self._post(messages.AgentReported(error))

    def calibrate(self, plan: Plan) -> None:
        """Calibrate the machine; the run on the screen stays. Runs on the worker thread `run`."""
        self._wait_for_quiet()
        session = self.backend.session(plan, None, None)
        measured: list[Ceilings] = []
        remark = ""
        self._use(self.repeat_number, session)

        def deliver(event: Event) -> None:
            nonlocal remark
            if isinstance(event, model.Progressed) and event.phase == "calibration":
                self._post(messages.CalibrationAdvanced(f"{event.device}, {event.note}"))
            elif isinstance(event, model.CeilingsMeasured):
                measured.append(event.ceilings)
            elif isinstance(event, model.DevicesFound):
                remark = event.no_gpu or ""
            elif isinstance(event, model.RunFinished) and event.message:
                remark = f"{event.message} {event.remedy}".strip()

        try:
            session.run(deliver)
            self._prepare()
        finally:
            with self._lock:
                self._session, self._begun = None, False
            self._post(messages.CeilingsKnown(self._with_saved(measured), remark))
            self._post(messages.SeriesEnded())

    def _with_saved(self, measured: Sequence[Ceilings]) -> tuple[Ceilings, ...]:
        """Return the new peak rates, and the saved ones of the other devices."""
        others = [saved for saved in self.backend.ceilings() if saved.device not in {m.device for m in measured}]
        return (*measured, *others)

    def run_series(self, plan: Plan, repeats: int, case_timeout_s: float | None) -> None:
        """Run a plan `repeats` times in one series. Runs on the worker thread `run`."""
        from cpugpu_tui.session.planning import nth_plan

        self._wait_for_quiet()
        series_id: str | None = None
        with self._series():
            for number in range(1, repeats + 1):
                session = self.backend.session(nth_plan(plan, number), series_id, case_timeout_s)
                series_id = session.series_id
                self._use(number, session)
                finished = session.run(self._deliver)
                if not self._leaving:  # also after a stop: otherwise the next `r` waits 4 s for torch's import
                    self._prepare()
                if finished.status != "done" or self._stop:
                    break

    def run_duet(self, request: PlanRequest, plan: Plan, sides: Sequence[Side]) -> None:
        """Run a duet of two codes. Runs on the worker thread `run`."""
        from cpugpu_tui.ui.live.duet import DuetView

        self._wait_for_quiet()

        def begin(number: int, duet: Duet, agents: Sequence[Agents]) -> None:
            self.backend.join(duet, agents)
            self._use(number, duet)

        with self._series():
            codes = [code for side in sides for code in side.codes]
            there = partial(self.backend.agents_there, plan, codes) if plan.host else None
            self.duet = DuetView(self.backend.facts, self._deliver, self._notice, begin, there)
            self.duet.run(request, self.backend.with_peaks(plan), sides, self.backend.outbox)

    def _use(self, number: int, session: RunningSession) -> None:
        """Pass requests to this session, also those that came before it."""
        with self._lock:
            self._session, self.repeat_number = session, number
            stopped, killed, paused = self._stop, self._killed, self._paused
        if paused:
            session.pause()
        if killed:
            session.kill()
        elif stopped:  # the run then says so itself
            session.stop()

    @contextmanager
    def _series(self) -> Iterator[None]:
        """Surround a series or a duet, and tell its end."""
        self._measured.clear()
        try:
            yield
        except CpuGpuError as error:  # nothing could be sent to another machine
            from cpugpu_tui.session.endings import failed_by  # it needs the transport

            self._deliver(failed_by(error))
        finally:
            self.backend.part()
            with self._lock:
                self._session, self._streaming, self._begun = None, False, False
            if self._measured:
                self._post(messages.CeilingsKnown(self._with_saved(self._measured)))
            self._post(messages.EarlierKnown(self.backend.earlier()))
            self._post(messages.SeriesEnded())

    def _wait_until_open(self) -> None:
        """Wait until everything is open.

        Raises:
            DisturbingError: the app ended before.
        """
        self._opened.wait()
        if self._ended:
            raise DisturbingError("The app ends.", "Start it again.")

    def _wait_for_quiet(self) -> None:
        """Wait until everything is open and no thread reads the history, tries interpreters or asks for devices."""
        self._wait_until_open()
        with self._reading, self._searching:
            pass
        self.backend.end_survey()

    @contextmanager
    def between_runs(self) -> Iterator[SavedRuns]:
        """Delay the next run while the history is read. Keep each such step short.

        Raises:
            DisturbingError: a run has begun.
        """
        self._wait_until_open()
        with self._reading:
            if self._begun:
                raise DisturbingError("A run is in progress.", "Wait until it ends.")
            yield self.backend.history

    def history(self) -> SavedRuns:
        """Wait until the history is open, then return its saved runs."""
        self._wait_until_open()
        return self.backend.history

    def _prepare(self) -> None:
        try:
            self.backend.prepare()
        except CpuGpuError as error:
            self._post(messages.AgentReported(error))

    def _deliver(self, event: Event) -> None:
        if isinstance(event, model.CeilingsMeasured):
            self._measured.append(event.ceilings)
        # Posted under the lock: otherwise a reading could overtake the last events of a run.
        with self._lock:
            self._streaming = not isinstance(event, model.RunFinished)
            if isinstance(event, model.TelemetryRead) and self._has_sampler:
                return  # the run has saved it; the app got it from `_telemetry_read`
            self._events.append(event)
            if isinstance(event, (model.Gap, model.RunStarted, model.RunFinished)):
                self._post(messages.RunAdvanced(self.take()))

    def _telemetry_read(self, read: model.TelemetryRead) -> None:
        """Pass a reading to the app, once: in the run's next gap, or at once if no run sends events yet.

        The session gets it too, because it saves the readings of a run.
        """
        with self._lock:
            self._has_sampler = True
            if self._streaming:
                self._events.append(read)
            else:
                self._post(messages.TelemetryArrived(read))
            session = self._session
        if session is not None:
            session.add_telemetry(read)

    def _agent_reported(self, outcome: model.Hello | CpuGpuError) -> None:
        self._post(messages.AgentReported(outcome))

    def _agent_awaited(self, text: str) -> None:
        self._post(messages.AgentAwaited(text))

    def _saving_changed(self) -> None:
        outbox = self.backend.outbox
        assert outbox is not None
        if outbox.is_writable and not self._is_writable:
            self._is_writable = True
            self._notice("")  # removes the notice from the start that the history is not writable
        self._post(messages.SavingChanged(outbox.unsaved))

    def _notice(self, text: str) -> None:
        self._post(messages.NoticeGiven(text))

    # ---------------------------------------------------------------- on the app's thread

    def take(self) -> tuple[Event, ...]:
        """Return the events since the last call and clear them."""
        with self._lock:
            found, self._events = self._events, []
        return tuple(found)

    def expect_series(self) -> None:
        """Reset the requests made during the last series, and block new history reads."""
        with self._lock:
            self._stop = self._killed = self._paused = False
            self._begun = True

    def stop(self) -> None:
        """Stop run and series after the current block."""
        with self._lock:
            self._stop, session = True, self._session
        if session is not None:
            session.stop()

    def kill(self, *, leaving: bool = False) -> None:
        """Stop run and series at once; finished cases are saved. With `leaving`, no further agent is started."""
        with self._lock:
            self._stop, self._killed, session = True, True, self._session
            self._leaving = self._leaving or leaving
        if session is not None:
            session.kill()

    def leave(self) -> None:
        """Let go the agents, and threads that wait for `open`: an app that ended at once never opened, and hung."""
        self._ended = not self._opened.is_set()
        self._opened.set()
        self.backend.leave()

    def pause(self) -> None:
        """Pause the run between half-rounds, or the next one before it begins."""
        with self._lock:
            self._paused, session = True, self._session
        if session is not None:
            session.pause()

    def resume(self) -> None:
        """Resume the run."""
        with self._lock:
            self._paused, session = False, self._session
        if session is not None:
            session.resume()
