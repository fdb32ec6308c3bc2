"""`cpugpu-tui devices` and `machine`: the devices that torch can use, and the machine card, saved or measured now."""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import plain, print_json, tell
from cpugpu_tui.config.parsing import check_device
from cpugpu_tui.config.paths import with_database
from cpugpu_tui.errors import EXIT_OK, StoreError, UsageError, print_notice

if TYPE_CHECKING:
    from cpugpu_tui.cli.running.options import RunOptions
    from cpugpu_tui.compare.cards import BesideCard
    from cpugpu_tui.model import Ceilings, Device, Event, Simulation
    from cpugpu_tui.state.state import RunState

HOW = "This machine has a GPU. To measure it too: cpugpu-tui machine --measure"

PATIENCE_S = 5.0
"""How long to wait for the driver's list of GPUs. Without persistence mode it must wake each GPU first."""

commands = typer.Typer()


@opt.takes(commands.command(), opt.Given, "json python simulate")
def devices(given: opt.Given) -> None:
    """List the CPU and the GPUs that torch can use.

    Each GPU is listed with its memory, NVML index and UUID.
    """
    import msgspec

    from cpugpu_tui.cli.output.table_style import console, table_of
    from cpugpu_tui.cli.running.options import found_python
    from cpugpu_tui.session.devices import DeviceSurvey

    simulated = given.simulation
    found = DeviceSurvey(found_python(given.python, simulation=simulated), simulated).ask()
    assert found is not None  # None only after a stop, which nobody requests here
    nvml_index = nvml_indices()
    if given.json:
        for device in found.devices:
            print_json({**msgspec.to_builtins(device), "nvml_index": nvml_index.get(device.uuid or "")})
        if found.no_gpu:
            print_json({"no_gpu": found.no_gpu})
        return
    rows = [
        (device.name, device.label, _memory(device), str(nvml_index.get(device.uuid or "", "–")), device.uuid or "–")
        for device in found.devices
    ]
    out = console()
    out.print(table_of(("device", "what", "memory", "NVML", "UUID"), rows))
    if found.no_gpu:
        out.print(plain(found.no_gpu), soft_wrap=True)


def _memory(device: Device) -> str:
    return "–" if device.memory_bytes is None else f"{device.memory_bytes / 2**30:.1f} GiB"


def nvml_indices() -> dict[str, int]:
    """Return NVML's index by UUID, of GPUs and MIG instances. Empty if the driver does not answer."""
    from cpugpu_tui.telemetry.nvml_thread import NvmlThread

    asker = NvmlThread()
    asker.start()
    asker.ask(set())
    answer = asker.answer(PATIENCE_S)
    asker.end()
    if answer is None:  # an NVML call hangs: abandon its thread
        return {}
    asker.join(PATIENCE_S)
    gpus = answer.gpus
    whole = {gpu.uuid: gpu.index for gpu in gpus if gpu.uuid}
    return whole | {each.uuid: gpu.index for gpu in gpus for each in gpu.instances if each.uuid}


class MachineGiven(opt.Given):
    """The options of `machine`."""

    measure: Annotated[bool, opt.flag("--measure", "Measure again.")] = False
    beside: Annotated[str | None, opt.option(
        "NAME|FILE", "Measure this machine's GPUs and set them beside a recorded one: h100, h200 or a file."
    )] = None  # fmt: skip


@opt.takes(commands.command(), MachineGiven, "measure beside device json database no_save python simulate")
def machine(given: MachineGiven) -> None:
    """Print the machine card: peak rates and fixed overheads.

    The card shows peak CPU, GPU and PCIe rates. Without a saved card they are measured now.
    This uses all cores and the GPU for about 20 s.
    With --beside, each GPU stands beside a recorded one, and what cards of one model do not explain comes first.
    """
    if given.beside is not None:
        raise typer.Exit(_beside(given, given.beside))
    import msgspec

    from cpugpu_tui.analysis.ceilings import newest
    from cpugpu_tui.cli.running.options import RunOptions, found_python
    from cpugpu_tui.transport.interpreter_search import AUTO

    python, simulated = given.python, given.simulation
    for name in given.devices:
        check_device(name)
    known = kept(given.database, simulated=simulated is not None)
    measure = given.measure or not known
    # The search for an interpreter takes time, so it runs only before a measurement.
    found = found_python(python, simulation=simulated) if measure or python != AUTO else None
    code, remark = EXIT_OK, None
    if measure:
        options = RunOptions(python=found, database=given.database, save=not given.no_save)
        ceilings, state, code = measured(options, given.devices, simulated)
        remark = state.no_gpu
        if not ceilings:  # do not show an older card instead
            if not given.json:
                print_unmeasured(state)
            raise typer.Exit(code)
        known = (*ceilings, *known)
    newest_ones = newest(known)
    if all(each.device == "cpu" for each in newest_ones) and not measure and nvml_indices():
        remark = with_database(HOW)
    if given.json:
        for each in newest_ones:
            print_json(msgspec.to_builtins(each))
    else:
        print_card(newest_ones)
        if remark:
            tell(remark)
    raise typer.Exit(code)


