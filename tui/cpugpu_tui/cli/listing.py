"""`list` and `devices`: what there is, as tables or JSON lines."""

from __future__ import annotations

import msgspec

from cpugpu_tui.cli.json_lines import print_json as print_json
from cpugpu_tui.cli.tables import add_columns, console, new_table, plain
from cpugpu_tui.model import Device, DevicesFound, Simulation
from cpugpu_tui.session.devices import DeviceSurvey

PATIENCE_S = 5.0
"""How long the driver may take to list its GPUs; without persistence it has to wake each of them."""


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
    found = DeviceSurvey(python, simulation).ask()
    assert found is not None  # nobody stops it
    return found, nvml_indices()


def nvml_indices() -> dict[str, int]:
    """Return NVML's index of each GPU by its UUID and those of its slices; empty without a driver that answers."""
    from cpugpu_tui.telemetry.driver import Asker

    asker = Asker()
    asker.start()
    asker.ask(set())
    answer = asker.answer(PATIENCE_S)
    asker.end()
    if answer is None:  # a call hangs: its thread is left behind
        return {}
    asker.join(PATIENCE_S)
    gpus = answer.gpus
    whole = {gpu.uuid: gpu.index for gpu in gpus if gpu.uuid}
    return whole | {each.uuid: gpu.index for gpu in gpus for each in gpu.instances if each.uuid}
