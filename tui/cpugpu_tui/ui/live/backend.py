"""The floors below the app, imported and opened after the first frame: agents, store, telemetry."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from cpugpu_tui.errors import CpuGpuError, StoreError
from cpugpu_tui.model import Ceilings, DevicesFound, Event, Hello, Plan, RunFinished, TelemetryRead
from cpugpu_tui.transport.interpreter_search import AUTO
from cpugpu_tui.ui.live.saved_runs import NO_HISTORY, SavedRuns
from cpugpu_tui.ui.options import AppOptions

if TYPE_CHECKING:
    from cpugpu_tui.analysis.claim_numbers import TimedCase
    from cpugpu_tui.session.devices import DeviceSurvey
    from cpugpu_tui.session.estimate import Earlier
    from cpugpu_tui.state.state import RunState
    from cpugpu_tui.store import Store
    from cpugpu_tui.store.outbox import Outbox
    from cpugpu_tui.telemetry.recording import Player, Trace
    from cpugpu_tui.telemetry.sampler import Sampler
    from cpugpu_tui.telemetry.simulated import SimulatedSampler
    from cpugpu_tui.transport.agent_pool import Agents
    from cpugpu_tui.transport.interpreter_search import Interpreter

WAIT_S = 5.0
"""How long opening waits for a history that another program has locked."""

TELEMETRY_S = 1.0
"""Seconds between two sweeps."""


class RunningSession(Protocol):
    """What the app asks of `session.session.Session`."""

    @property
    def series_id(self) -> str:
        """Series of the run."""

    def run(self, deliver: Callable[[Event], None]) -> RunFinished:
        """Run to the end; blocks."""

    def stop(self) -> None:
        """Stop after the block."""

    def kill(self) -> None:
        """Stop at once."""

    def pause(self) -> None:
        """Pause between half-rounds."""

    def resume(self) -> None:
        """Go on."""

    def add_telemetry(self, event: TelemetryRead) -> None:
        """Make a reading an event of the run."""


class Backend:
    """Opens what a run needs. `open` and `session` are called on threads, never on the app's."""

    def __init__(self, options: AppOptions) -> None:
        """Take note; nothing is imported or opened before `open`."""
        self._options = options
        self._agents: Agents | None = None
        self._no_store: CpuGpuError = NO_HISTORY
        self.outbox: Outbox | None = None
        """The way of runs into the history; None before `open`, and where nothing is saved."""
        self._sampler: Sampler | SimulatedSampler | Player | None = None
        self._survey: DeviceSurvey | None = None
        self._is_leaving = threading.Event()

    def open(
        self,
        on_agent: Callable[[Hello | CpuGpuError], None],
        on_telemetry: Callable[[TelemetryRead], None],
        on_notice: Callable[[str], None],
    ) -> None:
        """Start telemetry, the standby agent, and open the store, in this order; returns when all are on their way.

        Raises:
            CpuGpuError: the interpreter does not exist.
        """
        options = self._options
        if options.replay is not None:
            self._play(options.replay, on_telemetry, on_notice)
            return
        self._agents = agents = self._new_agents(None if options.python == AUTO else options.python)
        agents.on_ready = on_agent
        self._sampler = self._new_sampler(on_telemetry)
        self._sampler.start()
        notices = []
        if options.save:
            from cpugpu_tui.store.outbox import Outbox

            store = None
            try:
                store = self._open_store(WAIT_S)
            except StoreError as error:
                self._no_store = error
                notices.append(f"Not saved: {error}")
            self.outbox = Outbox(self._open_store, store)
        else:
            notices.append("not saved")
        if options.python == AUTO and options.worker == "process" and options.request.simulation is None:
            from cpugpu_tui.transport.interpreter_search import choose

            on_notice("Looking for an interpreter whose torch can use the GPU.")
            choice = choose(self._is_leaving.is_set)
            agents.python = choice.python
            notices.append(choice.sentence)
        if notices:
            on_notice(" ".join(filter(None, notices)))
        agents.prepare()

    def _new_agents(self, python: str | None) -> Agents:
        from cpugpu_tui.transport.agent_pool import Agents

        request = self._options.request
        return Agents(
            python, self._options.worker, simulated=request.simulation is not None, own=request.own.words()
        )  # fmt: skip

    def better_python(self, should_stop: Callable[[], bool]) -> Interpreter | None:
        """Return an interpreter whose torch can do more than that of the agents, if there is one. Blocks for seconds.

        The current folder is not searched: nobody asked for it, and what lies there would be run.
        """
        from cpugpu_tui.transport.interpreter_search import find_better

        assert self._agents is not None
        return find_better(self._agents.python, lambda: self._is_leaving.is_set() or should_stop())

    def use_python(self, python: str) -> None:
        """Run everything from now on in this interpreter.

        Raises:
            CpuGpuError: it cannot be started.
        """
        assert self._agents is not None
        old, new = self._agents, self._new_agents(python)
        new.on_ready, old.on_ready = old.on_ready, None
        old.close()
        self._agents = new
        new.prepare()

    def leave(self) -> None:
        """End what need not be waited for: a search for interpreters."""
        self._is_leaving.set()

    def _new_sampler(self, on_telemetry: Callable[[TelemetryRead], None]) -> Sampler | SimulatedSampler:
        """Return what reads the machine that runs: a made-up one where its times are made up too."""
        simulation = self._options.request.simulation
        if simulation is not None:
            from cpugpu_tui.telemetry.simulated import SimulatedSampler

            return SimulatedSampler(TELEMETRY_S, on_telemetry, simulation.gpus)
        from cpugpu_tui.telemetry.sampler import Sampler

        return Sampler(TELEMETRY_S, on_telemetry, lambda: self._agents.pids() if self._agents is not None else set())

    def _play(
        self, trace: Trace, on_telemetry: Callable[[TelemetryRead], None], on_notice: Callable[[str], None]
    ) -> None:
        """Replay a trace; neither agents nor a history belong to it."""
        from cpugpu_tui.telemetry.recording import Player

        self._sampler = Player(trace, on_telemetry, lambda: on_notice("the trace has ended"))
        self._sampler.start()

    def _open_store(self, wait_s: float) -> Store:
        from cpugpu_tui.config import paths
        from cpugpu_tui.store import open_store
        from cpugpu_tui.store.read_only import is_read_only, open_read_only

        path = paths.database_path(self._options.database)
        # Where nothing can be written runs go on unsaved, and what was saved is there to be looked at.
        return open_read_only(path) if is_read_only(path) else open_store(self._options.database, wait_s=wait_s)

    @property
    def _store(self) -> Store | None:
        """The open history; None as long as it cannot be opened."""
        return None if self.outbox is None else self.outbox.store

    @property
    def history(self) -> SavedRuns:
        """The saved runs, once `open` has returned."""
        return SavedRuns(self._store, self._no_store)

    def session(self, plan: Plan, series_id: str | None, case_timeout_s: float | None) -> RunningSession:
        """Return a run that has not begun."""
        from cpugpu_tui.session.session import Session

        assert self._agents is not None
        session = Session(
            plan,
            self._agents,
            self.outbox,
            series_id,
            case_timeout_s,
            facts={"argv": sys.argv[1:], "face": "app"},
            ceilings=self._options.ceilings,
        )
        session.on_live = self._hush
        return session

    def _hush(self, live: bool) -> None:
        """Leave readings that cost the driver milliseconds alone while a run is live."""
        if self._sampler is not None:
            self._sampler.quiet = live

    def ceilings(self) -> tuple[Ceilings, ...]:
        """Return what this machine's devices reached when they were last measured."""
        import platform

        from cpugpu_tui.analysis.card import newest

        if self._store is None:
            return ()
        simulated = self._options.request.simulation is not None
        try:
            known = self._store.ceilings(platform.node())
        except StoreError:
            return ()
        return newest([found for found in known if found.simulated == simulated])

    def earlier(self) -> Earlier:
        """Return how long runs of this machine took, as far as they are saved."""
        import platform

        from cpugpu_tui.session.estimate import MOST_RUNS, NOTHING_EARLIER, earlier_of

        if self._store is None:
            return NOTHING_EARLIER
        simulated = self._options.request.simulation is not None
        try:
            return earlier_of(self._store.timed_runs(platform.node(), simulated=simulated, limit=MOST_RUNS))
        except StoreError:
            return NOTHING_EARLIER

    def survey(self) -> DevicesFound | None:
        """Return every device that an agent of its own finds; None if it was stopped. Blocks for seconds.

        Raises:
            CpuGpuError: no agent can be started.
        """
        from cpugpu_tui.session.devices import DeviceSurvey

        survey = self._survey = DeviceSurvey(
            self._agents.python if self._agents is not None else None, self._options.request.simulation
        )
        return survey.ask()

    def end_survey(self) -> None:
        """Break the survey off, if there is one; returns when it is gone."""
        if self._survey is not None:
            self._survey.stop()

    def claim_points(self, run: RunState, ceilings: Sequence[Ceilings]) -> tuple[TimedCase, ...]:
        """Return what saved runs of this machine add to a run, for the publications' claims."""
        import platform

        from cpugpu_tui.compare.claims import points_of, stored_points

        if self._store is None:
            return ()
        # A saved run may be of the other kind than this app's, and is judged among its own.
        simulated = run.simulated if run.run is not None else self._options.request.simulation is not None
        current = points_of(run)
        run_id = run.run.run_id if run.run is not None else ""
        hostname = str(run.run.environment.get("hostname", platform.node())) if run.run is not None else platform.node()
        try:
            return stored_points(
                self._store, hostname, current, ceilings, simulated=simulated, without=run_id
            )  # fmt: skip
        except StoreError:
            return ()

    @property
    def store_notice(self) -> str | None:
        """Why an open database takes nothing, or what opening it did, if a person should know."""
        if self._store is None:
            return None
        return self._store.notice or self._store.remark

    def prepare(self) -> None:
        """Start the next standby agent: between runs only, importing torch takes a core for a second."""
        if self._agents is not None:
            self._agents.prepare()

    def suspend(self) -> None:
        """Stop the agents where they are."""
        if self._agents is not None:
            self._agents.suspend()

    def resume(self) -> None:
        """Let the agents go on."""
        if self._agents is not None:
            self._agents.resume()

    def close(self) -> None:
        """End telemetry and agents; the history stays open for what is not saved yet."""
        self.end_survey()
        if self._sampler is not None:
            self._sampler.stop()
        if self._agents is not None:
            self._agents.close()
