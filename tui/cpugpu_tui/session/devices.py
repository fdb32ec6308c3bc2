"""Asks an agent, started for this only, which devices it finds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from cpugpu_tui.errors import UnfitError
from cpugpu_tui.model import DevicesFound, Event, Plan, RunFinished, Simulation
from cpugpu_tui.session.endings import error_of
from cpugpu_tui.session.session import Session
from cpugpu_tui.transport.agent_pool import Agents, print_once

WAIT_S = 5.0
"""How long a cancelled survey may take to end."""


class DeviceSurvey:
    """A run of a plan without cases. Call `ask` once; `stop` may be called from any thread."""

    def __init__(
        self, python: str | None, simulation: Simulation | None, on_wait: Callable[[str], None] = print_once
    ) -> None:
        """`on_wait` is called, from another thread, with a sentence if the agent takes long to start."""
        self._agents = Agents(python, simulated=simulation is not None)
        self._agents.on_wait = on_wait
        self._session = Session(Plan("devices", (), ("all",), simulation=simulation), self._agents)
        self._over = threading.Event()

    def ask(self) -> DevicesFound | None:
        """Return every device of this machine that torch can use; None if it was stopped. Blocks for seconds.

        Raises:
            UsageError: the interpreter does not exist.
            UnfitError: no agent could be started, or it found no device.
        """
        try:
            found, finished = _asked(self._session)
        finally:
            self._agents.close()
            self._over.set()
        if found is not None or self._session.stopping:
            return found
        raise error_of(finished, "No device was found.")

    def stop(self) -> None:
        """Cancel it, and wait until its process is gone: it would disturb the times of a run."""
        if not self._over.is_set():
            self._session.kill()
            self._over.wait(WAIT_S)


def with_gpu_names(plan: Plan, agents: Agents) -> Plan:
    """Return a parallel plan with the names of its GPUs in place of `cuda`, as an agent reports them.

    Raises:
        CpuGpuError: no agent could be started, or there are fewer than two GPUs.
    """
    if not plan.parallel:
        return plan
    found, finished = _asked(Session(Plan("devices", (), plan.devices, simulation=plan.simulation), agents))
    gpus = [device.name for device in found.devices] if found is not None else []
    if not gpus:
        raise error_of(finished, "No GPU was found.")
    if len(gpus) < 2:
        raise UnfitError(f"--parallel needs two GPUs, but only {gpus[0]} was found.", "Leave --parallel out.")
    return replace(plan, devices=tuple(gpus))


def _asked(session: Session) -> tuple[DevicesFound | None, RunFinished]:
    """Run a plan without cases; return the devices that its agent found, and the end of the run."""
    told: list[Event] = []
    finished = session.run(told.append)
    return next((event for event in told if isinstance(event, DevicesFound)), None), finished
