"""One run from plan to end: agents, events, store. App, tables and exports all use the events that it delivers."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cpugpu_tui import model
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_INTERRUPTED, EXIT_OK, CpuGpuError
from cpugpu_tui.session.endings import FRUITLESS_AGENTS, failed_by, given_up, late, require_torch, without_ceilings
from cpugpu_tui.session.event_stream import OVERRUN_S, Deliver, EventStream, new_id
from cpugpu_tui.session.further_starts import FurtherStarts, drifting
from cpugpu_tui.session.parallel import claim_agent
from cpugpu_tui.session.request import out_of_time
from cpugpu_tui.session.resume import Unfinished, require_environment
from cpugpu_tui.session.saver import Saver
from cpugpu_tui.transport.agent_output import Agent, AgentExited, Message
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.agent_process import LOAD_LIMIT_S

if TYPE_CHECKING:
    from cpugpu_tui.store.outbox import Outbox

POLL_S = 0.2
"""How often a run checks its time limits while the agent is silent."""

CEILINGS_S = 3.0
"""Time limit for measuring the peak rates of a machine after its first run."""

CEILINGS_HANG_S = 5 * CEILINGS_S
"""An agent hangs if it is silent for this long while it measures peak rates."""

COMPILE_LIMIT_S = 300.0
"""Time limit of the compiler for a row, and for its own start, without --case-timeout."""

COMPILE_PHASES = (model.COMPILING, model.COMPILER_START)
"""Steps that cannot poll for a stop, so a stop ends the process."""

STOP_LIMIT_S = 3.0
"""How long a person's code may continue after a stop, beyond its block in flight. It may never return."""

KILL_AFTER_S = 1.0
"""A terminated agent is killed if it is still alive after this time."""

_STOPPED = model.RunFinished(status="stopped", exit_code=EXIT_INTERRUPTED)

ABANDON_AFTER_S = 1.2
"""A run ends this long after a kill even if its agent does not: a thread cannot be killed."""


