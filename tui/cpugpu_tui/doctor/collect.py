"""Collect the facts of all sections in parallel, each on its own thread with a deadline, and judge them."""

from __future__ import annotations

import os
import queue
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cpugpu_tui.config import paths
from cpugpu_tui.config.paths import journal_mode, mounts, prepare_folder
from cpugpu_tui.doctor import checks_gpu, checks_host, checks_torch
from cpugpu_tui.doctor.driver_child import START_S, Asked, ask_driver
from cpugpu_tui.doctor.facts import (
    WORST_FIRST,
    AgentFacts,
    DriverFacts,
    Facts,
    Finding,
    HistoryFacts,
    Section,
    facts_of_host,
    fail,
    host_setup,
    own_runs,
    unknown,
)
from cpugpu_tui.errors import StoreError
from cpugpu_tui.model import ClockChecked, DevicesFound, EventClock, Hello, Plan, Simulation, TelemetryRead
from cpugpu_tui.render.capabilities import this_terminal
from cpugpu_tui.state.state import RunState
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


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    """Stable: scripts look for it."""
    needs: tuple[str, ...]
    """Sections of `Facts` that the check reads."""
    judge: Callable[[Facts], Finding]
    """Pure function of the facts."""


CHECKS = (
    Check("driver", ("driver",), checks_gpu.driver),
    Check("driver.gpus", ("driver",), checks_gpu.gpus_answer),
    Check("torch", ("agent",), checks_torch.importable),
    Check("torch.build", ("agent", "driver"), checks_torch.build),
    Check("cuda.devices", ("agent", "driver"), checks_torch.devices),
    Check("cuda.clock", ("agent", "driver"), checks_torch.event_clocks),
    Check("cuda.visible", ("driver",), checks_torch.visible),
    Check("cuda.order", ("driver",), checks_torch.order),
    Check("gpu.persistence", ("driver",), checks_gpu.persistence),
    Check("gpu.clocks", ("driver",), checks_gpu.clocks),
    Check("gpu.mig", ("driver",), checks_gpu.mig),
    Check("gpu.ecc", ("driver",), checks_gpu.ecc),
    Check("gpu.pcie", ("driver",), checks_gpu.pcie),
    Check("gpu.processes", ("driver",), checks_gpu.processes),
    Check("cpu.threads", ("host",), checks_host.threads),
    Check("cpu.variables", ("agent",), checks_host.variables),
    Check("cpu.smt", ("host",), checks_host.smt),
    Check("cpu.numa", ("host",), checks_host.numa),
    Check("cpu.denormals", ("host",), checks_host.denormals),
    Check("cpu.governor", ("host",), checks_host.governor),
    Check("runs.others", ("own_runs",), checks_host.own_runs),
    Check("history.file", ("history",), checks_host.history_file),
    Check("history.place", ("history",), checks_host.history_place),
    Check("history.space", ("history",), checks_host.history_space),
    Check("terminal.size", ("terminal",), checks_host.terminal_size),
    Check("terminal.text", ("terminal",), checks_host.terminal_text),
    Check("terminal.colours", ("terminal",), checks_host.terminal_colours),
    Check("terminal.session", ("terminal",), checks_host.terminal_session),
)
"""In the order in which they are printed."""

_SIMULATED = "not judged: the machine is simulated, so its driver was not queried"
_REPORT = "Please report this bug in cpugpu-tui."


def examine(facts: Facts, checks: tuple[Check, ...] = CHECKS) -> tuple[Finding, ...]:
    """Return one finding for each check."""
    reported: set[str] = set()
    return tuple(replace(_finding(check, facts, reported), check=check.name) for check in checks)


def _finding(check: Check, facts: Facts, reported: set[str]) -> Finding:
    if facts.simulated and "driver" in check.needs and "agent" not in check.needs:
        return unknown(_SIMULATED)
    missing = [need for need in check.needs if need in facts.faults]
    for need in missing:
        if need not in reported:  # one line per missing section: repeating it would hide the other checks
            reported.add(need)
            return fail("Not judged.", facts.faults[need], "Run the check again; if it still fails, look in `dmesg`.")
    if missing:
        return unknown("not judged: see the failure above")
    try:
        return check.judge(facts)
    except Exception as error:  # noqa: BLE001 - the other checks are still worth reading
        return fail("The check could not finish.", f"It raised {type(error).__name__}: {error}", _REPORT)


# ------------------------------------------------------------------ hosts of a fleet, from what their agents report


ON_HOSTS = (
    "driver", "driver.gpus", "torch", "cuda.devices", "cuda.clock", "gpu.persistence", "gpu.mig", "gpu.ecc", "gpu.pcie",
    "gpu.processes", "cpu.threads", "cpu.variables",
)  # fmt: skip
"""Checks that need nothing but an agent on the host."""


class HostFinding(NamedTuple):
    """A finding of one host."""

    host: str
    finding: Finding


def findings_of(run: RunState, read: TelemetryRead | None) -> tuple[Finding, ...]:
    """Return the findings of a host whose agent has listed its devices; `read` is what its driver said."""
    checks = tuple(
        check for check in CHECKS if check.name in ON_HOSTS and not (run.simulated and check.name == "torch")
    )
    return examine(facts_of_host(run, read), checks)


def worst_first(hosts: Mapping[str, tuple[Finding, ...]]) -> list[HostFinding]:
    """Return the findings of all hosts: failures, then warnings; of each the check that fewest hosts share first."""
    found = [HostFinding(host, finding) for host, findings in hosts.items() for finding in findings]
    shared = Counter((each.finding.check, each.finding.verdict) for each in found)

    def place(each: HostFinding) -> tuple[int, int]:
        return WORST_FIRST.index(each.finding.verdict), shared[each.finding.check, each.finding.verdict]

    return sorted(found, key=place)
