"""Runs a plan on every host of a fleet, with a session for each, and delivers all events in one thread."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cpugpu_tui.config.hosts import Host
from cpugpu_tui.errors import STOP_REQUESTED, CpuGpuError, NoTorchError, ProtocolError
from cpugpu_tui.model import Plan
from cpugpu_tui.model.names import CODE
from cpugpu_tui.session.event_stream import new_id
from cpugpu_tui.session.fleet_state import CONNECTING, DONE, FAILED, STARTING, STOPPED, HostChanged, Told
from cpugpu_tui.session.planning import nth_plan
from cpugpu_tui.session.session import Session
from cpugpu_tui.transport.agent_command import CRASHED, HELLO_LIMIT_S, MISBEHAVING, NO_TORCH, VERSION, HostError
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.guard import MisbehavedError

if TYPE_CHECKING:
    from cpugpu_tui.store.outbox import Outbox

Deliver = Callable[[str, Told], None]
"""Called with a host and what happened there, always in the thread that called `Fleet.run`."""

AT_ONCE = 128
"""Most hosts at work at the same time: each needs four threads and, for ssh, a client of 10 MB."""

CONNECTING_AT_ONCE = 16
"""Most connections that are being opened at the same time: sshd drops more than 10 to 100 (MaxStartups)."""

WAITING_EVENTS = 2_000
"""Most events that wait for the listener. Sessions with more wait, so memory stays bounded."""

SEEDS_APART = 1_000
"""Distance between the seeds of two simulated hosts; within a series the seed grows by one for each run."""


@dataclass(frozen=True)
class FleetPlan:
    """The hosts, and what each of them runs."""

    hosts: tuple[Host, ...]
    plan: Plan
    repeat: int = 1
    """Number of runs in each host's series."""
    case_timeout_s: float | None = None
    hello_limit_s: float = HELLO_LIMIT_S
    at_once: int = AT_ONCE
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts that are added to the environment of every run."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Path → content of the files of the plan's code, which go with the agents."""


