"""`cpugpu-tui machine`: the machine card, from what is kept or freshly measured."""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cpugpu_tui.analysis.card import card, newest
from cpugpu_tui.cli.listing import print_json
from cpugpu_tui.cli.options import RunOptions
from cpugpu_tui.cli.progress import Progress
from cpugpu_tui.cli.run import facts, signals_stop
from cpugpu_tui.cli.saving import remark_of, save_rest, saving
from cpugpu_tui.cli.table_style import tell
from cpugpu_tui.cli.tables import unicode
from cpugpu_tui.config import paths
from cpugpu_tui.errors import EXIT_OK, StoreError, print_notice
from cpugpu_tui.model import Ceilings, CeilingsMeasured, DevicesFound, Event, Plan, Simulation
from cpugpu_tui.session.planning import check_device
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store import open_to_read
from cpugpu_tui.transport.agents import Agents

HOW = "No GPU is measured unless you ask for it: cpugpu-tui machine --measure"


@dataclass(frozen=True)
class Measured:
    """What a calibration left behind."""

    ceilings: tuple[Ceilings, ...]
    """One for each device that was measured to its end."""
    no_gpu: str | None
    """Why there is no GPU among them, if one was looked for."""
    code: int
    """What the command exits with."""


def print_machine(
    options: RunOptions, devices: tuple[str, ...], simulation: Simulation | None, *, measure: bool, as_json: bool
) -> int:
    """Print the card of this machine; measure first if asked to, or the CPU alone if nothing is kept.

    Raises:
        CpuGpuError: a device has no such name, no agent can be started, or a device cannot be used.
    """
    for device in devices:
        check_device(device)
    known = kept(options.database, simulated=simulation is not None)
    code, remark = EXIT_OK, None
    if measure or not known:
        done = measured(options, devices if measure else ("cpu",), simulation)
        if not done.ceilings:
            return done.code  # what is kept is not what was asked for
        known, code, remark = (*done.ceilings, *known), done.code, done.no_gpu
    shown = newest(known)
    if all(found.device == "cpu" for found in shown) and not measure:
        remark = HOW
    if as_json:
        for found in shown:
            print_json(msgspec.to_builtins(found))
    else:
        print_card(shown)
        if remark:
            tell(remark)
    return code


def print_card(known: Sequence[Ceilings]) -> None:
    """Print the card as wide as the terminal."""
    width = shutil.get_terminal_size((80, 24)).columns
    for line in card(known, width, time.time_ns(), unicode=unicode()):
        tell("".join(text for text, _ in line).rstrip())


def kept(database: Path | None, *, simulated: bool) -> tuple[Ceilings, ...]:
    """Return what is kept of this machine, newest first; nothing where there is no database, and none is made."""
    if not paths.database_path(database).exists():
        return ()
    try:
        store = open_to_read(database)
    except StoreError:
        return ()
    try:
        return tuple(found for found in store.ceilings(platform.node()) if found.simulated == simulated)
    except StoreError:
        return ()
    finally:
        store.close()


def measured(options: RunOptions, devices: tuple[str, ...], simulation: Simulation | None) -> Measured:
    """Calibrate devices in an agent and keep what they reached."""
    agents = Agents(options.python, options.worker, simulated=simulation is not None)
    plan = Plan("machine", (), devices=devices, calibrate=True, simulation=simulation)
    found: list[Ceilings] = []
    no_gpu: str | None = None
    state, progress = RunState(), Progress()

    def deliver(event: Event) -> None:
        nonlocal state, no_gpu
        state = state.apply(event)
        if isinstance(event, CeilingsMeasured):
            found.append(event.ceilings)
        elif isinstance(event, DevicesFound):
            no_gpu = event.no_gpu
        progress.show(state, event)

    with saving(options) as outbox:
        session = Session(plan, agents, outbox, facts=facts())
        try:
            with signals_stop(session):
                finished = session.run(deliver)
        finally:
            progress.clear()
            agents.close()
        if finished.message:
            print_notice(f"cpugpu-tui: {finished.message} {finished.remedy}".strip())
        if remark := remark_of(outbox):
            print_notice(remark)
        return Measured(tuple(found), no_gpu, save_rest(outbox, session.signal_exit or finished.exit_code))
