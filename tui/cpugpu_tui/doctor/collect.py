"""Collects the facts, all sections at once, each on a thread of its own with a deadline."""

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
from cpugpu_tui.doctor.driver_child import START_S, Asked, ask_driver
from cpugpu_tui.doctor.facts import AgentFacts, DriverFacts, Facts, HistoryFacts, Section
from cpugpu_tui.doctor.host_setup import host_setup, own_runs
from cpugpu_tui.errors import StoreError
from cpugpu_tui.model import DevicesFound, Hello, Plan, Simulation
from cpugpu_tui.render.capabilities import this_terminal
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.agent_process import no_agent
from cpugpu_tui.transport.inbox import Gone, Message
from cpugpu_tui.transport.interpreter_search import find_better

DEADLINE_S = 2.0
"""For the driver (as the sampler's), the host, the history and the terminal: all answer in 0.2 s where they work."""
HELLO_S = 60.0
"""For an agent to import torch: 1 s from a warm cache, half a minute from a busy network file system."""
CUDA_S = 20.0
"""For CUDA to list its devices: seconds on a host of 8 GPUs without persistence. Where NVML hangs it is not asked."""

T = TypeVar("T")


def collect(python: str | None, database: Path | None, simulation: Simulation | None) -> Facts:
    """Collect all facts.

    Raises:
        UsageError: there is no such interpreter.
    """
    agents = Agents(python, simulated=simulation is not None)
    agents.prepare()
    driver: Future[Asked] = Future()

    def ask() -> DriverFacts | None:
        driver.set_result(ask_driver(agents.pids(), DEADLINE_S))
        return driver.result().facts

    sections = [
        # The driver of this machine has nothing to say of a made-up one.
        *([Section("driver", ask, START_S + 5 * DEADLINE_S)] if simulation is None else []),
        Section("host", host_setup, DEADLINE_S),
        Section("own_runs", own_runs, DEADLINE_S),
        Section("history", lambda: history_facts(paths.database_path(database)), DEADLINE_S),
        Section("terminal", this_terminal, DEADLINE_S),
        Section("agent", lambda: agent_facts(agents, simulation, driver), HELLO_S + CUDA_S + START_S + 6 * DEADLINE_S),
    ]
    found: dict[str, Any] = {}
    faults: dict[str, str] = {}
    try:
        for section in sections:
            value, fault = section.result()
            if section.name == "driver" and not fault:
                fault = driver.result().fault
            if fault and value is None:
                faults[section.name] = fault
            else:
                found[section.name] = value
    finally:
        agents.close()
    facts = Facts(**found, environ=dict(os.environ), simulated=simulation is not None, faults=faults)
    if not _lacks_torch(facts):
        return facts
    return replace(facts, better_python=find_better(python, folder=Path.cwd()))


def _lacks_torch(facts: Facts) -> bool:
    """Whether another interpreter may do what the wanted one cannot."""
    if facts.simulated or facts.faults.keys() & {"agent", "driver"} or facts.agent.spared:
        return False  # not needed, or CUDA would hang in each of them
    has_torch = bool((facts.agent.environment or {}).get("torch"))
    return not has_torch or (bool(facts.driver.gpus) and not facts.agent.gpus)


def agent_facts(agents: Agents, simulation: Simulation | None, driver: Future[Asked]) -> AgentFacts:
    """Let an agent say hello and list its devices; not the latter where the driver hangs, CUDA would hang too."""
    agent = agents.take()
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    agent.listen(inbox)
    hello = _next(inbox, Hello, HELLO_S)
    if isinstance(hello, Gone):
        error = hello.error or no_agent(agents.python or "This interpreter", hello)
        return AgentFacts(problem=error.message, remedy=error.remedy)
    if hello is None:
        return AgentFacts(problem=f"It has not said hello for {HELLO_S:.0f} s.", remedy="See what its disk is doing.")
    environment = hello.environment
    if environment.get("torch_error"):
        return AgentFacts(environment)
    if simulation is None and driver.result(START_S + 5 * DEADLINE_S).hangs:
        return AgentFacts(environment, "CUDA was not asked, because the driver hangs.", spared=True)
    agent.send_plan(Plan("doctor", (), ("all",), simulation=simulation))
    devices = _next(inbox, DevicesFound, CUDA_S)
    if isinstance(devices, DevicesFound):
        return AgentFacts(environment, devices=devices.devices, no_gpu=devices.no_gpu)
    agent.end(at_once=True)
    if isinstance(devices, Gone):
        said = f" Its last line: {devices.last_lines[-1]}" if devices.last_lines else ""
        return AgentFacts(environment, f"The agent {devices.manner}.{said}", "See what `nvidia-smi` says.")
    return AgentFacts(environment, f"CUDA has not answered for {CUDA_S:.0f} s.", "Look for Xid errors in dmesg.")


def _next(inbox: queue.SimpleQueue[Message], wanted: type[T], within_s: float) -> T | Gone | None:
    """Return the next event of a class, what ended the agent instead, or None when the time is over."""
    ends_s = time.monotonic() + within_s
    while (left_s := ends_s - time.monotonic()) > 0:
        try:
            message = inbox.get(timeout=left_s)
        except queue.Empty:
            return None
        if isinstance(message, (wanted, Gone)):
            return message
    return None


def _refusal(path: Path) -> tuple[str, str] | None:
    from cpugpu_tui.config.paths import prepare_folder

    try:
        prepare_folder(path, create_parents=False)
    except StoreError as error:
        return error.message, error.remedy
    return None


def _refused(folder: Path) -> str:
    """Return why no file can be made in a folder, empty where one could: it is tried with one that is gone at once.

    Permissions alone do not tell: root may write in /proc, and a quota or a server may refuse everybody.
    """
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__


def history_facts(path: Path) -> HistoryFacts:
    """Look at the database and at its disk; leave everything as it is."""
    from cpugpu_tui.config.paths import journal_mode, mounts
    from cpugpu_tui.store import schema

    path = path.absolute()
    refusal: tuple[str, str] | None = None
    # The default folder is made by the first run; one that the person named is a typo if it is not there.
    if path != paths.default_database_path() or path.parent.exists():
        refusal = _refusal(path)
    exists = path.is_file()
    folder = next(folder for folder in path.parents if folder.is_dir())
    header = b""
    if exists and os.access(path, os.R_OK):
        with path.open("rb") as file:
            header = file.read(100)
    # SQLite writes its journal beside the file: the folder must be writable too.
    refused = _refused(folder)
    writable = not refused and (not exists or os.access(path, os.W_OK))
    disk = shutil.disk_usage(folder)
    return HistoryFacts(
        path=path,
        refusal=refusal,
        exists=exists,
        header=header,
        size_bytes=path.stat().st_size if exists else 0,
        writable=writable,
        why_not=refused,
        network=journal_mode(folder.resolve(), mounts()) == "DELETE",
        free_bytes=disk.free if disk.total else None,  # /proc and the like have no size, hence no space that is left
        known_version=len(schema.MIGRATIONS),
        application_id=schema.APPLICATION_ID,
    )