def _beside(given: MachineGiven, name: str) -> int:
    """Measure the GPUs of this machine, print each beside that of a reference, and return the exit code."""
    from cpugpu_tui.cli.running.options import RunOptions, found_python
    from cpugpu_tui.compare.cards import DriverReadings, beside_card
    from cpugpu_tui.render.gpus import SIMULATED
    from cpugpu_tui.state.reference import find_for

    reference = find_for(name, is_simulated=given.simulation is not None).reference
    for device in given.devices:
        check_device(device)
    if "cpu" in given.devices:
        raise UsageError("--beside compares GPUs, not the CPU.", "Leave out --device cpu.")
    options = RunOptions(
        python=found_python(given.python, simulation=given.simulation), database=given.database, save=not given.no_save
    )
    wanted = tuple("cuda" if each == "auto" else each for each in given.devices) or ("cuda",)
    driver = DriverReadings()
    ceilings, state, code = measured(options, wanted, given.simulation, driver.see)
    gpus = {device.name: device for device in state.gpus}
    if ceilings and given.simulation is not None and not given.json:
        tell(SIMULATED)
    for each in ceilings:
        card = beside_card(each, driver.of(gpus[each.device].uuid), reference)
        if given.json:
            print_json({**card.as_data(), "reference": name, "simulated": each.simulated})
        else:
            print_beside(card)
    if not ceilings and not state.gpus:
        print_notice(f"To set this CPU beside the recorded GPU: cpugpu-tui run quick --beside {name}")
    return code


def print_beside(card: BesideCard) -> None:
    """Print a GPU beside a recorded one: what is slow, and a row for each rate, overhead and limit."""
    from cpugpu_tui.cli.output.table_style import console, table_of

    out = console()
    for sentence in card.sentences:
        out.print(plain(sentence), soft_wrap=not out.is_terminal)
    rows = [(each.name, *each.texts, each.difference) for each in card.quantities]
    rows += [(each.name, each.here, each.recorded, "lower" if each.is_lower else "") for each in card.limits]
    out.print(table_of(("", ("here", False), ("recorded", False), ("here is", False)), rows))


def print_unmeasured(state: RunState) -> None:
    """Print the devices of a calibration that failed, without peak rates."""
    from cpugpu_tui.cli.output.table_style import console, table_of

    if state.devices:
        rows = [(device.name, device.label, _memory(device), "not measured") for device in state.devices]
        console().print(table_of(("device", "what", "memory", "peak rates and overheads"), rows))


def print_card(known: Sequence[Ceilings]) -> None:
    """Print the card as wide as the terminal."""
    from cpugpu_tui.analysis.ceilings import card

    width = shutil.get_terminal_size((80, 24)).columns
    for line in card(known, width, time.time_ns()):
        tell(plain("".join(text for text, _ in line).rstrip()))


def kept(database: Path | None, *, simulated: bool) -> tuple[Ceilings, ...]:
    """Return the saved ceilings of this machine, newest first. Never creates a database."""
    from cpugpu_tui.config import paths
    from cpugpu_tui.store import open_to_read

    if paths.database_path(database).exists():
        with suppress(StoreError), closing(open_to_read(database)) as store:
            return tuple(found for found in store.ceilings(platform.node()) if found.simulated == simulated)
    return ()


def measured(
    options: RunOptions, devices: tuple[str, ...], simulation: Simulation | None,
    also: Callable[[Event], None] | None = None,
) -> tuple[tuple[Ceilings, ...], RunState, int]:  # fmt: skip
    """Calibrate devices in an agent and save their ceilings.

    With `also`, which is called with each event, the driver is read too.

    Return the ceilings of each device that was measured completely, the state of the run, and the exit code.
    """
    from cpugpu_tui.cli.running.one_run import controller_facts, say_why, watched
    from cpugpu_tui.cli.running.saving import save_rest, saving, say_remark
    from cpugpu_tui.model import CeilingsMeasured, Plan
    from cpugpu_tui.session.session import Session
    from cpugpu_tui.transport.agent_pool import Agents

    plan = Plan("machine", (), devices=devices, calibrate=True, reads_driver=also is not None, simulation=simulation)
    found: list[Ceilings] = []

    def see(_state: RunState, event: Event) -> None:
        if also is not None:
            also(event)
        if isinstance(event, CeilingsMeasured):
            found.append(event.ceilings)

    with saving(options) as outbox:
        with closing(Agents(options.python, options.worker, simulated=simulation is not None)) as agents:
            session = Session(plan, agents, outbox, facts=controller_facts())
            state, finished = watched(session, agents, plan, see)
        say_why(finished)
        say_remark(outbox)
        return tuple(found), state, save_rest(outbox, session.signal_exit or finished.exit_code)
