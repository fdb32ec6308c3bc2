"""Agents, history and telemetry of the app, or the demo's recording; imported and opened after the first frame."""

from __future__ import annotations

import platform
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from cpugpu_tui.errors import CpuGpuError, StoreError
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.live.saved_runs import NO_HISTORY, SavedRuns

if TYPE_CHECKING:
    from cpugpu_tui.analysis.claim_numbers import TimedCase
    from cpugpu_tui.demo.recording import Player as DemoPlayer
    from cpugpu_tui.demo.recording import Recording
    from cpugpu_tui.model import Ceilings, DevicesFound, Hello, OwnCode, Plan, TelemetryRead
    from cpugpu_tui.session.devices import DeviceSurvey
    from cpugpu_tui.session.duet import Duet
    from cpugpu_tui.session.estimate import Earlier
    from cpugpu_tui.session.session import Session
    from cpugpu_tui.state.state import RunState
    from cpugpu_tui.store import Store
    from cpugpu_tui.store.outbox import Outbox
    from cpugpu_tui.telemetry.sampler import Telemetry
    from cpugpu_tui.transport.agent_pool import Agents
    from cpugpu_tui.transport.interpreter_search import Interpreter

    OnAgent = Callable[[Hello | CpuGpuError], None]
    OnTelemetry = Callable[[TelemetryRead], None]

WAIT_S = 5.0
"""How long to wait for a history that another program has locked."""

REPLAY_ENDED = "end of the recording"
"""Notice after the last reading of a recording."""

RunningSession: TypeAlias = "Session | DemoPlayer | Duet"
"""What runs now: one run, measured or played, or a pair of agents."""


