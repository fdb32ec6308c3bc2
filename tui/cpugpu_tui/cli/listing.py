"""`list`, `devices`, `history`, `show`: what there is, as tables or JSON lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from cpugpu_tui.cli.run import print_answer
from cpugpu_tui.cli.tables import add_columns, console, history_table, new_table, plain, print_state
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.model import Device, DevicesFound, Event, Plan, RunFinished, Simulation, TelemetryRead
from cpugpu_tui.runs.launch import Agents
from cpugpu_tui.runs.session import Session
from cpugpu_tui.runs.state import RunState
from cpugpu_tui.runs.store import open_to_read
from cpugpu_tui.runs.wire import encode
from cpugpu_tui.workloads import PRESETS, catalogue


def print_catalogue(*, as_json: bool) -> None:
    """Print presets, then workloads."""
    if as_json:
        for preset in PRESETS.values():
            print_json({"kind": "preset", **msgspec.to_builtins(preset)})
        for info in catalogue():
            print_json({"kind": "workload", **msgspec.to_builtins(info)})
        return
    presets = new_table()
    add_columns(presets, "preset", "runs", "claimed")
    for preset in PRESETS.values():
        presets.add_row(*map(plain, (preset.name, preset.summary, preset.claim or "–")))
    workloads = new_table()
    add_columns(workloads, "workload", "what", "size is", "variants")
    for info in catalogue():
        workloads.add_row(*map(plain, (info.name, info.summary, info.axis, ", ".join(info.variants))))
    out = console()
    out.print(presets)
    out.print(workloads)


def print_json(data: dict[str, Any]) -> None:
    """Print one JSON object on a line."""
    print(json.dumps(data, allow_nan=False))


def print_devices(python: str | None, simulation: Simulation | None, *, as_json: bool) -> None:
    """Print every device that an agent finds, and why there is no GPU if there is none.

    Raises:
        UnfitError: no agent can be started.
    """
    found, nvml_index = find_devices(python, simulation)
    if as_json:
        for device in found.devices:
            print_json({**msgspec.to_builtins(device), "nvml_index": nvml_index.get(device.uuid or "")})
        if found.no_gpu:
            print_json({"no_gpu": found.no_gpu})
        return
    table = new_table()
    add_columns(table, "device", "what", "memory", "NVML", "UUID")
    for device in found.devices:
        table.add_row(*map(plain, _device_cells(device, nvml_index)))
    out = console()
    out.print(table)
    if found.no_gpu:
        out.print(plain(found.no_gpu), soft_wrap=True)


def _device_cells(device: Device, nvml_index: dict[str, int]) -> list[str]:
    memory = "–" if device.memory_bytes is None else f"{device.memory_bytes / 2**30:.1f} GiB"
    index = nvml_index.get(device.uuid or "")
    return [device.name, device.label, memory, "–" if index is None else str(index), device.uuid or "–"]


def find_devices(python: str | None, simulation: Simulation | None) -> tuple[DevicesFound, dict[str, int]]:
    """Ask an agent for its devices (a plan without cases) and NVML for their indices."""
    agents = Agents(python, simulated=simulation is not None)
    found: list[Event] = []
    try:
        finished = Session(Plan("devices", (), ("all",), simulation=simulation), agents).run(found.append)
    finally:
        agents.close()
    for event in found:
        if isinstance(event, DevicesFound):
            return event, nvml_indices()
    raise UnfitError(finished.message or "No device was found.", finished.remedy)


def nvml_indices() -> dict[str, int]:
    """Return NVML's index of each GPU by UUID; empty without a driver."""
    from cpugpu_tui.telemetry.nvml import Nvml

    nvml = Nvml()
    try:
        gpus, _ = nvml.read()
    finally:
        nvml.close()
    return {gpu.uuid: gpu.index for gpu in gpus if gpu.uuid}


def print_history(database: Path | None, limit: int, *, as_json: bool) -> None:
    """Print past runs, newest first.

    Raises:
        StoreError: the history cannot be read.
    """
    store = open_to_read(database)
    try:
        runs = store.runs(limit)
    finally:
        store.close()
    if as_json:
        for run in runs:
            print_json(msgspec.to_builtins(run))
    elif runs:
        console().print(history_table(runs))
    else:
        print("No runs yet. `cpugpu-tui run` makes the first.")


def print_run(name: str, database: Path | None, *, as_json: bool) -> None:
    """Print a past run as its table, or as its events.

    Raises:
        StoreError: the history cannot be read.
        UsageError: there is no such run, or several.
    """
    store = open_to_read(database)
    try:
        events = store.load(store.find(name))
    finally:
        store.close()
    state = RunState()
    for event in events:
        if not isinstance(event, TelemetryRead):
            state = state.apply(event)
    if not as_json:
        print_state(state)
        return
    is_over = bool(events) and isinstance(events[-1], RunFinished)
    for event in events[:-1] if is_over else events:
        sys.stdout.buffer.write(encode(event))
    # As `run --json` has it: the end of the run is the end of the stream.
    print_answer(state)
    if is_over:
        sys.stdout.buffer.write(encode(events[-1]))