class Fleet:
    """One fleet run. `run` blocks; `stop` and `kill` may be called from any thread and from a signal's handler."""

    def __init__(self, asked: FleetPlan, outbox: Outbox | None = None) -> None:
        self._asked, self._outbox = asked, outbox
        self.fleet_id = new_id()
        """Saved with each of its runs."""
        self.signal_exit = 0
        """Exit code requested by a signal (143, 129); 0 without one."""
        self._queue: queue.Queue[tuple[str, Told] | None] = queue.Queue(WAITING_EVENTS)
        self._doors = threading.Semaphore(CONNECTING_AT_ONCE)
        self._stop, self._kill, self._over = threading.Event(), threading.Event(), threading.Event()
        # Reentrant: a signal handler may interrupt another one in the same thread.
        self._lock = threading.RLock()
        self._live: dict[str, Session] = {}

    @property
    def stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Stop every host after its block in flight, and start no other."""
        self._stop.set()
        self._doors.release(len(self._asked.hosts))
        for session in self._sessions():
            session.stop()

    def kill(self) -> None:
        """Stop every host at once. Finished cases are saved."""
        self._kill.set()
        self.stop()
        for session in self._sessions():
            session.kill()

    def _sessions(self) -> list[Session]:
        with self._lock:
            return list(self._live.values())

    def run(self, deliver: Deliver) -> None:
        """Run on all hosts. A failure of a host is its last `HostChanged`, not an exception.

        An exception of `deliver` ends all agents and is raised again.
        """
        hosts = self._asked.hosts
        pool = ThreadPoolExecutor(min(self._asked.at_once, len(hosts)), thread_name_prefix="fleet")
        try:
            for index, host in enumerate(hosts):
                pool.submit(self._run_host, index, host)
            left = len(hosts)
            while left:
                told = self._queue.get()
                if told is None:
                    left -= 1
                else:
                    deliver(*told)
        except BaseException:
            self.kill()
            threading.Thread(target=self._drain, name="fleet-drain", daemon=True).start()
            raise
        finally:
            pool.shutdown()
            self._over.set()

    def _drain(self) -> None:
        """Discard events that nobody listens to any more, so that no session waits for the queue."""
        while not self._over.is_set():
            with suppress(queue.Empty):
                self._queue.get(timeout=0.1)

    def _run_host(self, index: int, host: Host) -> None:
        def tell(told: Told) -> None:
            self._queue.put((host.host, told))

        try:
            tell(self._runs_of(index, host, tell))
        except CpuGpuError as error:
            tell(_changed(error))
        except Exception as error:  # noqa: BLE001 - a failure on one host, bugs included, must not stop the others
            tell(HostChanged(CRASHED, f"Internal error on {host.host}: {error!r}.", "Please report it."))
        finally:
            self._queue.put(None)

    def _wait_to_connect(self, host: Host) -> Callable[[], None]:
        """Wait for a place among the hosts that connect; return a function that gives it back once."""
        if host.launcher == "srun":  # Slurm has a queue of its own
            return lambda: None
        self._doors.acquire()
        has_left = threading.Lock()  # never released
        return lambda: self._doors.release() if has_left.acquire(blocking=False) else None

    def _runs_of(self, index: int, host: Host, tell: Callable[[Told], None]) -> HostChanged:
        """Run a host's series and return how it ended."""
        if self._stop.is_set():
            return _STOPPED
        leave_queue = self._wait_to_connect(host)
        if self._stop.is_set():
            leave_queue()
            return _STOPPED
        tell(HostChanged(CONNECTING))
        asked = self._asked
        agents = Agents(None, simulated=asked.plan.simulation is not None, own=[CODE] if asked.plan.codes else [],
                        host=host, files=asked.files, hello_limit_s=asked.hello_limit_s)  # fmt: skip

        def reached() -> None:
            leave_queue()
            tell(HostChanged(STARTING))

        agents.on_reached = reached
        series_id, ended = new_id(), _STOPPED
        try:
            for number in range(1, self._asked.repeat + 1):
                plan = nth_plan(self._asked.plan, index * SEEDS_APART + number)
                ended = self._run_once(plan, host, agents, series_id, tell)
                if ended.state != DONE:
                    break
        finally:
            leave_queue()
            with self._lock:
                self._live.pop(host.host, None)
            agents.close()
        return ended

    def _run_once(
        self, plan: Plan, host: Host, agents: Agents, series_id: str, tell: Callable[[Told], None]
    ) -> HostChanged:
        facts = {**self._asked.facts, **facts_of(host, self.fleet_id)}
        session = Session(plan, agents, self._outbox, series_id, self._asked.case_timeout_s, facts, began_s=math.inf)
        with self._lock:
            self._live[host.host] = session
        # A stop that came before the session was listed did not reach it.
        if self._kill.is_set():
            session.kill()
        elif self._stop.is_set():
            session.stop()
        finished = session.run(tell)
        session.saver.tag(host.tags)
        if self._kill.is_set() and finished.status == "failed":
            return _STOPPED  # the failure comes from our kill
        if finished.status == "done":
            return HostChanged(DONE)
        if finished.status == "stopped":
            return HostChanged(STOPPED, finished.message or STOP_REQUESTED, finished.remedy)
        if session.error is not None:
            return _changed(session.error)
        return HostChanged(FAILED, finished.message or "The run failed.", finished.remedy)


_STOPPED = HostChanged(STOPPED, STOP_REQUESTED)


def facts_of(host: Host | None, fleet_id: str = "") -> dict[str, Any]:
    """Return the facts about host and fleet for a run's environment; nothing for a run on this machine."""
    fleet = {"fleet": fleet_id} if fleet_id else {}
    file = {"hosts_file": host.file} if host is not None and host.file else {}
    return {} if host is None else {**fleet, "fleet_host": host.host, "launcher": host.launcher, **file}


def _changed(error: CpuGpuError) -> HostChanged:
    if isinstance(error, HostError):
        return HostChanged(error.kind, error.message, error.remedy)
    if isinstance(error, NoTorchError):
        remedy = "Name one that has torch with --python or in the hosts file, or load one in `pre`."
        return HostChanged(NO_TORCH, error.message, remedy)
    states = {MisbehavedError: MISBEHAVING, ProtocolError: VERSION}
    return HostChanged(states.get(type(error), CRASHED), error.message, error.remedy)