class Backend:
    """Opens everything that a run needs. `open` and `session` are called on worker threads."""

    def __init__(self, options: AppOptions) -> None:
        """Store the options; nothing is imported or opened before `open`."""
        self._options = options
        self._agents: Agents | None = None
        self._others: tuple[Agents, ...] = ()
        self._no_store = NO_HISTORY
        self.outbox: Outbox | None = None
        """Saves runs to the history; None before `open`, and if nothing is saved."""
        self.on_notice: Callable[[str], None] = lambda _text: None
        """Called with a notice that stays."""
        self.on_wait: Callable[[str], None] = lambda _text: None
        """Called with a sentence if an agent takes long to start."""
        self._sampler: Telemetry | None = None
        self._survey: DeviceSurvey | None = None
        self._is_leaving = threading.Event()

    def open(self, on_agent: OnAgent, on_telemetry: OnTelemetry, on_notice: Callable[[str], None]) -> None:
        """Start telemetry, open the store and start the standby agent. Returns before the agent is ready.

        A replay has no agents and no history.

        Raises:
            CpuGpuError: the interpreter does not exist.
        """
        from cpugpu_tui.transport.interpreter_search import AUTO, choose

        options = self._options
        if options.replay is not None:
            from cpugpu_tui.telemetry.recording import Player

            self._sampler = Player(options.replay, on_telemetry, lambda: on_notice(REPLAY_ENDED))
            self._sampler.start()
            return
        self._agents = agents = self._new_agents(None if options.python == AUTO else options.python)
        agents.on_ready = on_agent
        from cpugpu_tui.telemetry.sampler import sampler_of

        self._sampler = sampler_of(
            options.request.simulation,
            on_telemetry,
            lambda: {pid for each in self._all_agents() for pid in each.pids()},
        )
        self._sampler.start()
        notices = []
        if options.save:
            store = None
            try:
                store = self._open_store(WAIT_S)
            except StoreError as error:
                self._no_store = error
                notices.append(f"Not saved: {error}")
            # After the package: a page that imports it at the same time found a module of it half loaded.
            from cpugpu_tui.store.outbox import Outbox

            self.outbox = Outbox(self._open_store, store)
        else:
            notices.append("not saved")
        if options.python == AUTO and options.worker == "process" and options.request.simulation is None:
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
        agents = Agents(python, self._options.worker, simulated=request.simulation is not None, own=request.own.words())
        agents.on_wait = self.on_wait
        return agents

    def better_python(self, should_stop: Callable[[], bool]) -> Interpreter | None:
        """Return an interpreter whose torch can do more than that of the agents, or None. Blocks for seconds.

        The current folder is not searched: it would run programs there that nobody asked for.
        """
        from cpugpu_tui.transport.interpreter_search import find_better

        assert self._agents is not None
        return find_better(self._agents.python, lambda: self._is_leaving.is_set() or should_stop())

    def use_python(self, python: str) -> None:
        """Switch to agents in this interpreter.

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
        """Cancel a search for interpreters."""
        self._is_leaving.set()

    def _open_store(self, wait_s: float) -> Store:
        from cpugpu_tui.config import paths
        from cpugpu_tui.store import is_read_only, open_read_only, open_store

        path = paths.database_path(self._options.database)
        # A read-only history can still be viewed; new runs stay unsaved.
        return open_read_only(path) if is_read_only(path) else open_store(self._options.database, wait_s=wait_s)

    @property
    def _store(self) -> Store | None:
        """The open history; None while it cannot be opened."""
        return None if self.outbox is None else self.outbox.store

    @property
    def history(self) -> SavedRuns:
        """The saved runs, once `open` has returned."""
        return SavedRuns(self._store, self._no_store)

    facts: ClassVar[dict[str, Any]] = {"argv": sys.argv[1:], "face": "app"}
    """What the app adds to the environment of a run."""

    @property
    def agents_python(self) -> str | None:
        """The interpreter of the agents; None for that of the app."""
        return None if self._agents is None else self._agents.python

    def join(self, duet: Duet, agents: Sequence[Agents]) -> None:
        """Treat the agents of a duet like those of the app from now on."""
        self._others = tuple(agents)
        for session in duet.sessions:
            session.on_live = self._hush

    def agents_there(self, plan: Plan, codes: Sequence[OwnCode]) -> Agents:
        """Return agents on the plan's host, to which the files of `codes` go. Tell which these are.

        Raises:
            UsageError: the files cannot be sent.
        """
        from cpugpu_tui.config.hosts import host_of
        from cpugpu_tui.model.names import CODE
        from cpugpu_tui.session.code_files import announced
        from cpugpu_tui.transport.agent_pool import Agents
        from cpugpu_tui.transport.launchers import with_resources

        (host,) = with_resources([host_of(plan.host)])
        files = announced(codes, [host], self.on_notice)
        return Agents(None, simulated=plan.simulation is not None, own=[CODE], host=host, files=files)

    def part(self) -> None:
        """End the agents of a duet, and those on another machine."""
        others, self._others = self._others, ()
        for each in others:
            each.close()

    def with_peaks(self, plan: Plan) -> Plan:
        """Return a plan that is not saved with the saved peak rates."""
        from cpugpu_tui.store import with_saved_peaks

        return with_saved_peaks(plan, self._options.database, save=self._options.save)

    def session(self, plan: Plan, series_id: str | None, case_timeout_s: float | None) -> Session | DemoPlayer:
        """Return a session for one run of a plan."""
        from cpugpu_tui.session.fleet_running import facts_of
        from cpugpu_tui.session.session import Session

        assert self._agents is not None
        plan = self.with_peaks(plan)
        if plan.host:
            self._others = self._others or (self.agents_there(plan, plan.codes),)
            return Session(plan, self._others[0], self.outbox, series_id, case_timeout_s,
                           facts={**self.facts, **facts_of(self._others[0].host)})  # fmt: skip
        # An agent may run typed code only for a plan that has some; `Consent` let it through.
        self._agents.use(self._options.request.own._replace(codes=plan.codes).words())
        session = Session(plan, self._agents, self.outbox, series_id, case_timeout_s, facts=self.facts,
                          ceilings=self._options.ceilings)  # fmt: skip
        session.on_live = self._hush
        return session

    def _hush(self, live: bool) -> None:
        """Skip readings that cost the driver milliseconds while a run is live."""
        if self._sampler is not None:
            self._sampler.quiet = live

    def ceilings(self) -> tuple[Ceilings, ...]:
        """Return the peak rates of this machine's devices from their last calibration."""
        from cpugpu_tui.analysis.ceilings import newest
        from cpugpu_tui.store import saved_peaks

        simulated, host = self._options.request.simulation is not None, platform.node()
        with suppress(StoreError):
            is_saved = self._options.save
            known = self.history.store.ceilings(host) if is_saved else saved_peaks(self._options.database, host)
            return newest([found for found in known if found.simulated == simulated])
        return ()

    def earlier(self) -> Earlier:
        """Return the durations of this machine's saved runs."""
        from cpugpu_tui.session.estimate import MOST_RUNS, NOTHING_EARLIER, earlier_of

        simulated = self._options.request.simulation is not None
        with suppress(StoreError):
            runs = self.history.store.timed_runs(platform.node(), simulated=simulated, limit=MOST_RUNS)
            return earlier_of(runs)
        return NOTHING_EARLIER

    def survey(self) -> DevicesFound | None:
        """Return every device that a separate agent finds; None if it was stopped. Blocks for seconds.

        Raises:
            CpuGpuError: the agent cannot be started.
        """
        from cpugpu_tui.session.devices import DeviceSurvey

        survey = self._survey = DeviceSurvey(
            self._agents.python if self._agents is not None else None, self._options.request.simulation, self.on_wait
        )
        return survey.ask()

    def end_survey(self) -> None:
        """Stop the survey, if there is one, and wait for its end."""
        if self._survey is not None:
            self._survey.stop()

    def claim_points(self, run: RunState, ceilings: Sequence[Ceilings]) -> tuple[TimedCase, ...]:
        """Return the cases of saved runs of this machine that claims need beside those of this run."""
        from cpugpu_tui.compare.claims import points_of, stored_points

        # Simulated and measured runs are never mixed, also when a saved run of the other kind is shown.
        simulated = run.simulated if run.run is not None else self._options.request.simulation is not None
        current = points_of(run)
        run_id = run.run.run_id if run.run is not None else ""
        hostname = str(run.run.environment.get("hostname", platform.node())) if run.run is not None else platform.node()
        with suppress(StoreError):
            return stored_points(self.history.store, hostname, current, ceilings, simulated=simulated, without=run_id)
        return ()

    @property
    def store_notice(self) -> str | None:
        """Why the open database is read-only, or what opening it changed; None if neither."""
        if self._store is None:
            return None
        return self._store.notice or self._store.remark

    def prepare(self) -> None:
        """Start the next standby agent. Only between runs: importing torch takes a core for a second."""
        if self._agents is not None:
            self._agents.prepare()

    def suspend(self) -> None:
        """Suspend the agents."""
        for each in self._all_agents():
            each.suspend()

    def resume(self) -> None:
        """Resume the agents."""
        for each in self._all_agents():
            each.resume()

    def _all_agents(self) -> tuple[Agents, ...]:
        return self._others if self._agents is None else (self._agents, *self._others)

    def close(self) -> None:
        """End telemetry and agents. The history stays open for unsaved runs."""
        self.end_survey()
        self.part()
        if self._sampler is not None:
            self._sampler.stop()
        if self._agents is not None:
            self._agents.close()


class DemoBackend(Backend):
    """A backend with recorded runs in place of agents, store and telemetry."""

    def __init__(self, options: AppOptions) -> None:
        super().__init__(options)
        assert options.demo is not None
        self._recording: Recording = options.demo

    def open(self, on_agent: OnAgent, on_telemetry: OnTelemetry, on_notice: Callable[[str], None]) -> None:
        """Put all runs into the history and report the recorded agent's environment."""
        from cpugpu_tui.model import PROTOCOL, Hello
        from cpugpu_tui.store import Store
        from cpugpu_tui.store.outbox import Outbox

        store = Store.in_memory()
        for run in self._recording.runs:
            store.import_run(run.events)
        self.outbox = Outbox(lambda _wait_s: store, store)
        on_agent(Hello(protocol=PROTOCOL, environment=self._recording.environment))

    def session(self, plan: Plan, series_id: str | None, case_timeout_s: float | None) -> Session | DemoPlayer:
        """Return a session that plays all runs."""
        from cpugpu_tui.demo.recording import Player

        return Player(self._recording, self._options.demo_pace)

    def ceilings(self) -> tuple[Ceilings, ...]:
        """Return the peak rates of the recorded machine."""
        return self._recording.ceilings