class Session:
    """Runs one plan. `run` blocks; the other methods may be called from any thread."""

    def __init__(
        self, plan: model.Plan, agents: Agents, outbox: Outbox | None = None, series_id: str | None = None,
        case_timeout_s: float | None = None, facts: dict[str, Any] | None = None, *, ceilings: bool = False,
        saved: Unfinished | None = None, began_s: float | None = None,
    ) -> None:  # fmt: skip
        """Prepare to run `plan`.

        With `ceilings`, peak rates that the history lacks are measured after the cases. With a `saved` run only its
        missing cases are timed, see `resumed`. The time limit begins at `began_s` (monotonic; infinite: when the agent
        is ready), or with `run`.
        """
        self._saved, self._began_s = saved, began_s
        self._wants_ceilings = ceilings
        self._plan = plan
        self._agents = agents
        self._case_timeout_s = case_timeout_s
        self._facts = facts or {}
        self.run_id = saved.started.run_id if saved is not None else new_id()
        self.series_id = series_id or new_id()
        self.saver = Saver(outbox, self.run_id)
        """Saves this run to the history."""
        self.signal_exit = 0
        """Exit code requested by a signal (143, 129); 0 without one."""
        self.error: CpuGpuError | None = None
        """Why the run failed as a whole; None if it has not."""
        self.on_live: Callable[[bool], None] = lambda _live: None
        """Called with True before the plan is sent and with False at the end; what would disturb timing pauses then."""
        self.on_turn: Callable[[model.Progressed], None] = lambda _turn: self.resume()
        """Called when an agent that takes turns waits for the next one, which begins with `resume`."""
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._agent: Agent | None = None
        self._stop = threading.Event()
        self._kill = threading.Event()
        self._kill_message = "Stopped at once."
        self._paused = False
        self._plan_sent = False
        self._stream = EventStream(plan, self.saver, saved)
        self._further = FurtherStarts(self, self._stream, plan, agents)

    @classmethod
    def resumed(cls, run: Unfinished, plan: model.Plan, agents: Agents, outbox: Outbox, case_timeout_s: float | None,
                began_s: float | None = None, *, ceilings: bool = False) -> Session:  # fmt: skip
        """Return a session for the missing cases of a saved run. It delivers the saved events first.

        `plan` is that of the run; its time limit may be another one.

        Nothing is written before environment and devices are known to be the same.
        """
        started = run.started
        settled = any(isinstance(event, model.CaseFinished | model.CaseFailed) for event in run.events)
        plan = replace(plan, calibrate=plan.calibrate and not settled)
        timeout_s = case_timeout_s or started.environment.get("case_timeout_s")
        limited = replace(started, plan=replace(started.plan, max_seconds=plan.max_seconds))  # as "Again:" says it
        saved = replace(run, events=(limited, *run.events[1:]))
        return cls(plan, agents, outbox, started.series_id, timeout_s, ceilings=ceilings, saved=saved, began_s=began_s)

    # ---------------------------------------------------------------- requests

    def stop(self) -> None:
        """Stop after the block in flight."""
        self._stop.set()
        self._command("stop")

    def kill(self) -> None:
        """Stop at once: terminate the agent, then kill it. Finished cases are saved."""
        self._stop.set()
        self._kill.set()
        if (agent := self._agent) is not None:
            agent.end(at_once=False)
            killer = threading.Timer(KILL_AFTER_S, agent.end, kwargs={"at_once": True})
            killer.daemon = True
            killer.start()

    def pause(self) -> None:
        """Pause between half-rounds."""
        self._paused = True
        self._command("pause")

    def resume(self) -> None:
        """Continue after a pause."""
        self._paused = False
        self._command("resume")

    @property
    def stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._stop.is_set()

    @property
    def left_s(self) -> float:
        """What is left of the time limit, seconds; infinite without one."""
        return (self._plan.max_seconds or math.inf) + (self._began_s or 0.0) - time.monotonic()

    def add_telemetry(self, event: model.TelemetryRead) -> None:
        """Add a telemetry reading of this machine to the events of this run, unless it runs on another one."""
        if self._agents.host is None:
            self._inbox.put(event)

    def _command(self, word: str) -> None:
        # An agent would take an early command for its plan. `follow` sends requests that came before the plan.
        if (agent := self._agent) is not None and self._plan_sent:
            agent.command(word)

    # ---------------------------------------------------------------- the run

    def run(self, deliver: Deliver) -> model.RunFinished:
        """Run the plan and deliver its events in order; return the last one too.

        A finished case is committed before it is delivered. A failure of the run is its last event, not an exception.
        """
        self._stream.deliver = deliver
        started = time.monotonic()
        self._began_s = self._began_s or started
        try:
            finished = self._run_agents(started)
            if finished.status == "done" and self._plan.starts > 1 and self._agents.worker != "thread":
                finished = self._further.run(finished, started)
            for earlier in self.saver.earlier_starts() if finished.status == "done" else ():
                self._stream.add(earlier)
        except CpuGpuError as error:
            self.error = error
            finished = failed_by(error)
        finally:
            self._further.close()
            if (agent := self._agent) is not None:
                agent.end(at_once=False)
            self.on_live(False)
        self._stream.skip_rest(finished)
        if finished.status == "done" and self._stream.failed_cases:
            finished = replace(finished, exit_code=EXIT_CASES_FAILED)
        elif finished.status == "done" and self._plan.cases and not self._stream.timed_cases and self._saved is None:
            finished = out_of_time(self._plan, finished, self._stream.left.state)
        return self._stream.end(finished)

    def _run_agents(self, started: float) -> model.RunFinished:
        """Give the plan to an agent; if it dies give the remaining cases to another one."""
        fruitless = 0
        while True:
            settled_before = len(self._stream.left.settled)
            hello = self._start_agent()
            if hello is None:
                if self.stopping:
                    return _STOPPED
                if not self._stream.has_begun:
                    raise late(self._plan.max_seconds or 0.0, is_simulated=self._plan.simulation is not None)
                limit = f"the time limit of {self._plan.max_seconds:g} s (--max-seconds)"
                return model.RunFinished(status="done", message=f"No further process was started: {limit} was over.")
            if isinstance(hello, AgentExited):
                outcome: model.RunFinished | AgentExited = hello
            else:
                if not self._stream.has_begun:
                    self._begin(hello)
                outcome = self.follow(self._remaining(started))
            if isinstance(outcome, model.RunFinished):
                return outcome
            if self._measures_ceilings:
                return without_ceilings(None if self._kill.is_set() else outcome)
            if outcome.error is not None and not self._kill.is_set():
                raise outcome.error  # no case caused it, and another agent would fail too
            if self._kill.is_set():
                return model.RunFinished(status="stopped", message=self._kill_message, exit_code=EXIT_INTERRUPTED)
            self._stream.settle_crash(outcome)
            fruitless = fruitless + 1 if len(self._stream.left.settled) == settled_before else 0
            if fruitless > FRUITLESS_AGENTS:
                raise given_up(self._plan, self._agents.python, hello, outcome)
            if not fruitless and not self._stream.left.cases and self._plan.search is None:
                return model.RunFinished(status="done", exit_code=EXIT_OK)
            if self._stop.is_set():
                return _STOPPED

    @property
    def _measures_ceilings(self) -> bool:
        """Whether all cases are over and the agent measures peak rates, which no result depends on."""
        plan, blame = self._plan, self._stream.blame
        return bool(plan.cases) and not plan.calibrate and blame is not None and blame.phase == model.CALIBRATION

    def _start_agent(self) -> model.Hello | AgentExited | None:
        """Take an agent and wait for its hello or its end; None after a stop and after the time limit.

        Raises:
            NoTorchError: its interpreter lacks torch, which the plan needs.
            ProtocolError: it speaks another protocol version.
        """
        self._further.prepare()
        agent = claim_agent(self._plan, self._agents)
        self.use(agent)
        hello = self.hello()
        if not self._stream.has_begun and self._further.await_ready():
            self.use(agent)
        return hello

    def use(self, agent: Agent) -> None:
        """Listen to this agent from now on. Readings that wait elsewhere are handled."""
        self._plan_sent = False
        self._agent = agent
        old, self._inbox = self._inbox, agent.messages
        waiting = [old.get() for _ in range(old.qsize())]
        for early in waiting:
            if isinstance(early, model.TelemetryRead):
                self._stream.add_telemetry(early)
            else:
                old.put(early)  # of an agent that may be used again

    def hello(self) -> model.Hello | AgentExited | None:
        """Wait for the hello of the agent in use or for its end; None after a stop and after the time limit."""
        while not self._stop.is_set() and self.left_s > 0:
            message = self._next(0.1)
            if isinstance(message, AgentExited):
                if message.error is not None:
                    raise message.error
                return message
            if isinstance(message, model.Hello):
                require_torch(self._plan, message)
                return message
        return None

    def _begin(self, hello: model.Hello) -> None:
        """Deliver the first event, or all events of the saved run.

        Raises:
            UnfitError: the environment is not that of the saved run.
        """
        if self._saved is not None:
            require_environment(self._saved, hello)
        self.on_live(True)
        if self._saved is not None:
            self._stream.deliver_saved(self._saved)
            return
        told: dict[str, Any] = {"worker": self._agents.worker, "python_option": self._agents.python}
        if self._case_timeout_s is not None:  # not part of the plan: the controller enforces it
            told["case_timeout_s"] = self._case_timeout_s
        environment = {**hello.environment, **told, **self._facts}
        known = self.saver.known_ceilings(self._plan, environment)
        self._plan, self._began_s = replace(self._plan, ceilings=known), min(self._began_s or 0.0, time.monotonic())
        self._stream.begin(
            model.RunStarted(run_id=self.run_id, series_id=self.series_id, plan=self._plan, environment=environment)
        )

    def _remaining(self, started: float) -> model.Plan:
        plan = self._stream.left.plan(time.monotonic() - started).limited(self.left_s)
        # Without a writable history they would be measured after every run.
        is_wanted = self._wants_ceilings and self.saver.keeps_ceilings and not plan.parallel
        plan = replace(plan, ceilings_s=CEILINGS_S if is_wanted and self._plan.cases else None)
        # The agents of a duet run on one machine at one time.
        return drifting(plan, str(self._facts.get(model.DUET) or self.run_id))

    def follow(self, plan: model.Plan) -> model.RunFinished | AgentExited:
        """Send the plan and handle events until the agent is done or dead."""
        assert self._agent is not None
        self._stream.blame = None
        self.saver.forget_attempts()
        self._agent.send_plan(plan)
        self._plan_sent = True
        if self._stop.is_set():
            self._agent.command("stop")
        elif self._paused:
            self._agent.command("pause")
        silent_s, stopping_s, killed_s, asked, importing, has_answered = 0.0, 0.0, 0.0, time.monotonic(), "", False
        while True:
            message = self._next(POLL_S)
            # A longer poll means that this process was suspended (ctrl+z), not that the agent was silent.
            waited_s = min(time.monotonic() - asked, 2 * POLL_S)
            asked = time.monotonic()
            silent_s = 0.0 if self._paused else silent_s + waited_s
            stopping_s += waited_s if self._stop.is_set() else 0.0
            killed_s += waited_s if self._kill.is_set() else 0.0
            if message is None:
                what = "code did not return" if has_answered or importing else "process did not answer"
                self._end_endless_code(what, min(silent_s, stopping_s))
                self._limit_import(importing, silent_s)
                if killed_s >= ABANDON_AFTER_S or self._timed_out(silent_s):
                    return AgentExited(-9, (f"no answer for {silent_s:.0f} s",))
                continue
            if isinstance(message, model.WorkloadsLoading):
                importing = message.source
                continue
            if not isinstance(message, model.TelemetryRead):
                silent_s, importing, has_answered = 0.0, "", True
            if isinstance(message, (AgentExited, model.RunFinished)):
                return message
            if isinstance(message, model.Progressed) and message.phase == model.TURN:
                self._paused = True
                self.on_turn(message)
            elif self._further.is_running:
                self._further.take(message)
            else:
                self._stream.add(message)

    def _end_endless_code(self, what: str, waited_s: float) -> None:
        """Kill the agent if a person's code has not returned for this long after a stop: one ctrl+c has to do."""
        blame = self._stream.blame
        if blame is not None and blame.phase in COMPILE_PHASES and waited_s > 0 and not self._kill.is_set():
            self._kill_message = "Stopped while torch compiled."
            self.kill()
        estimate_s = (blame.estimate_s if blame is not None else None) or 0.0
        is_own = self._plan.codes or self._plan.own_files
        if is_own and not self._kill.is_set() and waited_s >= STOP_LIMIT_S + 2 * estimate_s:
            self._kill_message = f"Stopped: the {what} for {waited_s:.0f} s."
            self.kill()

    def _limit_import(self, place: str, silent_s: float) -> None:
        """Raise an error if the import of a timed function takes too long; without a place, none is imported."""
        limit_s = self._case_timeout_s or LOAD_LIMIT_S
        if place and silent_s >= limit_s and not self._stop.is_set():
            raise CpuGpuError(f"{place}: The import has not ended after {limit_s:g} s.",
                              "Move the work into the function, or raise --case-timeout.")  # fmt: skip

    def _timed_out(self, silent_s: float) -> bool:
        limit_s, blame = self._case_timeout_s, self._stream.blame
        if limit_s is None and blame is not None and blame.phase in COMPILE_PHASES:
            limit_s = COMPILE_LIMIT_S
        is_late = not self._paused and min(silent_s, -self.left_s) >= OVERRUN_S
        if self._agent is not None and (is_late or silent_s >= (limit_s or CEILINGS_HANG_S)):
            self._agent.hand_over()
            if not self._inbox.empty():
                return False  # it was not silent
        if self._measures_ceilings:
            is_hung = silent_s >= CEILINGS_HANG_S
        elif is_late and blame is not None and blame.case and not self._further.is_running:
            self._stream.end_late(self._plan.max_seconds or 0.0, blame)
            is_hung = True
        elif limit_s is None or blame is None or not blame.case or silent_s < limit_s:
            is_hung = False
        elif self._further.is_running:  # its case has a result
            self._further.end_silent(limit_s)
            is_hung = False
        else:
            why = f"No answer for {limit_s:g} s ({blame.step})."
            self._stream.fail(blame.case, "timeout", why, "Raise --case-timeout, or leave this case out.", blame.device)
            is_hung = True
        if is_hung and self._agent is not None:
            self._agent.end(at_once=True)
        return is_hung

    def _next(self, timeout_s: float) -> Message | None:
        try:
            message = self._inbox.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(message, model.TelemetryRead):
            self._stream.add_telemetry(message)
        return message
