"""Collect the facts of all sections in parallel, each on its own thread with a deadline."""

from __future__ import annotations

import os
import queue
import shutil
import tempfile
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from cpugpu_tui.config import paths
from cpugpu_tui.config.paths import journal_mode, mounts, prepare_folder
from cpugpu_tui.doctor.driver_child import START_S, Asked, ask_driver
from cpugpu_tui.doctor.facts import AgentFacts, DriverFacts, Facts, HistoryFacts, Section, host_setup, own_runs
from cpugpu_tui.errors import StoreError
from cpugpu_tui.model import ClockChecked, DevicesFound, EventClock, Hello, Plan, Simulation
from cpugpu_tui.render.capabilities import this_terminal
from cpugpu_tui.transport.agent_output import AgentExited, Message
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.agent_process import no_agent
from cpugpu_tui.transport.interpreter_search import find_better

DEADLINE_S = 2.0
"""For driver, host, history and terminal, which normally answer within 0.2 s."""
HELLO_S = 60.0
"""For an agent to import torch: 1 s from a warm cache, 30 s from a busy network file system."""
DRIVER_S = START_S + 5 * DEADLINE_S
"""For the driver's child process, which `ask_driver` ends after four deadlines."""
CUDA_S = 20.0
"""For CUDA to list its devices, which takes seconds on 8 GPUs without persistence mode."""
CLOCKS_S = 20.0
"""For the check of the event clocks: 0.2 s for each GPU, and seconds to create a context on a GPU."""

T = TypeVar("T")


def collect(python: str | None, database: Path | None, simulation: Simulation | None) -> Facts:
    """Collect all facts.

    Raises:
        UsageError: `python` does not exist.
    """
    agents = Agents(python, simulated=simulation is not None, hello_limit_s=HELLO_S)
    agents.prepare()
    driver: Future[Asked] = Future()

    def ask() -> DriverFacts | None:
        driver.set_result(ask_driver(agents.pids(), DEADLINE_S))
        return driver.result().facts

    sections = [
        # The driver of this machine does not know the simulated one.
        *([Section("driver", ask, DRIVER_S)] if simulation is None else []),
        Section("host", host_setup, DEADLINE_S),
        Section("own_runs", own_runs, DEADLINE_S),
        Section("history", lambda: history_facts(paths.database_path(database)), DEADLINE_S),
        Section("terminal", this_terminal, DEADLINE_S),
        Section(
            "agent",
            lambda: agent_facts(agents, simulation, driver),
            HELLO_S + DEADLINE_S + DRIVER_S + CUDA_S + CLOCKS_S,
        ),
    ]
    found: dict[str, Any] = {}
    faults: dict[str, str] = {}
    try:
        for section in sections:
            value, fault = section.result()
            if value is None:
                faults[section.name] = fault or driver.result().fault  # the second if `ask` returned None
            else:
                found[section.name] = value
    finally:
        agents.close()
    facts = Facts(**found, environ=dict(os.environ), simulated=simulation is not None, faults=faults)
    if not _may_find_better(facts):
        return facts
    return replace(facts, better_python=find_better(python, folder=Path.cwd()))


def _may_find_better(facts: Facts) -> bool:
    """Return whether another interpreter may do better than the chosen one."""
    if facts.simulated or facts.faults.keys() & {"agent", "driver"} or facts.agent.spared:
        return False  # a simulation needs none; otherwise CUDA would hang in every interpreter
    has_torch = bool((facts.agent.environment or {}).get("torch"))
    return not has_torch or (bool(facts.driver.gpus) and not facts.agent.gpus)


def agent_facts(agents: Agents, simulation: Simulation | None, driver: Future[Asked]) -> AgentFacts:
    """Start an agent and ask for its devices, unless the driver hangs, because CUDA would hang too."""
    agent = agents.take()
    hello = _next(agent.messages, Hello, HELLO_S + DEADLINE_S)
    if isinstance(hello, AgentExited):
        error = hello.error or no_agent(agents.python or "This interpreter", hello)
        return AgentFacts(problem=error.message, remedy=error.remedy)
    if hello is None:  # the process that started it was suspended
        return AgentFacts(problem="The agent did not report in time.", remedy="Run doctor again.")
    environment = hello.environment
    if environment.get("torch_error"):
        return AgentFacts(environment)
    if simulation is None and driver.result(DRIVER_S).hangs:
        return AgentFacts(environment, "CUDA was not queried, because the driver hangs.", spared=True)
    agent.send_plan(Plan("doctor", (), ("all",), simulation=simulation, check_clocks=True))
    devices = _next(agent.messages, DevicesFound, CUDA_S)
    if isinstance(devices, DevicesFound):
        clocks: dict[str, EventClock] = {}
        gpu_count = sum(not device.is_cpu for device in devices.devices)
        for _ in range(gpu_count):
            checked = _next(agent.messages, ClockChecked, CLOCKS_S)
            if not isinstance(checked, ClockChecked):
                break
            clocks[checked.device] = checked.clock
        return AgentFacts(environment, devices=devices.devices, no_gpu=devices.no_gpu, clocks=clocks)
    agent.end(at_once=True)
    if isinstance(devices, AgentExited):
        last_line = f" Its last line: {devices.last_lines[-1]}" if devices.last_lines else ""
        return AgentFacts(environment, f"The agent {devices.manner}.{last_line}", "Run `nvidia-smi` to check the GPU.")
    return AgentFacts(environment, f"CUDA did not answer within {CUDA_S:.0f} s.", "Look for Xid errors in dmesg.")


def _next(inbox: queue.SimpleQueue[Message], wanted: type[T], within_s: float) -> T | AgentExited | None:
    """Return the next event of a class, `AgentExited` if the agent ended, or None at the deadline."""
    ends_s = time.monotonic() + within_s
    while (left_s := ends_s - time.monotonic()) > 0:
        try:
            message = inbox.get(timeout=left_s)
        except queue.Empty:
            return None
        if isinstance(message, (wanted, AgentExited)):
            return message
    return None


def _why_not_writable(folder: Path) -> str:
    """Return why a folder rejects a temporary file; empty if it accepts one.

    Permissions are not enough: root may write to /proc, and a quota or a server may still refuse.
    """
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__


def history_facts(path: Path) -> HistoryFacts:
    """Inspect the database and its disk without changing either."""
    from cpugpu_tui.store import schema

    path = path.absolute()
    refusal: tuple[str, str] | None = None
    # The first run creates the default folder; any other folder that is missing is likely a typo.
    if path != paths.default_database_path() or path.parent.exists():
        try:
            prepare_folder(path, create_parents=False)
        except StoreError as error:
            refusal = error.message, error.remedy
    exists = path.is_file()
    folder = next(folder for folder in path.parents if folder.is_dir())
    header = b""
    if exists and os.access(path, os.R_OK):
        with path.open("rb") as file:
            header = file.read(100)
    # SQLite writes its journal beside the file, so the folder must be writable too.
    why_not = _why_not_writable(folder)
    writable = not why_not and (not exists or os.access(path, os.W_OK))
    disk = shutil.disk_usage(folder)
    return HistoryFacts(
        path=path,
        refusal=refusal,
        exists=exists,
        header=header,
        size_bytes=path.stat().st_size if exists else 0,
        writable=writable,
        why_not=why_not,
        network=journal_mode(folder.resolve(), mounts()) == "DELETE",
        free_bytes=disk.free if disk.total else None,  # /proc and the like report a size of 0
        known_version=len(schema.MIGRATIONS),
        application_id=schema.APPLICATION_ID,
    )
