"""`cpugpu-tui machine`: the machine card, from what is kept or freshly measured."""

from __future__ import annotations

import platform
import shutil
import sys
import textwrap
import time
from pathlib import Path

import msgspec

from cpugpu_tui.analysis.card import card, newest
from cpugpu_tui.cli.listing import print_json
from cpugpu_tui.cli.options import RunOptions
from cpugpu_tui.cli.progress import Progress
from cpugpu_tui.cli.run import signals_stop, writable_store
from cpugpu_tui.cli.tables import plain, unicode
from cpugpu_tui.errors import EXIT_OK, StoreError
from cpugpu_tui.model import Ceilings, CeilingsMeasured, Event, Plan, Simulation
from cpugpu_tui.runs.launch import Agents
from cpugpu_tui.runs.session import Session
from cpugpu_tui.runs.state import RunState
from cpugpu_tui.runs.store import open_store

HOW = "Measure the GPU too with: cpugpu-tui machine --measure"


def print_machine(
    options: RunOptions, devices: tuple[str, ...], simulation: Simulation | None, *, measure: bool, as_json: bool
) -> int:
    """Print the card of this machine; measure first if asked to, or the CPU alone if nothing is kept.

    Raises:
        CpuGpuError: no agent can be started, or a device cannot be used.
    """
    known = () if measure else kept(options.database, simulated=simulation is not None)
    code = EXIT_OK
    if not known:
        wanted = devices if measure else ("cpu",)
        known, code = measured(options, wanted, simulation)
        known += tuple(k for k in kept(options.database, simulated=simulation is not None) if not _has(known, k))
    if as_json:
        for found in known:
            print_json(msgspec.to_builtins(found))
        return code
    width = shutil.get_terminal_size((80, 24)).columns
    for line in card(newest(known), width, time.time_ns(), unicode=unicode()):
        text = plain("".join(text for text, _ in line)).rstrip()
        print("\n".join(textwrap.wrap(text, width)) if len(line) == 1 else text)
    if all(found.device == "cpu" for found in known) and not measure:
        print(HOW)
    return code


def _has(known: tuple[Ceilings, ...], other: Ceilings) -> bool:
    return any((found.device, found.uuid) == (other.device, other.uuid) for found in known)


def kept(database: Path | None, *, simulated: bool) -> tuple[Ceilings, ...]:
    """Return what is kept of this machine; nothing where there is no database to read."""
    try:
        store = open_store(database)
    except StoreError:
        return ()
    try:
        return tuple(found for found in store.ceilings(platform.node()) if found.simulated == simulated)
    finally:
        store.close()


def measured(
    options: RunOptions, devices: tuple[str, ...], simulation: Simulation | None
) -> tuple[tuple[Ceilings, ...], int]:
    """Calibrate devices in an agent and keep what they reached; return it with the exit code."""
    store, notice = writable_store(options)
    agents = Agents(options.python, options.worker, simulated=simulation is not None)
    plan = Plan("machine", (), devices=devices, calibrate=True, simulation=simulation)
    session = Session(plan, agents, store)
    found: list[Ceilings] = []
    state, progress = RunState(), Progress()

    def deliver(event: Event) -> None:
        nonlocal state
        state = state.apply(event)
        if isinstance(event, CeilingsMeasured):
            found.append(event.ceilings)
        progress.show(state, event)

    try:
        with signals_stop(session):
            finished = session.run(deliver)
    finally:
        progress.clear()
        agents.close()
        if store is not None:
            store.close()
    if finished.message:
        print(f"cpugpu-tui: {finished.message} {finished.remedy}".strip(), file=sys.stderr)
    if notice or session.notice:
        print(session.notice or notice, file=sys.stderr)
    return tuple(found), session.signal_exit or finished.exit_code
